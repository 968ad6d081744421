"""A crawl that is killed with -9 at a random moment, and resumed: what both runs did, and what is wrong.

    with serve(site_pages(40)) as site:
        done = killed_and_resumed(folder, site, seed)
    wrongs(done)    sentences; empty when every promise was kept

A kill costs Scrapy requests: those in flight, and those that its queue on disk had not written. So
that what a resumed run does not parse is due to dedup, all pages are asked for again in one half of
the rounds (even seeds). In the other half a content may be missing only if no page of it was dropped.
"""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crawling import TEXT, Case, Crawl, Crawling, Page, Site, article, hub, wait_for

from dedup.scrapy.page.in_flight import COMMIT_PAGES
from dedup.store.verify import VerifyReport, verify_store

CONCURRENT = 8

ASKS_AGAIN = """
def links(self, response):
    return super().links(response, dont_filter={asks_again})

async def parse(self, response):
    import asyncio
    await asyncio.sleep(0.005)  # there are pages in flight at any moment
    self.note("parsed", response)
    await asyncio.sleep(0.005)
    yield {{"url": response.url}}
    for request in self.links(response):
        yield request
    self.note("ended", response)
"""


class Round(NamedTuple):
    """A seed, the contents of its site, the killed and the resumed run, the store afterwards."""

    seed: int
    contents: int
    killed: Crawl
    resumed: Crawl
    report: VerifyReport

    @property
    def asked_again(self) -> bool:
        return self.seed % 2 == 0


def site_pages(contents: int) -> dict[str, Page]:
    """Pages under /CONTENT/COPY: each content three times, reached over a few pages of links."""
    paths = [f"/{n}/{copy}" for copy in ("a", "b", "c") for n in range(contents)]
    random.Random(7).shuffle(paths)
    hubs = [paths[i : i + 20] for i in range(0, len(paths), 20)]
    pages = {"/": hub(*(f"/hub/{i}" for i in range(len(hubs))))}
    pages |= {f"/hub/{i}": hub(*links) for i, links in enumerate(hubs)}
    pages |= {
        path: article(int(path.split("/")[1]) + 2000, frame=f"copy {path}", before=_pause)
        for path in paths
    }
    return pages


def _pause() -> None:
    time.sleep(0.01)


def content(path: str) -> str:
    """Return which content a path or key has."""
    return path.split("/")[-2]


def killed_and_resumed(folder: Path, site: Site, seed: int) -> Round:
    """Crawl with JOBDIR, kill the crawl at a moment that the seed chooses, crawl once more."""
    pages = {path: answers[0] for path, answers in site.pages.items()}
    contents = len({content(path) for path in pages if _is_article(path)})
    settings = TEXT | {"JOBDIR": str(folder / "job"), "CONCURRENT_REQUESTS": CONCURRENT}
    case = Case(pages, ASKS_AGAIN.format(asks_again=seed % 2 == 0), settings)
    chance = random.Random(seed)
    until, pause = chance.randrange(5, 4 * contents), chance.random() * 0.02
    site.most = len(pages) - 2  # each of them is noted twice or more: that is more than `until`
    running = Crawling(folder, {"only": (site, case)})
    wait_for(lambda: len(running.events()) > until)
    time.sleep(pause)
    running.process.kill()
    killed = running.end(-signal.SIGKILL)["only"]
    site.most = None
    resumed = Crawling(folder, {"only": (site, case)}).end()["only"]
    return Round(seed, contents, killed, resumed, verify_store(folder / "dedup", "only"))


def _is_article(path: str) -> bool:
    return path.strip("/")[:1].isdigit()


def parsed_contents(crawl: Crawl) -> set[str]:
    return {content(path) for path in crawl.parsed if _is_article(path)}


def missing(done: Round) -> set[str]:
    """Return the contents that neither run parsed."""
    every = {str(n) for n in range(done.contents)}
    return every - parsed_contents(done.killed) - parsed_contents(done.resumed)


def inserted(killed: Crawl) -> set[str]:
    """Return the articles that were in the store for certain when the crawl was killed.

    Those whose callbacks ended last may have been killed just before their insert, which comes for
    COMMIT_PAGES of them at once.
    """
    ended = killed.paths("ended")[: -CONCURRENT - COMMIT_PAGES]
    return {path for path in ended if _is_article(path)}


def lost(done: Round) -> set[str]:
    """Return the contents that are missing because of dedup: with a page that it dropped.

    Where every page was asked for again, whatever is missing.
    """
    dropped = {content(path) for path in (done.killed.dropped | done.resumed.dropped)}
    return missing(done) if done.asked_again else missing(done) & dropped


def unexplained(done: Round) -> list[str]:
    """Return the dropped pages whose verdict names no page alike that was parsed to its end."""
    ended = {path for crawl in (done.killed, done.resumed) for path in crawl.paths("ended")}
    # An insert may be committed when the kill comes between it and the note of its end.
    last = set(done.killed.paths("parsed")[-2 * CONCURRENT :])
    found = []
    for crawl in (done.killed, done.resumed):
        for path, verdict in crawl.dropped.items():
            original = verdict["of"].removeprefix(crawl.url)
            if content(original) != content(path) or original not in ended | last:
                found.append(path)
    return found


def own_duplicates(done: Round) -> list[str]:
    """Return the pages that were dropped as their own duplicate, or after they were accepted."""
    dropped = done.killed.dropped | done.resumed.dropped
    own = [path for path, v in dropped.items() if v["of"] == done.resumed.url + path]
    return own + sorted(inserted(done.killed) & set(done.resumed.dropped))


def not_remembered(done: Round) -> set[str]:
    """Return the pages that were accepted before the kill, but are no refetch afterwards."""
    statuses = {e["path"]: e["dedup"]["status"] for e in done.resumed.of("parsed")}
    before = inserted(done.killed)
    return {path for path in before & set(statuses) if statuses[path] != "refetch"}


def wrongs(done: Round) -> Iterator[str]:
    """Yield what is wrong with a round, in sentences."""
    for what, found in {
        "contents lost": lost(done),
        "drops unexplained": unexplained(done),
        "pages their own duplicates": own_duplicates(done),
        "accepted pages not remembered": not_remembered(done),
        "problems of the store": done.report.problems,
        "faults": done.killed.faults | done.resumed.faults,
    }.items():
        if found:
            yield f"seed {done.seed}: {what}: {found}"
