"""The package in numbers: `make house` prints them beside the last release's.

    circles, string imports, stale pointers   must be none; tests/house asserts it
    totals()                                  a trend: lines, modules, calls of a page, imports of a crawl

A total may grow by 2 % against tests/house/last-release.json. More is allowed where CHANGELOG.md says so:
a line of [Unreleased] that names the total and gives the reason (CONTRIBUTING.md, "The package in numbers").
"""

import ast
import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dedup"
LAST_RELEASE = ROOT / "tests" / "house" / "last-release.json"
GROWTH = 1.02


class Total(NamedTuple):
    """A number of the package now and in the last release."""

    name: str
    number: int
    before: int

    @property
    def grew(self) -> bool:
        """Whether it grew by more than is allowed without a reason."""
        return self.number > self.before * GROWTH


# ------------------------------------------------------------------------------------ the modules


def modules() -> dict[str, Path]:
    """Return every module of the package, by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, wherever the statement is.

    Imports for type checkers only do not count.
    """
    known = modules()
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        named: set[str] = set()
        for node in _executed(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    named.add(submodule if submodule in known else node.module)
        graph[name] = (named & known.keys()) - {name}
    return graph


def string_imports() -> list[str]:
    """Return the places where a text names a module of a higher layer: an import that no tool sees."""
    known, layer = modules(), _layers()
    found = []
    for name, path in known.items():
        here = layer.get(_room(name))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                here is None
                or not isinstance(node, ast.Constant)
                or not isinstance(node.value, str)
            ):
                continue
            target = node.value.partition(":")[0]
            if target in known and layer.get(_room(target), here) < here:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}")
    return found


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _layers() -> dict[str, int]:
    """Return the layer of each room, 0 for the highest, as import-linter's first contract has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return {room.strip(): i for i, layer in enumerate(layers) for room in layer.split("|")}


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module that can run: not those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from _executed(other)
            continue
        yield child
        yield from _executed(child)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that lead to each other, directly or through others."""
    reach = {name: set(below) for name, below in graph.items()}
    for middle in graph:
        for below in reach.values():
            if middle in below:
                below |= reach[middle]
    groups = {
        frozenset(other for other in reach if name in reach[other] and other in reach[name])
        for name in reach
        if name in reach[name]
    }
    return sorted(sorted(group) for group in groups)


_POINTER = re.compile(r"""(?<![\w/.*<>{}%$-])((?:[\w-]+/)*[\w-]+\.(?:py|c|h))\b(?!["'\w])""")
_ELSEWHERE = {"mdb.c"}  # LMDB's


def stale_pointers() -> list[str]:
    """Return the places in dedup/ and native/ that name a source file which does not exist."""
    there = {
        "/".join(parts[i:])
        for top in ("dedup", "native", "tests", "docs", "examples")
        for path in (ROOT / top).rglob("*.*")
        for parts in [path.relative_to(ROOT).parts]
        for i in range(len(parts))
    }
    sources = [
        path
        for top in (PACKAGE, ROOT / "native")
        for path in sorted(top.rglob("*"))
        if path.suffix in {".py", ".c", ".h", ".txt"}
    ]
    return [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if not line.lstrip().startswith("#include")
        for name in _POINTER.findall(line)
        if name not in there and name not in _ELSEWHERE
    ]


# ------------------------------------------------------------------------------------- the totals


def totals() -> list[Total]:
    """Return the totals of the package beside those of the last release."""
    before = json.loads(LAST_RELEASE.read_text(encoding="utf-8"))
    return [Total(name, number, before[name]) for name, number in _counted().items()]


def unexplained(changelog: str) -> list[Total]:
    """Return the totals that grew too much and are not named in the changelog's [Unreleased]."""
    unreleased = changelog.partition("## [Unreleased]")[2].partition("\n## ")[0]
    return [total for total in totals() if total.grew and total.name not in unreleased]


def _counted() -> dict[str, int]:
    lines = {name: _lines(path) for name, path in modules().items()}
    sources = [*(ROOT / "native" / "src").rglob("*.[ch]"), *(ROOT / "native" / "include").glob("*")]
    trace = load("house_trace")
    closure, page = trace.closure(), trace.page_trace()
    return {
        "lines of dedup/": sum(lines.values()),
        "modules of dedup/": len(lines),
        "lines of tests/ without support and bench": sum(map(_lines, _tests())),
        "words of documents": sum(len(path.read_text("utf-8").split()) for path in _documents()),
        "lines of native/src and native/include": sum(
            _lines(path) for path in sources if not path.stem.endswith("_table")
        ),
        "modules that a crawl loads": closure.modules,
        "lines of the modules that a crawl loads": closure.lines,
        "calls of one page, request to insert": page.calls,
        "files of these calls": page.files,
    }


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _tests() -> list[Path]:
    top = ROOT / "tests"
    skipped = {top / "support", top / "bench"}
    return [path for path in top.rglob("*.py") if not skipped & set(path.parents)]


def _documents() -> list[Path]:
    """Return every .md file of the repository."""
    folders = (ROOT / name for name in ("docs", "tests", "native", "examples", ".github"))
    return [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))]


def wheel_kilobytes() -> int | None:
    """Return the size of the wheel in dist/ (`make dist`), None if there is none."""
    sizes = [path.stat().st_size for path in (ROOT / "dist").glob("*.whl")]
    return max(sizes) // 1000 if sizes else None


def load(name: str) -> ModuleType:
    """Return another module of this folder, imported by its path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Print the numbers; return 1 if something must be none and is not. --release keeps them."""
    if sys.argv[1:] == ["--release"]:
        LAST_RELEASE.write_text(json.dumps(_counted(), indent=1) + "\n", encoding="utf-8")
    native = load("house_native")
    faults = {
        "import circles": [" <-> ".join(circle) for circle in circles(imports())],
        "imports written as text": string_imports(),
        "pointers to files that do not exist": stale_pointers(),
        "include circles, C": [" <-> ".join(c) for c in circles(native.modules())],
        "includes that go up, C": native.upward(native.modules()),
    }
    for name, found in faults.items():
        print(f"{name:<45}{len(found):>8,}")
        for place in found:
            print(f"    {place}")
    print(f"\n{'':<45}{'now':>8}{'last release':>14}")
    for total in totals():
        mark = "  +" if total.grew else ""
        print(f"{total.name:<45}{total.number:>8,}{total.before:>14,}{mark}")
    if (wheel := wheel_kilobytes()) is not None:
        print(f"{'kB of the wheel in dist/':<45}{wheel:>8,}")
    return int(any(faults.values()))


if __name__ == "__main__":
    sys.exit(main())
