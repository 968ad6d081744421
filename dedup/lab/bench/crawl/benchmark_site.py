"""The site that the crawl benchmark fetches: pages from a folder, or generated ones.

    write_pages(folder, count)                    generated pages, into a folder
    python -m dedup.lab.bench.crawl.benchmark_site --folder F   serves a folder's pages; says the URL of the start

A generated page has the measures of pages of today: about 53 KB, 460 elements, 90 links, 6 KB of
visible text, 16 KB of style and script, and the rest in attributes. (460 pages of real sites,
news and documentation, had 56 KB, 463, 86, 5.8 KB and 16.6 KB on average.)

The rules kept here: each page has content of its own; all lie in memory before the first request;
the server listens on loopback only, and ends when its standard input does.
"""

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from dedup.lab.demo.site.articles import Story, Writer
from dedup.lab.demo.site.page_frames import SCRIPT, style
from dedup.lab.demo.site.words_en import ENGLISH
from dedup.model.errors import DedupError, UsageError

__all__ = ["find_pages", "serve_in_child", "write_pages"]

_SUFFIXES = (".html", ".htm", ".xhtml")
_START = "/index.html"
_ENDS_WITHIN_SECONDS = 10


def find_pages(folder: Path, count: int) -> list[Path]:
    """Return the first `count` HTML files in and below a folder, in the order of their paths.

    Raises UsageError if there are none.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not files:
        raise UsageError(f"{folder} holds no HTML files ({', '.join(_SUFFIXES)})")
    return files[:count]


def write_pages(folder: Path, count: int, seed: int = 1) -> None:
    """Write that many generated pages into a folder."""
    topics = list(ENGLISH.topics.values())
    for number in range(count):
        rng = random.Random(f"{seed} {number}")  # noqa: S311 - pages, no secrets
        page = _page(number, Writer(ENGLISH, rng.choice(topics), rng), rng)
        folder.joinpath(f"{number:06}.html").write_text(page, encoding="utf-8")


# ------------------------------------------------------------------------------ a generated page


def _page(number: int, writer: Writer, rng: random.Random) -> str:
    story = writer.story(rng.randint(450, 850))
    head = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(story.title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="description" content="{escape(story.summary)}">\n'
        f"<style>{style('herald')}{style('harbour')}</style>\n"
        f"<script>{SCRIPT.replace('REQUEST', f'{rng.getrandbits(64):016x}') * 5}</script>\n"
        "</head>\n"
    )
    menu = "".join(_item("menu", f"/section/{i}/", writer.fill("{noun}"), rng) for i in range(34))
    teasers = "".join(
        _item("teaser", f"/story/{rng.randrange(10**6)}.html", writer.title(), rng)
        for _ in range(28)
    )
    foot = "".join(_item("foot", f"/about/{i}.html", writer.fill("{verb}"), rng) for i in range(24))
    comments = "".join(
        f"<div {_dress('comment', rng)}><b>{writer.fill('{person}')}</b>"
        f"<p>{escape(writer.paragraph(2))}</p></div>\n"
        for _ in range(4)
    )
    return (
        f"{head}<body {_dress('page', rng)}>\n<nav {_dress('nav', rng)}><ul>\n{menu}</ul></nav>\n"
        f"<main {_dress('main', rng)}>{_article(number, story, rng)}</main>\n"
        f"<aside {_dress('aside', rng)}><ul>\n{teasers}</ul></aside>\n"
        f"<section {_dress('comments', rng)}>{comments}</section>\n"
        f"<footer {_dress('footer', rng)}><ul>\n{foot}</ul></footer>\n</body>\n</html>\n"
    )


def _article(number: int, story: Story, rng: random.Random) -> str:
    paragraphs = "".join(
        f"<p {_dress('paragraph', rng)}>{escape(text)} "
        f'<a href="../note/{number}-{i}.html">note {i}</a></p>\n'
        for i, text in enumerate(story.paragraphs)
    )
    return f"<article><h1>{escape(story.title)}</h1>\n{paragraphs}</article>"


def _item(kind: str, target: str, text: str, rng: random.Random) -> str:
    return (
        f'<li {_dress(kind, rng)}><a {_dress(kind + "-link", rng)} href="{target}">'
        f"<span>{escape(text)}</span></a></li>\n"
    )


def _dress(kind: str, rng: random.Random) -> str:
    """Return attributes as frameworks write them."""
    return (
        f'class="c-{kind} c-{kind}--{rng.choice(("wide", "narrow", "plain"))} u-margin-bottom-2" '
        f'data-component="{kind}" data-id="{rng.getrandbits(48):012x}"'
    )


# ------------------------------------------------------------------------------------ the server


class _Site(ThreadingHTTPServer):
    """Pages by path, in memory; the start links to all others."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, files: Sequence[Path]) -> None:
        paths = [f"/2025/11/{n % 28 + 1:02}/page-{n:06}.html" for n in range(len(files))]
        self.pages = dict(zip(paths, map(_load, files), strict=True))
        links = "".join(f'<li><a href="{path}">{path}</a></li>\n' for path in paths)
        words = "Every page of this site is named here, once, and in the order of their numbers."
        start = f"<!DOCTYPE html><html><body><p>{words}</p><ul>{links}</ul></body></html>"
        self.pages[_START] = "text/html; charset=utf-8", start.encode()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a crawler that went away; anything else is a fault worth seeing."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Site
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path)
        kind, body = page or ("text/plain; charset=utf-8", b"There is no such page.\n")
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _load(file: Path) -> tuple[str, bytes]:
    """Return a page and its type; servers name the encoding where they know it."""
    body = file.read_bytes()
    try:
        body.decode()
    except UnicodeDecodeError:
        return "text/html", body
    return "text/html; charset=utf-8", body


@contextmanager
def serve_in_child(folder: Path, count: int) -> Iterator[str]:
    """Serve the first pages of a folder from a process of its own; give the URL of the start."""
    command = [sys.executable, "-m", "dedup.lab.bench.crawl.benchmark_site", f"--folder={folder}"]
    with subprocess.Popen(  # noqa: S603 - this module
        [*command, f"--count={count}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            url = child.stdout.readline().strip()
            if not url:
                raise DedupError("the benchmark's site did not start; its error stands above")
            yield url
        finally:
            child.stdin.close()
            try:
                child.wait(_ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m dedup.lab.bench.crawl.benchmark_site")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    with _Site(find_pages(options.folder, options.count)) as site:
        Thread(target=site.serve_forever, args=(0.05,), daemon=True).start()
        print(f"http://127.0.0.1:{site.server_port}{_START}", flush=True)  # noqa: T201
        with suppress(KeyboardInterrupt):
            sys.stdin.read()
        site.shutdown()


if __name__ == "__main__":
    main()
