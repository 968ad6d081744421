"""Hostile pages: work linear in their size, memory bounded, whatever they are made of.

Work is counted, not timed: the reader is compiled once more, so that every basic block it passes
counts as a step (count_steps.c). That no page takes it forever or all memory is then tried on pages
of 64 MB, in a process that may hold so much and no more.
"""

import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cffi import FFI
from hostile import FAMILIES, family

from dedup.core.fingerprint import fingerprint

ROOT = Path(__file__).parents[2]
MB = 2**20

# --------------------------------------------------------------------------------- steps, counted

SMALL, LARGE = MB // 8, MB
STEPS_A_BYTE = 50  # of any family; blocks of one letter take 49, numbers 47
GROWTH = 1.2  # of the steps a byte; tables that double make them a little uneven
COUNTED = "memchr memcpy memmove memset memcmp realloc".split()


@pytest.fixture(scope="module")
def count_steps(tmp_path_factory):
    """Return a function that gives the steps that reading a page takes."""
    compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or "gcc"]
    folders = ("base", "hash", "reader")  # what a page takes
    sources = sorted(p for name in folders for p in (ROOT / "native" / "src" / name).glob("*.c"))
    if not sources or not shutil.which(compiler[0]) or sys.platform != "linux":
        pytest.skip("counting steps needs the native sources, Linux and a C compiler")
    folder = tmp_path_factory.mktemp("steps")
    library = folder / "steps.so"
    include = [f"-I{ROOT / 'native' / folder}" for folder in ("include", "src")]
    renamed = [f"-D{name}=counted_{name}" for name in COUNTED]
    flags = ["-std=c11", "-O1", "-fPIC", "-fno-builtin", "-w", *include]
    counter = folder / "count_steps.o"
    source = Path(__file__).with_name("count_steps.c")
    subprocess.run([*compiler, *flags, "-c", source, "-o", counter], check=True)
    traced = ["-fsanitize-coverage=trace-pc", *renamed, "-shared"]
    subprocess.run([*compiler, *flags, *traced, *sources, counter, "-o", library], check=True)
    ffi = FFI()
    header = (ROOT / "native" / "include" / "ndd.h").read_text()
    ffi.cdef(header.split("/* cffi: begin", 1)[1].split("*/", 1)[1].split("/* cffi: end */")[0])
    ffi.cdef("uint64_t steps_taken(void);")
    lib = ffi.dlopen(str(library))
    reader, page = ffi.new("ndd_reader **"), ffi.new("ndd_page *")
    public = ffi.new("ndd_key *")[0]

    def steps(html: bytes) -> int:
        assert lib.ndd_reader_open(reader) == 0
        lib.steps_taken()
        assert lib.ndd_read_html(reader[0], html, len(html), b"/a/", 3, public, page) == 0
        taken = lib.steps_taken()
        lib.ndd_reader_close(reader[0])
        assert page.value == fingerprint(html, encoding="utf-8").value  # it is the same reader
        return taken

    return steps


@pytest.mark.parametrize("name", FAMILIES)
def test_promise_7_the_work_is_linear_in_the_size(count_steps, name):
    """A page many times as large takes as many times the steps, and never many for a byte."""
    small, large = (count_steps(family(name, size)) / size for size in (SMALL, LARGE))
    assert large <= max(GROWTH * small, 0.5)
    assert large <= STEPS_A_BYTE


def test_counting_steps_sees_quadratic_work(count_steps):
    """The counter sees what the C library's functions pass over, and every turn of a loop."""
    text = b"word " * 1000
    assert count_steps(text * 10) > 5 * count_steps(text)
    assert count_steps(b"<!--" + text) > len(text) / 16


# -------------------------------------------------------------------------------------- 64 MB

BOUND = 32  # bytes of address space for a byte of the page; about 14 are used at most
HANG_SECONDS = 3600  # no limit on speed: what is not linear takes hours at this size
PROCESSES = 2
SIZE = 64 * MB

READER = """
import resource, sys
from hostile import family
from dedup.core.fingerprint import fingerprint

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

for name in sys.argv[3:]:
    for size in 4 << 20, int(sys.argv[1]):  # the reader keeps what it took for the first one
        page = family(name, size)
        if sys.platform == "linux":
            bound = held() + int(sys.argv[2]) * size + (64 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (bound, resource.RLIM_INFINITY))
        assert fingerprint(page).recipe == "words-0-9"
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        del page
    print(name, flush=True)
"""


@pytest.mark.long
def test_promise_7_64_mb_come_to_a_fingerprint():
    """64 MB of each family end, within bounded memory."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "support")}
    options = {"env": environment, "capture_output": True, "text": True, "timeout": HANG_SECONDS}

    def read(names: list[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", READER, str(SIZE), str(BOUND), *names]
        return subprocess.run(command, check=False, **options)

    with ThreadPoolExecutor(PROCESSES) as pool:
        done = list(pool.map(read, ([*FAMILIES][i::PROCESSES] for i in range(PROCESSES))))
    ended = {name for each in done for name in each.stdout.splitlines()}
    assert set(FAMILIES) - ended == set(), [each.stderr for each in done]


@pytest.mark.long
def test_promise_7_a_page_of_more_than_64_mb():
    """fingerprint() has no size of its own at which it stops: a word behind 80 MB still counts."""
    text = b"<p>these are more than eight words, of which each counts"
    html = b"<!--" + b"x" * (80 * MB) + b"-->" + text
    assert fingerprint(html) == fingerprint(text)
