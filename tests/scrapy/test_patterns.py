"""Patterns: what may be dropped, what comes back. The link budget: who pays for requests."""

from typing import Any

import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy.utils.test import get_crawler

from dedup.scrapy.evidence import link_budget
from dedup.scrapy.evidence import patterns as module
from dedup.scrapy.evidence.enough import MANY
from dedup.scrapy.evidence.link_budget import LINKS, Budget, LinkBudget
from dedup.scrapy.evidence.patterns import PRIOR, PROVEN, Outcomes, Pattern, Patterns
from dedup.scrapy.guard import Counts
from dedup.scrapy.memory.state import Job, Saving

RISK = 0.5
COPIES = Pattern("parse", "a.example", "f", "?+ref")
PAYS = Budget("parse", "a.example")
EXAMPLE = ("http://a.example/1?ref=2", "http://a.example/1", ("price",))


def taught(same: int, name: Pattern = COPIES) -> Patterns[Any]:
    patterns: Patterns[Any] = Patterns(RISK)
    for _ in range(same):
        patterns.same(name)
    return patterns


def dropped(patterns: Patterns[Any], most: int = 10_000, name: Pattern = COPIES) -> int:
    """Drop pages of a pattern until it wants a spot check; return how many."""
    count = 0
    while count < most and patterns.may_drop(name):
        patterns.drop(name, f"page {count}")
        count += 1
    return count


def test_a_pattern_that_showed_nothing_drops_nothing() -> None:
    """Nor does one of which pages were only checked; the first page of a kind is always parsed."""
    patterns = taught(0)
    assert not patterns.may_drop(COPIES)
    patterns.checked(COPIES)
    assert not patterns.may_drop(COPIES)


@given(st.integers(1, 300))
def test_what_is_dropped_between_two_spot_checks_risks_no_more_than_the_bound(same: int) -> None:
    """The chances sum up to `risk` at most, and to no less than a further page would need."""
    patterns = taught(same)
    chance = PRIOR / (same + PRIOR)
    for _ in range(3):
        number = dropped(patterns)
        assert number * chance <= RISK + 1e-9 < (number + 1) * chance + 2e-9
        patterns.checked(COPIES)


def test_what_a_pattern_dropped_comes_back_when_a_page_of_it_brings_something_new() -> None:
    """All of it, once; from then on its pages are checked, whatever further ones bring."""
    patterns = taught(20)
    patterns.same(other := COPIES._replace(site="b.example"))
    patterns.drop(other, "another")
    number = dropped(patterns)
    back = patterns.new(COPIES, EXAMPLE)
    assert back == [f"page {n}" for n in range(number)]
    assert patterns.new(COPIES, EXAMPLE) == []
    for _ in range(1000):
        patterns.same(COPIES)
    assert not patterns.may_drop(COPIES)
    assert [page for _, page in patterns.held()] == ["another"]
    assert patterns.known[COPIES].again == number


def test_a_pattern_that_dropped_many_without_a_spot_check_has_one_at_the_end() -> None:
    """Its last page, once: the next one of it is checked, whether that page came or not; a few are not worth a fetch."""
    patterns = taught(100)
    assert dropped(patterns, MANY - 1) == MANY - 1
    assert patterns.last_checks() == []
    patterns.drop(COPIES, "last")
    assert patterns.last_checks() == ["last"]
    assert not patterns.may_drop(COPIES)
    assert patterns.last_checks() == []
    patterns.checked(COPIES)
    assert dropped(patterns, MANY) == MANY
    assert len(patterns.last_checks()) == 1
    assert len(patterns.new(COPIES, EXAMPLE)) == 2 * MANY - 2


def test_full_memory_checks_pages_until_some_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """So every page that was dropped can be fetched again."""
    monkeypatch.setattr(module, "REMEMBERED", 10)
    patterns = taught(PROVEN - 1)
    assert dropped(patterns) == 10
    assert not patterns.may_drop(COPIES)
    assert len(patterns.new(COPIES, EXAMPLE)) == 10
    other = COPIES._replace(difference="?+sid")
    for _ in range(PROVEN - 1):
        patterns.same(other)
    assert dropped(patterns, name=other) == 10
    patterns.same(other)  # proven: it forgets its oldest
    assert dropped(patterns, 100, other) == 100
    assert patterns.known[other].forgotten == 100
    assert patterns.new(other, EXAMPLE) == [f"page {n}" for n in range(90, 100)]


@pytest.mark.parametrize("number", [1, 10, 50])
def test_of_100_000_copies_95_in_100_are_dropped(number: int) -> None:
    """However many patterns share them, and though no more than REMEMBERED can come back."""
    patterns: Patterns[int] = Patterns(RISK)
    names = [COPIES._replace(difference=f"?+{n}") for n in range(number)]
    count = 0
    for n in range(100_000):
        name = names[n % number]
        if patterns.may_drop(name):
            patterns.drop(name, n)
            count += 1
        else:
            patterns.checked(name)
            patterns.same(name)
    assert count >= 95_000
    assert len([*patterns.held()]) <= module.REMEMBERED


def test_patterns_beyond_the_bound_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their pages are not counted, and nothing of them is dropped."""
    monkeypatch.setattr(module, "PATTERNS", 1)
    patterns = taught(50)
    other = COPIES._replace(difference="?+sid")
    for _ in range(50):
        patterns.same(other)
    assert patterns.may_drop(COPIES)
    assert not patterns.may_drop(other)
    assert patterns.new(other, EXAMPLE) == []


def test_a_parameter_means_nothing_once_many_pages_have_brought_the_same() -> None:
    """A session: alone in the difference, and never again once a page with it brought something else."""
    patterns: Patterns[str] = Patterns(RISK)
    session, url = COPIES._replace(difference="?+sid"), "http://a.example/x?a=1&sid=7"
    for _ in range(MANY - 1):
        patterns.same_items(session)
        patterns.same_items(COPIES._replace(difference="?+a ?+b"))
    assert patterns.without_sessions(url, "a.example") == url
    patterns.same_items(session)
    assert patterns.without_sessions(url, "a.example") == "http://a.example/x?a=1"
    assert patterns.without_sessions(url, "b.example") == url
    patterns.new(session, EXAMPLE)
    for _ in range(MANY):
        patterns.same_items(session)
    assert patterns.without_sessions(url, "a.example") == url


def test_a_budget_ends_and_news_opens_it() -> None:
    """What waits goes out in turn, and is paid for; other callbacks and sites have budgets of their own."""
    budget: LinkBudget[str] = LinkBudget()
    assert {budget.pay(PAYS, "paid") for _ in range(LINKS)} == {"paid"}
    assert {budget.pay(PAYS, f"{n}") for n in range(25)} == {"waits"}
    assert budget.pay(PAYS._replace(site="b.example"), "another") == "paid"
    assert budget.waiting == {PAYS: 25}
    assert budget.news(PAYS) == [f"{n}" for n in range(10)]
    assert budget.pay(PAYS, "paid") == "paid"
    assert budget.news(PAYS) + budget.news(PAYS) == [f"{n}" for n in range(10, 25)]
    assert budget.waiting == {}


def test_what_waits_goes_out_when_nothing_else_is_left() -> None:
    """The newest three, three times, of a spent budget; what is left is named."""
    budget: LinkBudget[str] = LinkBudget()
    for n in range(LINKS + 20):
        budget.pay(PAYS, f"{n - LINKS}")
    assert [budget.rest() for _ in range(4)] == [
        ["19", "18", "17"],
        ["16", "15", "14"],
        ["13", "12", "11"],
        [],
    ]
    assert budget.waiting == {PAYS: 11}


def test_requests_that_wait_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond are counted with them."""
    monkeypatch.setattr(link_budget, "WAITING", 3)
    budget: LinkBudget[int] = LinkBudget()
    became = [budget.pay(PAYS, n) for n in range(LINKS + 5)]
    assert became == ["paid"] * LINKS + ["waits"] * 3 + ["lost"] * 2
    assert budget.waiting == {PAYS: 5}
    assert budget.news(PAYS) == [LINKS, LINKS + 1, LINKS + 2]


def test_evidence_survives_its_file(tmp_path: Any) -> None:
    """Patterns, dropped pages and waiting requests are in the job; what waited has its budget spent."""

    class Spider(scrapy.Spider):
        name = "only"

        def parse(self, response: Any) -> None: ...

    crawler = get_crawler(Spider)
    crawler.spider = spider = Spider.from_crawler(crawler)
    job, saving = Job(str(tmp_path / "job")), Saving(Counts(crawler))
    found = saving.resumed("only", job, RISK)
    for _ in range(5):
        found.patterns.same(COPIES)
    again = scrapy.Request("http://a.example/1?ref=1", spider.parse, cb_kwargs={"n": 1})
    found.patterns.drop(COPIES, again)
    found.patterns.drop(COPIES, scrapy.Request("http://a.example/", lambda _: None))  # no method
    for n in range(LINKS + 1):
        found.budget.pay(PAYS, again.replace(url=f"http://a.example/?page={n}"))
    found.seen.take_item(b"1" * 8)
    saving.close([found], job, finished=False)

    resumed = Saving(Counts(crawler)).resumed("only", Job(str(tmp_path / "job")), RISK)
    known = resumed.patterns.known[COPIES]
    assert (known.same, known.staked) == (5, 2 * Outcomes(5).risk)
    assert [(n, r.url, r.cb_kwargs) for n, r in resumed.patterns.held()] == [
        (COPIES, again.url, {"n": 1})
    ]
    assert [(b, r.url) for b, r in resumed.budget.held()] == [
        (PAYS, f"http://a.example/?page={LINKS}")
    ]
    assert resumed.budget.pay(PAYS, again) == "waits"
    assert resumed.seen.has_item(b"1" * 8)
