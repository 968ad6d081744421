"""`dedup bench batch`: a million queries against a stream, beside the paper's 200 mappers."""

from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, json_option, quick_option

if TYPE_CHECKING:
    from dedup.lab.bench.all_pairs import PairsBench
    from dedup.lab.bench.batch_search import BatchBench

__all__ = ["batch"]

_QUICK = (100_000, 1 << 24, 200_000)
_FULL = 1 << 33


@click.command(epilog="Example: dedup bench batch --stored 100000000 --distance 3")
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Number of queries.",
)
@click.option(
    "--stored",
    type=click.IntRange(1),
    default=1 << 30,
    show_default=True,
    help="Number of fingerprints in the stream.",
)
@click.option(
    "--pairs",
    type=click.IntRange(0),
    default=10_000_000,
    show_default=True,
    help="Number of fingerprints to find all pairs of; 0: skip that.",
)
@distance_option("Greatest distance in bits.", 3)
@click.option("--threads", type=click.IntRange(1), help="Number of threads. [default: one a core]")
@quick_option("100,000 queries, 2^24 fingerprints")
@click.option("--full", is_flag=True, help="A stream as long as the paper's: 2^33.")
@json_option("Print one JSON object.")
def batch(
    queries: int,
    stored: int,
    pairs: int,
    distance: int,
    threads: int | None,
    quick: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Time batch search and all pairs.

    Searches a generated stream for fingerprints near one of many queries; fails unless all planted
    near-duplicates are found. Then finds all pairs of one set, and compares with the algorithm of
    simhash-cpp, the paper's permuted and sorted tables (up to 10 million fingerprints).
    """
    from dedup.lab.bench.all_pairs import bench_pairs
    from dedup.lab.bench.batch_search import bench_batch

    if quick and full:
        raise click.UsageError("give --quick or --full, not both.")
    if quick:
        queries, stored, pairs = _QUICK
    if full:
        stored = _FULL
    result = bench_batch(queries, stored, distance, threads, terminal.progress("fingerprints"))
    joined = bench_pairs(pairs, distance, threads) if pairs else None
    if as_json:
        import msgspec

        terminal.out_json(msgspec.to_builtins(result) | {"pairs": msgspec.to_builtins(joined)})
    else:
        terminal.out(_text(result))
        if joined is not None:
            terminal.out(_pairs_text(joined))


def _text(result: "BatchBench") -> str:
    from dedup.lab.bench.batch_search import PAPER_MAPPERS, PAPER_SECONDS, PAPER_STORED

    took = "took" if result.stored == PAPER_STORED else "would take, at this rate"
    rows = [
        ("queries indexed", f"{result.index_seconds:,.2f}", "s"),
        ("  memory", f"{result.index_bytes / 1e6:,.0f}", "MB"),
        ("stream searched", f"{result.seconds:,.2f}", "s"),
        ("  CPU time, all threads", f"{result.cpu_seconds:,.2f}", "s"),
        ("  CPU time", f"{result.cpu_ns:,.1f}", "ns a fingerprint"),
        (
            "  rate",
            f"{result.millions_per_second_and_core:,.1f}",
            "million fingerprints a second of a core",
        ),
        (f"2^33 fingerprints {took}", f"{result.paper_seconds:,.0f}", "s"),
        (
            f"  its CPU time alone, on {terminal.count(result.threads, 'core')}",
            f"{result.cpu_ns * PAPER_STORED / 1e9 / result.threads:,.0f}",
            "s",
        ),
        (f"the paper, {PAPER_MAPPERS} mappers", f"{PAPER_SECONDS:,}", "s"),
    ]
    return "\n".join(
        (
            f"{terminal.count(result.queries, 'query', 'queries')} against a generated stream of "
            f"{terminal.count(result.stored, 'fingerprint')}, k = {result.k}, "
            f"{terminal.count(result.threads, 'thread')}",
            f"found: all {result.planted:,} planted near-duplicates and {result.others:,} others "
            f"({result.others_expected:,.1f} expected by chance); none of {result.near_misses:,} "
            "planted one bit too far",
            "",
            terminal.table(("", "", ""), rows),
            "",
            result.machine.text(),
        )
    )


def _pairs_text(result: "PairsBench") -> str:
    rows = [
        (terminal.count(result.threads, "thread"), result.seconds, result.cpu_seconds),
        ("1 thread", result.one_thread_seconds, result.one_thread_cpu_seconds),
    ]
    if result.reference_seconds:
        rows.append(
            ("the way of simhash-cpp", result.reference_seconds, result.reference_cpu_seconds)
        )
    shown = [(name, f"{seconds:,.2f}", f"{cpu:,.2f}") for name, seconds, cpu in rows]
    return "\n".join(
        (
            "",
            f"all pairs of {result.values:,} fingerprints, k = {result.k}: {result.pairs:,} found",
            "",
            terminal.table(("", "s", "CPU s"), shown),
        )
    )
