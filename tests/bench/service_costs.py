"""`python tests/bench service`: what a table service reaches over RESP.

    documents -> a real `dedup serve` -> PROBE single and pipelined, RESERVE + INSERT single and pipelined
                                      -> RESERVE + INSERT on one core

Invariants: rates are given for the CPU time of the service's process, system calls included, since the load
comes from the same machine.
"""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from pathlib import Path
from selectors import EVENT_READ, BaseSelector, DefaultSelector
from typing import Any
from urllib.parse import urlsplit

from runner import Bench, Progress, Round
from store_costs import NAMESPACE, keys_of, sketch_of

from dedup.demo.loopback import running
from dedup.model.forms import encode_page
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store
from dedup.store.index import VALUES
from dedup.store.segmented_table import read_manifest
from dedup.wire.resp import pack

QUERIES = 4096  # different probes, in turns; one in eight near a stored document
CONNECTIONS, PIPELINES = 16, 4  # of single probes, and of pipelined ones
DEPTH = 64  # pipelined probes of a connection
DEEP = 16  # pages reserved in one write, as a spider's turn of the loop makes them
FIRST = 10**10  # the number of the first page that is reserved: no store is filled so far
WAIT_SECONDS = 120.0
CPUCLOCK_SCHED = 2  # the clock of a process's CPU time, in nanoseconds (clock_getcpuclockid)


@contextmanager
def open_case(
    documents: int, distance: int, requests: int, progress: Progress | None = None
) -> Iterator[Bench]:
    """Fill a store, serve it, and measure. Raises OSError if the service does not start."""
    del progress
    with tempfile.TemporaryDirectory() as folder:
        queries = _queries(fill(Path(folder), documents, distance))
        segments = _segments(Path(folder))
        with serving(Path(folder), distance) as (process, port):
            pages = Pages(FIRST)

            def measure() -> Round:
                rows = {
                    "PROBE, single": _load(process, port, 1, queries, requests),
                    f"PROBE, pipelined {DEPTH}": _load(process, port, DEPTH, queries, 8 * requests),
                    "RESERVE + INSERT": _pages(process, port, pages, 1, requests // 10),
                    f"RESERVE + INSERT, {DEEP} in a write": _pages(
                        process, port, pages, DEEP, requests // 10
                    ),
                }
                with on_one_core(process):
                    rows["RESERVE + INSERT, on one core"] = _pages(
                        process, port, pages, 1, requests // 10
                    )
                return rows

            facts = {"documents": documents, "distance": distance, "segments": segments}
            yield Bench(facts, measure, packages=("hiredis", "uvloop"))


def fill(folder: Path, documents: int, distance: int) -> list[int]:
    """Make the store that is served; return its values."""
    rng = random.Random(1)
    values = [rng.getrandbits(64) for _ in range(documents)]
    with Store.open(folder, NAMESPACE, distance) as store:
        for first in range(0, len(values), 10_000):
            store.insert_many(
                [
                    Document(
                        f"http://example.com/articles/{first + i}",
                        PageFingerprint(value, sketch_of(value), 0, 300, NEWEST),
                        "example.com",
                        0.0,
                    )
                    for i, value in enumerate(values[first : first + 10_000])
                ]
            )
    return values


def _segments(folder: Path) -> list[int]:
    """Return the sizes of the files that each probe searches: two runs compare if these are alike."""
    manifest = read_manifest(folder / NAMESPACE / VALUES)
    return [] if manifest is None else [listed.documents for listed in manifest.segments]


def page_of(value: int, identity: int = 0) -> str:
    """Return a page as commands have it."""
    page = PageFingerprint(value, sketch_of(value), identity, 300, NEWEST)
    return encode_page(Document("", page, "example.com")).decode()


def _queries(values: list[int]) -> list[bytes]:
    """Return probes as they go over the wire."""
    rng = random.Random(2)
    made = []
    for i in range(QUERIES):
        value = rng.choice(values) ^ 1 << rng.randrange(64) if i % 8 == 0 else rng.getrandbits(64)
        made.append(pack(("DEDUP.PROBE", NAMESPACE, page_of(value))))
    return made


@contextmanager
def serving(
    folder: Path, distance: int | None, *options: str
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Serve a folder until the block ends; give the process and its port. Raises OSError."""
    command = ["-m", "dedup", "serve", "--path", str(folder), "--log", "json"]
    command += ["--listen", "127.0.0.1:0", "--http", "none", *options]
    if distance is not None:
        command += ["--distance", str(distance)]
    with running(*command, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        if not line:
            raise OSError(f"the service did not start: {process.stderr.read()}")
        port = urlsplit(json.loads(line)["listening"]["redis"]).port
        while '"message":"ready' not in (said := process.stderr.readline()):
            if not said:
                raise OSError("the service ended before it was ready")
        assert port is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()  # its log
        yield process, port


@contextmanager
def on_one_core(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Keep the service's loop and this thread on one core until the block ends (Linux).

    Where they take turns on two that are idle, each write wakes the other core from its sleep; on a virtual machine
    that takes longer than the command, and is counted as the writer's time. Among other busy processes no core sleeps.
    """
    if sys.platform != "linux":
        yield
        return
    both, cores = (0, process.pid), os.sched_getaffinity(0)
    try:
        for each in both:
            os.sched_setaffinity(each, {max(cores)})
        yield
    finally:
        for each in both:
            os.sched_setaffinity(each, cores)


def cpu_seconds(process: "subprocess.Popen[str]") -> float:
    """Return the CPU time of a process so far (Linux; elsewhere 0)."""
    if sys.platform != "linux":
        return 0.0
    clock = ~process.pid << 3 | CPUCLOCK_SCHED  # as clock_getcpuclockid() has it
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


def _load(
    process: "subprocess.Popen[str]", port: int, depth: int, queries: list[bytes], count: int
) -> dict[str, float]:
    """Keep a number of probes under way on each connection until all were answered."""
    batches = cycle([b"".join(queries[i : i + depth]) for i in range(0, len(queries), depth)])
    with connected(port, CONNECTIONS if depth == 1 else PIPELINES) as (connections, ready):
        before, began, answered = cpu_seconds(process), time.perf_counter(), 0
        under_way = dict.fromkeys(connections, depth)
        for connection in connections:
            connection.send(next(batches))
        while answered < count:
            events = ready.select(WAIT_SECONDS)
            if not events:
                raise _no_answer()
            for key, _ in events:
                arrived = len(key.data.arrived())
                answered += arrived
                under_way[key.data] -= arrived
                if not under_way[key.data]:
                    key.data.send(next(batches))
                    under_way[key.data] = depth
        return _rates(answered, time.perf_counter() - began, cpu_seconds(process) - before)


def _no_answer() -> OSError:
    return OSError(f"the service did not answer within {WAIT_SECONDS:g} s")


def _rates(count: int, wall: float, cpu: float) -> dict[str, float]:
    cpu = max(cpu, 1e-9)
    return {"a CPU second": count / cpu, "us of CPU": cpu / count * 1e6, "a second": count / wall}


def _pages(
    process: "subprocess.Popen[str]", port: int, pages: "Pages", depth: int, count: int
) -> dict[str, float]:
    """Reserve new pages and insert them, a number of them in a write; of both the CPU time of a page."""
    with closing(Connection(port)) as connection:
        commands = pages.reserve(count)
        before, began = cpu_seconds(process), time.perf_counter()
        for i in range(0, count, depth):
            some = commands[i : i + depth]
            connection.ask(ending("INSERT", some, connection.ask(some)))
        return _rates(count, time.perf_counter() - began, cpu_seconds(process) - before)


# ------------------------------------------------------------------------- commands, answered


class Connection:
    """A connection that sends commands and reads their answers. An error among them raises OSError."""

    def __init__(self, port: int) -> None:
        import hiredis

        self._hiredis = hiredis
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def ask(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        """Send commands in one write and return their answers."""
        pack: Any = self._hiredis.pack_command
        self.send(b"".join(pack(command) for command in commands))
        return self.receive(len(commands))

    def send(self, data: bytes) -> None:
        """Send commands as they go over the wire."""
        self.socket.sendall(data)

    def receive(self, count: int) -> list[Any]:
        """Wait for a number of answers."""
        answers: list[Any] = []
        while len(answers) < count:
            answers += self.arrived()
        return answers

    def arrived(self) -> list[Any]:
        """Wait until something arrives, and return the answers that are complete with it."""
        read = self.socket.recv(1 << 16)
        if not read:
            raise OSError("the service closed the connection")
        self._reader.feed(read)
        answers: list[Any] = []
        while (answer := self._reader.gets()) is not False:
            if isinstance(answer, self._hiredis.ReplyError):
                raise OSError(f"the service answered {answer}")
            answers.append(answer)
        return answers

    def close(self) -> None:
        """End it."""
        self.socket.close()


@contextmanager
def connected(port: int, count: int) -> Iterator[tuple[list[Connection], BaseSelector]]:
    """Connect so many times, until the block ends; give what says on which of them something arrived."""
    with ExitStack() as stack:
        connections = [stack.enter_context(closing(Connection(port))) for _ in range(count)]
        ready = stack.enter_context(DefaultSelector())
        for connection in connections:
            ready.register(connection.socket, EVENT_READ, connection)
        yield connections, ready


class Pages:
    """Pages that were never seen before, and their tokens."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._chance = random.Random(first)

    def reserve(self, count: int) -> list[tuple[str, ...]]:
        """Return commands of a number of new pages."""
        keys = keys_of(self._next, count)
        self._next += count
        made: list[tuple[str, ...]] = []
        for key in keys:
            value, identity = (self._chance.getrandbits(64) for _ in range(2))
            made.append(("DEDUP.RESERVE", NAMESPACE, key, page_of(value, identity)))
        return made


def ending(
    what: str, commands: Sequence[tuple[str, ...]], answers: Sequence[Any]
) -> list[tuple[str, ...]]:
    """Return the commands that end reservations; a page that happens to be near another has none."""
    return [
        (f"DEDUP.{what}", NAMESPACE, command[2], answer[1].decode())
        for command, answer in zip(commands, answers, strict=True)
        if answer[1] is not None
    ]
