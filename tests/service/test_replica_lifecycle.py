"""The states of a replica: the moves that exist, and waiting for one without polling."""

import asyncio
import itertools

import pytest

from dedup.service.replica import CAUGHT_UP, SERVING, STATUS, Lifecycle, Phase

MOVES = {
    (Phase.CONNECTING, Phase.CATCHING_UP),
    (Phase.CONNECTING, Phase.RESUMED),
    (Phase.CATCHING_UP, Phase.CONNECTING),
    (Phase.CATCHING_UP, Phase.FOLLOWING),
    (Phase.RESUMED, Phase.FOLLOWING),
    (Phase.FOLLOWING, Phase.STALE),
    (Phase.STALE, Phase.FOLLOWING),
}
ENDED = (Phase.FAILED, Phase.STOPPED)
LIVE = [phase for phase in Phase if phase not in ENDED]


def at(phase: Phase) -> Lifecycle:
    lifecycle = Lifecycle()
    lifecycle.phase = phase
    return lifecycle


@pytest.mark.parametrize(("before", "after"), list(itertools.product(LIVE, LIVE)))
def test_only_the_moves_of_the_picture_exist(before: Phase, after: Phase) -> None:
    """Any other move is a mistake of ours and raises; to the same state nothing happens."""
    lifecycle = at(before)
    if before is after or (before, after) in MOVES:
        lifecycle.move(after)
        assert lifecycle.phase is after
    else:
        with pytest.raises(ValueError, match=f"from {before.name} to {after.name}"):
            lifecycle.move(after)
        assert lifecycle.phase is before


@pytest.mark.parametrize(("before", "end"), list(itertools.product(LIVE, ENDED)))
def test_every_state_can_fail_or_be_stopped_and_an_end_lasts(before: Phase, end: Phase) -> None:
    """What a replica ended by is kept, whatever is called afterwards."""
    lifecycle = at(before)
    lifecycle.move(end, "why")
    for phase in Phase:
        lifecycle.move(phase, "later")
    assert (lifecycle.phase, lifecycle.reason) == (end, "why")


def test_once_it_serves_it_serves_until_an_end() -> None:
    """No move leads from a serving state to one that does not serve; none from caught up back."""
    for before, after in MOVES:
        assert before not in SERVING or after in SERVING
        assert before not in CAUGHT_UP or after in CAUGHT_UP


def test_the_names_on_the_wire() -> None:
    """DEDUP.INFO's log_status."""
    assert {STATUS[phase] for phase in Phase} == {
        "connecting", "catching_up", "current", "stale", "failed", "stopped",
    }  # fmt: skip
    assert STATUS[Phase.RESUMED] == STATUS[Phase.STALE] == "stale"


def test_a_state_can_be_awaited() -> None:
    """Who waits wakes at the first of the asked states, and at no other."""

    async def main() -> None:
        lifecycle = Lifecycle()
        serving = asyncio.ensure_future(lifecycle.reached(*SERVING))
        catching_up = asyncio.ensure_future(lifecycle.reached(Phase.CATCHING_UP))
        await asyncio.sleep(0)
        lifecycle.move(Phase.CATCHING_UP)
        assert await catching_up is Phase.CATCHING_UP
        assert not serving.done()
        lifecycle.move(Phase.FOLLOWING)
        lifecycle.move(Phase.STALE)  # before the other task could run
        assert await serving is Phase.FOLLOWING
        assert await lifecycle.reached(Phase.STALE) is Phase.STALE

    asyncio.run(main())


@pytest.mark.parametrize("end", ENDED)
def test_an_end_ends_every_wait(end: Phase) -> None:
    """Nobody waits for a state that cannot come any more."""

    async def main() -> None:
        lifecycle = Lifecycle()
        waiting = asyncio.ensure_future(lifecycle.reached(Phase.FOLLOWING))
        await asyncio.sleep(0)
        lifecycle.move(end, "why")
        assert await waiting is end
        assert await lifecycle.reached(Phase.FOLLOWING) is end

    asyncio.run(main())


def test_a_wait_may_be_cancelled() -> None:
    """The others are woken all the same."""

    async def main() -> None:
        lifecycle = Lifecycle()
        cancelled = asyncio.ensure_future(lifecycle.reached(Phase.FOLLOWING))
        waiting = asyncio.ensure_future(lifecycle.reached(Phase.FOLLOWING))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait({cancelled})
        lifecycle.move(Phase.CATCHING_UP)
        lifecycle.move(Phase.FOLLOWING)
        assert await waiting is Phase.FOLLOWING

    asyncio.run(main())
