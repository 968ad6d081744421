"""How fast a log is applied, end to end, on a real broker: log_million [EVENTS [NAMESPACES]].

Writes so many events (1,000,000), then has a replica apply them from the log's beginning, twice (the
second time by --rebuild), and restarts it. CPU time is that of this process, which reads, decodes and
applies; the broker has its own.
"""

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from broker import any_broker
from logs import log_config
from sketches import sketch

from dedup.model.events import encode
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.service.core.namespaces import Namespaces
from dedup.service.replica import SERVING, Replica
from dedup.wire.kafka import KafkaConfig, Writer, ensure_topic
from dedup.wire.kafka.writer import Outgoing


def events(count: int, namespaces: int) -> Iterator[Outgoing]:
    rng = random.Random(1)
    for i in range(count):
        site = f"example{i % 977}.com"
        value, bits, identity = (rng.getrandbits(size) for size in (64, 256, 64))
        page = PageFingerprint(value, sketch(bits), identity, 300, NEWEST)
        url = f"https://www.{site}/articles/2026/{i}/title-of-the-page.html"
        yield Outgoing(*encode(f"n{i % namespaces}", Document(url, page, site, 1.7e9 + i)))


async def write(config: KafkaConfig, count: int, namespaces: int) -> None:
    await ensure_topic(config)
    async with Writer(config) as writer:
        batch: list[Outgoing] = []
        for event in events(count, namespaces):
            batch.append(event)
            if len(batch) == 10_000:
                await writer.send_many(batch)
                batch.clear()
        await writer.send_many(batch)


async def follow(config: KafkaConfig, path: Path, what: str, count: int, **options: bool) -> None:
    views = Namespaces(path)
    began, cpu = time.monotonic(), time.process_time()
    replica = Replica(config, views, path, **options)
    await replica.prepare()
    views.open_all()
    run = asyncio.ensure_future(replica.run())
    await replica.reached(*SERVING)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    replica.stop()
    await run
    views.close()
    line = f"{what:10} {seconds:6.1f} s, {cpu:6.1f} s of CPU"
    if applied := replica.counts["inserted"]:
        assert applied == count
        line += f": {cpu / applied * 1e6:.1f} us an event, {applied / cpu:,.0f} a second and core"
    print(line, f"(load {os.getloadavg()[0]:.0f})", flush=True)


async def main(bootstrap: str, path: Path, count: int, namespaces: int) -> None:
    config = log_config(bootstrap)
    await write(config, count, namespaces)
    await follow(config, path, "apply", count)
    await follow(config, path, "rebuild", count, rebuild=True)
    await follow(config, path, "restart", count)


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder, any_broker() as address:
        asyncio.run(main(address, Path(folder), *(sizes + [1_000_000, 1][len(sizes) :])))
