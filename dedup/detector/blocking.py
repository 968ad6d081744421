"""A blocking detector of a table service: the asynchronous one, on a loop in a separate thread.

Invariants: a call ends when the asynchronous one does, which takes a bounded time; a KeyboardInterrupt
cancels it. A forked process does not use the connections of its parent: it opens its own with its first call.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from dedup.detector.interface import AsyncDetector, Detector
from dedup.model.errors import UsageError

T = TypeVar("T")

Opening = Callable[[], Coroutine[Any, Any, AsyncDetector]]


def _waiting(name: str) -> Any:
    """Return a method that calls an asynchronous detector's method of that name, and waits for it."""

    def call(self: "BlockingDetector", *values: Any, **options: Any) -> Any:
        return self._run(lambda detector: getattr(detector, name)(*values, **options))

    call.__name__, call.__doc__ = name, getattr(Detector, name).__doc__
    return call


class BlockingDetector(Detector):
    """Calls an asynchronous detector and waits for it. Made by open()."""

    probe = _waiting("probe")
    judge = _waiting("judge")
    insert_many = _waiting("insert_many")
    release = _waiting("release")
    forget = _waiting("forget")
    info = _waiting("info")

    def __init__(self, opening: Opening) -> None:
        """Open the detector in a new thread. Raises what opening() raises."""
        self._opening = opening
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._closed = False
        detector = self._started().detector
        self.recipe, self.policy = detector.recipe, detector.policy
        _opened.add(self)

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._run(lambda detector: detector.count())

    def close(self) -> None:
        """Close the connections, and end the thread."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None:
            running.close()

    def _run(self, call: Callable[[AsyncDetector], Coroutine[Any, Any, T]]) -> T:
        running = self._running or self._started()
        return running.wait_for(call(running.detector))

    def _started(self) -> "_Running":
        with self._lock:
            if self._closed:
                raise _closed()
            if self._running is None:
                self._running = _Running(self._opening)
            return self._running

    def leave_to_parent(self) -> None:
        """In a forked process: forget the thread and the detector, which are the parent's."""
        self._lock = threading.Lock()
        if self._running is not None:
            _left_to_parents.append(self._running)
            self._running = None


class _Running:
    """A loop in a thread, and the detector that is open in it."""

    def __init__(self, opening: Opening) -> None:
        self._loop = asyncio.new_event_loop()
        self._over = False
        self._waiting: set[Future[Any]] = set()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dedup-client", daemon=True
        )
        self._thread.start()
        try:
            self.detector = self.wait_for(opening())
        except BaseException:
            self._stop()
            raise

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; cancel it if interrupted."""
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            raise _closed() from None
        try:
            self._waiting.add(future)
            if self._over:
                future.cancel()
            return future.result()
        except CancelledError:  # by close(), in another thread
            raise _closed() from None
        except BaseException:
            future.cancel()  # nothing to cancel, if it is the coroutine's own error
            raise
        finally:
            self._waiting.discard(future)

    def close(self) -> None:
        """Close the detector, end every call that is under way, then the thread."""
        try:
            self.wait_for(self._shut_down())
        finally:
            self._stop()

    async def _shut_down(self) -> None:
        await self.detector.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._over = True
        for future in list(self._waiting):  # begun after _shut_down()
            future.cancel()
        self._loop.close()


def _closed() -> UsageError:
    return UsageError("the detector is closed")


_opened: "weakref.WeakSet[BlockingDetector]" = weakref.WeakSet()
# Kept in forked processes: closing a loop there would end the parent's connections, and deleting it
# would warn that it was not closed.
_left_to_parents: list[_Running] = []


def _after_fork() -> None:
    for detector in list(_opened):
        detector.leave_to_parent()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
