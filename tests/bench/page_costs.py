"""`python tests/bench pages`: from a page's bytes to its fingerprint; and the pages that benchmarks read.

A generated page has the measures of pages of today: about 53 KB, 460 elements, 90 links, 6 KB of
visible text, 16 KB of style and script, and the rest in attributes. (460 pages of real sites,
news and documentation, had 56 KB, 463, 86, 5.8 KB and 16.6 KB on average.)
"""

import random
import time
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from runner import FOLDER, Bench, case, flag, number

from dedup.core.fingerprint import fingerprint
from dedup.core.native import check, ffi, lib
from dedup.demo.site import story
from dedup.model.errors import UsageError

Work = Callable[[bytes], object]

LEAST_SECONDS = 0.2  # a turn of less is repeated, as the clock's steps would show
SUFFIXES = (".html", ".htm", ".xhtml")
PAGES = click.Option(
    ["--pages"], type=FOLDER, help="A folder of HTML pages (default: generated ones of 53 KB)."
)


@case(
    "pages",
    PAGES,
    number("count", 40, "Number of pages."),
    flag("peers", "Measure resiliparse's main content with 1e0ng's simhash, too."),
    rounds=7,
    count=10,
)
def command(pages, count, peers):
    """Measure the CPU time of one thread from a page's bytes to its fingerprint."""
    ways: dict[str, Work] = {"dedup": fingerprint, "dedup, its native core alone": native_core()}
    if peers:
        ways["resiliparse, main content, and simhash"] = resiliparse()
    bodies = load_pages(pages, count)
    passes = {name: _passes(work, bodies) for name, work in ways.items()}

    def measure():
        times = {name: _page_us(work, bodies, passes[name]) for name, work in ways.items()}
        return {name: {"us a page": us, "pages/s": 1e6 / us} for name, us in times.items()}

    facts = {"pages": len(bodies), "page_bytes": round(sum(map(len, bodies)) / len(bodies))}
    yield Bench(facts, measure, ("resiliparse", "simhash"), "us a page")


def resiliparse() -> Work:
    """Return the way of the fastest extractor. Raises UsageError if it is not installed."""
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from simhash import Simhash
    except ImportError as error:
        raise UsageError("--peers needs: pip install --group bench") from error
    return lambda html: Simhash(
        extract_plain_text(html.decode("utf-8", "replace"), main_content=True).split()
    )


def _page_us(work: Work, pages: Sequence[bytes], passes: int) -> float:
    begin = time.process_time()
    for _ in range(passes):
        for page in pages:
            work(page)
    return (time.process_time() - begin) / passes / len(pages) * 1e6


def _passes(work: Work, pages: Sequence[bytes]) -> int:
    seconds = _page_us(work, pages, 1) * len(pages) / 1e6  # this call also warms caches
    return max(1, round(LEAST_SECONDS / max(seconds, 1e-6)))


def native_core() -> Work:
    """Return the native call alone, without what Python adds."""
    made = ffi.new("ndd_reader **")
    check(lib.ndd_reader_open(made))
    reader = ffi.gc(made[0], lib.ndd_reader_close)
    key, page, no_folder = {"k0": 0, "k1": 0}, ffi.new("ndd_page *"), ffi.NULL
    read, buffer = lib.ndd_read_html, ffi.from_buffer

    def work(html: bytes) -> object:
        return read(reader, buffer(html), len(html), no_folder, 0, key, page)

    return work


def load_pages(folder: Path | None, count: int) -> list[bytes]:
    """Return up to `count` pages: of a folder, taken at even distances, or generated ones."""
    if folder is None:
        with TemporaryDirectory() as made:
            write_pages(Path(made), count)
            return load_pages(Path(made), count)
    files = find_pages(folder, 10**9)
    count = min(count, len(files))
    return [files[i * len(files) // count].read_bytes() for i in range(count)]


def find_pages(folder: Path, count: int) -> list[Path]:
    """Return the first `count` HTML files in and below a folder, in the order of their paths.

    Raises UsageError if there are none.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not files:
        raise UsageError(f"{folder} holds no HTML files ({', '.join(SUFFIXES)})")
    return files[:count]


# ---------------------------------------------------------------------------- generated pages


def write_pages(folder: Path, count: int, seed: int = 1) -> None:
    """Write that many generated pages into a folder."""
    for n in range(count):
        page = _made(n, random.Random(f"{seed} {n}"))
        folder.joinpath(f"{n:06}.html").write_text(page, encoding="utf-8")


STYLE = "\n".join(
    f".c-{number}{{margin:{number % 7}px auto;padding:{number % 5}px 1em;max-width:{40 + number}em;"
    f"border-top:1px solid #{number:02x}aa77}}.c-{number}>a:hover{{color:#c3{number:02x}11}}"
    for number in range(88)
)
SCRIPT = """
(function () {
  var queue = [], request = "REQUEST";
  function send(kind, detail) {
    queue.push({ kind: kind, detail: detail, after: Date.now(), request: request });
    if (queue.length > 20 && navigator.sendBeacon) {
      navigator.sendBeacon("/beacon", JSON.stringify(queue));
      queue = [];
    }
  }
  function banner(place, words) {
    place.innerHTML = "<p class='ad'>" + words.join(" ") + " <b>only today<\\/b><\\/p>";
    send("banner", words.length);
  }
  document.addEventListener("scroll", function () { send("scroll", 1 < 2); }, { passive: true });
}());
"""


def _made(number: int, rng: random.Random) -> str:
    def dress(kind: str) -> str:  # attributes as frameworks write them
        return (
            f'class="c-{kind} c-{kind}--{rng.choice(("wide", "narrow", "plain"))} u-margin-bottom-2" '
            f'data-component="{kind}" data-id="{rng.getrandbits(48):012x}"'
        )

    def item(kind: str, target: str, text: str) -> str:
        return (
            f'<li {dress(kind)}><a {dress(kind + "-link")} href="{target}">'
            f"<span>{escape(text)}</span></a></li>\n"
        )

    text, words = story(rng, rng.randint(49, 93)), story(rng, 60)
    titles = words.paragraphs[0].split(". ") + [p.partition(".")[0] for p in words.paragraphs]
    names = " ".join(words.paragraphs).split()
    head = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(text.title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="description" content="{escape(words.title)}">\n'
        f"<style>{STYLE}</style>\n"
        f"<script>{SCRIPT.replace('REQUEST', f'{rng.getrandbits(64):016x}') * 15}</script>\n"
        "</head>\n"
    )
    menu = "".join(item("menu", f"/section/{i}/", names[i]) for i in range(34))
    teasers = "".join(
        item("teaser", f"/story/{rng.randrange(10**6)}.html", rng.choice(titles)) for _ in range(28)
    )
    foot = "".join(item("foot", f"/about/{i}.html", names[40 + i]) for i in range(24))
    comments = "".join(
        f"<div {dress('comment')}><b>{words.author}</b><p>{escape(paragraph)}</p></div>\n"
        for paragraph in words.paragraphs[-4:]
    )
    body, nav, main = dress("page"), dress("nav"), dress("main")
    paragraphs = "".join(
        f"<p {dress('paragraph')}>{escape(text)} "
        f'<a href="../note/{number}-{i}.html">note {i}</a></p>\n'
        for i, text in enumerate(text.paragraphs)
    )
    article = f"<article><h1>{escape(text.title)}</h1>\n{paragraphs}</article>"
    return (
        f"{head}<body {body}>\n<nav {nav}><ul>\n{menu}</ul></nav>\n"
        f"<main {main}>{article}</main>\n"
        f"<aside {dress('aside')}><ul>\n{teasers}</ul></aside>\n"
        f"<section {dress('comments')}>{comments}</section>\n"
        f"<footer {dress('footer')}><ul>\n{foot}</ul></footer>\n</body>\n</html>\n"
    )
