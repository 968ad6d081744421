"""Benchmarks of this machine, and comparisons with other programs.

python tests/bench NAME [OPTION ...]      make bench, make bench-crawls, make bench-peers
"""

import sys
from pathlib import Path

import click

sys.path += [
    str(Path(__file__).parents[1] / each) for each in ("support", "paper")
]  # brokers, tables
from cases import bench

from dedup.cli import terminal


def main() -> None:
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
