"""What a page costs a table service: RESERVE, INSERT and RELEASE over RESP, in CPU time of the service.

    commands  documents -> a real `dedup serve` -> commands, one at a time and 16 deep
    log       a real broker, two services of one topic -> what an INSERT costs the one that was asked
              until it is applied, and what the event costs the other

Invariants: CPU time is that of the service's whole process, system calls included; how long
an answer takes is measured with one command under way, so that nothing waits for anything else.
"""

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dedup.lab.bench import Bench, Progress, Round
from dedup.lab.bench.service import DEEP, Connection, Pages, cpu_seconds, ending, fill, serving
from dedup.lab.bench.store import NAMESPACE, memory_of
from dedup.lab.capacity import ANSWER_SHARES

LOG_DEPTH = 64  # pages whose inserts wait for Kafka at once
ALONE = 200
WARM_UP = 1000  # pages
WAIT_SECONDS = 120.0
CPU, CPU_DEEP = "us of CPU", f"us of CPU, {DEEP} in a write"
WIRE = "B on the wire"  # of a command and its answer, its key included


def answered(share: float) -> str:
    """Return the row that says within how many microseconds this share of the answers to RESERVE came."""
    return f"{share:.2%} of the answers to RESERVE"


class _Meter:
    """CPU time of a process for a number of commands, and what went over the wire."""

    def __init__(self, process: "subprocess.Popen[str]", connection: Connection) -> None:
        self._process, self._connection = process, connection
        self.walls: list[float] = []
        self.bytes = 0.0

    def run(self, commands: list[tuple[str, ...]], depth: int) -> tuple[float, list[Any]]:
        """Return microseconds of CPU a command, and the answers."""
        connection = self._connection
        before = cpu_seconds(self._process)
        wire = connection.sent + connection.received
        answers: list[Any] = []
        self.walls = []
        for i in range(0, len(commands), depth):
            began = time.perf_counter()
            answers += connection.ask(commands[i : i + depth])
            self.walls.append(time.perf_counter() - began)
        cpu = cpu_seconds(self._process) - before
        self.bytes = (connection.sent + connection.received - wire) / len(commands)
        return cpu / len(commands) * 1e6, answers


@contextmanager
def open_commands(
    documents: int, distance: int, requests: int, progress: Progress | None = None
) -> Iterator[Bench]:
    """Serve a store with a number of documents. Raises OSError if the service does not start."""
    del progress
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fill(folder, documents, distance)
        process, port = stack.enter_context(serving(folder, distance))
        meter = _Meter(process, stack.enter_context(closing(Connection(port))))
        pages, chance = Pages(10**10), random.Random(distance)

        def reserve(count: int) -> list[tuple[str, ...]]:
            return [(*one, "DISTANCE", str(distance)) for one in pages.reserve(count)]

        def away() -> list[tuple[str, ...]]:
            """Return what a client of several shards sends those that are not the key's home."""
            return [
                (*one, "TOKEN", f"{chance.getrandbits(128):032x}", "HOME", "off")
                for one in reserve(requests)
            ]

        def measure() -> Round:
            rows: dict[str, dict[str, float]] = {
                name: {} for name in ("RESERVE", "INSERT", "RELEASE")
            }
            for depth, column in ((1, CPU), (DEEP, CPU_DEEP)):
                for what in ("INSERT", "RELEASE"):
                    commands = reserve(requests)
                    rows["RESERVE"][column], answers = meter.run(commands, depth)
                    rows["RESERVE"][WIRE] = meter.bytes
                    if depth == 1:
                        walls = np.array(meter.walls) * 1e6
                    rows[what][column], _ = meter.run(ending(what, commands, answers), depth)
                    rows[what][WIRE] = meter.bytes
            commands, others = away(), away()
            alone, answers = meter.run(commands, 1)
            elsewhere = rows["RESERVE away from home"] = {CPU: alone, WIRE: meter.bytes}
            told = ending("RELEASE", commands, answers)
            pairs = [command for pair in zip(told, others, strict=False) for command in pair]
            both, _ = meter.run(pairs, 2)
            rows["RELEASE with the next RESERVE"] = {CPU: 2 * both - alone}
            elsewhere[CPU_DEEP], _ = meter.run(away(), DEEP)
            times = zip(ANSWER_SHARES, np.quantile(walls, ANSWER_SHARES).tolist(), strict=True)
            return rows | {answered(share): {"us": us} for share, us in times}

        meter.run(reserve(min(WARM_UP, requests)), DEEP)
        facts = {"documents": documents, "distance": distance, "requests": requests}
        yield Bench(facts, measure, ("lmdb", "hiredis", "uvloop"))


@contextmanager
def open_log(requests: int, progress: Progress | None = None) -> Iterator[Bench]:
    """Serve two folders that follow one topic. Raises NoBroker where there is no Kafka to be had."""
    del progress
    from brokers import Cluster

    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(1))
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        (asked, port), (other, other_port) = (
            stack.enter_context(serving(folder, 3, "--kafka", cluster.bootstrap))
            for folder in folders
        )
        empty = memory_of(asked.pid)[0]
        connections = [
            stack.enter_context(closing(Connection(each))) for each in (port, other_port)
        ]
        pages, meter = Pages(10**10), _Meter(asked, connections[0])
        inserted = 0

        def insert(count: int, depth: int) -> list[float]:
            """Reserve and insert pages; return microseconds of CPU an INSERT, of both services."""
            nonlocal inserted
            commands = pages.reserve(count)
            _, answers = meter.run(commands, DEEP)
            before = [cpu_seconds(process) for process in (asked, other)]
            meter.run(ending("INSERT", commands, answers), depth)
            inserted += count
            _wait(connections, inserted)
            after = [cpu_seconds(process) for process in (asked, other)]
            return [(b - a) / count * 1e6 for a, b in zip(before, after, strict=True)]

        def measure() -> Round:
            asked_us, other_us = insert(requests, LOG_DEPTH)
            together = _log_bytes(cluster)
            record = together / inserted
            insert(ALONE, 1)
            alone = (_log_bytes(cluster) - together) / ALONE
            return {
                "INSERT until it is applied": {CPU: asked_us},
                "an event of another service": {CPU: other_us},
                "a record in the log": {"B": record, "B, in a batch of its own": alone},
                "a service without documents": {"MB of memory": empty / 1e6},
            }

        insert(WARM_UP, LOG_DEPTH)  # the topic is made, all is warm
        yield Bench({"requests": requests}, measure, ("aiokafka", "hiredis", "uvloop"))


def _wait(connections: Sequence[Connection], documents: int) -> None:
    """Wait until every service has applied a number of documents."""
    deadline = time.monotonic() + WAIT_SECONDS
    for connection in connections:
        while True:
            lines = connection.ask([("DEDUP.INFO", NAMESPACE)])[0].decode().splitlines()
            facts = dict(line.split(":", 1) for line in lines if ":" in line)
            if int(facts.get("documents", 0)) >= documents:
                break
            if time.monotonic() > deadline:
                raise OSError(f"a service has not applied {documents:,} inserts: {facts}")
            time.sleep(0.05)


def _log_bytes(cluster: Any) -> int:
    """Return the bytes of the segments of the topic, of all partitions, on a broker of our own."""
    folder: Path = cluster._folder
    return sum(file.stat().st_size for file in folder.glob("**/dedup.inserts-*/*.log"))
