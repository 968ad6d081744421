"""From a page to its fingerprint: ours beside what other tools take for the same way.

    pages -> every contender in turns, CPU time -> medians, and what each costs against ours

The rules kept here: every contender starts from the same bytes and ends with a 64-bit simhash; one
that is not installed is left out and named; the contenders take turns within each round, and a ratio
compares times of one round.
"""

import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from dedup.core.fingerprint import fingerprint
from dedup.core.native import check, ffi, lib
from dedup.lab.bench.measured_pages import load_pages
from dedup.lab.bench.samples import Machine, Samples, machine, samples

__all__ = ["Contender", "PagesBench", "bench_pages"]

_LEAST_SECONDS = 0.2  # a turn of less is repeated, as the clock's steps would show

Work = Callable[[bytes], object]


class Contender(msgspec.Struct, frozen=True):
    """What one way costs. ratio: its time to that of `dedup`, in the same round."""

    name: str
    page_us: Samples
    pages_per_second: float
    megabytes_per_second: float
    ratio: Samples


class PagesBench(msgspec.Struct, frozen=True):
    """The outcome; page_bytes is a page's mean size, CPU time is that of one thread."""

    pages: int
    page_bytes: float
    rounds: int
    contenders: list[Contender]
    missing: list[str]
    machine: Machine


def bench_pages(
    source: Path | None,
    count: int,
    rounds: int,
    peers: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> PagesBench:
    """Measure all contenders on up to `count` pages; load_pages() says what source may be."""
    pages = load_pages(source, count)
    ways: dict[str, Work] = {"dedup": fingerprint, "dedup, its native core alone": _core()}
    missing = []
    for name, packages, make in _PEERS if peers else ():
        if all(map(_installed, packages)):
            ways[name] = make()
        else:
            missing.append(name)
    passes = {name: _passes(work, pages) for name, work in ways.items()}
    measured: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name, work in ways.items():
            measured[name].append(_page_us(work, pages, passes[name]))
        if progress:
            progress(turn + 1, rounds)
    size = sum(map(len, pages)) / len(pages)
    return PagesBench(
        pages=len(pages),
        page_bytes=size,
        rounds=rounds,
        contenders=[_contender(name, measured[name], measured["dedup"], size) for name in ways],
        missing=missing,
        machine=machine("crawl-dedup", "resiliparse", "selectolax", "simhash", "trafilatura"),
    )


def _contender(name: str, times: list[float], ours: list[float], size: float) -> Contender:
    page_us = samples(times)
    return Contender(
        name=name,
        page_us=page_us,
        pages_per_second=1e6 / page_us.median,
        megabytes_per_second=size / page_us.median,
        ratio=samples([time / our for time, our in zip(times, ours, strict=True)]),
    )


def _page_us(work: Work, pages: Sequence[bytes], passes: int) -> float:
    """Return the CPU time a page takes, in microseconds."""
    begin = time.process_time()
    for _ in range(passes):
        for page in pages:
            work(page)
    return (time.process_time() - begin) / passes / len(pages) * 1e6


def _passes(work: Work, pages: Sequence[bytes]) -> int:
    seconds = _page_us(work, pages, 1) * len(pages) / 1e6  # it also warms what must be warm
    return max(1, round(_LEAST_SECONDS / max(seconds, 1e-6)))


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


# -------------------------------------------------------------------------------- the contenders


def _core() -> Work:
    made = ffi.new("ndd_reader **")
    check(lib.ndd_reader_open(made))
    reader = ffi.gc(made[0], lib.ndd_reader_close)
    key, page, no_folder = {"k0": 0, "k1": 0}, ffi.new("ndd_page *"), ffi.NULL
    read, buffer = lib.ndd_read_html, ffi.from_buffer

    def work(html: bytes) -> object:
        return read(reader, buffer(html), len(html), no_folder, 0, key, page)

    return work


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


_PEERS: tuple[tuple[str, tuple[str, ...], Callable[[], Work]], ...] = (
    ("selectolax, all text, and simhash", ("selectolax", "simhash"), _selectolax),
    ("resiliparse, main content, and simhash", ("resiliparse", "simhash"), _resiliparse),
    ("trafilatura and simhash", ("trafilatura", "simhash"), _trafilatura),
)
