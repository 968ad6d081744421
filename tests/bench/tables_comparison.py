"""dedup.Table beside other tables: every stored fingerprint within k.

    data, size, k -> each contender is built, and its answers compared with a plain search -> probes, in turns

Invariants: all have the same fingerprints and the same queries, on one core; what is measured is CPU time; every
answer to the first queries is compared with a plain search of all values, and a mistake is reported.
"""

import ctypes
import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from contenders import CONTENDERS, Contender, Entry

from dedup.core.numbers import Array
from dedup.lab.bench import Bench, Progress, Round
from dedup.lab.bench.tables import (
    GENERATED,
    Data,
    brute_force,
    check_data,
    cpu_seconds,
    cpu_us,
    make_data,
)
from dedup.model.errors import DedupError, UsageError

TRIAL_VALUES = 20_000
CHECK_WORK = 400_000_000  # comparisons of the plain search, at most, but for:
CHECK_LEAST, CHECK_MOST = 16, 200
CHECKED_SINGLE = 16
INSERTED = 10_000  # a call
MOST_SINGLE = 50_000  # probes of a turn: their queries are Python objects


class LeftOut(DedupError):
    """A contender cannot take part."""


@contextmanager
def open_case(
    data: str,
    size: int,
    distance: int,
    alone: bool,
    only: str | None,
    build_seconds: int,
    build_gigabytes: int,
    progress: Progress | None = None,
) -> Iterator[Bench]:
    """Build every contender that is installed.

    alone  ours only; only: those whose names contain one of these texts (semicolons between)

    Raises UsageError for data that is not there or too little, OSError if it cannot be read.
    """
    del progress
    check_data(data)
    entries = _entries(alone, only)
    made = make_data(data, size, 1, distance)
    values = np.concatenate([made.stored, made.later[0]])
    count = min(max(CHECK_LEAST, CHECK_WORK // len(values)), CHECK_MOST)
    expected = brute_force(values, made.queries[:count], distance)
    running: dict[str, _Running] = {}
    left_out: dict[str, str] = {}
    for entry in entries:
        try:
            if not entry.installed():
                raise LeftOut("not installed; run: pip install --group bench")
            if entry.trial:
                _try(entry, made, data, distance, build_seconds, build_gigabytes * 1e9)
            running[entry.name] = _Running(entry.make(distance), made, distance, expected)
        except Exception as error:  # whatever a package raises
            left_out[entry.name] = str(error) or repr(error)
    if not running:
        raise DedupError(f"nothing could be measured: {left_out}")

    def measure() -> Round:
        return {name: one.turn() for name, one in running.items()}

    facts: dict[str, Any] = {"data": data if data in GENERATED else Path(data).name}
    facts |= {"stored": len(made.stored), "distance": distance, "checked": count}
    facts["matches a probe"] = sum(map(len, expected)) / count
    facts |= {f"left out, {name}": reason for name, reason in left_out.items()}
    yield Bench(facts, measure, ("faiss-cpu", "gaoya", "simhash", "numpy"), "us, batched")


def _entries(alone: bool, only: str | None) -> list[Entry]:
    named = None if only is None else only.split(";")
    found = [
        entry
        for entry in CONTENDERS
        if not (alone and entry.trial)
        and (named is None or any(part in entry.name for part in named))
    ]
    if not found:
        names = ", ".join(entry.name for entry in CONTENDERS)
        raise UsageError(f"no contender is called so; there are {names}")
    return found


def _try(entry: Entry, data: Data, kind: str, k: int, seconds: float, most_bytes: float) -> None:
    """Build a small one. Raises LeftOut where the whole would take more time or memory than this."""
    if kind != "uniform" and entry.uniform_only:
        raise LeftOut("takes texts, not fingerprints, so that its values are always uniform")
    size = len(data.stored)
    for tried in (
        min(TRIAL_VALUES, size),
        max(1, size // 10),
    ):  # what is large may be its empty form
        took, grown = _build(entry.make(k), data.stored[:tried])
        if took * size / tried > seconds:
            raise LeftOut(
                f"would take {took * size / tried:,.0f} s to build, more than {seconds:,}"
            )
        if (needed := (grown or 0) * size / tried) <= most_bytes:
            return
    raise LeftOut(f"would take {needed / 1e9:,.1f} GB, more than {most_bytes / 1e9:,.1f} GB")


def _build(contender: Contender, values: Array) -> tuple[float, int | None]:
    """Build it; return the seconds of CPU, and by how many bytes this process grew, where that can be told."""
    before, seconds = _resident(), cpu_seconds(lambda: contender.build(values))
    contender.probe_many(contender.batch(values[:1]))
    after = _resident()
    return seconds, None if before is None or after is None else max(0, after - before)


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


class _Running:
    """A contender that is built, and what was measured of it once."""

    def __init__(
        self, contender: Contender, data: Data, k: int, expected: Sequence[list[int]]
    ) -> None:
        self._contender, self._queries, self._turns = contender, data.queries.copy(), 0
        size, later = len(data.stored), data.later[0]
        seconds, grown = _build(contender, data.stored)
        self._once = {"build k/s": size / seconds / 1e3}
        held = grown or contender.own_bytes()
        if held is not None:
            self._once["B each"] = held / size
        values = data.stored
        if contender.grows:
            values = np.concatenate([values, later])

            def insert() -> None:
                for first in range(0, len(later), INSERTED):
                    contender.insert(later[first : first + INSERTED], size + first)

            self._once["insert k/s"] = len(later) / cpu_seconds(insert) / 1e3
        if contender.values_of_its_own:  # near ones of these cannot be made
            known = self._queries[::2]
            known[:] = np.resize(data.stored, len(known))
        asked = self._queries[: len(expected)]
        if contender.values_of_its_own or not contender.grows:
            expected = brute_force(contender.own_values(values), contender.own_values(asked), k)
        self._once["wrong"] = mistakes(contender, asked, expected)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            if contender.save(path):
                seconds = cpu_seconds(lambda: contender.load(path))
                self._once["load k/s"] = len(values) / seconds / 1e3

    def turn(self) -> dict[str, float]:
        """Return microseconds a probe, one query a call and many, and what was measured once."""
        contender, begin = self._contender, self._turns * MOST_SINGLE
        self._turns += 1

        def single(queries: Sequence[Any]) -> None:
            for query in queries:
                contender.probe(query)

        few = np.take(self._queries, np.arange(begin, begin + MOST_SINGLE), mode="wrap")
        all_of_them = np.roll(self._queries, -begin)
        return {
            "us a probe": cpu_us(single, few, contender.queries),
            "us, batched": cpu_us(contender.probe_many, all_of_them, contender.batch),
            **self._once,
        }


def mistakes(contender: Contender, queries: Array, expected: Sequence[list[int]]) -> int:
    """Return how many queries have an answer, in a batch or alone, that is not the expected one."""
    many = contender.documents_many(contender.probe_many(contender.batch(queries)))
    single = [
        sorted(contender.documents(contender.probe(query)))
        for query in contender.queries(queries[:CHECKED_SINGLE])
    ]
    return sum(
        got != want or (i < len(single) and single[i] != want)
        for i, (got, want) in enumerate(zip(many, expected, strict=True))
    )
