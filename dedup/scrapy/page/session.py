"""What the middlewares of one crawl share: what it knows in each namespace, and of its callbacks.

Session.of(crawler) -> begin() -> pages are judged (judge.py), their callbacks watched (output.py) -> close()
"""

import time
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.http import Response, TextResponse
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object
from scrapy.utils.url import url_is_from_any_domain

from dedup.core.fingerprint import PageReading, read_page
from dedup.model.differences import GIVEN
from dedup.model.names import install, namespace_of, registrable_domain
from dedup.model.page import Neighbour
from dedup.model.recipes import Recipe
from dedup.scrapy.evidence.callbacks import CALLBACKS, CallbackEvidence
from dedup.scrapy.evidence.items import FieldNames, ItemPage, ItemReader, ItemRules
from dedup.scrapy.evidence.seen import SeenRequests
from dedup.scrapy.guard import Counts, guarded, kind_of, logger
from dedup.scrapy.memory import Memory, Space, advice, open_memory
from dedup.scrapy.memory.state import Job, Saving, is_crawl
from dedup.scrapy.page.in_flight import Page, PagesInFlight, token_of
from dedup.scrapy.page.request import Budgets, again, given_to
from dedup.scrapy.report import Report
from dedup.scrapy.settings import Config, check_settings, has_pipelines

_sessions: "WeakKeyDictionary[Crawler, Session]" = WeakKeyDictionary()


class Session:
    """The deduplication of one crawl; it ends with the spider."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        """Private: Session.of() gives a crawler's session."""
        self.crawler, self.config = crawler, config
        self.counts = Counts(crawler)
        passes = has_pipelines(crawler.settings)
        self.in_flight = PagesInFlight(self.counts, has_pipelines=passes)
        self.requests = SeenRequests()
        self.withheld = SeenRequests()  # since they were made with another session
        seen = getattr(load_object(crawler.settings["DUPEFILTER_CLASS"]), "request_seen", None)
        self.filters = seen is not BaseDupeFilter.request_seen  # Scrapy makes no request twice
        self.callbacks = CallbackEvidence(exact=config.proof == "exact")
        self.names = FieldNames()
        self._item_rules = ItemRules(self.names, config.item_fields, config.item_ignore)
        self.job = Job(job_dir(crawler.settings) if is_crawl(crawler) else None)
        self.saving = Saving(self.counts)
        self.report = Report(config, self.job, self.counts)
        self.spaces: dict[str, Space] = {}
        self.schedules = False  # whether a request was scheduled, as those for callbacks are
        self._yielding: set[str] = set()  # callbacks that have yielded something
        self._failed: dict[str, str] = {}  # namespace -> kind of error that keeps it closed
        self._memory: Memory | None = None
        self._name = config.namespace
        self._begun = time.time()  # the first run of this job
        self.depth = crawler.settings.getint("DEPTH_LIMIT")
        # whether the text alone decides, so that what a site repeats on its pages must not
        self.learns_template = config.proof == "text" and "unread" in config.exempt

    @classmethod
    def of(cls, crawler: Crawler) -> "Session":
        """Return the crawler's session, made at the first call. Raises NotConfigured."""
        session = _sessions.get(crawler)
        if session is None:
            check_settings(crawler.settings)
            session = _sessions[crawler] = cls(crawler, Config.from_settings(crawler.settings))
            if session.job.folder is not None:
                with guarded(session.counts, "Scrapy's queue is as a kill may have left it"):
                    from dedup.scrapy.memory.queue import mend_queue

                    mend_queue(crawler)
        return session

    @staticmethod
    def all() -> "list[Session]":
        """Return the sessions of all crawls in this process."""
        return [*_sessions.values()]

    async def begin(self) -> None:
        """Choose the crawl's memory, before its first page."""
        if self.config.auto:
            try:
                from dedup.wire.client.discovery import find_service

                found = await find_service(self.config.options.timeout_seconds)
            except ModuleNotFoundError as error:
                hint = install("client")
                logger.warning("[dedup] a store is used; to use a service run %s (%s)", hint, error)
                found = ()
            self.config = msgspec.structs.replace(self.config, service=found)

    def decides_by_text(self, page: Page) -> bool:
        """Whether the text alone decides, by now, that a page brings nothing beside its match."""
        match, pattern = page.match, page.pattern
        if pattern is None or match is None or page.verdict.reason == "in_flight":
            return page.by_text
        if not match.document.paid:
            return False
        if self.config.proof == "text" and match.identity != "other":
            return True
        if GIVEN in pattern.signals or not self.callbacks.stores_pages(page.callback, only=True):
            return False
        if page.digest is not None and not page.digest.number:  # a start page that gave none
            return False
        theirs = None if page.digest is None else page.digest.page
        return self.callbacks.are_copies(pattern, page.reading, page.text, theirs)

    def is_own(self, match: Neighbour) -> bool:
        """Whether this crawl stored a match."""
        return match.document.inserted_seconds >= self._begun

    def space_of(self, request: Request) -> Space | None:
        """Return what is known in a request's namespace, opened at its first page; None if that fails."""
        name = request.meta.get("dedup_namespace") or self._name
        if name is None:
            assert self.crawler.spider is not None
            name = self._name = namespace_of(self.crawler.spider.name)
        if name in self._failed:
            self.counts[f"error/{self._failed[name]}"] += 1
            return None
        space = self.spaces.get(name)
        if space is None:
            try:
                space = self.spaces[name] = self._open(name)
            except Exception as error:  # noqa: BLE001 - the crawl goes on without the namespace
                self._failed[name] = kind = kind_of(error)
                self.counts[f"error/{kind}"] += 1
                logger.error(
                    "[dedup] off for %r in this crawl, pages are kept: %s%s",
                    name,
                    error,
                    advice(error, self.config),
                )
        return space

    def _open(self, name: str) -> Space:
        if self._memory is None:
            self._memory = open_memory(self.config, self.job, self.counts)
        memory = self._memory.open(name)
        found = self.saving.resumed(name, self.job, self.config.risk)
        self._begun = self.job.of(name).begun
        return Space(memory, found)

    def read(self, recipe: Recipe, response: Response) -> PageReading:
        """Read a page."""
        html: bytes | str = response.body
        encoding: str | None = "utf-8"
        if isinstance(response, TextResponse) and response.encoding != "utf-8":
            # the text is decoded once, and the spider finds it decoded
            html, encoding = response.text, None
        return read_page(
            html,
            encoding=encoding,
            url=response.url,
            recipe=recipe,
            links=True,
            numbers=True,
            blocks=self.learns_template,
        )

    # ------------------------------------------------------------------ a page is parsed

    def item_reader(
        self, request: Request, response: Response, reading: PageReading, callback: str
    ) -> ItemReader:
        """Return what reads the items of a page."""
        # the URLs before a redirect are data: an item has them to say what leads where
        urls, noted = (response.url, request.url), request.meta.get("dedup")
        page = ItemPage(
            urls,
            lambda: getattr(response, "text", ""),
            len(response.body),
            reading,
            callback,
            noted,
        )
        finds_title = self.callbacks.may_store_pages(callback)
        return ItemReader(page, self._item_rules, finds_title=finds_title)

    def given(self, request: Request, response: Response, reading: PageReading) -> int:
        """Return a hash of what the callback of a page is given beside the response; 0: nothing."""
        found = given_to(request)
        return self.item_reader(request, response, reading, "").given(found) if found else 0

    def news(self, budgets: Budgets) -> None:
        """Note that something new came by way of requests that budgets paid for."""
        for each in budgets:
            for space in self.spaces.values():
                self.send(space.budget.news(each), "requests/again")

    def note_yielding(self, callback: str) -> None:
        """Note that a callback yields something."""
        if len(self._yielding) < CALLBACKS:
            self._yielding.add(callback)

    def yielded_nothing(self, callback: str, budgets: Budgets) -> None:
        """Note a page that yielded nothing: something new if its callback never does, as one that writes files."""
        if budgets and callback not in self._yielding:
            self.news(budgets)

    def disprove(self, page: Page, fields: frozenset[int]) -> None:
        """Note that a page of a pattern brought something new: what the pattern dropped is fetched again."""
        assert page.pattern is not None
        assert page.match is not None
        self.callbacks.note_differing(page.callback, fields)
        key, of, names = page.verdict.key, page.match.key, self.names.of(fields)
        dropped = page.space.patterns.new(page.pattern, (key, of, names))
        if dropped:
            logger.info(
                "[dedup] %s: %d pages were dropped as copies, but %s gave something new compared with %s (%s); they are "
                "fetched again, and this pattern is checked from now on",
                page.pattern,
                len(dropped),
                key,
                of,
                ", ".join(names) or "other items",
            )
        self.send(map(again, dropped), "items/again")

    def fingerprint(self, request: Request) -> bytes:
        """Return by what Scrapy tells requests apart: their URL, and what a project adds to that."""
        assert self.crawler.request_fingerprinter is not None
        return self.crawler.request_fingerprinter.fingerprint(request)

    def note_request(self, request: Request) -> None:
        """Note a request that is scheduled, and that it is without its session."""
        self.requests.note(self.fingerprint(request))
        for space in self.spaces.values() if "?" in request.url else ():
            plain = space.patterns.without_sessions(request.url, registrable_domain(request.url))
            if plain != request.url:
                self.requests.note(self.fingerprint(request.replace(url=plain)))

    def seen_as(self, space: Space, request: Request) -> str:
        """Return the URL without its session of a request that the crawl has made so, or with another one; else ""."""
        plain = space.patterns.without_sessions(request.url, registrable_domain(request.url))
        if plain == request.url:
            return ""
        return plain if self.requests.has(self.fingerprint(request.replace(url=plain))) else ""

    def _is_made(self, request: Request, others: set[bytes]) -> bool:
        """Whether the crawl, or one of some other requests, is the same request; which is one of these from now on."""
        fingerprint = self.fingerprint(request)
        is_other = fingerprint in others
        others.add(fingerprint)
        return is_other or self.requests.has(fingerprint)

    def is_followed(self, request: Request, domain: str) -> bool:
        """Whether a request stays on a page's site, and the spider is allowed to go there: others cost nothing."""
        allowed = getattr(self.crawler.spider, "allowed_domains", None)
        if allowed and not url_is_from_any_domain(request.url, allowed):
            return False
        return registrable_domain(request.url) == domain

    def send(self, requests: "Iterable[Request]", stat: str) -> None:
        """Schedule requests that no callback makes, and count them."""
        for request in requests:
            self.counts[stat] += 1
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(request)

    # ---------------------------------------------------------------- a page is done with

    def forget(self, request: Request) -> None:
        """Forget a page without content, or whose item failed: it may come again under any URL."""
        noted: dict[str, Any] = request.meta.get("dedup") or {}
        token = token_of(noted)
        if token is None:
            return
        space = self.space_of(request)
        if space is not None:
            self.in_flight.forget(request, space)
        if token in self.in_flight.pages:
            self.in_flight.end(token, accepted=False)
            if noted.get("status") != "refetch":
                return  # a refetch keeps its earlier note
        self.in_flight.commit()
        if space is not None:
            space.memory.forget(noted["key"])

    async def close(self, reason: str) -> None:
        """Close the memory and log the summary. Reservations end with the crawl."""
        finished, lost = reason == "finished", "the last pages of this crawl may not be remembered"
        with guarded(self.counts, lost):
            self.in_flight.close()
        with guarded(self.counts, "requests that were made may be listed as not made"):
            made = set[bytes]()
            for space in self.spaces.values():
                space.budget.forget(lambda request: self._is_made(request, made))
        with guarded(self.counts, lost):
            self.saving.close(self.spaces.values(), self.job, finished=finished)
        remembered = "no page was judged"
        if self._memory is not None:
            with guarded(self.counts, lost):
                remembered = await self._memory.close()
        with guarded(self.counts, lost):
            self.in_flight.commit()
        _sessions.pop(self.crawler, None)
        stats = self.crawler.stats
        assert stats is not None
        stats.set_value("dedup/cpu_seconds", self.counts.meter.seconds)
        with guarded(self.counts, "there is no summary"):
            self.report.close(
                self.spaces.values(),
                [(self.names.of([field])[0], n) for field, n in self.callbacks.noisy_fields()],
                remembered,
                resumes=self.job.folder is not None and not finished,
            )
        self.counts.flush()


def forget(response: Response) -> None:
    """Forget the page of a response: it has no content (a login, a ban), or will be fetched again.

    For callbacks and pipelines. From then on no page is dropped as its near-duplicate. Does nothing for a
    response without a reservation: one that was not judged, or was dropped.
    """
    request = response.request
    for session in Session.all() if request is not None else ():
        with guarded(session.counts, f"{request} stays remembered"):
            if request is not None and session.in_flight.has_judged(request):
                session.forget(request)
