"""Spiders, a service and Kafka that are killed with -9 at random moments: what is wrong afterwards.

    with serve(site_pages(12)) as site:
        done = killed_round(folder, site, seed)                        a service of its own
        done = killed_round(folder, site, seed, broker=cluster)        and the log
    wrongs(done)    sentences; empty when every promise was kept

Several spiders of one namespace crawl the same site, each a share of it. While they do, one thing
after the other is killed, and started again: the service on its folder, a spider from its start, a
broker with what it has on disk. At the end every spider crawls its share once more, unharmed.

What a spider was told to be safe it notes in a file (ACKNOWLEDGED): inserts that the service
acknowledged.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from crawling import PATIENT, TEXT, Case, Crawl, Crawling, Site, wait_for
from killing import content
from services import Serving

if TYPE_CHECKING:
    from broker import Cluster

NAMESPACE = "shared"
SPIDERS = 2
KILLS = 3
APPLIED_SECONDS = 120.0  # until the last event is in the service

NOTES = """
import json
from pathlib import Path
import dedup.detector.remote

def _note(keys):
    with Path("acknowledged").open("a") as file:
        file.write("".join(json.dumps(key) + "\\n" for key in keys))

real_end_many = dedup.detector.remote.RemoteDetector.end_many
async def end_many(self, kind, verdicts):
    answers = await real_end_many(self, kind, verdicts)
    if kind == "insert":
        _note([v.key for v, each in zip(verdicts, answers) if not isinstance(each, Exception)])
    return answers
dedup.detector.remote.RemoteDetector.end_many = end_many
"""

SHARE = """
def links(self, response):
    start = response.url.endswith("/")
    for number, request in enumerate(super().links(response)):
        if not start or number % {spiders} == {mine}:
            yield request

async def parse(self, response):
    import asyncio
    await asyncio.sleep(0.005)  # there are pages in flight at any moment
    self.note("parsed", response)
    yield {{"url": response.url}}
    for request in self.links(response):
        yield request
"""


def shared(site: Site, mine: int, spiders: int, settings: dict[str, object]) -> Case:
    """Return the case of one of several spiders that share a site and a namespace."""
    pages = {path: answers[0] for path, answers in site.pages.items()}
    body = SHARE.format(mine=mine, spiders=spiders)
    return Case(pages, body, {"DEDUP_NAMESPACE": NAMESPACE, "CONCURRENT_REQUESTS": 4} | settings)


class Done(NamedTuple):
    """A seed, what was killed, all crawls in their order, what was acknowledged, and what is remembered."""

    seed: int
    killed: list[str]
    contents: set[str]
    crawls: list[Crawl]
    last: list[Crawl]
    acknowledged: set[str]
    remembered: set[str]


def killed_round(
    folder: Path, site: Site, seed: int, broker: Cluster | None = None, topic: str = ""
) -> Done:
    """Crawl, kill at moments that the seed chooses, and crawl once more."""
    chance = random.Random(seed)
    options: list[object] = []
    settings: dict[str, object] = TEXT | {"DEDUP_TIMEOUT_SECONDS": 5}
    if broker is not None:
        options = ["--kafka", broker.bootstrap, "--topic", topic]
    folders = [folder / f"spider{n}" for n in range(SPIDERS)]
    crawls: list[Crawl] = []
    killed: list[str] = []
    with Serving(folder / "service", *options) as service:
        settings["DEDUP_SERVICE"] = f"redis://127.0.0.1:{service.port}"
        cases = [shared(site, n, SPIDERS, settings) for n in range(SPIDERS)]

        def crawling(n: int) -> Crawling:
            return Crawling(folders[n], {"only": (site, cases[n])}, PATIENT + NOTES)

        running = [crawling(n) for n in range(SPIDERS)]
        for _ in range(KILLS):
            seen = len(_events(running))
            until = seen + chance.randrange(2, 15)
            wait_for(lambda until=until: _ended(running) or len(_events(running)) > until)
            time.sleep(chance.random() * 0.05)
            victim = chance.choice(["service", "spider"] + ["broker"] * (broker is not None))
            killed.append(victim)
            if victim == "spider":
                n = chance.randrange(SPIDERS)
                running[n].process.kill()
                code = running[n].process.wait()  # it may have ended by itself just before
                crawls.append(running[n].end(code and -9)["only"])
                running[n] = crawling(n)
            elif victim == "service":
                service.kill()
                time.sleep(chance.random() * 0.5)
                service.start()
            elif broker is not None:
                broker.kill()
                time.sleep(chance.random() * 2)
                broker.start()
        crawls += [crawl.end()["only"] for crawl in running]
        settings["DEDUP_TIMEOUT_SECONDS"] = 60  # nothing is away any more, however busy all are
        cases = [shared(site, n, SPIDERS, settings) for n in range(SPIDERS)]
        last = [crawling(n).end()["only"] for n in range(SPIDERS)]
        acknowledged = set().union(*map(_acknowledged, folders))
        every = acknowledged | {f"{site.url}{path}" for path in site.pages}
        if broker is not None:
            wait_for(
                lambda: all(_is_remembered(service, key) for key in acknowledged), APPLIED_SECONDS
            )
        remembered = {key for key in every if _is_remembered(service, key)}
    contents = {content(path) for path in site.pages if _is_article(path)}
    return Done(seed, killed, contents, crawls + last, last, acknowledged, remembered)


def _events(running: list[Crawling]) -> list[dict[str, object]]:
    return [event for crawl in running for event in crawl.events()]


def _ended(running: list[Crawling]) -> bool:
    return all(crawl.process.poll() is not None for crawl in running)


def _acknowledged(folder: Path) -> set[str]:
    file = folder / "acknowledged"
    return set(map(json.loads, file.read_text().splitlines())) if file.exists() else set()


def _is_remembered(service: Serving, key: str) -> bool:
    status, _ = service.get(f"/v1/documents?ns={NAMESPACE}&key={quote(key, safe='')}")
    return status == 200


def _is_article(path: str) -> bool:
    return path.strip("/")[:1].isdigit()


def wrongs(done: Done) -> Iterator[str]:
    """Yield what is wrong with a round, in sentences."""
    for what, found in {
        "nothing was acknowledged": {} if done.acknowledged else {"no key"},
        "acknowledged, but not found": done.acknowledged - done.remembered,
        "dropped without an accepted original": _unexplained(done),
        "contents lost": done.contents - {content(key) for key in done.remembered if _known(key)},
        "accepted, and later dropped": _dropped_again(done),
        "crawls that did not end well": {
            crawl.stats["finish_reason"]
            for crawl in done.last
            if crawl.stats["finish_reason"] != "finished"
        },
        "faults of the last crawls": {str(c.faults) for c in done.last if c.faults},
    }.items():
        if found:
            yield f"seed {done.seed}: {what}: {sorted(found)}"


def _known(key: str) -> bool:
    return _is_article(urlsplit(key).path)


def _unexplained(done: Done) -> set[str]:
    return {
        path
        for crawl in done.crawls
        for path, verdict in crawl.dropped.items()
        if verdict["of"] not in done.remembered or content(verdict["of"]) != content(path)
    }


def _dropped_again(done: Done) -> set[str]:
    """Return what the last crawls dropped although it had been acknowledged before them."""
    return {
        path
        for crawl in done.last
        for path in crawl.dropped
        if f"{crawl.url}{path}" in done.acknowledged
    }
