"""`dedup scan`: the near-duplicates in files.

Invariants: stdout has the summary, and the verdicts if they are asked for; progress and broken records go to stderr.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import (
    from_environment,
    identity_option,
    json_option,
    policy_options,
    warn_of_paper,
)
from dedup.model.errors import UsageError

if TYPE_CHECKING:
    from dedup.scan import ScanJob, ScanProgress, Summary
    from dedup.scan.values import BrokenRecord

STDOUT = "-"


@click.command(epilog="Example: dedup scan crawl/ --output verdicts.jsonl --report report.html")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the verdicts to this .jsonl or .parquet file; - for JSON lines on stdout.",
)
@click.option("--report", metavar="FILE", help="Write a short report, as .html or .json.")
@click.option(
    "--kept",
    metavar="PATH",
    help="Write a copy of the input without its near-duplicates, in the same format: to a file for one file, to a new "
    "folder for several.",
)
@click.option(
    "--store",
    metavar="PATH",
    help="Also compare with the pages of a store: PATH is a namespace's folder, or has a store `default`.",
)
@click.option(
    "--update", is_flag=True, help="At the end, insert the accepted pages into the store."
)
@click.option("--resume", is_flag=True, help="Continue an interrupted scan of the same output.")
@click.option(
    "-j",
    "--processes",
    type=click.IntRange(1, 256),
    help="Number of processes that read and fingerprint. [default: one a core]",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("warc", "wet", "wacz", "parquet", "jsonl", "html")),
    help="Format of the inputs. [default: by their names]",
)
@click.option(
    "--url-field",
    default="url",
    show_default=True,
    help="Field of the URL, in Parquet and JSONL; a.b is the field b of a.",
)
@click.option("--html-field", default="html", show_default=True, help="Field of the page's HTML.")
@click.option(
    "--text-field",
    metavar="TEXT",
    help="Field of the page's plain text, in place of HTML; it has no markup.",
)
@policy_options
@identity_option
@click.option(
    "--engine",
    type=click.Choice(("local", "spark")),
    default="local",
    show_default=True,
    help="Run on this machine, or on Spark, which the extra spark installs.",
)
@json_option("Print the summary as one JSON object.")
def scan(
    as_json: bool,
    engine: str,
    format_: Any,
    processes: int | None,
    **options: Any,
) -> None:
    """Find the near-duplicates in WARC, WACZ, WET, Parquet, JSONL or HTML files, in folders and globs.

    An INPUT of - is JSON lines on stdin. Of several similar pages, the
    first in the order of the input is kept; the verdicts of the others name it. Broken records are reported and
    skipped, pages of more than DEDUP_MAX_BYTES (16 MiB) kept unread; DEDUP_SECRET keys the fingerprints. The exit code is 1 if a
    file could not be read, or every record is broken.
    """
    if as_json and options["output"] == STDOUT:
        raise UsageError("--json and --output - both write to stdout; give --output a file")
    warn_of_paper(options["similarity"], options["distance"])
    from dedup.core.native import cores
    from dedup.scan import ScanJob
    from dedup.scan import scan as run

    limits = {name: from_environment(name) for name in ("max_bytes", "secret")}
    job = ScanJob(format=format_, processes=processes or cores(), **options, **limits)
    if engine == "spark":
        terminal.say("extra", "spark")
    elif job.output != STDOUT and (job.output or job.kept):
        terminal.say("resume", "progress is saved: continue with the same command and --resume")
    faults = terminal.Faults("broken record")

    def broken(fault: "BrokenRecord") -> None:
        path = "stdin" if fault.path == STDOUT else fault.path  # "-", too
        faults.add(f"{path} {fault.place}".rstrip(), fault.reason)

    shown = _progress() if engine == "local" else None  # Spark shows its own
    emit = _emit(job.output)
    try:
        if engine == "spark":
            from dedup.spark.engine import scan as run_on_spark

            summary = run_on_spark(job, fault=broken)
        else:
            summary = run(job, progress=shown, fault=broken, emit=emit)
    finally:
        terminal.status.clear()
    faults.close()
    _print_summary(summary, job, as_json=as_json)
    if summary.broken and not summary.pages:
        terminal.error(
            "every record is broken: nothing was read (see --format, --url-field, --html-field, --text-field)"
        )
        click.get_current_context().exit(1)
    if summary.unread_files or summary.uncopied_files:
        click.get_current_context().exit(1)


def _print_summary(summary: "Summary", job: "ScanJob", *, as_json: bool) -> None:
    """Print the totals."""
    if as_json:
        import msgspec

        terminal.out_json(msgspec.to_builtins(summary, str_keys=True))
        return
    lines = _lines(summary)
    if job.kept is not None:
        lines.append(f"the input without its near-duplicates is in {job.kept}")
    for line in lines:
        click.echo(terminal.escaped(line), err=job.output == STDOUT)
    if (
        summary.near_duplicate
        and not (job.output or job.report or job.kept)
        and sys.stderr.isatty()
    ):
        click.echo("--output FILE writes the verdicts", err=True)


def _emit(output: str | None) -> Callable[[bytes], None] | None:
    if output != STDOUT:
        return None

    def emit(lines: bytes) -> None:
        terminal.status.clear()
        click.echo(lines, nl=False)

    return emit


def _lines(summary: "Summary") -> list[str]:
    s = summary
    pages = terminal.count(s.pages, "page")
    lines = [
        f"{pages} of {terminal.count(s.files, 'file')}: {s.unique:,} unique, "
        f"{terminal.count(s.near_duplicate, 'near-duplicate')}, {s.refetch:,} "
        "with a repeated URL"
    ]
    for title, counts in (("kept without judgement", s.exempt), ("no pages", s.skipped)):
        if counts:
            named = ", ".join(f"{n:,} {reason}" for reason, n in sorted(counts.items()))
            lines.append(f"{title}: {named}")
    if s.files_not_read:
        lines.append(
            f"{terminal.count(s.files_not_read, 'file')} not read, such as {s.not_read_example}: no format is known by that name "
            "(see --format)"
        )
    if s.unread_files:
        lines.append(f"{terminal.count(s.unread_files, 'file')} could not be read to the end")
    if s.broken > s.unread_files:
        records = terminal.count(s.broken - s.unread_files, "broken record")
        lines.append(f"{records} left out")
    if s.uncopied_files:
        files = terminal.count(s.uncopied_files, "file")
        lines.append(f"of {files} a part could not be copied")
    if s.inserted is not None:
        lines.append(f"{terminal.count(s.inserted, 'document')} inserted into the store")
    return lines


def _progress() -> "Callable[[ScanProgress], None] | None":
    """Return what shows how far a scan is on stderr; None if that is no terminal."""
    show = terminal.progress("bytes read")
    if show is None:
        return None

    def shown(progress: "ScanProgress") -> None:
        what = ", copying" if progress.copying else f", {progress.pages:,} pages"
        show(progress.bytes, progress.total_bytes, what)

    return shown
