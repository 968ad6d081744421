"""What the middlewares of one crawl share: what it knows in each namespace, and of its callbacks.

Session.of(crawler) -> begin() -> pages are judged (judge.py), their callbacks watched (output.py) -> close()
"""

import asyncio
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import msgspec
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object

from dedup.core.faults import Backoff
from dedup.core.fingerprint import PageReading, read_page
from dedup.detector import AsyncDetector
from dedup.model.names import namespace_of
from dedup.model.page import Neighbour
from dedup.model.recipes import Recipe
from dedup.scrapy.evidence.digest import BESIDE_HEADING, Digest, Names, differing
from dedup.scrapy.evidence.keeping import CALLBACKS, Keeping, are_equal
from dedup.scrapy.evidence.ledger import Account, Ledger
from dedup.scrapy.evidence.met import Met, Requests
from dedup.scrapy.evidence.visits import Visits
from dedup.scrapy.guard import Counts, kind_of, logger
from dedup.scrapy.memory import Memory, NamespaceMemory, advice, open_memory
from dedup.scrapy.memory.state import Job, Saving, is_crawl
from dedup.scrapy.page.in_flight import Page, PagesInFlight, token_of
from dedup.scrapy.page.request import KIND_CHARACTERS, Callbacks, again, is_closing, send
from dedup.scrapy.report import Report, new_report
from dedup.scrapy.settings import Config, check_settings
from dedup.scrapy.urls import Known, SiteUrls

if TYPE_CHECKING:
    from collections.abc import Iterable

WAITING_BYTES = (
    1 << 20
)  # of pages that wait for a control visit; at most a fifth of what Scrapy parses at once
FIRST_PAUSE_SECONDS = 0.005  # between two looks at whether a control visit has ended
LONGEST_PAUSE_SECONDS = 0.1
# Of each judged page its session, and its items that no page brought before.
_judged_by: "WeakKeyDictionary[Request, tuple[Session, list[bytes]]]" = WeakKeyDictionary()
_sessions: "WeakKeyDictionary[Crawler, Session]" = WeakKeyDictionary()
_broken: "WeakSet[Crawler]" = WeakSet()  # crawlers whose session could not be made


class Space:
    """What a crawl knows within one namespace."""

    def __init__(self, name: str, memory: NamespaceMemory, config: Config) -> None:
        """Begin with nothing beyond the memory."""
        self.name, self.memory = name, memory
        self.met = Met()
        self.ledger: Ledger[Request] = Ledger(config.risk)
        self.urls = SiteUrls(memory, config)

        # called with the meter running, which stops while this waits
        self.detector: AsyncDetector = memory.detector
        self.recipe = self.detector.recipe


class Session:
    """The deduplication of one crawl; it ends with the spider."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        """Private: Session.of() gives a crawler's session."""
        self.crawler, self.config = crawler, config
        self.counts = Counts(crawler)
        self.in_flight = PagesInFlight(self.counts)
        self.callback = Callbacks(crawler, config).of
        self.requests = Requests()
        seen = getattr(load_object(crawler.settings["DUPEFILTER_CLASS"]), "request_seen", None)
        self.filters = seen is not BaseDupeFilter.request_seen  # Scrapy makes no request twice
        self.keeping, self.names = Keeping(), Names()
        makes = config.mode == "drop" and not config.item_fields
        self.visits = Visits(config.control if makes else 0)
        self.job = Job(job_dir(crawler.settings) if is_crawl(crawler) else None)
        self.saving = Saving(self.counts)
        self.report: Report = new_report(config, self.job, self.counts)
        self.spaces: dict[str, Space] = {}
        self.scheduling = False  # whether a request was scheduled, as those for callbacks are
        self._speaking: set[str] = set()  # callbacks that have yielded something
        self._failed: dict[str, str] = {}  # namespace -> kind of error that keeps it closed
        self._memory: Memory | None = None
        self._name = config.namespace
        self._begun = time.time()
        self.depth = crawler.settings.getint("DEPTH_LIMIT")
        self._waiting_bytes = 0  # of pages that wait for a control visit
        most = crawler.settings.getint("SCRAPER_SLOT_MAX_ACTIVE_SIZE")
        self._most_waiting = min(WAITING_BYTES, most // 5)
        # whether the text alone decides, so that what a site repeats on its pages must not
        self.learns_frame = config.proof == "text" and "unread" in config.exempt

    @classmethod
    def of(cls, crawler: Crawler) -> "Session":
        """Return the crawler's session, made at the first call. Raises NotConfigured."""
        session = _sessions.get(crawler)
        if session is None:
            check_settings(crawler.settings)
            config = Config.from_settings(crawler.settings)
            if crawler in _broken:
                raise NotConfigured
            try:
                session = _sessions[crawler] = cls(crawler, config)
            except Exception as error:
                _broken.add(crawler)
                assert crawler.stats is not None
                crawler.stats.inc_value(f"dedup/error/{kind_of(error)}")
                logger.exception("[dedup] is off in this crawl, pages are kept: %s", error)
                raise NotConfigured from error
            if session.job.folder is not None:
                with session.counts.guard("Scrapy's queue is as a kill may have left it"):
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
                from dedup.scrapy.memory.service import find_service

                found = await find_service(self.config.options.timeout_seconds)
            except ModuleNotFoundError as error:
                hint = "pip install 'crawl-dedup[client]'"
                logger.warning("[dedup] a store is used; to use a service run %s (%s)", hint, error)
                found = ()
            self.config = msgspec.structs.replace(self.config, service=found)

    def begin_page(self, page: Page, request: Request) -> None:
        """Begin a page that is parsed."""
        _judged_by[request] = self, page.first
        self.in_flight.begin(page, request)

    def decides_by_text(self, page: Page) -> bool:
        """Whether the text alone shows, by now, that a page brings nothing beside its match."""
        match = page.match
        if page.way == "refetch" or match is None or page.verdict.reason == "in_flight":
            return page.by_text
        if not match.document.paid:
            return False
        if self.config.proof == "text" and match.identity != "other":
            return True
        return self.keeping.keeps_all(page.callback) and self._are_equal(page)

    def are_equal_items(self, page: Page, mine: Digest) -> bool:
        """Whether the item of a page and its match's differ only in what holds the page, and the pages are equal.

        Of a text beside data it is not known what it is taken from: it counts as it is.
        """
        theirs, keeping = page.digest, self.keeping
        if page.name is None or theirs is None or not mine.holds:
            return False
        if keeping.is_text(page.callback) and not keeping.keeps(page.callback):
            return False
        volatile = self.visits.of(page.callback).fields
        beside = differing(mine, theirs) - mine.holders - volatile
        return beside <= BESIDE_HEADING.keys() and self._are_equal(page)

    def _are_equal(self, page: Page) -> bool:
        """Whether a page says what its match says, but for what each visit of such pages changes."""
        assert page.name is not None
        volatile, is_text = self.visits.of(page.callback), self.keeping.is_text(page.callback)
        return are_equal(page.name, page.reading, page.original, volatile, is_text=is_text)

    def is_own(self, match: Neighbour) -> bool:
        """Whether this crawl stored a match."""
        return match.document.inserted_seconds >= self._begun

    def open_space(self, request: Request) -> Space | None:
        """Return what is known in a request's namespace, if a page of it was judged."""
        return self.spaces.get(str(request.meta.get("dedup_namespace") or self._name or ""))

    def space_of(self, request: Request) -> Space | None:
        """Return what is known in a request's namespace, opened at its first page; None if that fails."""
        name = request.meta.get("dedup_namespace") or self._name
        if name is None:
            assert self.crawler.spider is not None
            name = self._name = namespace_of(self.crawler.spider.name)
        if name in self._failed:
            self.counts.add(f"error/{self._failed[name]}")
            return None
        space = self.spaces.get(name)
        if space is None:
            try:
                space = self.spaces[name] = self._open(name)
            except Exception as error:  # noqa: BLE001 - the crawl goes on without the namespace
                self._failed[name] = kind = kind_of(error)
                self.counts.add(f"error/{kind}")
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
        space = Space(name, self._memory.open(name), self.config)
        self._begun = self.saving.open(space, self.visits, self.job)
        return space

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
            blocks=self.learns_frame,
        )

    # ------------------------------------------------------------------ a page is parsed

    def news(self, lead: tuple[Account, ...]) -> None:
        """Note that something new came by way of requests that accounts paid for."""
        for account in lead:
            for space in self.spaces.values():
                self.send(space.ledger.news(account), "requests/again")

    def speaks(self, callback: str) -> None:
        """Note that a callback yields something."""
        if len(self._speaking) < CALLBACKS:
            self._speaking.add(callback)

    def was_silent(self, callback: str, lead: tuple[Account, ...]) -> None:
        """Note a page that yielded nothing: something new if its callback never does, as one that writes files."""
        if lead and callback not in self._speaking:
            self.news(lead)

    def spoil(self, page: Page, fields: frozenset[int] | None) -> None:
        """Note that a page of a class brought something new: what the class dropped is fetched again."""
        assert page.name is not None
        assert page.match is not None
        key, of = page.verdict.key, page.match.key
        page.space.urls.learn(key, of, same=False)
        names = self.names.of(fields or ())
        dropped = page.space.ledger.new(page.name, (key, of, names), fields)
        if dropped:
            logger.info(
                "[dedup] %s: %d pages were dropped as copies, but %s brought something new beside %s (%s); they are "
                "fetched again, and pages like them are compared from now on",
                page.name,
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

    def known_page(self, space: Space, request: Request) -> Known | None:
        """Return the accepted page that a request leads to by the URL rules in force, or None."""
        if not space.urls.count:
            return None
        kind = request.meta.get("dedup_kind")
        kind = self.callback(request).kind if kind is None else str(kind)[:KIND_CHARACTERS]
        return space.urls.known(request, kind)

    async def visited(self, callback: str, size: int) -> None:
        """Wait until no control visit of a callback is under way; size is what the page that waits holds in memory."""
        # with many bytes in its hands Scrapy fetches no page, and so not the visit
        if self._waiting_bytes + size > self._most_waiting:
            return
        pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._waiting_bytes += size
        try:
            while (  # noqa: ASYNC110 - the crawl may end, too
                self.visits.is_open(callback, time.monotonic()) and not is_closing(self.crawler)
            ):
                await asyncio.sleep(pauses.next())
        finally:
            self._waiting_bytes -= size

    def send(self, requests: "Iterable[Request]", stat: str) -> None:
        """Schedule requests that no callback makes, and count them."""
        for request in requests:
            self.counts.add(stat)
            send(self.crawler, request)

    # ---------------------------------------------------------------- a page is done with

    def forget(self, request: Request) -> None:
        """Forget a page without content, or whose item failed: it may come again under any URL."""
        noted: dict[str, Any] = request.meta.get("dedup") or {}
        token = token_of(noted)
        if token is None:
            return
        space = self.space_of(request)
        if space is not None and request in _judged_by:
            space.met.forget_items(self.callback(request).name, _judged_by[request][1])
        if token in self.in_flight.pages:
            self.in_flight.end(token, accepted=False)
            if noted.get("status") != "refetch":
                return  # a refetch keeps its earlier note
        self.in_flight.commit()
        if space is not None:
            space.memory.forget(noted["key"])
            space.urls.forget(noted["key"])

    async def close(self, reason: str) -> None:
        """Close the memory and log the summary. Reservations end with the crawl."""
        finished, lost = reason == "finished", "the last pages of this crawl may not be remembered"
        with self.counts.guard(lost):
            self.in_flight.close()
        with self.counts.guard(lost):
            self.saving.close(self.spaces.values(), self.visits, self.job, finished=finished)
        remembered = "no page was judged"
        if self._memory is not None:
            with self.counts.guard(lost):
                remembered = await self._memory.close()
        with self.counts.guard(lost):
            self.in_flight.commit()
        _sessions.pop(self.crawler, None)
        stats = self.crawler.stats
        assert stats is not None
        stats.set_value("dedup/cpu_seconds", self.counts.meter.seconds)
        with self.counts.guard("there is no summary"):
            self.report.close(self, remembered)
        self.counts.flush()


def forget(response: Response) -> None:
    """Forget the page of a response: it has no content (a login, a ban), or will be fetched again.

    For callbacks and pipelines. From then on no page is dropped as its near-duplicate. Does nothing for a
    response without a reservation: one that was not judged, or was dropped.
    """
    request = response.request
    judged = None if request is None else _judged_by.get(request)
    if request is not None and judged is not None:
        session, _ = judged
        with session.counts.guard(f"{request} stays remembered"):
            session.forget(request)
