"""The package as a stranger gets it: sdist -> wheel -> an environment of its own -> the tests.

    python tests/support installed [--python PROGRAM ... | --every-python] [PYTEST_ARGUMENT ...]

builds an sdist of this checkout, a wheel from the sdist, installs the wheel with its dependencies
from the package index for each Python, and runs the tests there: with all extras (`make test-wheel`),
or for every Python with Scrapy alone, for the tests that are named (`make test-pythons`).

Invariant: nothing is used of the checkout but the sdist, and everything happens in a
folder whose name has spaces and letters beyond ASCII. test_packaging.py uses the same steps.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAME = "a folder with späces"
NEEDED_BY_TESTS = ("tests", "docs", "examples")  # of the sdist; dedup itself comes from the wheel
ABOUT_THE_TREE = (
    "tests/house/test_house.py",
    "tests/house/test_packaging.py",
    "tests/house/test_release.py",
    "tests/paper",
)  # they look at sources, or are built from them, and not at the package


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command and return what it wrote; a failure shows that, and ends this."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}"
    return done.stdout


def build_sdist(folder: Path, *, isolated: bool = True) -> Path:
    """Return the sdist of this checkout, made in a folder."""
    isolation = [] if isolated else ["--no-isolation", "--skip-dependency-check"]
    run(sys.executable, "-m", "build", "--sdist", *isolation, "--outdir", folder, ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def unpack(sdist: Path, folder: Path) -> Path:
    """Return the folder that an sdist unpacks to."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = [path for path in folder.iterdir() if path.is_dir()]
    return tree


def build_wheel(tree: Path, folder: Path, *, isolated: bool = True) -> Path:
    """Return the wheel built from an unpacked sdist, as `pip install PATH` does."""
    isolation = [] if isolated else ["--no-build-isolation"]
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", *isolation, "-w", folder, tree)
    (wheel,) = folder.glob("*.whl")
    return wheel


def every_python() -> list[str]:
    """Return a program of each minor version from 3.11 on, of the PATH and of pyenv."""
    found = []
    for minor in range(11, 20):
        pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for program in (*pyenv, shutil.which(f"python3.{minor}")):
            check = f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}))"
            if program and not subprocess.run([program, "-c", check], check=False).returncode:
                found.append(str(program))
                break
    return found


def test_tools(*names: str) -> list[str]:
    """Return what these dependency groups of pyproject.toml name; the groups they include are the checkout's."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    return [tool for name in names for tool in groups[name] if isinstance(tool, str)]


def environment_program(folder: Path, name: str) -> Path:
    """Return the path of a program in a virtual environment."""
    return folder / ("Scripts" if os.name == "nt" else "bin") / name


def main() -> int:
    """Build, install and test for each Python; return 1 if the tests of one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="default: this one")
    parser.add_argument("--every-python", action="store_true", help="all that are found here")
    options, pytest_arguments = parser.parse_known_args()
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary) / NAME
        for name in ("sdist", "tree", "wheel", "run"):
            (top / name).mkdir(parents=True)
        tree = unpack(build_sdist(top / "sdist", isolated=False), top / "tree")
        wheel = build_wheel(tree, top / "wheel")
        sys.stdout.write(f"{wheel.name}\n")
        for name in NEEDED_BY_TESTS:
            (tree / name).rename(top / "run" / name)
        (tree / "pyproject.toml").rename(top / "run" / "pyproject.toml")
        ignored = [f"--ignore={name}" for name in ABOUT_THE_TREE]
        pythons = every_python() if options.every_python else options.python or [sys.executable]
        core, all_of_it = test_tools("test-core"), test_tools("test-core", "test")
        wanted = (
            [f"{wheel}[scrapy]", *core]
            if options.every_python
            else [f"{wheel}[all,eval]", *all_of_it]
        )
        for i, python in enumerate(pythons):
            environment = top / f"python {i}"
            run(python, "-m", "venv", environment)
            program = environment_program(environment, "python")
            run(program, "-m", "pip", "install", "-q", *wanted)
            version = run(program, "-VV").strip()
            sys.stdout.write(f"== {version}\n")
            sys.stdout.flush()
            arguments = [program, "-I", "-m", "pytest", "-q", *ignored, *pytest_arguments]
            if subprocess.run(arguments, cwd=top / "run", check=False).returncode:
                failed.append(version)
    if failed:
        sys.stdout.write(f"failed: {'; '.join(failed)}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
