"""Runs a program of tests/support/tools: python tests/support NAME [ARGUMENT ...].

Without a name it lists them. They import their helpers from tests/support as the tests do.
"""

import ast
import runpy
import sys
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"


def listed() -> str:
    """Return a line for each program: its name and the first line of its docstring."""
    lines = []
    for path in sorted(TOOLS.glob("[a-z]*.py")):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        lines.append(f"{path.stem:<14} {said.splitlines()[0]}\n")
    return "".join(lines)


def main() -> None:
    if len(sys.argv) < 2 or not (TOOLS / f"{sys.argv[1]}.py").is_file():
        sys.exit(f"python tests/support NAME [ARGUMENT ...]\n\n{listed()}")
    sys.path += [str(TOOLS.parents[1] / each) for each in ("bench", "paper")]  # as pytest does
    name = sys.argv.pop(1)
    runpy.run_module(f"tools.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
