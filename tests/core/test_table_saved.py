"""A saved table is whole or not there, and loads as the table that was saved."""

import errno
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_oracle import ALL, KINDS, clustered, scan, some_queries, uniform

from dedup.core.table import Match, Table
from dedup.model.errors import DedupError, StoreDamaged
from dedup.store.segmented_table import Segment


def saved(path: Path) -> bytes:
    """Save a table of (1, 7), (1, 9) and (2^64 - 1, 0) with the note 5; return its bytes."""
    table = Table(7)
    table.insert_many([ALL, 1, 1], [0, 9, 7])
    table.save(path, note=5)
    return path.read_bytes()


def test_a_saved_table_is_a_segment(tmp_path: Path) -> None:
    """What is saved is read as a segment for k = 0, which test_one_segment.py compares with its specification."""
    saved(tmp_path / "t")
    segment = Segment(tmp_path / "t")
    assert (segment.k, len(segment)) == (0, 3)
    loaded = Table.load(tmp_path / "t")
    assert (loaded.note, loaded.k, len(loaded)) == (5, 3, 3)
    assert loaded.probe(1) == [Match(7, 1, 0), Match(9, 1, 0)]
    assert loaded.probe(ALL) == [Match(0, ALL, 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_table_is_the_one_that_was_saved_for_any_k(kind: str, tmp_path: Path) -> None:
    """A table saved with one k is exact when loaded with another, and saves to the same bytes."""
    rng = np.random.default_rng(5)
    values = KINDS[kind](rng, 8_000)
    values[:500] = values[500:1_000]
    documents = np.arange(8_000, dtype=np.uint64)
    table = Table(3)
    table.insert_many(values, documents)
    table.save(tmp_path / "first", note=ALL)
    for k in (0, 3, 6, 15):
        loaded = Table.load(tmp_path / "first", k)
        assert (loaded.k, loaded.note, len(loaded)) == (k, ALL, 8_000)
        for query in some_queries(rng, values, k):
            assert loaded.probe(query) == scan(values, documents, query, k)
        loaded.save(tmp_path / "second", note=ALL)
        assert (tmp_path / "second").read_bytes() == (tmp_path / "first").read_bytes()


def test_the_order_of_inserts_and_removals_leaves_no_trace(tmp_path: Path) -> None:
    """Equal tables have equal files."""
    rng = np.random.default_rng(6)
    values, documents = clustered(rng, 2_000), np.arange(2_000) % 300
    order = rng.permutation(2_000)
    one, other = Table(3), Table(9)
    one.insert_many(values, documents)
    other.insert_many(uniform(rng, 5), np.arange(5))
    other.insert_many(values[order], documents[order])
    rng = np.random.default_rng(6)
    clustered(rng, 2_000), rng.permutation(2_000)
    for i, value in enumerate(uniform(rng, 5).tolist()):
        assert other.remove(value, i)
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_another_format_is_named(tmp_path: Path) -> None:
    """A file that is no table, or of a later version, is refused as what it is."""
    path = tmp_path / "t"
    path.write_bytes(b"PAR1" + bytes(200))
    with pytest.raises(StoreDamaged, match="not a saved table"):
        Table.load(path)
    path.write_bytes(saved(path).replace(b"NDDSEGMT\2", b"NDDSEGMT\1"))
    with pytest.raises(StoreDamaged, match="version"):
        Table.load(path)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    """Loading a path that is not there raises FileNotFoundError, which is no damage."""
    with pytest.raises(FileNotFoundError) as caught:
        Table.load(tmp_path / "none")
    assert not isinstance(caught.value, DedupError)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_file(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk is full or fails, the old file stays as it was, and nothing lies beside it."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "table.ndd"
    before = saved(path)
    table = Table(3)
    table.insert(1, 1)

    class FullFile(io.FileIO):
        write = fail

    with monkeypatch.context() as patched:
        if call == "write":
            patched.setattr(os, "fdopen", FullFile)
        else:
            patched.setattr(os, call, fail)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            table.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    table.save(path)
    assert len(Table.load(path)) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_reaches_the_disk_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content is flushed before the name is replaced, and the folder after."""
    steps = []
    fsync, replace = os.fsync, os.replace

    def flush(fd: int) -> None:
        steps.append("folder" if Path(f"/proc/self/fd/{fd}").is_dir() else "file")
        fsync(fd)

    def move(source: Any, target: Any) -> None:
        steps.append("replace")
        replace(source, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("what a descriptor stands for is seen in /proc only")
    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", move)
    Table(3).save(tmp_path / "t")
    assert steps == ["file", "replace", "folder"]
