"""The deduplication of one crawl: the middlewares share it, and it ends with the spider.

    judge (exempt, read, reserve, keep all the same? (KeptPages), note) -> in flight (in_flight.py) -> close

Invariant: an internal error never costs a page. It is logged once, counted as
dedup/error/KIND for every affected page, and the page is kept.
"""

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.utils.job import job_dir

from dedup.core.fingerprint import PageReading, hash_of_links, read_page
from dedup.model.forms import to_plain
from dedup.model.names import namespace_of
from dedup.model.page import PageFingerprint, ReserveOptions, Verdict
from dedup.model.recipes import Recipe
from dedup.scrapy.counts import Counts, kind_of, logger, new_pauses
from dedup.scrapy.credit import Credit
from dedup.scrapy.evidence import Class, account_of
from dedup.scrapy.in_flight import CrawlLinks, PagesInFlight, token_of
from dedup.scrapy.known_urls import KnownUrls
from dedup.scrapy.memory import EmbeddedMemory, advice
from dedup.scrapy.proof import Judged, Proof
from dedup.scrapy.responses import (
    CONTROL,
    KIND_CHARACTERS,
    Callbacks,
    exemption,
    is_start,
    key_of,
)
from dedup.scrapy.settings import GONE as GONE_SETTINGS
from dedup.scrapy.settings import Config, has_asyncio, unknown_settings, without_effect
from dedup.scrapy.summary import Swallowing, shown_by_items, summary

if TYPE_CHECKING:
    from dedup.model.policy import Mode
    from dedup.report.drops import Action
    from dedup.scrapy.journal import Journal
    from dedup.scrapy.memory import Memory, Namespace

GONE = frozenset((404, 410))  # statuses of pages that no longer exist
UNREAD = frozenset(("non_html", "too_large", "data_page"))  # reasons with which no text is known
# The least of a page that may be its original in another folder; others are not read again.
MIRROR_SIMILARITY = 0.97
MIRROR_FEATURES = 60
_ACTIONS: "dict[Mode, Action]" = {
    "drop": "dropped",
    "skip_links": "links_skipped",
    "tag": "flagged",
}
_judged_by: "WeakKeyDictionary[Request, Session]" = WeakKeyDictionary()
_sessions: "WeakKeyDictionary[Crawler, Session]" = WeakKeyDictionary()


class Session:
    """The memory of a crawl, the pages in flight, and the counts."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        """Private: Session.of() gives a crawler's session."""
        self.crawler = crawler
        self.config = config
        self.counts = Counts(crawler)
        self.swallowing = Swallowing(config.mode)
        self._memory: Memory | None = None
        self._namespaces: dict[str, Namespace] = {}
        self.scheduling = False  # whether a request was scheduled, as those for callbacks are
        self._failed: dict[str, str] = {}  # namespace -> kind of error that keeps it closed
        self._job_folder = job_dir(crawler.settings)
        self.journal = _new_journal(config, self._job_folder, self.counts)
        links = CrawlLinks(self._job_folder, self.counts.fault)
        self.in_flight = PagesInFlight(self.counts, links, learns_urls=config.urls != "off")
        self.counts.changed = self.in_flight.schedule_commit  # which also flushes the stats
        self.kept = KeptPages(config, self.counts, self.in_flight, self._job_folder)
        self._name = config.namespace
        self.callback = Callbacks(crawler, config).of

    @classmethod
    def of(cls, crawler: Crawler) -> "Session":
        """Return the crawler's session, made at the first call. Raises NotConfigured."""
        session = _sessions.get(crawler)
        if session is None:
            if not has_asyncio():
                raise NotConfigured(
                    "dedup waits for pages in flight on an asyncio loop; remove TWISTED_REACTOR, "
                    'or set it to "twisted.internet.asyncioreactor.AsyncioSelectorReactor"'
                )
            for name, meant in unknown_settings(crawler.settings).items():
                if name in GONE_SETTINGS:
                    why = GONE_SETTINGS[name]
                    logger.warning("dedup: the setting %s has no effect: %s", name, why)
                    continue
                hint = f"; {meant} was meant?" if meant else ""
                logger.warning("dedup: there is no setting %s%s", name, hint)
            session = _sessions[crawler] = cls(crawler, Config.from_settings(crawler.settings))
            for why in without_effect(session.config):
                logger.warning("dedup: %s", why)
        return session

    async def begin(self) -> None:
        """Choose the crawl's memory, before its first page."""
        if self.config.auto:
            try:
                from dedup.scrapy.service_memory import find_service

                found = await find_service(self.config.options.timeout_seconds)
            except ModuleNotFoundError as error:
                hint = "pip install 'crawl-dedup[client]'"
                logger.warning("dedup: a store is used; to use a service run %s (%s)", hint, error)
                found = ()
            self.config = msgspec.structs.replace(self.config, service=found)

    # ------------------------------------------------------------------ a page comes in

    async def judge(self, request: Request, response: Response) -> Verdict | None:
        """Judge a page and note the verdict in request.meta["dedup"]; None when it is not judged.

        Waits at most DEDUP_WAIT_SECONDS for a near-duplicate in flight, and at most
        DEDUP_TIMEOUT_SECONDS for each answer of a table service.
        """
        if self.in_flight.discarded:
            self.in_flight.release_discarded()
        if CONTROL in request.meta:
            if self.kept.proof is not None:
                self.kept.proof.controls.arrived(request.meta[CONTROL])
            request.meta["dedup"] = {"status": "exempt", "reason": "control"}
            return None
        with self.counts.meter:
            called = self.callback(request)
            reason = exemption(request, response, self.config, called, scheduling=self.scheduling)
            if reason is not None:
                self._exempt(request, response, reason)
                return None
            namespace = self._namespace_of(request)
            if namespace is None:
                return None
            reading = self.read(namespace.detector.recipe, response)
            self.counts.add("probed")
            if "data_page" in self.config.exempt and reading.data_bytes > reading.text_bytes:
                self._keep_unjudged(request, "data_page")
                return None
            page, key = self._learned(namespace, reading, response.url), key_of(request)
            if self.config.unchanged == "drop":
                page = msgspec.structs.replace(page, links=hash_of_links(reading.links))
            callback, kind = called.name, request.meta.get("dedup_kind")
            options = ReserveOptions(
                url=response.url,
                exempt="start" if "start" in self.config.exempt and is_start(request) else None,
                guard="other_title" in self.config.exempt,
                kind=called.kind if kind is None else str(kind)[:KIND_CHARACTERS],
                tries=self.config.tries if self.in_flight.yields_items(callback) else 0,
            )
            verdict = await namespace.detector.judge(page, key, options)
            if verdict.reason == "unchanged" and self.kept.proof is not None:
                await self.kept.proof.recall(namespace, request, verdict)
            if verdict.match is None:  # as for most pages
                self._note(namespace, request, response, verdict, reading, callback)
                return verdict
        verdict = await self._after_those_in_flight(namespace, verdict, options)
        with self.counts.meter:
            recipe = namespace.detector.recipe
            judged = Judged(
                namespace,
                request,
                response,
                reading,
                options,
                callback,
                lambda url: self.read(recipe, response, url).links,
            )
            verdict = await self._look_again(judged, verdict)
            self._note(namespace, request, response, verdict, reading, callback)
        return verdict

    async def _after_those_in_flight(
        self, namespace: "Namespace", verdict: Verdict, options: ReserveOptions
    ) -> Verdict:
        """Return the verdict on a page that is like pages in flight, once these are done."""

        async def again(exempt: str | None = None) -> Verdict:
            with self.counts.meter:
                return await namespace.detector.judge(
                    verdict.page, verdict.key, msgspec.structs.replace(options, exempt=exempt)
                )

        if verdict.token is None and _waits_for_insert(verdict.of or ""):
            self._commit_all()  # the original's stored text is about to be replaced
            verdict = await again()
        pauses, waited = new_pauses(), 0.0
        while verdict.status == "pending":
            self._commit_all()
            verdict = await again()
            if verdict.status != "pending":
                break
            if waited >= self.config.wait_seconds:
                return await again("in_flight")
            await asyncio.sleep(pause := pauses.next())
            waited += pause
        return verdict

    async def _look_again(self, judged: Judged, verdict: Verdict) -> Verdict:
        """Return the verdict on a page that is like an accepted one; after an error it is kept and stored."""
        try:
            return await self.kept.look_again(judged, verdict)
        except Exception as error:
            self.counts.fault(error, f"{verdict.key} is kept")
            if verdict.status == "exempt":
                return verdict
            options = msgspec.structs.replace(judged.options, exempt="fault")
            return await judged.namespace.detector.judge(verdict.page, verdict.key, options)

    def _exempt(self, request: Request, response: Response, reason: str) -> None:
        """Keep a page without reading its bytes."""
        if reason == "status" and response.status in GONE:
            namespace = self._namespace_of(request)
            if namespace is not None:  # a copy can take the place of a page that no longer exists
                self.kept.forget(namespace, key_of(request))
        self._keep_unjudged(request, reason)

    def _keep_unjudged(self, request: Request, reason: str) -> None:
        self.counts.add(f"exempt/{reason}")
        request.meta["dedup"] = {"status": "exempt", "reason": reason}
        if reason in UNREAD:
            self.in_flight.accepted.append((None, key_of(request)))

    def _namespace_of(self, request: Request) -> "Namespace | None":
        """Return the request's namespace, opened at its first page."""
        name = request.meta.get("dedup_namespace") or self._name
        if name is None:
            assert self.crawler.spider is not None
            name = self._name = namespace_of(self.crawler.spider.name)
        if name in self._failed:
            self.counts.add(f"error/{self._failed[name]}")
            return None
        namespace = self._namespaces.get(name)
        if namespace is None:
            try:
                namespace = self._namespaces[name] = self._open(name)
                self.kept.open(namespace, name)
            except Exception as error:
                self._failed[name] = kind = kind_of(error)
                self.counts.add(f"error/{kind}")
                logger.error(
                    "dedup is off for %r in this crawl, pages are kept: %s%s",
                    name,
                    error,
                    advice(error, self.config),
                )
        return namespace

    def recipe_of(self, request: Request) -> Recipe:
        """Return the recipe of a namespace, which a request of it has opened before."""
        namespace = self._namespace_of(request)
        assert namespace is not None
        return namespace.detector.recipe

    def _open(self, name: str) -> "Namespace":
        if self._memory is None:
            if self.config.service:
                from dedup.scrapy.service_memory import ServiceMemory

                self._memory = ServiceMemory(self.config, self.counts)
            else:
                self._memory = EmbeddedMemory(self.config, self._job_folder, self.counts)
        return self._memory.open(name)

    def read(self, recipe: Recipe, response: Response, url: str | None = None) -> PageReading:
        """Read a page, as if it were at the given URL, if there is one."""
        links, url = self.kept.reads_links, url or response.url
        numbers = self.kept.proof is not None
        html: bytes | str = response.body
        encoding: str | None = "utf-8"
        if isinstance(response, TextResponse) and response.encoding != "utf-8":
            # the text is decoded once, and the spider finds it decoded
            html, encoding = response.text, None
        return read_page(
            html,
            encoding=encoding,
            url=url,
            recipe=recipe,
            links=links,
            numbers=numbers,
            blocks=self._text_decides,
        )

    @property
    def _text_decides(self) -> bool:
        return self.kept.proof is None and "unread" in self.config.exempt

    def _learned(self, namespace: "Namespace", reading: PageReading, url: str) -> PageFingerprint:
        """Return a page's fingerprint; where its text alone decides, the frame of its site does not count."""
        if not self._text_decides:
            return reading.fingerprint
        return namespace.detector.learned(reading, url)

    def _note(
        self,
        namespace: "Namespace",
        request: Request,
        response: Response,
        verdict: Verdict,
        reading: PageReading,
        callback: str,
    ) -> None:
        if verdict.token is not None:
            _judged_by[request] = self
            self.in_flight.begin(namespace, verdict, callback, request, reading)
            if self.kept.urls.doubting:
                self.kept.urls.met(namespace, request, verdict.key, reading.links)
        elif verdict.status == "exempt":
            self.in_flight.links.learn(namespace, reading)
            self.in_flight.accepted.append((namespace, verdict))
        request.meta["dedup"] = to_plain(verdict)
        if verdict.status == "exempt":
            self.counts.add(f"exempt/{verdict.reason}")
        else:
            self.counts.add(verdict.status)
        if verdict.reason == "unchanged":
            self.counts.add("unchanged")
        self.swallowing.judged += 1
        if verdict.status == "near_duplicate":
            proof = self.kept.proof
            self.counts.add(f"near_duplicate/distance/{verdict.distance}")
            self.swallowing.compared(verdict, callback)
            if proof is None or request not in proof.proven:
                self.swallowing.dropped(verdict, response.url)
        if self.journal is not None:
            action = _ACTIONS[self.config.mode]
            self.journal.judged(verdict, response, namespace.detector.recipe, callback, action)

    # ---------------------------------------------------------------- a page is done with

    def has_yielded(self, request: Request) -> bool:
        """Whether a page of a request's callback brought an item."""
        return self.in_flight.has_yielded(self.callback(request).name)

    def forget(self, request: Request) -> None:
        """Forget a page without content, or whose item failed: it may come again under any URL."""
        noted: dict[str, Any] = request.meta.get("dedup") or {}
        token = token_of(noted)
        if token is None:
            return
        if token in self.in_flight.flights:
            self.in_flight.end(token, accepted=False)
            if noted.get("status") != "refetch":
                return  # a refetch keeps its earlier note
        self.in_flight.commit()
        try:
            namespace = self._namespace_of(request)
        except Exception as error:
            self.counts.fault(error, f"{noted['key']} stays remembered although its item failed")
            return
        if namespace is not None:
            self.kept.forget(namespace, noted["key"])

    @staticmethod
    def _commit_all() -> None:
        """Commit for every crawl of the process: their spiders may share stores."""
        for session in list(_sessions.values()):
            session.in_flight.commit()
            session.in_flight.release_discarded()

    async def close(self) -> None:
        """Close the memory and log the summary. Reservations end with the crawl."""
        self.in_flight.close()
        self.kept.close()
        remembered = await self._close_memory()
        self._namespaces.clear()
        self.in_flight.commit()
        _sessions.pop(self.crawler, None)
        stats = self.crawler.stats
        assert stats is not None
        stats.set_value("dedup/cpu_seconds", self.counts.meter.seconds)
        try:
            proved, proof = [], self.kept.proof
            if proof is not None:
                proved = [*shown_by_items(proof, stats.get_stats(), self.config.mode)]
                for (name, _), n in proof.differing.items():
                    if what := "numbers" if "n" in name.parts else "data" * ("j" in name.parts):
                        self.swallowing.items_differ[name.callback, name.shape, what] += n
                self.swallowing.counters = proof.counters()
            lines = self.swallowing.lines, self.kept.urls.rules()
            logger.info("%s", summary(stats.get_stats(), self.config, remembered, *lines, proved))
        except Exception as error:
            self.counts.fault(error, "there is no summary")
            self.in_flight.commit()
        if self.journal is not None:
            self.journal.close()
            if self.config.report is not None:
                self._report(self.journal)

    def _report(self, journal: "Journal") -> None:
        path, stats = self.config.report, self.crawler.stats
        assert path is not None
        assert stats is not None
        try:
            from dedup.scrapy.crawl_report import write_report

            journal.url_rules = self.kept.urls.rules()
            if self.kept.proof is not None:
                journal.proved = self.kept.proof.classes()
            name = self.crawler.spider.name if self.crawler.spider is not None else ""
            write_report(path, name, stats.get_stats(), self.config, journal, self.swallowing.lines)
            logger.info("dedup: the report of this crawl is in %s", path)
        except Exception as error:
            self.counts.fault(error, f"there is no report in {path}")
            self.in_flight.commit()

    async def _close_memory(self) -> str:
        memory, self._memory = self._memory, None
        if memory is None:
            return "no page was judged"
        try:
            return await memory.close()
        except Exception as error:
            self.counts.fault(error, "the last pages of this crawl may not be remembered")
            return "an unknown number of documents"


def forget(response: Response) -> None:
    """Forget the page of a response: it has no content (a login, a ban), or will be fetched again.

    For callbacks and pipelines. From then on no page is dropped as its near-duplicate. Does nothing for a
    response without a reservation: one that was not judged, or was dropped.
    """
    request = response.request
    session = None if request is None else _judged_by.get(request)
    if request is not None and session is not None:
        session.forget(request)


def _waits_for_insert(key: str) -> bool:
    """Whether the next commit of any crawl in this process inserts a page with this key."""
    return any(session.in_flight.waits_for_insert(key) for session in _sessions.values())


def _new_journal(config: Config, job_folder: str | None, counts: Counts) -> "Journal | None":
    if config.report is None and config.dropped is None:
        return None
    from dedup.scrapy.journal import DropsFile, Journal

    if config.dropped is None:
        return Journal()
    return Journal(DropsFile(config.dropped, job_folder, counts))


# ------------------------------------------------------------- near-duplicates that are kept all the same


class KeptPages:
    """Near-duplicates that are kept all the same: for new links, or as another page of their site.

        verdict -> new links? another title or canonical URL? -> credit -> verdict

    It has what a crawl knows of links, of credit, of its URLs, and of the spider's items. A mirror of a site in another
    folder has other links. So a long page with nearly the text of its original, and its title, is read again as if it
    were at the original's URL: if all its links are known then, it leads nowhere new.

    Invariants:
      - Only accepted pages decide. If another page with the same new links is still in flight, the page waits for it, as
        for a near-duplicate in flight.
      - Forgetting keeps pages: a forgotten link counts as new.
    """

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
