"""The detector: whether a page is a near-duplicate of an earlier one. Start reading here.

    page -> probe the store and the pages in flight -> verdict -> insert or release

The rule kept here: a page is a near_duplicate only if the page it resembles is in the store, which it is
only after its insert was acknowledged. In every doubtful case the page is kept.

rules.py decides when two pages are near-duplicates; open_stores.py inserts pages.
Detectors of one process that open the same store share it, and the pages in flight with it.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from dedup.core.numbers import Numbers, many
from dedup.detector.interface import Detector
from dedup.detector.looking import alike_now, answered
from dedup.detector.open_stores import (
    Accepted,
    OpenStore,
    Seen,
    apply_changes,
    count_late,
    give_back,
    insert_verdicts,
)
from dedup.detector.reservations import Ending, MemoryBudget
from dedup.detector.rules import NO_KEY, decided, is_unchanged
from dedup.model.errors import UsageError
from dedup.model.names import site_of
from dedup.model.page import (
    SKETCH_BYTES,
    USUAL,
    Document,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Verdict,
)
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe, same_recipe
from dedup.store import Applied, Removed

__all__ = ["EmbeddedDetector"]

_DROPPED = frozenset(("near_duplicate", "pending"))
_NEVER_STORED = frozenset(("short", "unread"))


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
    ) -> Self:
        """Return a detector over documents that are not a store, such as a part of one.

        They must find distances up to the policy's; the caller closes them. Only these methods may be
        called: probe, reserve, insert, insert_many and release.
        """
        return cls(OpenStore.over(documents), recipe, policy, clock)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __len__(self) -> int:
        """Return the number of documents in the store."""
        self._check_open()
        return len(self._store)

    def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page. See Detector.probe()."""
        with self._shared.lock:
            self._check_open(page)
            found = self._store.near(page.value, self.policy.distance)
            if not found:
                return []
            return answered(self._shared, Document(NO_KEY, page, domain or ""), found, self.policy)

    def probe_many(
        self,
        values: Numbers,
        sketches: Sequence[bytes],
        recipe: str,
        *,
        domain: str | None = None,
        limit: int | None = None,
    ) -> dict[int, list[Neighbour]]:
        """Probe pages given by value and sketch, as probe() does; return neighbours by index.

        Pages without any are left out of the dictionary. Raises as probe() does, and TooMany (a
        UsageError) if more than `limit` documents would have to be compared.
        """
        same_recipe(self.recipe.id, recipe)
        array = many(values, "values")
        with self._shared.lock:
            self._check_open()
            near = self._store.near_many(array, self.policy.distance, limit)
            found: dict[int, list[Neighbour]] = {}
            for i, documents in near.items():
                page = PageFingerprint(int(array[i]), sketches[i], 0, 2**32 - 1, recipe)
                asked = Document(NO_KEY, page, domain or "")
                alike = answered(self._shared, asked, documents, self.policy)
                if alike:
                    found[i] = alike
            return found

    def judge(self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL) -> Verdict:
        """Judge a page. Never blocks. See Detector.judge().

        Also raises UsageError for a token that was used for something else, and TooManyReserved.
        """
        asked = Document(key, page, site_of(key, options.url, options.domain), kind=options.kind)
        token = options.token
        with self._shared.lock:
            self._check_open(page)
            now = self._clock()
            if token is not None and self._reservations.knows(token):
                return self._taken(token, key, page)
            verdict = self._judged(asked, options, now)
            if verdict.status in _DROPPED or verdict.reason in _NEVER_STORED:
                return verdict
            return self._reserved(verdict, options, now)

    def _judged(self, asked: Document, options: ReserveOptions, now: float) -> Verdict:
        """Return the verdict on a page, without a token."""
        page, key, home = asked.page, asked.key, options.home
        if page.unread:
            return Verdict("exempt", "unread", asked)
        if options.exempt:
            return Verdict("exempt", options.exempt, asked)
        if page.features < self.policy.min_features:
            return Verdict("exempt", "short", asked)
        if home and (key in self._store or self._reservations.holds(key, now)):
            same = page.links and is_unchanged(asked, self._store.get(key))
            return Verdict("refetch", "unchanged" if same else "", asked)
        guard = options.guard
        inserted, in_flight = alike_now(
            self._shared, asked, self.policy, now, home=home, guard=guard
        )
        if not inserted and not in_flight:
            return Verdict("unique", "", asked)
        return decided(asked, inserted, in_flight, guard=guard, tries=options.tries)

    def _reserved(self, verdict: Verdict, options: ReserveOptions, now: float) -> Verdict:
        """Reserve the fingerprint of a page that is kept; return its verdict with the token."""
        token = self._reservations.reserve(
            verdict.document,
            now=now,
            seconds=options.seconds or self.policy.reservation_seconds,
            judged=Seen(verdict.status, verdict.reason, self.policy, self._shared.inserts),
            token=options.token,
            home=options.home,
        )
        return replace(verdict, token=token)

    def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Insert pages, in one transaction unless some of them are near each other."""
        with self._shared.lock:
            self._check_open()
            return insert_verdicts(self._shared, verdicts, self.recipe, self.policy)

    def apply(
        self,
        changes: Sequence[tuple[str, Document | None]],
        offsets: Mapping[int, int],
        *,
        judge: bool = True,
    ) -> tuple[Applied, int]:
        """Apply changes of the log (see Store.apply); end the reservations whose inserts they are.

        An event ends those with the same key, value and sketch, from any sender. Returns the counts,
        and how many of the documents had an inserted near-duplicate with another key and no other
        identity: pages that raced, such as at other services, or were kept for other reasons. With
        judge=False this is not counted, and 0.

        Raises RecipeMismatch, what the store raises, and UsageError for a key that is not Unicode.
        """
        with self._shared.lock:
            self._check_open()
            counts, documents = apply_changes(self._shared, changes, offsets)
            if not judge:
                return counts, 0
            return counts, count_late(self._shared, documents, self.policy)

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each applied partition of the log; {} if none was applied."""
        with self._shared.lock:
            self._check_open()
            return self._store.offsets()

    def give_up(
        self,
        held: Collection[int],
        partition_of: Callable[[str], int],
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Give up all partitions of the log except those held. See dedup.store.give_up()."""
        self._check_open()
        return self._store.give_up(held, partition_of, progress)

    def give_up_more(self) -> int | None:
        """Remove some documents of given-up partitions; None: all are removed. See dedup.store."""
        self._check_open()
        return self._store.give_up_more()

    def sync(self) -> None:
        """Flush to disk what was committed. Raises OSError."""
        self._check_open()
        self._store.sync()

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
        if held is None:
            return None
        seen = held.judged
        assert isinstance(seen, Seen)
        return Verdict(seen.status, seen.reason, held.document, token)

    def ending(self, token: str) -> Ending | None:
        """Return how a reservation ended, "inserted" or "released"; None if not, or long ago."""
        with self._shared.lock:
            return self._reservations.ending(token)

    def share_memory(self, budget: MemoryBudget) -> None:
        """Count the memory of the pages in flight against a budget that others share."""
        with self._shared.lock:
            self._reservations.share(budget)

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

    def prune(self, seconds: float) -> int:
        """Remove the documents that were inserted before a Unix time; return how many."""
        self._check_open()
        return self._store.forget_before(seconds)

    def prune_more(self, seconds: float, first: int, latest: float) -> Removed | None:
        """Do so for some documents with id >= first, and for those later than `latest`. See dedup.store."""
        self._check_open()
        return self._store.forget_more_before(seconds, first, latest)

    def documents_from(self, first: int, most: int) -> list[tuple[int, Document]]:
        """Return the next `most` (id, document) with id >= first, by id. Raises StoreDamaged."""
        self._check_open()
        return self._store.documents_from(first, most)

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
