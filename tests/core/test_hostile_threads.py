"""The thread rule, from Python: a Table is shared freely, and every answer is exact.

Documents are stored in a fixed order, so an answer has an exact meaning while another thread
inserts: it is that of a scan of the first n documents, for some n between how many were stored
before the probe and how many after it. native/tests/test_threads.c holds the native core to the
same under ThreadSanitizer.
"""

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sketches import sketch

from dedup.core.pairs import find_all, find_clusters
from dedup.core.table import Table
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store

COUNT, BATCH, CENTERS, K, PROBERS = 20_000, 50, 900, 3, 4


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


class Inserter:
    """Inserts all values in order, in batches, and knows how far it has begun and come."""

    def __init__(self) -> None:
        self.begun = self.stored = 0

    def run(self, table: Table, values: list[int]) -> None:
        for first in range(0, COUNT, BATCH):
            self.begun = first + BATCH
            documents = np.arange(first, first + BATCH)
            assert table.insert_many(values[first : first + BATCH], documents) == BATCH
            self.stored = first + BATCH


def check_exact(found: list[int], all_of_them: list[int], least: int, most: int) -> None:
    """An answer is that of the first n documents, with n from least to most."""
    assert sorted(found) == all_of_them[: len(found)]
    assert all(document < most for document in found)
    assert len(found) == len(all_of_them) or all_of_them[len(found)] >= least


def test_probes_are_exact_while_another_thread_inserts(tmp_path: Path) -> None:
    """Threads probe, save and find all pairs beside one that inserts: no answer is torn."""
    values = clustered(COUNT)
    queries = random.Random(6).sample(values, 60)
    expected = {query: neighbours(values, query) for query in queries}
    table, inserter = Table(K), Inserter()
    pairs = find_all(values[:2_000], K)
    labels = find_clusters(values[:2_000], K)

    def probe(number: int) -> int:
        own, probes = random.Random(number), 0
        while inserter.stored < COUNT or not probes:
            chosen = own.sample(queries, 8)
            least = inserter.stored
            offsets, documents, _ = table.probe_many(chosen)
            single = [match.document for match in table.probe(chosen[0])]
            most = inserter.begun
            check_exact(single, expected[chosen[0]], least, most)
            for i, query in enumerate(chosen):
                found = documents[offsets[i] : offsets[i + 1]].tolist()
                check_exact(found, expected[query], least, most)
            probes += 1
        return probes

    def save(_: int) -> int:
        saves = 0
        while inserter.stored < COUNT or not saves:
            least = inserter.stored
            table.save(tmp_path / "table")
            assert least <= len(Table.load(tmp_path / "table", K)) <= inserter.begun
            assert least <= len(table) <= inserter.begun
            saves += 1
        return saves

    def pair(_: int) -> int:
        rounds = 0
        while inserter.stored < COUNT or not rounds:
            assert (find_all(values[:2_000], K) == pairs).all()
            assert (find_clusters(values[:2_000], K) == labels).all()
            rounds += 1
        return rounds

    with ThreadPoolExecutor(PROBERS + 3) as pool:
        others = [pool.submit(probe, number) for number in range(PROBERS)]
        others += [pool.submit(save, 0), pool.submit(pair, 0)]
        pool.submit(inserter.run, table, values).result()
        assert all(other.result() for other in others)
    for query in queries:
        found = sorted(match.document for match in table.probe(query))
        assert found == expected[query]


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
