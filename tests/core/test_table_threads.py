"""Threads share a table: probes side by side, one change at a time, and none of them starves."""

import threading
import time
from pathlib import Path

import numpy as np
from table_oracle import clustered, uniform

from dedup.core.table import Match, ReadWriteLock, Table


def test_probes_are_right_while_another_thread_inserts(tmp_path: Path) -> None:
    """Four threads probe what is stored while one inserts, removes and saves: each sees it all."""
    rng = np.random.default_rng(8)
    values = clustered(rng, 60_000, 500)
    table = Table(3)
    table.insert_many(values[:5_000], np.arange(5_000))
    done, failures, probes = threading.Event(), [], [0] * 4

    def probe(number: int) -> None:
        own = np.random.default_rng(number)
        try:
            while not done.is_set() or not probes[number]:
                at = own.integers(0, 5_000, 40)
                offsets, documents, _ = table.probe_many(values[at])
                for i, document in enumerate(at.tolist()):
                    assert document in documents[offsets[i] : offsets[i + 1]]
                assert any(m.document == at[0] for m in table.probe(int(values[at[0]])))
                assert len(table) >= 5_000
                probes[number] += 1
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=probe, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for start in range(5_000, 60_000, 500):
            end = start + 500
            assert table.insert_many(values[start:end], np.arange(start, end)) == 500
            assert table.remove(int(values[start]), start)
        table.save(tmp_path / "t")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert all(probes)
    assert len(table) == 60_000 - 110
    assert len(Table.load(tmp_path / "t")) == len(table)


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


def test_a_writer_that_comes_back_lets_waiting_readers_in_first() -> None:
    """Who waits while a writer is inside comes in before the next writer: none is passed over."""
    lock, order = ReadWriteLock(), []

    def come_in(kind: str) -> None:
        with lock.writing if kind == "writer" else lock.reading:
            order.append(kind)

    threads = []
    with lock.writing:
        for kind in ("writer", "reader", "writer", "reader"):
            waiting = lock.waiting_readers + lock.waiting_writers
            threads.append(threading.Thread(target=come_in, args=(kind,)))
            threads[-1].start()
            while lock.waiting_readers + lock.waiting_writers == waiting:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == ["reader", "reader", "writer", "writer"]
