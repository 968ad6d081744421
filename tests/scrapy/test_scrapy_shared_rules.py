"""What one spider learned of URLs, another one uses: real crawls in two processes, with a table service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crawling import HURRIED, PATIENT, Case, Crawl, Crawling, Page, hub, serve
from item_pages import ITEMS, item
from network import Proxy
from services import Serving

from dedup.detector.url_rules.rule_records import FILE, load_rules

ARTICLES = 40
NEVER = "redis://127.0.0.1:1"  # nobody listens there


def part(name: str, first: int) -> dict[str, Page]:
    """A part of a site: articles, each of which leads to a copy with a session."""
    pages = {"/": hub(*(f"/{name}/{n}" for n in range(ARTICLES)))}
    for n in range(ARTICLES):
        copy = f"/{name}/{n}?sid={7 * n}"
        pages |= {path: item(first + n, copy) for path in (f"/{name}/{n}", copy)}
    return pages


def crawl(
    folder: Path, site: Any, pages: dict[str, Page], where: str = "", setup: str = ""
) -> Crawl:
    """Crawl pages, which the site has from then on, in a process of its own; no item is lost."""
    site.pages |= {path: [page] for path, page in pages.items()}
    settings: dict[str, Any] = {"DEDUP_URLS": "skip", "DEDUP_NAMESPACE": "shop"}
    if where:
        settings |= {"DEDUP_SERVICE": where, "DEDUP_TIMEOUT_SECONDS": 60}
    case = Case({}, ITEMS, settings)
    done = Crawling(folder, {"skip": (site, case)}, setup).end()["skip"]
    assert len({event["item"] for event in done.of("item")}) == ARTICLES
    return done


def first_skipped(done: Crawl) -> int:
    """How many pages were parsed, or dropped, before the first that was not sent."""
    skipped = [event.get("error") == "KnownUrl" for event in done.events]
    return skipped.index(True)


# It tells while it crawls, and not at its end.
SOON = """
from dedup.scrapy import known_urls
known_urls.SAVE_SECONDS = 0.0
"""
AT_ONCE = f"""{SOON}
known_urls.KnownUrls.close = lambda self: None
"""


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(PATIENT, id="at the end", marks=pytest.mark.long),
        pytest.param(PATIENT + AT_ONCE, id="meanwhile"),
    ],
)
def test_a_second_spider_skips_by_the_first_ones_rules(tmp_path, setup):
    """It has them from its first page on, before it could have learned them; no item is lost."""
    with serve({}) as site:
        with Serving(tmp_path / "service") as service:
            where = f"redis://127.0.0.1:{service.port}"
            first = crawl(tmp_path / "first", site, part("a", 0), where, setup)
            (known,) = load_rules(tmp_path / "service" / "shop").values()
            assert {str(rule.atom) for rule, record in known.items() if record.holds} == {
                "drop:sid"
            }
            second = crawl(tmp_path / "second", site, part("b", 100), where, PATIENT)
        alone = crawl(tmp_path / "alone", site, part("b", 100))
    for done in (first, second, alone):
        assert done.faults == {}
        assert done.errors == []
        assert "not shared" not in done.log
    assert second.stat("url_skipped") > alone.stat("url_skipped") > 0
    assert first_skipped(second) < first_skipped(alone)
    assert len(second.requested) < len(alone.requested)
    assert second.stat("url_skipped") + second.stat("url_checked") == ARTICLES


OLDER = """
from dedup.service import resp_commands
del resp_commands.COMMANDS[b"DEDUP.RULES"]
from dedup.cli import main
main()
"""


def test_an_older_service_changes_nothing(tmp_path):
    """One that does not know the command: the crawl learns alone, as it did."""
    service = Serving(tmp_path / "service")
    service.program = ["-c", OLDER]
    with service, serve({}) as site:
        where = f"redis://127.0.0.1:{service.port}"
        done = crawl(tmp_path / "first", site, part("a", 0), where, PATIENT + SOON)
    assert done.faults == {}
    assert done.errors == []
    assert done.stat("url_skipped") > 0
    assert "not shared" not in done.log
    assert not (tmp_path / "service" / "shop" / FILE).exists()


def test_a_service_that_is_away_changes_nothing(tmp_path):
    """Every page is kept, with the faults that it would have counted anyway; the crawl ends by itself."""
    pages = {"/": hub("/a/0", "/a/1"), "/a/0": item(0), "/a/1": item(1)}
    with serve(pages) as site:
        site.pages = {path: [page] for path, page in pages.items()}
        counted = []
        for way in ("off", "skip"):
            settings = {"DEDUP_SERVICE": NEVER, "DEDUP_URLS": way}
            case = Case({}, ITEMS, settings)
            done = Crawling(tmp_path / way, {"only": (site, case)}, HURRIED).end()["only"]
            assert done.parsed == set(pages)
            assert done.stats["finish_reason"] == "finished"
            assert done.log.count("is away") == 1
            counted.append((done.faults, len(done.errors)))
    assert counted[0] == counted[1]


# The service is reached by pages, but not by the first exchange of rules.
LATE = """
from dedup.wire.client.services import Services
reachable, first = Services.reachable, [True]
async def late(self):
    return () if first and first.pop() else await reachable(self)
Services.reachable = late
"""


@pytest.mark.long
def test_rules_are_asked_for_until_a_service_answers(tmp_path):
    """What did not come at the beginning comes with the next exchange, and is told then."""
    with serve({}) as site:
        with Serving(tmp_path / "service") as service:
            where = f"redis://127.0.0.1:{service.port}"
            crawl(tmp_path / "first", site, part("a", 0), where, PATIENT)
            second = crawl(tmp_path / "second", site, part("b", 100), where, PATIENT + LATE + SOON)
        alone = crawl(tmp_path / "alone", site, part("b", 100))
    assert second.faults == {}
    assert second.errors == []
    assert first_skipped(second) < first_skipped(alone)


# Its own connections for rules are made, and never answered.
STALLED = """
from dedup.scrapy import service_memory
def nowhere(addresses, timeout):
    import msgspec
    from dedup.wire.client.services import Services
    return Services([msgspec.structs.replace(addresses[0], port={port})], timeout)
service_memory.SharedRules.connections = staticmethod(nowhere)
service_memory.RULES_CLOSE_SECONDS = 0.1
"""


@pytest.mark.long
def test_no_page_waits_for_rules(tmp_path):
    """A service that never answers about rules: all pages are judged, and the crawl ends."""
    with (
        serve({}) as site,
        Serving(tmp_path / "service") as service,
        Proxy(service.port) as proxy,
    ):
        proxy.stall()
        where = f"redis://127.0.0.1:{service.port}"
        setup = PATIENT + STALLED.format(port=proxy.port)
        done = crawl(tmp_path / "first", site, part("a", 0), where, setup)
    assert done.faults == {}
    assert done.errors == []
    assert done.stat("url_skipped") > 0
