"""Real crawls against services that share one store: what is kept, and what is left in flight."""

from __future__ import annotations

from collections import Counter

import pytest
from crawling import TEXT, Case, Page, article, hub, run_case, run_cases, wait_for
from killing import content, site_pages
from sharding import documents, in_flight, log_of, shard, sharded, until, urls

CONTENTS = 6


def asks(where: str, **settings: object) -> dict[str, object]:
    """Settings of a crawl; this machine may be busy, so it is given time."""
    return (
        TEXT
        | {
            "DEDUP_SERVICE": where,
            "DEDUP_TIMEOUT_SECONDS": 20,
            "DEDUP_WAIT_SECONDS": 20,
        }
        | settings
    )


@pytest.fixture(scope="module")
def crawls(kafka, tmp_path_factory):
    """The same site through one service, two (which overlap) and four."""
    folder, config = tmp_path_factory.mktemp("crawls"), log_of(kafka)
    pages = site_pages(CONTENTS)
    with (
        shard(folder, config, "*") as whole,
        shard(folder, config, "0-1") as a,
        shard(folder, config, "2-3") as b,
        shard(folder, config, "4-5") as c,
        shard(folder, config, "6-7") as d,
    ):
        by_name = {"one": (whole,), "two": (a, whole), "four": (a, b, c, d)}
        settings = {
            name: asks(urls(*services), CONCURRENT_REQUESTS=8) for name, services in by_name.items()
        }
        cases = {name: Case(pages, settings=each) for name, each in settings.items()}
        found = run_cases(folder, cases)
        left = {}
        for name, services in by_name.items():
            count = found[name].stat("inserted")
            until(lambda name=name, s=services, n=count: sum(documents(s, name)) >= n, name)
            until(lambda name=name, s=services: not any(in_flight(s, name)), f"{name}: in flight")
            left[name] = documents(services, name)
        yield found, left


def kept(crawl) -> Counter[str]:
    """Return how often each content was parsed."""
    return Counter(content(path) for path in crawl.parsed if path.strip("/")[:1].isdigit())


@pytest.mark.parametrize("name", ["two", "four"])
def test_a_crawl_through_shards_keeps_what_one_through_one_service_does(crawls, name):
    """Each content once, without a fault; afterwards nothing is in flight anywhere (the fixture)."""
    found, left = crawls
    assert kept(found["one"]) == {str(n): 1 for n in range(CONTENTS)}
    assert kept(found[name]) == kept(found["one"])
    assert found[name].faults == {}
    for stat in ("probed", "inserted", "near_duplicate"):
        assert found[name].stat(stat) == found["one"].stat(stat)
    assert sum(left["four"]) == sum(left["one"]) == found["one"].stat("inserted")


@pytest.mark.long
def test_promise_1_nothing_is_lost_when_a_shard_is_killed_in_a_crawl(kafka, tmp_path):
    """Killed with -9 between two pages and started later: each content is parsed, and remembered."""
    with sharded(tmp_path, kafka, "0-3", "4-7") as shards:
        pages: dict[str, Page] = {"/": hub(*(f"/{n}" for n in range(12)))}
        pages |= {f"/{n}": article(n % 9) for n in range(12)}

        def kill() -> None:
            wait_for(lambda: sum(documents(shards, "only")) >= 2)
            shards[1].kill()

        pages["/3"] = Page(pages["/3"].body, before=kill)
        pages["/7"] = Page(pages["/7"].body, before=shards[1].start)
        crawl = run_case(tmp_path / "crawl", Case(pages, settings=asks(urls(*shards))))
        assert {int(path[1:]) % 9 for path in crawl.parsed - {"/"}} == set(range(9))
        until(lambda: sum(documents(shards, "only")) == len(crawl.parsed))
        until(lambda: in_flight(shards, "only") == [0, 0])
    assert set(crawl.faults) <= {"service_unavailable"}
