"""What the commands share: how results, errors and progress come to the terminal.

The rule kept here: stdout takes only results, written at once; everything for a person's eye on the
way (errors, progress) goes to stderr. No third-party package but click is needed.
"""

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from dedup.errors import DedupError, UsageError

__all__ = [
    "abandon_output",
    "count",
    "describe",
    "error",
    "out",
    "out_json",
    "progress",
    "report",
    "table",
]

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
    "rich": "cli",
    "scrapy": "scrapy",
    "twisted": "scrapy",
    **dict.fromkeys(("hiredis", "prometheus_client", "starlette", "uvicorn", "uvloop"), "service"),
    **dict.fromkeys(("aiokafka", "cramjam"), "kafka"),
}


def out(text: str) -> None:
    """Write a line to stdout as UTF-8; a path's odd bytes go out as they came in."""
    click.echo(text.encode("utf-8", "surrogateescape"))


def out_json(value: object) -> None:
    """Write a value to stdout as one line of JSON."""
    click.echo(json.dumps(value))


def error(message: str) -> None:
    """Write an error to stderr."""
    click.echo(f"dedup: {message}", err=True)


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
            extra = _EXTRAS.get(name.partition(".")[0], "all")
            return f"{name} is not installed; run: pip install 'crawl-dedup[{extra}]'"
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
                f"a fault of ours: {type(failure).__name__}: {failure}; please report it with what "
                "`dedup --debug` shows"
            )


def abandon_output() -> None:
    """Forget what was not written yet: who read our stdout has gone."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 document", "2,000 documents"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def table(headers: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """Return rows under headers, in columns; numbers to the right."""
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    right = [all(isinstance(row[i], int) for row in rows) for i in range(len(headers))]
    widths = [max(map(len, column)) for column in zip(headers, *shown, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in (headers, *shown)
    )


def progress(label: str) -> Callable[[int, int], None] | None:
    """Return a function that shows (done, total) on stderr; None if that is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\r\x1b[K" if done >= total else ""  # the line is cleared in the end
        click.echo(f"\r{label}: {done:,} of {total:,}{end}", err=True, nl=False)

    return show
