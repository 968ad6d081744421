"""A store of a million and a half documents: killed while it is filled.

The index merges files by their ratio (segmented_table.RATIO): ten million take no branch that these do not.

What is told at the end are seconds by the clock, of one run.
"""

import random
import shutil
import time

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
KILLS = 5
FREE_BYTES = 1_500_000_000


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


def test_promise_6_kills_at_any_moment_lose_nothing_that_was_acknowledged(tmp_path, tell):
    """A step is a transaction: it is there as a whole or not at all, and once acknowledged it is there."""
    if (free := shutil.disk_usage(tmp_path).free) < FREE_BYTES:
        pytest.skip(f"{tmp_path} has {free:,} bytes free of the {FREE_BYTES:,} that it takes")
    seed, begin, opened = seed_of("KILLS"), time.perf_counter(), []
    chance = random.Random(seed)
    for step in sorted(chance.sample(range(100, STEPS - 50), KILLS)):
        filling = Filling(tmp_path, STEPS)
        filling.read(step)
        filling.kill(chance.random())
        killed = time.perf_counter()
        with Store.open(tmp_path, NAMESPACE, create=False) as store:
            opened.append(round(time.perf_counter() - killed, 1))
            steps = steps_of(len(store))
            assert filling.acknowledged <= steps <= filling.acknowledged + 1
            sampled(store, steps, chance)
            store._fits = False  # nothing is written at the end: left as if killed once more
    Filling(tmp_path, STEPS).end()
    seconds = time.perf_counter() - begin
    tell(f"a million and a half: {seconds:.0f} s, KILLS_SEED={seed}, opened in {opened} s")
    with Store.open(tmp_path, NAMESPACE, create=False) as store:
        compared(store, STEPS)
