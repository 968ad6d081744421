"""A fetched page is judged: accepted, compared, or dropped. What the middlewares of one crawl share.

    exempt? -> read -> reserve -> (wait for pages in flight) -> looks like an accepted page? -> compare or drop -> note

A page that looks like an accepted one is compared: its callback runs, and only what is new of it passes (output.py). It
is dropped unparsed only where its class may (evidence/ledger.py), or where the text decides: the items of its
callback hold nothing but the page (evidence/keeping.py), or DEDUP_PROOF says so. A page with a link that no accepted
page had is never dropped.
"""

import asyncio
import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import msgspec
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.utils.job import job_dir

from dedup.core.faults import Backoff
from dedup.core.fingerprint import PageReading, hash_of_links, read_page
from dedup.detector import AsyncDetector
from dedup.detector.frames import in_words
from dedup.model.forms import to_plain
from dedup.model.names import namespace_of, registrable_domain
from dedup.model.page import PART, Neighbour, ReserveOptions, Verdict, unreserved
from dedup.model.recipes import Recipe
from dedup.scrapy.evidence.difference import (
    ATTRIBUTES,
    BESIDE,
    DATA,
    FRAME,
    HEADING,
    NUMBERS,
    PICTURES,
    TITLE,
    UNKNOWN,
    WORDS,
    letters,
    shape,
)
from dedup.scrapy.evidence.digest import (
    BESIDE_HEADING,
    Digest,
    Digester,
    Names,
    Rules,
    decode,
    numbers_of,
)
from dedup.scrapy.evidence.digest import Page as ItemPage
from dedup.scrapy.evidence.keeping import CALLBACKS, Keeping
from dedup.scrapy.evidence.ledger import Account, Class, Ledger
from dedup.scrapy.evidence.lists import Numbers, numbers_of_rows
from dedup.scrapy.evidence.met import Met, Requests
from dedup.scrapy.evidence.visits import Visits
from dedup.scrapy.exceptions import KnownUrl
from dedup.scrapy.guard import Counts, kind_of, logger
from dedup.scrapy.memory import Memory, NamespaceMemory, advice, open_memory
from dedup.scrapy.memory.state import Job, Saving, is_crawl
from dedup.scrapy.page.in_flight import Page, PagesInFlight, token_of
from dedup.scrapy.page.request import (
    KIND_CHARACTERS,
    Callbacks,
    Mark,
    again,
    exemption,
    handed_over,
    is_closing,
    is_ordinary,
    key_of,
    mark,
    send,
)
from dedup.scrapy.report import Report, new_report
from dedup.scrapy.settings import Config, check_settings
from dedup.scrapy.urls import Known, SiteUrls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SAID = frozenset((HEADING, TITLE, UNKNOWN, WORDS))  # parts of a page that say what it is
BESIDES = frozenset((FRAME, BESIDE))  # and what a text that holds the page may be taken from, too
IN_MARKUP = (DATA, PICTURES, ATTRIBUTES)  # and a field of markup
FIRST_PAUSE_SECONDS = 0.005  # between two looks at what a page waits for
LONGEST_PAUSE_SECONDS = 0.1
WAITING_BYTES = 1 << 20  # of pages that wait for a control visit
SOON = 10  # by which the priority of a control visit is higher than its page's
GONE = frozenset((404, 410))  # statuses of pages that no longer exist
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
        self.keeping, self.names = Keeping(), Names()
        self.visits = Visits(config.control)
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
        self._waiting_bytes = 0  # of pages that wait for a control visit
        # whether the text alone decides, so that what a site repeats on its pages must not
        self._learns_frame = config.proof == "text" and "unread" in config.exempt

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
                    from dedup.scrapy.requests.queue import mend_queue

                    mend_queue(crawler)
        return session

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

    # ------------------------------------------------------------------ a page comes in

    async def judge(self, request: Request, response: Response) -> Verdict | None:
        """Judge a page and note the verdict in request.meta["dedup"]; None when it is not judged.

        Waits at most DEDUP_WAIT_SECONDS for a near-duplicate in flight, and at most
        DEDUP_TIMEOUT_SECONDS for each answer of a table service.
        """
        if self.in_flight.discarded:
            self.in_flight.release_discarded()
        # whose meta this is, so that forget_copied() recognises copies of it
        noted = mark(request, owner=(request.url, request.meta.get("dedup_key")))
        if noted.control:
            request.meta["dedup"] = {"status": "exempt", "reason": "control"}
            return None
        with self.counts.meter:
            called = self.callback(request)
            is_inline = self.scheduling and noted.scheduled != request.url
            reason = exemption(request, response, self.config, called, inline=is_inline)
            if reason is not None:
                self._exempt(request, response, reason)
                return None
            space = self.space_of(request)
            if space is None:
                return None
            reading = self.read(space.recipe, response)
            self.counts.add("probed")
            kind = request.meta.get("dedup_kind")
            is_start = noted.copied is None and request.meta.get("is_start_request")
            options = ReserveOptions(
                url=response.url,
                exempt="start" if is_start and "start" in self.config.exempt else None,
                guard=False,
                kind=called.kind if kind is None else str(kind)[:KIND_CHARACTERS],
            )
            fingerprint = reading.fingerprint
            told = ""
            if self._learns_frame:
                if self.report.journal is not None:  # before the page itself counts
                    share = space.detector.frames.share(
                        reading.blocks, registrable_domain(response.url)
                    )
                    told = in_words(share)
                fingerprint = space.detector.learned(reading, response.url)
            if self.config.unchanged == "drop":
                fingerprint = msgspec.structs.replace(
                    fingerprint, links=hash_of_links(reading.links)
                )
            verdict = await space.detector.judge(fingerprint, key_of(request), options)
            match = verdict.match
            if verdict.status != "pending" and (match is None or not self._waits_for_insert(match)):
                return await self._decided(
                    space, verdict, request, response, reading, called.name, told
                )
        verdict = await self._settled(space, verdict, options)
        with self.counts.meter:
            return await self._decided(
                space, verdict, request, response, reading, called.name, told
            )

    def _waits_for_insert(self, match: Neighbour) -> bool:
        """Whether the next commit of any crawl in this process inserts the page that this one looks like."""
        return any(
            session.in_flight.waits_for_insert(match.document.key) for session in _sessions.values()
        )

    async def _settled(self, space: Space, verdict: Verdict, options: ReserveOptions) -> Verdict:
        """Return the verdict on a page that is like pages in flight, once these are done.

        After DEDUP_WAIT_SECONDS it is kept (in_flight), and still compared with what it is like.
        """
        pauses, waited = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), 0.0
        while True:
            for session in list(_sessions.values()):  # spiders of one process may share stores
                session.in_flight.commit()
                session.in_flight.release_discarded()
            asked = options
            if waited >= self.config.wait_seconds and verdict.status == "pending":
                asked = msgspec.structs.replace(options, exempt="in_flight")
            match = verdict.match
            with self.counts.meter:
                verdict = await space.detector.judge(verdict.page, verdict.key, asked)
            if verdict.reason == "in_flight":
                return msgspec.structs.replace(verdict, match=match)
            if verdict.status != "pending":
                return verdict
            await asyncio.sleep(pause := pauses.next())
            waited += pause

    async def _decided(
        self,
        space: Space,
        verdict: Verdict,
        request: Request,
        response: Response,
        reading: PageReading,
        callback: str,
        told: str,
    ) -> Verdict:
        """Decide what becomes of a page, and note it; told is what its site's memory knows of it."""
        page: Page | None = None
        like: Page | None = None
        if verdict.match is None:
            if verdict.token is not None:
                page = Page(space, verdict, callback, reading)
                if verdict.status == "refetch" and self.config.unchanged == "drop":
                    await self._refetched(page)
        else:
            page = like = self._compared(space, verdict, verdict.match, reading, callback)
            if self._may_drop(page):
                self._drop(page, request)
                page = None
            else:
                if verdict.token is None:
                    verdict = page.verdict = unreserved(verdict, "compared")
                page.again = self._visit(page, request)
                space.ledger.look(page.name)
        if page is not None:
            _judged_by[request] = self, page.first
            self.in_flight.begin(page, request)
        request.meta["dedup"] = to_plain(verdict)
        if self.config.mode == "tag":
            request.meta["dedup"]["would"] = _would(verdict)
        self._count(verdict)
        if verdict.status == "near_duplicate" or self.report.journal is not None:
            self.report.judged(space, verdict, response, callback, like, told)
        self.saving.soon(self.spaces.values(), self.visits, self.job)
        return verdict

    def _compared(
        self,
        space: Space,
        verdict: Verdict,
        match: Neighbour,
        reading: PageReading,
        callback: str,
    ) -> Page:
        """Return a page that looks like an accepted one."""
        mine, theirs, digest = verdict.document, match.document, decode(match.document.items)
        other_title = match.identity == "other"
        titles = {theirs.page.identity >> 32, mine.page.identity >> 32} - {0}
        # where the texts are the same, word for word, the identity says nothing of the titles
        differ = len(titles) == 2 and theirs.domain == mine.domain
        parts = letters(theirs.page, mine.page, other_title=other_title or differ)
        name = Class(callback, mine.domain, parts, shape(theirs.key, mine.key))
        page = Page(
            space,
            verdict,
            callback,
            reading,
            way="compare",
            match=match,
            name=name,
            digest=digest
            if theirs.paid and (NUMBERS not in parts or self._is_own(match))
            else None,
        )
        page.by_text = self.decides_by_text(page)
        return page

    def decides_by_text(self, page: Page) -> bool:
        """Whether the text alone shows, by now, that a page brings nothing beside its match."""
        match = page.match
        if page.way == "refetch" or match is None or page.verdict.reason == "in_flight":
            return page.by_text
        if not match.document.paid:
            return False
        if self.config.proof == "text" and match.identity != "other":
            return True
        return self.keeping.keeps(page.callback) and self._are_equal(page)

    def _is_own(self, match: Neighbour) -> bool:
        """Whether this crawl stored a match."""
        return match.document.inserted_seconds >= self._begun

    def _are_equal(self, page: Page) -> bool:
        """Whether a page says what its match says, but for what each visit of such pages changes."""
        name, digest, reading = page.name, page.digest, page.reading
        assert name is not None
        volatile = self.visits.of(name.callback)
        said = SAID
        if self.keeping.is_text(name.callback):
            said |= BESIDES
        else:  # of markup, what the page has: without any, a print copy lacks nothing
            said |= {each for each in IN_MARKUP if any(reading.fingerprint.parts[PART[each]])}
        if said & set(name.parts) - volatile.parts_of(name.shape):
            return False
        if NUMBERS not in name.parts:
            return True
        if digest is None or not digest.holds:
            return False
        return volatile.are_equal(name, Digest(1, numbers=numbers_of(reading)), digest)

    def _may_drop(self, page: Page) -> bool:
        """Whether a page that looks like an accepted one is dropped unparsed."""
        reading = page.reading
        if page.verdict.reason == "in_flight" or page.space.met.is_new(reading.links):
            return False
        if "data_page" in self.config.exempt and reading.data_bytes > reading.text_bytes:
            return False
        if page.by_text:
            return True
        assert page.name is not None
        says = page.digest is not None and page.digest.says
        volatile = self.visits.of(page.callback).fields
        return says and page.space.ledger.may_drop(page.name, volatile)

    def _drop(self, page: Page, request: Request) -> None:
        """Note a page that is dropped unparsed, or would be."""
        assert page.name is not None
        assert page.match is not None
        if page.by_text:
            self.counts.add("items/by_text")
        else:
            self.counts.add("items/dropped")
            comes_back = request if self.config.mode == "drop" else None
            page.space.ledger.drop(page.name, comes_back)
        page.space.urls.learn(page.verdict.document.key, page.match.document.key, same=True)

    def _visit(self, page: Page, request: Request) -> Request | None:
        """Return a request for another visit of a page, before its callback can change this one."""
        assert page.name is not None
        wants = self.config.mode == "drop" and not self.config.item_fields
        if not wants or request.method != "GET" or not self.visits.wants(page.name):
            return None
        try:
            visit = again(request, control=page.verdict.document.key)
            visit.errback = None
            visit.priority += SOON
            visit.meta.update(deepcopy(visit.meta))
            visit.cb_kwargs.update(deepcopy(visit.cb_kwargs))
        except Exception:  # noqa: BLE001 - what cannot be copied is not visited again
            return None
        return visit

    async def _refetched(self, page: Page) -> None:
        """Compare a page with what it brought at its last visit (DEDUP_UNCHANGED)."""
        verdict = page.verdict
        near = await page.space.detector.probe(verdict.page, domain=verdict.domain)
        page.match = next((n for n in near if n.key == verdict.key and n.paid), None)
        if page.match is not None:
            page.way = "refetch"
            page.by_text = self.config.proof == "text" and verdict.reason == "unchanged"
            page.digest = decode(page.match.document.items)

    def _count(self, verdict: Verdict) -> None:
        if verdict.reason == "compared":
            self.counts.add("compared")
        elif verdict.status == "exempt":
            self.counts.add(f"exempt/{verdict.reason}")
        else:
            self.counts.add(verdict.status)
        if verdict.reason == "unchanged":
            self.counts.add("unchanged")
        if verdict.status == "near_duplicate" and verdict.match is not None:
            self.counts.add(f"near_duplicate/distance/{verdict.match.distance}")

    def _exempt(self, request: Request, response: Response, reason: str) -> None:
        """Keep a page without reading its bytes."""
        space = self.spaces.get(request.meta.get("dedup_namespace") or self._name or "")
        if reason == "non_html" and space is not None:
            space.urls.unlike(key_of(request))
        if reason == "status" and response.status in GONE:
            space = self.space_of(request)
            if space is not None:  # a copy can take the place of a page that no longer exists
                space.memory.forget(key_of(request))
                space.urls.forget(key_of(request))
        self._keep_unjudged(request, reason)

    def _keep_unjudged(self, request: Request, reason: str) -> None:
        self.counts.add(f"exempt/{reason}")
        request.meta["dedup"] = {"status": "exempt", "reason": reason}

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
            blocks=self._learns_frame,
            shingles=self._learns_frame and self.config.options.own_words,
        )

    # ------------------------------------------------------------------ a page is parsed

    def digester(
        self, response: Response, callback: str, reading: "Callable[[], PageReading]"
    ) -> Digester:
        """Return what makes the digest of a page's items."""
        request = response.request
        assert request is not None
        shows = self.keeping.is_open(callback)
        # the URLs before a redirect are data: an item has them to say what leads where
        page = ItemPage(
            (response.url, request.url),
            lambda: getattr(response, "text", ""),
            len(response.body),
            reading,
            request.meta.get("dedup"),
            handed_over(request) if shows else (),
        )
        config, volatile = self.config, self.visits.of(callback)
        rules = Rules(
            self.names,
            config.item_fields,
            config.item_ignore,
            volatile.fields,
            volatile.tell,
            shows,
        )
        return Digester(page, rules)

    def listed(self, page: Page, digester: Digester) -> Numbers:
        """Return the numbers of a page with rows."""
        recipe = page.space.recipe
        rows, forms = numbers_of_rows(
            digester.numbers(),
            lambda text: read_page(f"<main><p>{text}", recipe=recipe, numbers=True).numbers,
        )
        items = frozenset(each.apart for each in digester.items)
        return Numbers(page.reading.numbers, rows, forms, items, page.reading.fingerprint.title)

    def headed(self, page: Page) -> None:
        """Note the heading of a page: where headings tell pages apart, what stands beside them does not count."""
        callback, heading = page.callback, page.reading.fingerprint.parts[PART[HEADING]]
        if self.keeping.tells(callback, heading):
            for field in BESIDE_HEADING:
                self.visits.let_go(callback, field)

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

    def known_url(self, request: Request, noted: Mark) -> KnownUrl | None:
        """Return why a request need not be sent, or None."""
        name = request.meta.get("dedup_namespace") or self._name
        space = self.spaces.get(str(name or ""))
        if space is None or not is_ordinary(request, noted):
            return None
        known = self.known_page(space, request)
        if known is None:
            return None
        if not known.skip:
            learns = self.config.urls == "learn" or self.config.mode != "drop"
            self.counts.add("url_would_skip" if learns else "url_checked")
            return None
        self.counts.add("url_skipped")
        rules = [*known.rules]
        request.meta["dedup"] = {"status": "skipped", "of": known.original, "rules": rules}
        return KnownUrl(known.original, rules)

    async def visited(self, callback: str, size: int) -> None:
        """Wait until no control visit of a callback is under way; size is what the page that waits holds in memory."""
        # with many bytes in its hands Scrapy fetches no page, and so not the visit
        if self._waiting_bytes + size > WAITING_BYTES:
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
        self.in_flight.close()
        finished = reason == "finished"
        self.saving.close(self.spaces.values(), self.visits, self.job, finished=finished)
        remembered = "no page was judged"
        if self._memory is not None:
            with self.counts.guard("the last pages of this crawl may not be remembered"):
                remembered = await self._memory.close()
        self.in_flight.commit()
        _sessions.pop(self.crawler, None)
        stats = self.crawler.stats
        assert stats is not None
        stats.set_value("dedup/cpu_seconds", self.counts.meter.seconds)
        with self.counts.guard("there is no summary"):
            self.report.close(self, remembered)
        self.counts.flush()


def _would(verdict: Verdict) -> str:
    """Return what the mode "drop" would do with a page."""
    if verdict.status == "near_duplicate":
        return "drop"
    return "compare" if verdict.reason == "compared" else "keep"


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
