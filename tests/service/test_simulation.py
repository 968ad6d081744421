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
@pytest.mark.parametrize(
    ("name", "shards", "schedules"),
    [("one store", None, SCHEDULES), ("shards", 0, (SCHEDULES + 1) // 2)],
    ids=["one store", "shards"],
)
def test_every_promise_is_kept_in_every_schedule(folder, tell, name, shards, schedules):
    """No page dropped without an accepted original, none of a group lost, none its own duplicate,
    replicas equal to the log, no two that wait for each other: whatever crashes, moves, is late, or
    is not acknowledged."""
    counts = Counter()
    for seed in range(FIRST, FIRST + schedules):
        found = simulation.run(seed, folder, shards=shards)
        assert not found.wrongs, f"SIMULATION_SEED={seed} SIMULATION_SCHEDULES=1: {found.wrongs}"
        counts += found.counts
    said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    tell(f"simulation, {name}: {schedules} schedules from seed {FIRST}: {said}")
    if schedules >= 100:  # they are about something
        assert counts["dropped"] > schedules


SHARDS = {"shards": 0, "faults": False}


@pytest.mark.parametrize(
    ("mutation", "options", "wrong"),
    [
        ("drop for pages in flight", {}, "nobody has processed"),
        pytest.param("drop for pages in flight", {}, "no page was kept", marks=pytest.mark.long),
        ("acknowledge early", {}, "was acknowledged and is not at"),
        pytest.param("let go at the acknowledgement", {}, "which accepted it", marks=pytest.mark.long),
        ("lose a record", {}, "the log"),
        ("both decide", SHARDS, "is to wait where that is not decided"),
        ("both decide", SHARDS, "wait for each other"),
        ("nobody decides", SHARDS, "is unique, beside"),
        ("accepted pages do not count", SHARDS, "is unique, beside"),
        pytest.param("release early", SHARDS, "is unique, beside", marks=pytest.mark.long),
        ("do not ask the home", SHARDS, "which accepted it"),
        ("take the first answer", SHARDS, "is unique, beside"),
    ],
)  # fmt: skip
def test_the_simulation_finds_what_is_wrong(folder, mutation, options, wrong):
    """With a rule broken on purpose, some schedule shows it."""
    found = (simulation.run(seed, folder, mutation, **options).wrongs for seed in range(2000))
    assert any(wrong in text for wrongs in found for text in wrongs)
