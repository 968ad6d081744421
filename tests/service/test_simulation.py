"""Spiders, services and a log in thousands of orders (simulation/): every promise is kept."""

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import simulation
from seeds import seed_of
from sizes import sized

SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", sized(quick=40, full=600)))
FIRST = seed_of("SIMULATION")

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def folder():
    """A folder in memory, where there is one: each schedule makes stores."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.mark.sized
def test_every_promise_is_kept_in_every_schedule(folder, tell):
    """No page dropped without an accepted original, none of a group lost, none its own duplicate,
    replicas equal to the log, no two that wait for each other: whatever crashes, or is not acknowledged."""
    counts = Counter()
    for seed in range(FIRST, FIRST + SCHEDULES):
        found = simulation.run(seed, folder)
        assert not found.wrongs, f"SIMULATION_SEED={seed} SIMULATION_SCHEDULES=1: {found.wrongs}"
        counts += found.counts
    said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    tell(f"simulation: {SCHEDULES} schedules from seed {FIRST}: {said}")
    if SCHEDULES >= 100:  # they are about something
        assert counts["dropped"] > SCHEDULES


@pytest.mark.parametrize(
    ("mutation", "wrong"),
    [
        ("drop for pages in flight", "nobody has processed"),
        pytest.param("drop for pages in flight", "no page was kept", marks=pytest.mark.long),
        ("acknowledge early", "was acknowledged and is not at"),
        pytest.param("let go at the acknowledgement", "which accepted it", marks=pytest.mark.long),
        ("lose a record", "the log"),
    ],
)
def test_the_simulation_finds_what_is_wrong(folder, mutation, wrong):
    """With a rule broken on purpose, some schedule shows it."""
    found = (simulation.run(seed, folder, mutation).wrongs for seed in range(2000))
    assert any(wrong in text for wrongs in found for text in wrongs)
