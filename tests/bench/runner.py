"""The one runner of benchmarks: rounds of figures in, medians with their range out, as a table or as JSON.

    Case (a line of cases.CASES) -> Bench -> rounds -> Result -> a table, or JSON

Invariants: what is compared is measured in turns within each round, so that a slow minute of the machine
hits both; a ratio compares figures of one round.
"""

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, Literal

import click
import msgspec

from dedup.cli import terminal

Progress = Callable[[int, int], None]
Round = Mapping[str, Mapping[str, float]]  # by row, then by column; the column says the unit


class Samples(msgspec.Struct, frozen=True):
    """Measurements of one thing, in one unit."""

    median: float
    lowest: float
    highest: float
    count: int

    def text(self) -> str:
        """Return "8.21 (8.05 to 8.44)", with three figures or more."""
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

    kind  number, flag, or path, which exists
    """

    name: str
    default: Any
    help: str
    kind: Literal["number", "flag", "path"] = "number"
    least: int = 1
    most: int | None = None


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


def opened(module: str) -> Callable[..., AbstractContextManager[Bench]]:
    """Return what opens the case of a module, which is imported then: some need an extra."""

    def open_case(**options: Any) -> AbstractContextManager[Bench]:
        found: AbstractContextManager[Bench] = import_module(module).open_case(**options)
        return found

    return open_case


# ----------------------------------------------------------------------------------- the commands


class Cases(terminal.CommandGroup):
    """A group with a command for each case."""

    kind = "benchmark"

    def add(self, cases: Iterable[Case]) -> None:
        """Add a command for each of them."""
        for case in cases:
            self.add_command(_command(case))


def _command(case: Case) -> click.Command:
    def run(json_file: str | None, quick: bool = False, **options: Any) -> None:
        if quick:
            options |= case.quick
        rounds = options.pop("rounds", 1)
        result = measure(case, rounds, options, terminal.progress(case.name))
        out_result(result, lambda: shown(result), json_file)

    options = [_option(option) for option in case.options]
    if case.rounds is not None:
        options.append(
            click.Option(
                ["--rounds"],
                type=click.IntRange(1),
                default=case.rounds,
                show_default=True,
                help="Number of measurements of each.",
            )
        )
    if case.quick:
        options.append(
            click.Option(["--quick"], is_flag=True, help=f"A first look: {case.quick_text}.")
        )
    options.append(json_file_option())
    return click.Command(
        case.name,
        callback=run,
        params=list(options),
        help=f"{case.measures}\n\n{case.note}",
        epilog=f"Example: python tests/bench {case.name}{' --quick' if case.quick else ''}",
    )


def json_file_option() -> click.Option:
    """Return the option --json [FILE], whose value is for out_result()."""
    return click.Option(
        ["--json", "json_file"],
        is_flag=False,
        flag_value="-",
        metavar="[FILE]",
        help="Write one JSON object to a file, or to stdout.",
    )


def out_result(result: object, text: Callable[[], str], json_file: str | None) -> None:
    """Write a result to stdout, as JSON where the file is "-", else as text, and as JSON to a file."""
    if json_file == "-":
        terminal.out_json(msgspec.to_builtins(result))
        return
    if json_file is not None:
        Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    terminal.out_lines(text())


def _option(option: Option) -> click.Option:
    given: dict[str, Any] = {"help": option.help, "default": option.default}
    shown_default = option.default is not None and option.kind != "flag"
    if option.kind == "flag":
        given["is_flag"] = True
    elif option.kind == "number":
        given["type"] = click.IntRange(option.least, option.most)
    elif option.kind == "path":
        given["type"] = click.Path(exists=True, path_type=Path)
    name = option.name.replace("_", "-")
    return click.Option([f"--{name}"], show_default=shown_default, **given)


def shown(result: Result) -> str:
    """Return the figures as a table, with the facts above it and the machine below."""
    columns = list(dict.fromkeys(column for cells in result.rows.values() for column in cells))
    rows = [
        (row, *(cells[column].text() if column in cells else "-" for column in columns))
        for row, cells in result.rows.items()
    ]
    facts = [f"{name}: {_plain(value)}" for name, value in result.facts.items()]
    how = "" if result.rounds == 1 else f"{result.rounds} rounds: median (lowest to highest)"
    lines = [*facts, *([how] if how else []), "", terminal.table(("", *columns), rows), ""]
    return "\n".join([*lines, result.machine.text()])


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
