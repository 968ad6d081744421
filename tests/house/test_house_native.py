"""The folders of native/: includes only go down, without circles; and whether the built core fits the Python code."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import house
import house_native

import dedup
from dedup.core import native


def test_includes_have_no_circle():
    """No module of native/src includes itself by way of others."""
    assert house.circles(house_native.modules()) == []


def test_includes_only_go_down():
    """A folder of native/src includes only from lower floors, and every folder is on one."""
    assert house_native.upward(house_native.modules()) == []


def test_every_include_is_by_its_folder():
    """An include names a file below native/src or native/include, so its floor can be read."""
    source, public = house_native.NATIVE / "src", house_native.NATIVE / "include"
    wrong = [
        f"{path}: {name}"
        for path in source.rglob("*.[ch]")
        for name in house_native.includes(path)
        if not (source / name).is_file() and not (public / name).is_file()
    ]
    assert wrong == []


def test_the_interface_is_that_of_the_headers():
    """dedup/core/native.py states the checksum of the declarations, so that a core of others is refused."""
    binding = runpy.run_path(str(house_native.NATIVE / "build_ffi.py"))
    names = ("ndd.h", "ndd_bulk.h", "ndd_resp.h")
    headers = [house_native.NATIVE / "include" / name for name in names]
    expected = binding["interface"](binding["declarations"](headers))
    assert expected == native.INTERFACE, f"write INTERFACE = {expected} in dedup/core/native.py"


def test_a_core_of_other_sources_is_one_error_at_the_import(tmp_path: Path):
    """It names the file and says how to build it again; no page is read with it."""
    package = tmp_path / "dedup"
    shutil.copytree(Path(dedup.__file__).parent, package, ignore=shutil.ignore_patterns("demo"))
    code = (package / "core" / "native.py").read_text()
    changed = re.sub("INTERFACE = [0-9]+", "INTERFACE = 7", code)
    assert changed != code
    (package / "core" / "native.py").write_text(changed)
    shutil.copy(native._native.__file__, package)
    run = subprocess.run(  # without site: the finder of an editable installation would take the checkout's
        [sys.executable, "-S", "-c", "import dedup; dedup.fingerprint('<p>a page')"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f"its interface is {native.INTERFACE}, expected 7" in last
    assert "pip install --force-reinstall" in last
