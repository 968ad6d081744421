"""Judge the sample: which removed documents are no copies, and in which words the least similar pairs differ."""

import math
from collections.abc import Mapping

import msgspec

from dedup.report.texts import differences, inline
from dedup.scan.audit.removals import Removals
from dedup.scan.audit.sample import Draw, Sampled, compare

Z = 1.959963984540054  # of a 95 % interval
WORST = 20  # pairs that are shown
HUNKS = 3  # differences of each


class Interval(msgspec.Struct, frozen=True):
    """A share with its 95 % interval."""

    count: int
    share: float
    low: float
    high: float


class CopyShare(msgspec.Struct, frozen=True):
    """How many of the judged pairs are no copies.

    no_copy by the exact Jaccard similarity, no_near_duplicate by our verdict
    """

    pairs: int
    no_copy: Interval
    no_near_duplicate: Interval


class JudgedPair(msgspec.Struct, frozen=True):
    """A pair of the sample, and where the texts differ: words of kept only in [-...-], of removed only in {+...+}."""

    kept: str
    removed: str
    jaccard: float
    similarity: float
    distance: int
    near_duplicate: bool
    differs: list[str] = []


class Audit(msgspec.Struct, frozen=True):
    """The result. removed counts pairs of the list; judged those of the sample whose documents were found.

    documents     that were read
    kept          documents in favour of which others were removed
    superseded    pairs whose kept document was removed, too
    threshold     a pair with a smaller Jaccard similarity is no copy
    """

    documents: int
    removed: int
    kept: int
    superseded: int
    drawn: int
    judged: int
    not_found: int
    threshold: float
    whole: CopyShare
    worst: list[JudgedPair]


def wilson(count: int, total: int) -> Interval:
    """Return a share with its 95 % interval (Wilson 1927); of nothing it is 0 to 1."""
    if not total:
        return Interval(0, 0.0, 0.0, 1.0)
    share, square = count / total, Z * Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = Z / (1 + square / total)
    half *= math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Interval(count, share, 0.0 if not count else low, 1.0 if count == total else high)


def judge(
    removals: Removals,
    drawn: Draw,
    found: Mapping[int, Sampled],
    *,
    documents: int,
    threshold: float,
) -> Audit:
    """Judge the pairs of a draw whose documents were found."""
    judged, sides = [], []
    for place in drawn.pairs:
        kept = found.get(int(removals.kept[place]))
        removed = found.get(int(removals.removed[place]))
        if kept is None or removed is None:
            continue
        jaccard, distance, similarity, is_near = compare(kept, removed)
        figures = round(jaccard, 4), round(similarity, 4), distance, is_near
        judged.append(JudgedPair(kept.id, removed.id, *figures))
        sides.append((kept, removed))
    order = sorted(range(len(judged)), key=lambda i: (judged[i].jaccard, judged[i].removed))
    worst = [
        msgspec.structs.replace(judged[i], differs=_differs(*sides[i]))
        for i in order[:WORST]
        if judged[i].jaccard < threshold or not judged[i].near_duplicate
    ]
    whole = CopyShare(
        len(judged),
        wilson(sum(each.jaccard < threshold for each in judged), len(judged)),
        wilson(sum(not each.near_duplicate for each in judged), len(judged)),
    )
    return Audit(
        documents,
        len(removals.removed),
        removals.kept_documents,
        removals.superseded,
        len(drawn.pairs),
        len(judged),
        len(drawn.pairs) - len(judged),
        threshold,
        whole,
        worst,
    )


def _differs(kept: Sampled, removed: Sampled) -> list[str]:
    a, b = kept.tokens, removed.tokens
    return [inline(a, b, hunk) for hunk in differences(a, b)[:HUNKS]]
