"""The demo with Kafka: a broker, the table service, two spiders; a spider and the service are killed.

    site <- two spiders -> (judged by) the service
                                      |
                             Kafka <--+      insert events

Rule: everything is real and in a process of its own, and what is claimed at the end is looked up: the
accepted pages in Kafka's log, the remembered ones in the restarted service.
"""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import quote

import msgspec
from brokers import Cluster, brokers_answering
from fleet_spider import Note
from ports import free_ports

from dedup.demo.site import serve_in_child
from dedup.model.errors import DedupError
from dedup.model.events import decode
from dedup.wire.kafka import KafkaConfig, Reader, describe_topic, kafka_config

__all__ = ["FleetReport", "run_fleet"]

NAMESPACE = "fleet"  # the spiders' name
SPIDERS = 2
AWAY_SECONDS = 1.0  # how long the killed service stays away
STARTS_WITHIN_SECONDS = 60.0
APPLIED_WITHIN_SECONDS = 30.0
STOPS_WITHIN_SECONDS = 20.0

Say = Callable[[str], object]


class FleetReport(msgspec.Struct, frozen=True):
    """What came of it; pages are URLs.

    pages                 pages of the site, the front page aside
    parsed, dropped       pages by what became of them last
    accepted_before_kill  pages that were in Kafka's log when the kill came
    remembered            pages in the service at the end
    forgotten             pages accepted before the kill that the service does not know any more
    unexplained           pages that were dropped, while their original was not accepted
    lost                  pages that were neither parsed nor dropped as alike to an accepted one
    """

    pages: int
    parsed: int
    dropped: int
    accepted_before_kill: int
    remembered: int
    forgotten: list[str]
    unexplained: list[str]
    lost: list[str]

    @property
    def complaints(self) -> list[str]:
        """What must not be, in words; empty when nothing was lost."""
        found = {
            "accepted, and forgotten": self.forgotten,
            "dropped without an accepted original": self.unexplained,
            "lost": self.lost,
        }
        return [f"{len(pages)} pages {what}: {pages[:5]}" for what, pages in found.items() if pages]


def run_fleet(pages: int, seed: int, say: Say, *, install: bool = False) -> FleetReport:
    """Run it on a site of that size and seed; say() is told what happens, a line each.

    Kafka is the one at KAFKA_BOOTSTRAP_SERVERS, if that is set, else a broker that is started;
    install says whether what that needs may be downloaded. Raises NoBroker, and DedupError for a
    process that fails.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dedup-demo-")))
        bootstrap = stack.enter_context(_broker(say, install=install))
        config = kafka_config(bootstrap, f"dedup.demo.{secrets.token_hex(4)}")
        url = stack.enter_context(serve_in_child(pages, seed, folder / "requests.log"))
        service = stack.enter_context(_Service(folder / "service", config))
        say(f"service   reads topic {config.topic}, listens on {service.redis}")
        spiders = [
            _Spider(folder / f"spider-{n}", n, _options(url, pages, seed, service))
            for n in range(SPIDERS)
        ]
        for spider in spiders:
            stack.enter_context(spider)
        say(f"spiders   {SPIDERS} processes, each with half of {pages - 1} pages")
        victim, other = spiders
        share = (pages - 1) // SPIDERS
        _wait(lambda: len(victim.notes) > share // 3 or victim.ended, STARTS_WITHIN_SECONDS)

        victim.kill()
        service.kill()
        accepted = asyncio.run(_accepted(config))
        say(
            f"kill -9   of spider 0 and of the service: {len(victim.notes)} pages were judged by "
            f"that spider; {len(accepted)} pages are accepted by both"
        )
        time.sleep(AWAY_SECONDS)
        service.start()
        say("service   started again: rebuilt from its snapshot and Kafka's log")
        victim.start()
        say("spider 0  started again, from the beginning of its half")
        for spider in spiders:
            spider.wait()
        say(f"spiders   both ended; {len(other.notes)} pages by spider 1, which saw the outage")
        return _report(spiders, service, config, accepted)


def _report(
    spiders: "list[_Spider]", service: "_Service", config: KafkaConfig, before: set[str]
) -> FleetReport:
    accepted = asyncio.run(_accepted(config))
    try:
        _wait(lambda: all(map(service.remembers, accepted)), APPLIED_WITHIN_SECONDS)
    except DedupError:
        pass  # the report says which are missing
    remembered = set(filter(service.remembers, accepted | before))
    last = {note.url: note for spider in spiders for note in spider.notes}
    dropped = {url: note for url, note in last.items() if note.event == "dropped"}
    unexplained = {url for url, note in dropped.items() if note.of not in remembered}
    parsed = {url for url, note in last.items() if note.event == "parsed"}
    return FleetReport(
        pages=len(last),
        parsed=len(parsed),
        dropped=len(dropped),
        accepted_before_kill=len(before),
        remembered=len(remembered),
        forgotten=sorted(before - remembered),
        unexplained=sorted(unexplained),
        lost=sorted(set(last) - parsed - set(dropped) | unexplained),
    )


@contextmanager
def _broker(say: Say, *, install: bool) -> Iterator[str]:
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        if not brokers_answering(given):
            raise DedupError(f"no Kafka answers at KAFKA_BOOTSTRAP_SERVERS, {given}")
        say(f"broker    the one at {given}")
        yield given
        return
    say("broker    starting Apache Kafka ...")
    with Cluster(install=install) as cluster:
        say(f"broker    listens on {cluster.bootstrap}")
        yield cluster.bootstrap


def _options(url: str, pages: int, seed: int, service: "_Service") -> list[str]:
    return [
        f"--url={url}",
        f"--pages={pages}",
        f"--seed={seed}",
        f"--service={service.redis}",
    ]


async def _accepted(config: KafkaConfig) -> set[str]:
    """Return the document keys that Kafka's log holds as it is now."""
    topic = await describe_topic(config)
    if topic is None:
        return set()
    keys: set[str] = set()
    async with Reader(config, topic) as reader:
        while not reader.caught_up:
            for records in (await reader.batch(0.2)).values():
                keys |= {decode(record.key, record.value).key for record in records}
    return keys


def _wait(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise DedupError(f"the demo waited {seconds:g} seconds in vain")
        time.sleep(0.05)


class _Process(ABC):
    """A program of this package, started again and again; it ends with the block."""

    process: "subprocess.Popen[bytes] | None" = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = path.with_name(f"{path.name}.log")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOPS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    @abstractmethod
    def start(self) -> None:
        """Start it."""

    def kill(self) -> None:
        """Kill it with -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _run(self, *command: str) -> "subprocess.Popen[bytes]":
        # a project's settings, named by the environment, are not the demo's
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SCRAPY_")}
        environment.pop("DEDUP_TOKEN", None)
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the parent, which ends it
            )

    def _failed(self, what: str) -> DedupError:
        said = self._log.read_text(errors="replace").strip()[-2000:]
        return DedupError(f"{what}; it said: {said}")


class _Service(_Process):
    """`dedup serve`; redis and http are its URLs, the same after a restart."""

    def __init__(self, path: Path, config: KafkaConfig) -> None:
        super().__init__(path)
        self.config = config
        self.redis = self.http = ""

    def start(self) -> None:
        """Start it, and wait until it answers probes."""
        any_two = (f"127.0.0.1:{port}" for port in free_ports(2))
        listen = self.redis.partition("://")[2] or next(any_two)
        http = self.http.partition("://")[2] or next(any_two)
        self.process = self._run(
            "-m",
            "dedup",
            "serve",
            f"--path={self.path}",
            f"--listen={listen}",
            f"--http={http}",
            f"--kafka={','.join(self.config.bootstrap)}",
            f"--topic={self.config.topic}",
            "--log=json",
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._failed("the demo's service did not start")
        where = json.loads(line)["listening"]
        self.redis, self.http = where["redis"], where["http"]
        _wait(lambda: self._status("/readyz") == 200, STARTS_WITHIN_SECONDS)

    def remembers(self, key: str) -> bool:
        """Whether the document with this key is in the service's table."""
        return self._status(f"/v1/documents?ns={NAMESPACE}&key={quote(key, safe='')}") == 200

    def _status(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self.http + path, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0


class _Spider(_Process):
    """A spider, and what it noted, over all its runs."""

    def __init__(self, path: Path, number: int, options: list[str]) -> None:
        super().__init__(path)
        self.notes: list[Note] = []
        self._options = [f"--share={number}/{SPIDERS}", f"--path={path}", *options]
        self._thread: threading.Thread | None = None

    @property
    def ended(self) -> bool:
        """Whether it ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def start(self) -> None:
        """Start it, and note what it says."""
        self.process = self._run(str(Path(__file__).with_name("fleet_spider.py")), *self._options)
        self._thread = threading.Thread(target=self._listen, args=(self.process,), daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Kill it with -9."""
        super().kill()
        self._listened()

    def wait(self) -> None:
        """Wait for its end. Raises DedupError if that was not a good one."""
        assert self.process is not None
        self._listened()
        if self.process.wait() != 0:
            raise self._failed("a spider of the demo failed")

    def _listened(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith(b"\n"):  # a kill may have cut it
                self.notes.append(msgspec.json.decode(line, type=Note))
