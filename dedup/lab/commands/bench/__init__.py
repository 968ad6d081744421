"""`dedup bench`: this machine's figures. A benchmark NAME is the command in bench_NAME.py.

The rules kept here: a benchmark is imported when it is called; stdout has the table, or with --json
one object; progress goes to stderr, if that is a terminal.
"""

from importlib import import_module

import click

from dedup.cli import terminal

__all__ = ["bench"]

_BENCHMARKS = (
    "batch",
    "capacity",
    "crawl",
    "crowds",
    "directory",
    "fanout",
    "pages",
    "scan",
    "service",
    "spark",
    "store",
    "tables",
)


class _Benchmarks(terminal.Group):
    kind = "benchmark"

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(_BENCHMARKS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's signature)
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _BENCHMARKS:
            return None
        command = getattr(import_module(f"dedup.lab.commands.bench.bench_{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Benchmarks, epilog="Example: dedup bench pages")
def bench() -> None:
    """Benchmark a part of dedup on this machine, compared with its alternatives."""
