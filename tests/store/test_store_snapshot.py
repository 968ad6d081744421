"""The embedded store: its snapshot of the table, and verifying."""

import logging
import threading

import pytest
from stores import RECIPE, document, fill, run, spread, table_file

from dedup.store import Store, snapshot, store
from dedup.store.verify import verify_store

# -------------------------------------------------------------------------------- snapshots


def test_a_snapshot_is_written_when_it_is_worth_it(tmp_path):
    """999 new documents leave none, 1000 do, and reopening gives the same answers."""
    fill(tmp_path, 999)
    assert not table_file(tmp_path).exists()
    fill(tmp_path, 1, first=999)
    assert table_file(tmp_path).exists()
    with Store.open(tmp_path) as s:
        assert s.info()["tail_documents"] == 0
        assert all(s.near(spread(i)) for i in range(1000))


def test_a_long_tail_is_replayed_and_then_saved(tmp_path, monkeypatch):
    """A store that was killed with a long tail gets its snapshot at the next opening."""
    monkeypatch.setattr(store, "TAIL_AT_CLOSE", 10**9)
    fill(tmp_path, 300)
    monkeypatch.setattr(snapshot, "TAIL_AT_OPEN", 300)
    Store.open(tmp_path).close()
    assert table_file(tmp_path).exists()


def test_a_store_is_used_while_its_snapshot_is_written(tmp_path, monkeypatch):
    """Probes, inserts and removals do not wait for the file, and the snapshot comes out right."""
    fill(tmp_path, 1000)
    writing, go_on = threading.Event(), threading.Event()
    real = snapshot.replace_file

    def slow(path, content, *mode):
        writing.set()
        assert go_on.wait(60)
        real(path, content, *mode)

    monkeypatch.setattr(snapshot, "replace_file", slow)
    with Store.open(tmp_path) as s:
        for i in range(100):
            s.forget(f"http://example.com/{i}")
        thread = threading.Thread(target=s.snapshot, args=(0,))
        thread.start()
        try:
            assert writing.wait(60)
            for i in range(100, 200):
                s.forget(f"http://example.com/{i}")
            for i in range(1000, 1200):
                s.insert(document(f"http://example.com/{i}", spread(i)))
            assert not s.near(spread(150)) and s.near(spread(1100))
        finally:
            go_on.set()
            thread.join()
        info = s.info()
        assert (info["documents"], info["tail_documents"]) == (1000, 300)  # new ones, and removals
        s._table_fits = False  # no snapshot at the end: the one that was written is read
    assert verify_store(tmp_path).problems == []
    with Store.open(tmp_path) as s:
        assert not any(s.near(spread(i)) for i in range(200))
        assert all(s.near(spread(i)) for i in range(200, 1200))


def damaged(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path):
    path.write_bytes(b"")


def missing(path):
    path.unlink()


def another_version(path):
    path.write_bytes(b"another table, of a time to come" * 100)


@pytest.mark.parametrize("harm", [damaged, cut, emptied, missing, another_version])
def test_promise_6_a_damaged_snapshot_is_named_and_made_anew(tmp_path, caplog, harm):
    """The table is rebuilt from the documents with a warning naming the file; nothing is lost."""
    fill(tmp_path, 1000)
    with Store.open(tmp_path) as s:
        s.forget("http://example.com/3")
        s.insert(document("http://example.com/4", spread(5000)))
    harm(table_file(tmp_path))
    assert "table.ndd" in verify_store(tmp_path).problems[0]
    with caplog.at_level(logging.WARNING), Store.open(tmp_path) as s:
        assert str(table_file(tmp_path)) in caplog.text
        assert len(s) == 999
        assert s.near(spread(3)) == []
        assert s.near(spread(4)) == []
        assert [d.key for d, _ in s.near(spread(5000))] == ["http://example.com/4"]
        assert all(s.near(spread(i)) for i in range(5, 1000))
    assert verify_store(tmp_path).problems == []


def test_an_old_snapshot_put_back_is_noticed(tmp_path, caplog):
    """A snapshot whose removals are forgotten does not add up and is made anew."""
    fill(tmp_path, 1000)
    old = table_file(tmp_path).read_bytes()
    with Store.open(tmp_path) as s:
        for i in range(500):
            s.forget(f"http://example.com/{i}")
            s.insert(document(f"http://example.com/{2000 + i}", spread(2000 + i)))
    assert table_file(tmp_path).read_bytes() != old
    table_file(tmp_path).write_bytes(old)
    assert verify_store(tmp_path).problem_count > 0
    with Store.open(tmp_path) as s:
        assert "come" in caplog.text
        assert s.near(spread(3)) == []
        assert s.near(spread(2003))


@pytest.mark.parametrize(
    "step",
    [
        "store.database.documents.Documents.sync",
        "store.snapshot.Table.saved",
        "store.snapshot.replace_file",
        "core.files.os.replace",
        "store.database.documents.Documents.snapshot_taken",
    ],
)
def test_promise_6_a_kill_between_the_steps_of_a_snapshot(tmp_path, caplog, step):
    """Killed before any step of writing a snapshot, a store opens with the very same answers."""
    fill(tmp_path, 1000)
    code = """
        import importlib, os, sys
        from dedup.store import Store
        from dedup.model.recipes import NEWEST
        from dedup.model.values import Document, PageFingerprint
        s = Store.open(sys.argv[1])
        for i in range(600):
            s.forget(f"http://example.com/{i}")
            page = PageFingerprint(i, bytes([255, 7]) + bytes(35), 9, 300, NEWEST)
            s.insert(Document(f"http://example.com/{i + 100}", page, "example.com", 1700000000.5))
        s._flusher.end()
        module, *names, last = sys.argv[2].split(".")
        place = importlib.import_module("dedup." + module)
        for name in names:
            place = getattr(place, name)
        setattr(place, last, lambda *_, **__: os._exit(9))
        s.close()
    """
    assert run(code, tmp_path, step).returncode == 9
    assert verify_store(tmp_path).problems == []
    with Store.open(tmp_path) as s:
        assert caplog.text == ""
        expected = {f"http://example.com/{i}" for i in range(600, 1000)}
        for i in range(600, 700):  # replaced once, not forgotten afterwards
            key = f"http://example.com/{i}"
            assert s.get(key).page.value == i - 100
            assert key in [d.key for d, _ in s.near(i - 100)]
        for i in range(700, 1000):
            assert [d.key for d, n in s.near(spread(i)) if n == 0] == [f"http://example.com/{i}"]
        assert len(s) == len(expected)
    assert verify_store(tmp_path).problems == []
    assert {f.name for f in table_file(tmp_path).parent.iterdir()} == {
        "documents.mdb",
        "lock",
        "table.ndd",
    }


def test_a_snapshot_that_cannot_be_written_is_only_a_warning(tmp_path, monkeypatch, caplog):
    """Closing succeeds, the documents are there, the log names the file."""

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot, "replace_file", refuse)
    fill(tmp_path, 1000)
    assert "table.ndd" in caplog.text
    assert verify_store(tmp_path).documents == 1000


# --------------------------------------------------------------------------------- verifying


def test_verify_reports_progress(tmp_path, monkeypatch):
    """The callback gets the documents done, and all of them at last."""
    monkeypatch.setattr("dedup.store.verify.STEP", 400)
    fill(tmp_path, 1000)
    calls = []
    verify_store(tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [(400, 1000), (800, 1000), (1000, 1000)]


def test_verify_writes_nothing(tmp_path):
    """Verifying a closed store leaves every byte and time of its folder as it was."""
    fill(tmp_path, 1000)
    folder = tmp_path / "default"
    before = {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in folder.iterdir()}
    report = verify_store(tmp_path)
    after = {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in folder.iterdir()}
    assert before == after
    assert (report.documents, report.snapshot, report.recipe) == (1000, 1000, RECIPE)
