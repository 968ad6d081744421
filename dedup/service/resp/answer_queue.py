"""Answers of a RESP connection: in the order of their commands, and written together.

    answer, answer, Later, answer -> (wait for what is still to come) -> bytes to the transport

The rule kept here: an answer is written only after all answers before it.
"""

import asyncio
from collections import deque
from typing import Any, Protocol

from dedup.service.resp.client_session import Later

__all__ = ["Answers"]

WRITE_BYTES = 1 << 17  # of answers that are collected before they are written


class Owner(Protocol):
    """The connection, as its answers see it."""

    def encoded_fault(self, fault: BaseException) -> bytes:
        """Return the answer for an error."""

    def answers_arrived(self) -> None:
        """Go on: answers that were waited for have been written."""


class Answers:
    """The answers of one connection that are not written yet.

    waiting    those behind one that is still to come, it included
    transport  where they are written to; None: the connection is closed
    """

    def __init__(self, owner: Owner) -> None:
        self.waiting: deque[bytes | Later] = deque()
        self.transport: Any = None
        self._owner: Owner | None = owner
        self._ready: list[bytes] = []
        self._ready_bytes = 0

    def add(self, answer: bytes) -> None:
        """Add an answer; flush() writes it."""
        if self.waiting:
            self.waiting.append(answer)
            return
        self._ready.append(answer)
        self._ready_bytes += len(answer)
        if self._ready_bytes > WRITE_BYTES:
            self.flush()

    def add_later(self, later: Later) -> None:
        """Add an answer that is still to come; it is written as soon as it has come."""
        self.flush()
        self.waiting.append(later)
        later.future.add_done_callback(self._write_arrived)

    def flush(self) -> None:
        """Write the answers that wait for no other."""
        if self._ready and self.transport is not None:
            data = b"".join(self._ready)
            self._ready.clear()
            self._ready_bytes = 0
            self.transport.write(data)

    def close(self) -> None:
        """Write nothing any more, and free everything: no cycle keeps a closed connection's memory."""
        self.transport = self._owner = None
        self.waiting.clear()
        self._ready.clear()

    def _write_arrived(self, _: "asyncio.Future[Any]") -> None:
        """Write the answers that have come, up to one that has not."""
        waiting, owner = self.waiting, self._owner
        if owner is None:
            return
        while waiting:
            first = waiting[0]
            if isinstance(first, Later):
                if not first.future.done():
                    break
                try:
                    first = first.encode(first.future.result())
                except BaseException as fault:  # a cancelled future, too
                    first = owner.encoded_fault(fault)
            waiting.popleft()
            self._ready.append(first)
        self.flush()
        owner.answers_arrived()
