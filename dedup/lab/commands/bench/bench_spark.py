"""`dedup bench spark`: fingerprints to verdicts, on one machine and in Spark's local mode."""

from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, quick_option, rounds_option

if TYPE_CHECKING:
    from dedup.lab.bench.spark import SparkBench

__all__ = ["spark"]


@click.command(epilog="Example: dedup bench spark --fingerprints 200000 --rounds 3")
@click.option(
    "--fingerprints",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Number of fingerprints in all.",
)
@rounds_option(1)
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Number of Spark's threads, local[N].",
)
@quick_option("50,000 fingerprints, one round")
@json_option("Print one JSON object.")
def spark(fingerprints: int, rounds: int, threads: int, quick: bool, as_json: bool) -> None:
    """Compare `dedup scan` on this machine and on Spark.

    Needs the extra spark, and Java 17. Fails unless both give the same verdicts.
    """
    from dedup.lab.bench.spark import bench_spark

    if quick:
        fingerprints, rounds = 50_000, 1
    result = bench_spark(fingerprints, rounds, threads, terminal.progress("rounds"))
    terminal.out_result(result, lambda: _text(result), as_json=as_json)


def _text(result: "SparkBench") -> str:
    rows = [
        ("one machine", result.one_machine.text(1)),
        ("Spark", result.spark.text(1)),
    ]
    return "\n".join(
        (
            f"{result.fingerprints:,} fingerprints, {result.near_duplicates:,} of them "
            f"near-duplicates, k = {result.distance}; "
            f"{terminal.count(result.rounds, 'round')}; verdicts alike",
            "",
            terminal.table(("", "seconds: median (lowest to highest)"), rows),
            "",
            f"Spark takes {result.ratio:.2f} times as long",
            result.machine.text(),
        )
    )
