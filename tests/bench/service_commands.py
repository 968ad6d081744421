"""What a page costs a table service: RESERVE, INSERT and RELEASE over RESP, in CPU time of the service.

    alone   documents -> a real `dedup serve` -> commands, one at a time and 16 deep
    kafka   a real broker, two services of one topic -> what an INSERT costs the one that was asked
            until it is applied, and what the event costs the other

Invariants: CPU time is that of the service's whole process, system calls included; how long
an answer takes is measured with one command under way, so that nothing waits for anything else.
"""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dedup.lab.bench.service import Connection, Pages, cpu_seconds, ending, fill, serving
from dedup.lab.bench.store import NAMESPACE, keys_of, memory_of, print_figures

DEPTH = 16  # commands of one write, as a spider's turn of the loop makes them
LOG_DEPTH = 64  # pages whose inserts wait for Kafka at once
ALONE = 200
SHARES = (*(i / 100 for i in range(100)), 0.995, 0.999, 0.9995)
WAIT_SECONDS = 120.0


class CommandFigures(msgspec.Struct, frozen=True):
    """A service alone: microseconds of CPU a command, and of wall time; bytes on the wire.

    reserve_us, insert_us, release_us   one under way at a time
    away_us                             RESERVE at a shard that is not the key's home
    told_us                             RELEASE there, written with the next RESERVE
    *_deep_us                           16 of one write
    reserve_wall_us                     how long an answer took, at the shares of SHARES: the
                                        distribution of the time that a shard takes for a page
    *_bytes                             of a command and its answer, with a key of that many bytes
    """

    documents: int
    k: int
    requests: int
    key_bytes: float
    reserve_us: float
    insert_us: float
    release_us: float
    reserve_deep_us: float
    insert_deep_us: float
    release_deep_us: float
    reserve_wall_us: list[float]
    reserve_wall_mean_us: float
    reserve_bytes: float
    away_us: float
    away_bytes: float
    insert_bytes: float
    release_bytes: float
    told_us: float | None = None
    away_deep_us: float | None = None


class LogFigures(msgspec.Struct, frozen=True):
    """Services that follow Kafka: microseconds of CPU an accepted page.

    insert_us    at the service that was asked: production, acknowledgement, reading, applying
    applied_us   at another one that follows the same log
    log_bytes    of the topic's segments a record, one copy, as the broker has them (zstd);
    service_bytes  memory of a service that holds nothing yet
    alone_bytes  of a record that is a batch of its own, as it is when few come
    """

    requests: int
    insert_us: float
    applied_us: float
    log_bytes: float
    alone_bytes: float
    service_bytes: float


def _away(chance: random.Random) -> tuple[str, ...]:
    """Return what a client of several shards adds for those that are not the key's home."""
    return "TOKEN", f"{chance.getrandbits(128):032x}", "HOME", "off"


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


def measure_commands(documents: int, k: int, requests: int) -> CommandFigures:
    """Measure a service that holds a number of documents. Raises OSError if it does not start."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), documents, k)
        with serving(Path(folder), k) as (process, port):
            connection = Connection(port)
            meter, pages, found = _Meter(process, connection), Pages(10**10), {}
            distance, chance = ("DISTANCE", str(k)), random.Random(k)
            meter.run([one + distance for one in pages.reserve(min(1000, requests))], DEPTH)
            for depth, name in ((1, "us"), (DEPTH, "deep_us")):
                for what in ("INSERT", "RELEASE"):
                    commands = [one + distance for one in pages.reserve(requests)]
                    us, answers = meter.run(commands, depth)
                    if what == "INSERT":
                        found[f"reserve_{name}"] = us
                        found["reserve_bytes"] = meter.bytes
                        if depth == 1:
                            walls = np.array(meter.walls) * 1e6
                    us, _ = meter.run(ending(what, commands, answers), depth)
                    found[f"{what.lower()}_{name}"] = us
                    found[f"{what.lower()}_bytes"] = meter.bytes
            away = [
                [one + distance + _away(chance) for one in pages.reserve(requests)] for _ in "abc"
            ]
            found["away_us"], answers = meter.run(away[0], 1)
            found["away_bytes"] = meter.bytes
            told = ending("RELEASE", away[0], answers)
            pairs = [command for pair in zip(told, away[1], strict=False) for command in pair]
            both, _ = meter.run(pairs, 2)
            found["told_us"] = 2 * both - found["away_us"]
            found["away_deep_us"], _ = meter.run(away[2], DEPTH)
            connection.close()
    return CommandFigures(
        documents=documents,
        k=k,
        requests=requests,
        key_bytes=sum(map(len, keys_of(10**10, 1000))) / 1000,
        reserve_wall_us=[float(each) for each in np.quantile(walls, SHARES)],
        reserve_wall_mean_us=float(walls.mean()),
        **found,
    )


def measure_log(requests: int) -> LogFigures:
    """Insert pages through a real Kafka. Raises NoBroker where there is none to be had."""
    from brokers import Cluster

    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(1))
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        (asked, port), (other, other_port) = (
            stack.enter_context(serving(folder, 3, "--kafka", cluster.bootstrap))
            for folder in folders
        )
        empty = memory_of(asked.pid)[0]
        connections = Connection(port), Connection(other_port)
        for connection in connections:
            stack.callback(connection.close)
        pages, meter = Pages(10**10), _Meter(asked, connections[0])
        _insert(meter, pages, 1000, LOG_DEPTH)  # the topic is made, all is warm
        _wait(connections, 1000)
        commands = pages.reserve(requests)
        _, answers = meter.run(commands, DEPTH)
        before = [cpu_seconds(process) for process in (asked, other)]
        meter.run(ending("INSERT", commands, answers), LOG_DEPTH)
        _wait(connections, 1000 + requests)
        after = [cpu_seconds(process) for process in (asked, other)]
        asked_us, other_us = ((b - a) / requests * 1e6 for a, b in zip(before, after, strict=True))
        together = _log_bytes(cluster)
        _insert(meter, pages, ALONE, 1)
        alone = (_log_bytes(cluster) - together) / ALONE
        return LogFigures(requests, asked_us, other_us, together / (1000 + requests), alone, empty)


def _insert(meter: _Meter, pages: Pages, count: int, depth: int) -> None:
    commands = pages.reserve(count)
    _, answers = meter.run(commands, DEPTH)
    meter.run(ending("INSERT", commands, answers), depth)


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


def main(part: str, arguments: str) -> None:
    """Measure a part and print its figures."""
    parts: dict[str, Any] = {
        "commands": lambda **given: [measure_commands(**given)],
        "log": lambda **given: [measure_log(**given)],
    }
    print_figures(parts, part, arguments)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1] / "support"))
    main(*sys.argv[1:])
