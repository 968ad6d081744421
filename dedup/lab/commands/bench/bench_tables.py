"""`dedup bench tables`: the search for fingerprints within k, beside other tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dedup.cli import terminal

if TYPE_CHECKING:
    from dedup.lab.bench.samples import Samples
    from dedup.lab.bench.tables.tables_comparison import Contender, Setting, TablesBench

__all__ = ["numbers", "tables"]


_MOST = {"sizes": 2**31 - 2, "distances": 15}


def numbers(
    ctx: click.Context,  # noqa: ARG001  (click's signature)
    option: click.Parameter,
    value: str | None,
) -> list[int] | None:
    """Return whole numbers from 1 up that stand with commas between them."""
    if value is None:
        return None
    most = _MOST[option.name or ""]
    try:
        found = [int(part) for part in value.split(",")]
    except ValueError:
        found = []
    if not found or not all(1 <= number <= most for number in found):
        raise click.BadParameter(f"{value} must be numbers in 1 .. {most:,}, with commas between")
    return found


@click.command(epilog="Example: dedup bench tables --data values.txt --distances 3,6 --rounds 7")
@click.option(
    "--data",
    multiple=True,
    help="uniform, clustered, demo (pages of the demo site) or a file with a decimal fingerprint a "
    "line; may be given several times (default: uniform and clustered).",
)
@click.option(
    "--sizes",
    metavar="N,N",
    callback=numbers,
    help="Numbers of fingerprints stored (default: 1000000,10000000; four fifths of a file).",
)
@click.option(
    "--distances",
    metavar="K,K",
    callback=numbers,
    help="Distances to measure (default: 3,5,6,7).",
)
@click.option("--rounds", type=click.IntRange(1), help="How often each is measured (default: 5).")
@click.option(
    "--build-seconds",
    type=click.FloatRange(0),
    help="Skip a peer that would take longer to build (default: 120).",
)
@click.option(
    "--build-gigabytes",
    type=click.FloatRange(0),
    default=2,
    show_default=True,
    help="Skip a peer that would take more memory.",
)
@click.option(
    "--peers/--no-peers", default=True, show_default=True, help="Also measure other tables."
)
@click.option(
    "--only", multiple=True, metavar="TEXT", help="Measure only tables whose names contain this."
)
@click.option(
    "--quick", is_flag=True, help="Within two minutes: 1000000 stored, k = 3 and 6, three rounds."
)
@click.option(
    "--json", "json_file", metavar="FILE", help="Write one JSON object here; - is stdout."
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the batched probes: .svg or .png.",
)
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Markdown page whose figures are replaced, between its two marks.",
)
def tables(
    data: tuple[str, ...],
    sizes: list[int] | None,
    distances: list[int] | None,
    rounds: int | None,
    build_seconds: float | None,
    build_gigabytes: float,
    peers: bool,
    only: tuple[str, ...],
    quick: bool,
    json_file: str | None,
    plot_file: Path | None,
    page: Path | None,
) -> None:
    """Compare dedup.Table with other tables.

    Finds fingerprints within k bits. The others are Faiss, gaoya and 1e0ng/simhash, if installed
    (`pip install --group bench`). Each has its own process and one core. All answers to the first
    queries are compared with those of a plain search.
    """
    from dedup.lab.bench.tables.tables_comparison import Plan, bench_tables

    if plot_file is not None:
        from dedup.lab.evaluate.recall_plot import check_plot

        check_plot(plot_file)
    if page is not None:
        from dedup.lab.bench.tables.page import check_page, write_page

        check_page(page)
    kinds = data or ("uniform", "clustered")
    usual = [1_000_000] if quick else [1_000_000, 10_000_000]
    found = all(kind in {"uniform", "clustered"} for kind in kinds)
    plan = Plan(
        data=kinds,
        sizes=sizes or (usual if found else [None]),
        distances=distances or ([3, 6] if quick else [3, 5, 6, 7]),
        rounds=rounds or (3 if quick else 5),
        turn_seconds=0.1 if quick else 0.3,
        build_seconds=(5 if quick else 120) if build_seconds is None else build_seconds,
        build_bytes=build_gigabytes * 1e9,
        peers=peers,
        only=only,
    )
    result = bench_tables(plan, terminal.progress("settings"))
    if plot_file is not None:
        from dedup.lab.bench.tables.tables_plot import plot

        plot(result, plot_file)
    if page is not None:
        write_page(result, page)
    if json_file is not None:
        import msgspec

        if json_file != "-":
            Path(json_file).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
        else:
            terminal.out_json(msgspec.to_builtins(result))
            return
    terminal.out(_text(result))


def _text(result: "TablesBench") -> str:
    lines = [
        f"CPU time, one core each; medians of {terminal.count(result.rounds, 'round')}, "
        "ratios with their range",
        "",
    ]
    for setting in result.settings:
        lines += [*_setting_lines(setting), ""]
    if result.missing:
        lines += [
            f"not installed, and so left out: {', '.join(result.missing)}; "
            "run: pip install --group bench",
            "",
        ]
    load = "{:.1f} at the start, {:.1f} at the end".format(*result.load)
    return "\n".join([*lines, f"load {load}; {result.machine.text()}"])


def _setting_lines(setting: "Setting") -> list[str]:
    headers = (
        "",
        "us a probe",
        "batched",
        "batched, times the first",
        "B each",
        "build/s",
        "insert/s",
        "load/s",
        "answers",
    )
    return [
        f"{setting.size:,} {setting.data} fingerprints, k = {setting.k}, "
        f"{setting.matches:,.1f} matches a probe",
        terminal.table(headers, [_row(contender) for contender in setting.contenders]),
        *(f"left out: {reason}" for reason in setting.left_out),
    ]


def _row(contender: "Contender") -> tuple[str, ...]:
    from dedup.lab.bench.tables.page import rate, short

    size = contender.grown_bytes if contender.grown_bytes is not None else contender.own_bytes
    inserts, wrong = contender.insert_per_second, contender.mistakes
    return (
        contender.name,
        short(contender.probe_us.median),
        short(contender.batch_us.median),
        _ratio(contender.batch_ratio),
        "-" if size is None else f"{size:,.0f}",
        rate(contender.build_per_second),
        rate(inserts.median if inserts else None),
        rate(contender.load_per_second),
        f"{wrong} of {contender.checked} WRONG" if wrong else f"{contender.checked} right",
    )


def _ratio(ratio: "Samples") -> str:
    return ratio.text(2 if ratio.median < 10 else 0)
