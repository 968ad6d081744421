"""The embedded store: its index on disk, and verifying."""

import logging
import shutil
import threading

import pytest
from sizes import FULL
from stores import document, fill, held_up, index_files, run, spread, verified

from dedup.store import Store, documents, index, segmented_table, store
from dedup.store.verify import verify_store

# ---------------------------------------------------------------------------------- the index


def test_the_index_is_written_when_it_is_worth_it(tmp_path):
    """999 new documents leave none, 1000 do, and reopening gives the same answers."""
    fill(tmp_path, 999)
    assert not index_files(tmp_path)
    fill(tmp_path, 1, first=999)
    assert len(index_files(tmp_path)) == 4
    with Store.open(tmp_path) as s:
        assert s.info()["tail_documents"] == 0
        assert all(s.near(spread(i)) for i in range(1000))


def test_an_index_without_news_commits_nothing(tmp_path):
    """Documents are committed once where their index is written, and segments merged; not when nothing is new."""
    fill(tmp_path, 1000)
    with Store.open(tmp_path) as s:
        s.insert_many([document(f"http://example.com/new/{i}", spread(-i)) for i in range(1000)])
        path = s.path / store.DOCUMENTS
        before = documents.read_structure(path).metas[-1].transaction
        s._index.write()
        assert len(index_files(tmp_path)) == 4  # as before: the segments were merged
        s._index.write()
        assert documents.read_structure(path).metas[-1].transaction == before + 1


def test_a_long_tail_is_read_and_then_written(tmp_path, monkeypatch):
    """A store that was killed with a long tail gets its index at the next opening."""
    monkeypatch.setattr(store, "TAIL_AT_CLOSE", 10**9)
    fill(tmp_path, 300)
    monkeypatch.setattr(index, "TAIL_AT_OPEN", 300)
    Store.open(tmp_path).close()
    assert index_files(tmp_path)


def test_an_index_beyond_memory_is_written_and_merged_behind_the_store(tmp_path, monkeypatch):
    """Many small writes become few segments, and every answer is that of a store that wrote none."""
    monkeypatch.setattr(index, "MEMORY_FIRST", 40)
    monkeypatch.setattr(index, "MEMORY_FULL", 90)
    keys = [f"http://example.com/{i}" for i in range(2000)]
    with Store.open(tmp_path) as s:
        for i, key in enumerate(keys):
            s.insert(document(key, spread(i)))
            if i % 3 == 0:
                s.insert(
                    document(keys[i // 2], spread(10_000 + i))
                )  # replaced, in a segment or not
            if i % 5 == 0:
                s.forget(keys[i // 3])
        answers = [(s.get(key), key in s, s.near(spread(i))) for i, key in enumerate(keys)]
        s._index.write()
        info = s.info()
        assert info["index_file_bytes"] > 0
        assert verified(s).problems == []
    assert verify_store(tmp_path).problems == []
    assert len(list((tmp_path / "default" / "values").glob("segment-*"))) < 8
    monkeypatch.undo()
    with Store.open(tmp_path) as s:
        assert [(s.get(key), key in s, s.near(spread(i))) for i, key in enumerate(keys)] == answers
        assert len(s) == info["documents"] == sum(there for _, there, _ in answers)
    for name in ("values", "keys"):
        shutil.rmtree(tmp_path / "default" / name)
    with Store.open(tmp_path) as s:  # made again from the documents
        assert [(s.get(key), key in s, s.near(spread(i))) for i, key in enumerate(keys)] == answers


def test_two_keys_of_one_digest_are_two_documents(tmp_path, monkeypatch):
    """A digest only leads to documents; which key each has, the documents say."""
    for module in (index, store):
        monkeypatch.setattr(module, "key_digest", lambda _: 7)
    monkeypatch.setattr(index, "MEMORY_FIRST", 3)
    keys = [f"http://example.com/{i}" for i in range(20)]
    with Store.open(tmp_path) as s:
        for i, key in enumerate(keys):
            assert key not in s
            s.insert(document(key, spread(i)))
            s._index.write()
        assert s.insert_many([document(key, spread(100 + i)) for i, key in enumerate(keys)]) == 20
        assert s.forget(keys[3])
        assert [key in s for key in keys] == [i != 3 for i in range(20)]
        assert s.get(keys[4]).page.value == spread(104)


def test_a_store_opened_for_a_larger_distance_finds_more(tmp_path):
    """Its segments are written again for it; a smaller distance needs none of that."""
    with Store.open(tmp_path, k=3) as s:
        s.insert_many([document(f"http://example.com/{i}", spread(i)) for i in range(2000)])
    with Store.open(tmp_path, k=6) as s:
        found = [key.key for key, _ in s.near(spread(7) ^ 0b111111)]
        assert found == ["http://example.com/7"]
    before = index_files(tmp_path)
    with Store.open(tmp_path, k=2) as s:
        assert not s.near(spread(7) ^ 0b111)
        assert s.near(spread(7) ^ 0b11)
        s.widen(4)
        assert s.near(spread(7) ^ 0b1111)
    assert index_files(tmp_path) == before


def test_a_store_is_used_while_its_index_is_written(tmp_path, monkeypatch):
    """Probes, inserts and removals do not wait for the files, and the index comes out right."""
    fill(tmp_path, 1000)
    writing, go_on = held_up(monkeypatch)
    with Store.open(tmp_path) as s:
        s.insert(document("http://example.com/1000", spread(1000)))
        for i in range(100):
            s.forget(f"http://example.com/{i}")
        thread = threading.Thread(target=s._index.write)
        thread.start()
        try:
            assert writing.wait(60)
            for i in range(100, 200):
                s.forget(f"http://example.com/{i}")
            s.forget("http://example.com/1000")  # it is being written
            for i in range(1001, 1200):
                s.insert(document(f"http://example.com/{i}", spread(i)))
            assert not s.near(spread(150)) and s.near(spread(1100))
            assert not s.near(spread(1000)) and "http://example.com/1000" not in s
        finally:
            go_on.set()
            thread.join()
        info = s.info()
        assert (info["documents"], info["tail_documents"]) == (999, 300)  # new ones, and removals
        s._fits = False  # nothing is written at the end: what was written is read
    assert verify_store(tmp_path).problems == []
    with Store.open(tmp_path) as s:
        assert not any(s.near(spread(i)) for i in [*range(200), 1000])
        assert all(s.near(spread(i)) for i in [*range(200, 1000), *range(1001, 1200)])


HARMS = {
    "damaged": lambda data: data[:100] + bytes([data[100] ^ 0x10]) + data[101:],
    "cut": lambda data: data[:-1],
    "emptied": lambda data: b"",
    "missing": None,
    "another version": lambda data: b"another table, of a time to come" * 100,
}
HARMED = [(h, n) for i, h in enumerate(HARMS) for n in range(6) if bool((i + n) % 3) == FULL]


@pytest.mark.sized
@pytest.mark.parametrize(("harm", "which"), HARMED)
def test_promise_6_a_damaged_index_is_named_and_made_again(tmp_path, caplog, harm, which):
    """It is made again from the documents with a warning naming the file; nothing is lost."""
    fill(tmp_path, 1000)
    with Store.open(tmp_path) as s:
        s.forget("http://example.com/3")
        s.insert(document("http://example.com/4", spread(5000)))
        s._index.write()
    files = index_files(tmp_path)
    assert len(files) >= 6
    if (harmed := HARMS[harm]) is None:
        files[which].unlink()
    else:
        files[which].write_bytes(harmed(files[which].read_bytes()))
    named = files[which].parent if harm == "missing" and which < 2 else files[which]
    assert str(named) in verify_store(tmp_path).problems[0]
    with caplog.at_level(logging.WARNING), Store.open(tmp_path) as s:
        assert str(named) in caplog.text
        assert len(s) == 999
        assert s.near(spread(3)) == []
        assert s.near(spread(4)) == []
        assert [d.key for d, _ in s.near(spread(5000))] == ["http://example.com/4"]
        assert all(s.near(spread(i)) for i in range(5, 1000))
        assert "http://example.com/3" not in s
    assert verify_store(tmp_path).problems == []


def test_an_old_index_put_back_is_noticed(tmp_path, caplog):
    """One whose removals are forgotten is of another time, and is made again."""
    fill(tmp_path, 1000)
    shutil.copytree(tmp_path / "default" / "values", tmp_path / "old")
    with Store.open(tmp_path) as s:
        for i in range(500):
            s.forget(f"http://example.com/{i}")
            s.insert(document(f"http://example.com/{2000 + i}", spread(2000 + i)))
    shutil.rmtree(tmp_path / "default" / "values")
    shutil.copytree(tmp_path / "old", tmp_path / "default" / "values")
    assert verify_store(tmp_path).problem_count > 0
    with Store.open(tmp_path) as s:
        assert "does not match documents.mdb" in caplog.text
        assert s.near(spread(3)) == []
        assert s.near(spread(2003))


SELDOM = [("after", 1), ("before", 2), ("after", 2)]
STEPS = [
    "store.documents:Documents:sync",
    "store.segmented_table:write_pairs",
    "core.files:sync_folder",
    "store.segmented_table:replace_file",
    "store.segmented_table:write_checked",
    "core.files:replace_file",
    "store.segmented_table:Folder:delete",
    "store.documents:Documents:index_written",
]


@pytest.mark.parametrize(
    ("when", "times"),
    [("before", 1), *(pytest.param(*each, marks=pytest.mark.long) for each in SELDOM)],
)
@pytest.mark.parametrize("step", STEPS)
def test_promise_6_a_kill_between_the_steps_of_writing_the_index(
    tmp_path, caplog, step, times, when
):
    """Killed before or after a step, the first time or the second, a store opens with the very same answers."""
    fill(tmp_path, 1000)
    code = """
        import importlib, os, sys
        from dedup.store import Store
        from dedup.model.recipes import NEWEST
        from dedup.model.page import Document, PageFingerprint
        s = Store.open(sys.argv[1])
        for i in range(600):
            s.forget(f"http://example.com/{i}")
            page = PageFingerprint(i, bytes([255, 7]) + bytes(35), 9, 300, NEWEST)
            s.insert(Document(f"http://example.com/{i + 100}", page, "example.com", 1700000000.5))
        s._flusher.end()
        module, *names = sys.argv[2].split(":")
        place = importlib.import_module("dedup." + module)
        for name in names[:-1]:
            place = getattr(place, name)
        kept, left = getattr(place, names[-1]), [int(sys.argv[3])]
        def step(*arguments, **named):
            left[0] -= 1
            if not left[0] and sys.argv[4] == "before":
                os._exit(9)
            result = kept(*arguments, **named)
            if not left[0]:
                os._exit(9)
            return result
        setattr(place, names[-1], step)
        s.close()
        os._exit(8)
    """
    assert run(code, tmp_path, step, times, when).returncode in {9, 8 if times == 2 else 9}
    assert verify_store(tmp_path).problems == []
    with Store.open(tmp_path) as s:
        assert caplog.text == ""
        for i in range(600, 700):  # replaced once, not forgotten afterwards
            key = f"http://example.com/{i}"
            assert s.get(key).page.value == i - 100
            assert key in [d.key for d, _ in s.near(i - 100)]
        for i in range(700, 1000):
            assert [d.key for d, n in s.near(spread(i)) if n == 0] == [f"http://example.com/{i}"]
        assert len(s) == 400
    assert verify_store(tmp_path).problems == []
    names = {path.name for path in (tmp_path / "default").iterdir()}
    assert names == {"documents.mdb", "lock", "keys", "values"}


def test_what_a_full_disk_refused_is_written_later(tmp_path, monkeypatch, caplog):
    """Tables wait in memory, every document is found, removals are not forgotten, and the next try has all."""
    monkeypatch.setattr(index, "MEMORY_FIRST", 50)
    real = segmented_table.write_pairs
    with Store.open(tmp_path) as s:
        with monkeypatch.context() as full:

            def refuse(*_):
                raise OSError(28, "No space left on device")

            full.setattr(segmented_table, "write_pairs", refuse)
            for i in range(400):
                s.insert(document(f"http://example.com/{i}", spread(i)))
                if i % 4 == 3:
                    s.forget(f"http://example.com/{i - 3}")
            s._index.write()
        assert "not written" in caplog.text
        assert [bool(s.near(spread(i))) for i in range(400)] == [i % 4 > 0 for i in range(400)]
        assert segmented_table.write_pairs is real
        s._index.write()
        assert s.info()["tail_documents"] == 0
        assert verified(s).problems == []
        s._fits = False
    caplog.clear()
    with Store.open(tmp_path) as s:
        assert [bool(s.near(spread(i))) for i in range(400)] == [i % 4 > 0 for i in range(400)]
    assert caplog.text == ""


def test_a_segment_of_removed_documents_is_written_again(tmp_path, monkeypatch):
    """Once a quarter of it is removed; and one of which nothing is left goes."""
    monkeypatch.setattr(segmented_table, "RATIO", 0)  # nothing else is merged
    fill(tmp_path, 1000)
    with Store.open(tmp_path) as s:
        for i in range(300):
            s.forget(f"http://example.com/{i}")
        s._index.write()
        assert s._index.values.stats().removed == 0
        before = index_files(tmp_path)
        for i in range(300, 400):
            s.forget(f"http://example.com/{i}")
        s._index.write()
        assert s._index.values.stats().removed == 100
        assert [f for f in index_files(tmp_path) if "segment" in f.name] == [
            f for f in before if "segment" in f.name
        ]
        for i in range(400, 1000):
            s.forget(f"http://example.com/{i}")
        s._index.write()
        assert s._index.values.stats().segments == 0
    assert verify_store(tmp_path).problems == []


# --------------------------------------------------------------------------------- verifying
