"""A fetched page is judged: accepted, compared, or dropped.

    exempt? -> read -> reserve -> (wait for pages in flight) -> looks like an accepted page? -> compare or drop -> note

A page that looks like an accepted one is compared: its callback runs, and only what is new of it passes (output.py). It
is dropped unparsed only where its class may (evidence/ledger.py), or where the text decides: the items of its
callback hold nothing but the page (evidence/keeping.py), or DEDUP_PROOF says so. A page with a link that no accepted
page had is never dropped.
"""

import asyncio
from copy import deepcopy
from typing import NamedTuple

import msgspec
from scrapy import Request
from scrapy.http import Response

from dedup.core.faults import Backoff
from dedup.core.fingerprint import PageReading, hash_of_links
from dedup.detector.frames import in_words
from dedup.model.forms import to_plain
from dedup.model.names import registrable_domain
from dedup.model.page import Neighbour, ReserveOptions, Verdict, unreserved
from dedup.scrapy.evidence.difference import NUMBERS, letters, shape
from dedup.scrapy.evidence.digest import decode
from dedup.scrapy.evidence.ledger import Class
from dedup.scrapy.exceptions import KnownUrl
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.request import (
    KIND_CHARACTERS,
    Mark,
    again,
    exemption,
    is_ordinary,
    key_of,
    mark,
)
from dedup.scrapy.page.session import Session, Space

FIRST_PAUSE_SECONDS = 0.005  # between two looks at what a page waits for
LONGEST_PAUSE_SECONDS = 0.1
SOON = 10  # by which the priority of a control visit is higher than its page's
GONE = frozenset((404, 410))  # statuses of pages that no longer exist


class _Fetched(NamedTuple):
    """A page that is judged; told is what its site's memory knows of it."""

    space: Space
    request: Request
    response: Response
    reading: PageReading
    callback: str
    told: str


class Judge:
    """Judges the pages of one crawl."""

    def __init__(self, session: Session) -> None:
        """Judge with what the crawl's session knows."""
        self._session, self._counts = session, session.counts

    def known_url(self, request: Request, noted: Mark) -> KnownUrl | None:
        """Return why a request need not be sent, or None."""
        session = self._session
        space = session.open_space(request)
        if space is None or not is_ordinary(request, noted):
            return None
        known = session.known_page(space, request)
        if known is None:
            return None
        if not known.skip:
            learns = session.config.urls == "learn" or session.config.mode != "drop"
            self._counts.add("url_would_skip" if learns else "url_checked")
            return None
        self._counts.add("url_skipped")
        rules = [*known.rules]
        request.meta["dedup"] = {"status": "skipped", "of": known.original, "rules": rules}
        return KnownUrl(known.original, rules)

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
        if noted.control:
            request.meta["dedup"] = {"status": "exempt", "reason": "control"}
            return None
        with self._counts.meter:
            config, called = session.config, session.callback(request)
            is_inline = session.scheduling and noted.scheduled != request.url
            reason = exemption(request, response, config, called, inline=is_inline)
            if reason is not None:
                self._exempt(request, response, reason)
                return None
            space = session.space_of(request)
            if space is None:
                return None
            reading = session.read(space.recipe, response)
            if 0 < session.depth <= request.meta.get("depth", 0):  # no link of it is followed
                reading = reading._replace(links=b"")
            self._counts.add("probed")
            kind = request.meta.get("dedup_kind")
            is_start = noted.copied is None and request.meta.get("is_start_request")
            options = ReserveOptions(
                url=response.url,
                exempt="start" if is_start and "start" in config.exempt else None,
                guard=False,
                kind=called.kind if kind is None else str(kind)[:KIND_CHARACTERS],
            )
            fingerprint, told = reading.fingerprint, ""
            if session.learns_frame:
                if session.report.journal is not None:  # before the page itself counts
                    site = registrable_domain(response.url)
                    told = in_words(space.detector.frames.share(reading.blocks, site))
                fingerprint = space.detector.learned(reading, response.url)
            if config.unchanged == "drop":
                links = hash_of_links(reading.links)
                fingerprint = msgspec.structs.replace(fingerprint, links=links)
            fetched = _Fetched(space, request, response, reading, called.name, told)
            verdict = await space.detector.judge(fingerprint, key_of(request), options)
            if not self._waits(verdict):
                return await self._decided(fetched, verdict)
        verdict = await self._settled(space, verdict, options)
        with self._counts.meter:
            return await self._decided(fetched, verdict)

    def _waits(self, verdict: Verdict) -> bool:
        """Whether a page looks like one in flight, or like one that the next commit of any crawl in this process inserts."""
        match = verdict.match
        return verdict.status == "pending" or (
            match is not None
            and any(each.in_flight.waits_for_insert(match.document.key) for each in Session.all())
        )

    async def _settled(self, space: Space, verdict: Verdict, options: ReserveOptions) -> Verdict:
        """Return the verdict on a page that is like pages in flight, once these are done.

        After DEDUP_WAIT_SECONDS it is kept (in_flight), and still compared with what it is like.
        """
        pauses, waited = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), 0.0
        while True:
            for session in Session.all():  # spiders of one process may share stores
                session.in_flight.commit()
                session.in_flight.release_discarded()
            asked = options
            if waited >= self._session.config.wait_seconds and verdict.status == "pending":
                asked = msgspec.structs.replace(options, exempt="in_flight")
            match = verdict.match
            with self._counts.meter:
                verdict = await space.detector.judge(verdict.page, verdict.key, asked)
            if verdict.reason == "in_flight":
                return msgspec.structs.replace(verdict, match=match)
            if verdict.status != "pending":
                return verdict
            await asyncio.sleep(pause := pauses.next())
            waited += pause

    async def _decided(self, fetched: _Fetched, verdict: Verdict) -> Verdict:
        """Decide what becomes of a page, and note it."""
        session, space, request = self._session, fetched.space, fetched.request
        page: Page | None = None
        like: Page | None = None
        if verdict.match is None:
            if verdict.token is not None:
                page = Page(space, verdict, fetched.callback, fetched.reading)
                if verdict.status == "refetch" and session.config.unchanged == "drop":
                    await self._refetched(page)
        else:
            page = like = self._like(fetched, verdict, verdict.match)
            if self._may_drop(page) and space.met.drop(verdict.document.key):
                self._drop(page, request)
                page = None
            else:
                if verdict.token is None:
                    verdict = page.verdict = unreserved(verdict, "compared")
                page.again = self._visit(page, request)
                space.ledger.look(page.name)
        if page is not None:
            session.begin_page(page, request)
        request.meta["dedup"] = to_plain(verdict)
        if session.config.mode == "tag":
            request.meta["dedup"]["would"] = _would(verdict)
        self._count(verdict)
        report = session.report
        if verdict.status == "near_duplicate" or report.journal is not None:
            report.judged(space, verdict, fetched.response, fetched.callback, like, fetched.told)
        session.saving.soon(session.spaces.values(), session.visits, session.job)
        return verdict

    def _like(self, fetched: _Fetched, verdict: Verdict, match: Neighbour) -> Page:
        """Return a page that looks like an accepted one."""
        mine, theirs, digest = verdict.document, match.document, decode(match.document.items)
        other_title = match.identity == "other"
        titles = {theirs.page.identity >> 32, mine.page.identity >> 32} - {0}
        # where the texts are the same, word for word, the identity says nothing of the titles
        differ = len(titles) == 2 and theirs.domain == mine.domain
        parts = letters(theirs.page, mine.page, other_title=other_title or differ)
        # what a page of another crawl brought counts for nothing if the two have other numbers
        counts = theirs.paid and (NUMBERS not in parts or self._session.is_own(match))
        page = Page(
            fetched.space,
            verdict,
            fetched.callback,
            fetched.reading,
            way="compare",
            match=match,
            name=Class(fetched.callback, mine.domain, parts, shape(theirs.key, mine.key)),
            digest=digest if counts else None,
        )
        page.by_text = self._session.decides_by_text(page)
        return page

    def _may_drop(self, page: Page) -> bool:
        """Whether a page that looks like an accepted one is dropped unparsed."""
        reading = page.reading
        if page.verdict.reason == "in_flight" or page.space.met.is_new(reading.links):
            return False
        if "data_page" in self._session.config.exempt and reading.data_bytes > reading.text_bytes:
            return False
        if page.by_text:
            return True
        assert page.name is not None
        says = page.digest is not None and page.digest.says
        volatile = self._session.visits.of(page.callback).fields
        return says and page.space.ledger.may_drop(page.name, volatile)

    def _drop(self, page: Page, request: Request) -> None:
        """Note a page that is dropped unparsed, or would be."""
        assert page.name is not None
        assert page.match is not None
        if page.by_text:
            self._counts.add("items/by_text")
        else:
            self._counts.add("items/dropped")
            comes_back = request if self._session.config.mode == "drop" else None
            page.space.ledger.drop(page.name, comes_back)
        page.space.urls.learn(page.verdict.document.key, page.match.document.key, same=True)

    def _visit(self, page: Page, request: Request) -> Request | None:
        """Return a request for another visit of a page, before its callback can change this one."""
        assert page.name is not None
        if request.method != "GET" or not self._session.visits.wants(page.name):
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
            page.by_text = self._session.config.proof == "text" and verdict.reason == "unchanged"
            page.digest = decode(page.match.document.items)

    def _count(self, verdict: Verdict) -> None:
        if verdict.reason == "compared":
            self._counts.add("compared")
        elif verdict.status == "exempt":
            self._counts.add(f"exempt/{verdict.reason}")
        else:
            self._counts.add(verdict.status)
        if verdict.reason == "unchanged":
            self._counts.add("unchanged")
        if verdict.status == "near_duplicate" and verdict.match is not None:
            self._counts.add(f"near_duplicate/distance/{verdict.match.distance}")

    def _exempt(self, request: Request, response: Response, reason: str) -> None:
        """Keep a page without reading its bytes."""
        session = self._session
        if reason == "non_html" and (space := session.open_space(request)) is not None:
            space.urls.unlike(key_of(request))
        if reason == "status" and response.status in GONE:
            space = session.space_of(request)
            if space is not None:  # a copy can take the place of a page that no longer exists
                space.memory.forget(key_of(request))
                space.urls.forget(key_of(request))
        self._counts.add(f"exempt/{reason}")
        request.meta["dedup"] = {"status": "exempt", "reason": reason}


def _would(verdict: Verdict) -> str:
    """Return what the mode "drop" would do with a page."""
    if verdict.status == "near_duplicate":
        return "drop"
    return "compare" if verdict.reason == "compared" else "keep"
