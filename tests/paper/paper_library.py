"""The paper's tables and codecs in C (native/paper): built when they are first asked for, and called by cffi.

    native/paper/*.c -> cmake with NDD_PAPER -> build/paper/libndd_paper.so -> lib

No part of the product has them; a status means what it means there. cmake and ninja are those of
pyproject.toml's group "build".
"""

import fcntl
import os
import runpy
import subprocess
import sys
from pathlib import Path

from cffi import FFI

from dedup.core.native import check

__all__ = ["check", "ffi", "lib"]

ROOT = Path(__file__).parents[2]
NATIVE, BUILD = ROOT / "native", ROOT / "build" / "paper"
HEADERS = (NATIVE / "include" / "ndd.h", NATIVE / "paper" / "ndd_paper.h")
BIN = Path(sys.executable).parent
CMAKE = BIN / "cmake"


def built() -> Path:
    """Return the shared library, built anew if a source is younger; one process at a time builds."""
    if not CMAKE.exists():
        raise ModuleNotFoundError(f"{CMAKE} is missing: run pip install --group build")
    library = BUILD / ("libndd_paper.dylib" if sys.platform == "darwin" else "libndd_paper.so")
    sources = [*NATIVE.rglob("*.[ch]"), NATIVE / "CMakeLists.txt"]
    youngest = max(path.stat().st_mtime for path in sources)
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists() or library.stat().st_mtime < youngest:
            ninja = f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}"
            _run(CMAKE, "-S", NATIVE, "-B", BUILD, "-G", "Ninja", "-DNDD_PAPER=ON", ninja)
            _run(CMAKE, "--build", BUILD, "--target", "ndd_paper")
            os.utime(library)
    return library


def _run(*command: object) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MFLAGS"}}
    done = subprocess.run(
        [str(word) for word in command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ImportError(f"the paper's library could not be built:\n{done.stdout}")


ffi = FFI()
for _declared in runpy.run_path(str(NATIVE / "build_ffi.py"))["declarations"](HEADERS):
    ffi.cdef(_declared)
lib = ffi.dlopen(str(built()))
