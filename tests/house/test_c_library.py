"""The native core as a C library: built by hand, installed, and used by the example."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dedup

NATIVE = Path(__file__).parents[2] / "native"
BIN = Path(sys.executable).parent
PAGES = [f"<title>{name}</title><p>{' '.join(f'{name}{i}' for i in range(40))}" for name in "abc"]


def run(*command, **options):
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True, **options
    ).stdout


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="the example is compiled by cc")
def test_the_example_is_built_against_the_installed_library(tmp_path):
    """cmake installs library, headers and ndd.pc; the example's values are those of the package."""
    build, prefix = tmp_path / "build", tmp_path / "prefix"
    ninja = f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}"
    libdir = "-DCMAKE_INSTALL_LIBDIR=lib"
    cmake = [BIN / "cmake", "-S", NATIVE, "-B", build, "-G", "Ninja", ninja, libdir]
    run(*cmake, f"-DCMAKE_INSTALL_PREFIX={prefix}")
    run(BIN / "cmake", "--build", build, "--target", "ndd")
    run(BIN / "cmake", "--install", build)
    assert {path.name for path in (prefix / "include").iterdir()} == {
        "ndd.h",
        "ndd_bulk.h",
        "ndd_resp.h",
    }
    told = (prefix / "lib" / "pkgconfig" / "ndd.pc").read_text()
    assert f"prefix={prefix}\n" in told
    assert "\nVersion: 0." in told
    flags = ["-I", prefix / "include", "-L", prefix / "lib", "-lndd", "-lm"]
    if shutil.which("pkg-config"):
        where = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "ndd", env=where).split()
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run("cc", *warnings, NATIVE / "examples" / "near.c", *flags, "-o", tmp_path / "near")
    pages = [*PAGES, PAGES[1]]
    said = run(tmp_path / "near", input="".join(f"{page}\n" for page in pages)).splitlines()
    values = [f"{dedup.fingerprint(page).value:016x}" for page in pages]
    expected = [f"{number} {value}" for number, value in enumerate(values, 1)]
    expected[3] += " like 2, 0 bits"
    assert said == expected
