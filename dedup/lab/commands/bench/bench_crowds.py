"""`dedup bench crowds`: what a probe costs where fingerprints or documents stand close together."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, json_option, rounds_option

if TYPE_CHECKING:
    from dedup.lab.bench.tables.crowds import CrowdsBench

__all__ = ["crowds"]


@click.command(epilog="Example: dedup bench crowds --distance 6 --page docs/benchmarks/crowds.md")
@click.option(
    "--size",
    type=click.IntRange(1000),
    default=1_000_000,
    show_default=True,
    help="Number of pairs.",
)
@distance_option("Greatest distance in bits.", 3)
@rounds_option(3)
@json_option("Print one JSON object.")
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Markdown page whose figures are replaced, between its two marks.",
)
def crowds(size: int, distance: int, rounds: int, as_json: bool, page: Path | None) -> None:
    """Time probes where fingerprints are crowded.

    Fingerprints are around one centre, have equal leading bits, or one has all documents. Answers of
    table and segment are compared, and the first ones with those of a plain search.
    """
    from dedup.lab.bench.figures import marked, put
    from dedup.lab.bench.tables.crowds import bench_crowds

    if page is not None:
        marked(page, "figures")
    result = bench_crowds(size, distance, rounds, terminal.progress("crowds"))
    if page is not None:
        put(page, "figures", _page(result))
    terminal.out_result(result, lambda: _text(result), as_json=as_json)


_PROBES = ("crowd", "probed", "matches", "us a probe", "batched", "segment, batched")
_CHANGES = ("crowd", "built/s", "inserted/s", "removed/s", "B each", "segment, B each")


def _text(result: "CrowdsBench") -> str:
    return "\n".join(
        [
            f"{result.size:,} pairs, k = {result.k}; CPU time, medians of "
            f"{terminal.count(result.rounds, 'round')}",
            terminal.table(_PROBES, _probe_rows(result)),
            "",
            terminal.table(_CHANGES, _change_rows(result)),
            "",
            result.machine.text(),
        ]
    )


def _probe_rows(result: "CrowdsBench") -> list[tuple[str, ...]]:
    from dedup.lab.bench.tables.page import short

    return [
        (
            crowd.name if i == 0 else "",
            one.name,
            short(one.matches),
            short(one.single.median),
            short(one.table.median),
            short(one.segment.median),
        )
        for crowd in result.crowds
        for i, one in enumerate(crowd.probes)
    ]


def _change_rows(result: "CrowdsBench") -> list[tuple[str, ...]]:
    from dedup.lab.bench.tables.page import rate

    return [
        (
            crowd.name,
            rate(crowd.changes.built),
            rate(crowd.changes.inserted.median),
            rate(crowd.changes.removed),
            f"{crowd.table_bytes:,.0f}",
            f"{crowd.segment_bytes:,.0f}",
        )
        for crowd in result.crowds
    ]


def _page(result: "CrowdsBench") -> str:
    from dedup.lab.bench.figures import rows

    return "\n\n".join(
        [
            f"{result.size:,} pairs, k = {result.k}, {terminal.count(result.rounds, 'round')}; {result.machine.text()}.",
            rows(_PROBES, _probe_rows(result)),
            rows(_CHANGES, _change_rows(result)),
        ]
    )
