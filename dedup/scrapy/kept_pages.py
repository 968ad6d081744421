"""Near-duplicates that are kept all the same: for new links, or as another page of their site.

    verdict -> new links? another title or canonical URL? -> credit -> verdict

A mirror of a site in another folder has other links. So a long page with nearly the text of its original, and
its title, is read again as if it were at the original's URL: if all its links are known then, it leads nowhere
new.

Invariants:
  - Only accepted pages decide. If another page with the same new links is still in flight, the page waits for it, as
    for a near-duplicate in flight.
  - Forgetting keeps pages: a forgotten link counts as new.
"""

from typing import TYPE_CHECKING

import msgspec

from dedup.core.fingerprint import read_page
from dedup.model.page import Verdict
from dedup.scrapy.counts import Counts
from dedup.scrapy.credit import Credit
from dedup.scrapy.evidence import Class, account_of
from dedup.scrapy.in_flight import PagesInFlight
from dedup.scrapy.known_urls import KnownUrls
from dedup.scrapy.proof import Judged, Proof
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.scrapy.memory import Namespace

# The least of a page that may be its original in another folder; others are not read again.
MIRROR_SIMILARITY = 0.97
MIRROR_FEATURES = 60


class KeptPages:
    """What a crawl knows of links, of credit, of its URLs, and of the spider's items."""

    def __init__(
        self, config: Config, counts: Counts, in_flight: PagesInFlight, job_folder: str | None
    ) -> None:
        """Know nothing yet."""
        self._config = config
        self._counts = counts
        self._meter = counts.meter
        self._new_links = "new_links" in config.exempt
        self.reads_links = self._new_links or config.unchanged == "drop"
        self._in_flight, self._links = in_flight, in_flight.links
        self.credit = Credit(counts)
        self.urls = KnownUrls(config, counts, in_flight.accepted)
        self.proof: Proof | None = None
        if config.proof == "items":
            self.proof = Proof(config, counts, job_folder, in_flight, self.credit, self.urls)

    def open(self, namespace: "Namespace", name: str) -> None:
        """Begin a namespace."""
        if self._new_links:
            self._links.open(namespace, name)
        if self.proof is not None:
            self.proof.open(namespace, name)
        self.urls.open(namespace, name)

    def forget(self, namespace: "Namespace", key: str) -> None:
        """Forget a page that may have been inserted."""
        namespace.forget(key)
        self.urls.forget(namespace, key)

    def close(self) -> None:
        """Save what the next run of the crawl, or the next crawl, needs."""
        self._links.close()
        if self.proof is not None:
            self.proof.save()
        self.urls.close()

    async def look_again(self, judged: Judged, verdict: Verdict) -> Verdict:
        """Return the verdict on a page that is like an accepted one (verdict.of).

        Called with the meter running.
        """
        original = verdict.of
        verdict = await self._looked_again(judged, verdict)
        if self.proof is not None and verdict.of is not None and verdict.reason != "in_flight":
            verdict = await self.proof.decide(judged, verdict)
        if verdict.status == "near_duplicate" and original is not None:
            self._remember(judged, verdict, original)
        if verdict.status == "near_duplicate" and self.proof is None:
            self.urls.learn_text(judged.namespace, verdict)
        elif verdict.reason == "new_links":
            new = self._links.new(judged.namespace, judged.reading.links)
            self.urls.doubt(judged.namespace, judged.request, verdict, new)
        return verdict

    def _remember(self, judged: Judged, verdict: Verdict, original: str) -> None:
        """Remember a page that is dropped for want of credit, to be sent again."""
        if self._config.mode != "drop":
            return
        if self.proof is not None and judged.request in self.proof.proven:
            return
        name = account_of(judged.callback, verdict.domain, original, verdict.key)
        self.credit.dropped(judged.request, original, name)

    async def _looked_again(self, judged: Judged, verdict: Verdict) -> Verdict:
        if verdict.of is None or verdict.reason == "in_flight":
            return verdict
        name = account_of(judged.callback, verdict.domain, verdict.of, verdict.key)
        if verdict.status == "exempt":  # another title, or few pages are like it
            if not self.credit.closed(judged.request, verdict.of, name):
                self.credit.kept(judged.request, verdict, verdict.of, name)
                return verdict
            judged.namespace.release(verdict)
            return msgspec.structs.replace(verdict, status="near_duplicate", reason="", token=None)
        reason = await self._reason(judged, verdict, name)
        if reason is None:
            return verdict
        kept = await judged.namespace.detector.judge(
            verdict.page, verdict.key, msgspec.structs.replace(judged.options, exempt=reason)
        )
        self.credit.kept(judged.request, kept, verdict.of, name)
        return msgspec.structs.replace(kept, match=verdict.match)

    async def _reason(self, judged: Judged, verdict: Verdict, name: Class) -> str | None:
        """Return why a near-duplicate is kept all the same, or None."""
        original = verdict.of or ""
        if self.credit.closed(judged.request, original, name):
            return None
        if verdict.reason == "barren" and self.credit.has_tries(original, judged.options.tries):
            return "barren"  # pages like it lead to something
        if not self._new_links:
            return None
        if self._is_mirrored(judged, verdict):
            return None
        if self.credit.leads_to(judged.request, original):
            return "new_links"
        new = await self._leads_on(judged.namespace, judged.reading.links)
        return "new_links" if new and not self._are_known(judged, new) else None

    def _are_known(self, judged: Judged, new: frozenset[bytes]) -> bool:
        """Whether rules of the site map all of a page's new links to accepted pages."""
        if not self.urls.holds(judged.namespace, judged.response.url):
            return False
        recipe = judged.namespace.detector.recipe

        def hash_of(url: str) -> bytes:
            return read_page(b"", url=url, recipe=recipe, links=True).address

        return self.urls.lead_nowhere(
            judged.namespace, judged.options.kind, new, judged.response, hash_of
        )

    def _is_mirrored(self, judged: Judged, verdict: Verdict) -> bool:
        """Whether a page is its original at another place, with the same links there."""
        if (
            (verdict.similarity or 0) < MIRROR_SIMILARITY
            or verdict.identity != "same"
            or verdict.page.features < MIRROR_FEATURES
            or not self._links.new(judged.namespace, judged.reading.links)
        ):
            return False
        return not self._links.new(judged.namespace, judged.links_at(verdict.of or ""))

    async def _leads_on(self, namespace: "Namespace", links: bytes) -> frozenset[bytes]:
        """Return the links of a page that no accepted page had; waits for those in flight."""

        def are_in_flight() -> bool:
            new = self._links.new(namespace, links)
            return bool(new) and self._in_flight.lead_to(namespace, new)

        await self._meter.wait_while(are_in_flight, self._config.wait_seconds)
        return self._links.new(namespace, links)
