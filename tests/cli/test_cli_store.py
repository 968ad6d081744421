"""`dedup store`: what a store holds, and whether it is sound."""

import json
import os

import pytest
from command_line import call, fill

from dedup.model.recipes import NEWEST


def test_store_info(tmp_path):
    """A store's folder gives its namespace, documents and recipe, as a table and as JSON."""
    fill(tmp_path, "spider", 3)
    result = call("store", "info", tmp_path / "spider")
    assert result.exit_code == 0
    head, row = result.stdout.splitlines()
    assert head.split()[:3] == ["namespace", "documents", "recipe"]
    assert row.split()[:3] == ["spider", "3", NEWEST]
    (seen,) = json.loads(call("store", "info", "--json", tmp_path / "spider").stdout)["stores"]
    assert (seen["namespace"], seen["documents"], seen["tail_documents"]) == ("spider", 3, 3)
    assert seen["path"] == str(tmp_path / "spider")


@pytest.mark.parametrize("command", ["info", "verify"])
def test_looking_at_a_store_changes_nothing(tmp_path, command):
    """info and verify leave every file's bytes and time as they were."""
    fill(tmp_path, count=1500)  # enough for an index on disk

    def state():
        files = (f for f in (tmp_path / "default").rglob("*") if f.is_file())
        return {str(f): (f.read_bytes(), f.stat().st_mtime_ns) for f in files}

    before = state()
    assert call("store", command, tmp_path).exit_code == 0
    assert state() == before


@pytest.mark.parametrize("command", ["info", "verify"])
def test_no_store_is_an_error(tmp_path, command):
    """A folder without a store, and one that is missing, end with exit code 1 and what to do."""
    result = call("store", command, tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"dedup: {tmp_path}: there is no store here, ")
    result = call("store", command, tmp_path / "none")
    assert result.exit_code == 1
    assert f"{tmp_path / 'none'}: No such file" in result.stderr


def test_store_verify_names_a_damaged_index(tmp_path):
    """A changed byte in the index is a problem with its file's name, and exit code 1."""
    fill(tmp_path, "good")
    fill(tmp_path, "bad", 1500)
    (file,) = (tmp_path / "bad" / "values").glob("segment-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    result = call("store", "verify", tmp_path)
    assert result.exit_code == 1
    assert f"{tmp_path / 'bad'}: 1,500 documents, 0 indexed on disk: 1 problem\n" in result.stdout
    assert str(file) in result.stdout
    assert f"{tmp_path / 'good'}: 3 documents, 0 indexed on disk: sound\n" in result.stdout
    assert result.stderr.startswith(f"dedup: {tmp_path / 'bad'} is damaged; ")
    seen = json.loads(call("store", "verify", "--json", tmp_path).stdout)
    assert [(s["namespace"], s["sound"]) for s in seen["stores"]] == [
        ("bad", False),
        ("good", True),
    ]
    assert seen["sound"] is False


@pytest.mark.parametrize("command", ["info", "verify"])
def test_damaged_documents_do_not_hide_other_stores(tmp_path, command):
    """A cut and a missing documents.mdb are each an error with a name; the sound store is shown."""
    for namespace, count in (("cut", 3), ("good", 3), ("lost", 1500)):
        fill(tmp_path, namespace, count)
    os.truncate(tmp_path / "cut" / "documents.mdb", 5000)
    (tmp_path / "lost" / "documents.mdb").unlink()
    result = call("store", command, "--json", tmp_path)
    assert result.exit_code == 1
    cut, good, lost = json.loads(result.stdout)["stores"]
    assert "is damaged" in cut["error"]
    assert good["documents"] == 3
    assert "is missing or empty" in lost["error"]
    assert [line[:7] for line in result.stderr.splitlines()] == ["dedup: ", "dedup: "]
    assert "good" in call("store", command, tmp_path).stdout
