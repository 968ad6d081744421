"""The house itself: its floors, its public face, its examples, and its documents."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import house
import pytest

import dedup

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long


def test_no_import_circle():
    """No module of the package imports itself through others."""
    assert house.circles(house.imports()) == []


def test_no_import_is_written_as_text():
    """What a module imports of a higher layer, it does not hide in a string."""
    assert house.string_imports() == []


def test_no_pointer_to_a_file_that_does_not_exist():
    """A comment or docstring of dedup/ and native/ that names a source file names one that exists."""
    assert house.stale_pointers() == []


def test_a_total_that_grew_has_a_reason():
    """Lines, modules, calls and imports grew by at most 2 %, or the changelog names the total and why."""
    assert house.unexplained((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")) == []


HEAVY = {"aiokafka", "hiredis", "lmdb", "numpy", "redis", "publicsuffixlist"}
FRAMEWORKS = {"click", "scrapy", "starlette", "twisted"}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import dedup", HEAVY | FRAMEWORKS | {"msgspec"}),
        ("import dedup; dedup.fingerprint(b'<p>a')", HEAVY | FRAMEWORKS),
        ("import dedup.model.events, dedup.model.names", HEAVY | FRAMEWORKS),
        ("import dedup.cli", HEAVY | FRAMEWORKS - {"click"} | {"msgspec"}),
    ],
)
def test_an_import_brings_no_more_than_it_needs(statement, absent):
    """The package loads what is used, when it is used: no framework, no numpy for a fingerprint."""
    code = f"{statement}\nimport sys; print(*sorted({absent} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.strip() == ""


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    """dedup.nothing fails as with any module; what is public is there, once, in order, and listed by dir()."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dedup.nothing  # noqa: B018
    assert sorted({*dedup.__all__} & {*dir(dedup)}) == dedup.__all__
    assert all(hasattr(dedup, name) for name in dedup.__all__)
    assert re.fullmatch(r"[0-9.]+(\.dev[0-9]+)?", dedup.__version__)
