"""Crawls that are stopped, killed and resumed, or repeated, on the same store."""

import shutil

import pytest
from crawling import Case, article, hub, run_case, serve
from killing import (
    inserted,
    killed_and_resumed,
    lost,
    missing,
    not_remembered,
    own_duplicates,
    site_pages,
    unexplained,
)
from seeds import seed_of
from sizes import sized

pytestmark = pytest.mark.sized

CONTENTS = 32
ROUNDS = sized(quick=2, full=10)  # make soak: 100


@pytest.fixture(scope="module")
def rounds(tmp_path_factory, tell):
    """What came of each round; tests/support/killing.py says what a round is."""
    done = []
    first = seed_of("KILLS")
    tell(f"killed and resumed, seeds from KILLS_SEED={first} to {first + ROUNDS - 1}")
    with serve(site_pages(CONTENTS)) as site:
        for seed in range(first, first + ROUNDS):
            folder = tmp_path_factory.mktemp("killed")
            done.append(killed_and_resumed(folder, site, seed))
            shutil.rmtree(folder)
    return done


def test_kill_and_resume_leaves_both_runs_something_to_do(rounds):
    """Each killed run had parsed pages, and where all were asked for again, so had the second."""
    for done in rounds:
        assert done.killed.of("parsed"), done.seed
        assert done.resumed.of("ended") or not done.asked_again, done.seed
    assert any(inserted(done.killed) for done in rounds)


def test_promise_1_nothing_is_lost_by_kill_and_resume(rounds):
    """After kill -9 and a resume with JOBDIR no content is missing because of dedup."""
    for done in rounds:
        assert lost(done) == set(), done.seed
        assert not (done.asked_again and missing(done)), done.seed


def test_promise_1_each_drop_names_a_parsed_page_after_kill_and_resume(rounds):
    """The page that a drop names was parsed to its end in one of the runs, and is alike."""
    for done in rounds:
        assert unexplained(done) == [], done.seed


def test_promise_2_a_page_is_never_a_duplicate_of_itself_after_kill_and_resume(rounds):
    """No run drops a page as its own duplicate, nor one that was accepted before."""
    for done in rounds:
        assert own_duplicates(done) == [], done.seed


def test_promise_2_accepted_pages_are_fetched_again_after_kill_and_resume(rounds):
    """What ended before the kill is a refetch afterwards: inserts survive kill -9."""
    for done in rounds:
        assert not_remembered(done) == set(), done.seed


def test_store_verifies_after_kill_and_resume(rounds):
    """The store is sound after kill -9, and holds a page of each content that was parsed."""
    for done in rounds:
        assert done.report.problems == [], done.seed
        assert done.report.documents >= CONTENTS - len(missing(done)), done.seed


# ------------------------------------------------------------------- stopped and repeated


@pytest.mark.long
def test_expired_reservation_keeps_the_near_duplicate(tmp_path):
    """A page whose callback outlasts DEDUP_RESERVATION_SECONDS costs no page: both are kept."""
    body = """
    async def parse(self, response):
        import asyncio
        self.note("parsed", response)
        yield {"url": response.url}
        self.copied = response.url.endswith("/copy")
        if response.url.endswith("/slow"):
            yield scrapy.Request(self.base + "/copy", self.parse, errback=self.failed)
            while not self.copied:
                await asyncio.sleep(0.02)
        for request in self.links(response):
            yield request
    """
    pages = {"/": hub("/slow"), "/slow": article(5), "/copy": article(5, frame="copy")}
    settings = {"DEDUP_RESERVATION_SECONDS": 0.2, "DEDUP_WAIT_SECONDS": 60}
    crawl = run_case(tmp_path, Case(pages, body, settings))
    assert crawl.parsed == set(pages)
    assert crawl.stat("late_duplicate") == 1
