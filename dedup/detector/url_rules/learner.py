"""What a crawl knows of the URLs of all its sites.

Invariants: two URLs are evidence only if they have one registrable domain, and then for that one. Memory is
bounded: MOST_SITES sites, MOST_PAGES pages; the least recently seen sites are evicted first, and what is
evicted skips nothing.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator

from dedup.detector.url_rules.rule_set import Rule
from dedup.detector.url_rules.site_rules import Known, Page, Record, Said, SiteRules
from dedup.model.names import registrable_domain
from dedup.model.recipes import Recipe, recipe_of

__all__ = ["Known", "Learner", "Records"]

MOST_SITES = 1000
MOST_PAGES = 50_000  # of all sites, 500 bytes each

Records = dict[str, dict[Rule, Record]]  # by site


class Learner:
    """The rules of every site that a crawl meets."""

    def __init__(self, recipe: Recipe | None = None) -> None:
        """Know nothing yet."""
        self._recipe = recipe or recipe_of()
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

    def say(self, name: str, rule: Rule, said: Said) -> None:
        """Pin or forbid a rule of a site, or leave it to the evidence ("")."""
        site = self._site(name)
        if site is not None:
            site.say(rule, said)

    def take(self, records: Records) -> None:
        """Merge saved or shared records; never evicts a site."""
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
            site = self._sites[name] = SiteRules(self._recipe)
            while len(self._sites) > MOST_SITES:
                self._pages -= len(self._sites.popitem(last=False)[1].pages)
        else:
            self._sites.move_to_end(name)
        return site
