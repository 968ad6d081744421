"""`dedup scan` of plain text, of fields by path, and of JSON lines as other programs write them."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet
from scanning import WORDS

from dedup.scan import ScanJob, scan
from dedup.scan.records import column_path

MARKS = ("<title>", "<!--", "<textarea>", "<script", "<b>", "an arrow ->")


def texts(mark: str) -> list[dict[str, object]]:
    """Four texts about markup that begin alike and go on otherwise."""
    common = " ".join(WORDS[:45])
    return [
        {
            "meta": {"url": f"http://d{i}.example/"},
            "text": f"{common} the sign {mark} begins {' '.join(WORDS[100 * i + 50 : 100 * i + 180])}",
        }
        for i in range(4)
    ]


def statuses(path, **options):
    """The statuses of a scan's verdicts."""
    output = path.parent / "verdicts.jsonl"
    scan(ScanJob(inputs=(str(path),), output=str(output), **options))
    return [json.loads(line)["status"] for line in output.read_bytes().splitlines()]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_no_markup_is_looked_for_in_text(tmp_path, mark, kind):
    """With text_field, what looks like a tag hides nothing behind it: four texts are unique."""
    rows, path = texts(mark), tmp_path / f"texts.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    assert statuses(path, url_field="meta.url", text_field="text") == ["unique"] * 4


def test_a_null_struct_is_a_broken_row(tmp_path):
    """The row is named, and the others are read."""
    rows = [*texts("<b>"), {"meta": None, "text": "words"}]
    path = tmp_path / "texts.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    summary = scan(ScanJob(inputs=(str(path),), url_field="meta.url", text_field="text"))
    assert summary.unique == 4
    assert [(f.place, f.reason) for f in summary.faults] == [
        (
            "row 5",
            "the field 'meta.url' holds null (other names: --url-field, --html-field, --text-field)",
        )
    ]


def test_a_path_that_is_not_there_is_named(tmp_path):
    """As a column that is not there."""
    path = tmp_path / "texts.parquet"
    parquet.write_table(pa.Table.from_pylist(texts("<b>")), path)
    summary = scan(ScanJob(inputs=(str(path),), url_field="meta.link", text_field="text"))
    assert "has no column 'meta.link', only meta, text" in summary.faults[0].reason
    assert column_path(pa.schema([("a.b", pa.string())]), "a.b") == ["a.b"]
