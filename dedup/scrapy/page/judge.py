"""A fetched page is judged: accepted, checked, or dropped.

    exempt? -> read -> reserve -> (wait for pages in flight) -> a near-duplicate? -> check or drop -> note

A near-duplicate of an accepted page is checked: its callback runs, and only what is new of it passes (output.py). It is
dropped unparsed only where its pattern is proven (evidence/patterns.py): its pages brought nothing new, or what they brought
is the page, whose text is equal (evidence/callbacks.py). With DEDUP_PROOF = "text" the text decides at once. A page that leads where neither a page
of its callback leads nor the crawl has been is never dropped; nor is one that holds what its callback has to close.
"""

import asyncio
from typing import NamedTuple

import msgspec
from scrapy import Request
from scrapy.http import Response

from dedup.core.faults import Backoff
from dedup.core.fingerprint import PageReading, hash_of_links
from dedup.model.differences import GIVEN, NUMBERS, difference, signals
from dedup.model.forms import to_plain
from dedup.model.names import registrable_domain
from dedup.model.page import Neighbour, PageFingerprint, ReserveOptions, Verdict, unreserved
from dedup.scrapy.evidence.items import decode
from dedup.scrapy.evidence.page_text import text_of
from dedup.scrapy.evidence.patterns import Pattern
from dedup.scrapy.evidence.seen import FETCHED
from dedup.scrapy.memory import Space
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.request import (
    Mark,
    callback_name,
    exemption,
    has_to_be_closed,
    key_of,
    kind_of_page,
    mark,
)
from dedup.scrapy.page.session import Session
from dedup.store.templates import in_words

FIRST_PAUSE_SECONDS = 0.005  # before it is asked what became of the page that another waits for
LONGEST_PAUSE_SECONDS = 0.1
GONE = frozenset((404, 410))  # statuses of pages that no longer exist


class _Fetched(NamedTuple):
    """A page that was read; of_template: how much of it is the template of its site, in words."""

    space: Space
    request: Request
    response: Response
    reading: PageReading
    callback: str
    fingerprint: PageFingerprint
    options: ReserveOptions
    of_template: str


class Judge:
    """Judges the pages of one crawl."""

    def __init__(self, session: Session) -> None:
        """Judge with what the crawl's session knows."""
        self._session, self._counts = session, session.counts

    async def judge(self, request: Request, response: Response) -> Verdict | None:
        """Judge a page and note the verdict in request.meta["dedup"]; None when it is not judged.

        Waits at most DEDUP_WAIT_SECONDS for a near-duplicate in flight, and at most
        DEDUP_TIMEOUT_SECONDS for each answer of a table service.
        """
        session = self._session
        if session.in_flight.discarded:
            session.in_flight.release_discarded()
        # whose meta this is, so that forget_copied() recognises copies of it
        noted = mark(request, owner=(request.url, request.meta.get("dedup_key")))
        with self._counts.meter:
            is_inline = session.schedules and noted.scheduled != request.url
            reason = exemption(request, response, session.config, inline=is_inline)
            if reason is not None:
                self._exempt(request, response, reason)
                return None
            space = session.space_of(request)
            if space is None:
                return None
            self._counts["probed"] += 1
            fetched = self._read(request, response, space, noted)
            verdict = await space.detector.judge(
                fetched.fingerprint, key_of(request), fetched.options
            )
            if not self._waits(verdict):
                return await self._decided(fetched, verdict)
        verdict = await self._settled(fetched, verdict)
        with self._counts.meter:
            return await self._decided(fetched, verdict)

    def _read(self, request: Request, response: Response, space: Space, noted: Mark) -> _Fetched:
        """Read a page, and find out what it is compared with."""
        session, config = self._session, self._session.config
        called, of_template = callback_name(request, session.crawler.spider), ""
        reading = session.read(space.recipe, response)
        if 0 < session.depth <= request.meta.get("depth", 0):  # no link of it is followed
            reading = reading._replace(links=b"", content_links=b"")
        is_start = noted.copied is None and request.meta.get("is_start_request")
        options = ReserveOptions(
            url=response.url,
            exempt="start" if is_start and "start" in config.exempt else None,
            guard=False,
            kind=kind_of_page(request, called, session.crawler.spider, config),
        )
        fingerprint = reading.fingerprint
        if session.learns_template:
            if session.report.journal is not None:  # before the page itself counts
                site = registrable_domain(response.url)
                of_template = in_words(space.detector.templates.share(reading.blocks, site))
            fingerprint = space.detector.learned(reading, response.url)
        if config.unchanged == "drop":
            links = hash_of_links(reading.content_links)
            fingerprint = msgspec.structs.replace(fingerprint, links=links)
        return _Fetched(
            space, request, response, reading, called, fingerprint, options, of_template
        )

    def _waits(self, verdict: Verdict) -> bool:
        """Whether a page waits for one in flight."""
        if (match := verdict.match) is None or verdict.status == "pending":
            return verdict.status == "pending"
        key = match.document.key
        return any(each.in_flight.waits_for_insert(key) for each in Session.all())

    async def _settled(self, fetched: _Fetched, verdict: Verdict) -> Verdict:
        """Return the verdict on a near-duplicate of pages in flight, once these are done.

        After DEDUP_WAIT_SECONDS it is kept (in_flight), and still compared with its match.
        """
        asked = fetched.options
        pauses, waited = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), 0.0
        while True:
            for session in Session.all():  # spiders of one process may share stores
                session.in_flight.commit()
                session.in_flight.release_discarded()
            match, is_over = verdict.match, waited >= self._session.config.wait_seconds
            if is_over:
                asked = msgspec.structs.replace(asked, exempt="in_flight")
            with self._counts.meter:
                verdict = await fetched.space.detector.judge(verdict.page, verdict.key, asked)
            if verdict.reason == "in_flight":
                return msgspec.structs.replace(verdict, match=match)
            if verdict.status != "pending":
                return verdict
            if is_over:  # a service that answers so for ever
                return unreserved(verdict, "in_flight")
            await asyncio.sleep(pause := pauses.next())
            waited += pause

    async def _decided(self, fetched: _Fetched, verdict: Verdict) -> Verdict:
        """Decide what becomes of a page, and note it."""
        session, space, request = self._session, fetched.space, fetched.request
        page: Page | None = None
        near: Page | None = None
        if verdict.match is None:
            if verdict.token is not None:
                page = Page(space, verdict, fetched.callback, fetched.reading)
                page.given = session.given(fetched.request, fetched.response, fetched.reading)
                if verdict.status == "refetch":
                    await self._refetched(page, request)
        else:
            near = self._near_duplicate(fetched, verdict, verdict.match)
            if self._may_drop(near, request) and space.seen.drop(verdict.document.key):
                self._drop(near, request)
            else:
                page = near
                if verdict.token is None:
                    verdict = page.verdict = unreserved(verdict, "checked")
                space.patterns.checked(page.pattern)
            space.seen.add_links(FETCHED, fetched.reading.address)
        if page is not None:
            session.in_flight.begin(page, request)
        request.meta["dedup"] = to_plain(verdict)
        if session.config.mode == "tag":
            request.meta["dedup"]["would"] = _would(verdict)
        self._count(verdict)
        report = session.report
        if verdict.status == "near_duplicate" or report.journal is not None:
            report.judged(
                near,
                verdict,
                fetched.response,
                space.recipe,
                fetched.callback,
                fetched.of_template,
            )
        if session.job.folder is not None:
            session.saving.soon(session.spaces.values(), session.job)
        return verdict

    def _near_duplicate(self, fetched: _Fetched, verdict: Verdict, match: Neighbour) -> Page:
        """Return a near-duplicate of an accepted page."""
        mine, theirs, digest = verdict.document, match.document, decode(match.document.items)
        other_title = match.identity == "other"
        titles = {theirs.page.identity >> 32, mine.page.identity >> 32} - {0}
        # where the texts are the same, word for word, the identity does not say whether the titles are
        differ = len(titles) == 2 and theirs.domain == mine.domain
        found = signals(theirs.page, mine.page, other_title=other_title or differ)
        given = self._session.given(fetched.request, fetched.response, fetched.reading)
        if digest is not None and given != digest.given:
            found += GIVEN
        # what a page of another crawl brought counts for nothing if the two have other numbers
        counts = theirs.paid and (NUMBERS not in found or self._session.is_own(match))
        text = None
        if digest is not None and digest.page is not None:
            text = text_of(fetched.reading, getattr(fetched.response, "text", ""))
        pattern = Pattern(fetched.callback, mine.domain, found, difference(theirs.key, mine.key))
        page = Page(
            fetched.space,
            verdict,
            fetched.callback,
            fetched.reading,
            handling="check",
            match=match,
            pattern=pattern,
            digest=digest if counts else None,
            given=given,
            text=text,
        )
        page.by_text = self._session.decides_by_text(page)
        return page

    def _may_drop(self, page: Page, request: Request) -> bool:
        """Whether a near-duplicate is dropped unparsed."""
        reading, pattern, seen = page.reading, page.pattern, page.space.seen
        if page.verdict.reason == "in_flight" or seen.leads_elsewhere(page.callback, reading.links):
            return False
        if has_to_be_closed(request):
            return False
        if "data_page" in self._session.config.exempt and reading.data_bytes > reading.text_bytes:
            return False
        if page.by_text and self._session.config.proof == "text":
            return True
        assert pattern is not None
        has_data = page.digest is not None and page.digest.has_data and GIVEN not in pattern.signals
        return (page.by_text or has_data) and page.space.patterns.may_drop(pattern)

    def _drop(self, page: Page, request: Request) -> None:
        """Note a page that is dropped unparsed, or would be."""
        assert page.pattern is not None
        config = self._session.config
        self._counts["items/by_text" if page.by_text else "items/dropped"] += 1
        if not page.by_text or config.proof != "text":
            comes_back = request if config.mode == "drop" else None
            if page.space.patterns.drop(page.pattern, comes_back):
                self._counts["items/forgotten"] += 1

    async def _refetched(self, page: Page, request: Request) -> None:
        """Compare a page with what it brought when it was last fetched: by an earlier crawl (DEDUP_UNCHANGED), or by this one.

        A start request is not noted by Scrapy's filter, so that the first link to its page has that fetched again. What is
        asked for with dont_filter, or under a key, is meant.
        """
        verdict, config = page.verdict, self._session.config
        is_meant = request.dont_filter or "dedup_key" in request.meta or not self._session.filters
        if config.unchanged != "drop" and is_meant:
            return
        if self._session.in_flight.waits_for_insert(verdict.key):
            self._session.in_flight.commit()
        near = await page.space.detector.probe(verdict.page, domain=verdict.domain)
        mine = (n for n in near if n.key == verdict.key and n.paid)
        page.match = next(
            (n for n in mine if config.unchanged == "drop" or self._session.is_own(n)), None
        )
        if page.match is not None:
            page.handling = "refetch"
            page.by_text = self._session.config.proof == "text" and verdict.reason == "unchanged"
            page.digest = decode(page.match.document.items)

    def _count(self, verdict: Verdict) -> None:
        if verdict.reason == "checked":
            self._counts["checked"] += 1
        elif verdict.status == "exempt":
            self._counts[f"exempt/{verdict.reason}"] += 1
        else:
            self._counts[verdict.status] += 1
        if verdict.reason == "unchanged" and self._session.config.unchanged == "drop":
            self._counts["unchanged"] += 1
        if verdict.status == "near_duplicate" and verdict.match is not None:
            self._counts[f"near_duplicate/distance/{verdict.match.distance}"] += 1

    def _exempt(self, request: Request, response: Response, reason: str) -> None:
        """Keep a page without reading its bytes."""
        session = self._session
        if reason == "status" and response.status in GONE:
            space = session.space_of(request)
            if space is not None:  # a copy can take the place of a page that no longer exists
                space.memory.forget(key_of(request))
        self._counts[f"exempt/{reason}"] += 1
        request.meta["dedup"] = {"status": "exempt", "reason": reason}


def _would(verdict: Verdict) -> str:
    """Return what the mode "drop" would do with a page."""
    if verdict.status == "near_duplicate":
        return "drop"
    return "check" if verdict.reason == "checked" else "keep"
