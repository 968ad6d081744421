"""The includes of native/src: its folders have an order, and every include goes down.

A module is a .c file with the .h file of its name. `make house` prints what breaks the order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"

# From the ground up. Folders on one floor never include from each other.
FLOORS = (
    ("base",),
    ("hash", "resp"),
    ("reader", "design"),
    ("table",),
    ("segment", "bulk", "lmdb"),
)

Modules = Mapping[str, set[str]]


def includes(path: Path) -> set[str]:
    """Return what a C file includes by name: paths below native/src or native/include."""
    return set(re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE))


def modules() -> dict[str, set[str]]:
    """Return each module of native/src, as "folder/name", with those that it includes."""
    source = NATIVE / "src"
    found: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.[ch]")):
        name = path.relative_to(source).with_suffix("").as_posix()
        below = {other.removesuffix(".h").removesuffix(".c") for other in includes(path)}
        found.setdefault(name, set()).update(below - {name})
    return {name: below & found.keys() for name, below in found.items()}


def upward(graph: Modules) -> list[str]:
    """Return the includes that do not go down: "table/x includes bulk/y", and folders without a floor."""
    floor = {folder: i for i, folders in enumerate(FLOORS) for folder in folders}
    rooms = dict.fromkeys(name.partition("/")[0] for name in graph)
    found = [f"{folder} is on no floor" for folder in rooms if folder not in floor]
    for name, below in graph.items():
        here = name.partition("/")[0]
        for other in sorted(below):
            there = other.partition("/")[0]
            if here != there and floor.get(there, len(FLOORS)) >= floor.get(here, -1):
                found.append(f"{name} includes {other}")
    return found
