"""Documents of an earlier recipe are read: later fields have their defaults.

The store's recipe, words-0-4, is retired: its documents can be exported, and compared with no others.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from command_line import call

import dedup
from dedup.model.forms import ALWAYS, RECORD, Record, of_record, to_record
from dedup.model.page import Document, PageFingerprint
from dedup.store.transfer import decode_line, export_lines

ARCHIVE = Path(__file__).with_name("store-of-words-0-4.tar.gz")
RECIPE = "words-0-4"

DOCUMENTS = [
    ("http://example.com/a", 1, 0, "example.com", "item", True),
    ("http://example.com/ü", 65, 7, "example.com", "", False),
    ("http://example.org/c", 129, 2**64 - 1, "example.org", "list", True),
]


@pytest.fixture
def folder(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_documents_of_an_earlier_recipe_are_read(folder):
    """Every field is what was written, in the record and in the exported line."""
    lines = list(export_lines(folder / "old", pytest.fail))
    for line, (key, value, links, domain, kind, paid) in zip(lines, DOCUMENTS, strict=True):
        namespace, found = decode_line(line)
        page = PageFingerprint(
            value, bytes([value]) * 37, value << 32 | 1, 100 + value, RECIPE, links=links
        )
        assert namespace == "old"
        assert found == Document(key, page, domain, found.inserted_seconds, kind, paid)
        assert found.inserted_seconds > 1.7e9


def test_a_store_of_a_retired_recipe_is_refused_by_name(folder):
    """The message says what to do; the store is left as it is, for export; a new namespace works beside it."""
    before = (folder / "old" / "documents.mdb").read_bytes()
    with pytest.raises(dedup.RecipeMismatch, match="words-0-4") as refused:
        dedup.open(folder, namespace="old")
    assert "use a new path or namespace" in str(refused.value)
    assert "`dedup store export` still reads it" in str(refused.value)
    assert (folder / "old" / "documents.mdb").read_bytes() == before
    done = call("store", "export", folder)
    assert done.exit_code == 0, done.stderr
    assert [decode_line(line.encode())[1].key for line in done.stdout.splitlines()] == [
        key for key, *_ in DOCUMENTS
    ]
    with dedup.open(folder, namespace="new") as detector:
        assert detector.info()["documents"] == 0


def test_a_record_without_later_fields_is_the_bytes_of_before():
    """Sparse fields at their default are not in a record; one in the middle is nil."""
    page = PageFingerprint(1, bytes(37), 2, 3, RECIPE)
    record = to_record(Document("k", page, "d", 5.0))
    assert record == ("k", "d", 5.0, 1, bytes(37), 2, 3, "", True)
    read = Record(*record)
    assert of_record(read, RECIPE) == Document("k", page, "d", 5.0)
    always = {field.name for field in ALWAYS} - {"recipe"}
    assert {field.name for field in RECORD[: len(record)]} == always
