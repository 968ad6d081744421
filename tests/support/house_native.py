"""The house of native/: its floors, include circles and lines per file, as `make house` prints them.

A module is a .c file with the .h file of its name. The rules: a folder of native/src includes only
from folders of lower floors, or itself; no circle of modules; no hand-written file over 400 lines,
no public header over 350. Python's standard library is all this needs; run alone, it prints the rooms
and whatever breaks a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"

# From the ground up. Folders on one floor never include from each other.
FLOORS = (
    ("base",),
    ("hash",),
    ("reader", "design"),
    ("table",),
    ("segment", "bulk", "paper"),
)
LINES, HEADER_LINES = 400, 350
GENERATED = "/* Written by "
CODE = {".c", ".h", ".py", ".sh"}

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


def rooms(graph: Modules) -> dict[str, int]:
    """Return how many modules each folder has."""
    folders = [name.partition("/")[0] for name in graph]
    return {folder: folders.count(folder) for folder in dict.fromkeys(folders)}


def circles(graph: Modules) -> list[list[str]]:
    """Return the groups of modules that include each other, directly or by way of others."""
    reach = {name: set(below) for name, below in graph.items()}
    for middle in graph:
        for below in reach.values():
            if middle in below:
                below |= reach[middle]
    groups = {frozenset(o for o in reach[n] if n in reach[o]) for n in graph if n in reach[n]}
    return sorted(sorted(group) for group in groups)


def upward(graph: Modules) -> list[str]:
    """Return the includes that do not go down: "table/x includes bulk/y", and folders without a floor."""
    floor = {folder: i for i, folders in enumerate(FLOORS) for folder in folders}
    found = [f"{folder} is on no floor" for folder in rooms(graph) if folder not in floor]
    for name, below in graph.items():
        here = name.partition("/")[0]
        for other in sorted(below):
            there = other.partition("/")[0]
            if here != there and floor.get(there, len(FLOORS)) >= floor.get(here, -1):
                found.append(f"{name} includes {other}")
    return found


def files() -> Iterator[tuple[str, int]]:
    """Yield every hand-written file of native/, as a path below it, with its number of lines."""
    for path in sorted(NATIVE.rglob("*")):
        if path.suffix in CODE or path.name == "CMakeLists.txt":
            text = path.read_text(encoding="utf-8")
            if not text.startswith(GENERATED):
                yield path.relative_to(NATIVE).as_posix(), len(text.splitlines())


def too_long() -> list[str]:
    """Return the files over their number of lines, the longest first."""
    found = sorted(((lines, name) for name, lines in files()), reverse=True)
    limit = {True: HEADER_LINES, False: LINES}
    return [
        f"{name}: {lines} lines"
        for lines, name in found
        if lines > limit[name.startswith("include/")]
    ]


def report() -> str:
    """Return the lines that `make house` prints of native/."""
    graph = modules()
    longest, name = max((lines, name) for name, lines in files())
    counts = ", ".join(f"{folder} {count}" for folder, count in rooms(graph).items())
    lines = [
        f"native: {sum(count for _, count in files())} lines, the longest file {name} with {longest}",
        f"native/src: {len(graph)} modules on {len(FLOORS)} floors ({counts})",
        f"include circles: {len(circles(graph))}",
    ]
    lines += ["  " + " <-> ".join(circle) for circle in circles(graph)]
    broken = upward(graph)
    return "\n".join([*lines, f"includes that go up: {len(broken)}", *(f"  {b}" for b in broken)])


if __name__ == "__main__":
    print(report())
