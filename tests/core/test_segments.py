"""Tables of segments, against a plain set of pairs, also while they are written."""

import random
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from probing import probe_many
from segment_data import ALL, numbered, scan, spread
from sizes import examples

import dedup.store.segmented_table as folder_of_files
from dedup.core.numbers import Array
from dedup.core.table import Table
from dedup.store.segmented_table import SegmentedTable


def array(numbers) -> Array:
    return np.array(list(numbers), np.uint64)


def opened(folder: Path, k: int = 3) -> SegmentedTable:
    return SegmentedTable(folder, k, threading.RLock())


def flush(table: SegmentedTable, note: int | None = None) -> None:
    note = table.note + 1 if note is None else note
    table.freeze(note, Table(table.k))
    table.write(note)


class Pairs(RuleBasedStateMachine):
    """A table of segments does what a set of pairs does, written, merged and opened again anywhere."""

    folder: Path

    @initialize(k=st.sampled_from([0, 3, 6]))
    def begin(self, k):
        self.k = k
        shutil.rmtree(self.folder, ignore_errors=True)
        self.table = opened(self.folder, k)
        self.pairs: set[tuple[int, int]] = set()
        self.number = self.note = 0
        self.waits = False

    values = st.one_of(
        st.integers(0, 63).map(lambda bit: 1 << bit),
        st.integers(0, 63).map(lambda bit: ALL ^ 1 << bit),
        st.sampled_from([0, ALL, 0xFEED]),
    )

    @rule(values=st.lists(values, max_size=20))
    def append(self, values):
        documents = range(self.number, self.number + len(values))
        self.number += len(values)
        self.table.append(array(values), array(documents))
        self.pairs |= set(zip(values, documents, strict=True))

    @rule(value=values)
    def append_one(self, value):
        self.table.append_one(value, self.number)
        self.pairs.add((value, self.number))
        self.number += 1

    @rule(share=st.integers(0, 99), most=st.integers(1, 30), value=values)
    def remove(self, share, most, value):
        going = sorted(self.pairs)[share * len(self.pairs) // 100 :][:most]
        asked = [*going, (value, self.number)]  # and one that is not there
        assert self.table.remove(*map(array, zip(*asked, strict=True))) == len(going)
        assert self.table.remove(*map(array, zip(*asked, strict=True))) == 0
        self.pairs -= set(going)

    @rule()
    def freeze(self):
        self.note += 1
        self.waits = True
        self.table.freeze(self.note, Table(self.k))

    @rule()
    def write(self):
        self.table.write(self.note)
        self.waits = False
        assert self.table.note == self.note

    @rule(most=st.sampled_from([10, 1 << 25]))
    def merge(self, most):
        self.table.merge(most)

    @rule(k=st.integers(0, 6))
    def open_again(self, k):
        self.freeze()
        self.write()
        self.k = k
        self.table = opened(self.folder, k)
        assert self.table.note == self.note

    @rule(value=values, limit=st.one_of(st.none(), st.integers(1, 5)))
    def probe(self, value, limit):
        expected = scan(self.pairs, value, self.k)
        for found in (self.table.probe(value, limit), self.many(value, limit)):
            assert found == expected[:limit]
        cut = limit is not None and len(expected) > limit
        assert self.table.probe(value, limit).cut == cut
        assert probe_many(self.table, [0, value], limit).cut.tolist()[1] == cut

    def many(self, value, limit):
        offsets, documents, distances = probe_many(self.table, [ALL, value], limit)
        expected = scan(self.pairs, value, self.k)[:limit]
        part = slice(int(offsets[1]), int(offsets[2]))
        rows = zip(documents[part].tolist(), distances[part].tolist(), strict=True)
        assert list(rows) == [(match.document, match.distance) for match in expected]
        return expected

    @rule()
    def has(self):
        pairs = [*sorted(self.pairs), (0xBEEF, 0)]
        there = self.table.has(*map(array, zip(*pairs, strict=True)))
        assert list(there) == [True] * (len(pairs) - 1) + [False]

    @invariant()
    def counts(self):
        if hasattr(self, "table"):
            assert len(self.table) == len(self.pairs)
            assert self.table.stats().documents == len(self.pairs)


def test_a_table_of_segments_is_a_set_of_pairs(tmp_path):
    """Any sequence of changes, writes, merges and openings, against a plain set."""
    from hypothesis.stateful import run_state_machine_as_test

    Pairs.folder = tmp_path / "t"
    run_state_machine_as_test(
        Pairs, settings=settings(max_examples=examples(25), stateful_step_count=40, deadline=None)
    )


@pytest.mark.parametrize(("most", "removed", "left"), [(900, 0, 1), (899, 0, 2), (900, 1, 2)])
def test_a_table_is_written_with_the_segment_before_it(tmp_path, most, removed, left):
    """Unless that is too large, or a pair was removed; the answers are the same."""
    table = opened(tmp_path / "t", 0)
    table.append(range(500), range(500))
    flush(table)
    table.append(range(500, 900), range(500, 900))
    table.remove(array(range(removed)), array(range(removed)))
    table.freeze(900, Table(0))
    table.write(900, most)
    for each in (table, opened(tmp_path / "t", 0)):
        assert each.stats().segments == left
        assert [i for i in range(901) if each.probe(i)] == [*range(removed, 900)]


def test_a_merge_makes_no_segment_of_more_documents_than_it_may(tmp_path):
    """So the time and the memory that it takes are bounded."""
    table = opened(tmp_path / "t", 0)
    for start in range(0, 5_000, 500):
        table.append(range(start, start + 500), range(start, start + 500))
        flush(table)
        while table.merge(1_000):
            pass
    assert table.stats().segments == 5
    assert table.merge() and not table.merge()
    assert table.stats().segments == 1


def test_what_is_removed_while_it_is_merged_stays_removed(tmp_path, monkeypatch):
    """A pair removed before a merge, one removed during it, and one that waits to be written."""
    table = opened(tmp_path / "t")
    table.append(array([1, 2, 3]), array([1, 2, 3]))
    flush(table)
    table.append(array([4, 5]), array([4, 5]))
    table.remove(array([1]), array([1]))
    flush(table)
    table.remove(array([2]), array([2]))
    table.append(array([6, 7]), array([6, 7]))
    table.freeze(9, Table(3))
    table.remove(array([6]), array([6]))
    written = folder_of_files.write_pairs

    def meanwhile(*arguments):
        assert table.remove(array([3, 7]), array([3, 7])) == 2
        return written(*arguments)

    monkeypatch.setattr(folder_of_files, "write_pairs", meanwhile)
    assert table.merge()
    monkeypatch.undo()
    for step in (lambda: None, lambda: table.write(9), lambda: flush(table, 10), table.merge):
        step()
        assert [match.document for match in table.probe(4)] == [4, 5]
        assert len(table) == 2
    again = opened(tmp_path / "t")
    assert [match.document for match in again.probe(4)] == [4, 5]
    assert (len(again), again.note) == (2, 10)


def test_reading_only_changes_nothing(tmp_path):
    """Left-overs of a killed process stay, and segments stay as they are."""
    table = opened(tmp_path / "t", 3)
    table.append(array([1]), array([1]))
    flush(table)
    (tmp_path / "t" / "segment-0000.ndd").write_bytes(b"left over")
    before = sorted(tmp_path.rglob("*"))
    assert len(SegmentedTable(tmp_path / "t", 6, threading.RLock(), read_only=True)) == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert len(opened(tmp_path / "t")) == 1
    assert sorted(tmp_path.rglob("*")) != before


def test_segments_that_a_kill_left_unmerged_are_merged_later(tmp_path):
    """Small ones behind them do not hide them: each segment has three times what all newer ones have."""
    table = opened(tmp_path / "t", 0)
    number = 0
    for size in (600, 500, 40, 4):
        table.append(range(number, number + size), range(number, number + size))
        flush(table)
        number += size
    assert table.merge()
    assert table.stats().segments == 1
    assert all(table.has(array(range(number)), array(range(number))))


def test_it_is_used_while_it_is_written_and_merged(tmp_path):
    """Two threads probe, append and remove under the lock, while a third one writes and merges."""
    values = spread(60_000)
    lock = threading.RLock()
    table = SegmentedTable(tmp_path / "t", 3, lock)
    table.append(values[:1_000], numbered(values[:1_000]))
    done, wrong = threading.Event(), []

    def probe():
        rng = random.Random(threading.get_ident())
        while not done.is_set():
            i = rng.randrange(1_000)
            with lock:
                found = probe_many(table, values[i : i + 1] ^ np.uint64(5))[1].tolist()
                if found != [i] or [m.document for m in table.probe(int(values[i]))] != [i]:
                    wrong.append((i, found))

    def write():
        while not done.is_set():
            with lock:
                note = table.note + 1
                table.freeze(note, Table(3))
            table.write(note)
            table.merge()

    threads = [threading.Thread(target=each) for each in (probe, probe, write)]
    for thread in threads:
        thread.start()
    try:
        for start in range(1_000, len(values), 1_000):
            part = values[start : start + 1_000]
            with lock:
                table.append(part, numbered(part, start))
                assert table.remove(part[:2], numbered(part[:2], start)) == 2
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(table) == len(values) - 2 * 59
