"""What several services that share one store take, beside one that holds all of it.

    a Kafka of our own <- documents -> one service of everything, and N of a share each
    the real client -> one of them, the others, in turns: probes at one rate, then whole pages

Invariant: what is compared was measured in turns, at the same rate, on the same documents.
Latencies are counted from when a probe was due, in the client, until it has the answers of all.
"""

import asyncio
import os
import random
import subprocess
import time
import uuid
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from brokers import Cluster
from runner import Bench, Progress, Round
from service_costs import cpu_seconds, serving
from store_costs import sketch_of

import dedup
from dedup.detector import AsyncDetector
from dedup.model.events import encode
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.wire.kafka import KafkaConfig, Writer, ensure_topic, kafka_config
from dedup.wire.kafka.writer import Outgoing
from dedup.wire.shards import PartitionShare

NAMESPACE = "bench"
PARTITIONS = 16
PER_SECOND = 200  # probes
PAGES_AT_ONCE = 16
TIMEOUT_SECONDS = 60.0
WARM_SECONDS = 0.5
TICK_SECONDS = 0.0001  # between two sendings; counts as part of the time taken


class _Plan(NamedTuple):
    distance: int
    pages: int
    seconds: float


class _Side:
    """Services that hold all documents together."""

    def __init__(self, running: Sequence[tuple["subprocess.Popen[str]", int]]) -> None:
        self.processes = [process for process, _ in running]
        self.urls = [f"redis://127.0.0.1:{port}" for _, port in running]

    def cpu(self) -> float:
        return sum(map(cpu_seconds, self.processes))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run the load in the faster event loop, where there is one."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


@contextmanager
def open_case(
    documents: int,
    distance: int,
    shards: int,
    pages: int,
    seconds: float,
    progress: Progress | None = None,
) -> Iterator[Bench]:
    """Fill a log and serve it both ways.

    Raises NoBroker if no Kafka can be started here, OSError if a service does not start.
    """
    del progress
    rng = random.Random(1)
    values = [rng.getrandbits(64) for _ in range(documents)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dedup-bench-")))
        bootstrap = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        bootstrap = bootstrap or stack.enter_context(Cluster()).bootstrap
        config = kafka_config(bootstrap, f"dedup-bench-{uuid.uuid4()}", environ={})
        asyncio.run(_write(config, values))
        sides = {}
        for name, shares in (("one service", [""]), (f"{shards} shards", _shares(shards))):
            running = [
                stack.enter_context(
                    serving(folder / f"{name}-{number}", distance, *_options(config, share))
                )
                for number, share in enumerate(shares)
            ]
            sides[name] = _Side(running)
        plan, turns = _Plan(distance, pages, seconds), 0

        def measure() -> Round:
            nonlocal turns
            turns += 1
            order = list(sides) if turns % 2 else list(reversed(sides))
            found = {name: run(_measured(sides[name], plan, values, rng)) for name in order}
            return {name: found[name] for name in sides}

        facts = {"documents": documents, "distance": distance, "probes a second": PER_SECOND}
        yield Bench(facts, measure, packages=("hiredis", "uvloop"), ratio="p50 ms")


def _shares(count: int) -> list[str]:
    """Return the partitions in equal parts."""
    bounds = [n * PARTITIONS // count for n in range(count + 1)]
    return [
        str(PartitionShare(frozenset(range(low, high)), PARTITIONS))
        for low, high in pairwise(bounds)
    ]


def _options(config: KafkaConfig, share: str) -> list[str]:
    options = ["--kafka", ",".join(config.bootstrap), "--topic", config.topic]
    return [*options, "--partitions", share] if share else options


async def _write(config: KafkaConfig, values: list[int]) -> None:
    await ensure_topic(config, partitions=PARTITIONS)
    async with Writer(config) as writer:
        for first in range(0, len(values), 10_000):
            await writer.send_many(
                [
                    Outgoing(*encode(NAMESPACE, Document(_key(first + i), _page(value), "", 0.0)))
                    for i, value in enumerate(values[first : first + 10_000])
                ]
            )


def _key(number: int) -> str:
    return f"http://example.com/articles/{number}"


def _page(value: int) -> PageFingerprint:
    return PageFingerprint(value, sketch_of(value), 0, 300, NEWEST)


async def _measured(
    side: _Side, plan: _Plan, values: list[int], rng: random.Random
) -> dict[str, float]:
    async with await dedup.open_async(
        ",".join(side.urls),
        namespace=NAMESPACE,
        distance=plan.distance,
        recipe=NEWEST,
        timeout_seconds=TIMEOUT_SECONDS,
    ) as detector:
        await _probe_times(detector, plan._replace(seconds=WARM_SECONDS), values, rng)
        times = await _probe_times(detector, plan, values, rng)
        before, began = side.cpu(), time.process_time()
        await _pages(detector, plan.pages, rng)
        client = time.process_time() - began
        services = side.cpu() - before

    def percentile(share: float) -> float:
        return times[min(int(len(times) * share), len(times) - 1)] * 1000

    a_page = 1e6 / plan.pages
    return {
        "p50 ms": percentile(0.5),
        "p99 ms": percentile(0.99),
        "us of CPU a page, client": client * a_page,
        "and services": services * a_page,
    }


async def _probe_times(
    detector: AsyncDetector, plan: _Plan, values: list[int], rng: random.Random
) -> list[float]:
    """Probe at a steady rate, whatever comes back when; one in eight is near a document."""
    count = int(PER_SECOND * plan.seconds)
    pages = [
        _page(rng.choice(values) ^ 1 << rng.randrange(64) if i % 8 == 0 else rng.getrandbits(64))
        for i in range(count)
    ]
    times: list[float] = []

    async def probe(page: PageFingerprint, due: float) -> None:
        await detector.probe(page)
        times.append(time.perf_counter() - due)

    under_way: set[asyncio.Task[None]] = set()
    began = time.perf_counter()
    while len(under_way) < count:
        due = began + len(under_way) / PER_SECOND
        if time.perf_counter() >= due:
            under_way.add(asyncio.ensure_future(probe(pages[len(under_way)], due)))
        else:
            time.sleep(TICK_SECONDS)  # noqa: ASYNC251  (a timer of the loop would be late by 1 ms)
        await asyncio.sleep(0)
    await asyncio.gather(*under_way)
    return sorted(times)


async def _pages(detector: AsyncDetector, count: int, rng: random.Random) -> None:
    """Judge and insert new pages, some at a time."""
    for first in range(0, count, PAGES_AT_ONCE):
        some = range(first, min(first + PAGES_AT_ONCE, count))
        verdicts = await asyncio.gather(
            *(
                detector.reserve(_page(rng.getrandbits(64)), _key(rng.getrandbits(64)), domain="")
                for _ in some
            )
        )
        await detector.insert_many([verdict for verdict in verdicts if verdict.token is not None])
