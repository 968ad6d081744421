"""Benchmarks of this machine, and comparisons with other programs.

python tests/bench NAME [OPTION ...]      make bench, make bench-crawls, make bench-peers
"""

import sys
from importlib import import_module
from pathlib import Path

import click

sys.path.append(str(Path(__file__).parents[1] / "support"))  # brokers

from dedup.cli import terminal

MODULES = {
    "pages": "page_costs",
    "crawl": "crawl_costs",
    "crawls": "crawls.command",
    "tables": "table_costs",
    "store": "store_costs",
    "service": "service_costs",
    "events": "applied_events",
    "batch": "batch_search",
    "pairs": "all_pairs",
    "scan": "scan_rate",
}


class Benchmarks(terminal.CommandGroup):
    """Loads a benchmark when it is called: some need an extra."""

    kind = "benchmark"

    def list_commands(self, ctx):
        return list(MODULES)

    def get_command(self, ctx, cmd_name):
        return import_module(MODULES[cmd_name]).command if cmd_name in MODULES else None


@click.group(cls=Benchmarks, epilog="Example: python tests/bench pages")
def bench():
    """Benchmark a part of dedup on this machine, or compare it with other programs."""


def main():
    try:
        bench(prog_name="python tests/bench", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except Exception as error:
        sys.exit(terminal.report(error))


if __name__ == "__main__":
    main()
