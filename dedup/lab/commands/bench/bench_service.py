"""`dedup bench service`: what the table service reaches on this machine."""

from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, json_option, quick_option, rounds_option

if TYPE_CHECKING:
    from dedup.lab.bench.service.one_service import ServiceBench
    from dedup.lab.bench.service.sharded_service import Fan, ShardsBench

__all__ = ["service"]


@click.command(epilog="Example: dedup bench service --documents 1000000 --rounds 5")
@click.option(
    "--documents",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Number of documents stored.",
)
@distance_option("Greatest distance in bits.", 3)
@click.option(
    "--requests",
    type=click.IntRange(1000),
    default=100_000,
    show_default=True,
    help="Single probes a round; eight times this number are pipelined.",
)
@rounds_option(5)
@click.option(
    "--redis-benchmark/--no-redis-benchmark",
    default=True,
    show_default=True,
    help="Also measure with redis-benchmark, if installed.",
)
@click.option(
    "--shards",
    type=click.IntRange(2, 16),
    help="Compare this number of shards with one service that holds all documents, on a Kafka that "
    "is started for it.",
)
@quick_option("100,000 documents, one round")
@json_option("Print one JSON object.")
def service(
    documents: int,
    distance: int,
    requests: int,
    rounds: int,
    redis_benchmark: bool,
    shards: int | None,
    quick: bool,
    as_json: bool,
) -> None:
    """Measure the probes of a table service. Rates for its CPU time, latencies at half load.

    With --shards: latencies of the client's probes and CPU of a page, for one service and several.
    """
    if quick:
        documents, requests, rounds = 100_000, 20_000, 1
    progress = terminal.progress("rounds")
    result: ServiceBench | ShardsBench
    if shards is None:
        from dedup.lab.bench.service.one_service import Plan, bench_service

        plan = Plan(documents, distance, requests, rounds, redis_benchmark=redis_benchmark)
        result = measured = bench_service(plan, progress)
        text = _text(measured)
    else:
        from dedup.lab.bench.service.sharded_service import ShardsPlan, bench_shards

        sharded = bench_shards(ShardsPlan(documents, distance, shards, rounds), progress)
        result, text = sharded, _shards_text(sharded)
    terminal.out_result(result, lambda: text, as_json=as_json)


def _text(result: "ServiceBench") -> str:
    rows = [
        (load.name, load.per_cpu_second.text(0), load.cpu_us.text(2), load.per_second.text(0))
        for load in result.loads
    ]
    half = result.half
    return "\n".join(
        (
            f"{terminal.count(result.documents, 'document')}, k = {result.distance}; "
            "median (lowest to highest)",
            terminal.table(
                (
                    "probes",
                    "a CPU second of the service",
                    "us of CPU each",
                    "a second, with the load",
                ),
                rows,
            ),
            f"at half load ({half.per_second:,.0f} a second, {half.cpu_share:.0%} of a core): "
            f"p50 {half.p50_ms:.2f} ms, p99 {half.p99_ms:.2f} ms, p99.9 {half.p999_ms:.2f} ms",
            *(f"redis-benchmark, {line}" for line in result.redis_benchmark),
            "",
            result.machine.text(),
        )
    )


def _shards_text(result: "ShardsBench") -> str:
    def row(name: str, fan: "Fan") -> tuple[str, ...]:
        figures = fan.p50_ms.text(2), fan.p99_ms.text(2)
        return name, *figures, fan.client_us.text(0), fan.services_us.text(0)

    rows = [row("one service", result.one), row(f"{result.shards.services} shards", result.shards)]
    return "\n".join(
        (
            f"{terminal.count(result.documents, 'document')}, k = {result.distance}; "
            f"{result.probes} probes a round, {result.per_second} a second; "
            "median (lowest to highest)",
            terminal.table(
                ("", "p50 ms", "p99 ms", "us of CPU a page, client", "and services"), rows
            ),
            f"shards to one service: p50 {result.p50_ratio.text(2)}, p99 {result.p99_ratio.text(2)}",
            "",
            result.machine.text(),
        )
    )
