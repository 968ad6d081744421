"""The notes for a crawl's report that are not stats: examples, hosts, and savings.

    judged pages -> groups of near-duplicates with examples, hosts, originals -> report

The rule kept here: memory is bounded whatever is crawled. The numbers of groups and hosts are limited;
bodies of the last accepted pages are kept up to a number of bytes, so that a copy that comes soon can
be shown beside its original.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from dedup.core.fingerprint import main_words
from dedup.model.recipes import recipe_of
from dedup.model.report.differences import Hunk, differences
from dedup.scrapy.counts import Meter

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        AsyncIterator,
        Iterable,
        Iterator,
    )

    from scrapy.http import Response

    from dedup.model.recipes import Recipe
    from dedup.model.values import Verdict

__all__ = ["Example", "Group", "HeldRule", "Host", "Journal"]

GROUPS = 10_000  # originals whose near-duplicates are counted
HOSTS = 10_000  # hosts that are counted
EXAMPLES = 3  # near-duplicates of a group that are named
TEXTS = 60  # examples whose differing text is kept
WORDS = 4000  # words of each text that are compared
SAMPLE_BYTES = 32 << 20  # bodies of accepted pages
KEPT = 20_000  # originals, the first ones: what a page at another distance would have resembled

T = TypeVar("T")


class HeldRule(NamedTuple):
    """A rule about URLs that holds (dedup.detector.url_rules): its text, its evidence, an example."""

    rule: str
    pairs: int
    copy: str
    original: str


class Example:
    """A near-duplicate: its URL, distances in bits, and both texts if they were available."""

    def __init__(self, url: str, distance: int, similarity: float) -> None:
        """Begin without texts."""
        self.url, self.distance, self.similarity = url, distance, similarity
        self.texts: tuple[list[str], list[str], list[Hunk]] | None = None


class Group:
    """The near-duplicates of one page."""

    def __init__(self) -> None:
        """Begin with none."""
        self.count = 0
        self.examples: list[Example] = []


class Host:
    """The pages of one host: how many were judged, how many were near-duplicates."""

    __slots__ = ("judged", "near_duplicates")

    def __init__(self) -> None:
        """Begin with none."""
        self.judged = self.near_duplicates = 0


class Journal:
    """Takes notes of a crawl while it runs."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.groups: dict[str, Group] = {}
        self.hosts: dict[str, Host] = {}
        self.url_rules: list[HeldRule] = []  # at the crawl's end
        self.kept: list[Verdict] = []  # the first pages that became originals, in their order
        self.kept_all = True  # whether it has all of them
        self.dropped_bytes = 0  # of near-duplicates' bodies
        self.parsed = 0  # pages whose callbacks were timed
        self._meter = Meter()  # of those callbacks
        self.recipe = recipe_of()  # of the pages judged
        self._bodies: OrderedDict[str, bytes] = OrderedDict()  # by document key
        self._bodies_bytes = 0
        self._texts = 0

    def judged(self, verdict: "Verdict", response: "Response", recipe: "Recipe") -> None:
        """Note a page and its verdict."""
        self.recipe = recipe
        host = self._host(response.url)
        host.judged += 1
        if verdict.status != "near_duplicate":
            if verdict.token is not None:
                self._keep(verdict.key, response.body)
                self.kept_all = len(self.kept) < KEPT
                if self.kept_all:
                    self.kept.append(verdict)
            return
        host.near_duplicates += 1
        self.dropped_bytes += len(response.body)
        group = self.groups.get(verdict.of or "")
        if group is None:
            if len(self.groups) >= GROUPS:
                return
            group = self.groups[verdict.of or ""] = Group()
        group.count += 1
        if len(group.examples) < EXAMPLES:
            example = Example(response.url, verdict.distance or 0, verdict.similarity or 0.0)
            group.examples.append(example)
            self._compare(example, verdict, response, recipe)

    @property
    def parsing_seconds(self) -> float:
        """The CPU time of the callbacks."""
        return self._meter.seconds

    def timed(self, results: "Iterable[T]") -> "Iterator[T]":
        """Pass on a callback's output, and add up its CPU time in seconds."""
        self.parsed += 1
        source = iter(results)
        while True:
            try:
                with self._meter:
                    result = next(source)
            except StopIteration:
                return
            yield result

    async def timed_async(self, results: "AsyncIterable[T]") -> "AsyncIterator[T]":
        """Do the same for an asynchronous callback, without what runs while it waits."""
        self.parsed += 1
        source = aiter(results)
        while True:
            try:
                with self._meter:
                    result = await self._meter.pausing(anext(source))
            except StopAsyncIteration:
                return
            yield result

    def _host(self, url: str) -> Host:
        try:
            name = urlsplit(url).hostname or ""
        except ValueError:
            name = ""
        if name not in self.hosts and len(self.hosts) >= HOSTS:
            name = "(others)"
        return self.hosts.setdefault(name, Host())

    def _keep(self, key: str, body: bytes) -> None:
        self._bodies_bytes += len(body) - len(self._bodies.pop(key, b""))
        self._bodies[key] = body
        while self._bodies_bytes > SAMPLE_BYTES:
            self._bodies_bytes -= len(self._bodies.popitem(last=False)[1])

    def _compare(
        self, example: Example, verdict: "Verdict", response: "Response", recipe: "Recipe"
    ) -> None:
        original = self._bodies.get(verdict.of or "")
        if original is None or self._texts >= TEXTS:
            return
        self._texts += 1
        encoding: Any = getattr(response, "encoding", None)
        a, b = (_words(body, encoding, recipe) for body in (original, response.body))
        example.texts = (a, b, differences(a, b))


def _words(body: bytes, encoding: str | None, recipe: "Recipe") -> list[str]:
    blocks = main_words(body, encoding=encoding, recipe=recipe)
    return [token for block in blocks for token in block.tokens][:WORDS]
