"""The operations of the service, for both ports. No socket, no clock of its own.

    probe, probe_many -> neighbours
    reserve -> verdict -> insert | release
    forget, drop, document, info

Invariants: of a reservation a client keeps the token only, the service has the rest. Errors are DedupErrors and
OSErrors (refusal.py).
"""

from asyncio import Future
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.forms import check_field
from dedup.model.page import Document, Neighbour, PageFingerprint, ReserveOptions, Verdict
from dedup.model.recipes import same_recipe
from dedup.service.core.command_table import TOKEN
from dedup.service.core.config import USUAL_LIMITS, Limits
from dedup.service.core.namespaces import Namespaces, PolicyOverrides, check_known
from dedup.service.core.refusal import Refused, message
from dedup.service.core.turns import Room, Turns, in_slices

LateFields = Mapping[str, Any]  # fields of a document that are known only at its insert
NO_FIELDS: LateFields = {}


class Log(Protocol):
    """The log that inserts of a service go to, and come back from: LogInserts in replica.py."""

    def insert(
        self, namespace: str, detector: EmbeddedDetector, verdict: Verdict, given: LateFields
    ) -> "Future[None]":
        """Produce the event of a reserved page; the future is done when the log has it."""

    def forget(self, namespace: str, detector: EmbeddedDetector, key: str) -> "Future[bool]":
        """Produce a tombstone; a future of whether there was a document."""


class Operations:
    """The commands of a service. For one thread, the event loop's."""

    def __init__(
        self,
        namespaces: Namespaces,
        log: Log | None = None,
        limits: Limits = USUAL_LIMITS,
        more_info: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Without a log, inserts are committed here. more_info() returns what DEDUP.INFO says of other parts."""
        self.namespaces = namespaces
        self.log = log
        self.limits = limits
        self._more_info = more_info
        self.version = version("crawl-dedup")
        self.not_ready: str | None = "the stores are being opened"  # the reason; None: ready
        self.trouble = ""  # why a store takes no changes, since the last that failed
        self.counts: Counter[str] = Counter()  # verdicts by status, and other changes
        self.turns = Turns()
        self.room = Room(limits.work_memory)  # for bodies of requests, and answers to batches

    def check_ready(self) -> None:
        """Raise Refused (NOTREADY) unless probes may be answered."""
        if self.not_ready is not None:
            raise Refused("NOTREADY", f"{self.not_ready}: ask again later, and keep the page")

    def check_key(self, key: str) -> str:
        """Return a document key. Raises Refused or TooLong (LIMIT) for one that is empty or too long."""
        if not key:
            raise Refused("LIMIT", "a key has at least one byte")
        return check_field("key", key)

    def check_batch(self, count: int) -> None:
        """Raise Refused (LIMIT) for a batch of too many values."""
        if count > self.limits.batch:
            raise Refused("LIMIT", f"a batch has up to {self.limits.batch:,} values")

    def check_neighbours(self, count: int) -> None:
        """Raise Refused (LIMIT) for an answer of too many neighbours."""
        if count > self.limits.neighbours:
            raise Refused(
                "LIMIT",
                f"an answer holds up to {self.limits.neighbours:,} neighbours: probe fewer at once",
            )

    def check_answer(self, size: int) -> None:
        """Raise Refused (LIMIT) for an answer of too many bytes."""
        if size > self.limits.answer_bytes:
            raise Refused(
                "LIMIT",
                f"an answer has up to {self.limits.answer_bytes:,} bytes: probe fewer at once, or "
                "ask for less with COUNT",
            )

    def detector(
        self, namespace: str, recipe: str, asked: PolicyOverrides, *, make: bool = False
    ) -> EmbeddedDetector | None:
        """Return the detector for pages of a recipe; None if there is no such namespace.

        Raises Refused and RecipeMismatch.
        """
        if self.not_ready is not None:
            self.check_ready()
        detector = self.namespaces.detector(namespace, asked, recipe if make else None)
        if detector is not None and detector.recipe.id != recipe:
            check_known(recipe)
            same_recipe(detector.recipe.id, recipe)
        return detector

    def probe(
        self,
        detector: EmbeddedDetector | None,
        asked: Document,
    ) -> list[Neighbour]:
        """Return the stored near-duplicates of a page, the most similar first, at most 1000.

        detector is what detector() returned.
        """
        return [] if detector is None else detector.neighbours(asked)

    def probe_many(
        self,
        detector: EmbeddedDetector | None,
        asked: Sequence[Document],
        most: int | None = None,
    ) -> dict[int, list[Neighbour]]:
        """Probe a batch of pages; return the near-duplicates of those that have any, by index.

        most is how many of each page; None: all.
        """
        self.check_batch(len(asked))
        if detector is None:
            return {}
        found = detector.probe_many(asked, limit=self.limits.neighbours)
        if most is not None:
            found = {i: near[:most] for i, near in found.items()}
        if found:
            self.check_answer(keys_size(found))
        return found

    def reserve(
        self,
        namespace: str,
        key: str,
        page: PageFingerprint,
        asked: PolicyOverrides,
        options: ReserveOptions,
    ) -> Verdict:
        """Judge a page and, unless it is a near-duplicate, reserve its fingerprint.

        The caller has checked the lengths of texts (check_field).
        """
        if not key:
            self.check_key(key)
        made = self.namespaces.made
        try:
            detector = self.detector(namespace, page.recipe, asked, make=True)
            assert detector is not None
            return self.judge(detector, page, key, options)
        except Exception:
            if self.namespaces.made != made:  # a refused command leaves no folder
                self.namespaces.unmake(namespace)
            raise

    def judge(
        self, detector: EmbeddedDetector, page: PageFingerprint, key: str, options: ReserveOptions
    ) -> Verdict:
        """Do what reserve() does, with the detector of its recipe and options."""
        verdict = detector.judge(page, key, options)
        self.counts[verdict.status] += 1
        return verdict

    def insert(
        self,
        namespace: str,
        key: str,
        token: str,
        given: LateFields = NO_FIELDS,
    ) -> "Future[None] | None":
        """Store a reserved page.

        given has the fields of its document that are known only now (PAID, ITEMS), where
        they differ from their defaults.

        Raises Refused (NOTOKEN) if the reservation is not held here, and has not been inserted:
        then the page is to be reserved again, exempt, and inserted with that token.
        """
        detector = self.namespaces.get(namespace)
        if detector is None or self.not_ready is not None:
            detector = self._existing(namespace)
        if detector is not None:
            if self.log is None:
                if self._insert_held(detector, ((key, token, given),)):
                    self.counts["insert"] += 1
                    return None
            elif (verdict := detector.held(token)) is not None:
                check_same_key(verdict, key)
                done = self.log.insert(namespace, detector, verdict, given)
                self.counts["insert"] += 1
                return done
        ending = None if detector is None else detector.ending(token)
        if ending == "inserted":
            return None
        if ending == "released":
            raise UsageError(f"{key!r} was released: reserve it again to insert it")
        raise Refused(
            "NOTOKEN",
            "this service does not hold the reservation: reserve the page again with EXEMPT expired, "
            "and insert with the new token",
        )

    def insert_many(self, namespace: str, pages: Sequence[tuple[str, str, LateFields]]) -> None:
        """Store reserved pages, each by key, token and what is given (see insert()), in one commit; only without a log.

        Raises what insert() raises for one of them; some may be stored then. The caller then inserts
        one by one, which changes nothing for those.
        """
        detector = self._existing(namespace)
        if detector is None or not self._insert_held(detector, pages):
            raise Refused("NOTOKEN", "this service does not hold one of these reservations")
        self.counts["insert"] += len(pages)

    def _insert_held(
        self, detector: EmbeddedDetector, pages: Sequence[tuple[str, str, LateFields]]
    ) -> bool:
        try:
            held = detector.insert_held(pages)
        except OSError as error:
            self.trouble = f"a store takes no changes: {message(error)}"
            raise
        if held:
            self.trouble = ""
        return held

    def release(self, namespace: str, key: str, token: str) -> bool:
        """Give a reservation back; False if it is not held here.

        Its RESERVE may still be under way, on a connection that broke: then that will be refused.
        """
        detector = self._existing(namespace)
        verdict = None if detector is None else detector.held(token)
        if detector is None:
            return False
        if verdict is None:
            if TOKEN.fullmatch(token):  # none of ours can still come
                detector.withdraw(token)
            return False
        check_same_key(verdict, key)
        released = detector.release(verdict)
        self.counts["release"] += released
        return released

    def forget(self, namespace: str, key: str) -> "Future[bool] | bool":
        """Remove a document; return whether there was one."""
        detector = self._existing(namespace)
        if detector is None:
            return False
        self.counts["forget"] += 1
        self.check_key(key)
        if self.log is None:
            return detector.forget(key)
        return self.log.forget(namespace, detector, key)

    def drop(self, namespace: str) -> "Future[bool]":
        """Remove a namespace with all its documents; a future of whether there was one.

        Raises Refused (ERR) where the documents come from a log, which would bring them back.
        """
        self.check_ready()
        if self.log is not None:
            raise Refused(
                "ERR",
                "the documents of this service come from Kafka: forget their keys, or give the "
                "crawl another namespace",
            )
        self.counts["drop"] += 1
        return self.namespaces.drop(namespace)

    def document(self, namespace: str, key: str) -> Document | None:
        """Return a stored document, or None."""
        detector = self._existing(namespace)
        return None if detector is None else detector.get(key)

    def documents_from(
        self, namespace: str, first: int, most: int
    ) -> list[tuple[int, Document]] | None:
        """Return some documents of a namespace, by id, from an id on; None: no such namespace."""
        detector = self._existing(namespace)
        return None if detector is None else detector.store.documents_from(first, most)

    def info(self) -> dict[str, Any]:
        """Return what DEDUP.INFO answers, in flat fields."""
        detectors = list(self.namespaces)
        infos = [(name, detector.info()) for name, detector in detectors]
        return {
            "version": self.version,
            "ready": int(self.not_ready is None),
            "namespaces": len(infos),
            **({"unserved": ",".join(unserved)} if (unserved := self.namespaces.unserved) else {}),
            "documents": sum(info["documents"] for _, info in infos),
            "in_flight": sum(info["in_flight"] for _, info in infos),
            **self._more_info(),
            **{
                f"namespace_{name}": ",".join(
                    f"{field}={info[field]}" for field in ("documents", "in_flight", "recipe")
                )
                for name, info in infos
            },
        }

    def namespace_info(self, namespace: str) -> dict[str, Any]:
        """Return EmbeddedDetector.info() of a namespace; a missing one is empty, and says so."""
        detector = self._existing(namespace)
        if detector is not None:
            return detector.info()
        missing = f"there is no namespace {namespace!r}: its first page makes it"
        return {"documents": 0, "in_flight": 0, "missing": missing}

    def _existing(self, namespace: str) -> EmbeddedDetector | None:
        if self.not_ready is not None:
            self.check_ready()
        detector = self.namespaces.get(namespace)
        return self.namespaces.detector(namespace) if detector is None else detector


def check_same_key(verdict: Verdict, key: str) -> None:
    """Raise UsageError if a token's page has another key."""
    if verdict.document.key != key:
        raise UsageError(f"this token belongs to another key than {key!r}")


def keys_size(found: dict[int, list[Neighbour]]) -> int:
    """Return how many characters the keys of an answer have."""
    return sum(len(neighbour.key) for near in found.values() for neighbour in near)


PROBES = 512  # in one native call; inserts in one commit


async def probe_in_slices(
    commands: Operations,
    detector: EmbeddedDetector | None,
    words: Sequence[bytes],
    read: Callable[[Sequence[bytes]], list[Document]],
    most: int | None = None,
) -> dict[int, list[Neighbour]]:
    """Read pages and do what commands.probe_many() does, in slices. The limits are for the whole batch."""
    commands.check_batch(len(words))
    found: dict[int, list[Neighbour]] = {}
    count = size = 0
    batch = object()
    try:
        await commands.room.take(batch, commands.limits.answer_bytes)
        async for first in in_slices(range(0, len(words), PROBES), commands.turns):
            part = commands.probe_many(detector, read(words[first : first + PROBES]), most)
            count += sum(map(len, part.values()))
            size += keys_size(part)
            commands.check_neighbours(count)
            commands.check_answer(size)
            found |= {first + i: near for i, near in part.items()}
    finally:
        commands.room.leave(batch)
    return found
