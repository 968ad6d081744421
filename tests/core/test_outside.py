"""Pairs and clusters with less memory than they need, beside those found in memory."""

import itertools
import tempfile

import numpy as np
import pytest
from fingerprint_values import around, generate
from sizes import sized

from dedup.core.bulk import out_of_core as outside
from dedup.core.bulk.out_of_core import FAN, LEAST_MEMORY, Runs
from dedup.core.pairs import find_all, find_clusters
from dedup.model.errors import UsageError

pytestmark = pytest.mark.sized

COUNT = sized(quick=4_000, full=12_000)
KINDS = ["spread", "clustered", "crowded", "one value", "extremes"]


def data(kind, seed, count=COUNT):
    """Return fingerprints of a kind, some of them repeated, in no order."""
    rng = np.random.default_rng(seed)
    spread = generate(seed, count)
    if kind == "spread":
        values = np.concatenate([spread, around(rng, spread, 500, 4), spread[:50]])
    elif kind == "clustered":
        values = around(rng, spread[: count // 20], count, 4)
    elif kind == "crowded":
        values = np.uint64(0xFEEDFACE << 32) | rng.integers(0, 1 << 12, 2000, np.uint64)
    elif kind == "one value":
        values = np.concatenate([np.full(count, 77, np.uint64), spread[:100]])
    else:
        values = around(rng, np.array([0, 2**64 - 1], np.uint64), 2000, 3)
    return rng.permutation(values)


@pytest.fixture
def little(monkeypatch):
    """Memory for a thousand values and two thousand pairs, in two threads, whatever is asked for."""
    monkeypatch.setattr(
        outside, "_job", lambda k, _m, _t, progress: outside._Job(k, 1000, 2000, 2, progress)
    )


def clusters(values, k):
    """Return the clusters of two or more as lists, from the labels found in memory."""
    members = {}
    for value, label in zip(values.tolist(), find_clusters(values, k).tolist(), strict=True):
        members.setdefault(label, []).append(value)
    return sorted(sorted(cluster) for cluster in members.values() if len(cluster) > 1)


def listed(found):
    """Return what find_clusters() yields as lists."""
    lists = []
    for members, sizes in found:
        assert len(members) == sizes.sum()
        each = iter(members.tolist())
        lists += [list(itertools.islice(each, size)) for size in sizes.tolist()]
    return lists


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("k", [0, 1, 3, *[pytest.param(k, marks=pytest.mark.long) for k in (2, 5)]])
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_those_found_in_memory(kind, k):
    """Pairs of twelve times what fits are those of find_all(), in its order, whatever the data."""
    values = data(kind, k)
    parts = [np.empty((0, 2), np.uint64), *outside.find_all(values, k, 0)]
    assert np.concatenate(parts).tolist() == find_all(values, k).tolist()


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_clusters_are_those_found_in_memory(kind, k):
    """Clusters have every occurrence of their members, sorted, as find_clusters() connects them."""
    values = data(kind, 10 + k)
    assert listed(outside.find_clusters(values, k, 0)) == clusters(values, k)


@pytest.mark.parametrize("k", [3, 6])
def test_the_least_memory_is_enough(k):
    """With 16 MiB, which the values do not fit in, the result is the same."""
    values = np.concatenate([data("spread", 1, 300_000), data("clustered", 2, 50_000)])
    parts = list(outside.find_all(np.array_split(values, 9), k, LEAST_MEMORY))
    assert np.array_equal(np.concatenate(parts), find_all(values, k))


@pytest.mark.usefixtures("little")
def test_nothing_gives_nothing():
    """No fingerprints, or one, have no pairs and no clusters."""
    for values in ([], [5]):
        assert not sum(map(len, outside.find_all(np.array(values, np.uint64), 3, 0)))
        assert not listed(outside.find_clusters(np.array(values, np.uint64), 3, 0))


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("find", [outside.find_all, outside.find_clusters])
def test_no_file_is_left(tmp_path, find):
    """Temporary files lie in the folder given and go, when all was taken or given up."""
    values = data("clustered", 3)
    found = find(values, 3, 0, folder=tmp_path)
    next(found)
    assert list(tmp_path.iterdir())
    found.close()
    assert not list(tmp_path.iterdir())
    list(find(values, 3, 0, folder=tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("little")
def test_no_file_is_left_by_a_source_that_fails(tmp_path):
    """What a source raises comes out, and nothing stays on the disk."""

    def source():
        yield data("spread", 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(outside.find_all(source(), 3, 0, folder=tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("little")
def test_progress_ends_with_everything_joined():
    """progress counts each distinct value once in each of k + 1 blocks."""
    values, seen = data("spread", 4), []
    list(outside.find_all(values, 3, 0, progress=lambda *call: seen.append(call)))
    total = 4 * len(np.unique(values))
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_wrong_arguments_are_named():
    """Too little memory, no threads and a distance beyond 15 are usage errors."""
    for arguments, message in (
        ((3, LEAST_MEMORY - 1), "memory is 16,777,215 bytes; it must be 16,777,216 or more"),
        ((16, LEAST_MEMORY), "k is 16"),
        ((3, -1), "memory is -1"),
    ):
        with pytest.raises(UsageError, match=message):
            list(outside.find_all([], *arguments))
    with pytest.raises(UsageError, match="threads is 0"):
        list(outside.find_all([], 3, LEAST_MEMORY, threads=0))


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 5, 2 * FAN + 3])
@pytest.mark.parametrize("rows", [1, 1000])
def test_runs_are_merged(width, count, rows, tmp_path):
    """Any number of runs, with equal rows in them, come out as one that is sorted."""
    rng = np.random.default_rng(count)
    runs, everything = Runs(tmp_path / "runs", width), []
    for _ in range(count):
        run = sorted(map(tuple, rng.integers(0, 40, (int(rng.integers(0, 300)), width)).tolist()))
        everything += run
        array = np.array(run, np.uint64).reshape(-1, width)
        runs.append([array if width == 2 else array.ravel()])
    merged = [part.reshape(-1, width) for part in runs.merged(rows)]
    assert [tuple(row) for part in merged for row in part.tolist()] == sorted(everything)


def test_the_folder_of_the_system_is_taken_without_one(monkeypatch, tmp_path):
    """Without a folder temporary files go where the system has them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = outside.find_all(data("clustered", 3), 3, LEAST_MEMORY)
    next(found)
    assert list(tmp_path.iterdir())
    found.close()
