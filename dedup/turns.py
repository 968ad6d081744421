"""Many readers or one writer, in turns: the lock that keeps a table's thread rule.

The rules kept here:
  - A writer is inside alone; readers are inside together.
  - Who leaves admits who is next, before any other can come in: a writer that leaves all readers
    that wait, together; the last of the readers that leave, the writer that waits longest.
  - A reader that finds a writer waiting waits behind it. So a writer waits only for the readers
    that are inside, and a reader for one writer, however often others come back.
"""

import threading
from collections import deque

__all__ = ["Turns"]


class Turns:
    """The lock: `with turns.reading:` or `with turns.writing:`."""

    def __init__(self) -> None:
        self.reading, self.writing = _Turn(self, writes=False), _Turn(self, writes=True)
        self._mutex = threading.Lock()  # for what follows, never held while waiting
        self._readers = 0  # inside
        self._writer = False  # inside
        self._waiting: dict[bool, deque[_Ticket]] = {False: deque(), True: deque()}

    def enter(self, writes: bool) -> None:
        """Come in, as the writer or a reader, and wait for that as long as it takes."""
        with self._mutex:
            if self._free(writes) and not self._waiting[True]:
                self._admit(writes)
                return
            ticket = _Ticket()
            self._waiting[writes].append(ticket)
        try:
            ticket.called.acquire()
        except BaseException:  # an interrupt while waiting
            self._give_up(ticket, writes)
            raise

    def leave(self, writes: bool) -> None:
        """Go out, and admit who is next."""
        with self._mutex:
            if writes:
                self._writer = False
                self._call(writes=False)
                self._call(writes=True)
            else:
                self._readers -= 1
                self._call(writes=True)

    def _free(self, writes: bool) -> bool:
        return not self._writer and not (writes and self._readers)

    def _admit(self, writes: bool) -> None:
        if writes:
            self._writer = True
        else:
            self._readers += 1

    def _call(self, writes: bool) -> None:
        """Let in who waits for this, as far as there is room."""
        waiting = self._waiting[writes]
        while waiting and self._free(writes):
            self._admit(writes)
            waiting.popleft().called.release()

    def _give_up(self, ticket: "_Ticket", writes: bool) -> None:
        with self._mutex:
            waited = ticket in self._waiting[writes]
            if waited:
                self._waiting[writes].remove(ticket)
                if not self._writer and not self._waiting[True]:
                    self._call(writes=False)  # who waited behind a writer that is gone
        if not waited:  # it was called meanwhile
            self.leave(writes)


class _Ticket:
    def __init__(self) -> None:
        self.called = threading.Lock()
        self.called.acquire()


class _Turn:
    def __init__(self, lock: Turns, writes: bool) -> None:
        self._lock, self._writes = lock, writes

    def __enter__(self) -> None:
        self._lock.enter(self._writes)

    def __exit__(self, *error: object) -> None:
        self._lock.leave(self._writes)
