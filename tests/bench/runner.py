"""The one runner of benchmarks: rounds of figures in, medians with their range out, as a table or as JSON.

    @case(options) -> Bench -> rounds -> result -> a table, or JSON

Invariants: what is compared is measured in turns within each round, so that a slow minute of the machine hits both; a
ratio compares figures of one round.
"""

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec

from dedup.cli import terminal

Round = Mapping[str, Mapping[str, float]]  # by row, then by column; the column says the unit
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


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


def number(name, default, text, least=1, most=None):
    """Return an option that takes a number."""
    kind = click.IntRange(least, most)
    return click.Option([f"--{name}"], type=kind, default=default, show_default=True, help=text)


def flag(name, text):
    """Return an option that is given or not."""
    return click.Option([f"--{name}"], is_flag=True, help=text)


DISTANCE = number("distance", 3, "Greatest distance in bits.", 0, 15)
THREADS = number("threads", 0, "Number of threads; 0: one a core.", 0)


def case(name, *options, rounds=1, **quick):
    """Make a command of a generator that gives a Bench once; `quick` are its options for a first look, of one round."""

    def made(open_case):
        def run(rounds, quick_look, json_file, **given):
            if quick_look:
                given, rounds = given | quick, 1
            with contextmanager(open_case)(**given) as bench:
                result = measured(name, bench, rounds)
            out_result(result, lambda: shown(result), json_file)

        every = [
            *options,
            number("rounds", rounds, "Number of measurements of each."),
            click.Option(["--quick", "quick_look"], is_flag=True, help=f"A first look: {quick}."),
            json_file_option(),
        ]
        return click.Command(name, callback=run, params=every, help=open_case.__doc__)

    return made


def measured(name, bench, rounds):
    """Return the figures of a case: by row, then by column."""
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        round_ = bench.measure()
        first = next(iter(round_))
        for row, cells in round_.items():
            if bench.ratio is not None:
                ratio = cells[bench.ratio] / round_[first][bench.ratio]
                cells = {**cells, f"times {first}": ratio}
            for column, figure in cells.items():
                found.setdefault(row, {}).setdefault(column, []).append(figure)
    rows = {row: {c: _ends(each) for c, each in cells.items()} for row, cells in found.items()}
    made = machine("crawl-dedup", *bench.packages)
    return {"bench": name, "facts": bench.facts, "rounds": rounds, "rows": rows, "machine": made}


def _ends(each):
    return {"median": median(each), "lowest": min(each), "highest": max(each)}


def shown(result):
    """Return the figures as a table, with the facts above it and the machine below."""

    def text(ends):
        middle, *others = ends.values()
        digits = next((d for d, least in enumerate((100, 10, 1)) if middle >= least), 3)
        low, high = (f"{each:,.{digits}f}" for each in others)
        return f"{middle:,.{digits}f}" + (f" ({low} to {high})" if result["rounds"] > 1 else "")

    columns = list(dict.fromkeys(column for cells in result["rows"].values() for column in cells))
    rows = [
        (row, *(text(cells[column]) if column in cells else "-" for column in columns))
        for row, cells in result["rows"].items()
    ]
    facts = [f"{name}: {value}" for name, value in result["facts"].items()]
    how = f"{result['rounds']} rounds: median (lowest to highest)"
    return "\n".join(
        [*facts, how, "", terminal.table(("", *columns), rows), "", machine_text(result["machine"])]
    )


def machine(*packages):
    """Return this machine: cores this process may use, and the versions of those packages that are installed."""
    packages_found = {}
    for name in packages:
        try:
            packages_found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": packages_found,
    }


def machine_text(made):
    """Return a machine in one line."""
    packages = ", ".join(f"{name} {number}" for name, number in made["packages"].items())
    place = f"{made['cores']} cores, {made['architecture']}, {made['system']}"
    return f"{place}, Python {made['python']}, {packages}"


def json_file_option():
    """Return the option --json [FILE], whose value is for out_result()."""
    return click.Option(
        ["--json", "json_file"],
        is_flag=False,
        flag_value="-",
        metavar="[FILE]",
        help="Write one JSON object to a file, or to stdout.",
    )


def out_result(result, text, json_file):
    """Write a result to stdout, as JSON where the file is "-", else as text, and as JSON to a file."""
    if json_file == "-":
        terminal.out_json(result)
        return
    if json_file is not None:
        Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    terminal.out_lines(text())
