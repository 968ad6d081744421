"""`dedup bench`: a command for each case of dedup.lab.bench, and one way to show its figures."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from dedup.cli import terminal
from dedup.lab.bench import CASES, Case, Option, Result, measure


class Cases(terminal.Group):
    """A group with a command for each case."""

    kind = "benchmark"

    def add(self, cases: Iterable[Case]) -> None:
        """Add a command for each of them."""
        for case in cases:
            self.add_command(_command(case))


@click.group(cls=Cases, epilog="Example: dedup bench pages")
def bench() -> None:
    """Benchmark a part of dedup on this machine.

    Comparisons with other programs are in the repository: tests/bench, `make bench`.
    """


def _command(case: Case) -> click.Command:
    def run(quick: bool, json_file: str | None, **options: Any) -> None:
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
    options.append(
        click.Option(["--quick"], is_flag=True, help=f"A first look: {case.quick_text}.")
    )
    options.append(json_file_option())
    return click.Command(
        case.name,
        callback=run,
        params=list(options),
        help=f"{case.measures}\n\n{case.note}",
        epilog=f"Example: dedup bench {case.name} --quick",
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
    terminal.out(text())


def _option(option: Option) -> click.Option:
    given: dict[str, Any] = {"help": option.help, "default": option.default}
    shown_default = option.default is not None and option.kind != "flag"
    if option.kind == "flag":
        given["is_flag"] = True
    elif option.kind == "number":
        given["type"] = click.IntRange(option.least, option.most)
    elif option.kind == "numbers":
        given |= {"callback": numbers(option.most or 2**63, option.least), "metavar": "N,N"}
        given["default"] = ",".join(map(str, option.default))
    elif option.kind == "choice":
        given["type"] = click.Choice(option.choices)
    elif option.kind == "path":
        given["type"] = click.Path(exists=True, path_type=Path)
    elif option.kind == "folder":
        given["type"] = click.Path(file_okay=False, path_type=Path)
    return click.Option([f"--{option.name}"], show_default=shown_default, **given)


def numbers(most: int, least: int = 1) -> Callable[[Any, Any, str | None], tuple[int, ...] | None]:
    """Return the callback of an option that takes numbers with commas between."""

    def convert(_context: Any, _option: Any, value: str | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        try:
            found = tuple(int(part) for part in value.split(","))
        except ValueError:
            found = ()
        if not found or not all(least <= number <= most for number in found):
            raise click.BadParameter(
                f"{value} must be numbers in {least} .. {most:,}, with commas between"
            )
        return found

    return convert


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


bench.add(CASES)
