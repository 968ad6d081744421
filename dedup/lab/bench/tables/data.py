"""The fingerprints a table benchmark stores and probes, and the plain search they are checked by.

    kind -> fingerprints in random order -> the first are stored, those after them inserted later
                                         -> the last, or near ones of the stored, are probed

The rule kept here: the same kind, size and k give the same numbers everywhere.
"""

from pathlib import Path

import msgspec
import numpy as np

from dedup.core.numbers import Array
from dedup.model.errors import UsageError

__all__ = ["GENERATED", "Data", "brute_force", "check_data", "flipped", "make_data"]

GENERATED = ("uniform", "clustered", "demo")

_QUERIES = 1 << 20  # more than any cache holds of what they touch in a large table
_MOST_INSERTED = 10_000  # in a round, of data of which there is no more
_SIZES = {"uniform": 1_000_000, "clustered": 1_000_000, "demo": 20_000}
_LARGEST_CLUSTER = 1_000
_CLUSTER_EXPONENT = 2.0
_MOST_FLIPS = 6
_CHUNK = 1 << 17  # 1 MB of fingerprints: they stay in the cache while they are compared
_MOST_DEMO_PAGES = 200_000  # more take longer to make than to measure


class Data(msgspec.Struct, frozen=True):
    """Arrays of uint64.

    stored   what the table is built of; the document of stored[i] is i
    later    of shape (rounds, n): what each round inserts, as documents len(stored) and up
    queries  what is probed
    """

    stored: Array
    later: Array
    queries: Array


def check_data(kind: str) -> None:
    """Raise UsageError if a kind of data is neither generated nor a file."""
    if kind not in GENERATED and not Path(kind).is_file():
        raise UsageError(f"{kind} is no file; give one, or one of {', '.join(GENERATED)}")


def make_data(kind: str, size: int | None, rounds: int, k: int) -> Data:
    """Return fingerprints to store, to insert later and to probe.

    kind   uniform: random numbers. Probed are stored ones with 0 to k + 1 bits flipped and new ones,
           in turns
           clustered: clusters of 1 to 1,000 members; s members have a chance in proportion to
           s ** -2. A cluster is a random centre and copies of it with 1 to 6 bits flipped. Probed are
           members that are not stored
           demo: the fingerprints of the demo site's pages; probed are pages that are not stored
           a file: a decimal fingerprint a line; probed are those that are not stored
    size   how many to store; None: a million, 20,000 of the demo's, or four fifths of a file
    rounds how often some are inserted later: a twentieth of the size; of the demo and of a file
           10,000, or a hundredth of the size if that is less

    Raises UsageError if there are not as many, OSError if a file cannot be read.
    """
    rng = np.random.default_rng(1)
    found = _read(Path(kind)) if kind not in GENERATED else None
    if size is None:
        size = len(found) * 4 // 5 if found is not None else _SIZES[kind]
    endless = found is None and kind != "demo"
    each = max(1, size // 20 if endless else min(_MOST_INSERTED, size // 100))
    later, probed = rounds * each, max(64, min(_QUERIES, size))
    if kind == "uniform":
        values = rng.integers(0, 2**64, size + later, dtype=np.uint64)
        queries = rng.integers(0, 2**64, probed, dtype=np.uint64)
        near = queries[::2]
        near[:] = flipped(rng, values[rng.integers(0, size, len(near))], 0, k + 1)
        return Data(values[:size], values[size:].reshape(rounds, each), queries)
    if found is None:
        make = _clustered if kind == "clustered" else _demo
        found = make(rng, size + later + probed)
    rng.shuffle(found)
    if not size or len(found) <= size + later:
        raise UsageError(
            f"{kind} has {len(found):,} fingerprints, too few to store {size:,}, insert {later:,} "
            "later and probe others; give more of them, or smaller --sizes"
        )
    later_values = found[size : size + later].reshape(rounds, each)
    return Data(found[:size], later_values, found[size + later :][:probed])


def brute_force(stored: Array, queries: Array, k: int) -> list[list[int]]:
    """Return for each query the documents of all stored values within k, ascending.

    It clears k bits of every difference, and looks whether something is left.
    """
    found: list[list[int]] = [[] for _ in queries]
    one = np.uint64(1)
    for begin in range(0, len(stored), _CHUNK):
        chunk = stored[begin : begin + _CHUNK]
        for answer, query in zip(found, queries, strict=True):
            left = chunk ^ query
            for _ in range(k):
                left &= left - one
            answer.extend((np.flatnonzero(left == 0) + begin).tolist())
    return found


def flipped(rng: np.random.Generator, values: Array, least: int, most: int) -> Array:
    """Return the values, each with least to most of its bits flipped (both inclusive)."""
    values = values.copy()
    left = rng.integers(least, most + 1, len(values))
    changed = np.zeros(len(values), dtype=np.uint64)
    while (unfinished := np.flatnonzero(left)).size:
        bits = np.uint64(1) << rng.integers(0, 64, unfinished.size, dtype=np.uint64)
        new = (changed[unfinished] & bits) == 0
        changed[unfinished[new]] |= bits[new]
        left[unfinished[new]] -= 1
    return values ^ changed


def _clustered(rng: np.random.Generator, count: int) -> Array:
    sizes = np.arange(1, _LARGEST_CLUSTER + 1)
    chances = sizes**-_CLUSTER_EXPONENT
    chances /= chances.sum()
    mean = float((sizes * chances).sum())
    members = rng.choice(sizes, size=int(count / mean * 1.2) + 1_000, p=chances)
    cluster = np.repeat(np.arange(len(members)), members)[:count]
    values = rng.integers(0, 2**64, len(members), dtype=np.uint64)[cluster]
    first = np.concatenate(([True], cluster[1:] != cluster[:-1]))
    values[~first] = flipped(rng, values[~first], 1, _MOST_FLIPS)
    return values


def _demo(_rng: np.random.Generator, count: int) -> Array:
    from dedup.core.fingerprint import fingerprint
    from dedup.lab.demo.site.demo_site import Site

    if count > _MOST_DEMO_PAGES:
        raise UsageError(
            f"the demo data would need {count:,} pages and makes at most {_MOST_DEMO_PAGES:,}; "
            "give smaller --sizes"
        )
    site = Site(count * 11 // 10 + 500)  # some are no pages
    pages = (site.render(path, 0) for path in site.truth)
    values = [fingerprint(body).value for status, _, body in pages if status == 200]
    return np.array(values[:count], dtype=np.uint64)


def _read(path: Path) -> Array:
    try:
        numbers = [int(line) for line in path.read_bytes().split()]
        return np.array(numbers, dtype=np.uint64)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{path} is no list of fingerprints; it must hold decimal numbers below 2 ** 64, one a line"
        ) from error
