"""Results, errors and progress in the terminal, the same for all commands.

Invariants: nothing that comes from elsewhere steers the terminal. stdout has only results, written at once; errors and progress go to stderr. A table fits
the terminal and omits nothing; in a pipe it is as wide as it needs, unless COLUMNS is set. Colour is
only for a terminal, and not where NO_COLOR is set (no-color.org); it never says more than the words.
No third-party package but click is needed. (rich was tried: 70 to 105 ms of CPU to import, 13 MB with
its dependencies, and on a narrow terminal its tables drop columns and cut fingerprints and paths.)
"""

import difflib
import errno
import json
import os
import re
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import click

from dedup.model import names
from dedup.model.errors import DedupError, UsageError

count = names.count

UNBROKEN = 16  # a word of up to this length is never broken: a fingerprint
FAULTS_SHOWN = 20
REDRAWN_SECONDS = 0.1  # least time between two updates of the status line

_NEXT = {
    errno.ENOENT: "check the path",
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.EISDIR: "give a file",
    errno.ENOTDIR: "give a folder",
    errno.ENOSPC: "free some space and run it again",
}
_EXTRAS = {
    "fastwarc": "warc",
    "pandas": "spark",
    "pyarrow": "parquet",
    "pyspark": "spark",
    "scrapy": "scrapy",
    "twisted": "scrapy",
    **dict.fromkeys(
        ("anyio", "h11", "hiredis", "prometheus_client", "starlette", "uvicorn", "uvloop"),
        "service",
    ),
    **dict.fromkeys(("aiokafka", "cramjam"), "kafka"),
    "zstandard": "eval",
}

Said = Literal["resume", "extra"]


def say(name: Said, what: str) -> None:
    """Let the running command set what is needed at its end.

    resume   how to continue after Ctrl-C
    extra    the extra of the distribution that has all it needs
    """
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[f"dedup.{name}"] = what


def said(name: Said) -> Any:
    """Return what say() set, or None."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"dedup.{name}")


def coloured(text: str, colour: str | None = None, *, bold: bool = False, err: bool = False) -> str:
    """Return a text in a colour, if stdout (or stderr) is a terminal that shows it."""
    stream = sys.stderr if err else sys.stdout
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not text or not stream.isatty():
        return text
    return click.style(text, fg=colour, bold=bold or None)


class CommandGroup(click.Group):
    """Commands by name; for an unknown one the error names similar ones, and all there are."""

    kind = "command"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with. Raises click.UsageError."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not ctx.resilient_parsing:
            alike = difflib.get_close_matches(name, known, n=2)
            meant = f" did you mean {' or '.join(map(repr, alike))}?" if alike else ""
            ctx.fail(f"No such {self.kind} {name!r};{meant} known are {', '.join(known)}.")
        return super().resolve_command(ctx, args)


# Control characters, what begins a line, and what turns the direction of text; of colours those that coloured() writes may pass.
_STEERING = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_OWN = re.compile(r"(\x1b\[(?:[39]\d|[01])m)")


def escaped(text: str) -> str:
    """Return a text in which nothing steers a terminal or begins a line: keys, rules and names of files come from strangers."""
    if text.isprintable():
        return text
    parts = _OWN.split(text)
    parts[::2] = [_STEERING.sub(lambda found: ascii(found[0])[1:-1], part) for part in parts[::2]]
    return "".join(parts)


def out(text: str) -> None:
    """Write a line to stdout as UTF-8; undecodable bytes of a path are written unchanged."""
    status.clear()
    click.echo(escaped(text).encode("utf-8", "surrogateescape"))


def out_lines(text: str) -> None:
    """Write lines of our own to stdout, such as those of table()."""
    for line in text.split("\n"):
        out(line)


def out_json(value: object) -> None:
    """Write a value to stdout as one line of JSON."""
    click.echo(json.dumps(value))


def error(message: str) -> None:
    """Write an error to stderr."""
    status.clear()
    click.echo(f"{coloured('dedup:', 'red', bold=True, err=True)} {escaped(message)}", err=True)


def report(failure: Exception) -> int:
    """Write an exception to stderr, with its traceback under --debug, and return the exit code."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().params.get("debug"):
        traceback.print_exception(failure, file=sys.stderr)
    error(describe(failure))
    return 2 if isinstance(failure, UsageError) else 1


def describe(failure: Exception) -> str:
    """Return what happened, to what, and what to do next."""
    match failure:
        case DedupError():
            return str(failure)
        case ModuleNotFoundError(name=str(name)) if not name.startswith("dedup"):
            extra = said("extra") or _EXTRAS.get(name.partition(".")[0], "all")
            return f"{name} is not installed; run: {names.install(extra)}"
        case OSError(strerror=str(reason)):
            where = "" if failure.filename is None else f"{os.fsdecode(failure.filename)}: "
            advice = _NEXT.get(failure.errno or 0)
            return f"{where}{reason}; {advice}" if advice else f"{where}{reason}"
        case OSError():
            return str(failure) or "input or output failed"
        case MemoryError():
            return "out of memory; give it less input at once, or a machine with more"
        case _:
            return (
                f"internal error: {type(failure).__name__}: {failure}; please report it with what "
                "`dedup --debug` shows"
            )


class Faults:
    """Names skipped records on stderr, the first twenty, and of equal faults the first `alike`; the rest are counted."""

    def __init__(self, what: str, where: str = "", alike: int = FAULTS_SHOWN) -> None:
        """Begin with none; what is a skipped record, where begins the lines that count them."""
        self.count = 0
        self._what, self._where, self._most = f"more {what}", where, alike
        self._alike: dict[str, int] = {}  # how often each reason came that was shown
        self._shown = 0

    def add(self, place: str, reason: str) -> None:
        """Name a fault."""
        self.count += 1
        times = self._alike.get(reason, 0) + 1
        if times <= self._most and self._shown < FAULTS_SHOWN:
            self._shown += 1
            error(f"{place}: {reason}; left out")
        elif times == 1:
            return
        self._alike[reason] = times

    def close(self) -> None:
        """Report how many were not named."""
        left = self.count - self._shown
        for reason, times in self._alike.items():
            if (more := times - self._most) > 0:
                error(f"{self._where}and {count(more, self._what)} left out: {reason}")
                left -= more
        if left > 0:
            error(f"{self._where}and {count(left, self._what)} left out")


def reader_has_gone() -> bool:
    """Return whether stdout is a pipe without a reader; also where that cannot be known."""
    import select

    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return True
    return bool(poll.poll(0))


def abandon_output() -> None:
    """Discard unwritten output: the reader of stdout has gone."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


# ------------------------------------------------------------------------------------------ tables


def table(headers: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """Return rows under headers, in columns; numbers right-aligned, long texts in several lines."""
    shown: list[Sequence[str]] = [headers]
    shown += [
        [f"{cell:,}" if isinstance(cell, int) else escaped(cell) for cell in row] for row in rows
    ]
    columns = [[row[i] for row in rows if row[i] != ""] for i in range(len(headers))]
    right = [bool(cells) and all(isinstance(x, int) for x in cells) for cells in columns]
    widths = _widths(list(zip(*shown, strict=True)))
    head = [coloured(line, bold=True) for line in _row_lines(headers, widths, right)]
    lines = [line for row in shown[1:] for line in _row_lines(row, widths, right)]
    return "\n".join(head + lines)


def _widths(columns: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column, so that all fit the terminal if possible."""
    widths = [max(map(len, cells)) for cells in columns]
    room = columns_of_terminal()
    if room is None:
        return widths
    least = [_least(column, width) for column, width in zip(columns, widths, strict=True)]
    least[-1] = min(least[-1], 4)  # nothing is broken there
    too_much = sum(widths) + 2 * (len(widths) - 1) - room
    while too_much > 0:
        slack = [(width, i) for i, width in enumerate(widths) if width > least[i]]
        if not slack:
            break
        widths[max(slack)[1]] -= 1
        too_much -= 1
    return widths


def _least(column: Sequence[str], width: int) -> int:
    """Return the least width of a column without breaking a short word."""
    words = [len(word) for cell in column for word in cell.split()]
    return min(width, max(4, min(max(words, default=0), UNBROKEN)))


def _row_lines(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    cells = [_cell_lines(cell, width) for cell, width in zip(row[:-1], widths, strict=False)]
    cells.append(_cell_lines(row[-1], widths[-1], whole=True))
    return [
        "  ".join(
            (lines[i] if i < len(lines) else "").rjust(width)
            if numeric
            else (lines[i] if i < len(lines) else "").ljust(width)
            for lines, width, numeric in zip(cells, widths, right, strict=True)
        ).rstrip()
        for i in range(max(map(len, cells)))
    ]


def _cell_lines(cell: str, width: int, *, whole: bool = False) -> list[str]:
    """Return a cell in lines; words are not broken, so that a path can be copied."""
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False, break_long_words=not whole)


def columns_of_terminal() -> int | None:
    """Return the columns of the terminal at stdout; None if there is no limit."""
    if os.environ.get("COLUMNS") or sys.stdout.isatty():
        return shutil.get_terminal_size((80, 24)).columns
    return None


# ---------------------------------------------------------------------------------------- progress


class _Status:
    """A line on stderr that is overwritten; nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._shown = False
        self._due = 0.0

    def show(self, text: str, *, at_once: bool = False) -> None:
        """Show a text in place of the last one, if that was shown for a moment."""
        now = time.monotonic()
        if not sys.stderr.isatty() or (now < self._due and not at_once):
            return
        self._due = now + REDRAWN_SECONDS
        self._shown = True
        room = shutil.get_terminal_size((80, 24)).columns - 1  # a longer line would stay
        click.echo(f"\r{escaped(text)[:room]}\x1b[K", err=True, nl=False)

    def clear(self) -> None:
        """Clear the line."""
        if self._shown:
            self._shown = False
            self._due = 0.0
            click.echo("\r\x1b[K", err=True, nl=False)


status = _Status()


class _Rate:
    """The speed and the remaining time of something, measured since the first call."""

    def __init__(self) -> None:
        self._begun: tuple[float, int, int] | None = None  # seconds, done by then, of how many
        self._last = 0

    def text(self, done: int, total: int) -> str:
        """Return ", 1,200 a second, 0:42 left", as far as that is known. A total of 0 is unknown."""
        now = time.monotonic()
        if self._begun is None or done < self._last or total != self._begun[2]:
            self._begun = now, done, total
        self._last = done
        seconds, steps = now - self._begun[0], done - self._begun[1]
        if seconds <= 0 or steps <= 0:
            return ""
        rate = steps / seconds
        speed = f", {rate:,.0f} a second" if rate >= 1 else f", {1 / rate:,.0f} s each"
        return speed + (f", {_duration((total - done) / rate)} left" if total > done else "")


class ProgressLine(Protocol):
    """Shows how far something is, and more."""

    def __call__(self, done: int, total: int, more: str = "", /) -> None:
        """Show it. A total of 0 is unknown."""


def progress(label: str) -> ProgressLine | None:
    """Return a function that shows (done, total) on stderr, with rate and remaining time.

    A total of 0 is unknown. None if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        return None
    rate = _Rate()
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(status.clear)  # also if the end is unknown or never reached

    def show(done: int, total: int, more: str = "", /) -> None:
        of = f" of {total:,} ({100 * done // total} %)" if total else ""
        ends = total > 0 and done >= total
        figures = f": {done:,}{of}{rate.text(done, total)}{more}"
        room = max(8, shutil.get_terminal_size((80, 24)).columns - 1 - len(figures))
        name = label if len(label) <= room else f"...{label[3 - room :]}"
        status.show(f"{name}{figures}", at_once=ends)
        if ends:
            status.clear()

    return show


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


# ------------------------------------------------------------------------------------------- units

UNITS = ("", "K", "M", "G", "T", "P", "E")


def size_text(number: float) -> str:
    """Return bytes in the largest unit: "1.25 TiB"."""
    return f"{scaled_text(number, 1024)}{'i' if number >= 1024 else ''}B"


def scaled_text(number: float, base: int) -> str:
    """Return a number in the largest unit of which there is at least one: "256 K"."""
    power = 0
    while number >= base and power < len(UNITS) - 1:
        number /= base
        power += 1
    text = f"{number:.4g}" if number >= 100 else f"{number:.3g}"
    return f"{text} {UNITS[power]}"
