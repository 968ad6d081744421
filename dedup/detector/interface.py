"""The interface of every detector: Detector blocks, AsyncDetector is the same for asyncio.

    Detector       EmbeddedDetector (detector.py), BlockingDetector (remote.py, a table service)
    AsyncDetector  AsyncEmbeddedDetector (detector.py), RemoteDetector (remote.py, a table service)

Users of a detector need not know whether its store is a folder or a service.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self, Unpack

from msgspec.structs import replace

from dedup.core.faults import Backoff
from dedup.core.fingerprint import PageReading, hash_of_links, read_page
from dedup.model.names import registrable_domain
from dedup.model.page import (
    USUAL,
    Neighbour,
    PageFingerprint,
    ReserveKeywords,
    ReserveOptions,
    Verdict,
)
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe
from dedup.store.templates import Templates

WAIT_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1


def _pauses(wait_seconds: float) -> Iterator[float]:
    """Yield how long to wait before the next question, in seconds, until wait_seconds are over."""
    backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
    end = time.monotonic() + wait_seconds
    while (left := end - time.monotonic()) > 0:
        yield min(backoff.next(), left)


class Question(NamedTuple):
    """A page for reserve_many(); the fields are the arguments of judge()."""

    page: PageFingerprint
    key: str
    options: ReserveOptions = USUAL


class _Fingerprints(ABC):
    """What both interfaces share.

    recipe  the recipe of the store; pages judged here must be of the same
    policy  the distances, scope and times in force. With a service: those that the caller asked for,
            otherwise the recipe's (a service started with other values uses those)
    templates  the templates of sites, as far as they were learned
    """

    recipe: Recipe
    policy: Policy
    templates: Templates

    def fingerprint(
        self,
        html: bytes | str,
        *,
        encoding: str | None = None,
        url: str | None = None,
        links: bool = False,
    ) -> PageFingerprint:
        """Return the fingerprint of a page under the detector's recipe. See dedup.fingerprint().

        With its url the detector learns the template of its site, and the fingerprint of a page that is that template and
        nearly nothing else is `unread`.

        Raises RecipeMismatch if the store's recipe needs a secret and open() was given none.
        """
        reading = read_page(
            html, encoding=encoding, url=url, recipe=self.recipe, links=links, blocks=bool(url)
        )
        page = self.learned(reading, url) if url else reading.fingerprint
        return replace(page, links=hash_of_links(reading.content_links)) if links else page

    def learned(self, reading: PageReading, url: str) -> PageFingerprint:
        """Return the fingerprint of a page that was read with its blocks, after these were counted for its site.

        It is `unread` if what was read is the site's template and the page has nearly nothing else. Each page is to
        be given once, in the order of the crawl, before it is judged; a second time changes nothing.
        """
        return self.templates.learned(reading.fingerprint, reading.blocks, registrable_domain(url))


class Detector(_Fingerprints):
    """Judges pages and remembers them. Made by open(); a context manager; thread-safe."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of documents."""

    @abstractmethod
    def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page, the most similar first, at most 1000.

        Of equally similar ones the nearest by distance comes first, then the smallest key. In the scope "site" only documents
        of the given domain count; without one, none do. A page of too little text has none here: reserve() finds its copies.
        Raises RecipeMismatch, StoreDamaged, and ServiceUnavailable.
        """

    def reserve(
        self, page: PageFingerprint, key: str, **options: Unpack[ReserveKeywords]
    ) -> Verdict:
        """Judge a page and, unless it is a near-duplicate, take its fingerprint.

        key      the document key (dedup.document_key of the first requested URL)
        options  the fields of ReserveOptions, which explains them

        A verdict with a token (unique, refetch, exempt) must end in insert() or
        release(); otherwise it expires. After `pending` ask again, and finally keep the page with
        exempt="in_flight", as decide() does. A reservation whose answer does not come in time is released.

        Raises RecipeMismatch, UsageError for a key that is not text, or not valid Unicode, and what
        the store raises, or ServiceUnavailable: then keep the page.
        """
        return self.judge(page, key, ReserveOptions(**options))

    def decide(
        self,
        page: PageFingerprint,
        key: str,
        *,
        wait_seconds: float = WAIT_SECONDS,
        **options: Unpack[ReserveKeywords],
    ) -> Verdict:
        """Reserve a page, and wait while a near-duplicate of it is in flight. Never returns `pending`.

        After wait_seconds the page is kept, with the reason in_flight. A page in flight in the calling thread
        cannot end meanwhile: insert() or release() it first. Raises what reserve() raises.
        """
        asked, pauses = ReserveOptions(**options), _pauses(wait_seconds)
        while (verdict := self.judge(page, key, asked)).status == "pending":
            if (pause := next(pauses, None)) is None:
                return self.judge(page, key, replace(asked, exempt="in_flight"))
            time.sleep(pause)
        return verdict

    @abstractmethod
    def judge(self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL) -> Verdict:
        """Judge a page; reserve() with its options in one value."""

    def insert(self, verdict: Verdict) -> bool:
        """Insert a processed page. Committed, or acknowledged by the service, on return.

        Returns True if the page was unique but a near-duplicate of it was inserted meanwhile (for
        example after its reservation expired): both stay. A service counts these itself and returns
        False. A page with an expired reservation, or one of a process that ended, is inserted like any
        other. Inserting twice changes nothing and returns False.

        Raises UsageError for a verdict without a token, one that was released before (a released page
        never becomes an original; nothing is lost by that), or one whose token belongs to another
        page; RecipeMismatch; and what the store raises: then the reservation is still held.
        After ServiceUnavailable the page may or may not have been inserted; inserting again changes
        nothing.
        """
        return self.insert_many((verdict,))[0]

    @abstractmethod
    def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages in their order; return for each what insert() returns, and raise what it raises.

        After an error some of them may have been inserted; inserting them again changes nothing.
        """

    @abstractmethod
    def release(self, verdict: Verdict) -> bool:
        """Release a reservation, as the page was not processed. Never changes an inserted document.

        Returns False if there is none: no token, expired, ended before, or of another process.
        """

    @abstractmethod
    def forget(self, key: str) -> bool:
        """Remove the document with this key; False if there is none. Committed on return.

        A reservation with this key stays.
        """

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Return information on the namespace, and the number of pages in flight."""

    @abstractmethod
    def close(self) -> None:
        """Close the detector. Closing twice does nothing. Raises OSError if the last flush fails."""


class AsyncDetector(_Fingerprints):
    """The same with `await`, and count() in place of len(). Made by open_async().

    An async context manager. Methods without a description of their own are those of Detector with
    the same name.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def count(self) -> int:
        """Return the number of documents."""
        return int((await self.info()).get("documents", 0))

    @abstractmethod
    async def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page."""

    async def reserve(
        self, page: PageFingerprint, key: str, **options: Unpack[ReserveKeywords]
    ) -> Verdict:
        """Judge a page. A cancelled call leaves no reservation behind."""
        return await self.judge(page, key, ReserveOptions(**options))

    async def decide(
        self,
        page: PageFingerprint,
        key: str,
        *,
        wait_seconds: float = WAIT_SECONDS,
        **options: Unpack[ReserveKeywords],
    ) -> Verdict:
        """Reserve a page, and wait while a near-duplicate of it is in flight. Never returns `pending`.

        After wait_seconds the page is kept, with the reason in_flight.
        """
        import asyncio

        asked, pauses = ReserveOptions(**options), _pauses(wait_seconds)
        while (verdict := await self.judge(page, key, asked)).status == "pending":
            if (pause := next(pauses, None)) is None:
                return await self.judge(page, key, replace(asked, exempt="in_flight"))
            await asyncio.sleep(pause)
        return verdict

    @abstractmethod
    async def judge(
        self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL
    ) -> Verdict:
        """Judge a page."""

    @abstractmethod
    async def reserve_many(self, questions: Sequence[Question]) -> list[Verdict | Exception]:
        """Judge pages in their order; return the exception in place of a verdict where one was raised."""

    async def insert(self, verdict: Verdict) -> bool:
        """Insert a page."""
        return (await self.insert_many((verdict,)))[0]

    @abstractmethod
    async def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages."""

    async def release(self, verdict: Verdict) -> bool:
        """Release a reservation."""
        return (await self.release_many((verdict,)))[0]

    @abstractmethod
    async def release_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Release reservations; an error is raised after all others are released."""

    @abstractmethod
    async def forget(self, key: str) -> bool:
        """Remove a document."""

    @abstractmethod
    async def info(self) -> dict[str, Any]:
        """Return information on the namespace."""

    @abstractmethod
    async def close(self) -> None:
        """Close the detector."""
