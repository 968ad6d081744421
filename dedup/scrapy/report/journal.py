"""Examples of copies, hosts, what became of each page; and DEDUP_DROPPED. Only where a setting asks for one of these.

    judged and compared pages -> Journal -> Crawl: groups with examples, hosts, places, pages
                                         -> DropsFile: a line for each page dropped, flagged or withheld

Invariant: memory is bounded: the number of groups, hosts and pages; and bodies of the last accepted pages, so that a copy
that comes soon is shown with its original.
"""

import re
from collections import OrderedDict
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from datetime import UTC, datetime
from time import thread_time
from types import coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

from dedup.core.fingerprint import main_words
from dedup.model.page import Verdict
from dedup.model.policy import Mode
from dedup.model.recipes import Recipe
from dedup.report.crawl import Crawl, Example, Group, Host
from dedup.report.drops import Drop, DropsFile, compare_words
from dedup.report.texts import differences

if TYPE_CHECKING:
    from scrapy.http import Response

    from dedup.report.drops import Action
    from dedup.scrapy.page.in_flight import Page

GROUPS = 10_000  # originals whose copies are counted
HOSTS = 10_000  # that are counted
EXAMPLES = 3  # copies of a group that are named
TEXTS = 60  # examples whose differing text is kept
WORDS = 4000  # of each text that are compared
ORIGINALS = 64  # whose words are kept for the next copy
PLACES = 1000  # callbacks and kinds of path that are counted
FOLDERS = 2  # of a path that tell its kind
SAMPLE_BYTES = 32 << 20  # bodies of accepted pages
PAGES = 20_000  # of which it is said what became of them

_ACTIONS: "dict[Mode, Action]" = {
    "drop": "dropped",
    "skip_links": "links_skipped",
    "tag": "flagged",
}

T = TypeVar("T")


class Journal:
    """Takes notes of a crawl while it runs; crawl has them."""

    def __init__(self, mode: Mode, drops: DropsFile | None) -> None:
        """Begin with nothing; drops lists every page."""
        self.crawl = Crawl(mode=mode)
        self._drops = drops
        self._words: OrderedDict[str, list[str]] = OrderedDict()  # of originals, by document key
        self._bodies: OrderedDict[str, bytes] = OrderedDict()  # the same
        self._bodies_bytes = self._texts = 0

    def judged(
        self,
        verdict: Verdict,
        response: "Response",
        recipe: Recipe,
        callback: str,
        page: "Page | None" = None,
    ) -> None:
        """Note a page and its verdict; page is one that looks like an accepted page."""
        self.crawl.recipe = recipe.id
        if self._drops is not None:
            self._drops.open()
        host = self._host(response.url)
        host.judged += 1
        if verdict.status == "near_duplicate":
            host.near_duplicates += 1
            self._copy(verdict, response, recipe, callback, page)
            return
        beside = "" if verdict.of is None else f" with {verdict.of}"
        self._became(verdict.key, f"{verdict.reason or verdict.status}{beside}")
        if verdict.token is not None and verdict.match is None:
            self._keep(verdict.key, response.body)

    def withheld(
        self,
        verdict: Verdict,
        response: "Response",
        recipe: Recipe,
        callback: str,
        items: int,
        requests: int,
    ) -> None:
        """Note a page of which items or requests are withheld."""
        beside = f"compared with {verdict.of or 'its last visit'}"
        self._became(verdict.key, f"{beside}; withheld: {items} items, {requests} requests")
        if self._drops is not None:
            texts = self._texts_of(verdict, response, recipe)
            self._list(verdict, response, callback, texts, "compare", "", items, requests)

    def _copy(
        self,
        verdict: Verdict,
        response: "Response",
        recipe: Recipe,
        callback: str,
        page: "Page | None",
    ) -> None:
        crawl, of = self.crawl, verdict.of or ""
        crawl.dropped_bytes += len(response.body)
        place = (callback, kind_of_path(response.url))
        if place in crawl.places or len(crawl.places) < PLACES:
            crawl.places[place] = crawl.places.get(place, 0) + 1
        group = crawl.near_duplicates.get(of)
        if group is None and len(crawl.near_duplicates) < GROUPS:
            group = crawl.near_duplicates[of] = Group()
        is_example = group is not None and len(group.examples) < EXAMPLES
        has_texts = self._drops is not None or (is_example and self._texts < TEXTS)
        texts = self._texts_of(verdict, response, recipe) if has_texts else None
        rule = "" if page is None else "text" if page.by_text else f"items: {page.name}"
        self._list(verdict, response, callback, texts, "drop", rule)
        if group is None:
            return
        group.count += 1
        group.least = min(group.least, verdict.similarity or 0.0)
        if is_example:
            example = Example(response.url, verdict.distance or 0, verdict.similarity or 0.0)
            group.examples.append(example)
            if texts is not None and self._texts < TEXTS:
                self._texts += 1
                example.texts = (*texts, differences(*texts))

    def _list(
        self,
        verdict: Verdict,
        response: "Response",
        callback: str,
        texts: tuple[list[str], list[str]] | None,
        would: Literal["drop", "compare"],
        rule: str,
        items: int = 0,
        requests: int = 0,
    ) -> None:
        """Write a line of DEDUP_DROPPED; texts are the words of original and page, None if the first is gone."""
        if self._drops is None:
            return
        mode = self.crawl.mode
        differs, numbers_only = (None, False) if texts is None else compare_words(*texts)
        self._drops.add(
            Drop(
                time=datetime.now(UTC).isoformat(timespec="milliseconds"),
                action=_ACTIONS[mode] if would == "drop" or mode == "tag" else "withheld",
                url=response.url,
                key=verdict.key,
                of=verdict.of or verdict.key,
                similarity=1.0 if verdict.match is None else round(verdict.similarity or 0.0, 4),
                distance=verdict.distance or 0,
                identity=verdict.identity or "unknown",
                reason=verdict.reason,
                callback=callback,
                differs=differs,
                numbers_only=numbers_only,
                rule=rule,
                would=would if mode == "tag" else "",
                items=items,
                requests=requests,
            )
        )

    def close(self) -> None:
        """Close the file of drops."""
        if self._drops is not None:
            self._drops.close()

    def timed(self, results: Iterable[T]) -> Iterator[T]:
        """Pass on a callback's output, and add up its CPU time in seconds."""
        self.crawl.parsed += 1
        source = iter(results)
        while True:
            begun = thread_time()
            try:
                result = next(source)
            except StopIteration:
                return
            finally:
                self.crawl.seconds += thread_time() - begun
            yield result

    async def timed_async(self, results: AsyncIterable[T]) -> AsyncIterator[T]:
        """Do the same for an asynchronous callback, without what runs while it waits."""
        self.crawl.parsed += 1
        source = aiter(results)
        while True:
            try:
                result = await _measured(anext(source), self.crawl)
            except StopAsyncIteration:
                return
            yield result

    def _became(self, key: str, what: str) -> None:
        if key in self.crawl.pages or len(self.crawl.pages) < PAGES:
            self.crawl.pages[key] = what

    def _host(self, url: str) -> Host:
        try:
            name = urlsplit(url).hostname or ""
        except ValueError:
            name = ""
        if name not in self.crawl.hosts and len(self.crawl.hosts) >= HOSTS:
            name = "(others)"
        return self.crawl.hosts.setdefault(name, Host())

    def _keep(self, key: str, body: bytes) -> None:
        self._bodies_bytes += len(body) - len(self._bodies.pop(key, b""))
        self._bodies[key] = body
        while self._bodies_bytes > SAMPLE_BYTES:
            self._bodies_bytes -= len(self._bodies.popitem(last=False)[1])

    def _texts_of(
        self, verdict: Verdict, response: "Response", recipe: Recipe
    ) -> tuple[list[str], list[str]] | None:
        """Return the words of a copy's original and its own; None if the original is gone."""
        key = verdict.of or ""
        encoding: Any = getattr(response, "encoding", None)
        if (original := self._words.get(key)) is None:
            if (body := self._bodies.get(key)) is None:
                return None
            original = self._words[key] = _words(body, encoding, recipe)
            if len(self._words) > ORIGINALS:
                self._words.popitem(last=False)
        return original, _words(response.body, encoding, recipe)


@coroutine
def _measured(awaitable: Awaitable[T], crawl: Crawl) -> Generator[Any, Any, T]:
    steps = awaitable.__await__()
    step: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        begun = thread_time()
        try:
            waits_for = step(value)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            crawl.seconds += thread_time() - begun
        try:
            value = yield waits_for
        except BaseException as error:
            step, value = steps.throw, error
        else:
            step = steps.send


def kind_of_path(url: str) -> str:
    """Return the folder of a URL's path without numbers: "/item/#/" of /item/12/red.html?a=1."""
    try:
        folder = urlsplit(url).path.rpartition("/")[0]
    except ValueError:
        return ""
    return re.sub("[0-9]+", "#", "/".join(folder.split("/")[: FOLDERS + 1])) + "/"


def _words(body: bytes, encoding: str | None, recipe: Recipe) -> list[str]:
    blocks = main_words(body, encoding=encoding, recipe=recipe)
    return [token for block in blocks for token in block.tokens][:WORDS]
