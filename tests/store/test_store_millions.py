"""A store of a million and a half documents: killed while it is filled, damaged, copied; some of it as text.

The index merges files by their ratio (segmented_table.RATIO): ten million take no branch that these do not.

What is told at the end are seconds by the clock, of one run.
"""

import json
import logging
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from millions import (
    NAMESPACE,
    NEW,
    Filling,
    all_after,
    document,
    documents_after,
    key_of,
    steps_of,
    value_of,
    values_of,
    version_of,
)
from seeds import seed_of

from dedup.store import Store
from dedup.store.documents import key_digest

pytestmark = pytest.mark.long

STEPS = 379  # 1,500,840 documents
SOME = 125
KILLS = 5
FREE_BYTES = 1_500_000_000

Tell = Callable[[str], None]


class Kill(NamedTuple):
    """The steps acknowledged before a kill and found after it, and how long opening took."""

    acknowledged: int
    found: int
    seconds: float


class Filled(NamedTuple):
    """The store, a copy of its folder, one of a part, and the kills that it met."""

    path: Path
    copy: Path
    part: Path
    kills: list[Kill]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, tell: Tell) -> Iterator[Filled]:
    top = tmp_path_factory.mktemp("millions")
    free = shutil.disk_usage(top).free
    if free < FREE_BYTES:
        pytest.skip(f"{top} has {free:,} bytes free of the {FREE_BYTES:,} that they take")
    seed = seed_of("KILLS")
    made = Filled(top / "store", top / "copy", top / "part", [])
    try:
        begin = time.perf_counter()
        Filling(made.path, SOME).end()
        shutil.copytree(made.path, made.part)
        chance = random.Random(seed)
        for step in sorted(chance.sample(range(SOME, STEPS - 50), KILLS)):
            filling = Filling(made.path, STEPS)
            filling.read(step)
            filling.kill(chance.random())
            made.kills.append(_opened_after(made.path, filling.acknowledged, chance))
        Filling(made.path, STEPS).end()
        seconds = time.perf_counter() - begin
        tell(f"a million and a half: filled in {seconds:.0f} s, KILLS_SEED={seed}: {made.kills}")
        shutil.copytree(made.path, made.copy)
        yield made
    finally:
        shutil.rmtree(top)


def _opened_after(path: Path, acknowledged: int, chance: random.Random) -> Kill:
    """Open a store after a kill, see to it that it answers rightly, and leave it as if killed once more."""
    begin = time.perf_counter()
    with Store.open(path, NAMESPACE, create=False) as store:
        seconds = time.perf_counter() - begin
        steps = steps_of(len(store))
        sampled(store, steps, chance)
        store._fits = False  # nothing is written at the end
    return Kill(acknowledged, steps, seconds)


def sampled(store: Store, steps: int, chance: random.Random) -> None:
    """Assert that what the last steps changed, and 3,000 documents by chance, are as the steps say."""
    end = steps * NEW
    block = max(0, (steps - 2) // 2) * NEW
    numbers = [
        *range(end - 3 * NEW, end, 7),
        *(n for n in range(max(0, block - NEW), min(block + 2 * NEW, end)) if n % 100 < 4),
        *chance.sample(range(end), 3000),
    ]
    expected = [version_of(n, steps) for n in numbers]
    for version in (0, 1):
        values = [value_of(n, version) for n in numbers]
        near = store.near_many(np.array(values, np.uint64), 0)
        for i, (n, there) in enumerate(zip(numbers, expected, strict=True)):
            keys = [held.key for held, _ in near.get(i, [])]
            assert (key_of(n) in keys) == (there == version), (n, version)
    for n, there in zip(numbers, expected, strict=True):
        assert store.get(key_of(n)) == (None if there is None else document(n, there))


def compared(store: Store, steps: int) -> None:
    """Assert that the index has every document that the steps left, and no other."""
    assert (
        len(store) == documents_after(steps) == len(store._index.values) == len(store._index.keys)
    )
    numbers, versions, ids = all_after(steps)
    values = values_of(numbers, versions)
    for begin in range(0, len(ids), 500_000):
        part = slice(begin, begin + 500_000)
        digests = np.array([key_digest(key_of(n)) for n in numbers[part].tolist()], np.uint64)
        assert all(store._index.values.has(values[part], ids[part]))
        assert all(store._index.keys.has(digests, ids[part]))


@contextmanager
def command(*arguments: object) -> Iterator[Callable[[], bytes]]:
    """Run a command of dedup beside the block; what it gives waits for its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dedup", *map(str, arguments)], stdout=subprocess.PIPE
    )

    def output() -> bytes:
        said = process.communicate()[0]
        assert process.returncode == 0
        return said

    with process:
        try:
            yield output
        finally:
            process.kill()


def test_promise_6_kills_at_any_moment_lose_nothing_that_was_acknowledged(filled):
    """A step is a transaction: it is there as a whole or not at all, and once acknowledged it is there."""
    assert len(filled.kills) == KILLS
    for kill in filled.kills:
        assert kill.acknowledged <= kill.found <= kill.acknowledged + 1
    with Store.open(filled.path, NAMESPACE, create=False) as store:
        compared(store, STEPS)


def largest(folder: Path) -> Path:
    return max(folder.glob("segment-*"), key=lambda path: path.stat().st_size)


def test_promise_6_a_damaged_index_is_made_again_beside_a_copy_that_is_sound(filled, caplog, tell):
    """Its file is named. The copy of the closed store's folder, as a backup, is verified meanwhile."""
    with command("store", "verify", filled.copy, "--json") as verified:
        begin = time.perf_counter()
        segment = largest(filled.path / NAMESPACE / "values")
        with segment.open("r+b") as file:
            file.seek(segment.stat().st_size // 3)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))
        with caplog.at_level(logging.WARNING), Store.open(filled.path, NAMESPACE) as store:
            tell(f"its index made again in {time.perf_counter() - begin:.0f} s")
            assert str(segment) in caplog.text
            assert len(store) == documents_after(STEPS)
            sampled(store, STEPS, random.Random(1))
        (report,) = json.loads(verified())["stores"]
    assert (report["problems"], report["documents"]) == ([], documents_after(STEPS))
    assert report["indexed"] > documents_after(STEPS) - 1000
