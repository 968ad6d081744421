"""Real crawls against a real table service: what it drops, and what happens while it is away."""

from __future__ import annotations

import threading

import pytest
from crawling import (
    HURRIED,
    PATIENT,
    TEXT,
    Case,
    Crawling,
    Page,
    article,
    hub,
    run_case,
    run_cases,
    serve,
    wait_for,
)
from network import Proxy
from services import Serving
from sketches import sketch

import dedup
from dedup.model.page import PageFingerprint
from dedup.model.recipes import NEWEST

NEVER = "redis://127.0.0.1:1"  # nobody listens there

PAGES = {
    "/": hub("/a", "/b", "/c", "/raises", "/raises-copy"),
    "/a": article(1),
    "/b": article(1, frame="b"),
    "/c": article(2),
    "/raises": article(3),
    "/raises-copy": article(3, frame="copy"),
}
RAISE = """
def parse(self, response):
    self.note("parsed", response)
    if response.url.endswith("/raises"):
        raise ValueError("the callback is broken")
    yield {"url": response.url}
    yield from self.links(response)
"""


def url(service: Serving | Proxy, token: str | None = None) -> str:
    return f"redis://{f':{token}@' if token else ''}127.0.0.1:{service.port}"


def asks(where: object, **settings: object) -> dict[str, object]:
    """Settings of a crawl that asks a service; this machine may be busy, so it is given time."""
    return TEXT | {"DEDUP_SERVICE": where, "DEDUP_TIMEOUT_SECONDS": 60} | settings


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("service")) as serving:
        yield serving


@pytest.fixture(scope="module")
def crawls(tmp_path_factory, service):
    """Several kinds of spiders in one process, each with a namespace of its own; one in another."""
    folder, where = tmp_path_factory.mktemp("crawls"), url(service)
    cases = {
        "plain": Case(PAGES, RAISE, asks(where)),
        "second": Case(PAGES, RAISE, asks(f"{NEVER},{where}")),
        "keyed": Case(PAGES, RAISE, asks(where, DEDUP_SECRET="a secret")),
        "shards": Case(PAGES, RAISE, asks([[where], [NEVER, where]], DEDUP_SCOPE="site")),
    }
    away = {"away": Case(PAGES, RAISE, asks(NEVER))}
    return run_cases(folder / "served", cases, setup=PATIENT) | run_cases(
        folder / "away", away, setup=HURRIED
    )


@pytest.mark.parametrize("name", ["plain", "second", "keyed", "shards"])
def test_a_crawl_through_a_service_drops_what_an_embedded_one_drops(crawls, name):
    """The copy goes; that of the page whose callback raised stays. What the service has taken is counted."""
    crawl = crawls[name]
    assert set(crawl.dropped) == {"/b"}
    assert crawl.parsed == set(PAGES) - {"/b"}
    assert crawl.dropped["/b"]["of"] == crawl.url + "/a"
    assert (crawl.stat("inserted"), crawl.stat("released")) == (4, 1)
    assert (crawl.stat("probed"), crawl.stat("near_duplicate")) == (6, 1)
    assert crawl.faults == {}


def test_promise_1_nothing_is_lost_while_no_service_is_there(crawls):
    """Every page is parsed, says why, and counts a fault; one error is logged; the crawl ends by itself."""
    crawl = crawls["away"]
    assert crawl.parsed == set(PAGES)
    assert crawl.stats["finish_reason"] == "finished"
    assert crawl.stat("exempt/fault") == len(PAGES)
    # each page once when it was judged, and once more, at the end, those that could not be inserted
    assert crawl.faults == {"service_unavailable": 2 * len(PAGES) - 1}
    assert (crawl.meta("/a")["status"], crawl.meta("/a")["reason"]) == ("exempt", "fault")
    assert len([line for line in crawl.errors if NEVER in line and "is kept" in line]) == 1


def test_promise_2_a_recrawl_through_a_service_keeps_every_page_it_kept(tmp_path, service):
    """Pages that an earlier crawl accepted are never dropped; the others are, as copies of them."""
    where, folder = asks(url(service), DEDUP_NAMESPACE="recrawl"), tmp_path
    case = Case(PAGES, RAISE, where)
    with serve(PAGES) as site:
        first = Crawling(folder, {"only": (site, case)}, PATIENT).end()["only"]
        again = Crawling(folder, {"only": (site, case)}, PATIENT).end()["only"]
    assert set(first.dropped) == {"/b"}
    assert set(again.dropped) == {"/b", "/raises"}  # it was given back, and /raises-copy accepted
    assert again.stat("refetch") == 3
    assert again.stat("unique") == 0


# -------------------------------------------------------------------------- refused by the service


@pytest.mark.long
def test_promise_1_nothing_is_lost_with_a_wrong_token(tmp_path):
    """Every page is kept; the log says what is wrong, and no token."""
    right, wrong = "the right token of it", "a wrong token of it"
    with Serving(tmp_path / "service", token=right) as service:
        case = Case(PAGES, settings=asks(url(service, wrong.replace(" ", "%20"))))
        crawl = run_case(tmp_path / "crawl", case, setup=HURRIED)
        assert crawl.parsed == set(PAGES)
        assert crawl.faults == {"service_unavailable": 2 * len(PAGES)}
        assert "refuses the token" in crawl.log
        assert wrong not in crawl.log
        assert wrong.replace(" ", "%20") not in crawl.log
        case = Case(PAGES, settings=asks(url(service, right.replace(" ", "%20"))))
        assert set(run_case(tmp_path / "crawl", case, setup=PATIENT).dropped) == {
            "/b",
            "/raises-copy",
        }


def test_promise_1_nothing_is_lost_with_pages_of_another_recipe(tmp_path, service):
    """A namespace of another recipe refuses the pages: each is kept and counted."""
    made = PageFingerprint(1, sketch(), 0, 100, NEWEST)
    with dedup.open(url(service), namespace="other") as detector:
        detector.insert(detector.reserve(made, "http://example.com/"))
    settings = asks(url(service), DEDUP_NAMESPACE="other", DEDUP_SECRET="a secret")
    crawl = run_case(tmp_path, Case(PAGES, settings=settings))
    assert crawl.parsed == set(PAGES)
    assert crawl.faults == {"recipe_mismatch": len(PAGES)}


# ----------------------------------------------------------------------------- it comes, and goes


@pytest.mark.long
def test_promise_1_nothing_is_lost_until_the_service_comes(tmp_path):
    """Pages parsed before it came are remembered all the same: a copy later on is dropped."""
    store = Serving(tmp_path / "service")
    with store:
        pass  # it now has a port
    arrived = threading.Event()

    def come() -> None:
        store.start()
        with dedup.open(url(store), namespace="only") as detector:
            wait_for(lambda: len(detector) >= 2)  # "/" and "/a"
        arrived.set()

    thread = threading.Thread(target=come)
    pages = {
        "/": hub("/a", "/b"),
        "/a": Page(article(1).body, before=thread.start),
        "/b": Page(article(1, "/a", frame="b").body, before=lambda: arrived.wait(240)),
    }
    try:
        case = Case(pages, settings=asks(url(store)))
        crawl = run_case(tmp_path / "crawl", case, setup=PATIENT)
        thread.join()
        assert set(crawl.dropped) == {"/b"}
        assert crawl.stat("inserted") == 2
        assert set(crawl.faults) == {"service_unavailable"}
        assert "answers again" in crawl.log
    finally:
        assert store.stop() == 0


def test_promise_1_nothing_is_lost_when_the_service_is_killed(tmp_path):
    """Killed with -9 between two pages and started again, it has what it acknowledged."""
    with Serving(tmp_path / "service") as service:

        def kill() -> None:
            with dedup.open(url(service), namespace="only") as detector:
                wait_for(lambda: len(detector) == 3)
            service.kill()
            service.start()

        pages = {
            "/": hub("/a", "/b", "/c"),
            "/a": article(1),
            "/b": article(2),
            "/c": Page(article(1, "/b", frame="c").body, before=kill),
        }
        case = Case(pages, settings=asks(url(service)))
        crawl = run_case(tmp_path / "crawl", case, setup=PATIENT)
        with dedup.open(url(service), namespace="only") as detector:
            assert len(detector) == crawl.stat("inserted") == len(crawl.parsed)
    # while the spider had not noticed yet, a page may have been kept
    assert set(crawl.dropped) | crawl.parsed == set(pages)
    assert set(crawl.dropped) <= {"/c"}


@pytest.mark.long
@pytest.mark.parametrize("way", ["stall", "cut"])
def test_promise_1_nothing_is_lost_by_a_network_that_fails(tmp_path, service, way):
    """A network that stalls, or breaks, holds no page up; once it is back copies are dropped."""
    with Proxy(service.port) as proxy:

        def heal() -> None:
            proxy.heal()
            with dedup.open(url(service), namespace=way) as detector:
                wait_for(lambda: len(detector) == 4)

        pages = {
            "/": hub("/a", "/b", "/a-copy", "/b-copy"),
            "/a": article(1),
            "/b": Page(article(2).body, before=getattr(proxy, way)),
            "/a-copy": Page(article(1, frame="copy").body),
            "/b-copy": Page(article(2, frame="copy").body, before=heal),
        }
        settings = asks(url(proxy), DEDUP_TIMEOUT_SECONDS=2, DEDUP_NAMESPACE=way)
        crawl = run_case(tmp_path, Case(pages, settings=settings), setup=PATIENT)
    assert set(crawl.dropped) == {"/b-copy"}
    assert crawl.stat("exempt/fault") == 2
    assert crawl.stat("inserted") == 4
    assert crawl.faults == {"service_unavailable": 2}
