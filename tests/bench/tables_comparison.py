"""Every stored fingerprint within k: our tables beside others, in turns within one run.

    data, size, k -> a process each -> built -> answers compared -> probed in turns -> inserts, load

Invariants: what is compared has the same fingerprints, the same queries and one core; the
contenders take turns within each round, and a ratio compares times of one round; every answer of the
first queries is compared with a plain search of all stored values, and a mistake is reported.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec
from contender_process import Build, Died, Process, start, write_data
from contenders import CONTENDERS, Entry
from page_figures import figure_options, rate, rows, short, show

from dedup.cli import terminal
from dedup.cli.bench import numbers
from dedup.lab.bench import Machine, Samples, machine, samples
from dedup.lab.bench.tables import GENERATED, Data, brute_force, check_data, make_data
from dedup.model.errors import DedupError, UsageError

_TRIAL_VALUES = 20_000
_CHECK_WORK = 400_000_000  # comparisons of the plain search, at most, but for:
_CHECK_LEAST, _CHECK_MOST = 16, 200
_PACKAGES = ("crawl-dedup", "faiss-cpu", "gaoya", "simhash", "numpy")


class Plan(msgspec.Struct, frozen=True):
    """What is measured.

    data           kinds of data (tables_data.make_data)
    sizes          fingerprints stored; None: what the data suggests
    distances      every k
    rounds         turns of each contender
    turn_seconds   CPU time that a turn takes, about
    build_seconds  a peer that would take longer to build is left out
    build_bytes    and so is one that would take more memory
    peers          others beside ours
    only           if not empty: contenders whose names have one of these in them
    """

    data: Sequence[str]
    sizes: Sequence[int | None]
    distances: Sequence[int]
    rounds: int
    turn_seconds: float
    build_seconds: float
    build_bytes: float
    peers: bool
    only: Sequence[str] = ()


class Contender(msgspec.Struct, frozen=True):
    """What one structure takes. CPU time, one core.

    probe_us           microseconds a probe, one query a call from Python
    batch_us           microseconds a probe, many queries a call where there is such a call
    probe_ratio        its time to that of the first of ours, in the same round
    batch_ratio        and of batches
    build_per_second   fingerprints, all stored ones at once, once
    insert_per_second  fingerprints, batches of further ones; None: it is immutable
    load_per_second    fingerprints, from a file in the page cache, once; None: it cannot be saved
    grown_bytes        of its process for each fingerprint, documents included; None: not known
    own_bytes          what it says it holds for each fingerprint; None: it does not say
    checked, mistakes  queries whose answers were compared, and those that were wrong
    """

    name: str
    probe_us: Samples
    batch_us: Samples
    probe_ratio: Samples
    batch_ratio: Samples
    build_per_second: float
    insert_per_second: Samples | None
    load_per_second: float | None
    grown_bytes: float | None
    own_bytes: float | None
    checked: int
    mistakes: int


class Setting(msgspec.Struct, frozen=True):
    """One kind of data, size and k. matches: a probe's, on average, of those compared.

    left_out: contenders that could not take part, with the reason.
    """

    data: str
    size: int
    k: int
    matches: float
    contenders: list[Contender]
    left_out: list[str]


class TablesBench(msgspec.Struct, frozen=True):
    """The outcome. load: processes that ran or waited on the machine, at begin and end."""

    settings: list[Setting]
    rounds: int
    missing: list[str]
    load: tuple[float, float]
    machine: Machine


def bench_tables(plan: Plan, progress: Callable[[int, int], None] | None = None) -> TablesBench:
    """Measure all contenders that are installed, in every setting.

    Raises UsageError for data that is not there or too little, OSError if it cannot be read.
    """
    for kind in plan.data:
        check_data(kind)
    load = os.getloadavg()[0]
    entries = [
        entry
        for entry in CONTENDERS
        if (plan.peers or not entry.trial)
        and (not plan.only or any(part in entry.name for part in plan.only))
    ]
    if not entries:
        names = ", ".join(entry.name for entry in CONTENDERS)
        raise UsageError(f"no contender is called so; there are {names}")
    there = [entry for entry in entries if entry.installed()]
    settings: list[Setting] = []
    wanted = [(d, s, k) for d in plan.data for s in plan.sizes for k in plan.distances]
    for kind, size, k in wanted:
        data = make_data(kind, size, plan.rounds, k)
        settings.append(_measure(plan, kind, data, k, there))
        if progress:
            progress(len(settings), len(wanted))
    return TablesBench(
        settings=settings,
        rounds=plan.rounds,
        missing=[entry.name for entry in entries if entry.package and entry not in there],
        load=(load, os.getloadavg()[0]),
        machine=machine(*_PACKAGES),
    )


def _measure(plan: Plan, kind: str, data: Data, k: int, entries: Sequence[Entry]) -> Setting:
    left_out: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        write_data(data, folder)
        running: list[_Running] = []
        for entry in entries:
            process = stack.enter_context(start(entry, k, folder))
            try:
                running.append(_start(plan, entry, process, kind, len(data.stored)))
            except Died as error:
                left_out.append(f"{entry.name}: {error}")
        count = min(max(_CHECK_LEAST, _CHECK_WORK // len(data.stored)), _CHECK_MOST)
        expected = brute_force(data.stored, data.queries[:count], k)
        _each(running, left_out, lambda one: one.check(expected))
        for _ in range(plan.rounds):
            _each(running, left_out, lambda one: one.probe_turn(plan.turn_seconds))
            _each(running, left_out, lambda one: one.batch_turn(plan.turn_seconds))
        for _ in range(plan.rounds):
            _each(running, left_out, _Running.insert)
        _each(running, left_out, _Running.save_and_load)
    if not running:
        raise DedupError(f"nothing could be measured: {'; '.join(left_out)}")
    size = len(data.stored)
    return Setting(
        data=kind if kind in GENERATED else Path(kind).name,
        size=size,
        k=k,
        matches=sum(map(len, expected)) / len(expected),
        contenders=[_contender(one, running[0], size) for one in running],
        left_out=left_out,
    )


def _start(plan: Plan, entry: Entry, process: Process, kind: str, size: int) -> "_Running":
    """Return it built; raise Died with the reason if it cannot take part."""
    if entry.trial:
        if kind != "uniform" and entry.uniform_only:
            raise Died("takes texts, not fingerprints, so that its values are always uniform")
        tried = min(_TRIAL_VALUES, size)
        trial = process.trial(tried)
        seconds = trial.seconds * size / tried
        if seconds > plan.build_seconds:
            raise Died(f"would take {seconds:,.0f} s to build, more than {plan.build_seconds:,.0f}")
        if _grown(trial, size / tried) > plan.build_bytes:  # or what is large is its empty form
            trial, tried = process.trial(size // 10 or 1), size // 10 or 1
        if (grown := _grown(trial, size / tried)) > plan.build_bytes:
            raise Died(
                f"would take {grown / 1e9:,.1f} GB, more than {plan.build_bytes / 1e9:,.1f} GB"
            )
    return _Running(process, process.build())


def _grown(trial: Build, times: float) -> float:
    return (trial.grown_bytes or 0) * times


def _each(
    running: list["_Running"], left_out: list[str], call: Callable[["_Running"], None]
) -> None:
    """Let all take their turn; one that fails is measured no further."""
    for one in list(running):
        try:
            call(one)
        except Died as error:
            running.remove(one)
            left_out.append(f"{one.process.name}: {error}")


class _Running:
    """A contender's process, and what was measured of it so far."""

    def __init__(self, process: Process, build: Build) -> None:
        self.process, self.build = process, build
        self.probe: list[float] = []
        self.batch: list[float] = []
        self.inserts: list[float] = []
        self.loads: float | None = None
        self.checked = self.mistakes = 0

    def check(self, expected: list[list[int]]) -> None:
        answers = self.process.check(len(expected))
        right = expected if answers.expected is None else answers.expected
        self.checked = len(right)
        few = len(answers.single)
        self.mistakes = sum(
            got != want or (i < few and answers.single[i] != want)
            for i, (got, want) in enumerate(zip(answers.many, right, strict=True))
        )

    def probe_turn(self, seconds: float) -> None:
        self.probe.append(self.process.probe_us(seconds))

    def batch_turn(self, seconds: float) -> None:
        self.batch.append(self.process.batch_us(seconds))

    def insert(self) -> None:
        rate = self.process.insert_rate(len(self.inserts))
        if rate is not None:
            self.inserts.append(rate)

    def save_and_load(self) -> None:
        self.loads = self.process.load_rate()


def _contender(one: _Running, first: _Running, size: int) -> Contender:
    grown, own = one.build.grown_bytes, one.build.own_bytes
    return Contender(
        name=one.process.name,
        probe_us=samples(one.probe),
        batch_us=samples(one.batch),
        probe_ratio=samples([a / b for a, b in zip(one.probe, first.probe, strict=True)]),
        batch_ratio=samples([a / b for a, b in zip(one.batch, first.batch, strict=True)]),
        build_per_second=size / max(one.build.seconds, 1e-9),
        insert_per_second=samples(one.inserts) if one.inserts else None,
        load_per_second=one.loads,
        grown_bytes=None if grown is None else grown / size,
        own_bytes=None if own is None else own / size,
        checked=one.checked,
        mistakes=one.mistakes,
    )


# ------------------------------------------------------------------------------- the command


@figure_options("figures", plot=True)
@click.command(
    epilog="Example: python tests/bench tables --data values.txt --distances 3,6 --rounds 7"
)
@click.option(
    "--data",
    multiple=True,
    help="uniform, clustered or a file with a decimal fingerprint a "
    "line; may be given several times (default: uniform and clustered).",
)
@click.option(
    "--sizes",
    metavar="N,N",
    callback=numbers(2**31 - 2),
    help="Numbers of fingerprints stored (default: 1000000,10000000; four fifths of a file).",
)
@click.option(
    "--distances",
    metavar="K,K",
    callback=numbers(15),
    help="Distances to measure (default: 3,5,6,7).",
)
@click.option("--rounds", type=click.IntRange(1), help="How often each is measured (default: 5).")
@click.option(
    "--build-seconds",
    type=click.FloatRange(0),
    help="Skip a peer that would take longer to build (default: 120).",
)
@click.option(
    "--build-gigabytes",
    type=click.FloatRange(0),
    default=2,
    show_default=True,
    help="Skip a peer that would take more memory.",
)
@click.option(
    "--peers/--no-peers", default=True, show_default=True, help="Also measure other tables."
)
@click.option(
    "--only", multiple=True, metavar="TEXT", help="Measure only tables whose names contain this."
)
@click.option(
    "--quick", is_flag=True, help="Within two minutes: 1000000 stored, k = 3 and 6, three rounds."
)
def tables(
    data: tuple[str, ...],
    sizes: list[int] | None,
    distances: list[int] | None,
    rounds: int | None,
    build_seconds: float | None,
    build_gigabytes: float,
    peers: bool,
    only: tuple[str, ...],
    quick: bool,
    **given: Any,
) -> None:
    """Compare dedup.Table with other tables.

    Finds fingerprints within k bits. The others are Faiss, gaoya and 1e0ng/simhash, if installed
    (`pip install --group bench`). Each has its own process and one core. All answers to the first
    queries are compared with those of a plain search.
    """
    kinds = data or ("uniform", "clustered")
    usual = [1_000_000] if quick else [1_000_000, 10_000_000]
    found = all(kind in {"uniform", "clustered"} for kind in kinds)
    plan = Plan(
        data=kinds,
        sizes=sizes or (usual if found else [None]),
        distances=distances or ([3, 6] if quick else [3, 5, 6, 7]),
        rounds=rounds or (3 if quick else 5),
        turn_seconds=0.1 if quick else 0.3,
        build_seconds=(5 if quick else 120) if build_seconds is None else build_seconds,
        build_bytes=build_gigabytes * 1e9,
        peers=peers,
        only=only,
    )
    result = bench_tables(plan, terminal.progress("settings"))
    from tables_plot import plot

    show(result, given, _text, {"figures": in_markdown}, plot)


HEADERS = (
    "",
    "us a probe",
    "batched",
    "times the first (range)",
    "bytes",
    "build/s",
    "insert/s",
    "load/s",
    "wrong",
)


def _text(result: TablesBench) -> str:
    lines = [
        f"CPU time, one core each; medians of {terminal.count(result.rounds, 'round')}, "
        "ratios with their range",
        "",
    ]
    for setting in result.settings:
        lines += [
            f"{setting.size:,} {setting.data} fingerprints, k = {setting.k}, "
            f"{setting.matches:,.1f} matches a probe",
            terminal.table(HEADERS, [*map(_row, setting.contenders)]),
            *(f"left out: {reason}" for reason in setting.left_out),
            "",
        ]
    if result.missing:
        lines += [
            f"not installed, and so left out: {', '.join(result.missing)}; "
            "run: pip install --group bench",
            "",
        ]
    return "\n".join([*lines, f"load {_load(result)}; {result.machine.text()}"])


def in_markdown(result: TablesBench) -> str:
    """Return the figures for a page."""
    parts = [f"{result.machine.text()}. Load {_load(result)}; {result.rounds} rounds."]
    for setting in result.settings:
        parts += [
            f"### {setting.size:,} {setting.data}, k = {setting.k}",
            f"{setting.matches:,.1f} matches a probe.",
            rows(HEADERS, [*map(_row, setting.contenders)]),
        ]
        if setting.left_out:
            parts.append(f"Left out: {'; '.join(setting.left_out)}.")
    if result.missing:
        parts.append(f"Not installed, and so left out: {', '.join(result.missing)}.")
    return "\n\n".join(parts)


def _load(result: TablesBench) -> str:
    return "{:.1f} at the start, {:.1f} at the end".format(*result.load)


def _row(one: Contender) -> tuple[str, ...]:
    size = one.grown_bytes if one.grown_bytes is not None else one.own_bytes
    return (
        one.name,
        short(one.probe_us.median),
        short(one.batch_us.median),
        one.batch_ratio.text(2 if one.batch_ratio.median < 10 else 0),
        "-" if size is None else f"{size:,.0f}",
        rate(one.build_per_second),
        rate(one.insert_per_second.median if one.insert_per_second else None),
        rate(one.load_per_second),
        f"{one.mistakes} of {one.checked}",
    )
