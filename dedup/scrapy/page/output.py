"""What a callback yields: passed on, or held until the callback ends and withheld if it is known.

    Output                guards one of the ways below: a fault of ours passes everything, held or to come
    Unjudged   accepted   of a page that is not judged
    Accepted              everything passes; the items are digested
    Compared   compared   of a page that looks like an accepted one: items and requests that are known are withheld
    Watched               the same where items pass at once
    Visited               of a control visit: what is new passes, but for what is volatile

An item is known if the page's match, or an earlier page of this crawl and callback, brought an equal one. Which
requests are new: outlinks.py.
"""

from typing import Any, Protocol

from scrapy import Request
from scrapy.http import Response

from dedup.scrapy.page.accepted import Accepted, Made, Unjudged
from dedup.scrapy.page.compared import Compared, Visited, Watched
from dedup.scrapy.page.request import mark_of
from dedup.scrapy.page.session import Session


class _Way(Protocol):
    """A way for what a callback yields. held is what take() keeps back, in its order."""

    held: list[Any]

    def take(self, made: Any) -> Made:
        """Return what passes now that a callback yielded this."""

    async def finish(self) -> Made:
        """Return what passes of the rest: the callback got to its end."""

    def end(self, *, complete: bool) -> None:
        """End the page; complete: the callback got to its end, and nothing raised."""


class Output:
    """The output of one callback. Nothing of ours raises here; what was held passes then."""

    def __init__(self, session: Session, response: Response) -> None:
        """Choose the way."""
        self._session, self._response = session, response
        self._way: _Way | None = None
        try:
            self._way = _way_of(session, response)
        except Exception as error:  # noqa: BLE001 - a fault of ours never costs an item
            session.counts.fault(error, f"what {response} brings passes, and is not compared")

    def take(self, made: Any) -> Made:
        """Return what passes now."""
        if self._way is None:
            return (made,)
        try:
            return self._way.take(made)
        except Exception as error:  # noqa: BLE001 - the same
            return self._failed(error, made)

    async def finish(self) -> Made:
        """Return what passes at the end of the callback."""
        if self._way is None:
            return ()
        try:
            return await self._way.finish()
        except Exception as error:  # noqa: BLE001 - the same
            return self._failed(error)

    def held(self) -> Made:
        """Return what was held back when the callback raised."""
        return () if self._way is None else self._give_up(self._way)

    def end(self, *, complete: bool) -> None:
        """End the page: inserted if the callback got to its end."""
        session = self._session
        try:
            if self._way is not None:
                self._way.end(complete=complete)
                return
            page = session.in_flight.page_of(self._response.request)
            if page is not None:
                session.in_flight.end(page.token, accepted=complete)
        except Exception as error:  # noqa: BLE001 - the same
            session.counts.fault(error, f"{self._response} is parsed, but not remembered")

    def _failed(self, error: Exception, *made: Any) -> Made:
        self._session.counts.fault(error, f"all that {self._response} brings passes")
        assert self._way is not None
        held = self._give_up(self._way)
        return [*held, *(each for each in made if not any(each is other for other in held))]

    def _give_up(self, way: _Way) -> list[Any]:
        """Leave the way; return what it held, which passes."""
        self._way = None
        held, way.held = way.held, []
        with self._session.counts.guard(f"{self._response} is parsed, but not remembered"):
            page = self._session.in_flight.page_of(self._response.request)
            for each in held:
                if page is not None and not isinstance(each, Request):
                    self._session.in_flight.item_yielded(page)
        return held


def _way_of(session: Session, response: Response) -> _Way:
    request = response.request
    if request is None:
        return Unjudged(session, None, ())
    noted = mark_of(request)
    if noted.control:
        return Visited(session, response, request)
    page = session.in_flight.page_of(request)
    if page is None:
        return Unjudged(session, request, noted.lead)
    way = Accepted if page.way == "accept" else Compared
    if page.way == "accept" and page.verdict.reason in {"short", "unread"}:
        return Watched(session, response, page, noted.lead)
    if way is Compared and (session.config.proof_items == "keep" or session.config.mode != "drop"):
        way = Watched
    return way(session, response, page, noted.lead)
