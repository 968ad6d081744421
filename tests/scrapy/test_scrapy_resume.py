"""Crawls that are stopped, killed and resumed, or repeated, on the same store."""

import shutil

import pytest
from crawling import serve
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
    """After kill -9 and a resume with JOBDIR no content is missing because of dedup; what a drop names was parsed, and is alike."""
    for done in rounds:
        assert lost(done) == set(), done.seed
        assert not (done.asked_again and missing(done)), done.seed
        assert unexplained(done) == [], done.seed


def test_promise_2_a_page_is_never_a_duplicate_of_itself_after_kill_and_resume(rounds):
    """No run drops a page as its own duplicate, nor one that was accepted before: it is a refetch, inserts survive kill -9."""
    for done in rounds:
        assert own_duplicates(done) == [], done.seed
        assert not_remembered(done) == set(), done.seed


def test_store_verifies_after_kill_and_resume(rounds):
    """The store is sound after kill -9, and holds a page of each content that was parsed."""
    for done in rounds:
        assert done.report.problems == [], done.seed
        assert done.report.documents >= CONTENTS - len(missing(done)), done.seed
