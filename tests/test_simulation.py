"""Spiders, services and a log in thousands of orders (simulation.py): every promise is kept."""

import os
import tempfile
from pathlib import Path

import pytest
import simulation
from seeds import seed_of

SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", "1000"))
FIRST = seed_of("SIMULATION")


@pytest.fixture
def folder():
    """A folder in memory, where there is one: each schedule makes stores."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


def test_every_promise_is_kept_in_every_schedule(folder, tell):
    """No page dropped without an accepted original, none of a group lost, none its own duplicate,
    replicas equal to the log: whatever crashes, is late, or is not acknowledged."""
    dropped = 0
    for seed in range(FIRST, FIRST + SCHEDULES):
        wrongs, count = simulation.run(seed, folder)
        assert not wrongs, f"SIMULATION_SEED={seed} SIMULATION_SCHEDULES=1: {wrongs}"
        dropped += count
    tell(
        f"simulation: {SCHEDULES} schedules from seed {FIRST}, {dropped} pages dropped, all rightly"
    )
    assert dropped > SCHEDULES  # they are about something


@pytest.mark.parametrize(
    ("mutation", "wrong"),
    [
        ("drop for pages in flight", "nobody has processed"),
        ("drop for pages in flight", "no page was kept"),
        ("acknowledge early", "was acknowledged and is not at"),
        ("let go at the acknowledgement", "which accepted it"),
        ("lose a record", "the log"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_simulation_finds_what_is_wrong(folder, mutation, wrong):
    """With a rule broken on purpose, some schedule shows it."""
    found = (simulation.run(seed, folder, mutation)[0] for seed in range(2000))
    assert any(wrong in text for wrongs in found for text in wrongs)
