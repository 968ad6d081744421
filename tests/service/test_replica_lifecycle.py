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


@pytest.mark.parametrize(("before", "after"), list(itertools.product(LIVE, Phase)))
def test_only_the_moves_of_the_picture_exist_and_an_end_lasts(before: Phase, after: Phase) -> None:
    """Any other move is a mistake of ours and raises; no move leads from serving, or caught up, back."""
    lifecycle = Lifecycle()
    lifecycle.phase = before
    if before is after or after in ENDED or (before, after) in MOVES:
        lifecycle.move(after, "why")
        assert lifecycle.phase is after
        assert before not in SERVING or after in (*SERVING, *ENDED)
        assert before not in CAUGHT_UP or after in (*CAUGHT_UP, *ENDED)
    else:
        with pytest.raises(ValueError, match=f"from {before.name} to {after.name}"):
            lifecycle.move(after)
        assert lifecycle.phase is before
    if after in ENDED:
        for phase in Phase:
            lifecycle.move(phase, "later")
        assert (lifecycle.phase, lifecycle.reason) == (after, "why")


def test_the_names_on_the_wire() -> None:
    """DEDUP.INFO's log_status."""
    names = {"connecting", "catching_up", "current", "stale", "failed", "stopped"}
    assert set(STATUS.values()) == names
    assert STATUS[Phase.RESUMED] == STATUS[Phase.STALE] == "stale"


@pytest.mark.parametrize("end", ENDED)
async def test_a_state_can_be_awaited(end: Phase) -> None:
    """Who waits wakes at the first of the asked states, and at no other, or at an end; a wait may be cancelled."""
    lifecycle = Lifecycle()
    waits = [SERVING, (Phase.CATCHING_UP,), (Phase.STALE,), (Phase.RESUMED,)]
    serving, catching_up, cancelled, never = (
        asyncio.ensure_future(lifecycle.reached(*phases)) for phases in waits
    )
    await asyncio.sleep(0)
    cancelled.cancel()
    lifecycle.move(Phase.CATCHING_UP)
    assert await catching_up is Phase.CATCHING_UP
    assert not serving.done()
    lifecycle.move(Phase.FOLLOWING)
    lifecycle.move(Phase.STALE)  # before the other task could run
    assert await serving is Phase.FOLLOWING
    assert await lifecycle.reached(Phase.STALE) is Phase.STALE
    lifecycle.move(end, "why")
    assert await never is end
    assert await lifecycle.reached(Phase.FOLLOWING) is end
