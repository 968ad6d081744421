"""`--keep`: which page of a group stays, chosen when all pages are known.

    verdicts.jsonl, members.jsonl (a line for each verdict) -> groups of a kept page and its near-duplicates
    -> each group judged once more, by a detector of its own, in the order of --keep -> elected.jsonl, elected-dropped.jsonl

Rules, in the order in which pages of a group are judged; of equal ones the first of the input comes first:
  longest     most features (distinct words of the main content)
  newest      the latest date (WARC-Date, --date-field, the time of an HTML file); without one last
  canonical   the page whose URL most pages of the group, itself among them, declare as canonical

Invariants:
  - A page is left out only if it is a near-duplicate of one that stays, by the same decision as in a scan, with what the
    scan knew of its site's frame. A page that is like the first of its group, but not like the one that is chosen, stays.
  - The lines keep the order of the input. elected.json is written last: after a kill all is made once more.
"""

import copy
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np

from dedup.core.files import replace_file
from dedup.core.fingerprint import fingerprint
from dedup.detector import EmbeddedDetector
from dedup.model.recipes import Recipe
from dedup.scan.accepted import Layer
from dedup.scan.copies import drop_line
from dedup.scan.values import Keep, Large, PageToJudge, Result, Row, ScanJob, Summary
from dedup.scan.verdicts import count_row, options_of, to_line, verdict_row

CANONICAL = 2**32 - 1  # the half of PageFingerprint.identity

_encode = msgspec.json.Encoder().encode


class ClusterMember(NamedTuple):
    """A page with a verdict: its place in the scan, and what it was judged by."""

    place: int
    unit: int
    found: PageToJudge


def member_line(unit: int, result: Result) -> bytes:
    """Return a page as a line of members.jsonl."""
    return _encode((unit, result)) + b"\n"


_MEMBER = msgspec.json.Decoder(tuple[int, PageToJudge | Large])
_ROW = msgspec.json.Decoder(Row)


def elect(job: ScanJob, folder: Path, summary: Summary, recipe: Recipe) -> Summary:
    """Choose what stays of each group, and return the summary of that. Idempotent. Raises OSError."""
    done = folder / "elected.json"
    if done.exists():
        return msgspec.json.decode(done.read_bytes(), type=Summary)
    with (
        (folder / "members.jsonl").open("rb") as members,
        (folder / "elected.part").open("w+b") as part,
    ):
        starts, groups = _groups(folder / "verdicts.jsonl", members)
        changed = np.full(len(starts), -1, np.int64)  # where in `part` a row's new line begins
        for places in groups:
            for place, row in _judged(job, recipe, [_member(members, starts, p) for p in places]):
                changed[place] = part.tell()
                part.write(to_line(row))
        found = _write(folder, summary, changed, part, members)
    (folder / "elected.part").unlink()
    replace_file(done, _encode(found))
    return found


def _groups(verdicts: Path, members: IO[bytes]) -> tuple[Any, Iterator[list[int]]]:
    """Return where each member's line begins, and the places of each group of two and more."""
    starts, clusters, is_first = [], [], []
    with verdicts.open("rb") as file:
        for line in file:
            row = _ROW.decode(line)
            starts.append(members.tell())
            members.readline()
            is_member = row.status != "refetch" and row.value is not None
            clusters.append(hash(row.cluster) if is_member else 0)
            is_first.append(is_member and row.status != "near_duplicate")
    cluster = np.array(clusters, np.int64)
    places = np.flatnonzero(np.isin(cluster, cluster[np.array(is_first, bool)]) & (cluster != 0))
    order = places[np.argsort(cluster[places], kind="stable")]
    ends = (np.flatnonzero(np.diff(cluster[order], append=0)) + 1).tolist()
    begins = [0, *ends[:-1]] if ends else []
    found = (order[b:e].tolist() for b, e in zip(begins, ends, strict=True) if e - b > 1)
    return np.array(starts, np.int64), found


def _member(members: IO[bytes], starts: Any, place: int) -> ClusterMember:
    members.seek(int(starts[place]))
    unit, found = _MEMBER.decode(members.readline())
    assert isinstance(found, PageToJudge)
    return ClusterMember(place, unit, found)


def _judged(job: ScanJob, recipe: Recipe, group: list[ClusterMember]) -> Iterator[tuple[int, Row]]:
    """Yield the verdicts on a group, judged in the order of --keep."""
    policy = job.options.policy(recipe)
    detector = EmbeddedDetector.over(Layer(policy.distance), recipe, policy)
    for member in sorted(group, key=_RANKS[job.keep](group)):
        found = member.found
        verdict = detector.accept(found.page, found.key, options_of(found, job.identity))
        yield member.place, verdict_row(verdict)


Rank = Callable[[ClusterMember], Any]


def _longest(_: list[ClusterMember]) -> Rank:
    return lambda member: -member.found.page.features


def _newest(_: list[ClusterMember]) -> Rank:
    return lambda member: -member.found.date


def _canonical(group: list[ClusterMember]) -> Rank:
    votes: dict[int, int] = {}
    for member in group:
        declared = member.found.page.identity & CANONICAL
        if declared:
            votes[declared] = votes.get(declared, 0) + 1
    return lambda member: -votes.get(_address(member.found.key), 0) if votes else 0


def _address(url: str) -> int:
    """Return the hash that a page has which declares this URL canonical."""
    link = f'<link rel="canonical" href="{escape(url)}">'
    return fingerprint(link, url=url).identity & CANONICAL


_RANKS: dict[Keep, Callable[[list[ClusterMember]], Rank]] = {
    "longest": _longest,
    "newest": _newest,
    "canonical": _canonical,
}


def _write(
    folder: Path, summary: Summary, changed: Any, part: IO[bytes], members: IO[bytes]
) -> Summary:
    """Write all lines in their order, and those that are left out; return the summary."""
    counted = copy.deepcopy(summary)
    counted.pages = counted.unique = counted.near_duplicate = counted.refetch = 0
    counted.exempt, counted.distances, counted.similarities = {}, {}, {}
    members.seek(0)
    with (
        (folder / "verdicts.jsonl").open("rb") as old,
        (folder / "elected.jsonl").open("wb") as new,
        (folder / "elected-dropped.jsonl").open("wb") as dropped,
    ):
        for place, line in enumerate(old):
            unit, result = _MEMBER.decode(members.readline())
            if changed[place] >= 0:
                part.seek(int(changed[place]))
                line = part.readline()  # noqa: PLW2901
            row = _ROW.decode(line)
            count_row(counted, row)
            new.write(line)
            if row.status == "near_duplicate":
                dropped.write(drop_line(unit, result, row))
    return counted
