"""The house in numbers, each beside its reach: `make house` prints them, tests/house asserts them.

    measures() -> name, number, limit, and what is over it

Read from the sources with the standard library alone. The C core's circles come from house_native.py
and the add-on's closure and page trace from house_trace.py, which runs a page; `dedup --help` is timed
for the print only: no test depends on the clock.

The rule on names: no two modules in different folders of dedup/ have the same file name, other than
__init__.py and __main__.py: an editor's tab, a traceback and a search show the file name first.
"""

import ast
import importlib.util
import resource
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

__all__ = ["Measure", "circles", "help_seconds", "imports", "measures"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dedup"
HELP_SECONDS = 0.12
RUNS = 5


class Measure(NamedTuple):
    """A number, what it is to reach, and what to look at when it is more.

    held  where the reach is not met yet: the most that the number may be meanwhile. It only goes down.
    """

    name: str
    number: int
    limit: int
    found: tuple[str, ...] = ()
    held: int = 0

    @property
    def reached(self) -> bool:
        """Whether the number is within its reach."""
        return self.number <= self.limit

    @property
    def holds(self) -> bool:
        """Whether the number is no more than it may be."""
        return self.number <= max(self.limit, self.held)


# ------------------------------------------------------------------------------------ the modules


def _modules() -> dict[str, Path]:
    """Return every module of the package, by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def imports() -> dict[str, set[str]]:
    """Return which modules of the package each one imports, wherever the statement stands.

    What is imported for type checkers only does not count.
    """
    modules = _modules()
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        named: set[str] = set()
        for node in _executed(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    named.add(submodule if submodule in modules else node.module)
        graph[name] = (named & modules.keys()) - {name}
    return graph


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module that a run can reach: not those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from _executed(other)
            continue
        yield child
        yield from _executed(child)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that lead to each other, directly or by way of others."""
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


# ----------------------------------------------------------------------------------- the measures


def measures() -> list[Measure]:
    """Return every countable measure of the house."""
    return [
        _rooms(),
        _floors(),
        _python_circles(),
        *_native_circles(),
        _names_twice(),
        _longest_module(),
        _header(),
        *_add_on(),
        _size(),
    ]


def _rooms() -> Measure:
    rooms = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
    } - {"__init__", "__main__"}
    return Measure("rooms at the top of dedup/", len(rooms), 12, tuple(sorted(rooms)))


def _floors() -> Measure:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return Measure("floors (import-linter's layers)", len(contract["layers"]), 10)


def _python_circles() -> Measure:
    found = circles(imports())
    return Measure("import circles, Python", len(found), 0, tuple(map(" <-> ".join, found)))


def _native_circles() -> Iterator[Measure]:
    native = _module("house_native")
    if native is not None:
        found = native.circles(native.modules())
        yield Measure("include circles, C", len(found), 0, tuple(map(" <-> ".join, found)))


def _names_twice() -> Measure:
    places: dict[str, list[str]] = {}
    for path in _modules().values():
        if path.name not in {"__init__.py", "__main__.py"}:
            places.setdefault(path.name, []).append(path.relative_to(ROOT).as_posix())
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    return Measure("file names twice", len(twice), 0, tuple(map(", ".join, twice.values())))


def _longest_module() -> Measure:
    lines = {path.relative_to(ROOT).as_posix(): _lines(path) for path in _modules().values()}
    over = tuple(f"{path}: {count}" for path, count in lines.items() if count > 400)
    return Measure("lines of the longest module", max(lines.values()), 400, over)


def _header() -> Measure:
    headers = {path.name: _lines(path) for path in (ROOT / "native" / "include").glob("*.h")}
    found = tuple(f"{name}: {count}" for name, count in sorted(headers.items()))
    return Measure("lines of the longest public C header", max(headers.values()), 349, found)


def _add_on() -> Iterator[Measure]:
    trace = _module("house_trace")
    if trace is not None:
        closure, page = trace.closure(), trace.page_trace()
        # 16 and 17: what is kept for its links, unchanged pages, URLs; 18: a crowd hides nothing; 19: segments
        yield Measure("modules that a crawl with the add-on loads", closure.modules, 45, held=65)
        yield Measure("lines of these modules", closure.lines, 7_500, held=9_860)
        yield Measure("calls of one page, request to insert", page.calls, 100, held=185)
        yield Measure("files of these calls", page.files, 15, held=33)


def _size() -> Measure:
    lines = {name: _lines(path) for name, path in _modules().items()}
    shipped = {name: count for name, count in lines.items() if not name.startswith("dedup.lab")}
    rooms: dict[str, int] = {}
    for name, count in shipped.items():
        room = name.split(".")[1] if "." in name else "dedup"
        rooms[room] = rooms.get(room, 0) + count
    found = tuple(f"{room}: {count:,}" for room, count in sorted(rooms.items()))
    # 17: rules about URLs; 18: bounds in bytes, clients as they come, bad records; 20: scan --kept;
    # 17 again: rules that spiders share through a service; 18 again: roles, Unix sockets, client certificates
    # 20: the report's what if, look-ups of copies
    return Measure("lines of dedup/ without lab/", sum(shipped.values()), 26_999, found, 34_900)


def _module(name: str) -> ModuleType | None:
    """Return a module of tests/support or tests/, None if there is none."""
    for folder in (ROOT / "tests" / "support", ROOT / "tests"):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        if (folder / f"{name}.py").exists() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
    return None


# ------------------------------------------------------------------------------------ the command


def help_seconds() -> float:
    """Return the CPU seconds of `dedup --help`, the best of five."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def run() -> float:
        before = used()
        command = [sys.executable, "-m", "dedup", "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return used() - before

    return min(run() for _ in range(RUNS))


def _print(say: Callable[[str], None] = print) -> bool:
    found = measures()
    for measure in found:
        end = "" if measure.reached else f"  <-- over (held at {measure.held:,})"
        say(f"{measure.name:<45}{measure.number:>8,}   at most {measure.limit:,}{end}")
        for line in () if measure.reached else measure.found:
            say(f"    {line}")
    seconds = help_seconds()
    say(
        f"{'CPU seconds of `dedup --help`, best of five':<45}{seconds:>8.3f}   at most {HELP_SECONDS}"
    )
    return all(measure.holds for measure in found)


if __name__ == "__main__":
    sys.exit(0 if _print() else 1)
