"""Threads share a table: probes side by side, one change at a time, and none of them starves."""

import threading
import time

import numpy as np
from table_oracle import uniform

from dedup.core.table import Match, ReadWriteLock, Table


def test_a_large_insert_lets_probes_in() -> None:
    """A probe that comes while a million pairs are inserted is answered before they all are."""
    values = uniform(np.random.default_rng(9), 1_000_000)
    table = Table(3, "compact")
    table.insert(int(values[0]), 0)
    started, done, seen = threading.Event(), threading.Event(), []

    def insert() -> None:
        started.set()
        assert table.insert_many(values, np.arange(1_000_000)) == 999_999
        done.set()

    thread = threading.Thread(target=insert)
    thread.start()
    started.wait()
    while not done.is_set():
        assert table.probe(int(values[0]), limit=1) == [Match(0, int(values[0]), 0)]
        seen.append(len(table))
    thread.join()
    assert done.is_set()
    assert any(1 < count < 1_000_000 for count in seen)
    assert seen == sorted(seen)
    assert len(table) == 1_000_000


def test_who_waits_comes_in_in_its_turn() -> None:
    """A reader behind a writer waits for it, a writer for the readers before it: none is passed over."""
    lock, order = ReadWriteLock(), []

    def come_in(kind: str) -> None:
        with lock.writing if kind == "writer" else lock.reading:
            order.append(kind)

    kinds, threads = ["writer", "reader", "writer", "reader"], []
    with lock.reading:
        for number, kind in enumerate(kinds, 1):
            threads.append(threading.Thread(target=come_in, args=(kind,)))
            threads[-1].start()
            while len(lock.waiting) < number:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == kinds
