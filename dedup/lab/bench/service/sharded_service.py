"""What several services that share one store take, beside one that holds all of it.

    a Kafka of our own <- documents -> one service of everything, and N of a share each
    the real client -> one of them, the others, in turns: probes at one rate, then whole pages

The rule kept here: what is compared was measured in turns, at the same rate, on the same documents.
Latencies are counted from when a probe was due, in the client, until it has the answers of all.
"""

import asyncio
import random
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import dedup
from dedup.detector import AsyncDetector
from dedup.lab.bench.measured_pages import sketch_of
from dedup.lab.bench.samples import Machine, Samples, machine, samples
from dedup.lab.bench.service.one_service import cpu_seconds, run, serving
from dedup.lab.demo.broker import Cluster
from dedup.model.events import encode
from dedup.model.recipes import NEWEST
from dedup.model.values import Document, PageFingerprint
from dedup.wire.kafka import KafkaConfig, Writer, ensure_topic, kafka_config
from dedup.wire.kafka.writer import Outgoing
from dedup.wire.shards import Share

__all__ = ["Fan", "ShardsBench", "ShardsPlan", "bench_shards"]

NAMESPACE = "bench"
PARTITIONS = 16
PAGES_AT_ONCE = 16
TIMEOUT_SECONDS = 60.0
WARM_SECONDS = 0.5
TICK_SECONDS = 0.0001  # between two sendings; counts as part of the time taken


class ShardsPlan(msgspec.Struct, frozen=True):
    """What is measured: probes at a rate, for some seconds a round, and pages a round."""

    documents: int
    distance: int
    shards: int
    rounds: int
    per_second: int = 200
    seconds: float = 5.0
    pages: int = 4000


class Fan(msgspec.Struct, frozen=True):
    """One way to hold the documents: milliseconds of a probe, CPU of a page in microseconds."""

    services: int
    p50_ms: Samples
    p99_ms: Samples
    client_us: Samples
    services_us: Samples


class ShardsBench(msgspec.Struct, frozen=True):
    """Everything that was measured; the ratios are shards to one service, round by round."""

    documents: int
    distance: int
    per_second: int
    probes: int
    one: Fan
    shards: Fan
    p50_ratio: Samples
    p99_ratio: Samples
    machine: Machine


class _Round(msgspec.Struct):
    p50_ms: float
    p99_ms: float
    client_us: float
    services_us: float


class _Side:
    """Services that hold all documents together."""

    def __init__(self, running: Sequence[tuple["subprocess.Popen[str]", int]]) -> None:
        self.processes = [process for process, _ in running]
        self.urls = [f"redis://127.0.0.1:{port}" for _, port in running]
        self.rounds: list[_Round] = []

    def cpu(self) -> float:
        return sum(map(cpu_seconds, self.processes))

    def fan(self) -> Fan:
        def each(name: str) -> Samples:
            return samples([getattr(found, name) for found in self.rounds])

        return Fan(
            len(self.urls), each("p50_ms"), each("p99_ms"), each("client_us"), each("services_us")
        )


def bench_shards(
    plan: ShardsPlan,
    progress: Callable[[int, int], None] | None = None,
    *,
    bootstrap: str | None = None,
) -> ShardsBench:
    """Fill a log, serve it both ways, and measure; bootstrap is of a Kafka, if there is one already.

    Raises NoBroker if no Kafka can be started here, OSError if a service does not start.
    """
    rng = random.Random(1)  # noqa: S311  (values for a benchmark)
    values = [rng.getrandbits(64) for _ in range(plan.documents)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dedup-bench-")))
        bootstrap = bootstrap or stack.enter_context(Cluster()).bootstrap
        config = kafka_config(bootstrap, f"dedup-bench-{uuid.uuid4()}", environ={})
        asyncio.run(_write(config, values))
        sides = []
        for name, shares in (("one", [""]), ("shards", _shares(plan.shards))):
            running = [
                stack.enter_context(
                    serving(folder / f"{name}-{number}", plan.distance, *_options(config, share))
                )
                for number, share in enumerate(shares)
            ]
            sides.append(_Side(running))
        one, shards = sides
        for number in range(plan.rounds):
            for side in (one, shards) if number % 2 == 0 else (shards, one):
                side.rounds.append(run(_measured(side, plan, values, rng)))
                if progress:
                    progress(len(one.rounds) + len(shards.rounds), 2 * plan.rounds)

    def ratio(name: str) -> Samples:
        pairs = zip(one.rounds, shards.rounds, strict=True)
        return samples([getattr(many, name) / getattr(single, name) for single, many in pairs])

    return ShardsBench(
        plan.documents,
        plan.distance,
        plan.per_second,
        int(plan.per_second * plan.seconds),
        one.fan(),
        shards.fan(),
        ratio("p50_ms"),
        ratio("p99_ms"),
        machine("crawl-dedup", "hiredis", "uvloop"),
    )


def _shares(count: int) -> list[str]:
    """Return the partitions in equal parts."""
    bounds = [n * PARTITIONS // count for n in range(count + 1)]
    return [str(Share(frozenset(range(low, high)), PARTITIONS)) for low, high in pairwise(bounds)]


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


async def _measured(side: _Side, plan: ShardsPlan, values: list[int], rng: random.Random) -> _Round:
    async with await dedup.open_async(
        ",".join(side.urls),
        namespace=NAMESPACE,
        distance=plan.distance,
        recipe=NEWEST,
        timeout_seconds=TIMEOUT_SECONDS,
    ) as detector:
        await _probe_times(
            detector, msgspec.structs.replace(plan, seconds=WARM_SECONDS), values, rng
        )
        times = await _probe_times(detector, plan, values, rng)
        before, began = side.cpu(), time.process_time()
        await _pages(detector, plan.pages, rng)
        client = time.process_time() - began
        services = side.cpu() - before

    def percentile(share: float) -> float:
        return times[min(int(len(times) * share), len(times) - 1)] * 1000

    a_page = 1e6 / plan.pages
    return _Round(percentile(0.5), percentile(0.99), client * a_page, services * a_page)


async def _probe_times(
    detector: AsyncDetector, plan: ShardsPlan, values: list[int], rng: random.Random
) -> list[float]:
    """Probe at a steady rate, whatever comes back when; one in eight is near a document."""
    count = int(plan.per_second * plan.seconds)
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
        due = began + len(under_way) / plan.per_second
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
