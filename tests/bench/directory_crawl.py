"""What a page of a great directory costs: entries of one template, each another page by its title.

    entries -> reserve and insert, one after another -> CPU a page of each tenth, embedded and in a service

All entries are near each other by text, so each page meets all those before it. Invariant: of the
embedded store the time is that of the whole calls; of a service it is the CPU time of its process.
"""

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner import Bench, Progress, Round
from service_costs import cpu_seconds, serving

from dedup.core.fingerprint import fingerprint
from dedup.detector import open as open_detector
from dedup.detector import open_embedded
from dedup.detector.interface import Detector
from dedup.model.page import PageFingerprint
from dedup.model.policy import Options
from dedup.model.recipes import NEWEST, recipe_of

TENTHS = 10
TEXT_WORDS = 160  # that all entries have


@contextmanager
def open_case(entries: int, progress: Progress | None = None) -> Iterator[Bench]:
    """Let entries of a directory come one after another. Raises OSError if no service starts."""
    pages = [fingerprint(page) for page in _entries(entries)]
    facts = {"entries": entries, "distinct_values": len({page.value for page in pages})}
    yield Bench(facts, lambda: _measured(pages, facts, progress), packages=("lmdb",))


def _measured(
    pages: list[PageFingerprint], facts: dict[str, int], progress: Progress | None
) -> Round:
    entries, kept = len(pages), 0
    rows: dict[str, dict[str, float]] = {}

    def note(end: int, begin: int, column: str, seconds: float) -> None:
        rows.setdefault(f"up to entry {end:,}", {})[column] = _us(seconds, end - begin)
        if progress:
            progress(sum(map(len, rows.values())), 2 * TENTHS)

    with tempfile.TemporaryDirectory() as folder:
        with open_embedded(Path(folder) / "embedded", Options()) as detector:
            for begin, end in _tenths(entries):
                start = time.thread_time()
                kept += _crawl(detector, pages, begin, end)
                note(end, begin, "us of CPU, embedded store", time.thread_time() - start)
        distance = recipe_of(NEWEST).distance
        with (
            serving(Path(folder) / "served", distance) as (process, port),
            open_detector(f"redis://127.0.0.1:{port}", timeout_seconds=60) as detector,
        ):
            for begin, end in _tenths(entries):
                spent = cpu_seconds(process)
                _crawl(detector, pages, begin, end)
                note(end, begin, "us of CPU, table service", cpu_seconds(process) - spent)
    facts["kept"] = kept
    return rows


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
    rng = random.Random(1)
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
