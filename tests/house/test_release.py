"""What a release needs beside its code: changelog, workflows, and a name that is taken."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from dedup.model import events
from dedup.model.recipes import NEWEST
from dedup.service import manifest
from dedup.store.documents import FORMAT

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
WORKFLOWS = ROOT / ".github" / "workflows"


def checkout_only():
    if not WORKFLOWS.exists():
        pytest.skip("this is no checkout: an sdist has no workflows")


def test_the_test_files_that_are_named_exist():
    """In workflows, the Makefile and pyproject.toml: a test that moved is not silently left out."""
    for file in [*WORKFLOWS.glob("*.yml"), ROOT / "Makefile", ROOT / "pyproject.toml"]:
        for name in re.findall(r"tests/[a-z_/]+\.py", file.read_text(encoding="utf-8")):
            assert (ROOT / name).is_file(), f"{file.name} names {name}"


def workflow(name):
    checkout_only()
    return yaml.safe_load((WORKFLOWS / name).read_text("utf-8"))


def test_no_address_is_invented():
    """No file names a repository that there is not."""
    files = ["pyproject.toml", "CHANGELOG.md", "Dockerfile", "README.md"]
    text = "".join((ROOT / name).read_text("utf-8") for name in files if (ROOT / name).exists())
    assert "crawl-dedup.example" not in text


def test_the_changelog_keeps_its_form():
    """Keep a Changelog: Unreleased first, then what 0.3.0 will be, then versions with their dates."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert versions[1] == "0.3.0"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", v) for v in versions[2:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def test_a_version_names_its_formats():
    """The unreleased section begins with the formats that the code writes."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    section = text.partition("## [Unreleased]")[2].partition("\n### ")[0]
    assert f"recipe `{NEWEST}`" in section
    assert f"stores {FORMAT}," in section
    assert f"insert events {events.VERSION}," in section
    assert f"`log.json` {manifest.FORMAT}," in section


def test_every_platform_is_built_for_and_nothing_is_published_untested():
    """glibc and musl of Linux, macOS and Windows; publish waits for the whole test workflow, wheels and sdist of the tag."""
    jobs = workflow("wheels.yml")["jobs"]
    built = {(m["platform"], m["arch"]) for m in jobs["wheels"]["strategy"]["matrix"]["include"]}
    wanted = {("linux", "x86_64"), ("linux", "aarch64"), ("macos", "x86_64"), ("macos", "arm64")}
    assert built == {*wanted, ("windows", "AMD64")}
    assert not re.search("musl|many", str(PYPROJECT["tool"]["cibuildwheel"]["skip"]))
    assert set(jobs["publish"]["needs"]) == {"test", "wheels", "sdist"}
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in workflow("test.yml")[True]  # YAML reads `on` as a truth value


def test_actions_are_pinned_by_commit():
    """A tag can be moved, a commit cannot; beside it stands its version, which dependabot raises."""
    checkout_only()
    for file in WORKFLOWS.glob("*.yml"):
        for used in re.findall(r"uses: (.*)", file.read_text("utf-8")):
            pinned = re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used)
            assert pinned or used.startswith("./"), (file.name, used)


# ---------------------------------------------------------------------------- the first minute


def test_without_a_compiler_one_line_says_so(tmp_path):
    """CMake ends with one line of ours, and not with its own page about a generator."""
    cmake = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
    if cmake is None or not (ROOT / "native").exists():
        pytest.skip("cmake is not installed")
    done = subprocess.run(
        [cmake, "-S", ROOT / "native", "-B", tmp_path],
        env=os.environ | {"CC": str(tmp_path / "none")},
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode != 0
    assert "no C compiler found; install gcc or clang" in done.stderr
    assert "CMAKE_C_COMPILER" not in done.stderr
