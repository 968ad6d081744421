"""What a callback yields: passed on, or held until the callback ends.

    PassingPage  everything passes; the items of an accepted page are read
    CheckedPage  of a near-duplicate: items and requests that were seen are withheld (checked.py)

The guard around both is in middlewares.py.
"""

from collections.abc import Iterable
from typing import Any

from scrapy import Request
from scrapy.http import Response

from dedup.model.page import PART
from dedup.scrapy.evidence.difference import HEADING
from dedup.scrapy.evidence.items import (
    ItemHashes,
    ItemReader,
    ItemsDigest,
    encode,
    numbers_of,
    placed,
)
from dedup.scrapy.evidence.seen import Rows
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.outlinks import Outlinks
from dedup.scrapy.page.request import Budgets, asks, mark_of, note_paid_by, wanted_urls
from dedup.scrapy.page.session import Session

Objects = Iterable[Any]


class PassingPage:
    """Everything passes. page: None of one that is not judged."""

    def __init__(
        self, session: Session, response: Response, page: Page | None, held: list[Any]
    ) -> None:
        assert response.request is not None
        self._held = held  # what of the output has not passed
        self.page, self._session, self._response = page, session, response
        self._request: Request = response.request
        self._callback = session.callback(self._request).name if page is None else page.callback
        self._paid_by: Budgets = mark_of(self._request).paid_by
        self._reader: ItemReader | None = None
        self._outlinks: Outlinks | None = None  # once a request is yielded
        self._wanted: frozenset[str] | None = None  # the same
        self._items = 0
        self._yields_nothing = True  # until now
        self._asked = False  # for something: the page is no content
        self._is_new = False  # whether an item is new
        self._has_own_address = False  # whether items have the page's address
        noted: Any = self._request.meta.get("dedup") or {}
        self._follows = (
            session.config.mode != "skip_links" or noted.get("status") != "near_duplicate"
        )

    def take(self, one: Any) -> Objects:
        """Return what passes now."""
        item = self._note(one)
        if isinstance(one, Request):
            note_paid_by(one, () if self._is_new else self._paid_by)
            return (one,) if self._follows else ()
        if one is not None:
            self._is_new = self._note_item(item) or self._is_new
            if self._is_new or self.page is None:
                self._session.news(self._paid_by)
            if self.page is not None:
                self._session.in_flight.item_yielded(self.page)
        return (one,)

    def _note(self, one: Any) -> ItemHashes | None:
        """Note what the callback yields; return the hashes of an item that can be read."""
        page = self.page
        if one is not None and self._yields_nothing:
            self._yields_nothing = False
            self._session.has_yielded(self._callback)
        if page is None or one is None:
            return None
        if not isinstance(one, Request):
            self._items += 1
            if self._reader is None:
                self._reader = self._session.item_reader(
                    self._request, self._response, page.reading
                )
            return self._reader.add(one)
        if self._outlinks is None or self._wanted is None:
            self._wanted = wanted_urls(self._request, self._response)
            self._outlinks = Outlinks(self._session, self._response, page, self._paid_by)
        self._asked = self._asked or asks(one, self._wanted)
        self._outlinks.note(one, has_items=self._items > 0)
        return None

    def _note_item(self, item: ItemHashes | None) -> bool:
        """Note that the page brings an item; return whether no page did before."""
        page = self.page
        if page is None or item is None or not page.space.seen.take_item(page.callback, item.exact):
            return False
        page.first.append(item.exact)
        return True

    async def finish(self) -> Objects:
        """Return what passes at the end."""
        if self._outlinks is not None:
            self._outlinks.note_last()
        self._digest()
        self._note_list()
        return ()

    def _asks_beyond(self) -> bool:
        return self._outlinks is not None and self._outlinks.asks_beyond

    def _digest(self) -> ItemsDigest | None:
        """Keep the digest of the page's items; None if they cannot be read."""
        reader, page, callbacks = self._reader, self.page, self._session.callbacks
        if page is None:
            return None
        if reader is None:
            digest: ItemsDigest | None = ItemsDigest(
                0, has_data=self._asks_beyond(), given=page.given
            )
        else:
            digest = reader.digest(page.given)
        if digest is None:
            return None
        page.brought = encode(digest)
        if reader is not None:
            callbacks.note_items(page.callback, reader.kinds)
            self._has_own_address = any(item.holds_own for item in reader.items)
            if self._has_own_address:
                heading = page.reading.fingerprint.parts[PART[HEADING]]
                callbacks.note_heading(page.callback, heading)
        return digest

    def _note_list(self) -> None:
        """Note the rows of a list, now that its callback has ended: other pages are checked while they pass."""
        page, reader = self.page, self._reader
        if self._has_own_address and page and reader and len(reader.items) > 1:
            page.space.seen.note_list(page.verdict.key, rows_of(page, reader.items))

    def end(self, *, complete: bool) -> None:
        """End the page."""
        session, page = self._session, self.page
        is_hub = not self._items and not session.in_flight.has_yielded(self._callback)
        is_unique = page is not None and page.verdict.status == "unique"
        if complete and not self._asked and is_hub and is_unique:
            session.news(self._paid_by)
        if complete and self._yields_nothing:
            session.yielded_nothing(self._callback, self._paid_by)
        if page is not None:
            session.in_flight.end(page.token, accepted=complete and not self._asked)


def rows_of(page: Page, items: Iterable[ItemHashes | None]) -> Rows:
    """Return the rows of a list."""
    read = [each for each in items if each is not None]
    rows, written = frozenset(e.by_heading for e in read), numbers_of(each.text for each in read)
    return Rows(page.reading.fingerprint.title, placed(page.reading), rows, written)
