"""The stores of a service: one for each namespace, a detector on it for each policy, and their pruning.

    namespace -> open stores (by dedup.detector.open_embedded) -> detector of the policy asked for
    ready -> a round of pruning: every namespace, some documents at a time -> a pause -> a round -> stop()

Invariants: the number of namespaces and policies is bounded; a probe creates none. Pruning lets a command wait for one
small batch at most, which takes milliseconds. It also removes documents dated more than a day ahead: their clock was
wrong, and they would never grow old. A namespace that cannot be opened is refused by name, and never stops the others.
"""

import asyncio
import logging
import os
import secrets
import shutil
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from dedup.core.files import sync_folder
from dedup.detector import EmbeddedDetector, MemoryBudget, open_embedded
from dedup.model.errors import DedupError, RecipeMismatch, UsageError
from dedup.model.names import check_namespace
from dedup.model.policy import GREATEST_DISTANCE, Options, Scope
from dedup.model.recipes import NEWEST, Recipe, recipe_of
from dedup.service.core.config import USUAL_LIMITS, Limits
from dedup.service.core.refusal import Refused, code, message


class PolicyOverrides(msgspec.Struct, frozen=True):
    """Per-command overrides of the recipe's policy; None leaves a field to the recipe."""

    distance: int | None = None
    similarity: float | None = None
    min_features: int | None = None
    scope: Scope = "global"


USUAL = PolicyOverrides()

log = logging.getLogger(__name__)

DOCUMENTS = "documents.mdb"
STORE_FILES = 8  # that opening a store may take at once, and removing it again
_DROPPED = ".dropped-"  # how the name of a folder begins that is being removed


class _Namespace:
    """An open namespace: its detector, and those of other policies in the order of their last use."""

    def __init__(self, detector: EmbeddedDetector, greatest: int) -> None:
        self.detector = detector
        self.greatest = greatest  # the greatest distance that its store finds
        self.asked: OrderedDict[PolicyOverrides, EmbeddedDetector] = OrderedDict()

    def close(self) -> list[Exception]:
        """Close all detectors, even after an error; return the errors."""
        errors: list[Exception] = []
        for detector in (*self.asked.values(), self.detector):
            try:
                detector.close()
            except Exception as error:  # noqa: BLE001 - the other namespaces go on; logged or returned
                errors.append(error)
        return errors


class Namespaces:
    """The open namespaces of a folder. For the event loop's thread, open_all() aside.

    unserved  those that could not be opened, and why
    """

    def __init__(
        self,
        path: Path,
        *,
        distance: int | None = None,
        reservation_seconds: float = 600.0,
        limits: Limits = USUAL_LIMITS,
        clock: Callable[[], float] = time.monotonic,
        follow_log: bool = False,
    ) -> None:
        """Distance is the greatest that clients may ask for, in bits; None: the recipe's.

        follow_log: the documents come from a log.
        """
        self.path = path
        self._follow_log = follow_log
        self._distance = distance
        self._reservation_seconds = reservation_seconds
        self._limits = limits
        self._clock = clock
        self._memory = MemoryBudget(limits.reservations_memory)
        self._open: dict[str, _Namespace] = {}
        self._dropping: set[str] = set()
        self.unserved: dict[str, Refused] = {}
        self.made = 0  # how many namespaces were created
        self.closed = 0  # how many detectors were closed: callers that cache some look again

    def __iter__(self) -> Iterator[tuple[str, EmbeddedDetector]]:
        """Yield each open namespace and its detector."""
        for name, namespace in list(self._open.items()):
            yield name, namespace.detector

    def __len__(self) -> int:
        return len(self._open)

    def open_all(self) -> None:
        """Open every namespace of the folder; one that cannot be opened is logged and refused from then on.

        With a log that stops the start, a retired recipe aside: the log would pass by its documents. Raises what
        dedup.open() raises then, and UsageError if there are more than allowed, or the folder is a store itself.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        check_no_store(self.path)
        for left in self.path.glob(f"{_DROPPED}*"):  # a removal that a kill cut short
            shutil.rmtree(left)
        found = sorted(each.name for each in self.path.iterdir() if _may_be_store(each))
        if len(found) > self._limits.namespaces:
            raise UsageError(
                f"{self.path} has {len(found)} namespaces, more than the {self._limits.namespaces} "
                "that a service serves: raise --max-namespaces, and `ulimit -Hn` if the log says so"
            )
        for name in found:
            try:
                self._opened(name, None)
            except (DedupError, OSError) as error:
                if self._follow_log and not isinstance(error, RecipeMismatch):
                    raise
                why = f"the namespace {name} is not served: {message(error)}"
                log.error("%s (%s); the others are", why, self.path / name)
                self.unserved[name] = Refused(code(error), why)

    def get(self, name: str) -> EmbeddedDetector | None:
        """Return the detector of a namespace, or None if there is no such namespace."""
        namespace = self._open.get(name)
        return None if namespace is None else namespace.detector

    def detector(
        self, name: str, asked: PolicyOverrides = USUAL, recipe: str | None = None
    ) -> EmbeddedDetector | None:
        """Return the detector of a namespace with the policy that is asked for.

        With a recipe, a missing namespace is created with it; without one, None is returned.
        Raises Refused (DISTANCE, LIMIT) and what dedup.open() raises.
        """
        namespace = self._open.get(name)
        if namespace is None:
            self._check_served(name)
            if recipe is None:
                check_namespace(name)
                return None
            namespace = self._made(name, recipe, asked)
        if asked == USUAL:
            return namespace.detector
        detector = namespace.asked.get(asked)
        if detector is None:
            detector = namespace.asked[asked] = self._for_asked(name, namespace, asked)
            if len(namespace.asked) > self._limits.policies:
                namespace.asked.popitem(last=False)[1].close()
                self.closed += 1
        else:
            namespace.asked.move_to_end(asked)
        return detector

    def drop(self, name: str) -> "asyncio.Future[bool]":
        """Take a namespace out at once, then remove its folder; a future of whether there was one.

        Until the folder has another name, the namespace's commands are refused (NOTREADY). The future raises OSError.
        """
        namespace = self._open.pop(name, None)
        if namespace is None:
            self._check_served(name)
            check_namespace(name)
        else:
            self.closed += 1
            self._dropping.add(name)
        return asyncio.ensure_future(self._dropped(name, namespace))

    async def _dropped(self, name: str, namespace: _Namespace | None) -> bool:
        if namespace is None:
            return False
        try:
            going = await asyncio.to_thread(_set_aside, self.path / name, namespace)
        finally:
            self._dropping.discard(name)
        await asyncio.to_thread(shutil.rmtree, going)
        return True

    def _check_served(self, name: str) -> None:
        if name in self._dropping:
            raise Refused("NOTREADY", f"the namespace {name} is being dropped")
        if (refused := self.unserved.get(name)) is not None:
            raise Refused(refused.code, str(refused))

    @property
    def trouble(self) -> str:
        """Which namespaces are not served, and why; "" if all are."""
        return "; ".join(map(str, self.unserved.values()))

    def close(self) -> None:
        """Close every namespace: flushed, its index written where that is due.

        All are closed, even after an error; then the first error is raised.
        """
        errors = [error for namespace in self._open.values() for error in namespace.close()]
        self._open.clear()
        if errors:
            raise errors[0]

    def _made(self, name: str, recipe: str, asked: PolicyOverrides) -> _Namespace:
        check_namespace(name)
        # checked before anything is created
        usual = check_known(recipe).distance
        _check_distance(asked, usual if self._distance is None else self._distance)
        if len(self._open) + len(self.unserved) >= self._limits.namespaces:
            raise Refused(
                "LIMIT",
                f"there are {len(self._open) + len(self.unserved)} namespaces, and no more are allowed: raise "
                "--max-namespaces",
            )
        folder = self.path / name
        is_new = not folder.exists()
        if is_new:
            _check_files(folder)
        try:
            namespace = self._opened(name, recipe)
        except BaseException:
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        self.made += is_new
        return namespace

    def unmake(self, name: str) -> None:
        """Remove a namespace that was created by a command which is then refused. Raises OSError."""
        self.closed += 1
        shutil.rmtree(_set_aside(self.path / name, self._open.pop(name)))

    def _opened(self, name: str, recipe: str | None) -> _Namespace:
        widest = self._detector(name, distance=self._distance, recipe=recipe)
        greatest, usual = widest.policy.distance, widest.recipe.distance
        detector = widest
        if usual < greatest:
            try:
                detector = self._detector(name, distance=usual)  # on the store as it is now open
            finally:
                widest.close()
        namespace = self._open[name] = _Namespace(detector, greatest)
        return namespace

    def _for_asked(
        self, name: str, namespace: _Namespace, asked: PolicyOverrides
    ) -> EmbeddedDetector:
        greatest, usual = namespace.greatest, namespace.detector.policy.distance
        _check_distance(asked, greatest)
        return self._detector(
            name,
            distance=usual if asked.distance is None else asked.distance,
            similarity=asked.similarity,
            min_features=asked.min_features,
            scope=asked.scope,
        )

    def _detector(self, name: str, **asked: Any) -> EmbeddedDetector:
        asked = {"reservation_seconds": self._reservation_seconds} | asked
        options = Options(namespace=name, clock=self._clock, **asked)
        return open_embedded(self.path, options, self._memory)


def check_known(recipe: str) -> Recipe:
    """Return a recipe that a client named. Raises Refused (RECIPE) for one that this release does not know."""
    try:
        return recipe_of(recipe)
    except RecipeMismatch as error:
        raise Refused(
            error.code,
            f"this service does not know the client's recipe {recipe!r}: upgrade the older of client and service; "
            f"its own is {NEWEST!r}",
        ) from error


def check_no_store(path: Path) -> None:
    """Raise UsageError for the folder of one store, where that of stores is wanted."""
    if (path / DOCUMENTS).exists():
        whole = path.absolute()
        raise UsageError(
            f"{path} is a store itself (it has {DOCUMENTS}): give the folder above it, --path {whole.parent}, which "
            f"serves it as the namespace {whole.name}"
        )


def _may_be_store(folder: Path) -> bool:
    """Whether a folder holds documents, or cannot be entered: who restored it was another user, say."""
    try:
        return not folder.name.startswith(".") and (folder / DOCUMENTS).exists()
    except PermissionError:
        return True


def _check_files(folder: Path) -> None:
    """Raise OSError, naming a folder, unless a store can be opened there: too few files are left."""
    files: list[int] = []
    try:
        for _ in range(STORE_FILES):
            files.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401  (those before it are closed)
    except OSError as error:
        error.filename = os.fspath(folder)
        raise
    finally:
        for file in files:
            os.close(file)


def _set_aside(folder: Path, namespace: _Namespace) -> Path:
    """Close the detectors of a namespace, and rename its folder; return its path, for the caller to remove it."""
    namespace.close()  # what could not be written is not wanted any more
    going = folder.with_name(f"{_DROPPED}{folder.name}-{secrets.token_hex(4)}")
    folder.rename(going)
    sync_folder(folder.parent)
    return going


def _check_distance(asked: PolicyOverrides, greatest: int) -> None:
    if asked.distance is not None and asked.distance > greatest:
        raise Refused(
            "DISTANCE",
            f"this service finds distances up to {greatest}, not {asked.distance}: "
            + (
                f"start it with --distance {asked.distance}"
                if asked.distance <= GREATEST_DISTANCE
                else f"the greatest distance is {GREATEST_DISTANCE}"
            ),
        )


LONGEST_PAUSE_SECONDS = 3600.0  # between two rounds
PAUSE_SHARE = 0.1  # of the age: that a document may be older than asked for
FUTURE_SECONDS = 86_400.0  # by which a clock that dates documents may be ahead
PAUSE_FACTOR = 4.0  # the pause after a batch, as a multiple of the time it took


def pause_seconds(keep_seconds: float) -> float:
    """Return how long to wait from one round to the next."""
    return min(LONGEST_PAUSE_SECONDS, PAUSE_SHARE * keep_seconds)


class Pruning:
    """Removes what is older than keep_seconds from the namespaces, until stop()."""

    def __init__(
        self,
        namespaces: Namespaces,
        keep_seconds: float,
        counts: Counter[str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Count what is removed as "pruned" in counts. clock gives Unix time."""
        self._namespaces = namespaces
        self._keep_seconds = keep_seconds
        self._counts = counts
        self._clock = clock
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Prune until stop(); it ends after the batch under way, so that stores can be closed."""
        while not self._stop.is_set():
            await self.round()
            await self._pause(pause_seconds(self._keep_seconds))

    def stop(self) -> None:
        """Have run() end."""
        self._stop.set()

    async def round(self) -> None:
        """Look at every document once."""
        now = self._clock()
        before, latest = now - self._keep_seconds, now + FUTURE_SECONDS
        for name, detector in self._namespaces:
            try:
                pruned = await self._prune(detector, before, latest)
            except Exception as error:  # noqa: BLE001 - the other namespaces go on; logged or returned
                log.error("%s is not pruned, until the next round: %s", name, error)
                continue
            if pruned:
                log.info("%s: old documents pruned: %s", name, f"{pruned:,}")

    async def _prune(self, detector: EmbeddedDetector, before: float, latest: float) -> int:
        first = pruned = 0
        while not self._stop.is_set():
            began = time.monotonic()
            batch = await asyncio.to_thread(
                detector.store.forget_more_before, before, first, latest
            )
            if batch is None:
                break
            first = batch.last + 1
            pruned += batch.removed
            self._counts["pruned"] += batch.removed
            await self._pause(PAUSE_FACTOR * (time.monotonic() - began))
        return pruned

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
