"""How a store's fingerprints are spread, and where many lie together.

    documents -> values, domains (arrays) -> neighbours, buckets, hot values, dense places -> report

The first two are Figure 2 of Manku, Jain and Das Sarma (WWW 2007): fingerprints are as good as
random in their leading bits (the tables rely on it), but for the documents that are alike.

The rule kept here: only reading. Memory is 20 bytes a document; keys are read for the few documents
that are shown.
"""

from array import array
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.numbers import Array, bit_counts
from dedup.core.table import Table
from dedup.detector.rules import near_duplicates
from dedup.model.policy import Options
from dedup.model.recipes import Recipe, recipe_of
from dedup.model.values import Document, hex_fingerprint
from dedup.store.changes import Progress
from dedup.store.database.documents import Documents
from dedup.store.open_folder import locked_documents

__all__ = [
    "BUCKETS",
    "Place",
    "SpreadReport",
    "bucket_counts",
    "expected_neighbours",
    "neighbour_counts",
    "neighbourhoods",
    "report_store",
]

BUCKETS = 128  # as in the paper's Figure 2 (b)
EXAMPLES = 3  # document keys shown of a place
SAMPLE = 1000  # documents of a place that are looked into
BATCH = 4096  # values probed at once, at most
MATCHES = 1 << 20  # matches of a batch that are aimed at; 24 bytes each
STEP = 10_000  # documents between two calls of progress

Counts = npt.NDArray[np.int64]


class Place(msgspec.Struct, frozen=True):
    """A value at which, or around which, many documents lie.

    value      16 hex digits; documents: how many have it, or lie within k of it
    values     distinct values among them
    keys       examples, the oldest first; domains: the commonest, with their numbers
    features   least and greatest number of features
    looked_at  documents looked into for what follows: why they stand beside the oldest one
    short      pages with too few features, never judged
    apart      texts not similar enough: the same words, otherwise put
    other      near-duplicates of it, but another page of its site by title or canonical URL
    alike      near-duplicates of it all the same: start requests, races, faults, imports
    """

    value: str
    documents: int
    values: int
    keys: list[str]
    domains: dict[str, int]
    features: tuple[int, int]
    looked_at: int
    short: int
    apart: int
    other: int
    alike: int


class SpreadReport(msgspec.Struct, frozen=True):
    """What looking a store over came to.

    distance     k of the neighbourhoods, in bits
    values       distinct values; domains: distinct registrable domains
    crowded      documents with another one within k
    neighbours   [p]: neighbours in sorted order that share exactly p leading bits, p in 0 .. 63
    expected     the same, on average, of as many random values
    buckets      documents in each of 128 equal parts of the values' range
    hot          the values with the most documents
    dense        the values with the most documents within k, others than their own; none lies
                 within k of one before it
    domain_documents  documents of the commonest domains ("": pages without one)
    """

    path: str
    namespace: str
    recipe: str
    distance: int
    documents: int
    values: int
    domains: int
    crowded: int
    neighbours: list[int]
    expected: list[float]
    buckets: list[int]
    hot: list[Place]
    dense: list[Place]
    domain_documents: dict[str, int]


def neighbour_counts(distinct: Array) -> Counts:
    """Return how many neighbours share exactly p leading bits, p in 0 .. 63, as (64,).

    distinct  (n,) sorted, no value twice. The leading 1-bit of the XOR of two neighbours that share
              p bits is bit 63 - p: the paper's Figure 2 (a).
    """
    different = distinct[1:] ^ distinct[:-1]
    shared = np.zeros(len(different), np.int64)
    for width in (32, 16, 8, 4, 2, 1):
        clear = different < np.uint64(1) << np.uint64(64 - width)
        shared[clear] += width
        different = np.where(clear, different << np.uint64(width), different)
    return np.bincount(shared, minlength=64).astype(np.int64)


def expected_neighbours(count: int) -> npt.NDArray[np.float64]:
    """Return what neighbour_counts() comes to on average for that many random values, as (64,).

    Of n values, n minus the number of p-bit prefixes that occur are neighbours sharing p bits or
    more; a prefix occurs with probability 1 - (1 - 2**-p) ** n.
    """
    if count < 2:
        return np.zeros(64)
    prefixes = 2.0 ** np.arange(1, 65)
    occurring = -prefixes * np.expm1(count * np.log1p(-1 / prefixes))
    at_least = np.concatenate([[count - 1.0], np.maximum(count - occurring, 0)])
    exactly: npt.NDArray[np.float64] = np.maximum(at_least[:-1] - at_least[1:], 0)
    return exactly


def bucket_counts(values: Array, buckets: int = BUCKETS) -> Counts:
    """Return how many values lie in each of `count` equal parts of 0 .. 2**64 - 1.

    buckets  a power of two, 2 or more: the leading bits of a value say which part it lies in
    """
    place = (values >> np.uint64(65 - buckets.bit_length())).astype(np.int64)
    return np.bincount(place, minlength=buckets).astype(np.int64)


def neighbourhoods(
    distinct: Array, times: Counts, k: int, progress: Progress | None = None
) -> Counts:
    """Return for each of n distinct values how many documents lie within k of it, itself included.

    times  documents of each value, (n,)
    """
    table = Table(k)
    table.insert_many(distinct, np.arange(len(distinct), dtype=np.uint64))
    around = np.empty(len(distinct), np.int64)
    begin, size = 0, 16
    while begin < len(distinct):
        offsets, found, _ = table.probe_many(distinct[begin : begin + size])
        sums = np.concatenate([[0], np.cumsum(times[found.astype(np.intp)])])
        ends = offsets.astype(np.intp)
        around[begin : begin + size] = sums[ends[1:]] - sums[ends[:-1]]
        begin += size
        size = max(1, min(BATCH, 2 * size, MATCHES * size // (len(found) + 1)))
        if progress:
            progress(min(begin, len(distinct)), len(distinct))
    return around


def report_store(
    folder: Path, k: int | None = None, top: int = 10, progress: Progress | None = None
) -> SpreadReport:
    """Look over the store in a folder; no other process may have it open.

    k    of the neighbourhoods; the recipe's distance by default
    top  hot values, dense places and domains listed

    Raises UsageError (k), StoreLocked, StoreDamaged, and OSError.
    """
    with locked_documents(folder) as documents:
        return _report(folder, documents, k, top, progress)


def _report(
    folder: Path, documents: Documents, k: int | None, top: int, progress: Progress | None
) -> SpreadReport:
    ids, values, domains = _read(documents, progress)
    recipe = recipe_of(documents.recipe or None)
    distance = recipe.distance if k is None else k
    distinct, times = np.unique(values, return_counts=True)
    around = neighbourhoods(distinct, times, distance, progress)
    hot = [int(i) for i in np.argsort(-times, kind="stable")[:top] if times[i] > 1]
    dense = _dense(distinct, times, around, distance, top)
    return SpreadReport(
        str(folder),
        documents.namespace,
        documents.recipe,
        distance,
        len(values),
        len(distinct),
        len(domains),
        int(times[around > 1].sum()),
        neighbour_counts(distinct).tolist(),
        expected_neighbours(len(distinct)).tolist(),
        bucket_counts(values).tolist(),
        [_place(documents, recipe, distinct[i], ids, values, 0) for i in hot],
        [_place(documents, recipe, distinct[i], ids, values, distance) for i in dense],
        dict(sorted(domains.items(), key=lambda item: (-item[1], item[0]))[:top]),
    )


def _read(documents: Documents, progress: Progress | None) -> tuple[Array, Array, Counter[str]]:
    """Return ids, values and the documents of each domain."""
    ids, values = array("Q"), array("Q")
    domains: Counter[str] = Counter()
    total = len(documents)
    for document_id, document in documents.scan():
        if isinstance(document, ValueError):
            raise documents.damaged(f"document {document_id}: {document}") from document
        ids.append(document_id)
        values.append(document.page.value)
        domains[document.domain] += 1
        if progress and len(ids) % STEP == 0:
            progress(len(ids), total)
    if progress:
        progress(total, total)
    return np.frombuffer(ids, np.uint64), np.frombuffer(values, np.uint64), domains


def _dense(distinct: Array, times: Counts, around: Counts, k: int, top: int) -> list[int]:
    """Return the places with the most documents around, but none within k of one before it."""
    chosen: list[int] = []
    free = around > times
    while len(chosen) < top and free.any():
        best = int(np.argmax(np.where(free, around, 0)))
        chosen.append(best)
        free &= bit_counts(distinct ^ distinct[best]) > k
    return chosen


def _place(
    documents: Documents, recipe: Recipe, value: np.uint64, ids: Array, values: Array, k: int
) -> Place:
    near = np.flatnonzero(bit_counts(values ^ value) <= k)
    found = documents.read([int(i) for i in ids[near[:SAMPLE]]])
    reasons = Counter(_reason(found[0], document, recipe) for document in found[1:])
    features = [document.page.features for document in found]
    domains = Counter(document.domain for document in found)
    return Place(
        hex_fingerprint(int(value)),
        len(near),
        len(np.unique(values[near])),
        [document.key for document in found[:EXAMPLES]],
        dict(domains.most_common(EXAMPLES)),
        (min(features), max(features)),
        len(found),
        **{name: reasons[name] for name in ("short", "apart", "other", "alike")},
    )


def _reason(oldest: Document, document: Document, recipe: Recipe) -> str:
    """Return why a document could be stored beside the oldest one of its place."""
    a, b = oldest.page, document.page
    if min(a.features, b.features) < recipe.min_features:
        return "short"
    policy = Options().policy(recipe)
    found = [(oldest, (a.value ^ b.value).bit_count())]
    if found[0][1] > policy.distance:
        return "apart"
    near = near_duplicates(b, document.domain, None, found, policy)
    if not near:
        return "apart"
    return "other" if near[0].identity == "other" else "alike"
