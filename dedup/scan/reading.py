"""Read a unit: its records become what the judge needs of them.

Invariant: the results of a unit are the same however often and from wherever it is read; `skip` counts
them from its beginning.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import islice

from dedup.core.fingerprint import fingerprint, fingerprint_text
from dedup.model.errors import UsageError
from dedup.model.names import document_key, registrable_domain
from dedup.model.page import PageFingerprint
from dedup.scan.formats.inputs import shown
from dedup.scan.values import (
    Batch,
    Broken,
    Found,
    Large,
    RawPage,
    Reading,
    Result,
    Skipped,
    Task,
)

KEY_BYTES = 1 << 16
FILES = "files"  # the site of pages without a URL: the files of one input are of one site
BATCH_RESULTS = 64
BATCH_BYTES = 1 << 18  # of document keys, the one part that may be long

Raw = RawPage | Skipped | Broken


def batches(task: Task, reading: Reading) -> Iterator[Batch]:
    """Yield the results of a unit in batches, the last of which says so."""
    results: list[Result] = []
    size = 0
    for result in read_task(task, reading):
        results.append(result)
        size += len(getattr(result, "key", ""))
        if len(results) == BATCH_RESULTS or size > BATCH_BYTES:
            yield Batch(results, False)
            results, size = [], 0
    yield Batch(results, True)


def read_task(task: Task, reading: Reading) -> Iterator[Result]:
    """Yield the results of a unit from number task.skip on."""
    path, name = os.fsdecode(task.unit.paths[0]), shown(task.unit.paths[0])
    try:
        raws, left = _reader(task, reading), task.skip
        if task.unit.kind in {"warc", "wet"} and task.offset:
            from dedup.scan.formats.warc import begins, read_warc

            texts = task.unit.kind == "wet"
            if begins(path, task.offset):
                raws = read_warc(path, reading, task.offset, task.record, texts=texts)
                left = 0
        for raw in islice(raws, left, None):
            yield result_of(raw, name, reading) if isinstance(raw, RawPage) else raw
    except OSError as error:
        yield Broken(0, name, "", error.strerror or str(error), rest=True)


def _reader(task: Task, reading: Reading) -> Iterator[Raw]:
    paths = [os.fsdecode(path) for path in task.unit.paths]
    match task.unit.kind:
        case "warc" | "wet":
            from dedup.scan.formats.warc import read_warc

            return read_warc(paths[0], reading, texts=task.unit.kind == "wet")
        case "wacz":
            from dedup.scan.formats.wacz import read_wacz

            return read_wacz(paths[0], reading)
        case "cdxj":
            from dedup.scan.formats.cdxj import read_selected

            return read_selected(paths[0], reading)
        case "parquet":
            from dedup.scan.formats.parquet import read_parquet

            return read_parquet(paths[0], reading)
        case "jsonl":
            from dedup.scan.formats.json_lines import read_lines

            return read_lines(paths[0], reading)
        case "html":
            return _read_files(paths, reading)


def _read_files(paths: Sequence[str], reading: Reading) -> Iterator[RawPage | Broken]:
    """Yield each HTML file as a page. Its path, as it was given, is its document key."""
    offset = 0
    for number, path in enumerate(paths, 1):
        key = shown(os.fsencode(path))
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a path as text
                html = file.read(reading.max_bytes + 1)
        except OSError as error:
            yield Broken(offset, key, "", error.strerror or str(error), rest=True)
            continue
        offset += len(html)
        yield RawPage("", key, html, None, offset, "", number)


def result_of(raw: RawPage, name: str, reading: Reading) -> Found | Large | Broken:
    """Return what the judge needs of a page in the file of that name."""
    if not (raw.key or raw.url):
        return Broken(raw.offset, name, raw.place, "it has no URL")
    try:
        key = raw.key or document_key(raw.url)
        size = len(key.encode())
    except ValueError as error:  # of w3lib, or a lone surrogate
        return Broken(raw.offset, name, raw.place, f"the URL {raw.url[:200]!r}: {error}")
    if size > KEY_BYTES:
        return Broken(raw.offset, name, raw.place, f"its URL has {size:,} bytes")
    html, encoding = raw.html, raw.encoding
    if isinstance(html, str):
        html, encoding = html.encode("utf-8", "surrogatepass"), "utf-8"
    if len(html) > reading.max_bytes:
        return Large(raw.offset, key, raw.record)
    if raw.is_text:
        page = fingerprint_text(html.decode("utf-8", "replace"), recipe=reading.recipe)
    else:
        page = _fingerprint(html, encoding, raw.url or None, reading)
    domain = registrable_domain(raw.url) if raw.url else FILES
    return Found(raw.offset, key, domain, page, raw.record)


def _fingerprint(
    html: bytes, encoding: str | None, url: str | None, reading: Reading
) -> PageFingerprint:
    try:
        return fingerprint(html, encoding=encoding, url=url, recipe=reading.recipe)
    except UsageError:  # the header names an unknown encoding: what the page itself declares counts
        return fingerprint(html, url=url, recipe=reading.recipe)
