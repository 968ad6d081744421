"""What a release needs beside its code: changelog, workflows, and a name that is taken."""

import os
import re
import shlex
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
    """No file names a repository, unless the project does; nothing is published before it does."""
    files = ["pyproject.toml", "CHANGELOG.md", "Dockerfile", "README.md"]
    text = "".join((ROOT / name).read_text("utf-8") for name in files if (ROOT / name).exists())
    assert "crawl-dedup.example" not in text
    if "urls" not in PROJECT:
        (check,) = (
            step["run"]
            for step in workflow("wheels.yml")["jobs"]["sdist"]["steps"]
            if "project.urls" in step.get("name", "")
        )
        code = shlex.split(check)[2]
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True
        )
        assert done.returncode == 1
        assert "project.urls is missing" in done.stderr


def test_the_changelog_keeps_its_form():
    """Keep a Changelog: Unreleased first, then this version with its date."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", v) for v in versions[1:])
    assert versions[1].startswith(f"[{PROJECT['version']}] - ")
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def test_a_version_names_its_formats():
    """The unreleased section, or else the newest version's, begins with the formats that the code writes."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    sections = [section.partition("\n### ")[0] for section in text.split("\n## [")[1:3]]
    section = next(section for section in sections if "One version is one format." in section)
    assert f"recipe `{NEWEST}`" in section
    assert f"stores {FORMAT}," in section
    assert f"insert events {events.VERSION}," in section
    assert f"`log.json` {manifest.FORMAT}," in section


def test_actions_are_pinned_by_commit():
    """A tag can be moved, a commit cannot; beside it stands its version, which dependabot raises."""
    checkout_only()
    for file in WORKFLOWS.glob("*.yml"):
        for used in re.findall(r"uses: (.*)", file.read_text("utf-8")):
            pinned = re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used)
            assert pinned or used.startswith("./"), (file.name, used)


def test_nothing_is_published_untested():
    """publish waits for the whole test workflow, the wheels and the sdist, each of the tag."""
    jobs = workflow("wheels.yml")["jobs"]
    assert set(jobs["publish"]["needs"]) == {"test", "wheels", "sdist"}
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in workflow("test.yml")[True]  # YAML reads `on` as a truth value


def test_wheels_are_built_for_every_platform():
    """glibc and musl of Linux, macOS and Windows; none of them is skipped by a pattern."""
    jobs = workflow("wheels.yml")["jobs"]
    built = {(m["platform"], m["arch"]) for m in jobs["wheels"]["strategy"]["matrix"]["include"]}
    wanted = {("linux", "x86_64"), ("linux", "aarch64"), ("macos", "x86_64"), ("macos", "arm64")}
    assert built == {*wanted, ("windows", "AMD64")}
    config = PYPROJECT["tool"]["cibuildwheel"]
    assert "musllinux" not in config["skip"]
    assert "manylinux" not in config["skip"]
    for command in (config["test-command"], config["windows"]["test-command"]):
        for name in re.findall(r"tests/\S+", command):
            assert (ROOT / name).exists(), name


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


def test_the_demo_installs_what_it_needs_and_no_more(tmp_path):
    """`make demo` has Scrapy and the core installed, not every extra, and says what it is at."""
    make = shutil.which("make")
    if make is None or not (ROOT / "Makefile").exists():
        pytest.skip("make is not installed")
    command = [make, "-n", "demo", f"VENV={tmp_path / 'new'}"]
    environment = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MFLAGS"}}
    said = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=600
    ).stdout
    assert "--editable '.[scrapy]'" in said
    assert ".[all]" not in said
    assert "--group" not in said
    assert said.count("echo ") >= 3
