"""A contender of the table benchmark in a process of its own, and the calls that reach it.

    python tests/bench/contender_process.py NAME K FOLDER     JSON lines in, JSON lines out

Invariants: only what a contender does is timed, in CPU time of its process (user and
system); queries are made ready before; its memory is what the process has grown by; and a contender
that dies, dies alone.
"""

import ctypes
import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from contenders import Contender, Entry, find

from dedup.core.numbers import Array
from dedup.lab.bench.tables import Data, brute_force
from dedup.model.errors import DedupError

_ENDS_WITHIN_SECONDS = 30
_FIRST_TRIED = 4  # probes, to learn how many fill a turn
_MOST_SINGLE = 50_000  # of them in a turn: their queries are Python objects
_CHECKED_SINGLE = 16
_INSERTED = 10_000  # a call


class Build(msgspec.Struct, frozen=True):
    """How a contender was built. Bytes: what its process grew by, and what it says it holds."""

    seconds: float
    grown_bytes: int | None
    own_bytes: int | None


class Check(msgspec.Struct, frozen=True):
    """Its answers to the first queries, as ascending documents; single: of probe(), for a few.

    expected holds the right ones if its values are its own.
    """

    many: list[list[int]]
    single: list[list[int]]
    expected: list[list[int]] | None


class Died(DedupError):
    """A contender's process ended, or its structure raised."""


def write_data(data: Data, folder: Path) -> None:
    """Put data where the processes find it."""
    for name in ("stored", "later", "queries"):
        np.save(folder / f"{name}.npy", getattr(data, name))


class Process:
    """A contender that runs elsewhere; every call raises Died if that came to its end."""

    def __init__(self, name: str, child: "subprocess.Popen[bytes]") -> None:
        self.name, self._child = name, child

    def trial(self, count: int) -> Build:
        """Build it of the first few values, measure that, and forget it."""
        return msgspec.convert(self._ask("trial", count), Build)

    def build(self) -> Build:
        """Build it of all stored values."""
        return msgspec.convert(self._ask("build"), Build)

    def check(self, count: int) -> Check:
        """Answer the first `count` queries."""
        return msgspec.convert(self._ask("check", count), Check)

    def probe_us(self, seconds: float) -> float:
        """Probe one query a call for about so long; return microseconds a probe."""
        return float(self._ask("single", seconds))

    def batch_us(self, seconds: float) -> float:
        """Probe all at once for about so long; return microseconds a probe."""
        return float(self._ask("batch", seconds))

    def insert_rate(self, turn: int) -> float | None:
        """Insert the values of that turn; return values a second, None if it takes no more."""
        rate = self._ask("insert", turn)
        return None if rate is None else float(rate)

    def load_rate(self) -> float | None:
        """Save and load it; return values a second of the load, None if it cannot be saved."""
        rate = self._ask("load")
        return None if rate is None else float(rate)

    def _ask(self, what: str, argument: float = 0) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(msgspec.json.encode([what, argument]) + b"\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            code = self._child.wait()
            reason = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise Died(f"its process ended ({reason}); it may have lacked memory")
        answer, fault = msgspec.json.decode(line)
        if fault:
            raise Died(fault)
        return answer


@contextmanager
def start(entry: Entry, k: int, folder: Path) -> Iterator[Process]:
    """Start a contender over the data in a folder, and end it."""
    command = [sys.executable, __file__, entry.name, str(k), str(folder)]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=paths) as child:
        try:
            yield Process(entry.name, child)
        finally:
            assert child.stdin is not None
            try:
                child.stdin.close()
                child.wait(_ENDS_WITHIN_SECONDS)
            except BrokenPipeError:
                pass
            except subprocess.TimeoutExpired:
                child.kill()


# ------------------------------------------------------------------------------ in the process


class _Bench:
    """A contender, the data, and what is measured of them."""

    def __init__(self, make: Callable[[int], Contender], k: int, folder: Path) -> None:
        self._make, self._k, self._folder = make, k, folder
        self._stored: Array = np.load(folder / "stored.npy", mmap_mode="r")  # shared by all
        self._later: Array = np.load(folder / "later.npy")
        self._queries: Array = np.load(folder / "queries.npy")
        self._stored.max()  # read now, not when it is timed
        self._contender = make(k)
        if self._contender.values_of_its_own:  # near ones of these cannot be made
            known = self._queries[::2]
            known[:] = np.resize(self._stored, len(known))
        self._next = {"single": 0, "batch": 0}
        self._fill: dict[str, int] = {}

    def trial(self, count: float) -> Build:
        build = self._build(self._stored[: int(count)])
        self._contender = self._make(self._k)
        return build

    def build(self, _: float) -> Build:
        return self._build(self._stored)

    def _build(self, values: Array) -> Build:
        before, begin = _resident(), time.process_time()
        self._contender.build(values)
        seconds = time.process_time() - begin
        self._contender.documents_many(
            self._contender.probe_many(self._contender.batch(values[:1]))
        )
        after = _resident()
        grown = None if before is None or after is None else max(0, after - before)
        return Build(seconds, grown, self._contender.own_bytes())

    def check(self, count: float) -> Check:
        subject, queries = self._contender, self._queries[: int(count)]
        single = [
            sorted(subject.documents(subject.probe(query)))
            for query in subject.queries(queries[:_CHECKED_SINGLE])
        ]
        many = subject.documents_many(subject.probe_many(subject.batch(queries)))
        expected = None
        if subject.values_of_its_own:
            own = subject.own_values(self._stored), subject.own_values(queries)
            expected = brute_force(*own, self._k)
        return Check(many, single, expected)

    def single(self, seconds: float) -> float:
        def run(values: Array) -> float:
            queries, probe = self._contender.queries(values), self._contender.probe
            begin = time.process_time()
            for query in queries:
                probe(query)
            return time.process_time() - begin

        return self._turn("single", run, seconds, _MOST_SINGLE)

    def batch(self, seconds: float) -> float:
        def run(values: Array) -> float:
            batch = self._contender.batch(values)
            begin = time.process_time()
            self._contender.probe_many(batch)
            return time.process_time() - begin

        return self._turn("batch", run, seconds, len(self._queries))

    def _turn(self, kind: str, run: Callable[[Array], float], seconds: float, most: int) -> float:
        """Run it over as many queries as take about so long; every turn takes those that follow."""
        most = min(most, len(self._queries))
        count = self._fill.get(kind, 0)
        if not count:
            count, took = min(_FIRST_TRIED, most), 0.0
            while (took := run(self._take(kind, count))) < seconds / 8 and count < most:
                count = min(most, count * 4)
            count = min(most, max(1, round(count * seconds / max(took, 1e-6))))
            self._fill[kind] = count
        return run(self._take(kind, count)) / count * 1e6

    def _take(self, kind: str, count: int) -> Array:
        begin = self._next[kind]
        if begin + count > len(self._queries):
            begin = 0
        self._next[kind] = begin + count
        return self._queries[begin : begin + count]

    def insert(self, turn: float) -> float | None:
        if not self._contender.grows:
            return None
        values = self._later[int(turn)]
        first = len(self._stored) + int(turn) * len(values)
        begin = time.process_time()
        for start in range(0, len(values), _INSERTED):
            self._contender.insert(values[start : start + _INSERTED], first + start)
        return len(values) / max(time.process_time() - begin, 1e-9)

    def load(self, _: float) -> float | None:
        path = self._folder / f"saved-{os.getpid()}"
        try:
            if not self._contender.save(path):
                return None
            begin = time.process_time()
            loaded = self._contender.load(path)
            seconds = time.process_time() - begin
            del loaded
        finally:
            path.unlink(missing_ok=True)
        return (len(self._stored) + self._later.size) / max(seconds, 1e-9)


def _resident() -> int | None:
    """Return the bytes of this process's own that are in memory, where that can be told."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except (OSError, AttributeError):
        return None
    found = re.search(r"^RssAnon:\s*(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def main(name: str, k: str, folder: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a package prints is no answer
    try:
        bench: _Bench | None = _Bench(find(name).make, int(k), Path(folder))
        fault = ""
    except Exception as error:
        bench, fault = None, f"{type(error).__name__}: {error}"
    for line in sys.stdin.buffer:
        what, argument = msgspec.json.decode(line)
        answer = None
        try:
            if bench is not None:
                answer = getattr(bench, what)(argument)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        answers.write(msgspec.json.encode([answer, fault]) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
