"""A fair read-write lock between threads: many readers or one writer, and neither starves.

Invariants:
  - A writer holds the lock alone; readers hold it together.
  - A reader that finds a writer waiting waits behind it. A writer that releases the lock admits all
    waiting readers at once; the last reader that releases it admits the writer that waits longest.
  - So a writer waits only for the readers that hold the lock, and a reader for one writer, however
    often others come back.
"""

import threading
from collections import deque


class ReadWriteLock:
    """The lock: `with lock.reading:` or `with lock.writing:`."""

    def __init__(self) -> None:
        self.reading, self.writing = _Reading(self), _Writing(self)
        self.mutex = threading.Lock()  # for what follows, never held while waiting
        self.readers = 0  # that hold the lock
        self.writer = False  # holds the lock
        self.waiting: dict[bool, deque[_Waiter]] = {False: deque(), True: deque()}  # by: writes

    def wait(self, waiter: "_Waiter", writes: bool) -> None:
        """Wait until the waiter, which is in its queue, is admitted."""
        try:
            waiter.admitted.acquire()
        except BaseException:  # an interrupt
            with self.mutex:
                still_waits = waiter in self.waiting[writes]
                if still_waits:
                    self.waiting[writes].remove(waiter)
                    if not self.waiting[True]:
                        self.admit(writes=False)  # readers that waited behind a writer that is gone
            if not still_waits:  # it was admitted meanwhile
                (self.writing if writes else self.reading).__exit__()
            raise

    def admit(self, writes: bool) -> None:
        """Admit those who wait to write, or to read, as far as possible; the mutex is held."""
        waiting = self.waiting[writes]
        while waiting and not self.writer and not (writes and self.readers):
            if writes:
                self.writer = True
            else:
                self.readers += 1
            waiting.popleft().admitted.release()


class _Waiter:
    def __init__(self) -> None:
        self.admitted = threading.Lock()
        self.admitted.acquire()


class _Reading:
    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        with lock.mutex:
            if not lock.writer and not lock.waiting[True]:
                lock.readers += 1
                return
            waiter = _Waiter()
            lock.waiting[False].append(waiter)
        lock.wait(waiter, writes=False)

    def __exit__(self, *error: object) -> None:
        lock = self._lock
        with lock.mutex:
            lock.readers -= 1
            if lock.waiting[True] and not lock.readers:
                lock.admit(writes=True)


class _Writing:
    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        with lock.mutex:
            if not lock.writer and not lock.readers and not lock.waiting[True]:
                lock.writer = True
                return
            waiter = _Waiter()
            lock.waiting[True].append(waiter)
        lock.wait(waiter, writes=True)

    def __exit__(self, *error: object) -> None:
        lock = self._lock
        with lock.mutex:
            lock.writer = False
            if lock.waiting[False]:
                lock.admit(writes=False)
            if lock.waiting[True]:
                lock.admit(writes=True)
