"""Judge results in their order, count the verdicts, and write them as JSON lines or Parquet.

Invariants: the detector decides, as in a crawl; every page is inserted at once, so that the next one is
compared with it. An output appears atomically.
"""

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec

from dedup.core.files import replacing
from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.forms import to_columns
from dedup.model.page import ReserveOptions, Verdict, hex_fingerprint
from dedup.scan.values import (
    BROKEN_KEPT,
    Broken,
    Fault,
    Found,
    Large,
    Result,
    Row,
    Skipped,
    Summary,
)


class Judge:
    """Judges results in their order and counts them in a summary."""

    def __init__(
        self,
        detector: EmbeddedDetector,
        identity: bool,
        summary: Summary,
        fault: Callable[[Fault], None] | None = None,
    ) -> None:
        """Continue a summary; identity is as in Job; call fault for every broken record."""
        self.summary = summary
        self._detector, self._identity, self._fault = detector, identity, fault

    def take(self, result: Result) -> Row | None:
        """Return the verdict on a page; None for what is none. Raises what the store raises."""
        if isinstance(result, Found):
            row = self._judged(result)
        elif isinstance(result, Large):
            row = large_row(result.key)
        else:
            count_other(self.summary, result, self._fault)
            return None
        count_row(self.summary, row)
        return row

    def _judged(self, found: Found) -> Row:
        options = ReserveOptions(domain=found.domain, guard=self._identity)
        verdict = self._detector.accept(found.page, found.key, options)
        self.summary.siteless += self._identity and not found.domain
        return verdict_row(verdict)


def count_row(summary: Summary, row: Row) -> None:
    """Count a verdict."""
    summary.pages += 1
    match row.status:
        case "unique":
            summary.unique += 1
        case "refetch":
            summary.refetch += 1
        case "near_duplicate":
            assert row.distance is not None
            assert row.similarity is not None
            summary.near_duplicate += 1
            _add(summary.distances, row.distance)
            _add(summary.similarities, int(100 * row.similarity))
        case _:
            _add(summary.exempt, row.reason)


def count_other(
    summary: Summary, result: Skipped | Broken, fault: Callable[[Fault], None] | None = None
) -> None:
    """Count a result that is not a page; call `fault` for a broken record."""
    if isinstance(result, Skipped):
        _add(summary.skipped, result.reason)
        return
    found = Fault(result.path, result.place, result.reason)
    summary.broken += 1
    summary.unread_files += result.rest
    if len(summary.faults) < BROKEN_KEPT:
        summary.faults.append(found)
    if fault:
        fault(found)


def large_row(key: str) -> Row:
    """Return the verdict on a page that was too large to be read."""
    return Row(key, None, None, None, "exempt", "too_large", None, None, None, None, key)


def verdict_row(verdict: Verdict) -> Row:
    """Return a verdict as a row of the output."""
    page = verdict.page
    return Row(
        verdict.key,
        hex_fingerprint(page.value),
        page.sketch.hex(),
        page.features,
        *to_columns(verdict),
    )


def _add(counts: dict[Any, int], name: object) -> None:
    counts[name] = counts.get(name, 0) + 1


ROWS_AT_ONCE = 1 << 15
_TEXT = ("key", "value", "sketch", "status", "reason", "of", "identity", "cluster")
_SUFFIXES = (".jsonl", ".ndjson", ".parquet")

_encode = msgspec.json.Encoder().encode


def check_output(output: str) -> None:
    """Raise UsageError for an output with another suffix than one of verdicts, or that is not a file."""
    if not output.lower().endswith(_SUFFIXES):
        raise UsageError(f"{output}: verdicts are written to a file named {', '.join(_SUFFIXES)}")
    if Path(output).exists() and not Path(output).is_file():
        raise UsageError(f"{output}: not a regular file; give the name of a new one")


def to_line(row: Row) -> bytes:
    """Return a verdict as a line of JSON."""
    return _encode(row) + b"\n"


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the verdicts of a file of JSON lines."""
    decode = msgspec.json.Decoder(Row).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def publish(lines: Path, output: str) -> None:
    """Bring a file of JSON lines, which may move, to an output. Doing it once more changes nothing."""
    target = Path(output)
    if output.lower().endswith(".parquet"):
        with replacing(target) as file:
            _write_parquet(lines, file)
    elif lines.exists():  # else an earlier attempt has moved it
        _flush(lines)
        lines.replace(target)


def _write_parquet(lines: Path, file: IO[bytes]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    types: dict[str, Any] = {
        name: pa.string() if name in _TEXT else pa.int64() for name in Row.__struct_fields__
    }
    types["similarity"] = pa.float64()
    schema = pa.schema(list(types.items()))
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        rows = read_rows(lines)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            columns = [[getattr(row, name) for row in some] for name in types]
            arrays = [pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
