"""The detector: what a page is to the pages before it. Start reading here.

    page -> probe the store and the pages in flight -> verdict -> insert or release

The rule kept here: a page is called near_duplicate only when the page it resembles is in the store,
which it is only after its own insert was acknowledged. Everything doubtful keeps the page.

Two fingerprints are near-duplicates when the distance of their values is at most `distance`, that
and the distance of their checks together at most `total_distance`, and neither has fewer than
`min_features` features; in the scope "site" their documents also share a registrable domain.

Detectors of one process that open the same store share it, and the pages in flight with it.
"""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, cast

import msgspec
import numpy as np

from dedup.errors import UsageError
from dedup.fingerprint import fingerprint
from dedup.names import check_namespace, registrable_domain
from dedup.numbers import Numbers, many
from dedup.open_stores import OpenStore, give_back, take
from dedup.policy import Policy, Scope, check_options, policy_of
from dedup.recipes import Recipe, same_recipe
from dedup.reservations import Ending
from dedup.store import Applied, Store, agreed_recipe
from dedup.values import Document, Neighbour, PageFingerprint, Status, Verdict

__all__ = ["Accepted", "Detector", "open"]


class Accepted(Protocol):
    """Accepted documents, as far as judging needs them; a store is one."""

    @property
    def k(self) -> int:
        """The greatest distance near() finds, in bits."""

    def __contains__(self, key: object) -> bool:
        """Tell whether a document with this key is held."""

    def near(self, value: int, k: int | None = None) -> list[tuple[Document, int]]:
        """Return the documents within distance k of a value, with their distances."""

    def insert(self, document: Document) -> object:
        """Take a document; one with the same key is replaced."""

    def insert_many(self, documents: Sequence[Document]) -> object:
        """Take documents in their order."""


class _Seen(NamedTuple):
    """What a page was when it was reserved, by which policy, and after how many inserts."""

    status: Status
    reason: str
    policy: Policy
    inserts: int


class Detector:
    """Says what a page is to those before it. Made by open(); a context manager; thread-safe.

    recipe  the recipe of the store; pages judged here must be of the same
    policy  the distances, scope and times in force
    """

    def __init__(
        self,
        shared: OpenStore,
        recipe: Recipe,
        policy: Policy,
        clock: Callable[[], float],
    ) -> None:
        """Private: open() makes detectors."""
        self.recipe = recipe
        self.policy = policy
        self._shared = shared
        self._store = shared.store
        self._reservations = shared.reservations
        self._lock = shared.lock
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
        """Return a detector over documents that are no store of their own, a part of one, say.

        They must find distances up to the policy's, and are closed by who made them. Of the methods
        those that judge are for it: probe, reserve, insert, insert_many and release.
        """
        return cls(OpenStore("", cast("Store", documents)), recipe, policy, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of documents in the store."""
        return len(self._store)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def fingerprint(
        self, html: bytes | str, *, encoding: str | None = None, url: str | None = None
    ) -> PageFingerprint:
        """Return the fingerprint of a page under the detector's recipe. See fingerprint().

        Raises RecipeMismatch if the store's recipe needs a secret and open() was given none.
        """
        return fingerprint(html, encoding=encoding, url=url, recipe=self.recipe)

    def probe(self, page: PageFingerprint, *, domain: str | None = None) -> list[Neighbour]:
        """Return the stored near-duplicates of a page, nearest first, at most 1000.

        Nearest is by distance, then check_distance, then key. In the scope "site" only documents
        of the given domain count; without one, none do.
        Raises RecipeMismatch and StoreDamaged.
        """
        if page.recipe != self.recipe.id:
            same_recipe(self.recipe.id, page.recipe)
        with self._lock:
            if self._closed:
                self._check_open()
            found = self._store.near(page.value, self.policy.distance)
        return self._near_duplicates(page, domain or "", None, found) if found else []

    def probe_many(
        self,
        values: Numbers,
        checks: Sequence[int],
        recipe: str,
        *,
        domain: str | None = None,
        limit: int | None = None,
    ) -> dict[int, list[Neighbour]]:
        """Probe pages given by value and check, as probe() does; return neighbours by index.

        Pages without any are left out of the dictionary. Raises as probe() does, and TooMany (a
        UsageError) if more than `limit` documents were to be looked at.
        """
        same_recipe(self.recipe.id, recipe)
        array = many(values, "values")
        with self._lock:
            self._check_open()
            near = self._store.near_many(array, self.policy.distance, limit)
        found: dict[int, list[Neighbour]] = {}
        for i, documents in near.items():
            page = PageFingerprint(int(array[i]), checks[i], 0, 2**32 - 1, 0, recipe)
            if neighbours := self._near_duplicates(page, domain or "", None, documents):
                found[i] = neighbours
        return found

    def reserve(
        self,
        page: PageFingerprint,
        key: str,
        *,
        url: str | None = None,
        domain: str | None = None,
        exempt: str | None = None,
        guard: bool = True,
        token: str | None = None,
        home: bool = True,
    ) -> Verdict:
        """Judge a page and, unless it is a near-duplicate, take its fingerprint. Never blocks.

        key     the document key (names.document_key of the first requested URL)
        url     the URL that gives the registrable domain; by default the key is taken for one
        domain  the registrable domain itself, if it is known
        exempt  a reason that keeps the page without being judged; it is reserved all the same
        guard   False turns the listing guard off
        token   the reservation's token, if the caller made one that nobody else has; asking again
                under a token that is held answers what it was taken for, and takes nothing
        home    False in a shard (dedup.shards) that is not the home of the key: the page is no
                refetch here, and between two in flight the home of the smaller key decides

        A verdict with a token (unique, refetch, exempt but not short) must end in insert() or
        release(); otherwise it expires. After `pending` ask again, and in the end keep the page
        with exempt="in_flight".

        Raises RecipeMismatch, UsageError for a key that is not valid Unicode or a token that was used
        for something else, and what the store raises.
        """
        same_recipe(self.recipe.id, page.recipe)
        if domain is None:
            domain = registrable_domain(url or key)
        with self._lock:
            self._check_open()
            now = self._clock()
            if token is not None and (held := self._taken(token, key, page)) is not None:
                return held
            if exempt:
                return self._accept("exempt", exempt, key, page, domain, now, token, home)
            if page.features < self.policy.min_features:
                return Verdict("exempt", "short", key, None, None, None, page, None, domain)
            if home and (key in self._store or self._reservations.holds(key, now)):
                return self._accept("refetch", "", key, page, domain, now, token, home)
            inserted = self._inserted(page, domain, key)
            in_flight = self._in_flight(page, domain, key, now, home)
            if not inserted and not in_flight:
                return self._accept("unique", "", key, page, domain, now, token, home)
            if guard:
                inserted = self._guarded(page, inserted)
                in_flight = self._guarded(page, in_flight)
            if not inserted and not in_flight:
                return self._accept("exempt", "new_links", key, page, domain, now, token, home)
        status: Status = "near_duplicate" if inserted else "pending"
        of = (inserted or in_flight)[0]
        return Verdict(status, "", key, of.key, of.distance, of.check_distance, page, None, domain)

    def insert(self, verdict: Verdict) -> bool:
        """Make a page last: it was processed. Committed on return (see the store on power cuts).

        Returns True if the page was unique but a near-duplicate of it was inserted meanwhile (its
        reservation had expired, say): both stay. An expired reservation, or one of a process that
        has ended, is inserted like any other. Inserting twice changes nothing and returns False.

        Raises UsageError for a verdict without a token, one that was released before (a page given
        back never becomes an original; nothing is lost by that), or one whose token belongs to
        another page; RecipeMismatch; and what the store raises: then the reservation still stands.
        """
        return self.insert_many((verdict,))[0]

    def insert_many(self, verdicts: Sequence[Verdict]) -> list[bool]:
        """Make pages last in their order; return for each what insert() does, and raise as it does.

        They are one transaction, unless some of them are near each other. After an error the first
        of them may have been inserted; inserting them again changes nothing.
        """
        late: list[bool] = []
        batch: list[Verdict] = []
        with self._lock:
            self._check_open()
            for verdict in verdicts:
                if batch and self._are_near(verdict, batch):
                    self._insert_batch(batch)
                    batch = []
                due = self._is_due(verdict)
                late.append(due and verdict.status == "unique" and self._late(verdict))
                if due:
                    batch.append(verdict)
            self._insert_batch(batch)
        return late

    def _is_due(self, verdict: Verdict) -> bool:
        """Whether insert() has something to do. Raises what insert() raises before it begins."""
        token, page = verdict.token, verdict.page
        if token is None:
            raise UsageError(
                f"the verdict on {verdict.key!r} ({verdict.status}) has no token: it cannot be "
                "inserted"
            )
        same_recipe(self.recipe.id, page.recipe)
        held = self._reservations.get(token)
        if held is not None and (held.key, held.page) != (verdict.key, page):
            raise UsageError(
                f"token {token!r} belongs to {held.key!r}, not to this page of {verdict.key!r}"
            )
        ending = self._reservations.ending(token)
        if ending == "released":
            raise UsageError(f"{verdict.key!r} was released: reserve it again to insert it")
        return ending != "inserted"

    def _are_near(self, verdict: Verdict, batch: list[Verdict]) -> bool:
        """Whether a page must see those of a batch in the store before it can be judged."""
        value, k = verdict.page.value, self.policy.distance
        return any(
            (value ^ other.page.value).bit_count() <= k or verdict.token == other.token
            for other in batch
        )

    def _insert_batch(self, batch: list[Verdict]) -> None:
        if not batch:
            return
        now = time.time()
        documents = [Document(v.key, v.page, v.domain, now) for v in batch]
        if len(documents) == 1:
            self._store.insert(documents[0])
        else:
            self._store.insert_many(documents)
        self._shared.note_inserted([v.page.value for v in batch])
        for verdict in batch:
            assert verdict.token is not None
            self._reservations.end(verdict.token, "inserted")

    def apply(
        self,
        changes: Sequence[tuple[str, Document | None]],
        offsets: Mapping[int, int],
        *,
        judge: bool = True,
    ) -> tuple[Applied, int]:
        """Apply changes of the log (see Store.apply); end the reservations whose inserts they are.

        An event ends those with the same key, value and check, whoever sent it. Returns the counts,
        and how many of the documents had an inserted near-duplicate of another key and nothing new
        among their links: pages that raced, at other services say, or were kept by other reasons.
        With judge=False that is not looked into, and 0.

        Raises RecipeMismatch, what the store raises, and UsageError for a key that is not Unicode.
        """
        with self._lock:
            self._check_open()
            counts = self._store.apply(changes, offsets)
            if len(self._reservations):
                for key, document in changes:
                    if document is not None:
                        self._reservations.end_same(key, document.page, "inserted")
            last = [document for document in dict(changes).values() if document is not None]
            self._shared.note_inserted([document.page.value for document in last])
            late = 0
            if judge and last:
                values = np.array([document.page.value for document in last], np.uint64)
                for i, found in self._store.near_many(values, self.policy.distance).items():
                    page, domain, key = last[i].page, last[i].domain, last[i].key
                    near = self._near_duplicates(page, domain, key, found)
                    late += bool(self._guarded(page, near))
            return counts, late

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each partition of the log that was applied; {}: none was."""
        with self._lock:
            self._check_open()
            return self._store.offsets()

    def give_up(
        self,
        held: Collection[int],
        partition_of: Callable[[str], int],
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Give up all partitions of the log but those held. See Store.give_up()."""
        return self._store.give_up(held, partition_of, progress)

    def give_up_more(self) -> int | None:
        """Remove some documents of what was given up; None: all are gone. See Store.give_up_more()."""
        return self._store.give_up_more()

    def sync(self) -> None:
        """Flush to disk what was committed. Raises OSError."""
        self._store.sync()

    def snapshot(self, least: int) -> None:
        """Write a snapshot of the table if so many documents changed since the last."""
        self._store.snapshot(least)

    def release(self, verdict: Verdict) -> bool:
        """Give a reservation back: the page was not processed. Never touches an inserted document.

        Returns False if there is none: no token, expired, ended before, or of another process.
        """
        if verdict.token is None:
            return False
        with self._lock:
            self._check_open()
            now = self._clock()
            ended = self._reservations.end(verdict.token, "released")
            return ended is not None and ended.expires > now

    def withdraw(self, token: str) -> None:
        """Release a token whose reservation has not come: one that comes later is refused."""
        with self._lock:
            self._check_open()
            self._reservations.end(token, "released")

    def held(self, token: str) -> Verdict | None:
        """Return the verdict that a reservation was taken with, or None if it is not held here.

        An expired reservation is there until it is taken out.
        """
        with self._lock:
            held = self._reservations.get(token)
        if held is None:
            return None
        seen = held.judged
        assert isinstance(seen, _Seen)
        return Verdict(
            seen.status, seen.reason, held.key, None, None, None, held.page, token, held.domain
        )

    def ending(self, token: str) -> Ending | None:
        """Return how a reservation ended, "inserted" or "released"; None if not, or long ago."""
        with self._lock:
            return self._reservations.ending(token)

    def pin(self, token: str) -> bool:
        """Keep a reservation until it is ended; False if it is not held here.

        For a page whose insert is on its way to the store by other means.
        """
        with self._lock:
            self._check_open()
            return self._reservations.pin(token)

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None. Raises StoreDamaged."""
        with self._lock:
            self._check_open()
            return self._store.get(key)

    def forget(self, key: str) -> bool:
        """Remove the document with this key; False if there is none. Committed on return.

        A reservation of the key stays.
        """
        with self._lock:
            self._check_open()
            return self._store.forget(key)

    def info(self) -> dict[str, Any]:
        """Return what the detector's store is and holds, its policy, and the pages in flight."""
        with self._lock:
            self._check_open()
            info = self._store.info()
            info |= {"in_flight": len(self._reservations)}
            return info | msgspec.structs.asdict(self.policy)

    def close(self) -> None:
        """Close the detector, and the store with the last detector that shares it.

        Closing twice does nothing. Raises OSError if the last flush fails.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        give_back(self._shared)

    def _taken(self, token: str, key: str, page: PageFingerprint) -> Verdict | None:
        """Return the verdict that a token is held with, or None if it is new."""
        verdict = self.held(token)
        if verdict is not None and (verdict.key, verdict.page) == (key, page):
            return verdict
        if verdict is not None or self._reservations.ending(token) is not None:
            raise UsageError(f"the token {token!r} was used before: make a new one for each page")
        return None

    def _accept(
        self,
        status: Status,
        reason: str,
        key: str,
        page: PageFingerprint,
        domain: str,
        now: float,
        token: str | None,
        home: bool,
    ) -> Verdict:
        token = self._reservations.reserve(
            key,
            page,
            domain,
            now=now,
            seconds=self.policy.reservation_seconds,
            judged=_Seen(status, reason, self.policy, self._shared.inserts),
            token=token,
            home=home,
        )
        return Verdict(status, reason, key, None, None, None, page, token, domain)

    def _inserted(self, page: PageFingerprint, domain: str, key: str | None) -> list[Neighbour]:
        found = self._store.near(page.value, self.policy.distance)
        return self._near_duplicates(page, domain, key, found) if found else []

    def _in_flight(
        self, page: PageFingerprint, domain: str, key: str, now: float, home: bool
    ) -> list[Neighbour]:
        found = self._reservations.near(page.value, self.policy.distance, now)
        if not found:
            return []
        # the home of the smaller key decides; a page that was accepted counts at its own
        counting = [
            (other, distance)
            for other, distance in found
            if other.accepted or (home if key < other.key else other.home)
        ]
        return self._near_duplicates(page, domain, key, counting)

    def _near_duplicates(
        self,
        page: PageFingerprint,
        domain: str,
        key: str | None,
        found: list[tuple[Any, int]],
    ) -> list[Neighbour]:
        """Of documents or reservations within k, those that count, nearest first."""
        policy = self.policy
        if page.features < policy.min_features:
            return []
        neighbours = []
        for other, distance in found:
            check_distance = (page.check ^ other.page.check).bit_count()
            if (
                other.key != key
                and distance + check_distance <= policy.total_distance
                and other.page.features >= policy.min_features
                and (policy.scope == "global" or (domain and other.domain == domain))
            ):
                links_distance = (page.links ^ other.page.links).bit_count()
                neighbours.append(
                    Neighbour(other.key, distance, check_distance, links_distance, other.domain)
                )
        return sorted(neighbours, key=lambda n: (n.distance, n.check_distance, n.key))

    def _guarded(self, page: PageFingerprint, neighbours: list[Neighbour]) -> list[Neighbour]:
        """The listing guard: of a page with enough links, those with other ones do not count."""
        if not self.recipe.guarded(page.features, page.link_count):
            return neighbours
        return [n for n in neighbours if n.links_distance <= self.recipe.guard_distance]

    def _late(self, verdict: Verdict) -> bool:
        """Whether a near-duplicate of a page that was unique has been inserted since."""
        held = self._reservations.get(verdict.token or "")
        seen = None if held is None else held.judged
        if isinstance(seen, _Seen) and seen.status == "unique" and seen.policy is self.policy:
            # it was not there when the page was reserved: only what came since can be near
            k = self.policy.distance
            if not self._shared.near_since(seen.inserts, verdict.page.value, k):
                return False
        found = self._inserted(verdict.page, verdict.domain, verdict.key)
        return bool(self._guarded(verdict.page, found))

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the detector is closed")


def open(
    target: str | os.PathLike[str],
    *,
    namespace: str = "default",
    distance: int | None = None,
    total_distance: int | None = None,
    min_features: int | None = None,
    scope: Scope = "global",
    secret: str | None = None,
    recipe: Recipe | str | None = None,
    reservation_seconds: float = 600.0,
    clock: Callable[[], float] = time.monotonic,
) -> Detector:
    """Open a detector on an embedded store, which is made where it is missing.

    target               the folder; the store lies at <target>/<namespace>
    distance             greatest Hamming distance of value, 0 to 15 bits; the recipe's by default
    total_distance       greatest sum of the distances of value and check, 0 to 128 bits
    min_features         pages with fewer features are exempt; the recipe's by default
    scope                "global", or "site": only pages of the same registrable domain match
    secret               keys the recipe; a store made with a secret is opened without it for
                         judging, and with it for making fingerprints
    recipe               an existing store keeps its own, a new one takes the newest
    reservation_seconds  how long a page may be in flight
    clock                seconds that never go back

    Raises UsageError naming the argument, RecipeMismatch, StoreLocked, StoreDamaged, and OSError
    with the path if the folder cannot be used.
    """
    name = os.fspath(target)
    if "://" in name:
        raise UsageError(f"target {name!r} is a URL; give a folder here, or use dedup.open()")
    check_namespace(namespace)
    check_options(distance, total_distance, min_features, scope, reservation_seconds)
    recipe_id = recipe.id if isinstance(recipe, Recipe) else recipe
    shared = take(Path(name), namespace, distance, recipe_id, secret)
    try:
        agreed = agreed_recipe(shared.store.path, shared.store.recipe, recipe_id, secret)
        if not isinstance(recipe, Recipe):
            recipe = agreed
        policy = policy_of(
            recipe, distance, total_distance, min_features, scope, reservation_seconds
        )
        with shared.lock:
            shared.store.widen(policy.distance)
            shared.reservations.widen(policy.distance)
        return Detector(shared, recipe, policy, clock)
    except BaseException:
        give_back(shared)
        raise
