"""The embedded store: what lasts, through kills, damage, and other people's processes."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from sketches import sketch
from stores import document, fill, replace, run, spread

from dedup.model.errors import DedupError, StoreDamaged, StoreLocked
from dedup.store import Store
from dedup.store import documents as documents_file
from dedup.store.verify import verify_store

# --------------------------------------------------------------------------------- processes


def test_a_second_process_is_told_who_holds_the_store(tmp_path):
    """StoreLocked names the holder's process, the path, and `dedup serve`."""
    with Store.open(tmp_path):
        code = """
            import sys
            from dedup.store import Store
            from dedup.store.verify import verify_store
            from dedup.model.errors import StoreLocked
            for action in (Store.open, verify_store):
                try:
                    action(sys.argv[1])
                except StoreLocked as error:
                    print(error)
        """
        lines = run(code, tmp_path).stdout.splitlines()
        assert len(lines) == 2
        for line in lines:
            assert f"process {os.getpid()} " in line
            assert str(tmp_path / "default") in line
            assert "dedup serve" in line
        with pytest.raises(StoreLocked):
            Store.open(tmp_path)
    Store.open(tmp_path).close()


INSERTER = """
    import sys
    from dedup.store import Store
    from dedup.model.recipes import NEWEST
    from dedup.model.page import Document, PageFingerprint
    s = Store.open(sys.argv[1])
    first = int(sys.argv[2])
    for i in range(first, first + 100_000):
        page = PageFingerprint(i * 0x9E3779B97F4A7C15 % 2**64, SKETCH, 9, 300, NEWEST)
        s.insert(Document(f"http://example.com/{i}", page, "example.com", 1700000000.5))
        print(i, flush=True)
"""


def test_promise_6_what_was_acknowledged_survives_kill_9(tmp_path):
    """Every insert that returned before a kill -9 is found, by key and by value, every time."""
    acknowledged = -1
    for more in (1, 700, 1500):
        command = [
            sys.executable,
            "-c",
            textwrap.dedent(INSERTER).replace("SKETCH", repr(sketch(7))),
            str(tmp_path),
        ]
        with subprocess.Popen(
            [*command, str(acknowledged + 1)], stdout=subprocess.PIPE, text=True
        ) as child:
            for line in child.stdout:
                acknowledged = int(line)
                if (more := more - 1) <= 0 and child.poll() is None:
                    child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
        with Store.open(tmp_path) as s:
            for i in range(acknowledged + 1):
                key = f"http://example.com/{i}"
                assert s.get(key) == document(key, spread(i))
                assert (key, 0) in [(d.key, n) for d, n in s.near(spread(i))]
        assert verify_store(tmp_path).problems == []


def test_a_full_disk_loses_nothing(tmp_path):
    """A change that the disk does not take raises OSError with the path; all before it stay, and the offsets of the log."""
    file = tmp_path / "default" / "documents.mdb"
    fill(tmp_path, 500)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    s = Store.open(tmp_path)
    stored = 500
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 40_960, hard))
        with pytest.raises(OSError) as caught:
            for stored in range(500, 5000):
                one = document(f"http://example.com/{stored}", spread(stored))
                s.apply([(one.key, one)], {0: stored})
        assert s.offsets() == {0: stored - 1}
        assert Path(caught.value.filename).parent == file.parent
        assert len(s) == stored
        assert s.get("http://example.com/499") is not None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    s.insert(document("http://example.com/after", 1))
    s.close()
    report = verify_store(tmp_path)
    assert (report.documents, report.problems) == (stored + 1, [])


def test_a_folder_that_takes_no_files_is_named(tmp_path, monkeypatch):
    """On a read-only disk opening raises OSError with the path."""

    def refuse(path, *_):
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr("dedup.core.files.os.open", refuse)
    with pytest.raises(OSError, match="Read-only") as caught:
        Store.open(tmp_path)
    assert caught.value.filename == str(tmp_path / "default" / "lock")


def test_a_file_in_the_way_is_named(tmp_path):
    """Where documents.mdb cannot be opened, the error bears its path and the lock is given back."""
    (tmp_path / "default" / "documents.mdb").mkdir(parents=True)
    with pytest.raises(OSError) as caught:
        Store.open(tmp_path)
    assert "documents.mdb" in str(caught.value)
    (tmp_path / "default" / "documents.mdb").rmdir()
    Store.open(tmp_path).close()


def test_a_flush_that_fails_is_told_to_the_next_insert(tmp_path, monkeypatch, caplog):
    """An error of the background flush is logged and raised once."""
    monkeypatch.setattr("dedup.store.documents.FLUSH_SECONDS", 0.01)
    with Store.open(tmp_path) as s:
        failed = threading.Event()
        sync = s._documents.sync

        def refuse():
            failed.set()
            raise OSError(5, "Input/output error", "documents.mdb")

        monkeypatch.setattr(s._documents, "sync", refuse)
        s.insert(document("a"))
        assert failed.wait(120)
        monkeypatch.setattr(s._documents, "sync", sync)
        while s._flusher.error is None:
            time.sleep(0.01)
        with pytest.raises(OSError, match="Input/output"):
            s.insert(document("b"))
        s.insert(document("b"))
        assert len(s) == 2
    assert "not flushed" in caplog.text


# ----------------------------------------------------------------------------- damaged files


def test_a_damaged_record_is_refused_by_name(tmp_path):
    """A changed byte in a record: get() and near() raise StoreDamaged naming the file."""
    fill(tmp_path, 3)
    file = tmp_path / "default" / "documents.mdb"
    replace(file, b"http://example.com/1", b"http://exemple.com/1")
    with pytest.raises(StoreDamaged, match=r"documents\.mdb.*document 1: its checksum"):
        Store.open(tmp_path)  # three documents are a tail: each is read at opening
    report = verify_store(tmp_path)
    assert report.problem_count == 1
    assert report.problems == ["document 1: its checksum does not match"]


def test_a_damaged_record_behind_a_snapshot_is_refused_when_read(tmp_path):
    """With a snapshot the store opens, serves the sound documents, and refuses the damaged one."""
    fill(tmp_path, 1200)
    file = tmp_path / "default" / "documents.mdb"
    replace(file, b"http://example.com/77\xab", b"http://example.com/76\xab")
    with Store.open(tmp_path) as s:
        assert s.get("http://example.com/78") is not None
        for action in (
            lambda: s.get("http://example.com/77"),
            lambda: s.near(spread(77)),
            lambda: s.forget("http://example.com/77"),
            lambda: s.insert(document("http://example.com/77")),
        ):
            with pytest.raises(StoreDamaged, match=r"documents\.mdb"):
                action()
    assert verify_store(tmp_path).problem_count == 1


def test_another_file_in_its_place_is_refused(tmp_path):
    """Text where documents.mdb should be is named and refused."""
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "documents.mdb").write_bytes(b"not a database\n" * 1000)
    with pytest.raises(StoreDamaged, match=r"documents\.mdb"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (5, ["upgrade", "dedup store export", "dedup store import"]),
        (3, ["of an unreleased version", "new path or namespace"]),
    ],
)
def test_another_format_says_the_way_on(tmp_path, monkeypatch, version, advice):
    """A store of a newer or older format is refused with both numbers and what to do; it is not
    called damaged, and not a byte of it changes, whoever looks at it."""
    file = tmp_path / "default" / "documents.mdb"
    monkeypatch.setattr(documents_file, "FORMAT", version)
    Store.open(tmp_path).close()
    monkeypatch.undo()
    before = file.read_bytes()
    for look in (Store.open, verify_store):
        with pytest.raises(DedupError, match=f"format {version}.*format 4") as caught:
            look(tmp_path)
        assert not isinstance(caught.value, StoreDamaged)
        assert str(file) in str(caught.value)
        assert all(words in str(caught.value) for words in advice)
        assert ("upgrade" in str(caught.value)) == ("upgrade" in advice)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "method", ["store.segmented_table.SegmentedTable.append_one", "core.table.Table.remove_many"]
)
def test_an_index_that_fails_behind_a_commit_is_made_again(tmp_path, monkeypatch, method):
    """The insert raises, but is committed: near() finds what is stored, now and after reopening."""
    with Store.open(tmp_path) as s:
        s.insert(document("a", 0))
        with monkeypatch.context() as patch:
            patch.setattr(f"dedup.{method}", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                s.insert(document("a", 2**64 - 1))
        assert s.near(0) == []
        assert s.near(2**64 - 1) == [(document("a", 2**64 - 1), 0)]
    with Store.open(tmp_path) as s:
        assert s.near(2**64 - 1) == [(document("a", 2**64 - 1), 0)]
    assert verify_store(tmp_path).problems == []
