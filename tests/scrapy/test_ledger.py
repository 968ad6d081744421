"""The ledger: what may be dropped, what comes back, and who pays for requests."""

from types import SimpleNamespace
from typing import Any

import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy.utils.test import get_crawler

from dedup.scrapy.evidence import ledger as ledgers
from dedup.scrapy.evidence.ledger import (
    BUDGET,
    COMMON_BUDGET,
    LONG,
    PRIOR,
    Account,
    Class,
    Ledger,
    Record,
)
from dedup.scrapy.evidence.visits import Visits, Volatile
from dedup.scrapy.guard import Counts
from dedup.scrapy.memory.state import Job, Saving

RISK = 0.5
COPIES = Class("parse", "a.example", "f", "?+ref")
PAYS = Account("parse", "a.example", "?page")
EXAMPLE = ("http://a.example/1?ref=2", "http://a.example/1", ("price",))


def taught(same: int, name: Class = COPIES) -> Ledger[Any]:
    ledger: Ledger[Any] = Ledger(RISK)
    for _ in range(same):
        ledger.same(name)
    return ledger


def dropped(ledger: Ledger[Any], most: int = 10_000, name: Class = COPIES) -> int:
    """Drop pages of a class until it wants a look; return how many."""
    count = 0
    while count < most and ledger.may_drop(name):
        ledger.drop(name, f"page {count}")
        count += 1
    return count


def test_a_class_that_showed_nothing_drops_nothing() -> None:
    """Nor does one that only looked; the first page of a kind is always parsed."""
    ledger = taught(0)
    assert not ledger.may_drop(COPIES)
    ledger.look(COPIES)
    assert not ledger.may_drop(COPIES)


@given(st.integers(1, 300))
def test_what_is_dropped_between_two_looks_risks_no_more_than_the_bound(same: int) -> None:
    """The chances sum up to `risk` at most, and to no less than a further page would need."""
    ledger = taught(same)
    chance = PRIOR / (same + PRIOR)
    for _ in range(3):
        number = dropped(ledger)
        assert number * chance <= RISK + 1e-9 < (number + 1) * chance + 2e-9
        ledger.look(COPIES)


def test_what_a_class_dropped_comes_back_when_a_page_of_it_brings_something_new() -> None:
    """All of it, once; from then on its pages are compared, whatever further ones bring."""
    ledger = taught(20)
    ledger.same(other := COPIES._replace(site="b.example"))
    ledger.drop(other, "another")
    number = dropped(ledger)
    back = ledger.new(COPIES, EXAMPLE, frozenset([1]))
    assert back == [f"page {n}" for n in range(number)]
    assert ledger.new(COPIES, EXAMPLE, frozenset([1])) == []
    for _ in range(1000):
        ledger.same(COPIES)
    assert not ledger.may_drop(COPIES)
    assert [page for _, page in ledger.remembered()] == ["another"]
    assert ledger.classes[COPIES].again == number


def test_a_class_that_dropped_many_without_a_look_has_one_at_the_end() -> None:
    """Its last page, once: the next one of it is compared, whether that page came or not; a few are not worth a fetch."""
    ledger = taught(100)
    assert dropped(ledger, LONG - 1) == LONG - 1
    assert ledger.last_looks() == []
    ledger.drop(COPIES, "last")
    assert ledger.last_looks() == ["last"]
    assert not ledger.may_drop(COPIES)
    assert ledger.last_looks() == []
    ledger.look(COPIES)
    assert dropped(ledger, LONG) == LONG
    assert len(ledger.last_looks()) == 1
    assert len(ledger.new(COPIES, EXAMPLE, None)) == 2 * LONG - 2


def test_full_memory_compares_pages_until_some_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """So every page that was dropped can be fetched again."""
    monkeypatch.setattr(ledgers, "REMEMBERED", 10)
    ledger = taught(100)
    assert dropped(ledger) == 10
    assert not ledger.may_drop(COPIES)
    assert len(ledger.new(COPIES, EXAMPLE, None)) == 10
    other = COPIES._replace(shape="?+sid")
    for _ in range(100):
        ledger.same(other)
    assert dropped(ledger, name=other) == 10


def test_classes_beyond_the_bound_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their pages are not counted, and nothing of them is dropped."""
    monkeypatch.setattr(ledgers, "CLASSES", 1)
    ledger = taught(50)
    other = COPIES._replace(shape="?+sid")
    for _ in range(50):
        ledger.same(other)
    assert ledger.may_drop(COPIES)
    assert not ledger.may_drop(other)
    assert ledger.new(other, EXAMPLE, None) == []


def test_a_class_is_not_spoiled_by_volatile_fields_and_by_all_else() -> None:
    """A class that fell by a counter begins again; not one that fell by a price, or by a request, too."""
    names = [COPIES._replace(shape=shape) for shape in ("a", "b", "c", "d")]
    ledger: Ledger[Any] = Ledger(RISK)
    for name, fields in zip(names, ([1], [1, 2], None, [1]), strict=True):
        ledger.new(name, EXAMPLE, None if fields is None else frozenset(fields))
    ledger.new(names[3], EXAMPLE, None)
    for name in names:
        ledger.same(name)
        assert not ledger.may_drop(name)
    assert [ledger.may_drop(name, frozenset([1])) for name in names] == [True, False, False, False]


def test_a_budget_ends_and_news_opens_it() -> None:
    """What waits goes out in turn, and is paid for; all accounts of a callback and site have one more together."""
    ledger: Ledger[str] = Ledger(RISK)
    for _ in range(BUDGET):
        assert ledger.afford(PAYS)
        ledger.charge(PAYS, 1)
    assert not ledger.afford(PAYS)
    assert all(ledger.wait(PAYS, f"{n}") for n in range(25))
    assert ledger.closed == {PAYS: 25}
    assert ledger.news(PAYS) == [f"{n}" for n in range(10)]
    assert ledger.afford(PAYS) == BUDGET - 10
    for n in range(10):
        ledger.charge(PAYS._replace(shape=f"?{n}"), COMMON_BUDGET // 10)
    fresh = PAYS._replace(shape="?fresh")
    assert not ledger.afford(fresh)
    assert ledger.news(fresh) == []
    assert ledger.afford(fresh)
    assert ledger.afford(PAYS._replace(site="b.example")) == BUDGET
    assert ledger.news(PAYS) + ledger.news(PAYS) == [f"{n}" for n in range(10, 25)]
    assert ledger.closed == {}


def test_requests_and_accounts_that_are_held_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgotten accounts have their budget again, and give back no place that waiting requests take."""
    monkeypatch.setattr(ledgers, "WAITING", 3)
    monkeypatch.setattr(ledgers, "ACCOUNTS", 4)
    ledger: Ledger[int] = Ledger(RISK)
    ledger.charge(PAYS, BUDGET)
    assert [ledger.wait(PAYS, n) for n in range(4)] == [True, True, True, False]
    for n in range(10):
        ledger.charge(Account(f"c{n}", "a.example", "?"), 1)
    assert ledger.afford(PAYS) == BUDGET
    assert not ledger.wait(PAYS, 9)
    assert ledger.news(PAYS) == [0, 1, 2]
    assert ledger.wait(PAYS, 9)


def test_a_ledger_survives_its_files(tmp_path: Any) -> None:
    """Classes in the store; dropped pages and waiting requests in the job; what was waiting has its account spent."""

    class Spider(scrapy.Spider):
        name = "only"

        def parse(self, response: Any) -> None: ...

    taken: list[bytes] = []
    crawler = get_crawler(Spider)
    crawler.spider = spider = Spider.from_crawler(crawler)
    space = SimpleNamespace(
        name="only",
        ledger=taught(5),
        met=None,
        memory=SimpleNamespace(folder=tmp_path / "store"),
        urls=SimpleNamespace(to_bytes=lambda: b"rules", take=taken.append),
    )
    visits, job = Visits(3), Job(str(tmp_path / "job"))
    saving = Saving(Counts(crawler))
    saving.open(space, visits, job)
    again = scrapy.Request("http://a.example/1?ref=1", spider.parse, cb_kwargs={"n": 1})
    space.ledger = taught(5)
    space.ledger.drop(COPIES, again)
    space.ledger.wait(PAYS, again.replace(url="http://a.example/?page=9"))
    space.ledger.drop(COPIES, scrapy.Request("http://a.example/", lambda _: None))  # no method
    visits.callbacks["parse"] = found = Volatile(
        frozenset([7]),
        frozenset([8]),
        {COPIES.shape: "n"},
        {COPIES.shape: (3, frozenset([9, 1 << 63]))},
    )
    found.visits.append(COPIES.shape)
    saving.close([space], visits, job, finished=False)

    space.ledger, other = Ledger(RISK), Visits(3)
    Saving(Counts(crawler)).open(space, other, Job(str(tmp_path / "job")))
    ledger = space.ledger
    assert (ledger.classes[COPIES].same, ledger.classes[COPIES].staked) == (5, 2 * Record(5).risk)
    assert [(n, r.url, r.cb_kwargs) for n, r in ledger.remembered()] == [
        (COPIES, again.url, {"n": 1})
    ]
    assert [(a, r.url) for a, r in ledger.waiting()] == [(PAYS, "http://a.example/?page=9")]
    assert not ledger.afford(PAYS)
    assert taken[-1] == b"rules"
    found.visits.clear()  # are made anew in each crawl
    assert other.of("parse") == found
