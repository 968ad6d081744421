"""The examples for crawlers that are not Scrapy: each crawls a site on this machine, as a user runs it."""

import contextlib
import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from services import Serving

from dedup.demo.site import Site

EXAMPLES = Path(__file__).parents[2] / "examples"
BUILT = Path(__file__).parents[2] / "build" / "examples"
PAGES = 250
DROPPED = re.compile(r"^drop  (\S+): near-duplicate of (\S+)$", re.MULTILINE)
KEPT = re.compile(r"^keep  (\S+): (.+)$", re.MULTILINE)
needs_crawlee = pytest.mark.skipif(
    importlib.util.find_spec("crawlee") is None, reason="crawlee is not installed"
)


def example(name, *arguments, folder):
    """Run an example in a folder; return what it printed."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def serving(handler):
    """Serve on a port of its own; the URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site():
    """The demo site, served: its URL, and what each page is."""
    with demo_site() as served:
        yield served


@contextlib.contextmanager
def demo_site(at_request=lambda number: None):
    """Serve the demo site; its URL, and what each page is. at_request is called with their numbers."""
    made, ticks = Site(PAGES), iter(range(10**6))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            tick = next(ticks)
            at_request(tick)
            status, kind, body = made.render(self.path, tick)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with serving(Handler) as url:
        yield url, made.truth


def same_content(truth, a, b):
    """Whether two URLs have the same content by the truth, or are variants of one product."""
    one, two = (
        truth[parts.path + (f"?{parts.query}" if parts.query else "")]
        for parts in map(urlsplit, (a, b))
    )
    return one.group == two.group or (one.family != "" and one.family == two.family)


def check(said, url, truth):
    """Each content of the site is kept, and each dropped page is what it is said to be."""
    dropped, kept = DROPPED.findall(said), {found for found, _ in KEPT.findall(said)}
    assert len(dropped) > 20
    assert [pair for pair in dropped if not same_content(truth, *pair)] == []
    assert {original for _, original in dropped} <= kept
    originals = {url + path for path, page in truth.items() if page.kind == "article"}
    assert originals <= kept | {page for page, _ in dropped}


def test_asyncio(site, tmp_path):
    """A plain asyncio crawler keeps each text once; on the same store, all it kept are refetches."""
    url, truth = site
    said = example("asyncio_crawl.py", f"{url}/", folder=tmp_path)
    check(said, url, truth)
    again = example("asyncio_crawl.py", f"{url}/", folder=tmp_path)
    first = {found for found, status in KEPT.findall(said) if status == "unique"}
    assert {status for found, status in KEPT.findall(again) if found in first} == {"refetch"}


def test_asyncio_when_the_service_dies(tmp_path):
    """A service that is killed during the crawl costs no page."""
    with Serving(tmp_path / "store") as service:

        def at_request(number):
            if number == 60:
                service.kill()

        with demo_site(at_request) as (url, truth):
            store = f"redis://127.0.0.1:{service.port}"
            said = example("asyncio_crawl.py", f"{url}/", store, folder=tmp_path)
    dropped, kept = DROPPED.findall(said), dict(KEPT.findall(said))
    assert [pair for pair in dropped if not same_content(truth, *pair)] == []
    assert "not judged" in kept.values()
    articles = {url + path for path, page in truth.items() if page.kind == "article"}
    assert articles <= kept.keys() | {page for page, _ in dropped}


@needs_crawlee
@pytest.mark.long
def test_crawlee(site, tmp_path):
    """Crawlee's handler does not see near-duplicates; in the mode `tag` it sees them, marked."""
    url, truth = site
    said = example("crawlee_crawl.py", f"{url}/", folder=tmp_path)
    check(said, url, truth)
    (tmp_path / "tag").mkdir()
    tagged = example("crawlee_crawl.py", f"{url}/", "tag", folder=tmp_path / "tag")
    assert DROPPED.findall(tagged) == []
    marked = [found for found, status in KEPT.findall(tagged) if "'near_duplicate'" in status]
    assert len(marked) > 20


# The command that prepares a folder with the example in it, and the one that runs it.
OTHER_LANGUAGES = {
    "crawlee_crawl.mjs": (
        "node",
        [["npm", "install", "--silent", "--no-audit", "--no-fund", "@crawlee/cheerio@3"]],
        ["node", "crawlee_crawl.mjs"],
    ),
    "colly_crawl.go": (
        "go",
        [["go", "mod", "init", "dedup/colly"], ["go", "get", "github.com/gocolly/colly/v2@v2.1.0"],
         ["go", "build", "-o", "colly", "."]],
        ["./colly"],
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", OTHER_LANGUAGES)
def test_crawlers_in_other_languages(name, site, tmp_path):
    """They send pages to POST /v1/judge: each text is kept once, and without the service every page."""
    tool, steps, command = OTHER_LANGUAGES[name]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    folder = BUILT / tool
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(EXAMPLES / name, folder)
        for step in steps:
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{' '.join(step[:2])} failed: {done.stderr[-200:]}")
        (folder / "made").touch()
    url, truth = site

    def run(service):
        done = subprocess.run(
            [*command, f"{url}/", service],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        return done.stdout

    with Serving(tmp_path / "store") as service:
        said = run(f"http://127.0.0.1:{service.http_port}")
    check(said, url, truth)
    alone = run(f"http://127.0.0.1:{service.http_port}")
    assert DROPPED.findall(alone) == []
    kept = len(re.findall(r"^keep  \S+:", alone, re.MULTILINE))
    assert kept >= len(KEPT.findall(said)) + len(DROPPED.findall(said))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(site, tmp_path):
    """A page, again, and a copy of it: unique, refetch, near_duplicate; without the service it is kept."""
    url, truth = site
    articles = {page.group: path for path, page in truth.items() if page.kind == "article"}
    copy = next(p for p, page in truth.items() if articles.get(page.group, p) != p)
    path = articles[truth[copy].group]

    def judged(which):
        env = os.environ | {"DEDUP_HTTP": f"http://127.0.0.1:{service.http_port}"}
        command = ["sh", EXAMPLES / "judge.sh", url + which]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    with Serving(tmp_path / "store") as service:
        said = [judged(each) for each in (path, path, copy)]
    assert [json.loads(done.stdout.splitlines()[0])["status"] for done in said] == [
        "unique", "refetch", "near_duplicate",
    ]  # fmt: skip
    assert [done.returncode for done in said] == [0, 0, 1]
    assert '"done":true' in said[0].stdout
    alone = judged(path)
    assert (alone.returncode, "service_away" in alone.stdout) == (0, True)


def test_only_changes_are_embedded(tmp_path):
    """New pages wholly, changed ones block by block; copies, unchanged and gone ones not at all."""
    served = tmp_path / "site"
    served.mkdir()
    story = [
        f"<p>{' '.join(f'word{n}of{block}' for n in range(25))}.</p>"
        for block in ("one", "two", "six")
    ]

    def put(name, blocks):
        text = f"<title>News</title><article>{''.join(blocks)}</article>"
        (served / name).write_text(text, encoding="utf-8")

    put("story.html", story)
    put("copy.html", [*story, "<p>seen 17 times</p>"])
    other = "".join(f"<p>{' '.join(f'other{n}x{p}' for n in range(25))}</p>" for p in range(2))
    put("other.html", [other])

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Say nothing."""

    with serving(functools.partial(Handler, directory=served)) as url:
        pages = [f"{url}/{name}.html" for name in ("story", "copy", "other")]

        def run():
            said = example("embed_changes.py", "store", *pages, folder=tmp_path)
            return [line.split(": ", 1)[1] for line in said.splitlines()]

        assert run() == [
            "3 of 3 blocks embedded",
            f"near-duplicate of {pages[0]}",
            "2 of 2 blocks embedded",
        ]
        assert run() == ["unchanged", f"near-duplicate of {pages[0]}", "unchanged"]
        put("story.html", [story[0], story[1].replace("word7of", "changed"), story[2]])
        assert run()[0] == "1 of 3 blocks embedded"
        (served / "story.html").unlink()
        assert run() == ["gone", "4 of 4 blocks embedded", "unchanged"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("asyncio_crawl.py", "usage: python examples/asyncio_crawl.py"),
        ("embed_changes.py", "usage: python examples/embed_changes.py"),
        ("stream.py", "usage: python examples/stream.py HOST:PORT"),
        ("spark_job.py", "pip install '.[spark]'"),
    ],
)
def test_an_example_is_short_and_says_what_it_needs(name, said):
    """At most 80 lines; without arguments, or its extra, it ends with one line."""
    assert len((EXAMPLES / name).read_text("utf-8").splitlines()) <= 80
    if name == "spark_job.py" and importlib.util.find_spec("pyspark"):
        pytest.skip("pyspark is installed")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
