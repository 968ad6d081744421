"""Tables of segments, against a plain set of pairs, also from many threads."""

import random
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from segment_data import ALL, numbered, scan, spread
from sizes import examples

import dedup.core.bulk.segments.folder as folder_of_files
from dedup.core.bulk.segments import SegmentedTable
from dedup.core.table import Match
from dedup.model.errors import StoreLocked, UsageError


class Pairs(RuleBasedStateMachine):
    """A table of segments does what a set of pairs does, flushed, merged and opened again anywhere."""

    folder: Path

    @initialize(k=st.sampled_from([0, 3, 6]))
    def begin(self, k):
        self.k = k
        shutil.rmtree(self.folder, ignore_errors=True)
        self.table = SegmentedTable(self.folder, k, segment_documents=30)
        self.pairs: set[tuple[int, int]] = set()

    values = st.one_of(
        st.integers(0, 63).map(lambda bit: 1 << bit),
        st.integers(0, 63).map(lambda bit: ALL ^ 1 << bit),
        st.sampled_from([0, ALL, 0xFEED]),
    )
    documents = st.integers(0, 3)

    @rule(pairs=st.lists(st.tuples(values, documents), max_size=20))
    def insert(self, pairs):
        new = set(pairs) - self.pairs
        values, documents = [v for v, _ in pairs], [d for _, d in pairs]
        assert self.table.insert_many(values, documents) == len(new)
        self.pairs |= new

    @rule(value=values, document=documents)
    def remove(self, value, document):
        assert self.table.remove(value, document) == ((value, document) in self.pairs)
        self.pairs.discard((value, document))

    @rule(share=st.integers(0, 99))
    def remove_one_that_is_there(self, share):
        if self.pairs:
            pair = sorted(self.pairs)[share * len(self.pairs) // 100]
            assert self.table.remove(*pair)
            self.pairs.discard(pair)

    @rule(note=st.one_of(st.none(), st.integers(0, ALL)))
    def flush(self, note):
        self.table.flush(note)
        assert note is None or self.table.note == note

    @rule()
    def merge(self):
        self.table.merge()

    @rule()
    def open_again(self):
        self.table.close()
        self.table = SegmentedTable(self.folder, segment_documents=30)
        assert self.table.k == self.k

    @rule(value=values, limit=st.one_of(st.none(), st.integers(1, 5)))
    def probe(self, value, limit):
        expected = scan(self.pairs, value, self.k)
        for found in (self.table.probe(value, limit), self.many(value, limit)):
            assert found == expected[:limit]
        cut = limit is not None and len(expected) > limit
        assert self.table.probe(value, limit).cut == cut
        assert self.table.probe_many([0, value], limit).cut.tolist()[1] == cut

    def many(self, value, limit):
        offsets, documents, distances = self.table.probe_many([ALL, value], limit)
        expected = scan(self.pairs, value, self.k)[:limit]
        part = slice(int(offsets[1]), int(offsets[2]))
        rows = zip(documents[part].tolist(), distances[part].tolist(), strict=True)
        assert list(rows) == [(match.document, match.distance) for match in expected]
        return expected

    @invariant()
    def counts(self):
        if hasattr(self, "table"):
            assert len(self.table) == len(self.pairs)

    def teardown(self):
        if hasattr(self, "table"):
            self.table.close()


def test_a_table_of_segments_is_a_set_of_pairs(tmp_path):
    """Any sequence of inserts, removals, flushes, merges and openings, against a plain set."""
    from hypothesis.stateful import run_state_machine_as_test

    Pairs.folder = tmp_path / "t"
    run_state_machine_as_test(
        Pairs, settings=settings(max_examples=examples(25), stateful_step_count=40, deadline=None)
    )


def test_many_inserts_become_few_segments(tmp_path):
    """What fills the memory is written and merged behind the caller, and everything is found."""
    values = spread(100_000)
    with SegmentedTable(tmp_path / "t", 3, segment_documents=5_000) as table:
        for start in range(0, len(values), 2_000):
            part = slice(start, start + 2_000)
            assert table.insert_many(values[part], numbered(values[part], start)) == 2_000
        table.flush()
        stats = table.stats()
        assert stats.documents == len(values)
        assert 1 <= stats.segments <= 8
        offsets, documents, _ = table.probe_many(values[:5_000] ^ np.uint64(9))
        assert np.array_equal(np.sort(documents), numbered(values[:5_000]))
        assert len(offsets) == 5_001


def test_what_came_back_while_it_was_merged_away_is_there(tmp_path, monkeypatch):
    """A pair removed before a flush, and inserted again while a merge drops it, stays inserted."""
    table = SegmentedTable(tmp_path / "t", 3)
    table.insert_many([1, 2], [1, 2])
    table.flush()
    table.insert(3, 3)
    assert table.remove(1, 1)
    table.flush()
    written = folder_of_files.write_segment

    def meanwhile(*arguments):
        assert table.insert(1, 1)
        return written(*arguments)

    monkeypatch.setattr(folder_of_files, "write_segment", meanwhile)
    table.merge()
    monkeypatch.undo()
    assert table.probe(1, 1) == [Match(1, 1, 0)]
    assert (table.stats().segments, table.stats().removed, len(table)) == (1, 0, 3)
    table.close()
    with SegmentedTable(tmp_path / "t") as again:
        assert len(again) == 3
        assert [match.document for match in again.probe(1)] == [1, 3, 2]


def test_a_folder_belongs_to_one_table(tmp_path):
    """A second opening is refused until the first is closed."""
    with SegmentedTable(tmp_path / "t"), pytest.raises(StoreLocked):
        SegmentedTable(tmp_path / "t")
    SegmentedTable(tmp_path / "t").close()


def test_a_table_is_opened_for_its_distance_or_a_smaller_one(tmp_path):
    """A larger one is refused, and says what to do."""
    with SegmentedTable(tmp_path / "t", 4) as table:
        table.insert_many([0b1111, 0b11], [1, 2])
    with SegmentedTable(tmp_path / "t", 2) as table:
        assert [match.document for match in table.probe(0)] == [2]
        table.insert(1, 3)
    with pytest.raises(UsageError, match="k is 5; .* up to 4"):
        SegmentedTable(tmp_path / "t", 5)
    with SegmentedTable(tmp_path / "t") as table:
        assert [match.document for match in table.probe(0)] == [3, 2, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t.insert(-1, 0),
        lambda t: t.insert_many([1], [1, 2]),
        lambda t: t.insert_many(np.zeros((1, 1), np.uint64), [1]),
        lambda t: t.insert_many(np.zeros(1), [1]),
        lambda t: t.probe(2**64),
        lambda t: t.probe(1, limit=0),
        lambda t: t.probe_many([True]),
        lambda t: t.remove(1.5, 1),
        lambda t: t.flush(note=-1),
        lambda t: SegmentedTable("unused", -1),
        lambda t: SegmentedTable("unused", 16),
        lambda t: SegmentedTable("unused", segment_documents=0),
    ],
)
def test_wrong_arguments_change_nothing(tmp_path, monkeypatch, wrong):
    """Each is a UsageError."""
    monkeypatch.chdir(tmp_path)
    with SegmentedTable(tmp_path / "t") as table:
        table.insert(1, 1)
        with pytest.raises(UsageError):
            wrong(table)
        assert len(table) == 1
    assert not Path("unused").exists()


def test_a_closed_table_says_so(tmp_path):
    """Inserts, removals, flushes and merges are refused; closing again does nothing."""
    table = SegmentedTable(tmp_path / "t")
    table.close()
    table.close()
    for call in (lambda: table.insert(1, 1), lambda: table.remove(1, 1), table.flush, table.merge):
        with pytest.raises(UsageError, match="is closed"):
            call()


def test_probes_go_on_while_it_is_written_and_merged(tmp_path):
    """Two threads probe what was inserted before, while one inserts, removes, flushes and merges."""
    values = spread(60_000)
    table = SegmentedTable(tmp_path / "t", 3, segment_documents=3_000)
    table.insert_many(values[:1_000], numbered(values[:1_000]))
    done, wrong = threading.Event(), []

    def probe():
        rng = random.Random(threading.get_ident())
        while not done.is_set():
            i = rng.randrange(1_000)
            found = table.probe_many(values[i : i + 1] ^ np.uint64(5))[1].tolist()
            if found != [i] or [m.document for m in table.probe(int(values[i]))] != [i]:
                wrong.append((i, found))

    threads = [threading.Thread(target=probe) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for start in range(1_000, len(values), 1_000):
            part = values[start : start + 1_000]
            table.insert_many(part, numbered(part, start))
            assert table.remove(int(part[0]), start)
            assert table.insert(int(part[0]), start)
            assert table.remove(int(part[1]), start + 1)
            if start % 5_000 == 0:
                table.flush(start)
            if start % 20_000 == 0:
                table.merge()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(table) == len(values) - 59
    table.close()
