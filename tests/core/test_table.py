"""The table, all pairs and clusters, against a plain scan."""

import errno
import io
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sizes import examples, sized

import dedup.core.table
from dedup.core.pairs import find_all, find_clusters
from dedup.core.read_write_lock import ReadWriteLock
from dedup.core.table import Match, Table
from dedup.model.errors import DedupError, StoreDamaged, UsageError

ALL = 2**64 - 1
DISTANCES = range(16)
PRESETS = ("auto", "compact", "fast")


# ----------------------------------------------------------------------------------- the oracle


def bits_between(values: np.ndarray, value: int) -> np.ndarray:
    """Return the Hamming distances of a uint64 array to a value, by counting each byte's bits."""
    counts = np.array([i.bit_count() for i in range(256)], dtype=np.uint8)
    differences = values ^ np.uint64(value)
    return counts[differences.view(np.uint8).reshape(-1, 8)].sum(axis=1)


def scan(values: np.ndarray, documents: np.ndarray, value: int, k: int) -> list[Match]:
    """Return what a probe must return, by comparing with every value."""
    distances = bits_between(values, value)
    near = np.flatnonzero(distances <= k)
    columns = distances[near].tolist(), documents[near].tolist(), values[near].tolist()
    rows = sorted(zip(*columns, strict=True))
    return [Match(document, found, distance) for distance, document, found in rows]


def scan_pairs(values: np.ndarray, k: int) -> list[list[int]]:
    """Return what find_all must return, by comparing all with all."""
    pairs = set()
    for i, value in enumerate(values.tolist()):
        for other in values[i + 1 :][bits_between(values[i + 1 :], value) <= k].tolist():
            pairs.add((min(value, other), max(value, other)))
    return [list(pair) for pair in sorted(pairs)]


def scan_clusters(values: np.ndarray, k: int) -> list[int]:
    """Return what find_clusters must return, by walking from each value to all its neighbours."""
    labels = [-1] * len(values)
    for first in range(len(values)):
        if labels[first] >= 0:
            continue
        labels[first], waiting = first, [first]
        while waiting:
            near = np.flatnonzero(bits_between(values, int(values[waiting.pop()])) <= k)
            for i in near.tolist():
                if labels[i] < 0:
                    labels[i] = first
                    waiting.append(i)
    return labels


# ------------------------------------------------------------------------------------- the data


def uniform(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return values that have nothing to do with each other."""
    return rng.integers(0, ALL, n, dtype=np.uint64, endpoint=True)


def clustered(rng: np.random.Generator, n: int, centres: int = 50, bits: int = 6) -> np.ndarray:
    """Return values within a few bits of a few centres, as real fingerprints are."""
    values = uniform(rng, centres)[rng.integers(0, centres, n)]
    for _ in range(bits):
        flips = np.uint64(1) << rng.integers(0, 64, n, dtype=np.uint64)
        values ^= np.where(rng.integers(0, 2, n) == 1, flips, np.uint64(0))
    return values


def crowded(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return values that differ in 20 bits only: all others are hot neighbourhoods."""
    return uniform(rng, n) & np.uint64(0x0000_0FF0_0000_0FFF) | np.uint64(0xABC0_0000_1234_0000)


KINDS = {"uniform": uniform, "clustered": clustered, "crowded": crowded}


def some_queries(rng: np.random.Generator, values: np.ndarray, k: int, n: int = 8) -> list[int]:
    """Return values some bits away from stored ones, up to one more than k; and the extremes."""
    queries = [0, ALL]
    for value in values[rng.integers(0, len(values), n)].tolist():
        for bit in rng.choice(64, int(rng.integers(0, k + 2)), replace=False).tolist():
            value ^= 1 << bit
        queries.append(value)
    return queries


numbers = st.one_of(
    st.integers(0, ALL), st.integers(0, 3), st.integers(ALL - 3, ALL), st.sampled_from([1 << 63])
)


@st.composite
def neighbourhoods(draw: st.DrawFn) -> list[int]:
    """Draw values that lie a few bits from a few centres, with repetitions."""
    centres = draw(st.lists(numbers, min_size=1, max_size=4))
    values = []
    for _ in range(draw(st.integers(0, 60))):
        value = draw(st.sampled_from(centres))
        for bit in draw(st.lists(st.integers(0, 63), max_size=9)):
            value ^= 1 << bit
        values.append(value)
    return values


# ---------------------------------------------------------------------------------------- exact


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", DISTANCES)
def test_promise_4_the_search_is_exact(k: int, kind: str, preset: str) -> None:
    """A probe returns every stored document within k and none beyond, at every size and k."""
    rng = np.random.default_rng(k)
    table = Table(k, preset)
    values, documents = np.empty(0, np.uint64), np.empty(0, np.uint64)
    for size in (1, 400, 600, 1_500, 30_000):
        new = KINDS[kind](rng, size - len(values))
        values = np.concatenate([values, new])
        documents = rng.permutation(len(values)).astype(np.uint64)[: len(values)]
        table = Table(k, preset)
        assert table.insert_many(values, documents) == size
        for query in some_queries(rng, values, k):
            assert table.probe(query) == scan(values, documents, query, k)
    assert table.stats().blocks > 0 or k > 6


@pytest.mark.parametrize(
    ("k", "preset"), [(5, "auto"), (3, "compact"), (6, "fast"), (7, "compact")]
)
def test_exact_while_a_table_grows_through_its_designs(k: int, preset: str) -> None:
    """Growing by single batches, through every change of design, keeps the search exact."""
    rng = np.random.default_rng(k)
    values = np.concatenate([clustered(rng, 150_000, 3_000), uniform(rng, 150_000)])
    documents = np.arange(len(values), dtype=np.uint64)
    table, designs = Table(k, preset), set()
    for start in range(0, len(values), 20_000):
        end = start + 20_000
        assert table.insert_many(values[start:end], documents[start:end]) == 20_000
        designs.add((table.stats().blocks, table.stats().keys))
        for query in some_queries(rng, values[:end], k, n=5):
            assert table.probe(query) == scan(values[:end], documents[:end], query, k)
    assert len(designs) > 1


@settings(deadline=None, max_examples=examples(150))
@given(values=neighbourhoods(), k=st.integers(0, 15), query=numbers, data=st.data())
def test_exact_for_values_chosen_to_meet(
    values: list[int], k: int, query: int, data: st.DataObject
) -> None:
    """For any values, k and limit, a probe is what a scan gives, cut at the limit."""
    table = Table(k, data.draw(st.sampled_from(PRESETS), "preset"))
    if data.draw(st.booleans(), "indexed"):  # else so few values are simply compared
        filler = uniform(np.random.default_rng(1), 1_200)
    else:
        filler = np.empty(0, np.uint64)
    stored = np.concatenate([np.array(values, dtype=np.uint64), filler])
    documents = np.arange(len(stored), dtype=np.uint64) % np.uint64(5)
    pairs = np.unique(np.stack([stored, documents], axis=1), axis=0)
    assert table.insert_many(stored, documents) == len(pairs)
    for value in [query, *values[:5]]:
        expected = scan(pairs[:, 0], pairs[:, 1], value, k)
        limit = data.draw(st.none() | st.integers(1, 9), "limit")
        matches = table.probe(value, limit)
        assert matches == expected[:limit]
        assert matches.cut == (limit is not None and len(expected) > limit)


class TableMachine(RuleBasedStateMachine):
    """Inserts, removals and probes in any order, beside a set of pairs."""

    @initialize(k=st.integers(0, 15), preset=st.sampled_from(PRESETS), filled=st.booleans())
    def start(self, k: int, preset: str, filled: bool) -> None:
        self.table, self.pairs, self.k = Table(k, preset), set(), k
        if filled:
            for i, value in enumerate(uniform(np.random.default_rng(7), 700).tolist()):
                self.pairs.add((value, i))
                self.table.insert(value, i)

    @rule(value=neighbourhoods(), document=st.integers(0, 3))
    def insert(self, value: list[int], document: int) -> None:
        for one in value:
            assert self.table.insert(one, document) == ((one, document) not in self.pairs)
            self.pairs.add((one, document))

    @rule(data=st.data(), document=st.integers(0, 3))
    def remove(self, data: st.DataObject, document: int) -> None:
        value = data.draw(st.sampled_from(sorted({v for v, _ in self.pairs}) or [0]))
        assert self.table.remove(value, document) == ((value, document) in self.pairs)
        self.pairs.discard((value, document))

    @rule(data=st.data(), bits=st.lists(st.integers(0, 63), max_size=15))
    def probe(self, data: st.DataObject, bits: list[int]) -> None:
        value = data.draw(st.sampled_from(sorted({v for v, _ in self.pairs}) or [0]))
        for bit in bits:
            value ^= 1 << bit
        expected = sorted(
            ((value ^ found).bit_count(), document, found)
            for found, document in self.pairs
            if (value ^ found).bit_count() <= self.k
        )
        assert self.table.probe(value) == [Match(d, found, bits) for bits, d, found in expected]

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "table"):
            stats = self.table.stats()
            assert len(self.table) == stats.documents == len(self.pairs)
            assert stats.values == len({value for value, _ in self.pairs})


TableMachine.TestCase.settings = settings(
    deadline=None, max_examples=examples(25), stateful_step_count=20
)
TestTableMachine = TableMachine.TestCase


@pytest.mark.parametrize("k", [0, 3, 6, 12])
def test_probe_many_is_probe_for_each(k: int) -> None:
    """A batch of probes gives what the single probes give, with and without a limit."""
    rng = np.random.default_rng(k)
    values = clustered(rng, 20_000)
    table = Table(k)
    table.insert_many(values, np.arange(20_000))
    queries = some_queries(rng, values, k, n=300)
    for limit in (None, 1, 7):
        probed = table.probe_many(queries, limit)
        offsets, documents, distances = probed
        assert (probed.cut.dtype, probed.cut.shape) == (np.bool_, (len(queries),))
        assert (offsets.dtype, documents.dtype, distances.dtype) == (np.uint64, np.uint64, np.uint8)
        assert offsets.shape == (len(queries) + 1,)
        assert len(documents) == len(distances) == offsets[-1]
        for i, query in enumerate(queries):
            own = slice(int(offsets[i]), int(offsets[i + 1]))
            expected = table.probe(query, limit)
            assert probed.cut[i] == expected.cut
            assert documents[own].tolist() == [match.document for match in expected]
            assert distances[own].tolist() == [match.distance for match in expected]


def test_a_probe_of_nothing_is_empty() -> None:
    """An empty batch, or an empty table, gives no match, and arrays of the stated types."""
    table = Table(3)
    assert table.probe(0) == []
    offsets, documents, distances = table.probe_many([])
    assert offsets.tolist() == [0]
    assert len(documents) == len(distances) == 0
    assert table.probe_many([1, 2])[0].tolist() == [0, 0, 0]
    assert table.insert_many([], []) == 0


def test_results_are_the_callers_own() -> None:
    """The arrays of one probe do not change with the next."""
    table = Table(0)
    table.insert_many([1, 2], [10, 20])
    first = table.probe_many([1])
    table.probe_many([2])
    assert [part.tolist() for part in first] == [[0, 1], [10], [0]]


def test_many_documents_of_one_value() -> None:
    """A value may have very many documents: all are found, a limit takes the first."""
    table, n = Table(3), 300_000
    documents = np.random.default_rng(1).permutation(n).astype(np.uint64)
    assert table.insert_many(np.zeros(n, np.uint64), documents) == n
    assert table.insert_many(np.zeros(n, np.uint64), documents) == 0
    assert table.stats().values == 1
    assert table.probe_many([1])[1].tolist() == list(range(n))
    assert table.probe(7, limit=3) == [Match(i, 0, 3) for i in range(3)]
    assert table.probe(7, limit=3).cut
    assert not table.probe(7, limit=n).cut
    assert all(table.remove(0, document) for document in range(1_000))
    assert table.probe(0, limit=1) == [Match(1_000, 0, 0)]


def test_removing_everything_leaves_an_empty_table() -> None:
    """What was removed is not found again, and the table can be filled anew."""
    values = clustered(np.random.default_rng(3), 3_000)
    table = Table(4)
    for _ in range(2):
        assert table.insert_many(values, np.arange(3_000)) == 3_000
        assert all(table.remove(value, i) for i, value in enumerate(values.tolist()))
        assert not table.remove(int(values[0]), 0)
        assert len(table) == 0
        assert table.stats().values == 0
        assert table.probe(int(values[0])) == []


# ------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize("k", [-1, 16, True, 3.0, "3", None])
def test_k_outside_0_to_15_is_refused(k: Any, tmp_path: Path) -> None:
    """Every function that takes k names what was given and what is allowed."""
    Table(3).save(tmp_path / "t")
    calls = (
        lambda: Table(k),
        lambda: Table.load(tmp_path / "t", k),
        lambda: find_all([], k),
        lambda: find_clusters([], k),
    )
    for call in calls:
        with pytest.raises(UsageError, match=re.escape(f"k is {k!r}") + r".*0 \.\. 15"):
            call()


def test_presets_are_three(tmp_path: Path) -> None:
    """The presets of the contract are accepted, by a new and a loaded table; others are refused."""
    assert Table(3).preset == "auto"
    for preset in PRESETS:
        table = Table(3, preset)
        assert (table.k, table.preset) == (3, preset)
        table.save(tmp_path / "t")
        assert Table.load(tmp_path / "t", 5, preset).preset == preset
    for wrong in ("best", None, ["fast"]):
        message = re.escape(f"preset is {wrong!r}") + ".*auto, compact, fast"
        with pytest.raises(UsageError, match=message):
            Table(3, wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=message):
            Table.load(tmp_path / "t", 3, wrong)  # type: ignore[arg-type]


def test_a_compact_table_takes_less_memory_than_a_fast_one() -> None:
    """The presets do what they say, where they can: with the same values, in other designs."""
    values = uniform(np.random.default_rng(2), 100_000)
    bytes_of = {}
    for preset in PRESETS:
        table = Table(3, preset)
        table.insert_many(values, np.arange(100_000))
        bytes_of[preset] = table.stats().bytes
    assert bytes_of["compact"] < bytes_of["auto"] <= bytes_of["fast"]


@pytest.mark.long
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("k", [3, 7])
def test_a_hot_neighbourhood_is_searched_exactly(k: int, preset: str) -> None:
    """Where 50,000 values differ in 16 bits only, beside others, probes there are exact."""
    rng = np.random.default_rng(k)
    hot = np.arange(50_000, dtype=np.uint64) << np.uint64(21) ^ np.uint64(0x5A5A_0000_0012_3456)
    values = np.concatenate([hot, uniform(rng, 20_000), np.array([0, ALL], dtype=np.uint64)])
    documents = np.arange(len(values), dtype=np.uint64)
    table = Table(k, preset)
    table.insert_many(values, documents)
    for query in [0, ALL, *hot[::25_000].tolist(), int(hot[7]) ^ 1, int(values[60_000]) ^ 6]:
        assert table.probe(query) == scan(values, documents, query, k)
    for i in range(0, 50_000, 5):
        assert table.remove(int(values[i]), i)
    kept = np.ones(len(values), dtype=bool)
    kept[0:50_000:5] = False
    query = int(hot[3])
    assert table.probe(query) == scan(values[kept], documents[kept], query, k)


@pytest.mark.parametrize(
    "batch",
    [
        np.array([1, -1]),
        np.array([1.0, 2.0]),
        np.array([True, False]),
        np.array([[1, 2]]),
        np.uint64(3),
        [1, -1],
        [1, 2**64],
        [1.0, 2.0],
        [True, 1],
        ["1", "2"],
        "12",
        b"12345678",
        np.array([1, 2**64], dtype=object),
        7,
    ],
    ids=repr,
)
def test_batches_that_are_not_fingerprints_are_refused(batch: Any) -> None:
    """A batch must be integers in 0 .. 2**64 - 1, in one dimension; an error says which is not."""
    table = Table(3)
    for call in (
        lambda: table.insert_many(batch, [1, 2]),
        lambda: table.insert_many([1, 2], batch),
        lambda: table.probe_many(batch),
        lambda: find_all(batch, 3),
        lambda: find_clusters(batch, 3),
    ):
        with pytest.raises(UsageError, match=r"values|documents"):
            call()
    assert len(table) == 0


def test_single_numbers_outside_64_bits_are_refused() -> None:
    """A value, document or limit that is no 64-bit number is named."""
    table = Table(3)
    for wrong in (-1, 2**64, 1.5, True, "1", None):
        with pytest.raises(UsageError, match=re.escape(f"value is {wrong!r}")):
            table.insert(wrong, 1)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=re.escape(f"document is {wrong!r}")):
            table.remove(1, wrong)  # type: ignore[arg-type]
    for wrong in (0, -1, True, 2.0):
        with pytest.raises(UsageError, match=re.escape(f"limit is {wrong!r}")):
            table.probe(1, limit=wrong)  # type: ignore[arg-type]
    assert len(table) == 0


def test_values_and_documents_must_be_as_many() -> None:
    """Batches of different lengths are refused, with both lengths."""
    with pytest.raises(UsageError, match="2 values and 3 documents"):
        Table(3).insert_many([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    "batch",
    [
        np.array([3, 5], dtype=np.int8),
        np.array([3, 5], dtype=">u8"),
        np.array([3, 0, 5, 0], dtype=np.uint64)[::2],
        np.array([3, 5], dtype=object),
        (3, 5),
        range(3, 7, 2),
        (i for i in (3, 5)),
        [np.uint64(3), np.int32(5)],
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_any_integers_make_a_batch(batch: Any) -> None:
    """Integers of every type, byte order and stride are taken as what they are."""
    table = Table(0)
    assert table.insert_many(batch, [1, 2]) == 2
    assert (table.probe(3), table.probe(5)) == ([Match(1, 3, 0)], [Match(2, 5, 0)])


# --------------------------------------------------------------------------------- save and load


def golden() -> bytes:
    """Return the example of docs/table-format.md."""
    page = Path(__file__).parents[2] / "docs" / "table-format.md"
    return bytes.fromhex(page.read_text(encoding="utf-8").split("```")[1])


def test_the_saved_form_is_that_of_its_specification(tmp_path: Path) -> None:
    """The example of docs/table-format.md is what its table is saved as, and is read."""
    table = Table(7)
    table.insert_many([ALL, 1, 1], [0, 9, 7])
    table.save(tmp_path / "t", note=5)
    assert (tmp_path / "t").read_bytes() == golden()
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


def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    """A file with any byte altered, in any bit or all, is damaged; the message names the file."""
    path, content = tmp_path / "table.ndd", golden()
    for at in range(len(content)):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            wrong = bytearray(content)
            wrong[at] ^= mask
            path.write_bytes(wrong)
            with pytest.raises(StoreDamaged, match=r"table\.ndd"):
                Table.load(path)


def test_every_cut_and_every_addition_is_refused(tmp_path: Path) -> None:
    """A file that ends early, at any byte, or goes on after its end is damaged."""
    path, content = tmp_path / "table.ndd", golden()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(StoreDamaged, match=r"table\.ndd.*cut"):
            Table.load(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(StoreDamaged, match="more bytes"):
        Table.load(path)


def test_another_format_is_named(tmp_path: Path) -> None:
    """A file that is no table, or of a later version, is refused as what it is."""
    path = tmp_path / "t"
    path.write_bytes(b"PAR1" + bytes(200))
    with pytest.raises(StoreDamaged, match="not a saved table"):
        Table.load(path)
    path.write_bytes(golden().replace(b"NDDTABLE\1", b"NDDTABLE\2"))
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
    path.write_bytes(golden())
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
    assert path.read_bytes() == golden()
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


# -------------------------------------------------------------------------------------- threads


def test_probes_are_right_while_another_thread_inserts(tmp_path: Path) -> None:
    """Four threads probe what is stored while one inserts, removes and saves: each sees it all."""
    rng = np.random.default_rng(8)
    values = clustered(rng, 60_000, 500)
    table = Table(3)
    table.insert_many(values[:5_000], np.arange(5_000))
    done, failures, probes = threading.Event(), [], [0] * 4

    def probe(number: int) -> None:
        own = np.random.default_rng(number)
        try:
            while not done.is_set() or not probes[number]:
                at = own.integers(0, 5_000, 40)
                offsets, documents, _ = table.probe_many(values[at])
                for i, document in enumerate(at.tolist()):
                    assert document in documents[offsets[i] : offsets[i + 1]]
                assert any(m.document == at[0] for m in table.probe(int(values[at[0]])))
                assert len(table) >= 5_000
                probes[number] += 1
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=probe, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for start in range(5_000, 60_000, 500):
            end = start + 500
            assert table.insert_many(values[start:end], np.arange(start, end)) == 500
            assert table.remove(int(values[start]), start)
        table.save(tmp_path / "t")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert all(probes)
    assert len(table) == 60_000 - 110
    assert len(Table.load(tmp_path / "t")) == len(table)


def test_a_large_insert_lets_probes_in() -> None:
    """A probe that comes while a million pairs are inserted is answered before they all are."""
    values = uniform(np.random.default_rng(9), 1_000_000)
    table = Table(3, "compact")
    table.insert(int(values[0]), 0)
    started, done, seen = threading.Event(), threading.Event(), []

    def insert() -> None:
        started.set()
        assert table.insert_many(values, np.arange(1_000_000)) == 999_999
        done.set()

    thread = threading.Thread(target=insert)
    thread.start()
    started.wait()
    while not done.is_set():
        assert table.probe(int(values[0]), limit=1) == [Match(0, int(values[0]), 0)]
        seen.append(len(table))
    thread.join()
    assert done.is_set()
    assert any(1 < count < 1_000_000 for count in seen)
    assert seen == sorted(seen)
    assert len(table) == 1_000_000


def test_a_read_write_lock_admits_many_readers_or_one_writer() -> None:
    """Eight threads that read and write in turns never meet a writer, and all come in."""
    lock, inside, failures = ReadWriteLock(), {"readers": 0, "writers": 0}, []
    mutex = threading.Lock()

    def come_in(number: int) -> None:
        own = np.random.default_rng(number)
        for _ in range(400):
            kind = "writers" if own.random() < 0.3 else "readers"
            with lock.writing if kind == "writers" else lock.reading:
                with mutex:
                    inside[kind] += 1
                    if inside["writers"] > 1 or (inside["writers"] and inside["readers"]):
                        failures.append(dict(inside))
                time.sleep(0)
                with mutex:
                    inside[kind] -= 1

    threads = [threading.Thread(target=come_in, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert inside == {"readers": 0, "writers": 0}


def test_a_writer_that_comes_back_lets_waiting_readers_in_first() -> None:
    """Who waits while a writer is inside comes in before the next writer: none is passed over."""
    lock, order = ReadWriteLock(), []

    def come_in(kind: str) -> None:
        with lock.writing if kind == "writer" else lock.reading:
            order.append(kind)

    threads = []
    with lock.writing:
        for kind in ("writer", "reader", "writer", "reader"):
            waiting = sum(map(len, lock.waiting.values()))
            threads.append(threading.Thread(target=come_in, args=(kind,)))
            threads[-1].start()
            while sum(map(len, lock.waiting.values())) == waiting:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == ["reader", "reader", "writer", "writer"]


# ------------------------------------------------------------------------- all pairs and clusters


@pytest.mark.sized
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", DISTANCES)
def test_all_pairs_are_those_of_a_scan(k: int, kind: str) -> None:
    """find_all gives each pair within k once, sorted, and (x, x) for a value that is repeated."""
    values = KINDS[kind](np.random.default_rng(k), sized(quick=150, full=400))
    values[:20] = values[20:40]
    values[0] = values[1] = values[2]
    found = find_all(values, k)
    assert (found.dtype, found.shape[1]) == (np.uint64, 2)
    assert found.tolist() == scan_pairs(values, k)


@pytest.mark.sized
@pytest.mark.parametrize(("kind", "k"), [("uniform", 3), ("clustered", 2), ("crowded", 1)])
def test_all_pairs_of_many_values(kind: str, k: int) -> None:
    """The same where there are enough values for block designs, also in hot neighbourhoods."""
    size = sized(quick=2_000, full=5_000)
    values = KINDS[kind](np.random.default_rng(k), size)
    if kind == "uniform":
        values[size // 2 :] = values[: size // 2] ^ np.uint64(0x8000_0001_0000_0001)
    expected = scan_pairs(values, k)
    assert expected
    assert find_all(values, k).tolist() == expected


@settings(deadline=None)
@given(values=neighbourhoods(), k=st.integers(0, 15))
def test_pairs_and_clusters_of_values_chosen_to_meet(values: list[int], k: int) -> None:
    """For any values and k, pairs and clusters are those of a scan."""
    array = np.array(values, dtype=np.uint64)
    assert find_all(values, k).tolist() == scan_pairs(array, k)
    assert find_clusters(values, k).tolist() == scan_clusters(array, k)


@pytest.mark.sized
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [0, 1, 3, 6, 15])
def test_clusters_are_connected_components(k: int, kind: str) -> None:
    """Labels are the smallest index of what a walk over neighbours reaches."""
    values = KINDS[kind](np.random.default_rng(k), sized(quick=800, full=3_000))
    values[-100:] = values[:100]
    labels = find_clusters(values, k)
    assert labels.dtype == np.uint64
    assert labels.tolist() == scan_clusters(values, k)


def test_clusters_chain() -> None:
    """Two members of a cluster may lie further apart than k, when others lie between."""
    chain = [(1 << i) - 1 for i in range(0, 64, 3)]
    assert find_clusters(chain, 3).tolist() == [0] * len(chain)
    assert find_clusters(chain, 2).tolist() == list(range(len(chain)))


def test_all_pairs_do_not_change_their_input() -> None:
    """The batch given is read, not sorted in place."""
    values = np.array([9, 3, 9, 1], dtype=np.uint64)
    find_all(values, 2)
    find_clusters(values, 2)
    assert values.tolist() == [9, 3, 9, 1]


# -------------------------------------------------------------------------------------- memory


class _Meddling:
    """A table's lock; after each reading something happens to the table."""

    def __init__(self, lock: ReadWriteLock, meddle: Callable[[], None]) -> None:
        self._lock, self._meddle, self._off = lock, meddle, False
        self.writing, self.reading = lock.writing, self

    def __enter__(self) -> None:
        self._lock.reading.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.reading.__exit__(*error)
        if not self._off:
            self._off = True
            self._meddle()
            self._off = False


def test_what_is_saved_by_parts_has_all_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs that are removed and inserted between the parts may be in it or not; all others are."""
    monkeypatch.setattr(dedup.core.table, "LIST_STEP", 16)
    draw = random.Random(7)
    table = Table(3)
    first = {(draw.getrandbits(64), draw.randrange(5)) for _ in range(400)}
    first |= {(value, document + 9) for value, document in list(first)[:40]}
    for pair in first:
        table.insert(*pair)
    gone: set[tuple[int, int]] = set()
    came: set[tuple[int, int]] = set()
    turns: list[int] = []

    def meddle() -> None:
        turns.append(len(table))
        for pair in draw.sample(sorted(first - gone), 3):
            assert table.remove(*pair)
            gone.add(pair)
        for _ in range(draw.randrange(6)):
            pair = (draw.getrandbits(64), 99)
            came.add(pair)
            assert table.insert(*pair)

    table._lock = _Meddling(table._lock, meddle)  # type: ignore[assignment]
    (tmp_path / "t").write_bytes(table.saved(5, by_parts=True))
    loaded = Table.load(tmp_path / "t")
    pairs = set(zip(*(array.tolist() for array in loaded.pairs()), strict=True))
    assert len(turns) > 15
    assert first - gone <= pairs <= first | came
    assert loaded.note == 5


def test_saved_by_parts_or_not_a_table_at_rest_gives_the_same_bytes() -> None:
    """As one table has one saved form."""
    table = Table(3)
    assert bytes(table.saved(3)) == bytes(table.saved(3, by_parts=True))
    table.insert_many([5, 5, 9, 2**64 - 1] * 2, [3, 1, 0, 2**64 - 1] * 2)
    assert bytes(table.saved(3)) == bytes(table.saved(3, by_parts=True))


GROWS = """
import re, sys
import numpy as np
from dedup import Table

def peak_bytes():  # not that of rusage, which begins at the peak of the process before
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", file.read())[1]) * 1024

values = np.random.default_rng(1).integers(0, 2**64, 300_000, dtype=np.uint64)
table, most = Table(3, sys.argv[1]), 0.0
table.insert_many(values[:1000], np.arange(1000, dtype=np.uint64))
before = peak_bytes()
for start in range(1000, len(values), 1000):
    part = values[start : start + 1000]
    table.insert_many(part, np.arange(start, start + 1000, dtype=np.uint64))
    if start > 50_000:
        most = max(most, table.stats().bytes / (start + 1000))
peak = peak_bytes() - before
print(most, peak / table.stats().bytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
@pytest.mark.parametrize(("preset", "most_bytes"), [("auto", 200), ("compact", 90)])
def test_a_table_that_grows_takes_little_more_memory_than_it_needs(preset, most_bytes):
    """At any size a value takes a bounded number of bytes, and growing never holds two indexes."""
    command = [sys.executable, "-c", GROWS, preset]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    most, peak_share = map(float, done.stdout.split())
    assert most < most_bytes
    assert peak_share < 1.35
