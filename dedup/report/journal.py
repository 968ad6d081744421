"""Examples of copies, hosts, what became of each page; and DEDUP_DROPPED. Only where a setting asks for one of these.

    judged and checked pages -> Journal -> Crawl: groups with examples, hosts, pages
                                         -> DropsFile: a line for each page dropped, flagged or withheld

Invariant: memory is bounded: the number of groups, hosts and pages; and bodies of the last accepted pages, so that a copy
that comes soon is shown with its original.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from dedup.model.names import count, document_key
from dedup.model.page import Verdict
from dedup.model.policy import Mode
from dedup.model.recipes import Recipe
from dedup.report.crawl import CopyExample, CopyGroup, Crawl, Host
from dedup.report.drops import Action, Drop, DropsFile, compare_words
from dedup.report.texts import differences

GROUPS = 10_000  # originals whose copies are counted
HOSTS = 10_000  # that are counted
EXAMPLES = 3  # copies of a group that are named
TEXTS = 60  # examples whose differing text is kept
WORDS = 4000  # of each text that are compared
ORIGINALS = 64  # whose words are kept for the next copy
SAMPLE_BYTES = 32 << 20  # bodies of accepted pages
PAGES = 20_000  # of which it is said what became of them

_ACTIONS: dict[Mode, Action] = {
    "drop": "dropped",
    "skip_links": "links_skipped",
    "tag": "flagged",
}

_Texts = tuple[list[str], list[str]]  # the words of an original and of a page
# Returns the words of a page's main text, from its body and encoding.
ReadWords = Callable[[bytes, str | None, Recipe], Iterable[str]]


class JudgedPage(NamedTuple):
    """A page that was judged.

    rule         why it is dropped: "text", or "items: " and its pattern
    of_template  how much of it is the template of its site, in words
    """

    verdict: Verdict
    url: str
    body: bytes
    encoding: str | None
    recipe: Recipe
    callback: str
    rule: str = ""
    of_template: str = ""


class Journal:
    """Takes notes of a crawl while it runs; crawl has them."""

    def __init__(self, mode: Mode, drops: DropsFile | None, words: ReadWords) -> None:
        """Begin with nothing; drops lists every page."""
        self.crawl, self._words_of = Crawl(mode=mode), words
        self._drops = drops
        self._words: OrderedDict[str, list[str]] = OrderedDict()  # of originals, by document key
        self._bodies: OrderedDict[str, bytes] = OrderedDict()  # the same
        self._bodies_bytes = self._texts = 0

    def judged(self, judged: JudgedPage) -> None:
        """Note a page and its verdict."""
        verdict = judged.verdict
        self.crawl.recipe = judged.recipe.id
        if self._drops is not None:
            self._drops.open()
        host = self._host(judged.url)
        host.judged += 1
        if verdict.status == "near_duplicate":
            host.near_duplicates += 1
            self._copy(judged)
            return
        beside = "" if verdict.of is None else f" against {verdict.of}"
        template = (
            f" ({judged.of_template})" if judged.of_template and verdict.reason == "unread" else ""
        )
        self._became(verdict.key, f"{verdict.reason or verdict.status}{beside}{template}")
        if verdict.token is not None:
            self._keep(verdict.key, judged.body)

    def checked(self, judged: JudgedPage, items: int, requests: int, gave: str) -> None:
        """Note a checked page: how many items and requests are withheld of it, and what it gave."""
        beside = f"checked against {judged.verdict.of or 'what it gave before'}: {gave}"
        numbers = {"item": items, "request": requests}
        withheld = ", ".join(count(n, what) for what, n in numbers.items() if n)
        if judged.verdict.of is None and not withheld:
            return  # it is kept for another reason
        self._became(judged.verdict.key, f"{beside}; withheld: {withheld}" if withheld else beside)
        if self._drops is not None and withheld:
            self._list(judged, self._texts_of(judged), "check", items=items, requests=requests)

    def not_requested(
        self, url: str, linked_from: str, callback: str, *, reason: str, rule: str
    ) -> None:
        """Note a request that is not made."""
        if self._drops is not None:
            self._drops.add(
                Drop(
                    time=_now(),
                    action="not_requested",
                    url=url,
                    key=document_key(url),
                    of=linked_from,
                    similarity=0.0,
                    distance=0,
                    identity="unknown",
                    reason=reason,
                    callback=callback,
                    rule=rule,
                )
            )

    def _copy(self, judged: JudgedPage) -> None:
        crawl, of = self.crawl, judged.verdict.of or ""
        crawl.dropped_bytes += len(judged.body)
        group = crawl.near_duplicates.get(of)
        if group is None and len(crawl.near_duplicates) < GROUPS:
            group = crawl.near_duplicates[of] = CopyGroup()
        is_example = group is not None and len(group.examples) < EXAMPLES
        has_texts = self._drops is not None or (is_example and self._texts < TEXTS)
        texts = self._texts_of(judged) if has_texts else None
        if self._drops is not None:
            self._list(judged, texts, "drop", rule=judged.rule)
        if group is None:
            return
        similarity = judged.verdict.similarity or 0.0
        group.count += 1
        group.least = min(group.least, similarity)
        if is_example:
            example = CopyExample(judged.url, judged.verdict.distance or 0, similarity)
            group.examples.append(example)
            if texts is not None and self._texts < TEXTS:
                self._texts += 1
                example.texts = (*texts, differences(*texts))

    def _list(
        self,
        judged: JudgedPage,
        texts: _Texts | None,
        would: Literal["drop", "check"],
        **more: Any,
    ) -> None:
        """Write a line of DEDUP_DROPPED; texts are the words of original and page, None if the first is gone."""
        assert self._drops is not None
        verdict, mode = judged.verdict, self.crawl.mode
        differs, numbers_only = (None, False) if texts is None else compare_words(*texts)
        self._drops.add(
            Drop(
                time=_now(),
                action=_ACTIONS[mode] if would == "drop" or mode == "tag" else "withheld",
                url=judged.url,
                key=verdict.key,
                of=verdict.of or verdict.key,
                similarity=1.0 if verdict.match is None else round(verdict.similarity or 0.0, 4),
                distance=verdict.distance or 0,
                identity=verdict.identity or "unknown",
                reason=verdict.reason,
                callback=judged.callback,
                differs=differs,
                numbers_only=numbers_only,
                would=would if mode == "tag" else "",
                template=judged.of_template,
                **more,
            )
        )

    def close(self) -> None:
        """Close the file of drops."""
        if self._drops is not None:
            self._drops.close()

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

    def _texts_of(self, judged: JudgedPage) -> _Texts | None:
        """Return the words of a copy's original and its own; None if the original is gone."""
        key = judged.verdict.of or ""
        if (original := self._words.get(key)) is None:
            if (body := self._bodies.get(key)) is None:
                return None
            original = self._words[key] = self._read(body, judged)
            if len(self._words) > ORIGINALS:
                self._words.popitem(last=False)
        return original, self._read(judged.body, judged)

    def _read(self, body: bytes, judged: JudgedPage) -> list[str]:
        return [*islice(self._words_of(body, judged.encoding, judged.recipe), WORDS)]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
