"""What near-duplicates of a pattern brought, and so whether the next one may be dropped unparsed.

    a near-duplicate was checked -> same(), or new(): its pattern is disproved, and what it dropped comes back
    the next one -> may_drop()? drop() : it is checked (a spot check)

A pattern is the callback, the site, which signals of the two pages differ, and how their URLs differ. After n pages of
a pattern that brought nothing new, and none that did, the next one is wanted with a chance of PRIOR / (n + PRIOR). A
pattern drops pages until the sum of these chances exceeds `risk`; then one is checked. So `risk` bounds the number of
wanted pages that are expected among those dropped since the last spot check. When nothing else is left to do, the last
page of each pattern that dropped MANY or more since then is checked.

Invariants:
  - A pattern of which no page brought seen items drops nothing. What it dropped comes back when a page of it brings
    something new. Of REMEMBERED dropped pages the oldest are forgotten, of a pattern that PROVEN pages have proven;
    where there is none, nothing more is dropped.
  - Memory is bounded: PATTERNS, and REMEMBERED dropped pages.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from dedup.model.differences import SIGNALS, in_words, parameter_of
from dedup.scrapy.evidence.enough import MANY, Bounded

PRIOR = 0.1
PATTERNS = 10_000
REMEMBERED = 5000  # dropped pages, of all patterns
PROVEN = 50  # pages that brought nothing new: their pattern may forget what it dropped

R = TypeVar("R")


class Pattern(NamedTuple):
    """A pattern of near-duplicates; signals are letters (difference.SIGNALS)."""

    callback: str
    site: str
    signals: str
    difference: str

    def __str__(self) -> str:
        """Return the pattern for people: "parse_item, parameter `sid` added (menu, header or footer differs)"."""
        signals = ", ".join(SIGNALS[each] for each in self.signals if each in SIGNALS)
        signals = f" ({signals})" if signals else ""
        return f"{self.callback}, {in_words(self.difference)}{signals}"


class Outcomes(msgspec.Struct):
    """What the near-duplicates of a pattern brought.

    same, new  how many brought nothing new, and something
    staked, unseen  wanted pages to be expected among those dropped since the last spot check; and how many these are
    dropped    pages that were dropped; again: of these fetched again, forgotten: of these not remembered any more
    example    of a page that brought something new: its key, its original's, the fields that differed
    """

    same: int = 0
    new: int = 0
    staked: float = 0.0
    unseen: int = 0
    dropped: int = 0
    again: int = 0
    forgotten: int = 0
    example: tuple[str, str, tuple[str, ...]] = ("", "", ())

    @property
    def risk(self) -> float:
        """The chance that the next page of the pattern is wanted, if none was until now."""
        return PRIOR / (self.same + PRIOR)


class Patterns(Generic[R]):
    """The patterns of one namespace; R is a request."""

    def __init__(self, risk: float) -> None:
        """Begin with nothing. risk: wanted pages that a pattern may be expected to drop between two spot checks."""
        self._risk = risk
        self.known = Bounded[Pattern, Outcomes](PATTERNS, lambda _: Outcomes())
        self._dropped: dict[Pattern, deque[R]] = {}
        self._remembers = 0
        self._proven: dict[Pattern, None] = {}  # those that may forget
        # by site and parameter, the pages that had it and brought their original's items; -1: one brought others
        self._parameters: dict[tuple[str, str], int] = {}

    def may_drop(self, name: Pattern) -> bool:
        """Whether a page of a pattern may be dropped unparsed; else it is a spot check."""
        found = self.known.get(name)
        if found is None or found.new or found.staked + found.risk > self._risk:
            return False
        return self._remembers < REMEMBERED or self._may_forget(name) is not None

    def _may_forget(self, name: Pattern) -> Pattern | None:
        """Return a pattern that may forget a page: this one, or another."""
        if name in self._proven and self._dropped.get(name):
            return name
        return next((each for each in self._proven if self._dropped.get(each)), None)

    def drop(self, name: Pattern, page: R | None) -> bool:
        """Stake a page that is dropped, and remember it, if it is; return whether another one is forgotten."""
        found = self.known[name]
        found.staked += found.risk
        found.dropped += 1
        found.unseen += 1
        if page is None:
            return False
        oldest = self._may_forget(name) if self._remembers >= REMEMBERED else None
        if oldest is not None:
            self._dropped[oldest].popleft()
            self.known[oldest].forgotten += 1
            self._remembers -= 1
        self._dropped.setdefault(name, deque()).append(page)
        self._remembers += 1
        return oldest is not None

    def checked(self, name: Pattern | None) -> None:
        """Note that a page of a pattern is checked."""
        if name is not None and name in self.known:
            self.known[name].staked, self.known[name].unseen = 0.0, 0

    def last_checks(self) -> list[R]:
        """Return the last page of each pattern that dropped many since its last spot check, to be fetched and checked."""
        found = []
        for name, outcomes in self.known.items():
            if outcomes.unseen >= MANY and self._dropped.get(name):
                outcomes.staked, outcomes.unseen = self._risk, 0
                found.append(self._dropped[name].pop())
                self._remembers -= 1
        return found

    def same(self, name: Pattern) -> None:
        """Note a page that brought seen items, and nothing else."""
        outcomes = self.known[name]
        outcomes.same += 1
        if outcomes.same == PROVEN and not outcomes.new:
            self._proven[name] = None

    def new(self, name: Pattern, example: tuple[str, str, tuple[str, ...]]) -> list[R]:
        """Note a page that brought something new; return the pages that its pattern dropped, to be fetched again."""
        outcomes = self.known[name]
        outcomes.new += 1
        outcomes.example = example
        pages = self._dropped.pop(name, deque())
        outcomes.again += len(pages)
        self._remembers -= len(pages)
        self._proven.pop(name, None)
        if parameter := parameter_of(name.difference):
            self._parameters[name.site, parameter] = -1
        return [*pages]

    # ----------------------------------------------------------------------- sessions

    def same_items(self, name: Pattern) -> None:
        """Note a page that brought its original's items, whatever its requests."""
        parameter = parameter_of(name.difference)
        times = self._parameters.get((name.site, parameter), 0)
        if parameter and times >= 0 and (times or len(self._parameters) < PATTERNS):
            self._parameters[name.site, parameter] = times + 1

    def without_sessions(self, url: str, site: str) -> str:
        """Return a URL without the parameters of its query that MANY pages of its site have proven to mean nothing."""
        if "?" not in url or not self._parameters:
            return url
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        kept = [e for e in pairs if self._parameters.get((site, e[0].replace(" ", "")), 0) < MANY]
        if len(kept) == len(pairs):
            return url
        return urlunsplit(parts._replace(query=urlencode(kept), fragment=""))

    # -------------------------------------------------------------------- from run to run

    def held(self) -> Iterator[tuple[Pattern, R]]:
        """Yield the dropped pages that may come back."""
        for name, pages in self._dropped.items():
            for each in [*pages]:
                yield name, each

    def resume(
        self, known: Iterable[tuple[Pattern, Outcomes]], dropped: Iterable[tuple[Pattern, R]]
    ) -> None:
        """Go on with what an earlier run of this crawl found."""
        self.known.update(known)
        self._proven |= {n: None for n, e in self.known.items() if e.same >= PROVEN and not e.new}
        for name, page in dropped:
            self._dropped.setdefault(name, deque()).append(page)
            self._remembers += 1
