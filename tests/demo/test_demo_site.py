"""The demo site is what it says: deterministic, reachable, and true to its own truth."""

from collections import Counter, defaultdict
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dedup.demo.plan import KINDS, Truth
from dedup.demo.site import Site, serve

COPIES = ("session", "print", "stamp", "related", "syndicated", "soft404")
ORIGINALS = ("article", "event", "variant", "listing")


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


def of_kind(site: Site, *kinds: str) -> list[Truth]:
    return [truth for truth in site.truth.values() if truth.kind in kinds]


def reachable(site: Site, *avoid: str) -> set[str]:
    """The paths found from the start by links, never opening a page of the kinds to avoid."""
    found, open_pages = {site.start}, [site.start]
    while open_pages:
        for path in site.links(open_pages.pop()):
            if path not in found:
                found.add(path)
                if site.truth[path].kind not in avoid:
                    open_pages.append(path)
    return found


# The whole site


@pytest.mark.parametrize("pages", [100, 500, 1234])
def test_as_many_pages_as_asked(pages: int) -> None:
    """`pages` is the number of URLs a crawl without deduplication finds."""
    scaled = Site(pages=pages, seed=4)
    assert len(scaled.truth) == pages
    assert len(reachable(scaled)) == pages


def test_all_kinds_and_languages(site: Site) -> None:
    """Every kind occurs in numbers, in three languages where copies and articles are meant."""
    kinds: Counter[str] = Counter(truth.kind for truth in site.truth.values())
    assert set(kinds) == set(KINDS)
    assert all(kinds[kind] >= 14 for kind in (*COPIES, *ORIGINALS))
    for kind in ("article", "session", "print", "stamp", "syndicated", "soft404", "listing"):
        assert {truth.language for truth in of_kind(site, kind)} == {"en", "zh", "ar"}


# Truth


def test_a_group_has_one_main_text(site: Site) -> None:
    """Pages of one group have the same main content; every copy has its original's."""
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for truth in site.truth.values():
        texts[truth.group].add(site.text(truth.path))
    assert all(len(found) == 1 for found in texts.values())
    own = {truth.group for truth in of_kind(site, "article", "event")}
    assert all(truth.group in own for truth in of_kind(site, *COPIES[:-1]))


# What makes dropping pay, and what must not be lost


def test_nothing_is_lost_with_the_copies(site: Site) -> None:
    """A crawler that never opens a copy still finds every page with content of its own."""
    assert {t.path for t in of_kind(site, *ORIGINALS)} <= reachable(site, *COPIES)


# The server


def test_server_answers_and_logs(site: Site, tmp_path: Path) -> None:
    """A connection is kept open, pages carry their charset, each request is one line of the log."""
    log = tmp_path / "requests.log"
    with serve(site, log=log) as url:
        connection = HTTPConnection(urlsplit(url).netloc)
        bodies = []
        for path in ("/", "/", "/robots.txt", "/zh/?page=9"):
            connection.request("GET", path)
            response = connection.getresponse()
            bodies.append(response.read())
            assert response.version == 11
            assert "charset=utf-8" in response.headers["Content-Type"]
            assert response.status == (404 if "?" in path else 200)
        connection.request("HEAD", "/shop/")
        assert connection.getresponse().read() == b""
        connection.close()
        assert bodies[0] != bodies[1]
        assert b"User-agent" in bodies[2]
    assert log.read_text().splitlines() == [
        "GET /",
        "GET /",
        "GET /robots.txt",
        "GET /zh/?page=9",
        "HEAD /shop/",
    ]
