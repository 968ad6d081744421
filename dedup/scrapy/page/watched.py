"""The guard around what a callback yields: a fault of ours passes everything, held or to come.

    Output(session, response) -> take() each object -> finish(), or held() if the callback raised -> end()

Invariant: what was held passes, whatever fails: it is in a list of this module, and no class of ours is needed to pass it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scrapy import Request
from scrapy.http import Response

from dedup.scrapy.guard import FAULTS, count_fault, guarded
from dedup.scrapy.page.checked import CheckedPage
from dedup.scrapy.page.output import PassingPage
from dedup.scrapy.page.session import Session


class Output:
    """The output of one callback. Only middlewares.py uses it, by the functions below."""

    def __init__(self, session: Session, response: Response, held: list[Any]) -> None:
        """Choose what becomes of it; held gets what of it has not passed."""
        self.page = _page_of(session, response, held)

    def take(self, one: Any) -> Iterable[Any]:
        """Return what passes now."""
        return (one,) if self.page is None else self.page.take(one)

    async def finish(self) -> Iterable[Any]:
        """Return what passes at the end of the callback."""
        return () if self.page is None else await self.page.finish()

    def end(self, *, complete: bool) -> None:
        """End the page: inserted if the callback got to its end."""
        if self.page is not None:
            self.page.end(complete=complete)


@dataclass(slots=True)
class Watched:
    """An output, what of it has not passed, and what watches it."""

    session: Session
    response: Response
    held: list[Any]
    output: Output | None


def watch(session: Session, response: Response) -> Watched:
    """Return the output of a callback, watched."""
    found = Watched(session, response, [], None)
    with guarded(session.counts, f"the output of {response} passes unchecked"):
        found.output = Output(session, response, found.held)
    return found


def take(watched: Watched, one: Any) -> Iterable[Any]:
    """Return what passes now."""
    if watched.output is None:
        return (one,)
    before = len(watched.held)
    try:
        return watched.output.take(one)
    except FAULTS as error:
        is_held = len(watched.held) > before
        return [*_failed(watched, error), *([] if is_held else [one])]


async def finish(watched: Watched) -> Iterable[Any]:
    """Return what passes at the end of the callback."""
    try:
        return () if watched.output is None else await watched.output.finish()
    except FAULTS as error:
        return _failed(watched, error)


def held(watched: Watched) -> list[Any]:
    """Return what was held back when the callback raised, or we failed; it passes."""
    found, watched.output = [*watched.held], None
    watched.held.clear()
    if found:
        with guarded(watched.session.counts, f"{watched.response} is parsed, but not remembered"):
            page = watched.session.in_flight.page_of(watched.response.request)
            for each in found:
                if page is not None and not isinstance(each, Request):
                    watched.session.in_flight.item_yielded(page)
    return found


def end(watched: Watched, *, complete: bool) -> None:
    """End the page: inserted if the callback got to its end."""
    session, output, ended = watched.session, watched.output, False
    with guarded(session.counts, f"{watched.response} is parsed, but not remembered"):
        if output is not None:
            output.end(complete=complete)
            ended = True
    if not ended:
        with guarded(session.counts, f"{watched.response} stays in flight"):
            if page := session.in_flight.page_of(watched.response.request):
                session.in_flight.end(page.token, accepted=complete)


def _failed(watched: Watched, error: BaseException) -> list[Any]:
    count_fault(watched.session.counts, error, f"all output of {watched.response} passes")
    return held(watched)


def _page_of(session: Session, response: Response, held: list[Any]) -> PassingPage | None:
    if response.request is None:
        return None
    page, config = session.in_flight.page_of(response.request), session.config
    is_read = page is None or page.verdict.reason not in {"short", "unread"}
    if page is None or (page.handling == "accept" and is_read):
        return PassingPage(session, response, page, held)
    withholds = page.handling != "accept" and config.proof_items != "keep" and config.mode == "drop"
    return CheckedPage(session, response, page, held, withholds=withholds)
