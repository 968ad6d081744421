"""A part of the capacity benchmark in a process of its own.

    python -m dedup.lab.bench.capacity.part_process PART JSON      the part's arguments in, its figures out

The rule kept here: stdout has one line of JSON, and nothing else.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from dedup.lab.bench.capacity.parts import measure_store, measure_table, measure_tree
from dedup.lab.bench.capacity.service_commands import measure_commands, measure_log

MEASURES: dict[str, Any] = {
    "table": measure_table,
    "store": measure_store,
    "tree": measure_tree,
    "commands": measure_commands,
    "log": measure_log,
}


def main(part: str, arguments: str) -> None:
    """Measure a part and print its figures."""
    given = json.loads(arguments)
    if "folder" in given:
        given["folder"] = Path(given["folder"])
    sys.stdout.write(json.dumps(msgspec.to_builtins(MEASURES[part](**given))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
