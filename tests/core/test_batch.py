"""Batch search against a plain scan; the streams it takes."""

import threading
from pathlib import Path

import numpy as np
import pytest
from fingerprint_values import around, bit_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.core.bulk import batch
from dedup.core.bulk.batch import HIT, Queries
from dedup.model.errors import StoreDamaged, UsageError

WORD = st.integers(0, 2**64 - 1)


def scan(queries, stream, k, first=0):
    """Return what probe must return, by comparing every query with every fingerprint."""
    distances = bit_counts(stream[:, None] ^ queries)
    position, query = np.nonzero(distances <= k)
    distance = distances[position, query]
    order = np.lexsort((query, distance, position))
    columns = query[order], position[order] + first, distance[order]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def rows(hits):
    assert hits.dtype == HIT
    assert not hits["reserved"].any()
    return [tuple(hit)[:3] for hit in hits.tolist()]


def data(k, seed):
    """Return queries, and a stream of them, their neighbours and others."""
    rng = np.random.default_rng(seed)
    spread = rng.integers(0, 2**64, 400, dtype=np.uint64, endpoint=False)
    queries, other = around(rng, spread[:9], 400, 6), around(rng, spread[:12], 1500, 6)
    near = around(rng, queries, 500, k + 1)
    return queries, rng.permutation(np.concatenate([other, near, queries[:20]]))


@pytest.mark.parametrize(
    ("k", "filter_bytes"),
    [(0, 1 << 18), (1, 1 << 30), (3, 0), (3, 1 << 20), (4, 1 << 18), (6, 0), (6, 1 << 30)],
)
def test_the_memory_of_the_filter_changes_nothing(k, filter_bytes):
    """With any memory for the filter, none too, the same is found (native/tests/test_batch.c: it is never exceeded)."""
    queries, stream = data(k, k)
    assert rows(Queries(queries, k, filter_bytes).probe(stream)) == scan(queries, stream, k)


@given(
    queries=st.lists(WORD, max_size=40),
    masks=st.lists(st.lists(st.integers(0, 63), max_size=8), max_size=40),
    others=st.lists(WORD, max_size=20),
    k=st.integers(0, 15),
)
@settings(deadline=None, max_examples=examples(60))
def test_any_batch_is_exact(queries, masks, others, k):
    """For any queries, neighbours of them and other fingerprints, the result is that of a scan."""
    queries = np.array(queries, dtype=np.uint64)
    near = [
        int(queries[i % len(queries)]) ^ sum(1 << bit for bit in set(mask))
        for i, mask in enumerate(masks)
        if len(queries)
    ]
    stream = np.array(near + others, dtype=np.uint64)
    assert rows(Queries(queries, k).probe(stream)) == scan(queries, stream, k)


# ------------------------------------------------------------------------------------- streams


@pytest.fixture
def stream(monkeypatch):
    """Queries, a stream of many pieces with neighbours of them, and what a scan finds."""
    monkeypatch.setattr(batch, "PIECE", 500)
    queries, values = data(3, 1)
    return Queries(queries, 3), values, scan(queries, values, 3)


def collected(pieces):
    done = 0
    found = []
    for piece in pieces:
        assert piece.first == done
        done += piece.count
        found += rows(piece.hits)
    return found, done


@pytest.mark.parametrize("threads", [None, 1, 2, 5])
def test_every_kind_of_stream_gives_the_same(stream, tmp_path, threads):
    """An array, a file, and arrays one after the other are one stream."""
    index, values, expected = stream
    file = tmp_path / "stored"
    file.write_bytes(values.astype("<u8").tobytes())
    for source in (
        values,
        file,
        str(file),
        np.array_split(values, 7),
        (part for part in np.array_split(values, 3)),
    ):
        assert collected(index.probe_stream(source, threads=threads)) == (expected, len(values))


def test_progress_counts_what_is_done(stream):
    """progress is called after each piece with what is done, and the total of an array."""
    index, values, _ = stream
    seen = []
    list(index.probe_stream(values, progress=lambda *call: seen.append(call)))
    total = len(values)
    assert seen == [(min(done, total), total) for done in range(500, total + 500, 500)]


def test_a_stream_is_read_only_as_fast_as_its_matches_are_taken(stream):
    """With two threads no more than four pieces are read ahead of the one that was yielded."""
    index, values, _ = stream
    read = []
    arrays = (read.append(n) or values[:500] for n in range(100))
    for number, _ in enumerate(index.probe_stream(arrays, threads=2)):
        assert len(read) <= number + 4


def test_a_stream_left_early_leaves_no_thread(stream):
    """Closing the iterator after the first piece ends its threads."""
    index, values, _ = stream
    pieces = index.probe_stream(values, threads=3)
    next(pieces)
    pieces.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("dedup-batch")]


def test_a_failing_source_is_raised(stream):
    """What a source raises comes out, after the matches of what it gave before."""
    index, values, _ = stream

    def source():
        yield values[:500]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(index.probe_stream(source()))


# ----------------------------------------------------------------------------------- bad input


def test_bad_arguments_are_named(tmp_path):
    """What is no batch, no k, no stream or no number of threads is a UsageError."""
    for wrong in (lambda: Queries([-1], 3), lambda: Queries([1.5], 3), lambda: Queries([[1]], 3)):
        with pytest.raises(UsageError, match="values"):
            wrong()
    for k in (-1, 16, 1 << 70, "3", True):
        with pytest.raises(UsageError, match="k is"):
            Queries([1], k)
    index = Queries([1], 3)
    with pytest.raises(UsageError, match="threads is 0"):
        list(index.probe_stream([], threads=0))
    with pytest.raises(UsageError, match="source has shape"):
        list(index.probe_stream(np.zeros((2, 2), np.uint64)))
    with pytest.raises(FileNotFoundError):
        list(index.probe_stream(tmp_path / "none"))


def test_a_file_of_a_wrong_size_is_refused(tmp_path):
    """A file that ends within a fingerprint is named."""
    file = tmp_path / "stored"
    Path(file).write_bytes(b"x" * 17)
    with pytest.raises(StoreDamaged, match="stored: size 17 is not a multiple of 8"):
        list(Queries([1], 3).probe_stream(file))
