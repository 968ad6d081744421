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
        self.reading, self.writing = _Reading(self), _Writing(self)
        self.mutex = threading.Lock()  # for what follows, never held while waiting
        self.readers = 0  # inside
        self.writer = False  # inside
        self.waiting: dict[bool, deque[_Ticket]] = {False: deque(), True: deque()}

    def wait(self, ticket: "_Ticket", writes: bool) -> None:
        """Wait until the ticket, which is in its queue, is called."""
        try:
            ticket.called.acquire()
        except BaseException:  # an interrupt
            with self.mutex:
                waited = ticket in self.waiting[writes]
                if waited:
                    self.waiting[writes].remove(ticket)
                    if not self.waiting[True]:
                        self.call(writes=False)  # who waited behind a writer that is gone
            if not waited:  # it was called meanwhile
                (self.writing if writes else self.reading).__exit__()
            raise

    def call(self, writes: bool) -> None:
        """Admit who waits for this, as far as there is room; the mutex is held."""
        waiting = self.waiting[writes]
        while waiting and not self.writer and not (writes and self.readers):
            if writes:
                self.writer = True
            else:
                self.readers += 1
            waiting.popleft().called.release()


class _Ticket:
    def __init__(self) -> None:
        self.called = threading.Lock()
        self.called.acquire()


class _Reading:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        turns = self._turns
        with turns.mutex:
            if not turns.writer and not turns.waiting[True]:
                turns.readers += 1
                return
            ticket = _Ticket()
            turns.waiting[False].append(ticket)
        turns.wait(ticket, writes=False)

    def __exit__(self, *error: object) -> None:
        turns = self._turns
        with turns.mutex:
            turns.readers -= 1
            if not turns.readers:
                turns.call(writes=True)


class _Writing:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        turns = self._turns
        with turns.mutex:
            if not turns.writer and not turns.readers and not turns.waiting[True]:
                turns.writer = True
                return
            ticket = _Ticket()
            turns.waiting[True].append(ticket)
        turns.wait(ticket, writes=True)

    def __exit__(self, *error: object) -> None:
        turns = self._turns
        with turns.mutex:
            turns.writer = False
            turns.call(writes=False)
            turns.call(writes=True)
