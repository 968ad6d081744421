"""Judge the sample: which removed documents are no copies, where they are, and where groups chain.

Draw, documents -> JudgedPair -> CopyShare (with its interval) of all, by size of group, length and host -> Audit
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations

import msgspec

from dedup.report.texts import differences, inline
from dedup.scan.audit.removals import Removals
from dedup.scan.audit.sample import Draw, Sampled, compare

Z = 1.959963984540054  # of a 95 % interval
WORST = 20  # pairs that are shown
HUNKS = 3  # differences of each
HOSTS = 10
CHAINS = 10

SIZES = (2, 5, 20, 100)
LENGTHS = (50, 200, 1000)


class CopyShare(msgspec.Struct, frozen=True):
    """How many of the judged pairs of a kind are no copies: the share with its 95 % interval (Wilson).

    no_copy by the exact Jaccard similarity, no_near_duplicate by our verdict; in each: count, share, low, high
    """

    name: str
    pairs: int
    no_copy: "Interval"
    no_near_duplicate: "Interval"


class Interval(msgspec.Struct, frozen=True):
    """A share with its 95 % interval."""

    count: int
    share: float
    low: float
    high: float


class JudgedPair(msgspec.Struct, frozen=True):
    """A pair of the sample, and where the texts differ: words of kept only in [-...-], of removed only in {+...+}."""

    kept: str
    removed: str
    jaccard: float
    similarity: float
    distance: int
    near_duplicate: bool
    group_size: int
    words: int
    host: str
    differs: list[str] = []


class Chain(msgspec.Struct, frozen=True):
    """Three members of a group: the first near the middle near the last, and the first far from the last.

    near   the Jaccard similarity of the first and the middle one, and of the middle and the last; far: of the ends
    """

    first: str
    middle: str
    last: str
    near: tuple[float, float]
    far: float
    group_size: int


class Audit(msgspec.Struct, frozen=True):
    """The result. removed counts pairs of the list; judged those of the sample whose documents were found.

    threshold        a pair with a smaller Jaccard similarity is no copy
    superseded       pairs whose kept document was removed, too
    lost             groups that lost all members; lost_examples: ids of some members
    chained          of the groups looked into, those with a chain
    """

    tool: str
    documents: int
    removed: int
    groups: int
    drawn: int
    judged: int
    not_found: int
    threshold: float
    seed: int
    whole: CopyShare
    by_group_size: list[CopyShare]
    by_length: list[CopyShare]
    by_host: list[CopyShare]
    superseded: int
    lost: int
    lost_examples: list[str]
    groups_looked_into: int
    chained: int
    chains: list[Chain]
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
    seed: int,
) -> Audit:
    """Judge the pairs of a draw whose documents were found."""
    judged, sides = [], []
    for place in drawn.pairs:
        kept = found.get(int(removals.kept[place]))
        removed = found.get(int(removals.removed[place]))
        if kept is None or removed is None:
            continue
        seen = compare(kept, removed)
        size = int(removals.sizes[removals.group[place]])
        words = removed.text.count(" ") + bool(removed.text)
        judged.append(
            JudgedPair(
                kept.id,
                removed.id,
                round(seen.jaccard, 4),
                round(seen.similarity, 4),
                seen.distance,
                seen.near_duplicate,
                size,
                words,
                removed.host,
            )
        )
        sides.append((kept, removed))
    order = sorted(range(len(judged)), key=lambda i: (judged[i].jaccard, judged[i].removed))
    worst = [
        msgspec.structs.replace(judged[i], differs=_differs(*sides[i]))
        for i in order[:WORST]
        if judged[i].jaccard < threshold or not judged[i].near_duplicate
    ]
    looked, chained, chains = _chains(removals, drawn, found, threshold)
    lost = [found[each].id for each in removals.lost_members if each in found]
    return Audit(
        removals.tool,
        documents,
        len(removals.removed),
        len(removals.sizes),
        len(drawn.pairs),
        len(judged),
        len(drawn.pairs) - len(judged),
        threshold,
        seed,
        _share("all", judged, threshold),
        _by(((_bin(each.group_size, SIZES), each) for each in judged), threshold, _bins(SIZES)),
        _by(((_bin(each.words, LENGTHS), each) for each in judged), threshold, _bins(LENGTHS)),
        _by_host(judged, threshold),
        removals.superseded,
        removals.lost,
        lost,
        looked,
        chained,
        chains,
        worst,
    )


def _share(name: str, judged: list[JudgedPair], threshold: float) -> CopyShare:
    return CopyShare(
        name,
        len(judged),
        wilson(sum(each.jaccard < threshold for each in judged), len(judged)),
        wilson(sum(not each.near_duplicate for each in judged), len(judged)),
    )


def _bins(bounds: tuple[int, ...]) -> list[str]:
    """Return the names of ranges: up to the first bound, ..., more than the last."""
    lows = [0, *(bound + 1 for bound in bounds)]
    middle = [f"{low:,} to {high:,}" for low, high in zip(lows[1:], bounds[1:], strict=False)]
    return [f"up to {bounds[0]:,}", *middle, f"more than {bounds[-1]:,}"]


def _bin(number: int, bounds: tuple[int, ...]) -> str:
    return _bins(bounds)[sum(number > bound for bound in bounds)]


def _by(
    named: Iterable[tuple[str, JudgedPair]], threshold: float, order: list[str]
) -> list[CopyShare]:
    parts: dict[str, list[JudgedPair]] = defaultdict(list)
    for name, each in named:
        parts[name].append(each)
    return [_share(name, parts[name], threshold) for name in order if name in parts]


def _by_host(judged: list[JudgedPair], threshold: float) -> list[CopyShare]:
    """Return the hosts with most judged pairs."""
    parts: dict[str, list[JudgedPair]] = defaultdict(list)
    for each in judged:
        if each.host:
            parts[each.host].append(each)
    most = sorted(parts, key=lambda host: (-len(parts[host]), host))[:HOSTS]
    return [_share(host, parts[host], threshold) for host in most]


def _differs(kept: Sampled, removed: Sampled) -> list[str]:
    a, b = kept.tokens, removed.tokens
    return [inline(a, b, hunk, whole=False) for hunk in differences(a, b)[:HUNKS]]


def _chains(
    removals: Removals, drawn: Draw, found: Mapping[int, Sampled], threshold: float
) -> tuple[int, int, list[Chain]]:
    """Return how many groups were looked into, how many of them chain, and the worst chain of some of these."""
    looked, chains = 0, []
    for group, hashes in drawn.groups.items():
        members = [found[each] for each in hashes if each in found]
        if len(members) < 3:
            continue
        looked += 1
        near = {
            pair: compare(members[pair[0]], members[pair[1]]).jaccard
            for pair in combinations(range(len(members)), 2)
        }
        worst: Chain | None = None
        for a, c in sorted(near, key=near.__getitem__):
            if near[a, c] >= threshold or worst is not None:
                break
            for b in range(len(members)):
                ab, bc = (near.get((min(p, b), max(p, b)), 0.0) for p in (a, c))
                if b not in (a, c) and min(ab, bc) >= threshold:
                    names = (members[a].id, members[b].id, members[c].id)
                    close = round(ab, 4), round(bc, 4)
                    worst = Chain(*names, close, round(near[a, c], 4), int(removals.sizes[group]))
                    break
        chains += [worst] if worst is not None else []
    chains.sort(key=lambda chain: (chain.far, chain.first))
    return looked, len(chains), chains[:CHAINS]
