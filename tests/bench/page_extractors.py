"""From a page to its fingerprint, beside what other tools take for the same way.

Every contender starts from the same bytes and ends with a 64-bit simhash; one that is not installed is left
out and named.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dedup.core.fingerprint import fingerprint
from dedup.lab.bench import Bench, Progress, installed
from dedup.lab.bench.pages import Work, bench_ways, load_pages, native_core


def _resiliparse() -> Work:
    from resiliparse.extract.html2text import extract_plain_text
    from simhash import Simhash

    return lambda html: Simhash(
        extract_plain_text(html.decode("utf-8", "replace"), main_content=True).split()
    )


def _trafilatura() -> Work:
    from simhash import Simhash
    from trafilatura import extract

    return lambda html: Simhash((extract(html, include_comments=False) or "").split())


def _selectolax() -> Work:
    from selectolax.lexbor import LexborHTMLParser
    from simhash import Simhash

    def work(html: bytes) -> object:
        body = LexborHTMLParser(html).body
        return Simhash(body.text(separator=" ").split() if body is not None else [])

    return work


PEERS: tuple[tuple[str, tuple[str, ...], Callable[[], Work]], ...] = (
    ("selectolax, all text, and simhash", ("selectolax", "simhash"), _selectolax),
    ("resiliparse, main content, and simhash", ("resiliparse", "simhash"), _resiliparse),
    ("trafilatura and simhash", ("trafilatura", "simhash"), _trafilatura),
)


@contextmanager
def open_case(pages: Path | None, count: int, progress: Progress | None = None) -> Iterator[Bench]:
    """Measure ours and the peers that are installed."""
    del progress
    ways: dict[str, Work] = {"dedup": fingerprint, "dedup, its native core alone": native_core()}
    missing = []
    for name, packages, make in PEERS:
        if all(map(installed, packages)):
            ways[name] = make()
        else:
            missing.append(name)
    bench = bench_ways(load_pages(pages, count), ways)
    if missing:
        bench.facts["left out, not installed"] = "; ".join(missing)
    bench.packages = ("resiliparse", "selectolax", "simhash", "trafilatura")
    yield bench
