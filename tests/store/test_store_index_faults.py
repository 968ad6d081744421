"""The index of a store in trouble: disks that refuse, threads that meet, removals without end."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from stores import document, fill, index_files, run, spread, verified

from dedup.core.table import Table
from dedup.store import Store, index, segmented_table, store
from dedup.store.segmented_table import SegmentedTable
from dedup.store.verify import verify_store


def refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


def key(i: int) -> str:
    return f"http://example.com/{i}"


# ------------------------------------------------------------------------------------- the disk


def test_a_kill_while_the_first_index_is_written_is_no_damage(tmp_path, caplog):
    """A segment that no manifest lists yet is a left-over; nothing is damaged, nothing is said to be."""
    code = """
        import os, sys
        from dedup.store import segmented_table as folder
        from dedup.model.recipes import NEWEST
        from dedup.model.page import Document, PageFingerprint
        from dedup.store import Store
        kept = folder.write_checked
        def killed(path, manifest):
            if manifest.segments:
                os._exit(9)
            kept(path, manifest)
        folder.write_checked = killed
        s = Store.open(sys.argv[1])
        for i in range(1000):
            page = PageFingerprint(i << 32, bytes(37), 9, 300, NEWEST)
            s.insert(Document(f"http://example.com/{i}", page, "example.com", 1700000000.5))
        s.close()
    """
    done = run(code, tmp_path)
    assert done.returncode == 9, done.stderr
    assert list((tmp_path / "default" / "values").glob("segment-*"))
    assert verify_store(tmp_path).problems == []
    with Store.open(tmp_path) as s:
        assert all(key(i) in s for i in range(1000))
    assert caplog.text == ""


def test_a_sound_index_is_kept_where_there_are_no_file_descriptors(tmp_path):
    """EMFILE is no damage: the opening fails with the system's error, and the index stays as it is."""
    fill(tmp_path, 1000)

    def stamps() -> list[tuple[Path, int, int]]:
        found = [(file, file.stat()) for file in index_files(tmp_path)]
        return [(file, stat.st_ino, stat.st_mtime_ns) for file, stat in found]

    before = stamps()
    assert before
    code = """
        import os, resource, sys
        from dedup.store import Store
        Store.open(sys.argv[1]).close()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        used = len(os.listdir("/proc/self/fd")) - 1
        refused = 0
        for free in range(40):
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + free, most))
            try:
                Store.open(sys.argv[1]).close()
            except OSError as error:
                assert error.errno == 24, error
                refused += 1
            else:
                break
        print(refused)
    """
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 2
    assert "rebuilding" not in done.stderr
    assert stamps() == before


def test_a_manifest_that_is_refused_leaves_no_segment_behind(tmp_path, monkeypatch, caplog):
    """On a disk that has room for a segment, but not for its listing, no left-overs pile up."""
    fill(tmp_path, 1000)
    before = index_files(tmp_path)
    with Store.open(tmp_path) as s:
        with monkeypatch.context() as full:
            full.setattr(segmented_table, "write_checked", refuse)
            for i in range(1000, 1010):
                s.insert(document(key(i), spread(i)))
                s.forget(key(i - 1000))
                s._index.write()
            assert caplog.text.count("not written") == 10
            assert index_files(tmp_path) == before
        s._index.write()
        assert verified(s).problems == []


def test_a_store_opens_on_a_full_disk_whatever_its_tail(tmp_path, monkeypatch, caplog):
    """What cannot be written stays in memory, and every document is found."""
    monkeypatch.setattr(store, "TAIL_AT_CLOSE", 10**9)
    fill(tmp_path, 2000)
    monkeypatch.setattr(index, "MEMORY_REBUILD", 500)
    monkeypatch.setattr(index, "BATCH", 100)
    with monkeypatch.context() as full:
        full.setattr(segmented_table, "write_pairs", refuse)
        with Store.open(tmp_path) as s:
            assert "not written" in caplog.text
            assert all(s.near(spread(i)) and key(i) in s for i in range(2000))
    with Store.open(tmp_path) as s:
        assert verified(s).problems == []


def test_an_index_that_is_made_again_is_of_few_files(tmp_path, monkeypatch):
    """Each is open while the store is: a thousand of them is more than a process may have."""
    monkeypatch.setattr(store, "TAIL_AT_CLOSE", 10**9)
    fill(tmp_path, 3000)
    monkeypatch.setattr(index, "MEMORY_FULL", 20)
    monkeypatch.setattr(index, "MEMORY_REBUILD", 20 * index.MEMORY_REBUILD // 400_000)
    monkeypatch.setattr(index, "BATCH", 20)
    with Store.open(tmp_path) as s:
        assert (
            2 <= len(index_files(tmp_path)) <= 62
        )  # 300 million documents: 302, where 1024 may be
        assert verified(s).problems == []


def test_removals_that_could_not_be_cleared_are_cleared_the_next_time(tmp_path, monkeypatch):
    """The index is on disk, the documents refuse the note of it: it is made up for."""
    fill(tmp_path, 1500)
    with Store.open(tmp_path) as s:
        for i in range(10):
            s.forget(key(i))
        with monkeypatch.context() as full:
            full.setattr(s._documents, "index_written", refuse)
            s._index.write()
        assert s.info()["tail_documents"] == 10
        s._index.write()
        assert s.info()["tail_documents"] == 0
    assert verify_store(tmp_path).problems == []


def test_a_left_over_that_cannot_be_deleted_is_left(tmp_path, monkeypatch, caplog):
    """As on Windows, while somebody has it mapped: the index is as good as before, and is not made again."""
    fill(tmp_path, 1500)
    left = tmp_path / "default" / "values" / "segment-0000000000000000.ndd"
    left.write_bytes(b"of a process that was killed")
    with monkeypatch.context() as windows:

        def denied(path: Path, **_: object) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        windows.setattr(Path, "unlink", denied)
        with Store.open(tmp_path, create=False) as s:
            assert s.info()["tail_documents"] == 0
    assert caplog.text == ""
    Store.open(tmp_path).close()
    assert not left.exists()


@pytest.mark.parametrize("later", ["more", "fewer", "others", "merged"])
def test_documents_of_a_backup_with_the_index_of_today(tmp_path, later):
    """An index that is newer than the documents is made again, or it fits: never another answer."""
    fill(tmp_path, 1500)
    fill(tmp_path, 1200, first=1500)
    with Store.open(tmp_path) as s:
        for i in range(10):
            s.forget(key(i))
    file = tmp_path / "default" / "documents.mdb"
    backup = file.read_bytes()
    with Store.open(tmp_path) as s:
        if later in {"more", "others"}:
            s.insert_many([document(key(i), spread(i)) for i in range(3000, 3010)])
        if later in {"fewer", "others"}:
            for i in range(100, 110):
                s.forget(key(i))
        if later != "merged":
            s._index.write()
        else:
            while s._index.values.merge() or s._index.keys.merge():
                pass
    file.write_bytes(backup)
    with Store.open(tmp_path) as s:
        assert len(s) == 2690
        assert [bool(s.near(spread(i))) for i in range(3010)] == [9 < i < 2700 for i in range(3010)]
        assert [key(i) in s for i in range(3010)] == [9 < i < 2700 for i in range(3010)]
        assert verified(s).problems == []


# ------------------------------------------------------------------------------------- threads


# ------------------------------------------------------------------------------------- growth


def test_removals_alone_are_written_too(tmp_path, monkeypatch):
    """Documents that go, and none that come: what memory holds of them is bounded."""
    monkeypatch.setattr(store, "TAIL_AT_CLOSE", 10**9)
    fill(tmp_path, 3000)
    monkeypatch.setattr(index, "MEMORY_FULL", 200)
    with Store.open(tmp_path) as s:
        s._index.write()
        for i in range(2500):
            s.forget(key(i))
            assert len(s._index._removals) <= 200
        with s._index._idle:
            s._index._idle.wait_for(lambda: not s._index._busy)
        assert s.info()["tail_documents"] <= 200
        assert not any(s.near(spread(i)) for i in range(2500))
    assert verify_store(tmp_path).problems == []


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_file_stays_open_after_many_merges(tmp_path):
    """300 segments are written and merged: neither files nor mappings are left of those that went."""
    table = SegmentedTable(tmp_path, 3, threading.RLock())
    before = open_files(), Path("/proc/self/maps").read_text().count(str(tmp_path))
    for start in range(0, 3000, 10):
        numbers = np.arange(start, start + 10, dtype=np.uint64)
        table.append(numbers, numbers)
        table.remove(numbers[:2].copy(), numbers[:2].copy())
        table.freeze(start + 10, Table(3))
        table.write(start + 10)
        while table.merge():
            pass
        table.probe(start, 3)
    held = table.stats().segments
    assert held < 8
    assert open_files() - before[0] == held
    assert Path("/proc/self/maps").read_text().count(str(tmp_path)) - before[1] == held


def test_new_segments_do_not_pile_up_while_old_ones_lose_documents(tmp_path, monkeypatch):
    """Behind by 20 segments, with one more and one of which a third was removed before each merge: it catches up."""
    table = SegmentedTable(tmp_path, 3, threading.RLock())
    monkeypatch.setattr(segmented_table, "RATIO", 0)
    for start in range(0, 1000, 20):
        numbers = np.arange(start, start + 20, dtype=np.uint64)
        table.append(numbers, numbers)
        if start >= 400:
            monkeypatch.undo()
            gone = numbers[:7] - np.uint64(400)
            table.remove(gone, gone)
        table.freeze(start + 20, Table(3))
        table.write(start + 20)
        table.merge()
    assert table.stats().segments < 8


@pytest.mark.parametrize("what", ["another store's", "swapped"])
def test_an_index_of_another_store_of_equal_size_is_rebuilt(tmp_path, caplog, what):
    """As is one whose two tables stand in each other's place: every document is found afterwards."""
    for name, first in (("mine", 0), ("other", 5000)):
        with Store.open(tmp_path / name) as made:
            made.insert_many([document(key(first + i), spread(first + i)) for i in range(2000)])
    mine, other = tmp_path / "mine" / "default", tmp_path / "other" / "default"
    if what == "swapped":
        (mine / "values").rename(mine / "aside")
        (mine / "keys").rename(mine / "values")
        (mine / "aside").rename(mine / "keys")
    else:
        shutil.rmtree(mine / "values")
        shutil.copytree(other / "values", mine / "values")
    with Store.open(tmp_path / "mine") as opened:
        assert all(opened.near(spread(i)) for i in range(2000))
        assert all(key(i) in opened for i in range(2000))
    assert "rebuilding the index" in caplog.text
    assert verify_store(tmp_path / "mine").problems == []
