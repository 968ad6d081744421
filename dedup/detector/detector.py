"""The detector: whether a page is a near-duplicate of an earlier one. Start reading here.

    page -> probe the store and the pages in flight -> verdict -> insert or release

    near a value -> the nearest CROWD -> confirmed by text -> enough? -> four times as many -> ... -> LOOKED
    verdicts -> due? -> late? -> documents, in one transaction -> reservations ended

Invariants:
  - A page is a near_duplicate only if the page it resembles is in the store, which it is only after its
    insert was acknowledged. In every doubtful case the page is kept.
  - A directory may have 100,000 pages near each other, and a verdict needs few of them. Candidates are
    confirmed first and cut afterwards: pages that are near only by value never hide one that is alike. The
    answer says whether some were left out.
  - A reservation ends after its document is in the store, never before. A page is late when it was unique,
    but a near-duplicate of it was inserted since: both stay, and the caller is told.
  - Detectors of one process share a store, and the pages in flight with it (dedup.store.shared).

rules.py decides when two pages are near-duplicates.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dedup.core.numbers import packed
from dedup.core.table import Nearest
from dedup.detector.interface import AsyncDetector, Detector, Question
from dedup.detector.reservations import Ending, MemoryBudget, Reservations
from dedup.detector.rules import (
    NO_KEY,
    decided,
    is_unchanged,
    near_duplicates,
    not_other,
    rank,
    unlike_any,
)
from dedup.detector.twins import STORED, TwinPages
from dedup.model.errors import UsageError
from dedup.model.forms import check_storable
from dedup.model.names import site_of
from dedup.model.page import (
    PICTURE_FEATURES,
    SKETCH_BYTES,
    USUAL,
    Document,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Verdict,
)
from dedup.model.policy import Options, Policy
from dedup.model.recipes import Recipe, same_recipe
from dedup.store import NEAR_LIMIT, Applied, Store, agreed_recipe
from dedup.store.shared import SharedStore, give_back, take
from dedup.store.templates import Templates

CROWD = 128  # candidates that are compared first: a directory may have 100,000
GROWTH = 4  # factor by which the number of candidates grows
LATE_SAMPLE = 8  # of applied documents one in so many is looked up: whether it is a late duplicate
LOOKED = 8192  # greatest number of candidates that are compared with one page
TRANSACTION = (
    64  # pages of an asynchronous insert_many() in one: each is compared with the others in it
)

R = TypeVar("R")

_DROPPED = frozenset(("near_duplicate", "pending"))
_LEARNED = ("unread", "partly")  # fields of a page that a client of a service gives as `exempt`


class Accepted(Protocol):
    """The part of a store that judging needs."""

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""

    def __contains__(self, key: object) -> bool:
        """Return whether a document with this key is held."""

    def near(
        self, value: int, k: int | None = None, limit: int | None = None, skip: int = 0
    ) -> Nearest[Document]:
        """Return the documents within distance k of a value, with their distances, as Store.near()."""

    def insert(self, document: Document) -> object:
        """Insert a document; one with the same key is replaced."""

    def latest(self, most: int) -> Iterable[Document]:
        """Return the last documents, the newest last."""


class OpenStore(SharedStore):
    """A store, its pages in flight, and what was learned of its sites."""

    def __init__(
        self,
        store: Store,
        templates: Templates | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        super().__init__(store)
        self.templates = templates or Templates(store.recipe, store.path)
        self.reservations = Reservations(store.k, memory)
        self.twins: TwinPages | None = None  # once one comes
        self.cut = 0  # answers and verdicts that left out nearby pages, since there were too many

    def end(self) -> None:
        """Write what was learned of the sites."""
        self.reservations.close()
        self.templates.save()


class EmbeddedDetector(Detector):
    """A detector over a store of this process. Made by open_embedded()."""

    def __init__(
        self,
        shared: OpenStore,
        recipe: Recipe,
        policy: Policy,
        clock: Callable[[], float],
    ) -> None:
        """Private: open_embedded() makes detectors."""
        self.recipe = recipe
        self.policy = policy
        self.templates = shared.templates
        self._shared = shared
        self._store = shared.store
        self._reservations = shared.reservations
        self._clock = clock
        self._closed = False

    @classmethod
    def over(
        cls,
        documents: Accepted,
        recipe: Recipe,
        policy: Policy,
        clock: Callable[[], float] = time.monotonic,
        templates: Templates | None = None,
    ) -> Self:
        """Return a detector over documents that are not a store, such as a part of one.

        templates is what is known of the sites' templates, by default nothing. The documents must find distances up to the
        policy's; the caller closes them. Only accept() may be called.
        """
        held = OpenStore(cast("Store", documents), templates or Templates(recipe.id))
        return cls(held, recipe, policy, clock)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __len__(self) -> int:
        """Return the number of documents in the store."""
        return len(self.store)

    @property
    def store(self) -> Store:
        """The store, which has a lock of its own. Raises UsageError if the detector is closed."""
        self._check_open()
        return self._store

    def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page. See Detector.probe()."""
        return self.neighbours(Document(NO_KEY, page, domain or ""))

    def neighbours(self, asked: Document) -> list[Neighbour]:
        """Do what probe() does, for a page with its domain and kind; its key does not count."""
        page = asked.page
        with self._shared.lock:
            self._check_open(page)
            if page.features < self.policy.min_features:
                return []
            found = self._store.near(page.value, self.policy.distance)
            return self._answered(asked, found) if found else []

    def probe_many(
        self, asked: Sequence[Document], *, limit: int | None = None
    ) -> dict[int, list[Neighbour]]:
        """Do what neighbours() does, for several pages; return neighbours by index.

        Pages without any are left out of the dictionary. Raises as probe() does, and TooMany (a
        UsageError) if more than `limit` documents would have to be compared.
        """
        words = packed([each.page.value for each in asked], "values")
        with self._shared.lock:
            self._check_open()
            for recipe in {each.page.recipe for each in asked}:
                same_recipe(self.recipe.id, recipe)
            near = self._store.near_many(words, self.policy.distance, limit)
            found: dict[int, list[Neighbour]] = {}
            for i, documents in near.items():
                if asked[i].page.features < self.policy.min_features:
                    continue
                if alike := self._answered(asked[i], documents):
                    found[i] = alike
            return found

    def judge(self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL) -> Verdict:
        """Judge a page. Never blocks. See Detector.judge().

        Also raises UsageError for a token that was used for something else, and TooManyReserved.
        """
        if options.exempt in _LEARNED:
            page = replace(page, **{options.exempt: True})
            options = replace(options, exempt=None)
        site = options.domain if options.domain and type(key) is str else site_of(key, options.url)
        asked = Document(key, page, site, kind=options.kind)
        token = options.token
        with self._shared.lock:
            if (
                self._closed
                or self._shared.left
                or page.recipe != self.recipe.id
                or len(page.sketch) != SKETCH_BYTES
            ):
                self._check_open(page)
            now = self._clock()
            if token is not None and self._reservations.knows(token):
                return self._taken(token, key, page)
            verdict = self._judged(asked, options, now)
            if verdict.status in _DROPPED:
                return verdict
            seconds = options.seconds or self.policy.reservation_seconds
            return self._reservations.reserve(
                verdict, self.policy, now=now, seconds=seconds, token=token
            )

    def accept(self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL) -> Verdict:
        """Judge a page, and insert it at once unless it is a near-duplicate: reserve() and insert() in one.

        For pages read from files, none of which is in flight. The verdict has no token. Raises what
        reserve() and insert() raise.
        """
        asked = Document(key, page, site_of(key, options.url, options.domain), kind=options.kind)
        with self._shared.lock:
            if self._closed or self._shared.left or page.recipe != self.recipe.id:
                self._check_open(page)
            check_storable(asked)
            verdict = self._judged(asked, options, self._clock())
            if verdict.status not in _DROPPED:
                self._store.insert(stored := _stored(asked, time.time()))
                if self._shared.twins is not None:
                    self._shared.twins.note((stored,))
                self._reservations.note_inserted((page.value,))
            return verdict

    def _judged(self, asked: Document, options: ReserveOptions, now: float) -> Verdict:
        """Return the verdict on a page, without a token."""
        page, key = asked.page, asked.key
        if options.exempt:
            return Verdict("exempt", options.exempt, asked)
        if key in self._store or self._reservations.holds(key, now):
            same = page.links and is_unchanged(asked, self._store.get(key))
            return Verdict("refetch", "unchanged" if same else "", asked)
        value, distance, guard = page.value, self.policy.distance, options.guard
        inserted: list[Neighbour] = []
        in_flight: list[Neighbour] = []
        found = self._store.near(value, distance, CROWD)
        if found or found.cut:
            more = partial(self._store.near, value, distance)
            inserted = self._confirmed(asked, found, CROWD, more, partial(_settled, guard=guard))
        found = self._reservations.near(value, distance, now, CROWD)
        if found or found.cut:
            more = partial(self._reservations.near, value, distance, now)
            in_flight = self._confirmed(asked, found, CROWD, more, partial(_settled, guard=guard))
        if not (inserted or in_flight) and page.features < PICTURE_FEATURES:
            inserted = near_duplicates(asked, self._twins_of(page), self.policy)
        if not inserted and not in_flight:
            return Verdict(*unlike_any(page, self.policy), asked)
        return decided(asked, inserted, in_flight, guard=guard)

    def _twins_of(self, page: PageFingerprint) -> list[tuple[Document, int]]:
        """Return stored pages that one of little text may be a copy of, whatever their values, with their distances."""
        if not (page.links or page.unread):
            return []
        if self._shared.twins is None:
            self._shared.twins = TwinPages(self._store.latest(STORED))
        return [
            (other, (page.value ^ other.page.value).bit_count())
            for other in self._shared.twins.near(page)
            if other.key in self._store
        ]

    def _answered(self, asked: Document, found: Nearest[Document]) -> list[Neighbour]:
        """Return a probe's answer from the documents it found, at most the nearest NEAR_LIMIT."""
        more = partial(self._store.near, asked.page.value, self.policy.distance)
        alike = self._confirmed(
            asked, found, NEAR_LIMIT, more, lambda alike: len(alike) > NEAR_LIMIT
        )
        if len(alike) <= NEAR_LIMIT:
            return alike
        self._shared.cut += 1
        return alike[:NEAR_LIMIT]

    def _confirmed(
        self,
        asked: Document,
        found: Nearest[Document],
        limit: int,
        more: Callable[[int, int], Nearest[Document]],
        enough: Callable[[list[Neighbour]], bool],
    ) -> list[Neighbour]:
        """Return the near-duplicates among candidates, the most similar first.

        found   the nearest `limit` candidates
        more    returns the nearest candidates up to a limit, without the first `skip`
        enough  whether some near-duplicates are enough, so that no more candidates need to be compared
        """
        alike = near_duplicates(asked, found, self.policy)
        while found.cut and not enough(alike):
            if limit >= LOOKED:
                self._shared.cut += 1
                break
            skip, limit = limit, min(limit * GROWTH, LOOKED)
            found = more(limit, skip)
            alike = sorted(alike + near_duplicates(asked, found, self.policy), key=rank)
        return alike

    # ------------------------------------------------------------------------------------- inserts

    def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages, in one transaction unless some of them are near each other.

        Those must find each other in the store.
        """
        late: list[bool] = []
        batch: list[Document] = []
        tokens: list[str] = []
        with self._shared.lock:
            if self._closed or self._shared.left:
                self._check_open()
            now = time.time()
            for verdict in verdicts:
                token, value = verdict.token or "", verdict.document.page.value
                if token in tokens or any(
                    (value ^ other.page.value).bit_count() <= self.policy.distance
                    for other in batch
                ):
                    self._insert(batch, tokens)
                    batch, tokens = [], []
                due, is_late = self._checked(verdict)
                late.append(is_late)
                if due:
                    batch.append(_stored(verdict.document, now))
                    tokens.append(token)
            if batch:
                self._insert(batch, tokens)
        return late

    def insert_held(self, pages: Sequence[tuple[str, str, Mapping[str, Any]]]) -> bool:
        """Insert reserved pages by key, token and the fields known only now, in one transaction.

        False if one of the tokens is not held here; then nothing was inserted. It is not noted which pages
        are late. Raises UsageError for a token of another key, and what insert() raises.
        """
        reservations, now = self._reservations, time.time()
        documents = []
        with self._shared.lock:
            if self._closed or self._shared.left:
                self._check_open()
            for key, token, given in pages:
                held = reservations.get(token)
                if held is None:
                    return False
                document = held.verdict.document
                if document.key != key:
                    raise UsageError(f"this token belongs to another key than {key!r}")
                document = _stored(document, now, **given)
                check_storable(document)
                documents.append(document)
            self._insert(documents, [token for _, token, _ in pages])
        return True

    def _checked(self, verdict: Verdict) -> tuple[bool, bool]:
        """Return whether there is something to insert, and whether that comes late, as insert() says.

        Raises what insert() raises before it begins.
        """
        token, key, page = verdict.token, verdict.document.key, verdict.document.page
        if token is None:
            raise UsageError(
                f"the verdict on {key!r} ({verdict.status}) has no token: it cannot be inserted"
            )
        if page.recipe != self.recipe.id:
            same_recipe(self.recipe.id, page.recipe)
        check_storable(verdict.document)
        held = self._reservations.get(token)
        if held is None:
            ending = self._reservations.ending(token)
            if ending == "released":
                raise UsageError(f"{key!r} was released: reserve it again to insert it")
            due = ending != "inserted"
            return due, due and verdict.status == "unique" and self._is_late(verdict.document)
        if held.verdict.document.key != key or held.verdict.document.page != page:
            raise UsageError(
                f"token {token!r} belongs to {held.verdict.key!r}, not to this page of {key!r}"
            )
        if verdict.status != "unique":
            return True, False
        if (
            held.verdict.status == "unique"
            and held.policy is self.policy
            # nothing was near when the page was reserved: only later inserts can be
            and not self._reservations.near_since(held.inserts, page.value, self.policy.distance)
        ):
            return True, False
        return True, self._is_late(verdict.document)

    def _is_late(self, document: Document) -> bool:
        """Whether a near-duplicate of a page is stored now that has paid and does not declare itself another page."""
        found = self._store.near(document.page.value, self.policy.distance)
        return any(
            n.document.paid for n in not_other(near_duplicates(document, found, self.policy))
        )

    def _insert(self, documents: list[Document], tokens: list[str]) -> None:
        """Store documents in one transaction, and end the reservations of these tokens."""
        if len(documents) == 1:
            self._store.insert(documents[0])
        else:
            self._store.insert_many(documents)
        if self._shared.twins is not None:
            self._shared.twins.note(documents)
        for document, token in zip(documents, tokens, strict=True):
            self._reservations.end(token, "inserted", document.page.value)

    def apply(
        self,
        changes: Sequence[tuple[str, Document | None]],
        offsets: Mapping[int, int],
        *,
        judge: bool = True,
    ) -> tuple[Applied, int]:
        """Apply changes of the log (see Store.apply); end the reservations whose inserts they are.

        An event ends those with the same key, value and sketch, from any sender. Returns the counts,
        and about how many of the documents had an inserted near-duplicate with another key and no other
        identity: pages that raced, such as at other services, or were kept for other reasons. One in LATE_SAMPLE
        is looked up, and counts for all of them. With judge=False this is not counted, and 0.

        Raises RecipeMismatch, what the store raises, and UsageError for a key that is not Unicode.
        """
        with self._shared.lock:
            if self._closed or self._shared.left:
                self._check_open()
            counts = self._store.apply(changes, offsets)
            if len(self._reservations):
                for key, document in changes:
                    if document is not None:
                        self._reservations.end_same(key, document.page, "inserted")
            stored = [document for document in dict(changes).values() if document is not None]
            if self._shared.twins is not None:
                self._shared.twins.note(stored)
            values = [document.page.value for document in stored]
            self._reservations.note_inserted(values)
            if not judge or not stored:
                return counts, 0
            return counts, LATE_SAMPLE * sum(
                self._is_late(document)
                for document in stored
                if document.page.value % LATE_SAMPLE == 0
            )

    def release(self, verdict: Verdict) -> bool:
        """Release a reservation. See Detector.release()."""
        if verdict.token is None:
            return False
        with self._shared.lock:
            self._check_open()
            now = self._clock()
            ended = self._reservations.end(verdict.token, "released")
            return ended is not None and ended.expires > now

    def withdraw(self, token: str) -> None:
        """Release a token whose reservation has not arrived: one that arrives later is refused."""
        with self._shared.lock:
            self._check_open()
            self._reservations.end(token, "released")

    def held(self, token: str) -> Verdict | None:
        """Return the verdict of a reservation, or None if it is not held here.

        An expired reservation is held until it is removed.
        """
        with self._shared.lock:
            held = self._reservations.get(token)
        return None if held is None else held.verdict

    def ending(self, token: str) -> Ending | None:
        """Return how a reservation ended, "inserted" or "released"; None if not, or long ago."""
        with self._shared.lock:
            return self._reservations.ending(token)

    def pin(self, token: str) -> bool:
        """Keep a reservation until it is ended; False if it is not held here.

        For a page whose insert reaches the store by other means, such as the log.
        """
        with self._shared.lock:
            self._check_open()
            return self._reservations.pin(token)

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None. Raises StoreDamaged."""
        with self._shared.lock:
            self._check_open()
            return self._store.get(key)

    def forget(self, key: str) -> bool:
        """Remove the document with this key; False if there is none. Committed on return."""
        with self._shared.lock:
            self._check_open()
            return self._store.forget(key)

    def info(self) -> dict[str, Any]:
        """Return information on the store, the policy, and the pages in flight."""
        with self._shared.lock:
            self._check_open()
            info = self._store.info()
            info |= {
                "in_flight": len(self._reservations),
                "in_flight_bytes": self._reservations.bytes,
                "cut": self._shared.cut,
            }
            return info | msgspec.structs.asdict(self.policy)

    def close(self) -> None:
        """Close the detector, and the store with the last detector that shares it.

        Closing twice does nothing. Raises OSError if the last flush fails.
        """
        with self._shared.lock:
            if self._closed:
                return
            self._closed = True
        give_back(self._shared)

    def _taken(self, token: str, key: str, page: PageFingerprint) -> Verdict:
        """Return the verdict that a token is held with. Raises UsageError if it is another page's."""
        verdict = self.held(token)
        if verdict is not None and (verdict.document.key, verdict.document.page) == (key, page):
            return verdict
        raise UsageError(f"the token {token!r} was used before: make a new one for each page")

    def _check_open(self, page: PageFingerprint | None = None) -> None:
        """Raise if the detector is closed, or if the page is of another recipe."""
        if page is not None:
            if page.recipe != self.recipe.id:
                same_recipe(self.recipe.id, page.recipe)
            if len(page.sketch) != SKETCH_BYTES:  # it would be compared with those of other pages
                raise UsageError(f"a sketch has {SKETCH_BYTES} bytes, not {len(page.sketch)}")
        if self._closed:
            raise UsageError("the detector is closed")
        if self._shared.left:
            raise UsageError(
                f"the store {self._store.path} was opened before this process was forked, and stays "
                "with the process that opened it: open it in one process only, after the fork"
            )


def _stored(document: Document, now: float, **given: Any) -> Document:
    """Return a document as it is stored: without what only judging it needed."""
    page = document.page
    if page.unread or page.partly or page.least:
        page = replace(page, unread=False, partly=False, least=0.0)
    return replace(document, page=page, inserted_seconds=now, **given)


def _settled(alike: list[Neighbour], *, guard: bool) -> bool:
    """Whether a verdict is known: a near-duplicate that counts has paid, or CROWD pages are near-duplicates."""
    return len(alike) >= CROWD or any(
        n.document.paid for n in (not_other(alike) if guard else alike)
    )


def open_embedded(
    target: str | os.PathLike[str], options: Options, memory: MemoryBudget | None = None
) -> EmbeddedDetector:
    """Open a detector on the store at <target>/<namespace>. Raises as open() does.

    memory  of the pages in flight, where several stores share it; who opens the store first decides
    """
    name = os.fsdecode(target)
    if not name:
        raise UsageError("target '' names no folder; the current one is '.'")
    if "://" in name:
        raise UsageError(f"target {name!r} is neither a folder nor a service URL (redis://)")
    shared = take(
        partial(OpenStore, memory=memory),
        Path(name),
        options.namespace,
        options.distance,
        options.recipe_id,
        options.secret,
    )
    try:
        recipe = agreed_recipe(
            shared.store.path, shared.store.recipe, options.recipe_id, options.secret
        )
        if isinstance(options.recipe, Recipe):
            recipe = options.recipe
        policy = options.policy(recipe)
        with shared.lock:
            shared.store.widen(policy.distance)
            shared.reservations.widen(policy.distance)
        return EmbeddedDetector(shared, recipe, policy, options.clock)
    except BaseException:
        give_back(shared)
        raise


# ------------------------------------------------------------------------------------ for asyncio


def _at_once(name: str) -> Any:
    """Return a coroutine method that calls the detector's method of that name, without yielding to the loop."""

    async def call(self: "AsyncEmbeddedDetector", *values: Any, **options: Any) -> Any:
        return getattr(self.embedded, name)(*values, **options)

    call.__name__, call.__doc__ = name, getattr(EmbeddedDetector, name).__doc__
    return call


class AsyncEmbeddedDetector(AsyncDetector):
    """An embedded detector for an asyncio loop, closed with this one.

    A call for one page takes microseconds, and is made without yielding to the loop. A batch may take longer,
    and runs in a thread, so that the loop is not blocked.
    """

    probe = _at_once("probe")
    judge = _at_once("judge")
    insert = _at_once("insert")
    release = _at_once("release")
    forget = _at_once("forget")
    info = _at_once("info")

    def __init__(self, detector: EmbeddedDetector) -> None:
        self.recipe = detector.recipe
        self.policy = detector.policy
        self.templates = detector.templates
        self.embedded = detector
        self._thread: ThreadPoolExecutor | None = None

    async def reserve_many(self, questions: Sequence[Question]) -> list[Verdict | Exception]:
        """Judge pages in their order; return the exception in place of a verdict where one was raised."""

        def judged(question: Question) -> Verdict | Exception:
            try:
                return self.embedded.judge(*question)
            except Exception as error:  # noqa: BLE001 - the answer to that question
                return error

        return await self._in_thread(lambda: [*map(judged, questions)])

    async def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages, TRANSACTION of them at a time."""
        insert = self.embedded.insert_many
        parts = [verdicts[i : i + TRANSACTION] for i in range(0, len(verdicts), TRANSACTION)]
        return await self._in_thread(lambda: [late for part in parts for late in insert(part)])

    async def release_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Release reservations."""
        return await self._in_thread(lambda: [*map(self.embedded.release, verdicts)])

    async def close(self) -> None:
        """Close the detector after the calls that are under way."""
        if self._thread is not None:
            self._thread.shutdown()
        self.embedded.close()

    async def _in_thread(self, work: Callable[[], R]) -> R:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "dedup-detector")
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
