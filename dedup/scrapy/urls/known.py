"""The rules in force on a crawl's sites, and the accepted pages that requests lead to.

    learn(copy, original, same=True) -> pairs of a rule -> PAIRS of FEW originals, and nothing against it -> in force
    learn(..., same=False), or two accepted pages with one URL under the rules -> those that map them together end
    a request -> its URL under the rules -> an accepted page of its kind -> known()

A rule about a parameter counts for the values that its pairs had, and for all once these had FEW of them: that
"page=1" means nothing says nothing of "page=2".

Invariants:
  - Rules that were learned never map two URLs together of which one brought something new beside the other, nor two
    accepted pages of a kind that are remembered, unless their text, word for word, and title are equal.
  - What a person pins is in force, and what a person forbids is not, whatever the crawl meets.
  - Memory is bounded: PAGES, RULES, APART; what exceeds it is not learned, and so skips nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgspec
from scrapy import Request

from dedup.model.errors import UsageError
from dedup.model.names import registrable_domain
from dedup.model.page import TEXT_HASH, Document
from dedup.scrapy.evidence.enough import FEW
from dedup.scrapy.page.request import key_of
from dedup.scrapy.urls.rules import (
    PARAMETERS,
    Rule,
    RuleSet,
    Values,
    candidates,
    read_rules,
    rule_of,
    values_of,
)

if TYPE_CHECKING:
    from dedup.scrapy.memory import NamespaceMemory
    from dedup.scrapy.settings import Config

PAIRS = 10  # that brought nothing new, from which on a rule is in force
FIRST, LATER = 200, 8  # pairs of a site that teach: the first, and one in this number of the others
CHECKED = 20  # one in this number of requests for known pages is sent

PAGES = 100_000  # accepted keys; of a site with more, the last ones
RULES = 5000  # in force, ended, and on their way
APART = 5000  # pairs that brought something new; with more no further rule comes in force
TOGETHER = 16  # accepted pages that a person's rules map to one URL, and that are looked at


class Known(NamedTuple):
    """The accepted page that a request leads to, the rules that say so, and whether it is not sent."""

    original: str
    rules: tuple[str, ...]
    skip: bool


class HeldRule(NamedTuple):
    """A rule in force: its text, how many pairs speak for it, and the last of them."""

    rule: str
    pairs: int
    copy: str
    original: str


class _Record(msgspec.Struct):
    """What speaks for a rule: pairs, hashes of the first FEW originals, as many values, the last pair; or that it has ended."""

    pairs: int = 0
    originals: list[int] = []
    values: list[str] = []
    copy: str = ""
    original: str = ""
    ended: bool = False

    def note(self, rule: Rule, copy: str, original: str) -> None:
        self.pairs += 1
        self.copy, self.original = copy, original
        if len(self.originals) < FEW:
            self.originals += {_hash(original)}.difference(self.originals)
        if rule.kind in PARAMETERS and len(self.values) < FEW:
            found = {v for url in (copy, original) for v in values_of(url, rule.name)}
            self.values += sorted(found.difference(self.values))[: FEW - len(self.values)]


class _Kept(msgspec.Struct):
    """What outlasts a run: what is known of each rule, and the pairs that brought something new."""

    rules: dict[str, _Record]
    apart: list[tuple[str, str]]


class _Page(msgspec.Struct, frozen=True, gc=False):
    """An accepted page; text: hashes of its text and title, b"" if it is like no other; kind None: of every kind."""

    kind: str | None
    paid: bool
    text: bytes

    def differs(self, other: "_Page") -> bool:
        if self.kind != other.kind and None not in {self.kind, other.kind}:
            return False
        return self.text != other.text or not self.text


class _Site:
    """The rules and the accepted pages of one registrable domain."""

    def __init__(self, pinned: dict[Rule, Values], forbidden: frozenset[Rule]) -> None:
        self.pages: dict[str, _Page] = {}
        self.records: dict[Rule, _Record] = {}
        self.apart: list[tuple[str, str]] = []
        self.forbidden = forbidden
        self.rules = self._pinned = RuleSet(pinned)
        self.pairs = 0
        self._index: dict[str, list[str]] = {}  # what rules map accepted keys to -> these keys

    def under(self, url: str) -> list[str]:
        """Return the accepted keys that the rules in force map to a URL."""
        return self._index.get(url) or [url] * (url in self.pages)

    def accept(self, key: str, page: _Page) -> None:
        if key in self.pages:
            self.forget(key)
        self.pages[key] = page
        if self.rules.rules:
            found = self._enter(key)
            self.end([(key, other) for other in found if page.differs(self.pages[other])])

    def forget(self, key: str) -> None:
        if self.pages.pop(key, None) is not None and self._index:
            others = self._index.get(self.rules.normal(key)[0], [])
            if key in others:
                others.remove(key)

    def _enter(self, key: str) -> list[str]:
        """Enter an accepted key; return those that the rules map to the same URL."""
        url, _ = self.rules.normal(key)
        if url == key and url not in self._index:
            return []
        found = [other for other in self.under(url) if other != key]
        self._index[url] = [*found[: TOGETHER - 1], key]
        return found

    def same(self, copy: str, original: str) -> None:
        """Learn from a pair that brought nothing new."""
        (one, used), (other, more) = self.rules.normal(copy), self.rules.normal(original)
        for rule in {*used, *more} if one == other else candidates(one, other):
            if rule not in self.forbidden:
                record = self.records.setdefault(rule, _Record())
                record.note(rule, copy, original)
                if record.pairs >= PAIRS:
                    self.begin(rule, record)

    def begin(self, rule: Rule, record: _Record) -> None:
        """Put a rule in force, if enough speaks for it and nothing against it."""
        if record.ended or record.pairs < PAIRS or len(record.originals) < FEW:
            return
        values = Values(record.values if len(record.values) < FEW else ())
        before = self.rules
        if rule in self._pinned.rules or before.rules.get(rule) == values:
            return
        apart = self.apart + self._take({**before.rules, rule: values})
        if any(self.rules.mapping(*p) is not None and before.mapping(*p) is None for p in apart):
            record.ended = True
            apart = self._take({r: v for r, v in before.rules.items() if r != rule})
            self.end(self.apart + apart)

    def end(self, apart: list[tuple[str, str]]) -> None:
        """End the rules that map two of these URLs together; those that a person pinned stay."""
        while apart:
            pair, rules = apart.pop(), self.rules.rules
            guilty = (self.rules.mapping(*pair) or frozenset()) - self._pinned.rules.keys()
            if guilty:
                without = {r: RuleSet({k: v for k, v in rules.items() if k != r}) for r in guilty}
                ended = {r for r in guilty if without[r].mapping(*pair) is None} or guilty
                for rule in ended:
                    self.records[rule].ended = True
                found = self._take({r: v for r, v in rules.items() if r not in ended})
                apart = [*self.apart, *found, pair]

    def _take(self, rules: Mapping[Rule, Values]) -> list[tuple[str, str]]:
        """Put rules in force; return the accepted pages that differ, and that they map together."""
        self.rules, self._index = RuleSet(rules), {}
        return [
            (key, other)
            for key, page in (self.pages.items() if rules else ())
            for other in self._enter(key)
            if page.differs(self.pages[other])
        ]


class SiteUrls:
    """What one namespace of a crawl knows of its sites' URLs.

    count  of rules: in force, ended, and on their way
    """

    def __init__(self, memory: "NamespaceMemory", config: "Config") -> None:
        """Begin with what a person's file says. Raises UsageError."""
        self._memory = memory
        self._learns = config.urls != "off"
        self._skips = config.urls == "skip" and config.mode == "drop"
        self._sites: dict[str, _Site] = {}
        self.count = self._pages = self._apart = 0
        self._has_begun = False
        self._pinned: dict[Rule, Values] = {}
        self._forbidden: frozenset[Rule] = frozenset()
        if self._learns and config.url_rules is not None:
            self._pinned, self._forbidden = read_rules(config.url_rules)
            self.count = len(self._pinned)

    def accept(self, document: Document) -> None:
        """Note an accepted page."""
        if not self._learns:
            return
        page = document.page
        says = page.features and not page.unread
        text = page.sketch[TEXT_HASH:] + (page.identity >> 32).to_bytes(4, "big") if says else b""
        self._enter(document.key, _Page(document.kind, paid=document.paid, text=text))

    def unlike(self, key: str) -> None:
        """Note a page that is not HTML: it is like no other."""
        if self._learns:
            self._enter(key, _Page(None, paid=False, text=b""))

    def forget(self, key: str) -> None:
        """Forget a page."""
        site = self._sites.get(registrable_domain(key))
        if site is not None and key in site.pages:
            site.forget(key)
            self._pages -= 1

    def _enter(self, key: str, page: _Page) -> None:
        name = registrable_domain(key)
        site = self._sites.get(name) or self._site(name)
        if key not in site.pages and self._pages >= PAGES:
            if not site.pages:
                return
            self.forget(next(iter(site.pages)))
        self._pages += key not in site.pages
        site.accept(key, page)

    def learn(self, key: str, original: str, *, same: bool) -> None:
        """Learn from two document keys, of which the second was accepted before: whether the first brought the same."""
        name = registrable_domain(key)
        if not self._learns or key == original or name != registrable_domain(original):
            return
        if not self._has_begun:
            self._begin()
        site = self._sites.get(name) or self._site(name)
        if not same:
            site.end([(key, original)])
            site.apart += [(key, original)] * (self._apart < APART)
            self._apart += 1
        elif self.count < RULES and self._apart <= APART:
            before, site.pairs = len(site.records), site.pairs + 1
            if site.pairs <= FIRST or site.pairs % LATER == 0:
                site.same(key, original)
            self.count += len(site.records) - before

    def _begin(self) -> None:
        """Take over the documents of the store, once, and the rules that were in force."""
        self._has_begun = True
        for document in self._memory.documents():
            self.accept(document)
        for site in self._sites.values():
            for rule, record in site.records.items():
                site.begin(rule, record)

    def _site(self, name: str) -> _Site:
        if name not in self._sites:
            pinned = {rule: v for rule, v in self._pinned.items() if _site_of(rule) == name}
            self._sites[name] = _Site(pinned, self._forbidden)
        return self._sites[name]

    def known(self, request: Request, kind: str) -> Known | None:
        """Return the accepted page of a kind that an ordinary request leads to by the rules in force, or None."""
        if not self._has_begun:
            self._begin()
        key = key_of(request)
        site = self._sites.get(registrable_domain(key))
        if site is None or not site.rules.rules:
            return None
        for original in site.under(site.rules.normal(key)[0]):
            page = site.pages[original]
            if original != key and page.paid and page.kind == kind:
                rules = sorted(site.rules.mapping(key, original) or ())
                named = tuple(rule.text(site.rules.rules[rule]) for rule in rules)
                return Known(original, named, self._skips and _hash(key) % CHECKED != 0)
        return None

    def rules(self) -> list[HeldRule]:
        """Return the rules in force, the strongest first."""
        if self.count and not self._has_begun:
            self._begin()
        found = [
            HeldRule(rule.text(values), known.pairs, known.copy, known.original)
            for site in self._sites.values()
            for rule, values in site.rules.rules.items()
            for known in (site.records.get(rule, _Record()),)
        ]
        return sorted(found, key=lambda held: (-held.pairs, held.rule))

    def take(self, content: bytes) -> None:
        """Go on with what to_bytes() of an earlier run returned; what cannot be read is learned again."""
        if not content or not self._learns:
            return
        try:
            kept = msgspec.msgpack.decode(content, type=_Kept)
            rules = {rule_of(text)[0]: record for text, record in kept.rules.items()}
        except (msgspec.MsgspecError, UsageError):
            return
        for rule, record in rules.items():
            site = self._site(_site_of(rule))
            if rule not in site.forbidden:
                site.records[rule] = record
        for pair in kept.apart:
            self._site(registrable_domain(pair[0])).apart.append(pair)
        self.count += len(rules)
        self._apart += len(kept.apart)

    def to_bytes(self) -> bytes:
        """Return what outlasts this run; b"" if nothing was learned."""
        sites = [site for site in self._sites.values() if site.records or site.apart]
        rules = {rule.text(): record for site in sites for rule, record in site.records.items()}
        apart = [pair for site in sites for pair in site.apart]
        return msgspec.msgpack.encode(_Kept(rules, apart)) if sites else b""


def _hash(key: str) -> int:
    return crc32(key.encode("utf-8", "surrogatepass"))


def _site_of(rule: Rule) -> str:
    return registrable_domain(f"http://{rule.host}/")
