"""What the house promises (DESIGN.md, section 2) has tests named after it that `make test` runs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROMISES = {
    1: "nothing is lost",
    2: "a page is never a duplicate of itself",
    3: "two phases",
    4: "the search is exact",
    5: "a fingerprint means one thing",
    6: "what was acknowledged survives",
    7: "any bytes are safe",
}


def is_long(node: ast.AST) -> bool:
    """Whether a decorator or a pytestmark says so."""
    return "mark.long" in ast.unparse(node)


def quick_tests(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's tests that are not marked long."""
    marks = (node for node in tree.body if isinstance(node, ast.Assign))
    if any("pytestmark" in ast.unparse(node.targets[0]) and is_long(node) for node in marks):
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
            and not any(map(is_long, node.decorator_list))
        ):
            yield node.name


def of_check() -> list[Path]:
    """Return the files of which `make check` runs the tests of promises."""
    makefile = (TESTS.parent / "Makefile").read_text("utf-8").replace("\\\n", "")
    (line,) = re.findall(r"^CHECK_TESTS := (.*)", makefile, re.MULTILINE)
    return [TESTS.parent / name for name in line.split()]


@pytest.mark.parametrize("number", PROMISES, ids=PROMISES.get)
@pytest.mark.parametrize("files", [[*TESTS.rglob("test_*.py")], of_check()], ids=["test", "check"])
def test_a_promise_has_a_test_named_after_it(files: list[Path], number: int) -> None:
    """test_promise_N_... exists and does not wait for `make test-long`; `make check` has one, too."""
    texts = (path.read_text("utf-8") for path in files)
    named = [ast.parse(text) for text in texts if f"def test_promise_{number}_" in text]
    names = [name for tree in named for name in quick_tests(tree)]
    assert any(name.startswith(f"test_promise_{number}_") for name in names), PROMISES[number]


def test_a_long_test_does_not_count() -> None:
    """Neither one with the marker nor one of a module with it is a test of `make test`."""
    quick, long = "def test_a(): pass\n", "@pytest.mark.long\ndef test_b(): pass\n"
    assert list(quick_tests(ast.parse(quick + long))) == ["test_a"]
    assert list(quick_tests(ast.parse("pytestmark = pytest.mark.long\n" + quick))) == []
    assert list(quick_tests(ast.parse("pytestmark = [pytest.mark.long]\n" + quick))) == []
