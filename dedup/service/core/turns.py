"""Turns of the event loop, and room for what is under way: however much there is, each client gets on.

    commands, items of a request -> slices of SLICE_SECONDS -> TURN_SECONDS of them in an iteration of the loop
    bodies of requests, batches  -> Room: who does not fit waits, the first goes on

Invariants: newcomers have turns of their own, each short, so that a client that connects in a flood is answered soon;
a health check takes several iterations of the loop, none of which is long.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from time import monotonic, perf_counter
from typing import TypeVar

SLICE_SECONDS = 0.005  # of work before it is other clients' turn
FIRST_SECONDS = 0.0005  # of a newcomer's
SMALL_SECONDS = 0.0005  # work that is shorter is not counted
TURN_SECONDS = 0.02  # of slices in one iteration of the event loop; as much for those of newcomers
TURNS = 4  # slices in it that take() gives: how long they last is not known

T = TypeVar("T")


class Lane:
    """Who waits for a turn, and how much time is left in this iteration of the loop.

    Work may be done at once where no one waits, and there is time left.
    """

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], object]] = deque()
        self.left = TURN_SECONDS


class Turns:
    """Turns of all work that may take long; in each iteration of the event loop a few."""

    def __init__(self) -> None:
        self.newcomers, self.others = Lane(), Lane()
        self._is_running = False

    def spend(self, lane: Lane, seconds: float) -> None:
        """Count work that was done at once; less than SMALL_SECONDS need not be counted."""
        lane.left -= seconds
        self._run_soon()

    def add(self, lane: Lane, turn: Callable[[], object]) -> None:
        """Call turn() in its turn: it works for one slice."""
        lane.waiting.append(turn)
        self._run_soon()

    async def take(self) -> None:
        """Wait for a turn; the first ones of an iteration come at once."""
        lane = self.others
        if lane.left > 0 and not lane.waiting:
            self.spend(lane, TURN_SECONDS / TURNS)
            return
        turn = asyncio.get_running_loop().create_future()

        def give() -> None:
            if not turn.done():  # else the task was cancelled
                lane.left -= TURN_SECONDS / TURNS
                turn.set_result(None)

        self.add(lane, give)
        await turn

    def _run_soon(self) -> None:
        if not self._is_running:
            self._is_running = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Begin an iteration: give turns while there is time."""
        self._is_running = False
        for lane in (self.newcomers, self.others):
            lane.left = TURN_SECONDS
            for _ in range(len(lane.waiting)):  # who comes again has a turn in the next iteration
                began = monotonic()
                lane.waiting.popleft()()
                lane.left -= monotonic() - began
                if lane.left <= 0:
                    break
            if lane.waiting or lane.left < TURN_SECONDS:
                self._run_soon()


async def in_slices(items: Iterable[T], turns: Turns) -> AsyncIterator[T]:
    """Yield items; every few milliseconds it is the turn of others."""
    until = 0.0
    for item in items:
        if perf_counter() > until:
            await turns.take()
            until = perf_counter() + SLICE_SECONDS
        yield item


class Room:
    """Bytes that work under way may take. Who does not fit waits; who came first goes on, whatever it takes.

    total    of all
    waiting  those who wait for more
    """

    def __init__(self, most: int) -> None:
        self.total = 0
        self.waiting: list[Future[None]] = []
        self._most = most
        self._held: dict[object, int] = {}  # by holder, in the order in which they came

    async def take(self, holder: object, size: int) -> None:
        """Hold so many bytes more, once there is room for them."""
        self._held.setdefault(holder, 0)
        while self.total + size > self._most and holder is not next(iter(self._held)):
            turn = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            await turn
        self._held[holder] += size
        self.total += size

    def leave(self, holder: object) -> None:
        """Give back what a holder has."""
        self.total -= self._held.pop(holder, 0)
        waiting, self.waiting = self.waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)
