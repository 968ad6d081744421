"""The states of a replica of the log, the moves between them, how to wait for one; what it reports.

    CONNECTING <-> CATCHING_UP ---> FOLLOWING <-> STALE
        |                               ^
        +-------> RESUMED --------------+            any of them -> FAILED | STOPPED

    CONNECTING   Kafka has not answered, or the log is being checked; pages are not answered for
    CATCHING_UP  the log is read for the first time in this run; pages are not answered for
    RESUMED      Kafka did not answer at the start: the stores of an earlier run, which had caught up,
                 serve while the log is looked for, checked and read
    FOLLOWING    everything that was in the log has been applied, and new records are as they come
    STALE        caught up once, but Kafka does not answer or a store takes no writes; serves on
    FAILED       the log cannot be followed any further: the reason says why
    STOPPED      stop() was called

The rule kept here: only Lifecycle.move() changes the state, along these arrows. Once a replica serves
it serves until it fails or is stopped: a restart of Kafka does not end readiness.
"""

import asyncio
from enum import Enum, auto

import msgspec

__all__ = ["CAUGHT_UP", "SERVING", "STATUS", "Lifecycle", "Phase", "State"]


class Phase(Enum):
    """A state of a replica; see the module."""

    CONNECTING = auto()
    CATCHING_UP = auto()
    RESUMED = auto()
    FOLLOWING = auto()
    STALE = auto()
    FAILED = auto()
    STOPPED = auto()


SERVING = frozenset({Phase.RESUMED, Phase.FOLLOWING, Phase.STALE})
CAUGHT_UP = frozenset({Phase.FOLLOWING, Phase.STALE})  # in this run
ENDED = frozenset({Phase.FAILED, Phase.STOPPED})

STATUS = {
    Phase.CONNECTING: "connecting",
    Phase.CATCHING_UP: "catching_up",
    Phase.RESUMED: "stale",
    Phase.FOLLOWING: "current",
    Phase.STALE: "stale",
    Phase.FAILED: "failed",
    Phase.STOPPED: "stopped",
}  # as DEDUP.INFO says it

_MOVES = {
    Phase.CONNECTING: {Phase.CATCHING_UP, Phase.RESUMED},
    Phase.CATCHING_UP: {Phase.CONNECTING, Phase.FOLLOWING},
    Phase.RESUMED: {Phase.FOLLOWING},
    Phase.FOLLOWING: {Phase.STALE},
    Phase.STALE: {Phase.FOLLOWING},
    Phase.FAILED: set(),
    Phase.STOPPED: set(),
}


class Lifecycle:
    """The state of one replica. For one event loop.

    phase   where it is now
    reason  what it failed by; "" until then
    """

    def __init__(self) -> None:
        self.phase = Phase.CONNECTING
        self.reason = ""
        self._waiting: list[tuple[frozenset[Phase], asyncio.Future[Phase]]] = []

    def move(self, phase: Phase, reason: str = "") -> None:
        """Go to another state, and wake who waits for it. To the one that it is in: nothing happens.

        An ended replica stays as it ended. Raises ValueError for a move that the module does not show.
        """
        if phase is self.phase or self.phase in ENDED:
            return
        if phase not in ENDED and phase not in _MOVES[self.phase]:
            raise ValueError(f"a replica does not go from {self.phase.name} to {phase.name}")
        self.phase, self.reason = phase, reason
        waiting, self._waiting = self._waiting, []
        for wanted, future in waiting:
            if future.done():  # who waited was cancelled
                continue
            if phase in wanted:
                future.set_result(phase)
            else:
                self._waiting.append((wanted, future))

    async def reached(self, *phases: Phase) -> Phase:
        """Wait until one of these states is reached; return it.

        FAILED and STOPPED end the wait too, as no other state follows.
        """
        wanted = ENDED | frozenset(phases)
        if self.phase in wanted:
            return self.phase
        future: asyncio.Future[Phase] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        return await future


class State(msgspec.Struct, frozen=True):
    """What a replica reports, in plain values.

    status           connecting, catching_up, current, stale (Kafka is away, or a store takes no
                     writes), failed, stopped: see STATUS
    reason           why it is not current, for people; "" if it is
    ready            whether it serves: it has caught up once and not failed since
    lag_records      offsets of the log, as last heard, that are not applied
    behind_seconds   since it was last known to have everything; 0 while it has
    away_seconds     since Kafka last answered; 0 while it does
    manifest_seconds since the last manifest; restart reads the log from there
    offsets          {partition: next offset}
    ends             {partition: end offset}, as last heard
    counts           inserted, replaced, forgotten, late_duplicate, repeated, other_recipe,
                     dead_letters, refused (of namespaces that cannot be created), given_up
                     (documents of other shards), misplaced (events in another partition than their
                     key's, which are skipped)
    """

    status: str
    reason: str
    ready: bool
    lag_records: int
    behind_seconds: float
    away_seconds: float
    manifest_seconds: float
    offsets: dict[int, int]
    ends: dict[int, int]
    counts: dict[str, int]
