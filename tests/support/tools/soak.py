"""make soak: crawls killed and resumed, and stores damaged byte by byte, for as long as you like.

    SOAK_ROUNDS   rounds of kill -9 and resume (100), each with a seed; tests/support/killing.py
    SOAK_SERVICE_ROUNDS   rounds of kill -9 of a service, its spiders and, every other round, Kafka
                  (200), each with a seed; tests/support/killing_service.py
    SOAK_BYTES    bytes damaged by chance (5000), after all bits of those that steer; tests/support/damage.py
    SOAK_SEED     the first seed; by chance without it

Progress goes to stderr; the last line, on stdout, is a JSON object of figures. The exit code is 1 if
anything was wrong, and what it was stands in the figures with its seed.
"""

import json
import os
import random
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import killing_service
from broker import Cluster
from crawling import serve
from damage import counted, heads, outcomes, sampled, small_store, wrong
from killing import killed_and_resumed, lost, missing, own_duplicates, site_pages, wrongs

CONTENTS = 40
SERVICE_CONTENTS = 20
BATCH = 500  # bytes damaged between two lines of progress


def main() -> int:
    rounds = int(os.environ.get("SOAK_ROUNDS", "100"))
    service_rounds = int(os.environ.get("SOAK_SERVICE_ROUNDS", "200"))
    samples = int(os.environ.get("SOAK_BYTES", "5000"))
    seed = int(os.environ.get("SOAK_SEED", random.randrange(10**9)))
    start = time.monotonic()
    figures: dict[str, Any] = {"seed": seed}
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        figures["kills"] = kills = kill(Path(folder), rounds, seed)
        figures["service"] = shared = kill_services(Path(folder), service_rounds, seed)
        figures["damage"] = harms = damage(Path(folder), samples, seed)
    figures["seconds"] = round(time.monotonic() - start)
    print(json.dumps(figures))
    return 1 if kills["wrong"] or shared["wrong"] or harms["wrong"] else 0


def kill(folder: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Kill and resume; return the figures of all rounds together."""
    total: dict[str, Any] = dict.fromkeys(
        (
            "rounds", "pages_requested", "parsed_before_kill", "parsed_after", "dropped",
            "contents", "lost_by_dedup", "lost_by_the_queue", "own_duplicates",
        ),
        0,
    )  # fmt: skip
    total["wrong"] = []
    with serve(site_pages(CONTENTS)) as site:
        for number in range(rounds):
            done = killed_and_resumed(folder / f"round{number}", site, seed + number)
            before, after = len(done.killed.of("parsed")), len(done.resumed.of("parsed"))
            dropped = len(done.killed.dropped) + len(done.resumed.dropped)
            ours = len(lost(done))
            total["rounds"] += 1
            total["pages_requested"] += len(done.resumed.requested)
            total["parsed_before_kill"] += before
            total["parsed_after"] += after
            total["dropped"] += dropped
            total["contents"] += CONTENTS
            total["lost_by_dedup"] += ours
            total["lost_by_the_queue"] += len(missing(done)) - ours
            total["own_duplicates"] += len(own_duplicates(done))
            found = [*wrongs(done)]
            total["wrong"] += found
            say(
                f"round {number + 1}/{rounds}, seed {done.seed}: {before} parsed, killed, {after} "
                f"parsed, {dropped} dropped, {len(missing(done)) - ours} contents lost by the queue"
                + "".join(f"\n    WRONG {text}" for text in found)
            )
    return total


def kill_services(folder: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Kill services, spiders and brokers; return the figures of all rounds together."""
    total: dict[str, Any] = {"rounds": 0, "acknowledged": 0, "dropped": 0, "crawls": 0, "wrong": []}
    with ExitStack() as stack:
        site = stack.enter_context(serve(site_pages(SERVICE_CONTENTS)))
        broker = stack.enter_context(Cluster()) if rounds > 1 else None
        for number in range(rounds):
            place, topic = folder / f"service{number}", f"soak-{seed}-{number}"
            log = broker if number % 2 else None
            done = killing_service.killed_round(place, site, seed + number, log, topic)
            found = [*killing_service.wrongs(done)]
            dropped = sum(len(crawl.dropped) for crawl in done.crawls)
            total["rounds"] += 1
            total["acknowledged"] += len(done.acknowledged)
            total["dropped"] += dropped
            total["crawls"] += len(done.crawls)
            total["wrong"] += found
            shutil.rmtree(place)
            say(
                f"service round {number + 1}/{rounds}, seed {done.seed}"
                f"{', through Kafka' if log else ''}: {len(done.crawls)} crawls, "
                f"{len(done.acknowledged)} inserts acknowledged, {dropped} dropped"
                + "".join(f"\n    WRONG {text}" for text in found)
            )
    return total


def damage(folder: Path, samples: int, seed: int) -> dict[str, Any]:
    """Damage byte after byte; return how many were refused, harmless, or wrong."""
    store = small_store(folder)
    harms = heads(store, [1 << bit for bit in range(8)]) if samples else []
    harms += sampled(store, seed, samples)
    found: list[str] = []
    for first in range(0, len(harms), BATCH):
        found += outcomes(store, harms[first : first + BATCH])
        say(f"{len(found)} of {len(harms)} bytes damaged: {counted(found)}")
    bad = [f"{harm}: {what}" for harm, what in wrong(harms, found)]
    return {"bytes": len(harms), **counted(found), "wrong": bad}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
