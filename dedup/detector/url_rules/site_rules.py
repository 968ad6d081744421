"""What is known of the URLs of a site, and of all sites of a crawl: the evidence, and the rules that hold.

    two pages with the same text -> the atoms by which their URLs differ -> evidence for these
    FOR of it, from ORIGINALS pages -> birth: checked against every page that is remembered -> holds
    an accepted page -> its URL under the rules -> another page there, with another text -> the rules fall

A parameter's rule is learned for the whole host, and beside it for each path that its pages lie in: where
`id` matters on one path and not on another, the first falls, and that of the path holds. Only that two hosts
are one is learned for the site: what one host does with its URLs says nothing of another.

A page that was kept because it leads to a new link is a doubt of the rule: had it been skipped, the link
would have been missed. A rule in doubt does not come to hold and skips nothing, until all such links were
met on pages that the rule does not touch, and that are not reached through its copies alone.

What a person said of a rule (DEDUP_URL_RULES) overrides its evidence.

Invariants: the rules that were learned and hold never map two pages with different texts together while both are remembered,
and a rule that did once never holds again. Memory is bounded: MOST_RULES rules, PAGES pages, DOUBTS links in
doubt; MOST_SITES sites, MOST_PAGES pages of all of them, of which the least recently seen sites are evicted
first. What exceeds the limits is not learned, and so skips nothing. Two URLs are evidence only if they have one
registrable domain, and then for that one.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple
from zlib import crc32

import msgspec

from dedup.core.fingerprint import similarities
from dedup.detector.url_rules.rule_records import (
    EXAMPLES,
    FOR,
    MOST_RULES,
    MOST_SITES,
    ORIGINALS,
    Record,
    Records,
    Said,
    SaidRules,
)
from dedup.detector.url_rules.rule_set import (
    Atom,
    Rule,
    RuleSet,
    differences,
    scopes_of,
    take_apart,
)
from dedup.model.names import registrable_domain
from dedup.model.page import PageFingerprint, are_two_things, identity_of
from dedup.model.recipes import Recipe, recipe_of


class Page(msgspec.Struct, frozen=True, gc=False):
    """An accepted page; fingerprint None: what it says is not known, so it is like no other."""

    key: str
    fingerprint: PageFingerprint | None
    kind: str = ""
    paid: bool = True


def is_same(a: PageFingerprint | None, b: PageFingerprint | None, recipe: Recipe) -> bool:
    """Whether two accepted pages of one site are the same page to their readers.

    They are if they are near-duplicates, by the recipe, and do not say that they are two. Short pages are
    only if nothing tells them apart, and what was not read is like nothing.
    """
    if a is None or b is None or a.unread or b.unread:
        return False
    if are_two_things(a, b):
        return False
    if a.value == b.value and a.sketch == b.sketch and a.features == b.features:
        return a.identity == b.identity or a.features >= recipe.full_features
    if min(a.features, b.features) < recipe.full_features:
        return False
    if identity_of(a.identity, b.identity) == "other":
        return False
    if (a.value ^ b.value).bit_count() > recipe.distance:
        return False
    return similarities(a.sketch, [b.sketch])[0] >= recipe.similarity


LIKELY = 3  # pairs that speak for a rule, of two pages, from which on it is likely to come to hold
PAGES = 20_000  # of a site that are remembered, 500 bytes each
DOUBTS = 4096  # links of a site that rules are in doubt for
TOGETHER = 16  # accepted pages that rules may map together
MOST_ATOMS = 6  # by which a pair may differ that still is evidence


class Known(NamedTuple):
    """What rules say of a URL that was not fetched: it is that of an accepted page."""

    rules: tuple[Rule, ...]
    original: str


class _Conflict(NamedTuple):
    """Two pages of other texts that rules map together."""

    page: Page
    other: Page
    rules: frozenset[Rule]


class _Doubt(NamedTuple):
    """A copy that was kept for its links, and those that were met on no other page yet."""

    url: str
    seconds: float
    rules: tuple[Rule, ...]
    links: set[bytes]


_Index = dict[tuple[object, ...], list[Page]]
NOTHING_SAID: Mapping[Rule, Said] = MappingProxyType({})


class SiteRules:
    """The rules of one site (registrable domain)."""

    def __init__(self, recipe: Recipe, said: Mapping[Rule, Said] = NOTHING_SAID) -> None:
        """Know only what a person said; the recipe says which pages are the same."""
        self.records: dict[Rule, Record] = {}
        self.pages: OrderedDict[str, Page] = OrderedDict()
        self.changed = False  # whether a rule came to hold, or fell, since that was set to False
        self._recipe = recipe
        self._held = RuleSet(())
        self._index: _Index = {}
        self._likely = RuleSet(())  # rules that hold, and those that are likely to
        self._likely_forms: set[tuple[object, ...]] = set()
        self._doubts: dict[bytes, list[_Doubt]] = {}
        self._said = said
        if said:
            self.take({})

    @property
    def held(self) -> frozenset[Rule]:
        """The rules that hold."""
        return self._held.rules

    # ------------------------------------------------------------------------------- evidence

    def copy(self, url: str, original: str) -> None:
        """Learn from two URLs with the same text, of which the second was accepted before."""
        for rule in self._explaining(url, original):
            record = self._record(rule)
            if record is None or record.against or record.said:
                continue
            record.pairs += 1
            digest = crc32(original.encode("utf-8", "surrogatepass"))
            if len(record.originals) < ORIGINALS and digest not in record.originals:
                record.originals.append(digest)
            if len(record.examples) < EXAMPLES:
                record.examples.append((url, original))
            if record.pairs == LIKELY or not record.pairs % FOR:
                self._note_likely()
            self._bring_up(rule, record)

    def refute(self, url: str, original: str) -> None:
        """End the rules that explain the difference of two URLs: their pages bring different things."""
        rules = frozenset(self._explaining(url, original, all_of_them=True))
        known = [rule for rule in rules if rule in self.records and not self.records[rule].said]
        for rule in known:
            self._end(rule, _Conflict(Page(url, None), Page(original, None), rules))
        if known:
            self._rebuild()

    def accept(self, page: Page) -> None:
        """Learn of an accepted page."""
        self.pages[page.key] = page
        self.pages.move_to_end(page.key)
        if len(self.pages) > PAGES:
            self._unindex(self.pages.popitem(last=False)[1])
        if self._likely.rules and (parts := take_apart(page.key)) is not None:
            self._likely_forms.add(self._likely.normal(parts).form)
        if self._held.rules:
            conflict = self._enter(page, self._held, self._index)
            if conflict is not None and self._blame(conflict):
                self._rebuild()

    def forget(self, key: str) -> None:
        """Forget a page: nothing is skipped for its sake."""
        page = self.pages.pop(key, None)
        if page is not None:
            self._unindex(page)

    def known(self, url: str, kind: str = "") -> Known | None:
        """Return the accepted page that a URL is equivalent to, by rules that hold and are not in doubt.

        kind  what the page is to be read for; "" if that does not matter
        """
        parts = take_apart(url) if self._index else None
        if parts is None:
            return None
        form, used = self._held.normal(parts)
        pages = self._index.get(form)
        if pages is None or url in self.pages:
            return None
        for page in pages:
            if not page.paid or (kind and page.kind and page.kind != kind):
                continue
            theirs = take_apart(page.key)
            rules = {*used, *(self._held.normal(theirs).used if theirs else ())}
            if any(self.records[rule].doubts for rule in rules):
                return None
            return Known(tuple(sorted(rules)), page.key) if rules else None
        return None

    def likely_form(self, url: str) -> tuple[object, ...] | None:
        """Return what a URL is by rules that hold or are likely to; None without any."""
        parts = take_apart(url) if self._likely.rules else None
        return None if parts is None else self._likely.normal(parts).form

    def likely(self, url: str) -> bool:
        """Whether a URL may turn out to be that of an accepted page, once more is known."""
        return url not in self.pages and self.likely_form(url) in self._likely_forms

    def _note_likely(self) -> None:
        rules = frozenset(rule for rule, record in self.records.items() if _is_likely(record))
        if rules == self._likely.rules:
            return
        self._likely = RuleSet(rules)
        parts = map(take_apart, self.pages)
        self._likely_forms = {self._likely.normal(each).form for each in parts if each is not None}

    def doubt(
        self, url: str, original: str, links: Iterable[bytes], seconds: float
    ) -> frozenset[str]:
        """Note that a copy was kept, at a time, because it leads to links that no accepted page had.

        Returns the atoms of the rules that are in doubt, for met() of pages that are reached through it.
        """
        rules = [*filter(self._record, self._explaining(url, original, all_of_them=True))]
        doubt = _Doubt(url, seconds, tuple(rules), set(links))
        atoms = frozenset(str(rule.atom) for rule in rules)
        if not rules or not doubt.links:
            return atoms
        for rule in rules:
            self.records[rule].doubts += 1
            self.changed |= self.records[rule].holds
        if len(self._doubts) + len(doubt.links) > DOUBTS:
            return atoms  # it stays
        for link in doubt.links:
            self._doubts.setdefault(link, []).append(doubt)
        return atoms

    def met(
        self, url: str, links: Iterable[bytes], seconds: float, behind: Collection[str] = ()
    ) -> None:
        """Note the links of an accepted page: what rules were in doubt for may be among them.

        seconds  when the page was asked for
        behind   the atoms in doubt for pages through which it was reached: with those skipped it may
                 not have been reached at all, unless it was asked for before
        """
        if not self._doubts:
            return
        for link in links:
            for doubt in tuple(self._doubts.get(link, ())):
                free = seconds < doubt.seconds or not any(
                    str(rule.atom) in behind for rule in doubt.rules
                )
                if free and url != doubt.url and not _touched(doubt.rules, url):
                    self._settle(link, doubt)

    def _settle(self, link: bytes, doubt: _Doubt) -> None:
        waiting = self._doubts[link]
        waiting.remove(doubt)
        if not waiting:
            del self._doubts[link]
        doubt.links.discard(link)
        for rule in () if doubt.links else doubt.rules:
            record = self.records[rule]
            record.doubts -= 1
            self._bring_up(rule, record)

    def _explaining(self, url: str, original: str, *, all_of_them: bool = False) -> list[Rule]:
        """Return the rules that may explain why two URLs have the same text, the widest first.

        What rules that hold explain is left out, unless it is all there is. The rest is one atom, or
        some parameters: where the text is the same, none of them means anything.
        """
        a, b = take_apart(url), take_apart(original)
        atoms = None if a is None or b is None else differences(a, b)
        if a is None or b is None or not atoms or len(atoms) > MOST_ATOMS:
            return []
        inside = self._held.scopes(a, b)
        explained, new = [], []
        for atom in sorted(atoms):
            scopes = _scopes(atom, inside)
            found = [Rule(atom, scope) for scope in scopes]
            if atom.kind == "value":
                found_or_more = [
                    *found,
                    *(Rule(Atom("drop", atom.name), scope) for scope in scopes),
                ]
            else:
                found_or_more = found
            if held := self._held.rules.intersection(found_or_more):
                explained.append((atom, [*held]))
            else:
                new.append((atom, found))
        if all_of_them or not new:
            new += explained
        if len(new) > 1 and any(atom.kind not in {"drop", "value"} for atom, _ in new):
            return []
        return [rule for _, found in new for rule in found]

    def _record(self, rule: Rule) -> Record | None:
        record = self.records.get(rule)
        if record is None and len(self.records) < MOST_RULES:
            record = self.records[rule] = Record()
        return record

    # ------------------------------------------------------------------- rules come and go

    def take(self, records: dict[Rule, Record]) -> None:
        """Merge saved records; rules that hold are checked against the pages here."""
        for rule, record in sorted(records.items()):
            if len(self.records) < MOST_RULES or rule in self.records:
                self.records[rule] = record
        for rule, said in self._said.items():
            record = self.records.setdefault(rule, Record())
            record.said, record.holds = said, said == "pin"
        self._note_likely()
        self._rebuild()

    def _bring_up(self, rule: Rule, record: Record) -> None:
        """See whether a rule comes to hold."""
        ripe = record.pairs >= FOR and len(record.originals) >= ORIGINALS
        if not ripe or record.holds or record.against or record.said or record.doubts:
            return
        host, slash, path = rule.scope.partition("/")
        if slash and any(
            Rule(rule.atom, scope) in self._held.rules
            for scope in scopes_of(host, slash + path)[:-1]
        ):
            return
        trial, index = RuleSet(self._held.rules | {rule}), _Index()
        for page in self.pages.values():
            conflict = self._enter(page, trial, index)
            if conflict is not None and rule in conflict.rules:
                self._end(rule, conflict)
                return
        record.holds = self.changed = True
        self._held, self._index = trial, index

    def _enter(self, page: Page, rules: RuleSet, index: _Index) -> _Conflict | None:
        """Enter a page in an index of URLs under rules; return why that cannot be."""
        parts = take_apart(page.key)
        if parts is None:
            return None
        form, used = rules.normal(parts)
        others = index.setdefault(form, [])
        others[:] = [other for other in others if other.key != page.key]
        for other in others:
            if len(others) >= TOGETHER or not is_same(
                page.fingerprint, other.fingerprint, self._recipe
            ):
                theirs = take_apart(other.key)
                assert theirs is not None
                return _Conflict(page, other, frozenset((*used, *rules.normal(theirs).used)))
        others.append(page)
        return None

    def _blame(self, conflict: _Conflict) -> bool:
        """End the rules that map two pages of other texts together; whether there were any."""
        a, b = take_apart(conflict.page.key), take_apart(conflict.other.key)
        atoms = (differences(a, b) if a is not None and b is not None else None) or frozenset()
        # what drops a parameter also says that its value means nothing
        atoms |= {Atom("drop", atom.name) for atom in atoms if atom.kind == "value"}
        guilty = {rule for rule in conflict.rules if rule.atom in atoms} or conflict.rules
        ended = [rule for rule in guilty if not self.records[rule].said]
        for rule in ended:
            self._end(rule, conflict)
        return bool(ended)

    def _end(self, rule: Rule, conflict: _Conflict) -> None:
        """Note that a rule is dead, and so are those of it for paths in which both pages lie."""
        self.changed = True
        found = [rule]
        a, b = take_apart(conflict.page.key), take_apart(conflict.other.key)
        if a is not None and b is not None:
            found += [
                Rule(rule.atom, scope) for scope in _scopes(rule.atom, self._held.scopes(a, b))
            ]
        for each in found:
            record = self._record(each)
            if record is not None and not record.said:
                record.against, record.holds = (conflict.page.key, conflict.other.key), False
        self._note_likely()

    def _rebuild(self) -> None:
        """Index the pages again under the rules that hold; those that do not fit fall."""
        fell = True
        while fell:  # a rule less each time
            fell = False
            self._held = RuleSet(rule for rule, record in self.records.items() if record.holds)
            self._index = _Index()
            for page in self.pages.values() if self._held.rules else ():
                conflict = self._enter(page, self._held, self._index)
                if conflict is not None and self._blame(conflict):
                    fell = True
                    break

    def _unindex(self, page: Page) -> None:
        parts = take_apart(page.key) if self._index else None
        if parts is None:
            return
        form = self._held.normal(parts).form
        left = [other for other in self._index.get(form, ()) if other.key != page.key]
        if left:
            self._index[form] = left
        else:
            self._index.pop(form, None)


def _is_likely(record: Record) -> bool:
    much = record.pairs >= LIKELY and len(record.originals) > 1
    return record.holds or (much and not record.against and not record.said)


def _touched(rules: Iterable[Rule], url: str) -> bool:
    parts = take_apart(url)
    return parts is None or bool(RuleSet(rules).normal(parts).used)


def _scopes(atom: Atom, inside: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes of rules about an atom, of those that two URLs lie in."""
    if atom.kind == "host":
        return ("",)
    return inside if atom.kind in {"drop", "value"} else inside[:1]


# ----------------------------------------------------------------------------- all sites of a crawl


MOST_PAGES = 50_000  # of all sites, 500 bytes each


class Learner:
    """The rules of every site that a crawl meets."""

    def __init__(self, recipe: Recipe | None = None, said: SaidRules | None = None) -> None:
        """Know only what a person said."""
        self._recipe = recipe or recipe_of()
        self._said = said or {}
        self._sites: OrderedDict[str, SiteRules] = OrderedDict()
        self._pages = 0

    def copy(self, url: str, original: str) -> None:
        """Learn from two document keys with the same text, of which the second was accepted before."""
        site = self._site_of_both(url, original)
        if site is not None:
            site.copy(url, original)

    def refute(self, url: str, original: str) -> None:
        """End the rules that map two document keys together: their pages bring different things."""
        site = self._site_of_both(url, original)
        if site is not None:
            site.refute(url, original)

    def doubt(
        self, url: str, original: str, links: Iterable[bytes], seconds: float
    ) -> frozenset[str]:
        """Note that a copy was kept, at a time, because it leads to links (8 bytes each) that are new.

        Returns the atoms that are in doubt.
        """
        site = self._site_of_both(url, original)
        return frozenset() if site is None else site.doubt(url, original, links, seconds)

    def accept(self, page: Page) -> None:
        """Learn of an accepted page, or of one that is kept without being judged."""
        site = self._site(registrable_domain(page.key))
        if site is None:
            return
        before = len(site.pages)
        site.accept(page)
        self._pages += len(site.pages) - before
        while self._pages > MOST_PAGES:
            longest_ago = next(each for each in self._sites.values() if each.pages)
            longest_ago.forget(next(iter(longest_ago.pages)))
            self._pages -= 1

    def met(
        self, url: str, links: Iterable[bytes], seconds: float, behind: Collection[str] = ()
    ) -> None:
        """Note the links of an accepted page; see SiteRules.met()."""
        site = self._sites.get(registrable_domain(url))
        if site is not None:
            site.met(url, links, seconds, behind)

    def forget(self, key: str) -> None:
        """Forget a page."""
        site = self._sites.get(registrable_domain(key))
        if site is not None and key in site.pages:
            site.forget(key)
            self._pages -= 1

    def known(self, url: str, kind: str = "") -> Known | None:
        """Return the accepted page that a document key is equivalent to, by rules that hold."""
        if not self._sites:
            return None
        site = self._sites.get(registrable_domain(url))
        return None if site is None else site.known(url, kind)

    def likely(self, url: str) -> bool:
        """Whether a document key may turn out to be that of an accepted page, once more is known."""
        site = self._sites.get(registrable_domain(url))
        return site is not None and site.likely(url)

    def holds(self, url: str) -> bool:
        """Whether there are rules for the site of a document key."""
        site = self._sites.get(registrable_domain(url)) if self._sites else None
        return site is not None and bool(site.held)

    def likely_form(self, url: str) -> tuple[object, ...] | None:
        """Return what a document key is by rules that hold or are likely to; None without any."""
        site = self._sites.get(registrable_domain(url))
        return None if site is None else site.likely_form(url)

    # ------------------------------------------------------------------------- what is known

    @property
    def changed(self) -> bool:
        """Whether a rule came to hold, or fell, since that was last asked for."""
        found = [site for site in self._sites.values() if site.changed]
        for site in found:
            site.changed = False
        return bool(found)

    def records(self) -> Records:
        """Return what is known of every rule."""
        return {name: site.records for name, site in self._sites.items() if site.records}

    def held(self) -> Iterator[tuple[str, Rule, Record]]:
        """Yield the site, and the rule, of what holds."""
        for name, site in self._sites.items():
            for rule in sorted(site.held):
                yield name, rule, site.records[rule]

    def take(self, records: Records) -> None:
        """Merge saved records; never evicts a site."""
        for name, known in records.items():
            if name in self._sites or len(self._sites) < MOST_SITES:
                site = self._site(name)
                if site is not None:
                    site.take(known)

    def _site_of_both(self, url: str, original: str) -> SiteRules | None:
        name = registrable_domain(url)
        return self._site(name) if name == registrable_domain(original) else None

    def _site(self, name: str) -> SiteRules | None:
        if not name:
            return None
        site = self._sites.get(name)
        if site is None:
            site = SiteRules(self._recipe, self._said.get(name, NOTHING_SAID))
            self._sites[name] = site
            while len(self._sites) > MOST_SITES:
                self._pages -= len(self._sites.popitem(last=False)[1].pages)
        else:
            self._sites.move_to_end(name)
        return site
