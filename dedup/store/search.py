"""The search of a store: a value's neighbours, as documents.

    value -> index (ids within k) -> documents -> those that stay

The rule kept here: what the index finds and the documents say must agree; else nothing is answered.
"""

import numpy as np
import numpy.typing as npt

from dedup.core.matches import Nearest
from dedup.core.numbers import Array
from dedup.core.table import Match
from dedup.model.errors import StoreDamaged, UsageError
from dedup.model.values import Document
from dedup.store.changes import GivenUp
from dedup.store.index import Index

__all__ = ["NEAR_LIMIT", "TooMany", "near", "near_many"]

NEAR_LIMIT = 1000  # documents that one value is answered with, at most

Near = Nearest[Document]
"""Documents and their distances, nearest first, of equal distance the oldest."""


class TooMany(UsageError):
    """More documents lie near the values of a batch than one answer may hold."""


def near(
    index: Index,
    given_up: GivenUp | None,
    value: int,
    k: int,
    limit: int | None = None,
    without: int = 0,
) -> Near:
    """Return the documents within k of a value, the nearest `limit` without the first `without`.

    Those given up are left out. Raises StoreDamaged.
    """
    probed = index.values.probe(value, NEAR_LIMIT if limit is None else limit)
    answer: Near = Nearest()
    if not probed:
        return answer
    answer.cut = probed.cut and probed[-1].distance <= k
    matches: list[Match] = probed[without:] if without else probed
    if k < index.k:
        matches = [m for m in matches if m.distance <= k]
    found = index.documents.read([m.document for m in matches])
    for match, document in zip(matches, found, strict=True):
        if document.page.value != match.value:
            raise _mismatch(index)
        if given_up is None or not given_up.has(match.document, document.key):
            answer.append((document, match.distance))
    return answer


def near_many(
    index: Index, given_up: GivenUp | None, values: Array, k: int, limit: int | None
) -> dict[int, Near]:
    """Return near() of each value that has any, by its index. Raises StoreDamaged and TooMany."""
    probed = index.values.probe_many(values, NEAR_LIMIT)
    offsets, ids, distances = probed
    answers: dict[int, Near] = {}
    if not len(ids):
        return answers
    if limit is not None and len(ids) > limit:
        raise TooMany(
            f"{len(ids):,} documents lie near these {len(values):,} values, more than the "
            f"{limit:,} that one answer may hold: probe fewer at once"
        )
    cut = frozenset(np.flatnonzero(probed.cut).tolist())
    if k < index.k:
        cut = frozenset(i for i in cut if distances[int(offsets[i + 1]) - 1] <= k)
        offsets, ids, distances = _within(k, offsets, ids, distances)
    given = ids.tolist()
    found = index.documents.read(given)
    ends, nearness = offsets.tolist(), distances.tolist()
    for i in np.flatnonzero(np.diff(offsets)).tolist():
        span = slice(ends[i], ends[i + 1])
        value = int(values[i])
        answer: Near = Nearest(zip(found[span], nearness[span], strict=True))
        for document, distance in answer:
            if (document.page.value ^ value).bit_count() != distance:
                raise _mismatch(index)
        if given_up is not None:
            answer = Nearest(
                each
                for each, document_id in zip(answer, given[span], strict=True)
                if not given_up.has(document_id, each[0].key)
            )
        answer.cut = i in cut
        if answer:
            answers[i] = answer
    return answers


def _mismatch(index: Index) -> StoreDamaged:
    return index.documents.damaged("the index does not fit it")


def _within(
    k: int, offsets: Array, ids: Array, distances: npt.NDArray[np.uint8]
) -> tuple[Array, Array, npt.NDArray[np.uint8]]:
    """Leave the matches beyond distance k out of what a batch of probes found."""
    kept = distances <= k
    before = np.concatenate(([0], np.cumsum(kept)))
    return before[offsets].astype(np.uint64), ids[kept], distances[kept]
