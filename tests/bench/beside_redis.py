"""A table service beside redis-server: PROBE without neighbours, and GET of as many bytes of keys that are not there.

    redis-benchmark -> redis-server | a real `dedup serve`, in turns: one command at a time, and 64 in a write

Invariants: rates are for the CPU time of each server's process; a ratio is of two runs that follow each other.
"""

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from runner import Bench, Progress, Round
from service_costs import cpu_seconds, fill, page_of, serving
from store_costs import NAMESPACE

from dedup.model.errors import DedupError
from dedup.wire.resp import pack

DEPTHS = (1, 64)
RANDOM = "__rand_int__"  # redis-benchmark writes 12 digits in its place
PROBE = ("DEDUP.PROBE", NAMESPACE, page_of(0x9E37).replace(f"{0x9E37:016x}", f"9e37{RANDOM}"))
PADDING = len(pack(PROBE)) - len(pack(("GET", 100 * "k"))) + 100 - len(RANDOM)
GET = ("GET", PADDING * "k" + RANDOM)
WAIT_SECONDS = 10.0


@contextmanager
def open_case(
    documents: int, distance: int, requests: int, progress: Progress | None = None
) -> Iterator[Bench]:
    """Fill a store, serve it beside redis-server, and measure. Raises DedupError if Redis is not installed."""
    del progress
    if not (which("redis-server") and which("redis-benchmark")):
        raise DedupError("redis-server and redis-benchmark are not installed: install Redis")
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), documents, distance)
        with _redis() as redis, serving(Path(folder), distance) as service:

            def measure() -> Round:
                rows = {}
                for depth in DEPTHS:
                    count = requests if depth == 1 else 8 * requests
                    get = _rate(redis, GET, depth, count)
                    probe = _rate(service, PROBE, depth, count)
                    way = "single" if depth == 1 else f"{depth} in a write"
                    rows[f"GET, {way}"] = {"a CPU second": get}
                    rows[f"PROBE, {way}"] = {"a CPU second": probe, "of GET's": probe / get}
                return rows

            facts = {"documents": documents, "distance": distance}
            yield Bench(facts, measure, packages=("hiredis", "uvloop"))


@contextmanager
def _redis() -> Iterator[tuple["subprocess.Popen[str]", int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
            yield process, port
        finally:
            process.terminate()


def _rate(
    server: tuple["subprocess.Popen[str]", int], words: tuple[str, ...], depth: int, count: int
) -> float:
    process, port = server
    before = cpu_seconds(process)
    options = ["-p", str(port), "-n", str(count), "-P", str(depth), "-r", "2000000000", "-q"]
    subprocess.run(
        ["redis-benchmark", *options, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return count / max(cpu_seconds(process) - before, 1e-9)
