"""Crawls that are stopped, killed and resumed, or repeated, on the same store."""

import random
import shutil
import signal
import time

import pytest
from crawling import Case, Crawl, Crawling, Page, article, hub, run_case, serve, wait_for

from dedup.scrapy.session import COMMIT_PAGES
from dedup.store import verify_store

CONTENTS = 40
ROUNDS = 4
CONCURRENT = 8


def site_pages(number: int = CONTENTS) -> dict[str, Page]:
    """Pages under /CONTENT/COPY: each content three times, reached over a few pages of links.

    Few links on a page, so that the listing guard plays no part.
    """
    paths = [f"/{n}/{copy}" for copy in ("a", "b", "c") for n in range(number)]
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


# A kill tears Scrapy's own queue on disk (queuelib then fails to unpack it) and loses requests in
# flight. So that whatever a resumed run does not parse is due to dedup, the queue is taken away and
# all pages are asked for again.
ASKS_AGAIN = """
def links(self, response):
    return super().links(response, dont_filter=True)

async def parse(self, response):
    import asyncio
    await asyncio.sleep(0.005)  # there are pages in flight at any moment
    self.note("parsed", response)
    await asyncio.sleep(0.005)
    for request in self.links(response):
        yield request
    self.note("ended", response)
"""


def inserted(killed: Crawl) -> set[str]:
    """Return the articles that were in the store for certain when the crawl was killed.

    Those whose callbacks ended last may have been killed just before their insert, which comes for
    COMMIT_PAGES of them at once.
    """
    ended = killed.paths("ended")[: -CONCURRENT - COMMIT_PAGES]
    return {path for path in ended if path.strip("/")[:1].isdigit()}


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    """For each round: its seed, the events of the killed run and of the resumed one, the store."""
    done = []
    pages = site_pages()
    with serve(pages) as site:
        for _ in range(ROUNDS):
            seed = random.randrange(10**9)
            folder = tmp_path_factory.mktemp("killed")
            case = Case(
                pages,
                ASKS_AGAIN,
                {"JOBDIR": str(folder / "job"), "CONCURRENT_REQUESTS": CONCURRENT},
            )
            killed = Crawling(folder, {"only": (site, case)})
            print(f"round with seed {seed}")
            pages_until = random.Random(seed).randrange(5, 180)
            pause = random.Random(seed + 1).random() * 0.02
            wait_for(lambda crawl=killed, n=pages_until: len(crawl.events()) > n)
            time.sleep(pause)
            killed.process.kill()
            first = killed.end(-signal.SIGKILL)["only"]
            shutil.rmtree(folder / "job" / "requests.queue")
            second = Crawling(folder, {"only": (site, case)}).end()["only"]
            report = verify_store(folder / "dedup", "only")
            done.append((seed, first, second, report))
            shutil.rmtree(folder)
    return done


def test_kill_and_resume_leaves_both_runs_something_to_do(rounds):
    """Each killed run had parsed pages, and the resumed one parsed more."""
    for seed, first, second, _ in rounds:
        assert first.of("parsed"), seed
        assert second.of("ended"), seed


def test_promise_1_nothing_is_lost_by_kill_and_resume(rounds):
    """After kill -9 and a resume with JOBDIR every content was parsed."""
    every = {str(n) for n in range(CONTENTS)}
    for seed, first, second, _ in rounds:
        parsed = {content(p) for p in first.parsed | second.parsed if p.count("/") == 2}
        assert every <= parsed, seed


def test_promise_1_nothing_is_lost_and_each_drop_names_a_parsed_page(rounds):
    """The page that a drop names was parsed to its end in one of the runs, and is alike."""
    for seed, first, second, _ in rounds:
        ended = {url for crawl in (first, second) for url in crawl.paths("ended")}
        for path, verdict in (first.dropped | second.dropped).items():
            original = verdict["of"].removeprefix(first.url)
            assert content(original) == content(path), seed
            assert original in ended, seed


def test_promise_2_a_page_is_never_a_duplicate_of_itself_after_kill_and_resume(rounds):
    """No resumed run drops a page as its own duplicate, nor one that was accepted before."""
    for seed, first, second, _ in rounds:
        assert not inserted(first) & set(second.dropped), seed
        for path, verdict in second.dropped.items():
            assert verdict["of"] != f"{second.url}{path}", seed


def test_promise_2_accepted_pages_are_fetched_again_after_kill_and_resume(rounds):
    """What ended before the kill is a refetch afterwards: inserts survive kill -9."""
    for seed, first, second, _ in rounds:
        statuses = {e["path"]: e["dedup"]["status"] for e in second.of("parsed")}
        assert {statuses.get(path) for path in inserted(first)} <= {"refetch"}, seed


def test_store_verifies_after_kill_and_resume(rounds):
    """The store is sound after kill -9, and holds a page of each content."""
    for seed, _, _, report in rounds:
        assert report.problems == [], seed
        assert report.documents >= CONTENTS, seed


# ------------------------------------------------------------------- stopped and repeated

UNCHANGED = {
    "/": hub("/one", "/two", "/three", "/moved"),
    "/one": article(1),
    "/two": article(2),
    "/three": article(3),
    "/moved": Page(b"", status=302, headers={"Location": "/landed"}),
    "/landed": article(4),
}


def test_promise_2_a_page_is_never_a_duplicate_of_itself_in_a_recrawl(tmp_path):
    """A second crawl of an unchanged site fetches every page again and drops none."""
    with serve(UNCHANGED) as site:
        together = {"only": (site, Case(UNCHANGED))}
        first = Crawling(tmp_path, together).end()["only"]
        again = Crawling(tmp_path, together).end()["only"]
    assert first.stat("unique") == again.stat("refetch") == 4
    assert again.parsed == first.parsed == set(UNCHANGED) - {"/moved"}
    assert again.stat("near_duplicate") == 0


def test_stopped_and_resumed(tmp_path):
    """A crawl that was stopped (SIGTERM) and resumed with JOBDIR parses each content once."""
    pages = site_pages(20)
    settings = {"JOBDIR": str(tmp_path / "job"), "CONCURRENT_REQUESTS": 4}
    with serve(pages) as site:
        together = {"only": (site, Case(pages, settings=settings))}
        stopped = Crawling(tmp_path, together)
        wait_for(lambda: len(stopped.events()) > 15)
        stopped.process.send_signal(signal.SIGTERM)
        first = stopped.end()["only"]
        second = Crawling(tmp_path, together).end()["only"]
    parsed = [
        content(p) for p in first.paths("parsed") + second.paths("parsed") if p[1:2].isdigit()
    ]
    assert sorted(parsed) == sorted(map(str, range(20)))
    assert first.stats["finish_reason"] == "shutdown"


def test_expired_reservation_keeps_the_near_duplicate(tmp_path):
    """A page whose callback outlasts DEDUP_RESERVATION_SECONDS costs no page: both are kept."""
    body = """
    async def parse(self, response):
        import asyncio
        self.note("parsed", response)
        if response.url.endswith("/slow"):
            yield scrapy.Request(self.base + "/copy", self.parse, errback=self.failed)
            await asyncio.sleep(0.6)
        for request in self.links(response):
            yield request
    """
    pages = {"/": hub("/slow"), "/slow": article(5), "/copy": article(5, frame="copy")}
    settings = {"DEDUP_RESERVATION_SECONDS": 0.2, "DEDUP_WAIT_SECONDS": 5}
    crawl = run_case(tmp_path, Case(pages, body, settings))
    assert crawl.parsed == set(pages)
    assert crawl.stat("late_duplicate") == 1
