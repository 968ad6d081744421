"""The thread rule of a store: threads that probe beside one that inserts see what was stored, and no more.

native/tests/test_threads.c holds the native core to it under ThreadSanitizer, test_table_threads.py a Table.
"""

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sketches import sketch

from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store

CENTERS, K, PROBERS = 900, 3, 4


@pytest.fixture(autouse=True)
def switch_often():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def clustered(count: int) -> list[int]:
    """Return values of which many lie within K of each other."""
    rng = random.Random(5)
    centers = [rng.getrandbits(64) for _ in range(CENTERS)]
    return [
        rng.choice(centers) ^ sum({1 << rng.randrange(64) for _ in range(rng.randrange(4))})
        for _ in range(count)
    ]


def neighbours(values: list[int], query: int) -> list[int]:
    """Return the documents within K of a query, by a scan, in the order in which they come."""
    return [i for i, value in enumerate(values) if (value ^ query).bit_count() <= K]


def test_a_store_is_exact_while_another_thread_inserts(tmp_path: Path) -> None:
    """Threads that look for near documents of a store see each stored one, while one inserts."""
    values, documents = clustered(600), []
    for i, value in enumerate(values):
        page = PageFingerprint(value, sketch(i), 9, 300, NEWEST)
        documents.append(Document(f"http://example.com/{i}", page, "example.com", 1.0))
    queries = values[:40]
    expected = {query: neighbours(values, query) for query in queries}
    done = threading.Event()
    stored = 0

    def look(number: int) -> None:
        own = random.Random(number)
        while True:
            ended, query, least = done.is_set(), own.choice(queries), stored
            found = {int(d.key.rpartition("/")[2]) for d, _ in store.near(query, K)}
            assert found <= set(expected[query])
            assert found >= {i for i in expected[query] if i < least}
            if ended:
                return

    with Store.open(tmp_path, k=K) as store, ThreadPoolExecutor(PROBERS) as pool:
        threads = [pool.submit(look, number) for number in range(PROBERS)]
        try:
            for document in documents:
                store.insert(document)
                stored += 1
        finally:
            done.set()
        for thread in threads:
            thread.result()
