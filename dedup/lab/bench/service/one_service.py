"""What the table service reaches: probes over RESP, one at a time and pipelined, and their times.

    documents -> a real `dedup serve` -> probes at full load -> requests a CPU second of the service
                                      -> single probes at half of that -> how long they took

The rule kept here: rates are given for the CPU time of the service's process, since the load comes
from the same machine; latencies are counted from when a request was due, not from when it went out.
"""

import asyncio
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from dedup.lab.bench.measured_pages import sketch_of
from dedup.lab.bench.samples import Machine, Samples, machine, samples
from dedup.model.recipes import NEWEST
from dedup.model.values import Document, PageFingerprint
from dedup.store import Store

__all__ = [
    "NAMESPACE",
    "Plan",
    "ServiceBench",
    "bench_service",
    "cpu_seconds",
    "fill",
    "run",
    "serving",
]

T = TypeVar("T")

NAMESPACE = "bench"
QUERIES = 4096  # different probes, in turns; one in eight near a stored document
HALF_SECONDS = 4.0
CPUCLOCK_SCHED = 2  # the clock of a process's CPU time, in nanoseconds (clock_getcpuclockid)
TICK_SECONDS = 0.0001  # between two sendings at half load; counts as part of the time taken


class Plan(msgspec.Struct, frozen=True):
    """What is measured. connections and depth: of the single and the pipelined probes."""

    documents: int
    distance: int
    requests: int
    rounds: int
    connections: int = 16
    depth: int = 64
    redis_benchmark: bool = True


class Load(msgspec.Struct, frozen=True):
    """Probes at full load, a number of them at once: rates by wall and CPU time, CPU of a request in us."""

    name: str
    depth: int
    per_second: Samples
    per_cpu_second: Samples
    cpu_us: Samples


class Latency(msgspec.Struct, frozen=True):
    """Single probes at half load: milliseconds from when they were due to their answers."""

    per_second: float
    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    cpu_share: float


class ServiceBench(msgspec.Struct, frozen=True):
    """Everything that was measured."""

    documents: int
    distance: int
    loads: list[Load]
    half: Latency
    redis_benchmark: list[str]
    machine: Machine


def bench_service(plan: Plan, progress: Callable[[int, int], None] | None = None) -> ServiceBench:
    """Fill a store, serve it, and measure. Raises OSError if the service does not start."""
    steps = 2 * plan.rounds + 1
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, steps)

    with tempfile.TemporaryDirectory() as folder:
        values = fill(Path(folder), plan)
        queries = _queries(values)
        with serving(Path(folder), plan.distance) as (process, port):
            loads = [
                _load(name, plan, depth, process, port, queries, step)
                for name, depth in (("single", 1), (f"pipelined {plan.depth}", plan.depth))
            ]
            half = run(_half(loads[0].per_cpu_second.median / 2, plan, process, port, queries))
            step()
            others = _redis_benchmark(plan, port, queries) if plan.redis_benchmark else []
    packages = machine("crawl-dedup", "hiredis", "uvloop")
    return ServiceBench(plan.documents, plan.distance, loads, half, others, packages)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the load in the faster event loop, where there is one."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def fill(folder: Path, plan: Plan) -> list[int]:
    """Make the store that is served; return its values."""
    rng = random.Random(1)  # noqa: S311  (values for a benchmark)
    values = [rng.getrandbits(64) for _ in range(plan.documents)]
    with Store.open(folder, NAMESPACE, plan.distance) as store:
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


def _queries(values: list[int]) -> list[bytes]:
    """Return probes as they go over the wire."""
    rng = random.Random(2)  # noqa: S311  (values for a benchmark)
    made = []
    for i in range(QUERIES):
        value = rng.choice(values) ^ 1 << rng.randrange(64) if i % 8 == 0 else rng.getrandbits(64)
        words = [
            "DEDUP.PROBE",
            NAMESPACE,
            f"{value:016x}",
            sketch_of(value).hex(),
            "RECIPE",
            NEWEST,
        ]
        made.append(
            b"*6\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word.encode()) for word in words)
        )
    return made


@contextmanager
def serving(
    folder: Path, distance: int, *options: str
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Serve a folder until the block ends; give the process and its port. Raises OSError."""
    command = [sys.executable, "-m", "dedup", "serve", "--path", str(folder), "--log", "json"]
    command += ["--listen", "127.0.0.1:0", "--http", "none", "--distance", str(distance), *options]
    with subprocess.Popen(  # noqa: S603  (ourselves)
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise OSError(f"the service did not start: {process.stderr.read()}")
            port = urlsplit(json.loads(line)["listening"]["redis"]).port
            while '"message":"ready' not in (said := process.stderr.readline()):
                if not said:
                    raise OSError("the service ended before it was ready")
            assert port is not None
            drain = threading.Thread(target=process.stderr.read, daemon=True)  # its log
            drain.start()
            yield process, port
        finally:
            process.terminate()


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
    name: str,
    plan: Plan,
    depth: int,
    process: "subprocess.Popen[str]",
    port: int,
    queries: list[bytes],
    step: Callable[[], None],
) -> Load:
    count = plan.requests * (8 if depth > 1 else 1)
    walls, cpus = [], []
    for _ in range(plan.rounds):
        before, began = cpu_seconds(process), time.perf_counter()
        run(_full(plan, depth, port, queries, count))
        walls.append(time.perf_counter() - began)
        cpus.append(max(cpu_seconds(process) - before, 1e-9))
        step()
    return Load(
        name,
        depth,
        samples([count / wall for wall in walls]),
        samples([count / cpu for cpu in cpus]),
        samples([cpu / count * 1e6 for cpu in cpus]),
    )


class _Client(asyncio.Protocol):
    """A connection that counts whole answers; each begins with the length of an array at depth 0.

    Answers are not parsed, but for their number: an empty one is `*0`, and of one that is not the
    keys have no line that begins like an outer array.
    """

    def __init__(self, answered: Callable[["_Client", int], None]) -> None:
        self._answered = answered
        self._left = b""
        self.due: deque[float] = deque()
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self.transport = cast(asyncio.WriteTransport, transport)  # uvloop's says it is none

    def data_received(self, data: bytes) -> None:
        """Count."""
        data = self._left + data
        whole = data.rfind(b"\r\n") + 2
        self._left = data[whole:]
        if b"-" in data and (error := re.search(rb"^-\w.*", data, re.MULTILINE)):
            raise RuntimeError(f"the service answered {error[0]!r}")
        # inner arrays are *3; probes here have at most two neighbours
        count = data.count(b"*", 0, whole) - data.count(b"*3\r\n", 0, whole)
        if count:
            self._answered(self, count)


async def _connected(
    port: int, count: int, answered: Callable[[_Client, int], None]
) -> list[_Client]:
    loop = asyncio.get_running_loop()
    return [
        (await loop.create_connection(lambda: _Client(answered), "127.0.0.1", port))[1]
        for _ in range(count)
    ]


async def _full(plan: Plan, depth: int, port: int, queries: list[bytes], count: int) -> None:
    """Keep a number of probes under way on each connection until all were answered."""
    done = asyncio.Event()
    batches = [b"".join(queries[i : i + depth]) for i in range(0, len(queries), depth)]
    sent = answers = 0
    open_: dict[_Client, int] = {}

    def send(client: _Client) -> None:
        nonlocal sent
        if sent < count:
            assert client.transport is not None
            client.transport.write(batches[sent // depth % len(batches)])
            open_[client] = depth
            sent += depth

    def answered(client: _Client, number: int) -> None:
        nonlocal answers
        answers += number
        open_[client] -= number
        if answers >= count:
            done.set()
        elif open_[client] <= 0:
            send(client)

    clients = await _connected(port, plan.connections if depth == 1 else 4, answered)
    for client in clients:
        send(client)
    await asyncio.wait_for(done.wait(), 600)
    for client in clients:
        assert client.transport is not None
        client.transport.close()


async def _half(
    rate: float, plan: Plan, process: "subprocess.Popen[str]", port: int, queries: list[bytes]
) -> Latency:
    """Send probes at a steady rate, whatever comes back when."""
    times: list[float] = []
    all_answered = asyncio.Event()

    def answered(client: _Client, number: int) -> None:
        now = time.perf_counter()
        times.extend(now - client.due.popleft() for _ in range(number))
        if len(times) == sent:
            all_answered.set()

    sent = 0
    clients = await _connected(port, plan.connections, answered)
    began, before = time.perf_counter(), cpu_seconds(process)
    while (now := time.perf_counter()) < began + HALF_SECONDS:
        while sent < (now - began) * rate:
            client = clients[sent % len(clients)]
            client.due.append(began + sent / rate)
            assert client.transport is not None
            client.transport.write(queries[sent % len(queries)])
            sent += 1
        time.sleep(TICK_SECONDS)  # noqa: ASYNC251  (a timer of the loop would be late by 1 ms)
        await asyncio.sleep(0)
    cpu = cpu_seconds(process) - before
    took = time.perf_counter() - began
    if len(times) < sent:
        all_answered.clear()
        await asyncio.wait_for(all_answered.wait(), 30)
    for client in clients:
        assert client.transport is not None
        client.transport.close()
    times.sort()

    def percentile(share: float) -> float:
        return times[min(int(len(times) * share), len(times) - 1)] * 1000

    return Latency(
        sent / took, len(times), percentile(0.5), percentile(0.99), percentile(0.999), cpu / took
    )


def _redis_benchmark(plan: Plan, port: int, queries: list[bytes]) -> list[str]:
    """Return what redis-benchmark says, where it is installed."""
    program = shutil.which("redis-benchmark")
    if program is None:
        return []
    words = [word.decode() for word in queries[1].split(b"\r\n")[2::2]]
    lines = []
    for name, extra, factor in (
        ("single", [], 1),
        (f"-P {plan.depth}", ["-P", str(plan.depth)], 8),
    ):
        command = [program, "-p", str(port), "-n", str(plan.requests * factor), "-c", "16", *extra]
        said = subprocess.run(  # noqa: S603  (a program found on the path)
            [*command, "-q", *words], capture_output=True, text=True, check=False, timeout=600
        ).stdout
        found = re.findall(r"([\d.]+) requests per second, p50=([\d.]+) msec", said)
        if found:
            lines.append(f"{name}: {float(found[-1][0]):,.0f} a second, p50 {found[-1][1]} ms")
    return lines
