"""Runs every fuzz harness for a while: run.py, from the repository's root (make fuzz).

    FUZZ_SECONDS   of the whole run (default 3600), shared alike by the harnesses
    FUZZ_JOBS      harnesses that run at the same time (default 2)
    FUZZ_ONLY      names of harnesses, with commas; by default all

The C harnesses run under libFuzzer where there is clang (installed on Debian, as root), else under
fuzz/driver.c; the Python ones under Atheris where it can be installed, else by chance mutations.
What covers more is kept in build/corpus from run to run. A finding ends the run with status 1 and
the path of the input that shows it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
NATIVE = tuple(
    sorted(path.stem.removeprefix("fuzz_") for path in Path(__file__).parent.glob("fuzz_*.c"))
)
CORPUS, FOUND = Path("build/corpus"), Path("build/fuzz-findings")
MAX_BYTES = {
    "reader": 1 << 20,
    "segment": 1 << 16,
    "lmdb": 1 << 16,
    "hash": 1 << 12,
    "table": 1 << 13,
}
TIMEOUT_SECONDS = 25  # of one input; a reader with sanitizers reads a megabyte in far less
RSS_MB = 2048
START_SECONDS = 5  # kept for building and starting, so that a run keeps to its time
BIN = Path(sys.executable).parent


class Outcome(NamedTuple):
    """What a harness came to; coverage is in edges, and None where nothing counts it."""

    name: str
    status: int
    executions: int
    coverage: int | None
    seconds: float


def python_harnesses() -> tuple[str, ...]:
    """Return the names of tests/support/fuzzing.py's."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from fuzzing import HARNESSES

    return tuple(HARNESSES)


def libfuzzer_works() -> bool:
    """Whether clang builds a program with libFuzzer and AddressSanitizer."""
    if shutil.which("clang") is None:
        return False
    source = "int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { return !b && n; }"
    command = ["clang", "-fsanitize=fuzzer,address", "-x", "c", "-", "-o", os.devnull]
    built = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    return built.returncode == 0


def have_clang() -> bool:
    """Whether there is clang with libFuzzer, after an attempt to install it where that may be."""
    if libfuzzer_works():
        return True
    if shutil.which("apt-get") is None or os.getuid() != 0:
        return False
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}

    def apt(*arguments: str) -> None:
        command = ["apt-get", "-y", "-qq", *arguments]
        subprocess.run(command, env=environment, capture_output=True, check=False)

    print("installing clang and its sanitizers", flush=True)
    apt("update")
    apt("install", "--no-install-recommends", "clang", "llvm")
    if shutil.which("clang"):
        version = subprocess.run(
            ["clang", "-dumpversion"], text=True, capture_output=True, check=True
        )
        major = version.stdout.partition(".")[0]
        apt("install", "--no-install-recommends", f"libclang-rt-{major}-dev")
    return libfuzzer_works()


def have_atheris() -> bool:
    """Whether there is Atheris, after an attempt to install it."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--group", "fuzz"]
    subprocess.run(pip, capture_output=True, check=False)
    probe = [sys.executable, "-c", "import atheris"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def build(libfuzzer: bool) -> Path:
    """Build the C harnesses with sanitizers and return the folder that they are in."""
    folder = Path("build/fuzz-clang" if libfuzzer else "build/fuzz-driver")
    cmake = [BIN / "cmake", "-S", "native", "-B", folder, "-G", "Ninja", "-DNDD_TESTS=ON"]
    cmake += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DNDD_SANITIZE=address,undefined"]
    cmake += [f"-DCMAKE_MAKE_PROGRAM={(BIN / 'ninja').resolve()}"]
    cmake += ["-DCMAKE_C_COMPILER=clang", "-DNDD_LIBFUZZER=ON"] if libfuzzer else []
    subprocess.run(cmake, check=True, stdout=subprocess.DEVNULL)
    targets = [f"fuzz_{name}" for name in NATIVE]
    build = [BIN / "cmake", "--build", folder, "--target", *targets]
    if subprocess.run(build, stdout=subprocess.DEVNULL, check=False).returncode:
        subprocess.run(build, check=True)  # again, for the compiler's own words
    return folder


def options(name: str, seconds: int) -> list[str]:
    """Return libFuzzer's options for a harness."""
    made = [f"-max_total_time={seconds}", f"-timeout={TIMEOUT_SECONDS}", f"-rss_limit_mb={RSS_MB}"]
    made += [f"-max_len={MAX_BYTES.get(name, 1 << 13)}", f"-artifact_prefix={FOUND}/{name}-"]
    made += ["-print_final_stats=1", "-use_value_profile=1"]
    return [*made, f"-dict={CORPUS}/html.dict"] if name in {"reader", "page"} else made


class Runner:
    """Runs harnesses side by side; the first finding ends them all."""

    def __init__(
        self, seconds: int, native: Path, libfuzzer: bool, atheris: bool, folder: str
    ) -> None:
        self._seconds, self._folder = seconds, folder
        self._native, self._libfuzzer, self._atheris = native, libfuzzer, atheris
        self._found = threading.Event()
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []

    def command(self, name: str) -> list[str | Path]:
        """Return what runs a harness."""
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        if name in NATIVE:
            program = self._native / f"fuzz_{name}"
            guided = options(name, self._seconds) if self._libfuzzer else []
            return [program, *guided, folder]
        if self._atheris:
            script = [sys.executable, "tests/support", "fuzz_atheris", name]
            return [*script, *options(name, self._seconds), folder]
        return [sys.executable, "tests/support/fuzzing.py", name, folder]

    def run(self, name: str) -> Outcome | None:
        """Run one harness to its end; None if another one has found something before."""
        log = FOUND / f"{name}.log"
        began = time.monotonic()
        environment = os.environ | {"FUZZ_SECONDS": str(self._seconds), "TMPDIR": self._folder}
        with self._lock:
            if self._found.is_set():
                return None
            with log.open("wb") as output:
                process = subprocess.Popen(
                    self.command(name), stdout=output, stderr=output, env=environment
                )
            self._running.append(process)
        status = process.wait()
        stopped = self._found.is_set()
        with self._lock:
            self._running.remove(process)
            if status and not stopped:
                self._found.set()
                for other in self._running:
                    other.terminate()
        if stopped:
            return None
        outcome = read_log(name, status, log, time.monotonic() - began)
        print(line(outcome), flush=True)
        return outcome


def read_log(name: str, status: int, log: Path, seconds: float) -> Outcome:
    """Return what the fuzzer's own output says."""
    text = log.read_text(errors="replace")
    executions = re.findall(r"number_of_executed_units: (\d+)|^(\d+) inputs", text, re.MULTILINE)
    coverage = re.findall(r" cov: (\d+) ", text)
    count = int("".join(executions[-1])) if executions else 0
    return Outcome(name, status, count, int(coverage[-1]) if coverage else None, seconds)


def line(outcome: Outcome) -> str:
    """Return a line of figures."""
    files = [path.stat().st_size for path in (CORPUS / outcome.name).iterdir() if path.is_file()]
    covered = "not counted" if outcome.coverage is None else f"{outcome.coverage:,} edges"
    return (
        f"{outcome.name:<10} {outcome.executions:>13,} executions   {covered:>12}   "
        f"corpus {len(files):>6,} files, {sum(files) / 2**20:6.1f} MB   {outcome.seconds:6.0f} s"
        + ("   FINDING" if outcome.status else "")
    )


def main() -> int:
    """Build, run, and say what came of it."""
    seconds = int(os.environ.get("FUZZ_SECONDS", "3600"))
    jobs = int(os.environ.get("FUZZ_JOBS", "2"))
    only = os.environ.get("FUZZ_ONLY", "")
    names = [n for n in (*NATIVE, *python_harnesses()) if not only or n in only.split(",")]
    libfuzzer, atheris = have_clang(), have_atheris()
    guide = (
        ["by chance (no clang)", "by libFuzzer"][libfuzzer],
        ["by chance", "by Atheris"][atheris],
    )
    share = max(1, seconds // -(-len(names) // jobs) - START_SECONDS)
    print(f"C harnesses {guide[0]}, Python harnesses {guide[1]}; {share} s each, {jobs} at a time")
    FOUND.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "tests/support", "make_corpus", CORPUS], check=True)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # stores are written there
    with (
        tempfile.TemporaryDirectory(dir=memory, prefix="dedup-fuzz-") as folder,
        ThreadPoolExecutor(jobs) as pool,
    ):
        runner = Runner(share, build(libfuzzer), libfuzzer, atheris, folder)
        outcomes = [outcome for outcome in pool.map(runner.run, names) if outcome]
    for bad in (outcome for outcome in outcomes if outcome.status):
        log = FOUND / f"{bad.name}.log"
        text = log.read_text(errors="replace")
        shown = re.findall(r"(?:Test unit written to|input was written to) (\S+)", text)
        print(f"\n{text[-3000:]}\n{bad.name}: finding (status {bad.status}), see {log}")
        print("the input:", *shown or ["none was written"])
        return 1
    print("no finding" if len(outcomes) == len(names) else "not every harness ran")
    return len(outcomes) != len(names)


if __name__ == "__main__":
    sys.exit(main())
