"""`python tests/bench service`: what a table service reaches over RESP.

    documents -> a real `dedup serve` -> PROBE, RESERVE + INSERT in one write, RESERVE + INSERT on one core

Invariant: rates are given for the CPU time of the service's process, system calls included, since the load
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
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from urllib.parse import urlsplit

from runner import DISTANCE, Bench, case, number
from store_costs import NAMESPACE, keys_of, page_of

from dedup.demo.loopback import running
from dedup.model.forms import encode_page
from dedup.model.page import Document
from dedup.store import Store
from dedup.wire.resp import pack

QUERIES = 4096  # different probes, in turns; one in eight near a stored document
CONNECTIONS = 16  # of single probes
DEEP = 16  # pages reserved in one write, as a spider's turn of the loop makes them
FIRST = 10**10  # the number of the first page that is reserved: no store is filled so far
WAIT_SECONDS = 120.0
CPUCLOCK_SCHED = 2  # the clock of a process's CPU time, in nanoseconds (clock_getcpuclockid)


@case(
    "service",
    number("documents", 1_000_000, "Number of documents stored."),
    DISTANCE,
    number("requests", 100_000, "Single probes a round; a tenth as many pages are reserved.", 1000),
    rounds=5,
    documents=100_000,
    requests=20_000,
)
def command(documents, distance, requests):
    """Measure a table service: PROBE, RESERVE + INSERT.

    Rates are for the CPU time of the service's process, as the load comes from the same machine.
    """
    rng = random.Random(1)
    values = [rng.getrandbits(64) for _ in range(documents)]
    near = (rng.choice(values) ^ 1 << rng.randrange(64) for _ in range(QUERIES))
    probed = [each if i % 8 == 0 else rng.getrandbits(64) for i, each in enumerate(near)]
    queries = [pack(("DEDUP.PROBE", NAMESPACE, wired(each))) for each in probed]
    with tempfile.TemporaryDirectory() as folder:
        with Store.open(Path(folder), NAMESPACE, distance) as store:
            for first in range(0, documents, 10_000):
                some = enumerate(values[first : first + 10_000], first)
                key = "http://example.com/articles/{}".format
                store.insert_many([Document(key(i), page_of(v), "example.com") for i, v in some])
        with serving(Path(folder), distance) as (process, port):
            pages = new_pages()

            def measure():
                rows = {"PROBE, single": _probes(process, port, queries, requests)}
                for depth, name in ((DEEP, f"{DEEP} in a write"), (1, "on one core")):
                    with on_one_core(process, depth == 1):
                        rows[f"RESERVE + INSERT, {name}"] = _pages(
                            process, port, pages, depth, requests // 10
                        )
                return rows

            yield Bench(
                {"documents": documents, "distance": distance}, measure, ("hiredis", "uvloop")
            )


def wired(value, identity=0):
    """Return a page as commands have it."""
    return encode_page(Document("", page_of(value, identity), "example.com")).decode()


def new_pages():
    """Yield commands that reserve pages which were never seen before."""
    chance = random.Random(FIRST)
    for first in range(FIRST, 2 * FIRST, 1000):
        for key in keys_of(first, 1000):
            page = wired(chance.getrandbits(64), chance.getrandbits(64))
            yield "DEDUP.RESERVE", NAMESPACE, key, page


@contextmanager
def serving(folder, distance, *options):
    """Serve a folder until the block ends; give the process and its port. Raises OSError."""
    command = ["-m", "dedup", "serve", "--path", str(folder), "--log", "json"]
    command += ["--listen", "127.0.0.1:0", "--http", "none", "--distance", str(distance), *options]
    with running(*command, stderr=subprocess.PIPE) as process:
        line = process.stdout.readline()
        if not line:
            raise OSError(f"the service did not start: {process.stderr.read()}")
        port = urlsplit(json.loads(line)["listening"]["redis"]).port
        while '"message":"ready' not in (said := process.stderr.readline()):
            if not said:
                raise OSError("the service ended before it was ready")
        threading.Thread(target=process.stderr.read, daemon=True).start()  # its log
        yield process, port


@contextmanager
def on_one_core(process, wanted):
    """Keep the service's loop and this thread on one core until the block ends (Linux).

    Where they take turns on two that are idle, each write wakes the other core from its sleep; on a virtual machine
    that takes longer than the command, and is counted as the writer's time. Among other busy processes no core sleeps.
    """
    if sys.platform != "linux" or not wanted:
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


def cpu_seconds(process):
    """Return the CPU time of a process so far (Linux; elsewhere 0)."""
    if sys.platform != "linux":
        return 0.0
    clock = ~process.pid << 3 | CPUCLOCK_SCHED  # as clock_getcpuclockid() has it
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


def _probes(process, port, queries, count):
    """Keep a probe under way on each connection until all were answered."""
    with ExitStack() as stack:
        ready = stack.enter_context(DefaultSelector())
        before, began, answered = cpu_seconds(process), time.perf_counter(), 0
        for query in queries[:CONNECTIONS]:
            connection = stack.enter_context(closing(Connection(port)))
            ready.register(connection.socket, EVENT_READ, connection)
            connection.send(query)
        while answered < count:
            events = ready.select(WAIT_SECONDS)
            if not events:
                raise OSError(f"the service did not answer within {WAIT_SECONDS:g} s")
            for key, _ in events:
                if key.data.arrived():
                    answered += 1
                    key.data.send(queries[answered % len(queries)])
        return _rates(answered, time.perf_counter() - began, cpu_seconds(process) - before)


def _rates(count, wall, cpu):
    cpu = max(cpu, 1e-9)
    return {"a CPU second": count / cpu, "us of CPU": cpu / count * 1e6, "a second": count / wall}


def _pages(process, port, pages, depth, count):
    """Reserve new pages and insert them, a number of them in a write; of both the CPU time of a page."""
    with closing(Connection(port)) as connection:
        commands = [next(pages) for _ in range(count)]
        before, began = cpu_seconds(process), time.perf_counter()
        for i in range(0, count, depth):
            some = commands[i : i + depth]
            answers = connection.ask(some)  # a page that happens to be near another has no token
            tokens = ((each[2], answer[1]) for each, answer in zip(some, answers, strict=True))
            connection.ask(
                [("DEDUP.INSERT", NAMESPACE, key, token) for key, token in tokens if token]
            )
        return _rates(count, time.perf_counter() - began, cpu_seconds(process) - before)


# ------------------------------------------------------------------------- commands, answered


class Connection:
    """A connection that sends commands and reads their answers. An error among them raises OSError."""

    def __init__(self, port):
        import hiredis

        self._hiredis = hiredis
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def ask(self, commands):
        """Send commands in one write and return their answers."""
        self.send(b"".join(map(self._hiredis.pack_command, commands)))
        answers = []
        while len(answers) < len(commands):
            answers += self.arrived()
        return answers

    def send(self, data):
        """Send commands as they go over the wire."""
        self.socket.sendall(data)

    def arrived(self):
        """Wait until something arrives, and return the answers that are complete with it."""
        read = self.socket.recv(1 << 16)
        if not read:
            raise OSError("the service closed the connection")
        self._reader.feed(read)
        answers = []
        while (answer := self._reader.gets()) is not False:
            if isinstance(answer, self._hiredis.ReplyError):
                raise OSError(f"the service answered {answer}")
            answers.append(answer)
        return answers

    def close(self):
        """End it."""
        self.socket.close()
