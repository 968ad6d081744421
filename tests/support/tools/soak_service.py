"""make soak-service: workers, table service and broker killed at random under load, round after round.

    SOAK_ROUNDS   rounds (50), each with a seed
    SOAK_PAGES    pages a round (400), four of each content

In a round two workers of a group, which share the service, are given pages in several goes. Meanwhile
three to six of {a worker, the service, the broker} are killed with -9 at moments that the seed
chooses, and started again. Then everything is drained, and judged: every page is in an output, every
drop names a page alike that was accepted, and every page that was accepted before is a near-duplicate
for the service now (of one that was judged again, as a near-duplicate, since service and worker died
between its output and its insert, the page that it was dropped for is known). Service and broker live on
through all rounds, with what they have on disk. Settings and verdict: soaking.py.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pagestream
from broker import Cluster
from services import Serving
from soaking import Soak
from workers import Done, Message, Topic, WorkerProcess, messages, outcome, wait_until, wrongs

import dedup

COPIES = 4
GOES = 4  # in which a round's pages are written
VICTIMS = ("worker", "worker", "service", "broker")
DRAIN_SECONDS = 180.0
WORKER_OPTIONS = ({"batch_records": 25, "stop_seconds": 5.0},)


class Round(NamedTuple):
    """What one round came to."""

    seed: int
    killed: list[str]
    done: Done
    pages: int
    wrong: list[str]
    seconds: float


class Stage:
    """The service, the broker, and the workers of the round that is on."""

    def __init__(self, service: Serving, cluster: Cluster, soak: Soak) -> None:
        self.service = service
        self.cluster = cluster
        self.soak = soak
        self.workers: list[WorkerProcess] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.service.port}"

    def start_worker(self, topic: Topic, number: int) -> WorkerProcess:
        options = ("--service", self.url, "--instance", f"w{number}", *WORKER_OPTIONS)
        return WorkerProcess(topic, *options)

    def strike(self, victim: str, topic: Topic, chance: random.Random) -> None:
        """Kill one of them, and start it again a moment later."""
        self.soak.killed[victim] += 1
        pause = chance.random() * 1.5
        if victim == "service":
            self.service.kill()
            time.sleep(pause)
            self.service.start()
        elif victim == "broker":
            self.cluster.kill()
            time.sleep(pause)
            self.cluster.start()
        else:
            number = chance.randrange(len(self.workers))
            self.workers[number].process.kill()
            self.workers[number].end(None)
            time.sleep(pause)
            self.workers[number] = self.start_worker(topic, number)

    def end_workers(self) -> list[str]:
        """Stop the workers; return what is wrong with how they ended.

        One that was told so before it said its first word ends by the signal.
        """
        ends = [(worker.end(), worker) for worker in self.workers]
        self.workers = []
        return [
            f"a worker ended with {code}: {worker.told()[-2000:]}"
            for code, worker in ends
            if worker.other or not (code == 0 or (code == -signal.SIGTERM and not worker.lines))
        ]


def play(stage: Stage, number: int, seed: int, pages: int) -> Round:
    """Play one round; return what it came to."""
    began, chance = time.monotonic(), random.Random(seed)
    topic = Topic.made(stage.cluster.bootstrap, partitions=4)
    contents = [
        (number * pages + content, copy)
        for content, copy in pagestream.stream(pages // COPIES, COPIES, seed)
    ]
    given = messages(contents)
    stage.workers = [stage.start_worker(topic, n) for n in range(2)]
    feeding = threading.Thread(
        target=_feed, args=(topic, given, chance.random() * 0.6), daemon=True
    )
    feeding.start()
    killed = []
    for _ in range(chance.randrange(3, 7)):
        time.sleep(0.3 + chance.random())
        victim = chance.choice(VICTIMS)
        stage.strike(victim, topic, chance)
        killed.append(victim)
    feeding.join()
    wrong = []
    try:
        wait_until(lambda: _complete(topic, given), DRAIN_SECONDS)
    except AssertionError:
        told = "\n".join(worker.told()[-1500:] for worker in stage.workers)
        wrong.append(f"not drained after {DRAIN_SECONDS:.0f} s: {told}")
    wrong += stage.end_workers()
    done = outcome(topic)
    wrong += wrongs(given, done)
    wrong += forgotten(stage.url, done)
    return Round(seed, killed, done, len(given), wrong, time.monotonic() - began)


def _feed(topic: Topic, given: list[Message], pause: float) -> None:
    """Write the pages in goes; each go until the broker has it."""
    size = -(-len(given) // GOES)
    for first in range(0, len(given), size):
        while True:
            try:
                topic.fill(given[first : first + size])
                break
            except Exception:  # the broker is being killed; what was written may be written again
                time.sleep(0.5)
        time.sleep(pause)


def _complete(topic: Topic, given: list[Message]) -> bool:
    try:
        done = outcome(topic)
    except Exception:  # the broker is not back yet
        return False
    return {m.key for m in given} <= {m.key for m in (*done.unique, *done.duplicates)}


def forgotten(url: str, done: Done) -> list[str]:
    """Return the accepted pages that the service does not know, in sentences.

    Of a page that was judged again, as a near-duplicate, it knows the one that it was dropped for.
    """
    found = []
    again = {m.key.decode(): m.header("dedup.of") for m in done.duplicates if m.key}
    with dedup.open(url, timeout_seconds=10) as detector:
        for key in sorted({m.key.decode() for m in done.unique if m.key}):
            content, copy = map(int, key.split("/")[-2:])
            page = detector.fingerprint(pagestream.html(content, copy), url=key)
            if not {key, again.get(key)} & {neighbour.key for neighbour in detector.probe(page)}:
                found.append(f"{key} was accepted, and the service does not know it")
    return found


def main() -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it says at length who was killed
    pages = int(os.environ.get("SOAK_PAGES", "400"))
    with Soak("soak-service", 50) as soak, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        cluster = stack.enter_context(Cluster())
        stage = Stage(stack.enter_context(Serving(folder / "service")), cluster, soak)
        for number in soak.rounds():
            played = play(stage, number, soak.seed + number, pages)
            unique, duplicates = len(played.done.unique), len(played.done.duplicates)
            soak.figures.update(pages=played.pages, unique=unique, duplicates=duplicates)
            soak.round(
                f"seed {played.seed}, {played.seconds:.0f} s: killed {', '.join(played.killed)}; "
                f"{unique} unique, {duplicates} duplicates",
                [f"seed {played.seed}: {text}" for text in played.wrong],
            )


if __name__ == "__main__":
    main()
