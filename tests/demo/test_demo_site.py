"""The demo site is what it says: reachable, true to its own truth, and different at each request."""

from collections import Counter, defaultdict
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dedup import main_text
from dedup.demo.site import COPIES, KINDS, Site, serve


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(300)


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


@pytest.mark.parametrize("pages", [100, 500, 1234])
def test_as_many_pages_as_asked(pages: int) -> None:
    """`pages` is the number of URLs a crawl without deduplication finds, and every kind is among them."""
    scaled = Site(pages, seed=4)
    assert len(scaled.truth) == len(reachable(scaled)) == pages
    kinds = Counter(truth.kind for truth in scaled.truth.values())
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 6


def test_a_group_has_one_main_text(site: Site) -> None:
    """Pages of one group have the same main content but for the line with the author; two groups, but for products, never."""
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for number, truth in enumerate(site.truth.values()):
        if truth.kind != "list":
            lines = main_text(site.render(truth.path, number)[2]).splitlines()
            texts[truth.group].add("\n".join(line for line in lines if len(line) > 100))
    assert all(len(found) == 1 for found in texts.values())
    articles = [found for group, found in texts.items() if not group.startswith("/shop/")]
    assert len(articles) == len(set.union(*articles))


def test_nothing_is_lost_with_the_copies(site: Site) -> None:
    """A crawler that never opens a copy still finds every page with content of its own."""
    own = {path for path, truth in site.truth.items() if truth.kind not in COPIES}
    assert own <= reachable(site, *COPIES)


def test_server_answers_and_logs(site: Site, tmp_path: Path) -> None:
    """A connection is kept open, pages carry their charset, each request is one line of the log."""
    log = tmp_path / "requests.log"
    with serve(site, log=log) as url:
        connection = HTTPConnection(urlsplit(url).netloc)
        bodies = []
        for path in ("/", "/", "/nowhere"):
            connection.request("GET", path)
            response = connection.getresponse()
            bodies.append(response.read())
            assert response.version == 11
            assert "charset=utf-8" in response.headers["Content-Type"]
            assert response.status == (404 if path == "/nowhere" else 200)
        connection.request("HEAD", "/shop/")
        assert connection.getresponse().read() == b""
        connection.close()
        assert bodies[0] != bodies[1]
    assert log.read_text().splitlines() == ["GET /", "GET /", "GET /nowhere", "HEAD /shop/"]
