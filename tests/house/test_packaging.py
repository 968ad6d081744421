"""What leaves this house: the sdist, the wheel made from it, and that wheel installed elsewhere."""

from __future__ import annotations

import email.parser
import re
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools.installed import NAME, ROOT, build_sdist, build_wheel, environment_program, run, unpack

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name has spaces and letters beyond ASCII."""
    folder = tmp_path_factory.mktemp("packaging") / NAME
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def sdist(top: Path) -> Path:
    return build_sdist(top / "sdist", isolated=False)


@pytest.fixture(scope="module")
def wheel(top: Path, sdist: Path) -> Path:
    return build_wheel(unpack(sdist, top / "tree"), top / "wheel", isolated=False)


@pytest.fixture(scope="module")
def python(top: Path, wheel: Path) -> Path:
    """A Python with the wheel, and with the dependencies of this one; without the checkout."""
    environment = top / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    program = environment_program(environment, "python")
    pip = (sys.executable, "-m", "pip", "--python", program)
    run(*pip, "install", "-q", "--no-index", "--no-deps", wheel)
    site = Path(
        run(program, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return program


@pytest.mark.long
def test_the_sdist_holds_what_git_does_and_no_more(sdist: Path) -> None:
    """Every file under version control but those of the house's machinery, and PKG-INFO."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
    theirs = {".ci", ".dockerignore", ".github", ".pre-commit-config.yaml", ".readthedocs.yaml"}
    expected = {f for f in listed.splitlines() if f.split("/")[0] not in theirs}
    expected = {f for f in expected if (ROOT / f).is_file()}
    with tarfile.open(sdist) as archive:
        found = {m.name.partition("/")[2] for m in archive if m.isfile()}
    assert found == expected | {"PKG-INFO"}
    for needed in ("LICENSE", "tests/golden/golden.json", "native/tools/make_tables.py", "docs"):
        assert any(name.startswith(needed) for name in found), needed


@pytest.mark.long
def test_the_wheel_holds_the_package_and_one_binary(wheel: Path) -> None:
    """Every module and data file of dedup/, one abi3 library, the licence; no C, no tests, nothing beside them."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if not name.endswith("/")}
    meta = f"crawl_dedup-{PROJECT['version']}.dist-info/"
    (binary,) = [f for f in found if f.endswith((".so", ".pyd", ".dylib"))]
    assert re.fullmatch(r"dedup/_native(\.abi3\.so|\.pyd)", binary)
    sources = {
        f.relative_to(ROOT).as_posix()
        for f in (ROOT / "dedup").rglob("*")
        if f.is_file() and "__pycache__" not in f.parts and f.suffix not in {".so", ".pyd"}
    }
    assert {f for f in found if not f.startswith(meta)} == sources | {binary}
    assert {"dedup/py.typed", meta + "licenses/LICENSE", meta + "entry_points.txt"} <= found


@pytest.mark.long
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    """Version, licence, Pythons and extras are those of pyproject.toml; the README is its text."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        meta = email.parser.Parser().parsestr(archive.read(name).decode())
    assert (meta["Name"], meta["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert (meta["License-Expression"], meta["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    assert set(meta.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert meta.get_payload().startswith("# crawl-dedup")


@pytest.mark.long
def test_the_installed_command_runs(python: Path, top: Path) -> None:
    """`dedup --help` and the version come from the installed package, and pip knows the same one.

    Whether the package does what it should is tried on every Python by `make test-pythons`.
    """
    program = environment_program(python.parent.parent, "dedup")
    assert "store" in run(program, "--help", cwd=top)
    assert PROJECT["version"] in run(program, "--version", cwd=top)
    said = run(python, "-I", "-c", "import dedup; print(dedup.__version__)", cwd=top)
    assert said.strip() == PROJECT["version"]
