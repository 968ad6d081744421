"""The journal of a store: small changes survive in it, are found in it, and are written once."""

import random
import shutil

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from stores import document, is_sound, spread

from dedup.model.errors import StoreDamaged
from dedup.model.page import Document
from dedup.store import Store
from dedup.store import documents as documents_file
from dedup.store.journal import ASIDE, JOURNAL
from dedup.store.store import locked_documents
from dedup.store.verify import verify_store


def key(i: int) -> str:
    return f"http://example.com/{i}"


def killed(store: Store, place) -> None:
    """Copy the files as they are now: what a kill -9 leaves."""
    shutil.copytree(store.path, place / store.namespace)
    (place / store.namespace / "lock").unlink()


def content(path) -> dict:
    with locked_documents(path / "default") as documents:
        return {each.key: each for _, each in documents.scan()}


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["insert", "forget", "batch", "fold", "index", "kill", "reopen", "widen"]),
        st.integers(0, 12),
    ),
    max_size=40,
)


def some(i: int, step: int) -> Document:
    """Return a document whose value is near those of others."""
    return document(key(i), spread(step) & 0xC000_0100_0001_0007)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHANGES)
@example([("forget", 0), ("kill", 0), ("insert", 0), ("kill", 0)])
def test_whatever_came_before_a_kill_nothing_is_lost(tmp_path_factory, changes):
    """Inserts, replacements and removals, in the journal or not: what a plain dictionary holds, after each kill."""
    path = tmp_path_factory.mktemp("journal")
    model, offsets, k = {}, {}, 2
    store = Store.open(path, k=k)
    for step, (what, i) in enumerate(changes):
        match what:
            case "insert":
                model[key(i)] = some(i, step)
                store.insert(model[key(i)])
            case "forget":
                assert store.forget(key(i)) == (model.pop(key(i), None) is not None)
            case "batch":
                batch = {key(n): some(n, step + n) for n in range(i)}
                offsets |= {i: step}
                store.apply([*batch.items()], {i: step})
                model |= batch
            case "fold":
                store._documents._fold()
            case "index":
                store._index.write()
            case "reopen":
                store.close()
                store = Store.open(path, k=k)
            case "widen":
                k = max(k, i % 7)
                store.widen(k)
            case "kill":
                path = tmp_path_factory.mktemp("killed")
                killed(store, path)
                store.close()
                assert content(path) == model  # read only, with the journal
                assert verify_store(path).problems == []
                store = Store.open(path, k=k)
        assert len(store) == len(model)
        value = some(i, step).page.value
        distances = ((each.page.value ^ value).bit_count() for each in model.values())
        expected = sorted(pair for pair in zip(distances, model, strict=True) if pair[0] <= k)
        found = [(distance, each.key) for each, distance in store.near(value)]
        assert sorted(found) == expected
        assert [distance for distance, _ in found] == [distance for distance, _ in expected]
    assert store.offsets() == offsets
    for name, each in model.items():
        assert store.get(name) == each
    folder = store.path
    store.close()
    assert not (folder / JOURNAL).exists()
    assert not (folder / ASIDE).exists()
    assert verify_store(folder.parent).problems == []


@pytest.fixture(autouse=True)
def no_flush(monkeypatch):
    """The files stand still while they are copied."""
    monkeypatch.setattr(documents_file.Flusher, "_run", lambda _: None)


@pytest.fixture
def journal(tmp_path):
    """A store as a kill leaves it: documents in documents.mdb, ten changes in the journal."""
    with Store.open(tmp_path / "live") as store:
        for i in range(30):
            store.insert(document(key(i), spread(i)))
    with Store.open(tmp_path / "live") as store:
        for i in range(30, 39):
            store.insert(document(key(i), spread(i)))
        store.forget(key(3))
        killed(store, tmp_path / "dead")
    return tmp_path / "dead"


def test_a_damaged_journal_is_named_and_refused(journal, tmp_path):
    """Any bit of it: the file is named, and nothing is served without what it held."""
    whole = (journal / "default" / JOURNAL).read_bytes()
    assert len(whole) > 1000
    chance = random.Random(7)
    places = {*range(40), *chance.sample(range(len(whole)), 60)}
    for place in sorted(places):
        bad = bytearray(whole)
        bad[place] ^= 1 << chance.randrange(8)
        (journal / "default" / JOURNAL).write_bytes(bad)
        with pytest.raises(StoreDamaged, match=JOURNAL):
            Store.open(journal)
    (journal / "default" / JOURNAL).write_bytes(whole)
    with Store.open(journal) as store:
        assert len(store) == 38


def test_an_entry_that_a_kill_cut_was_not_acknowledged(journal):
    """Wherever the write ended: the entries before it are there, and the store goes on."""
    whole = (journal / "default" / JOURNAL).read_bytes()
    expected = [*content(journal)]
    for end in range(len(whole) - 1, len(whole) - 40, -7):
        (journal / "default" / JOURNAL).write_bytes(whole[:end])
        assert [*content(journal)] == [*expected[:3], key(3), *expected[3:]]
    with Store.open(journal) as store:
        store.insert(document("after", 1))
    assert [*content(journal)][-1] == "after"
    assert verify_store(journal).problems == []


@pytest.mark.parametrize("other", ["older", "another"])
def test_a_journal_of_another_file_is_refused(journal, tmp_path, other):
    """documents.mdb of an earlier backup, or another store's: named, never mixed."""
    with Store.open(tmp_path / "other") as store:
        for i in range(30 if other == "another" else 20):
            store.insert(document(key(i), spread(i + (other == "another"))))
    shutil.copy(tmp_path / "other" / "default" / "documents.mdb", journal / "default")
    with pytest.raises(StoreDamaged, match="another store's or an older copy"):
        Store.open(journal)


def test_a_journal_without_documents_is_refused(journal):
    """documents.mdb was lost: an empty store in its place would be silent."""
    (journal / "default" / "documents.mdb").unlink()
    with pytest.raises(StoreDamaged, match=r"documents\.mdb is missing"):
        Store.open(journal)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("more", [0, 3])
def test_entries_are_applied_once_whether_documents_mdb_has_them_or_a_power_cut_took_them(
    tmp_path, more, lost
):
    """Between the commit and the end of the journal: they are skipped, in both its files, or read from them."""
    with Store.open(tmp_path / "live") as store:
        for i in range(9):
            store.insert(document(key(i), spread(i)))
        store.forget(key(0))
        shutil.copy(store.path / "documents.mdb", tmp_path)
        store._documents._fold()
        assert (store.path / ASIDE).exists()
        for i in range(9, 9 + more):
            store.insert(document(key(i), spread(i)))
        killed(store, tmp_path / "dead")
    if lost:
        shutil.copy(tmp_path / "documents.mdb", tmp_path / "dead" / "default")
    for _ in range(2):
        with Store.open(tmp_path / "dead") as store:
            assert len(store) == 8 + more
    assert verify_store(tmp_path / "dead").problems == []


def test_a_disk_that_takes_no_fold_can_be_opened(journal, monkeypatch, caplog):
    """The journal stays: everything is read from there, and the next opening folds it."""

    def full(self):
        raise OSError(28, "No space left on device", str(self._path))

    with monkeypatch.context() as disk:
        disk.setattr(documents_file.Documents, "settle", full)
        store = Store.open(journal)
        assert "the journal cannot be folded" in caplog.text
        assert len(store) == 38
        assert store.get(key(35)) is not None
        assert store.get(key(3)) is None
        store.insert(document("more", 5))
    store.close()
    with Store.open(journal) as store:
        assert len(store) == 39
        assert store.get("more") is not None


def test_what_is_written_is_written_once(tmp_path):
    """A slow crawl: a change reaches documents.mdb with a thousand others, not by itself."""
    with Store.open(tmp_path) as store:
        for i in range(3000):
            store.insert(document(key(i), spread(i)))
        transactions = store._documents._env.info()["last_txnid"]
    assert transactions < 10


# ------------------------------------------------------------------------------------ half-made


@pytest.mark.parametrize("made", [0, 1, 2, 3])
def test_promise_6_a_store_whose_making_was_interrupted_is_made_again(tmp_path, made):
    """LMDB's file without its databases, or without a state: nothing was ever in it."""
    import lmdb

    folder = tmp_path / "default"
    folder.mkdir()
    env = lmdb.open(str(folder / "documents.mdb"), subdir=False, max_dbs=3, lock=False)
    for name in documents_file.DATABASES[:made]:
        env.open_db(name)
    env.close()
    with Store.open(tmp_path) as store:
        store.insert(document(key(0), spread(0)))
    assert is_sound(tmp_path, 1)


@pytest.mark.parametrize(
    "call", ["lmdb.open", "encode_state", "sync_folder", "lmdb.Environment.open_db"]
)
def test_a_making_that_fails_anywhere_leaves_nothing_in_the_way(tmp_path, monkeypatch, call):
    """No address space, a full disk: the error is named, and the same call works afterwards."""

    def fails(*_, **__):
        raise OSError(12, "Cannot allocate memory", "somewhere")

    with monkeypatch.context() as short:
        if call == "lmdb.Environment.open_db":
            sound = documents_file.lmdb.open

            class Environment:
                def __init__(self, *given, **named):
                    self._env = sound(*given, **named)

                open_db = fails

                def close(self):
                    self._env.close()

            short.setattr(documents_file.lmdb, "open", Environment)
        else:
            short.setattr(f"dedup.store.documents.{call}", fails)
        with pytest.raises(OSError, match="Cannot allocate memory"):
            Store.open(tmp_path)
    with Store.open(tmp_path) as store:
        store.insert(document(key(0), spread(0)))
    assert is_sound(tmp_path, 1)


def test_a_damaged_store_is_not_taken_for_a_half_made_one(tmp_path):
    """A small store whose tree of names is lost held documents: it is refused, and not made again."""
    with Store.open(tmp_path) as store:
        store.insert(document("a", 1))
    file = tmp_path / "default" / "documents.mdb"
    data = bytearray(file.read_bytes())
    for meta in (0, 4096):
        data[meta + 16 + 8 + 16 + 48 + 40 : meta + 16 + 8 + 16 + 48 + 48] = b"\xff" * 8  # no root
    file.write_bytes(data)
    with pytest.raises(StoreDamaged, match=r"documents\.mdb"):
        Store.open(tmp_path)
