"""What a page of a great directory costs: entries of one template, each another page by its title.

    entries -> reserve and insert, one after another -> CPU a page of each tenth, embedded and in a service

All entries are near each other by text, so each page meets all those before it. The rule kept here: of the
embedded store the time is that of the whole calls; of a service it is the CPU time of its process.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from dedup.core.fingerprint import fingerprint
from dedup.detector import open_embedded
from dedup.detector.interface import Detector
from dedup.detector.opening import open as open_detector
from dedup.lab.bench.samples import Machine, machine
from dedup.lab.bench.service.one_service import cpu_seconds, serving
from dedup.model.policy import Options
from dedup.model.recipes import NEWEST, recipe_of
from dedup.model.values import PageFingerprint

__all__ = ["DirectoryBench", "bench_directory"]

TENTHS = 10
TEXT_WORDS = 160  # that all entries have


class DirectoryBench(msgspec.Struct, frozen=True):
    """CPU microseconds a page, of each tenth of the entries; kept counts the pages that were."""

    entries: int
    distinct_values: int
    kept: int
    embedded_us: list[float]
    service_us: list[float]
    machine: Machine


def bench_directory(
    entries: int, progress: Callable[[int, int], None] | None = None
) -> DirectoryBench:
    """Let entries of a directory come one after another. Raises OSError if no service starts."""
    pages = [fingerprint(page) for page in _entries(entries)]
    kept = 0
    with tempfile.TemporaryDirectory() as folder:
        embedded: list[float] = []
        with open_embedded(Path(folder) / "embedded", Options()) as detector:
            for begin, end in _tenths(entries):
                start = time.thread_time()
                kept += _crawl(detector, pages, begin, end)
                embedded.append(_us(time.thread_time() - start, end - begin))
                if progress:
                    progress(end, 2 * entries)
        service: list[float] = []
        distance = recipe_of(NEWEST).distance
        with serving(Path(folder) / "served", distance) as (process, port):
            url = f"redis://127.0.0.1:{port}"
            with open_detector(url, timeout_seconds=60) as detector:
                for begin, end in _tenths(entries):
                    spent = cpu_seconds(process)
                    _crawl(detector, pages, begin, end)
                    service.append(_us(cpu_seconds(process) - spent, end - begin))
                    if progress:
                        progress(entries + end, 2 * entries)
    values = len({page.value for page in pages})
    packages = machine("crawl-dedup", "lmdb")
    return DirectoryBench(entries, values, kept, embedded, service, packages)


def _crawl(detector: Detector, pages: list[PageFingerprint], begin: int, end: int) -> int:
    """Judge and insert some of the entries; return how many were kept."""
    kept = 0
    for number in range(begin, end):
        verdict = detector.reserve(pages[number], f"http://directory.example/{number}")
        if verdict.token is not None:
            detector.insert(verdict)
            kept += 1
    return kept


def _us(seconds: float, pages: int) -> float:
    return 1e6 * seconds / max(pages, 1)


def _tenths(entries: int) -> Iterator[tuple[int, int]]:
    for tenth in range(TENTHS):
        yield entries * tenth // TENTHS, entries * (tenth + 1) // TENTHS


def _entries(count: int) -> Iterator[bytes]:
    rng = random.Random(1)  # noqa: S311  (pages for a benchmark)
    words = [
        "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3))
        for _ in range(3000)
    ]
    text = " ".join(rng.choices(words, k=TEXT_WORDS))
    for number in range(count):
        name = " ".join(rng.choices(words, k=2))
        yield (
            f"<html><head><title>{name} {number}</title></head><body><main><h1>{name}</h1>"
            f"<p>{text}</p><p>Phone {number:07d}</p></main></body></html>"
        ).encode()
