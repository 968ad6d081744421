"""The demo site is what it says: deterministic, reachable, and true to its own truth."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from dedup.demo.plan import KINDS, Truth
from dedup.demo.site import Site, serve, serve_in_child
from dedup.model.errors import UsageError

COPIES = ("session", "print", "stamp", "related", "syndicated", "soft404")
ORIGINALS = ("article", "event", "variant", "listing")


class _Reader(HTMLParser):
    """An independent reader: every link, and the text outside scripts and styles."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.links: list[str] = []
        self.text = ""
        self._hidden = False
        self.feed(body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = tag in ("script", "style")
        href = dict(attrs).get("href")
        if tag == "a" and href:
            self.links.append(href)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text += data


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.fixture(scope="module")
def read(site: Site) -> dict[str, _Reader]:
    """What a reader sees of each page."""
    return {path: _Reader(body(site, path)) for path in site.truth}


def of_kind(site: Site, *kinds: str) -> list[Truth]:
    return [truth for truth in site.truth.values() if truth.kind in kinds]


def body(site: Site, path: str, tick: int = 1) -> bytes:
    return site.render(path, tick)[2]


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


def test_same_site_in_another_process() -> None:
    """Python's salted hash() decides nothing: other processes make the same bytes."""
    program = (
        "import hashlib; from dedup.demo.site import Site; s = Site(120, 5); d = hashlib.sha256();"
        "[d.update(p.encode() + s.render(p, 1)[2]) for p in s.truth]; print(d.hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": salt},
            check=True,
            capture_output=True,
        ).stdout
        for salt in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("pages", [100, 500, 1234])
def test_as_many_pages_as_asked(pages: int) -> None:
    """`pages` is the number of URLs a crawl without deduplication finds."""
    scaled = Site(pages=pages, seed=4)
    assert len(scaled.truth) == pages
    assert len(reachable(scaled)) == pages


def test_too_few_pages_are_refused() -> None:
    """A site too small to hold every kind is refused with the number allowed."""
    with pytest.raises(UsageError, match="pages must be at least 100, got 99"):
        Site(pages=99)


def test_all_kinds_and_languages(site: Site) -> None:
    """Every kind occurs in numbers, in three languages where copies and articles are meant."""
    kinds: Counter[str] = Counter(truth.kind for truth in site.truth.values())
    assert set(kinds) == set(KINDS)
    assert all(kinds[kind] >= 14 for kind in (*COPIES, *ORIGINALS))
    for kind in ("article", "session", "print", "stamp", "syndicated", "soft404", "listing"):
        assert {truth.language for truth in of_kind(site, kind)} == {"en", "zh", "ar"}


# Pages


def test_rendered_links_are_the_links_told(site: Site, read: dict[str, _Reader]) -> None:
    """The anchors in a page's HTML are exactly `links(path)`."""
    for path, page in read.items():
        assert set(page.links) == set(site.links(path)), path


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


def test_child_serves_the_same_site(tmp_path: Path) -> None:
    """The server in a process of its own shows the site of that seed and size, and logs."""
    log = tmp_path / "requests.log"
    with serve_in_child(pages=120, seed=7, log=log) as url:
        with urlopen(f"{url}/robots.txt", timeout=60) as response:
            assert response.status == 200
        with urlopen(f"{url}/", timeout=60) as response:
            assert response.read() == body(Site(120, 7), "/", 1)
    assert log.read_text() == "GET /robots.txt\nGET /\n"
    with pytest.raises(OSError, match="refused"):
        urlopen(url, timeout=60)


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[str]"]:
    """A process that started a server of its own and says its URL."""
    program = (
        "import time; from dedup.demo.site import serve_in_child\n"
        "with serve_in_child(pages=100) as url:\n"
        "    print(url, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_child_ends_with_its_parent(parent: "subprocess.Popen[str]") -> None:
    """Kill the parent without warning: its server is gone shortly after."""
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    with urlopen(f"{url}/robots.txt", timeout=60) as response:
        assert response.status == 200
    parent.send_signal(signal.SIGKILL)
    parent.wait(60)
    deadline = time.monotonic() + 120
    while True:
        try:
            urlopen(f"{url}/robots.txt", timeout=60).close()
        except OSError:
            break
        assert time.monotonic() < deadline, "the server outlived its parent"
        time.sleep(0.05)
