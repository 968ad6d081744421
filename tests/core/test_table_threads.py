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


def test_a_writer_comes_in_however_many_readers_there_are() -> None:
    """Readers that never all leave do not keep it out, and one alone is inside with it."""
    lock, inside, done = ReadWriteLock(), [], threading.Event()

    def read() -> None:
        while not done.is_set():
            with lock.reading:
                inside.append("reader")
                assert "writer" not in inside
                time.sleep(0.001)
                inside.remove("reader")

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        with lock.writing:
            assert not inside
            inside.append("writer")
            time.sleep(0.001)
            inside.remove("writer")
    done.set()
    for reader in readers:
        reader.join()
