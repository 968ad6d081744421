"""Batch search against a plain scan; the streams it takes; checkpoints and what they survive."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from fingerprint_values import around, generate
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.core.bulk import batch
from dedup.core.bulk.batch import HIT, Queries
from dedup.core.numbers import bit_counts
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


def data(kind, k, seed):
    """Return (queries, stream) of a kind: spread, clustered, one neighbourhood, the extremes."""
    rng = np.random.default_rng(seed)
    spread = rng.integers(0, 2**64, 400, dtype=np.uint64, endpoint=False)
    if kind == "spread":
        queries, other = spread, generate(seed, 1500)
    elif kind == "clustered":
        queries = around(rng, spread[:9], 400, 6)
        other = around(rng, spread[:12], 1500, 6)
    elif kind == "crowded high":
        queries = np.uint64(0xFEEDFACE << 32) | rng.integers(0, 1 << 12, 400, np.uint64)
        other = np.uint64(0xFEEDFACE << 32) | rng.integers(0, 1 << 14, 1500, np.uint64)
    elif kind == "crowded low":
        queries = rng.integers(0, 1 << 12, 400, np.uint64) << np.uint64(50) | np.uint64(0x1234)
        other = rng.integers(0, 1 << 14, 1500, np.uint64) << np.uint64(50) | np.uint64(0x1234)
    else:
        ends = np.array([0, 2**64 - 1], dtype=np.uint64)
        queries, other = around(rng, ends, 60, 3), around(rng, ends, 600, 5)
    near = around(rng, queries, 500, k + 1)
    stream = np.concatenate([other, near, queries[:20]])
    return queries, rng.permutation(stream)


KINDS = ["spread", "clustered", "crowded high", "crowded low", "extremes"]


@pytest.mark.parametrize(
    ("kind", "k"),
    [(kind, k) for kind in KINDS for k in range(9)] + [("clustered", 12), ("spread", 15)],
)
def test_a_batch_finds_what_a_scan_finds(kind, k):
    """Every query within k of a streamed fingerprint is found, with its distance, and no other."""
    queries, stream = data(kind, k, 100 * k + len(kind))
    found = Queries(queries, k).probe(stream, 7)
    assert rows(found) == scan(queries, stream, k, 7)


@pytest.mark.parametrize("k", [0, 1, 3, 4, 6])
@pytest.mark.parametrize("filter_bytes", [0, 1 << 18, 1 << 20, 1 << 30])
def test_the_memory_of_the_filter_changes_nothing(k, filter_bytes):
    """With any memory for the filter, none too, the same is found; it is never exceeded."""
    queries, stream = data("clustered", k, k)
    index = Queries(queries, k, filter_bytes)
    assert rows(index.probe(stream)) == scan(queries, stream, k)
    bits = index.stats().filter_bits
    assert (2 if k else 1) * 2**bits / 8 <= filter_bytes if bits else index.stats().passing == 1


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4])
def test_each_pair_of_flips_is_found(k):
    """A stream with every difference of up to min(k, 2) bits from one query, and k anywhere."""
    query = np.uint64(0x0123456789ABCDEF)
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    masks = [np.zeros(1, np.uint64), bits, np.unique(bits[:, None] ^ bits)]
    stream = np.concatenate([query ^ m for m in masks])
    queries = np.concatenate([generate(5, 1000), [query]])
    found = Queries(queries, k).probe(stream)
    expected = np.flatnonzero(bit_counts(stream ^ query) <= k)
    assert found["position"].tolist() == expected.tolist()
    assert set(found["query"].tolist()) == {1000}


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


def test_repeated_queries_are_found_each():
    """A query given three times matches three times, and so does a repeated fingerprint."""
    index = Queries([5, 9, 5, 5], 0)
    assert rows(index.probe([5, 1, 5])) == [(q, p, 0) for p in (0, 2) for q in (0, 2, 3)]


def test_no_queries_find_nothing():
    """Without queries, or without a stream, there are no matches."""
    assert len(Queries([], 3).probe(generate(1, 5000))) == 0
    assert len(Queries([1], 3).probe([])) == 0
    assert list(Queries([1], 3).probe_stream([])) == []


# ------------------------------------------------------------------------------------- streams


@pytest.fixture
def stream(monkeypatch):
    """Queries, a stream of many pieces with neighbours of them, and what a scan finds."""
    monkeypatch.setattr(batch, "PIECE", 500)
    queries, values = data("clustered", 3, 1)
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
    """An array, a file, arrays one after the other and a function of a position are one stream."""
    index, values, expected = stream
    file = tmp_path / "stored"
    file.write_bytes(values.astype("<u8").tobytes())
    for source in (
        values,
        file,
        str(file),
        np.array_split(values, 7),
        (part for part in np.array_split(values, 3)),
        lambda first: np.array_split(values[first:], 4),
    ):
        assert collected(index.probe_stream(source, threads=threads)) == (expected, len(values))


def test_each_hit_comes_with_its_fingerprint(stream):
    """stored holds the fingerprint of the stream at the position of each hit."""
    index, values, _ = stream
    for piece in index.probe_stream(np.array_split(values, 3)):
        assert piece.stored.tolist() == values[piece.hits["position"].astype(int)].tolist()


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


# --------------------------------------------------------------------------------- checkpoints


def test_a_stream_resumes_where_it_was(stream, tmp_path, monkeypatch):
    """After each piece the stream may end; with the checkpoint the rest follows, every kind."""
    monkeypatch.setattr(batch, "REMEMBER_SECONDS", 0)
    index, values, expected = stream
    file = tmp_path / "stored"
    file.write_bytes(values.astype("<u8").tobytes())
    for number, make in enumerate(
        (
            lambda: values,
            lambda: file,
            lambda: np.array_split(values, 7),
            lambda: lambda done: [values[done:]],
        )
    ):
        point = tmp_path / f"checkpoint{number}"
        taken = {}
        for _ in range(20):
            for count, piece in enumerate(index.probe_stream(make(), checkpoint=point)):
                taken[piece.first] = rows(piece.hits)
                if count == 1:
                    break
        assert [hit for first in sorted(taken) for hit in taken[first]] == expected
        assert list(index.probe_stream(make(), checkpoint=point)) == []
    assert not list(tmp_path.glob("*.tmp"))


KILLED = """
import os, signal, sys
import numpy as np
from dedup.core.bulk import batch
batch.PIECE, batch.REMEMBER_SECONDS = 500, 0
queries, stream, output, point, after = sys.argv[1:]
left = int(after)
def killing(first):
    values = np.fromfile(stream, "<u8")[first:]
    for begin in range(0, len(values), 500):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield values[begin:begin + 500]
index = batch.Queries(np.fromfile(queries, "<u8"), 3)
index.record(killing, output, checkpoint=point, threads=1)
"""


def test_a_killed_record_holds_every_match_once(tmp_path):
    """record() killed at some piece, again and again, ends with the file of a run in peace."""
    queries, values = data("clustered", 3, 2)
    queries.astype("<u8").tofile(tmp_path / "queries")
    values.astype("<u8").tofile(tmp_path / "stream")
    paths = [tmp_path / name for name in ("queries", "stream", "output", "point")]
    codes = []
    while not codes or (codes[-1] and len(codes) < 20):
        command = [sys.executable, "-c", KILLED, *map(str, paths), "4"]
        codes.append(subprocess.run(command, check=False, cwd="/").returncode)
        with paths[2].open("ab") as file:  # a write that did not come to its end
            file.write(b"torn" if codes[-1] else b"")
    assert codes[-1] == 0
    assert set(codes[:-1]) == {-signal.SIGKILL}
    assert rows(np.fromfile(paths[2], dtype=HIT)) == scan(queries, values, 3)


def test_record_without_a_checkpoint_begins_anew(tmp_path):
    """A file that was there is replaced, and record() returns its size."""
    index, output = Queries([3, 4], 1), tmp_path / "out"
    output.write_bytes(b"x" * 1000)
    assert index.record(np.array([3, 7, 4], np.uint64), output) == 3 * HIT.itemsize
    assert rows(np.fromfile(output, dtype=HIT)) == [(0, 0, 0), (0, 1, 1), (1, 2, 0)]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", StoreDamaged, "is damaged: checksum mismatch; remove it to start over"),
        (b"{}\n", StoreDamaged, "checksum mismatch"),
        (
            lambda content: content.replace(b'"done":10', b'"done":19'),
            StoreDamaged,
            "checksum mismatch",
        ),
        (lambda content: content[:-1], StoreDamaged, "checksum mismatch"),
        (None, UsageError, "a checkpoint of other queries"),
    ],
)
def test_a_wrong_checkpoint_is_refused(tmp_path, content, error, message):
    """A checkpoint that is damaged, or of other queries, is named, and stays as it is."""
    point = tmp_path / "point"
    list(Queries([1, 2], 3).probe_stream(generate(1, 10), checkpoint=point))
    if content is None:
        content = point.read_bytes()
    elif callable(content):
        content = content(point.read_bytes())
    point.write_bytes(content)
    with pytest.raises(error, match=message) as raised:
        list(Queries([1, 3], 3).probe_stream(generate(1, 10), checkpoint=point))
    assert str(point) in str(raised.value)
    assert point.read_bytes() == content


def test_a_checkpoint_of_a_longer_stream_is_refused(tmp_path):
    """Resuming with a stream that has less than what is done is an error, for every kind."""
    index, point, file = Queries([1], 3), tmp_path / "point", tmp_path / "file"
    list(index.probe_stream(generate(1, 10), checkpoint=point))
    generate(1, 9).astype("<u8").tofile(file)
    for source in (generate(1, 9), file, [generate(1, 9)]):
        with pytest.raises(UsageError, match="10 fingerprints done and the stream has only 9"):
            list(index.probe_stream(source, checkpoint=point))


def test_a_shorter_output_is_refused(tmp_path):
    """record() does not go on with an output that lost what its checkpoint counts."""
    index, point, output = Queries([1], 3), tmp_path / "point", tmp_path / "out"
    index.record(np.array([1, 1], np.uint64), output, checkpoint=point)
    os.truncate(output, 24)
    with pytest.raises(UsageError, match="shorter than this checkpoint"):
        index.record(np.array([1, 1], np.uint64), output, checkpoint=point)


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


def test_the_generator_is_splitmix64():
    """The first numbers of seed 1234567 are the published ones, and any can be had at once."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert generate(1234567, 3).tolist() == published
    assert generate(1234567, 2, first=1).tolist() == published[1:]
