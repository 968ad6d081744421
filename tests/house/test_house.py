"""The house itself: its floors, its public face, its examples, and its documents."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import house
import leftovers
import pytest
from crawling import wait_for

import dedup
from dedup.core.native import ffi, lib
from dedup.model.recipes import NEWEST

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long


def test_what_is_public_is_there():
    """Every name in __all__ exists, once, and in order."""
    assert sorted(set(dedup.__all__)) == dedup.__all__
    assert all(hasattr(dedup, name) for name in dedup.__all__)


def test_the_core_follows_the_newest_recipe():
    """The recipe that Python makes fingerprints with is the one the native core follows."""
    assert ffi.string(lib.ndd_recipe()).decode() == NEWEST


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
    """dedup.nothing fails as with any module, and dir(dedup) lists what is public."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dedup.nothing  # noqa: B018
    assert set(dedup.__all__) <= set(dir(dedup))
    assert re.fullmatch(r"[0-9.]+", dedup.__version__)


def test_the_library_example_runs():
    """examples/library.py keeps two pages and drops the copy with a session id."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "library.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["keep", "drop", "keep"]


def test_files_named_in_the_architecture_exist():
    """Every path that docs/explain/architecture.md and its continuation name is in the tree."""
    pages = ("architecture.md", "inside.md")
    text = "".join((ROOT / "docs" / "explain" / page).read_text(encoding="utf-8") for page in pages)
    paths = re.findall(r"`((?:native|dedup)/[a-z_./*]+)`", text)
    assert paths
    assert all(list(ROOT.glob(path.rstrip("/"))) for path in paths)


@pytest.mark.skipif(sys.platform != "linux", reason="the watcher is Linux only")
def test_a_killed_test_run_leaves_no_process(tmp_path):
    """What a run started, and what that started, ends when the run is killed with -9."""
    code = """
        import subprocess, sys, time
        import leftovers
        leftovers.watch()
        sleeps = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
        subprocess.Popen([sys.executable, "-c", sleeps], start_new_session=True)
        print("started", flush=True)
        time.sleep(600)
    """
    mark = "a run of this test"
    environment = {k: v for k, v in os.environ.items() if k != leftovers.MARK}
    environment |= {
        "PYTHONPATH": str(Path(__file__).parents[1] / "support"),
        "DEDUP_TEST_RUN_WITHIN": mark,
    }
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, stdout=subprocess.PIPE
    ) as run:
        try:
            run.stdout.readline()
            wait_for(lambda: len(leftovers.marked(mark, "DEDUP_TEST_RUN_WITHIN")) == 4)
        finally:
            run.kill()
    wait_for(lambda: not leftovers.marked(mark, "DEDUP_TEST_RUN_WITHIN"))
