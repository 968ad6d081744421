"""`dedup scan --engine spark`: the files of a job, read and judged by Spark.

    units -> a task each -> found (on disk) -> judge_pages -> rows in the order of the input -> the output

The files must lie where every worker sees them under the same path. The session is the one that
`spark-submit` or its configuration gives; without any it is one on this machine.

Invariant: the output and the summary are those of the other engine.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession

from dedup.model.errors import UsageError
from dedup.model.page import hex_fingerprint
from dedup.model.recipes import recipe_of
from dedup.scan.inputs import NotRead, list_units
from dedup.scan.reading import read_task
from dedup.scan.values import (
    STDIN,
    Broken,
    BrokenRecord,
    ReadingOptions,
    ScanJob,
    Skipped,
    Summary,
    Task,
    reading_of,
)
from dedup.scan.values import Row as Verdict
from dedup.scan.verdicts import check_outputs, count_other, count_row, finish, to_line
from dedup.spark.fingerprints import FOUND, batches, ddl, found_row, unsigned
from dedup.spark.verdicts import judge_pages
from dedup.store.templates import Templates

UNIT_SHIFT = 40  # results of a unit that have room in a position


def scan(job: ScanJob, *, fault: Callable[[BrokenRecord], None] | None = None) -> Summary:
    """Run a job on Spark and return its totals; call fault for every broken record.

    Raises UsageError for what this engine does not do (stdin, stdout, stores, resuming), and
    otherwise what dedup.scan.scan() does, and Spark's own errors.
    """
    _check(job)
    spark = _session()
    recipe = recipe_of(None, job.secret)
    summary = Summary()
    found = _found(spark, job, reading_of(job, recipe), summary)
    found = found.persist(StorageLevel.DISK_ONLY)
    try:
        others = found.where("kind in ('skipped', 'broken')").orderBy("position")
        for row in others.toLocalIterator():
            result = _other(row)
            count_other(summary, result, fault)
        verdicts = judge_pages(
            found,
            distance=job.distance,
            similarity=job.similarity,
            min_features=job.min_features,
            scope=job.scope,
            identity=job.identity,
            recipe=recipe,
        )
        _write(job, verdicts, summary)
    finally:
        found.unpersist()
    return summary


def _check(job: ScanJob) -> None:
    named = {
        "stdin": STDIN in job.inputs,
        "--output -": job.output == "-",
        "--store": job.store is not None,
        "--update": job.update,
        "--resume": job.resume,
        "--kept": job.kept is not None,
    }
    if wrong := [name for name, given in named.items() if given]:
        raise UsageError(
            f"--engine spark does not do {', '.join(wrong)}; leave it out, or use dedup.spark in a "
            "job of your own (docs/use/spark.md)"
        )
    check_outputs(job.output, job.report)


def _session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.appName("dedup scan").getOrCreate()


def _found(
    spark: SparkSession, job: ScanJob, reading: ReadingOptions, summary: Summary
) -> DataFrame:
    """Return what every record of the job's files comes to, each unit read by one task."""
    tasks = []
    not_read = NotRead()
    for number, unit in enumerate(list_units(job, not_read)):
        summary.files += len(unit.paths)
        summary.bytes += unit.bytes
        tasks.append((msgspec.msgpack.encode(Task(number, unit)),))
    summary.files_not_read = not_read.count
    summary.not_read_example = not_read.example
    folder = str(Path.cwd())  # paths are relative to it, wherever a worker runs
    template = spark.createDataFrame(
        spark.sparkContext.parallelize(tasks, len(tasks)), "task binary"
    )

    def read(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.chdir(folder)
        for part in parts:
            for packed in part.column(0):
                task = msgspec.msgpack.decode(packed.as_py(), type=Task)
                yield from batches(_rows(task, reading), FOUND)

    return template.mapInArrow(read, ddl(FOUND))


def _rows(task: Task, reading: ReadingOptions) -> Iterator[tuple[object, ...]]:
    first, templates = (
        task.number << UNIT_SHIFT,
        Templates(reading.recipe.id),
    )  # of the sites of this unit
    for number, result in enumerate(read_task(task, reading)):
        yield found_row(first + number, result, templates)


def _other(row: Row) -> Skipped | Broken:
    if row["kind"] == "skipped":
        return Skipped(0, row["reason"])
    return Broken(0, row["path"], row["place"], row["reason"], row["rest"])


def _write(job: ScanJob, verdicts: DataFrame, summary: Summary) -> None:
    """Write the verdicts in the order of the input, and the report."""
    with TemporaryDirectory(
        prefix=".dedup-scan-", dir=Path(job.output).parent if job.output else None
    ) as name:
        lines = Path(name) / "verdicts.jsonl"
        with lines.open("wb") as file:
            for row in verdicts.orderBy("position").toLocalIterator():
                verdict = _verdict(row)
                count_row(summary, verdict)
                file.write(to_line(verdict))
        finish(summary, lines, job.output, job.report)


def _verdict(row: Row) -> Verdict:
    is_read = row["value"] is not None
    return Verdict(
        row["key"],
        hex_fingerprint(unsigned(row["value"])) if is_read else None,
        bytes(row["sketch"]).hex() if is_read else None,
        row["features"],
        row["status"],
        row["reason"],
        row["of"],
        row["distance"],
        row["similarity"],
        row["identity"],
        row["cluster"],
    )
