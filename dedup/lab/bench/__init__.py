"""The table of `dedup bench`, and its one runner: rounds of figures in, medians with their range out.

    Case (a line of CASES, or of tests/bench) -> Bench -> rounds -> Result

Invariants: what is compared is measured in turns within each round, so that a slow minute of the machine
hits both; a ratio compares figures of one round.
"""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any, Literal

import msgspec

Progress = Callable[[int, int], None]
Round = Mapping[str, Mapping[str, float]]  # by row, then by column; the column says the unit


class Samples(msgspec.Struct, frozen=True):
    """Measurements of one thing, in one unit."""

    median: float
    lowest: float
    highest: float
    count: int

    def text(self, digits: int | None = None) -> str:
        """Return "8.21 (8.05 to 8.44)"; without digits three figures or more are shown."""
        if digits is None:
            digits = next((d for d, least in enumerate((100, 10, 1)) if self.median >= least), 3)
        shown = f"{self.median:,.{digits}f}"
        if self.count == 1:
            return shown
        return f"{shown} ({self.lowest:,.{digits}f} to {self.highest:,.{digits}f})"


class Machine(msgspec.Struct, frozen=True):
    """Where figures were taken: cores this process may use, and versions by package."""

    cores: int
    architecture: str
    system: str
    python: str
    packages: dict[str, str]

    def text(self) -> str:
        """Return it in one line."""
        packages = ", ".join(f"{name} {number}" for name, number in self.packages.items())
        python = f"{self.cores} cores, {self.architecture}, {self.system}, Python {self.python}"
        return f"{python}, {packages}" if packages else python


def samples(measured: Sequence[float]) -> Samples:
    """Return the median and the range of one measurement or more."""
    return Samples(median(measured), min(measured), max(measured), len(measured))


def machine(*packages: str) -> Machine:
    """Return this machine, with the versions of those of the packages that are installed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(
        cores=cores or 1,
        architecture=platform.machine(),
        system=platform.system(),
        python=platform.python_version(),
        packages={name: found for name in packages if (found := installed(name))},
    )


def installed(package: str) -> str:
    """Return the version of a package, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# --------------------------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Option:
    """An option of a case, as --name of the command line and as an argument of its function.

    kind  number, numbers (with commas between), flag, choice (of `choices`), text, folder, or path;
          a path exists, a folder is made where it is missing
    """

    name: str
    default: Any
    help: str
    kind: Literal["number", "numbers", "flag", "choice", "text", "folder", "path"] = "number"
    least: int = 1
    most: int | None = None
    choices: tuple[str, ...] = ()


@dataclass
class Bench:
    """A case that is ready: facts that are the same in all rounds, and what measures a round.

    facts  may be completed by the rounds
    ratio  column that is also shown as the ratio to that of the first row, round by round
    """

    facts: dict[str, Any]
    measure: Callable[[], Round]
    packages: tuple[str, ...] = ()
    ratio: str | None = None


@dataclass(frozen=True)
class Case:
    """A benchmark.

    measures  what, as the first line of its help; `note` is the rest
    open      called with the options and progress; gives a Bench until the block ends
    rounds    by default; None: it is measured once, and says itself how far it is
    quick     values of options for a first look
    """

    name: str
    measures: str
    note: str
    options: tuple[Option, ...]
    open: Callable[..., AbstractContextManager[Bench]]
    rounds: int | None = None
    quick: Mapping[str, Any] = field(default_factory=dict)
    quick_text: str = ""


class Result(msgspec.Struct, frozen=True):
    """The figures of a case: by row, then by column."""

    bench: str
    facts: dict[str, Any]
    rounds: int
    rows: dict[str, dict[str, Samples]]
    machine: Machine


def measure(
    case: Case, rounds: int, options: Mapping[str, Any], progress: Progress | None = None
) -> Result:
    """Run a case. Raises what it raises."""
    with case.open(**options, progress=progress) as bench:
        found: dict[str, dict[str, list[float]]] = {}
        for number in range(rounds):
            measured = bench.measure()
            for row, figures in (_with_ratios(measured, bench.ratio)).items():
                for column, figure in figures.items():
                    found.setdefault(row, {}).setdefault(column, []).append(figure)
            if progress is not None and case.rounds is not None:
                progress(number + 1, rounds)
        return Result(
            case.name,
            bench.facts,
            rounds,
            {
                row: {c: samples(taken) for c, taken in cells.items()}
                for row, cells in found.items()
            },
            machine("crawl-dedup", *bench.packages),
        )


def _with_ratios(measured: Round, column: str | None) -> Round:
    if column is None:
        return measured
    first, *_ = measured
    name = f"times {first}"
    return {
        row: {**cells, name: cells[column] / measured[first][column]}
        for row, cells in measured.items()
    }


def opened(module: str, name: str = "open_case") -> Callable[..., AbstractContextManager[Bench]]:
    """Return what opens the case of a module, which is imported then: some need an extra."""

    def open_case(**options: Any) -> AbstractContextManager[Bench]:
        found: AbstractContextManager[Bench] = getattr(import_module(module), name)(**options)
        return found

    return open_case


# ----------------------------------------------------------------------------------- the table

DISTANCE = Option("distance", 3, "Greatest distance in bits.", least=0, most=15)

CASES = (
    Case(
        "pages",
        "Measure the CPU time from a page's bytes to its fingerprint.",
        "MB/s and pages a second are of one thread.",
        (
            Option(
                "pages",
                None,
                'A folder of HTML pages, or a .jsonl or .jsonl.zst file with pages under "html" '
                "(default: generated ones of 53 KB).",
                "path",
            ),
            Option("count", 40, "Number of pages."),
        ),
        opened("dedup.lab.bench.pages"),
        rounds=7,
        quick={"count": 10, "rounds": 1},
        quick_text="10 pages, one round",
    ),
    Case(
        "tables",
        "Measure dedup.Table: probes, memory, changes.",
        "Each preset has the same fingerprints; the first answers are compared with a plain search. "
        "CPU time of one core.",
        (
            Option(
                "data",
                "uniform",
                "uniform, clustered, or a file with a decimal fingerprint a line.",
                "text",
            ),
            Option(
                "sizes", (1_000_000,), "Numbers of fingerprints stored.", "numbers", 1, 2**31 - 2
            ),
            Option("distances", (3, 6), "Distances to measure.", "numbers", 1, 15),
        ),
        opened("dedup.lab.bench.tables"),
        rounds=5,
        quick={"sizes": (100_000,), "rounds": 1},
        quick_text="100,000 stored, one round",
    ),
    Case(
        "store",
        "Fill a store, kill the process that does, open it, reserve and insert pages.",
        "The small store of the last rows has a million documents, or a tenth as many. With --memory "
        "the processes are limited.",
        (
            Option(
                "sizes",
                (1_000_000,),
                "Numbers of documents to measure at; a document takes 210 bytes of disk.",
                "numbers",
                1,
                2**31 - 2,
            ),
            DISTANCE,
            Option(
                "path",
                None,
                "Folder to keep the store in; one that holds documents is filled further.",
                "folder",
            ),
            Option("memory", None, "Memory that the processes may have: bytes, 512M, 8G.", "text"),
            Option(
                "cgroup",
                None,
                "A memory cgroup of your own, for --memory: files in memory count too. "
                "[default: RLIMIT_DATA]",
                "path",
            ),
            Option("requests", 10_000, "Pages that are reserved and inserted.", least=100),
        ),
        opened("dedup.lab.bench.store"),
        quick={"sizes": (200_000,), "requests": 2_000},
        quick_text="200,000 documents, 2,000 pages",
    ),
    Case(
        "service",
        "Measure a table service: PROBE, RESERVE + INSERT, latencies.",
        "Rates are for the CPU time of the service's process, as the load comes from the same machine. "
        "At half load latencies are counted from when a probe was due.",
        (
            Option("documents", 1_000_000, "Number of documents stored."),
            DISTANCE,
            Option(
                "requests",
                100_000,
                "Single probes a round; eight times this number are pipelined, a tenth reserved.",
                least=1000,
            ),
        ),
        opened("dedup.lab.bench.service"),
        rounds=5,
        quick={"documents": 100_000, "requests": 20_000, "rounds": 1},
        quick_text="100,000 documents, one round",
    ),
    Case(
        "crawl",
        "Compare crawls with and without the add-on: CPU time of the same pages, in turns.",
        "CPU time is that of the spider's process, user and system, all threads. The add-on's steps are "
        "timed in one more crawl.",
        (
            Option(
                "pages",
                None,
                "A folder of HTML pages to crawl (default: generated ones of 53 KB).",
                "path",
            ),
            Option("count", 500, "Number of pages."),
            Option(
                "work",
                "parse",
                "The spider does nothing; makes an item with links; also makes requests for them.",
                "choice",
                choices=("fetch", "parse", "follow"),
            ),
            Option("service", False, "Use a table service in place of a store.", "flag"),
        ),
        opened("dedup.lab.bench.crawl"),
        rounds=7,
        quick={"count": 60, "rounds": 1},
        quick_text="60 pages, one round",
    ),
)
