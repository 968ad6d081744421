"""Examples of copies, hosts, what became of each page; and DEDUP_DROPPED. Only where a setting asks for one of these.

    judged and compared pages -> Journal -> Crawl: groups with examples, hosts, pages
                                         -> DropsFile: a line for each page dropped, flagged or withheld

Invariant: memory is bounded: the number of groups, hosts and pages; and bodies of the last accepted pages, so that a copy
that comes soon is shown with its original.
"""

from collections import OrderedDict
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
)
from datetime import UTC, datetime
from time import thread_time
from types import coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

from dedup.core.fingerprint import main_words
from dedup.model.names import count
from dedup.model.policy import Mode
from dedup.model.recipes import Recipe
from dedup.report.crawl import CopyExample, CopyGroup, Crawl, Host
from dedup.report.drops import Drop, DropsFile, compare_words
from dedup.report.texts import differences

if TYPE_CHECKING:
    from dedup.report.drops import Action
    from dedup.scrapy.page.in_flight import Page
    from dedup.scrapy.report import Seen

GROUPS = 10_000  # originals whose copies are counted
HOSTS = 10_000  # that are counted
EXAMPLES = 3  # copies of a group that are named
TEXTS = 60  # examples whose differing text is kept
WORDS = 4000  # of each text that are compared
ORIGINALS = 64  # whose words are kept for the next copy
SAMPLE_BYTES = 32 << 20  # bodies of accepted pages
PAGES = 20_000  # of which it is said what became of them

_ACTIONS: "dict[Mode, Action]" = {
    "drop": "dropped",
    "skip_links": "links_skipped",
    "tag": "flagged",
}

T = TypeVar("T")
_Words = tuple[list[str], list[str]]  # of an original and of a page


class Journal:
    """Takes notes of a crawl while it runs; crawl has them."""

    def __init__(self, mode: Mode, drops: DropsFile | None) -> None:
        """Begin with nothing; drops lists every page."""
        self.crawl = Crawl(mode=mode)
        self._drops = drops
        self._words: OrderedDict[str, list[str]] = OrderedDict()  # of originals, by document key
        self._bodies: OrderedDict[str, bytes] = OrderedDict()  # the same
        self._bodies_bytes = self._texts = 0

    def judged(self, seen: "Seen", page: "Page | None" = None) -> None:
        """Note a page and its verdict; page is one that looks like an accepted page."""
        verdict, response = seen.verdict, seen.response
        self.crawl.recipe = seen.recipe.id
        if self._drops is not None:
            self._drops.open()
        host = self._host(response.url)
        host.judged += 1
        if verdict.status == "near_duplicate":
            host.near_duplicates += 1
            self._copy(seen, page)
            return
        beside = "" if verdict.of is None else f" with {verdict.of}"
        told = f" ({seen.told})" if seen.told and verdict.reason == "unread" else ""
        self._became(verdict.key, f"{verdict.reason or verdict.status}{beside}{told}")
        if verdict.token is not None and verdict.match is None:
            self._keep(verdict.key, response.body)

    def withheld(self, seen: "Seen", items: int, requests: int) -> None:
        """Note a page of which items or requests are withheld."""
        beside = f"compared with {seen.verdict.of or 'its last visit'}"
        withheld = f"{count(items, 'item')}, {count(requests, 'request')}"
        self._became(seen.verdict.key, f"{beside}; withheld: {withheld}")
        if self._drops is not None:
            self._list(seen, self._texts_of(seen), "compare", items=items, requests=requests)

    def _copy(self, seen: "Seen", page: "Page | None") -> None:
        crawl, of = self.crawl, seen.verdict.of or ""
        crawl.dropped_bytes += len(seen.response.body)
        group = crawl.near_duplicates.get(of)
        if group is None and len(crawl.near_duplicates) < GROUPS:
            group = crawl.near_duplicates[of] = CopyGroup()
        is_example = group is not None and len(group.examples) < EXAMPLES
        has_texts = self._drops is not None or (is_example and self._texts < TEXTS)
        texts = self._texts_of(seen) if has_texts else None
        if self._drops is not None:
            rule = "" if page is None else "text" if page.by_text else f"items: {page.name}"
            self._list(seen, texts, "drop", rule=rule)
        if group is None:
            return
        likeness = seen.verdict.similarity or 0.0
        group.count += 1
        group.least = min(group.least, likeness)
        if is_example:
            example = CopyExample(seen.response.url, seen.verdict.distance or 0, likeness)
            group.examples.append(example)
            if texts is not None and self._texts < TEXTS:
                self._texts += 1
                example.texts = (*texts, differences(*texts))

    def _list(
        self, seen: "Seen", texts: _Words | None, would: Literal["drop", "compare"], **more: Any
    ) -> None:
        """Write a line of DEDUP_DROPPED; texts are the words of original and page, None if the first is gone."""
        assert self._drops is not None
        verdict, mode = seen.verdict, self.crawl.mode
        differs, numbers_only = (None, False) if texts is None else compare_words(*texts)
        self._drops.add(
            Drop(
                time=datetime.now(UTC).isoformat(timespec="milliseconds"),
                action=_ACTIONS[mode] if would == "drop" or mode == "tag" else "withheld",
                url=seen.response.url,
                key=verdict.key,
                of=verdict.of or verdict.key,
                similarity=1.0 if verdict.match is None else round(verdict.similarity or 0.0, 4),
                distance=verdict.distance or 0,
                identity=verdict.identity or "unknown",
                reason=verdict.reason,
                callback=seen.callback,
                differs=differs,
                numbers_only=numbers_only,
                would=would if mode == "tag" else "",
                told=seen.told,
                **more,
            )
        )

    def close(self) -> None:
        """Close the file of drops."""
        if self._drops is not None:
            self._drops.close()

    async def timed(self, results: AsyncIterable[T]) -> AsyncIterator[T]:
        """Pass on a callback's output, and add up its CPU time in seconds, without what runs while it waits."""
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

    def _texts_of(self, seen: "Seen") -> _Words | None:
        """Return the words of a copy's original and its own; None if the original is gone."""
        key = seen.verdict.of or ""
        encoding: Any = getattr(seen.response, "encoding", None)
        if (original := self._words.get(key)) is None:
            if (body := self._bodies.get(key)) is None:
                return None
            original = self._words[key] = _words(body, encoding, seen.recipe)
            if len(self._words) > ORIGINALS:
                self._words.popitem(last=False)
        return original, _words(seen.response.body, encoding, seen.recipe)


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
        except BaseException as error:  # noqa: BLE001 - thrown into the awaitable, which may handle it
            step, value = steps.throw, error
        else:
            step = steps.send


def _words(body: bytes, encoding: str | None, recipe: Recipe) -> list[str]:
    blocks = main_words(body, encoding=encoding, recipe=recipe)
    return [token for block in blocks for token in block.tokens][:WORDS]
