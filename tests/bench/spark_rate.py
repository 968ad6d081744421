"""Judging fingerprints on one machine and in Spark's local mode, side by side.

    generated fingerprints -> a Parquet file -> the judge of `dedup scan` | judge_pages() -> compared

Invariants: both read the same file and write their verdicts; Spark's start is not counted, and
what it compiles on the way is warmed up on a small part first. Their verdicts on every page must be the
same. A third of the pages are near-duplicates of another one.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from runner import Bench, Progress, Round
from store_costs import sketch_of

from dedup.detector import EmbeddedDetector
from dedup.model.errors import DedupError, UsageError
from dedup.model.page import PageFingerprint
from dedup.model.recipes import NEWEST, recipe_of
from dedup.scan.scanner import Work
from dedup.scan.values import PageToJudge, ScanJob, Summary
from dedup.scan.verdicts import ScanJudge, to_line
from dedup.spark import judge_pages
from dedup.spark.fingerprints import FOUND, PAGE, of_columns, to_columns

NEAR = 0.3  # of the pages are near another one
WARM = 10_000
AT_ONCE = 1024


@contextmanager
def open_case(fingerprints: int, threads: int, progress: Progress | None = None) -> Iterator[Bench]:
    """Measure both ways. Raises UsageError without Java, DedupError if they do not agree."""
    del progress
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder / "warm.parquet", min(WARM, fingerprints), seed=2)
        _write(folder / "all.parquet", fingerprints, seed=1)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        session = _session(threads, folder)
        facts = {"fingerprints": fingerprints, "distance": recipe_of().distance}

        def measure() -> Round:
            seconds, statuses = _plain(folder)
            spark = _spark(session, folder, "all")
            _check(folder, statuses)
            facts["near_duplicates"] = statuses.count("near_duplicate")
            return {"one machine": {"s": seconds}, "Spark": {"s": spark}}

        try:
            _spark(session, folder, "warm")
            yield Bench(facts, measure, packages=("pyspark", "pyarrow"), ratio="s")
        finally:
            session.stop()


def _write(path: Path, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    value, identity = (rng.integers(0, 2**64, count, dtype=np.uint64) for _ in range(2))
    near = rng.random(count) < NEAR
    source = rng.integers(0, count, count)
    bit = np.uint64(1) << rng.integers(0, 64, count, dtype=np.uint64)
    value[near] = value[source[near]] ^ bit[near]
    pages = [
        to_columns(PageFingerprint(v, sketch_of(v), i, 300, NEWEST))
        for v, i in zip(value.tolist(), identity.tolist(), strict=True)
    ]
    columns = {
        "position": np.arange(count),
        "kind": ["page"] * count,
        "key": [f"http://s{n % 997}.example.com/{n}.html" for n in range(count)],
        "domain": [f"s{n % 997}.example.com" for n in range(count)],
        **dict(zip(PAGE[2:], map(list, zip(*pages, strict=True)), strict=True)),
        "path": [""] * count,
        "place": [""] * count,
        "reason": [""] * count,
        "rest": [False] * count,
    }
    parquet.write_table(pa.table(columns, schema=FOUND), path, row_group_size=max(1, count // 8))


def _plain(folder: Path) -> tuple[float, list[str]]:
    """Judge them as `dedup scan` does; return the seconds, and each page's status."""
    begin = time.perf_counter()
    recipe, job = recipe_of(), ScanJob(inputs=(), output=str(folder / "plain.jsonl"))
    statuses: list[str] = []
    with TemporaryDirectory(dir=folder) as name:
        work = Work(Path(name) / "work", job, recipe, None)
        over = EmbeddedDetector.over(work.memory, recipe, job.options.policy(recipe))
        judge = ScanJudge(over, False, Summary())
        lines: list[bytes] = []
        for batch in parquet.ParquetFile(folder / "all.parquet").iter_batches(
            AT_ONCE, columns=list(PAGE)
        ):
            columns = (column.to_pylist() for column in batch.columns)
            for key, domain, *fields in zip(*columns, strict=True):
                row = judge.take(PageToJudge(0, key, domain, of_columns(fields, recipe.id)))
                assert row is not None
                statuses.append(row.status)
                lines.append(to_line(row))
            work.commit(lines, work.position)
            lines.clear()
        work.close()
    return time.perf_counter() - begin, statuses


def _session(threads: int, folder: Path) -> SparkSession:
    try:
        session = (
            SparkSession.builder.master(f"local[{threads}]")
            .appName("tests/bench spark")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "3g")
            .config("spark.local.dir", str(folder))
            .config("spark.sql.shuffle.partitions", str(4 * threads))
            .getOrCreate()
        )
    except (PySparkRuntimeError, FileNotFoundError) as error:
        raise UsageError(f"Spark does not start ({error}); it needs Java 17 or later") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _spark(session: SparkSession, folder: Path, name: str) -> float:
    begin = time.perf_counter()
    found = session.read.parquet(str(folder / f"{name}.parquet"))
    judge_pages(found).write.mode("overwrite").parquet(str(folder / f"{name}.verdicts"))
    return time.perf_counter() - begin


def _check(folder: Path, statuses: list[str]) -> None:
    table = parquet.read_table(folder / "all.verdicts", columns=["position", "status"])
    if table.sort_by("position")["status"].to_pylist() != statuses:
        raise DedupError("the two ways do not agree: that is a defect, please report it")
