"""A store that gives up partitions of its log: their documents go, whatever ends that in the middle."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from stores import document, spread

from dedup.model.errors import StoreDamaged, UsageError
from dedup.store import Store
from dedup.store import store as store_file
from dedup.store.verify import verify_store

COUNT = 4
DOCUMENTS = {f"http://example.com/{i}": spread(i) for i in range(90)}


def partition_of(key: str) -> int:
    return int(key.rpartition("/")[2]) % COUNT


def of(held) -> dict[str, int]:
    return {key: value for key, value in DOCUMENTS.items() if partition_of(key) in held}


class Ended(BaseException):
    """Stands for the end of the process; a transaction under way is not committed."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store that has all partitions applied, and removes few documents at a time."""
    monkeypatch.setattr(store_file, "BATCH", 40)
    monkeypatch.setattr(store_file, "SMALL_BATCH", 40)
    with Store.open(tmp_path / "store") as store:
        documents = [document(key, value) for key, value in DOCUMENTS.items()]
        store.apply([(d.key, d) for d in documents], dict.fromkeys(range(COUNT), 25))
    return tmp_path / "store"


def held_by(store: Store) -> dict[str, int]:
    return {d.key: d.page.value for _, d in store._documents.batch(0, 1000)}


def found_by_value(store: Store) -> set[str]:
    return {d.key for value in DOCUMENTS.values() for d, _ in store.near(value, 0)}


def cleared(store: Store) -> list[int]:
    """Remove what was given up; return how many went with each step."""
    return list(iter(lambda: store.give_up_more(), None))


def given_up(store: Store, held) -> None:
    store.give_up(held, partition_of)
    cleared(store)


def test_only_documents_of_held_partitions_stay(folder):
    """In the file and in the table, and the next opening finds it so."""
    with Store.open(folder) as store:
        assert store.give_up({0, 2}, partition_of) == 0
        assert store.offsets() == {0: 25, 1: 0, 2: 25, 3: 0}
        steps = cleared(store)
        assert len(steps) == 3
        assert sum(steps) == len(DOCUMENTS) - len(of({0, 2}))
        assert store.offsets() == {0: 25, 2: 25}
        assert held_by(store) == of({0, 2})
        assert found_by_value(store) == of({0, 2}).keys()
    assert not verify_store(folder).problem_count
    with Store.open(folder) as store:
        assert found_by_value(store) == of({0, 2}).keys()


def test_what_is_given_up_is_not_answered_for_at_once(folder):
    """Before anything was removed, by key and by value, one or many; and so it stays on the way."""
    everything = np.array([*DOCUMENTS.values()], np.uint64)
    with Store.open(folder) as store:
        store.give_up({0, 2}, partition_of)
        while True:
            assert found_by_value(store) == of({0, 2}).keys()
            many = store.near_many(everything, 0)
            assert {each.key for answer in many.values() for each, _ in answer} == of({0, 2}).keys()
            assert all(many.values())
            assert {key for key in DOCUMENTS if key in store} == of({0, 2}).keys()
            assert {key for key in DOCUMENTS if store.get(key)} == of({0, 2}).keys()
            if store.give_up_more() is None:
                break
        assert len(store) == len(of({0, 2}))


def test_a_document_that_comes_meanwhile_does_not_leave(folder):
    """Under a key that is leaving, too: who wrote it there means it."""
    key = next(key for key in DOCUMENTS if partition_of(key) == 1)
    with Store.open(folder) as store:
        store.give_up({0, 2}, partition_of)
        store.apply([(key, document(key, DOCUMENTS[key]))], {0: 26})
        assert key in store
        cleared(store)
        assert held_by(store) == of({0, 2}) | {key: DOCUMENTS[key]}
        assert store.offsets() == {0: 26, 2: 25}


def test_what_is_held_again_is_removed_at_once(folder):
    """Its documents are to be read from the log's beginning: none is left when that starts."""
    seen = []
    with Store.open(folder) as store:
        store.give_up({0, 2}, partition_of)
    with Store.open(folder) as store:
        removed = store.give_up({0, 1}, partition_of, lambda *progress: seen.append(progress))
        assert removed == len(DOCUMENTS) - len(of({0}))
        assert store.give_up_more() is None
        assert held_by(store) == of({0})
        assert store.offsets() == {0: 25}
    assert seen == [(40, 90), (80, 90), (90, 90)]


def test_what_is_held_is_not_looked_at(folder):
    """Nothing to give up: no document is read, and nothing written."""
    with Store.open(folder) as store:
        transaction = store._documents._state.transaction
        assert store.give_up(range(COUNT), partition_of, lambda *_: pytest.fail("looked")) == 0
        assert store.give_up_more() is None
        assert store._documents._state.transaction == transaction


@pytest.mark.parametrize("held", [{0, 2}, {0, 1, 2, 3}, {1}], ids=str)
def test_cut_short_anywhere_the_next_start_goes_on(folder, tmp_path, held):
    """Also with another share by then: what is to be read from the log's beginning has no document left."""
    for step in range(5):  # the offsets, three batches, the offsets
        place = tmp_path / f"{step}"
        shutil.copytree(folder, place)
        with Store.open(place) as store:
            documents, writes = store._documents, iter(range(step))

            def once_too_often(write, writes=writes):
                def called(*given):
                    if next(writes, None) is None:
                        raise Ended
                    return write(*given)

                return called

            documents.change = once_too_often(documents.change)
            documents.note_offsets = once_too_often(documents.note_offsets)
            with pytest.raises(Ended):
                given_up(store, {0, 2})
        with Store.open(place) as store:
            offsets = store.offsets()
            whole = {p for p in range(COUNT) if offsets[p]}
            assert whole == ({0, 2} if step else {0, 1, 2, 3})
            left = held_by(store)
            assert of(whole).keys() <= left.keys()
            assert (len(left) < len(DOCUMENTS)) == (step > 1)
            given_up(store, held)
            assert held_by(store) == of(whole & held)
            assert found_by_value(store) == of(whole & held).keys()
            assert store.offsets() == dict.fromkeys(whole & held, 25)
        assert not verify_store(place).problem_count


def test_a_batch_that_cannot_be_removed_whole_stays(folder):
    """What fails in the middle of a batch is named, and nothing of its transaction goes."""
    with Store.open(folder) as store:
        real = store._documents._record
        calls = iter(range(10))

        def fails(name):
            if next(calls) == 3:
                raise ValueError("document 77 is missing")
            return real(name)

        store._documents._record = fails
        with pytest.raises(StoreDamaged, match="document 77 is missing"):
            given_up(store, {0, 2})
        assert held_by(store) == DOCUMENTS


def test_closed_in_the_middle_the_next_start_goes_on(folder):
    """As a service does that is told to stop: what was removed is, the rest is there still."""
    with Store.open(folder) as store:
        store.give_up({0, 2}, partition_of)
        store.give_up_more()
    with pytest.raises(UsageError, match="is closed"):
        store.give_up_more()
    with Store.open(folder) as store:
        assert store.offsets() == {0: 25, 1: 0, 2: 25, 3: 0}
        assert len(of({0, 2})) < len(store) < len(DOCUMENTS)
        given_up(store, {0, 2})
        assert held_by(store) == of({0, 2})
