"""Read units, here or in worker processes: their records become what the judge needs of them, in input order.

    tasks, in order -> a thread for each worker process -> a bounded queue for each unit -> in input order

Invariants:
  - The results of a unit are the same however often it is read; `skip` counts them from its beginning.
  - A worker process reads one unit at a time. A full queue blocks its worker; beyond AHEAD_BATCHES no
    further unit is begun.
  - A worker that dies ends the scan with an error; nothing is skipped. It ends with its stdin, so that a
    scan that is killed leaves no process.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Full, Queue
from typing import IO

import msgspec

from dedup.core.fingerprint import PageReading, fingerprint_text, read_page
from dedup.model.errors import DedupError, UsageError
from dedup.model.forms import FIELD_BYTES
from dedup.model.names import document_key, registrable_domain
from dedup.model.page import PageFingerprint
from dedup.scan.records import read_files, read_lines, read_parquet
from dedup.scan.values import (
    Broken,
    Kind,
    Large,
    PageToJudge,
    RawPage,
    ReadingOptions,
    Result,
    ResultBatch,
    Skipped,
    Task,
    Unit,
    shown,
)
from dedup.scan.warc import read_wacz, read_warc
from dedup.store.templates import Templates

FILES = "files"  # the site of pages without a URL: the files of one input are of one site
BATCH_RESULTS = 64
BATCH_BYTES = 1 << 18  # of document keys, the one part that may be long

Raw = RawPage | Skipped | Broken


def batches(task: Task, reading: ReadingOptions) -> Iterator[ResultBatch]:
    """Yield the results of a unit in batches, the last of which says so."""
    results: list[Result] = []
    size = 0
    for result in read_task(task, reading):
        results.append(result)
        size += len(getattr(result, "key", ""))
        if len(results) == BATCH_RESULTS or size > BATCH_BYTES:
            yield ResultBatch(results, False)
            results, size = [], 0
    yield ResultBatch(results, True)


def read_task(task: Task, reading: ReadingOptions) -> Iterator[Result]:
    """Yield the results of a unit from number task.skip on."""
    name = shown(task.unit.paths[0])
    try:
        for raw in islice(raw_records(task.unit, reading), task.skip, None):
            yield result_of(raw, name, reading) if isinstance(raw, RawPage) else raw
    except OSError as error:
        yield Broken(0, name, "", error.strerror or str(error), rest=True)


_READERS: dict[Kind, Callable[[str, ReadingOptions], Iterator[Raw]]] = {
    "warc": read_warc,
    "wet": partial(read_warc, texts=True),
    "wacz": read_wacz,
    "parquet": read_parquet,
    "jsonl": read_lines,
}


def raw_records(unit: Unit, reading: ReadingOptions) -> Iterator[Raw]:
    """Yield the records of a unit as they are read. Raises OSError."""
    paths = [os.fsdecode(path) for path in unit.paths]
    if unit.kind == "html":
        return read_files(paths, reading)
    return _READERS[unit.kind](paths[0], reading)


def result_of(raw: RawPage, name: str, reading: ReadingOptions) -> PageToJudge | Large | Broken:
    """Return what the judge needs of a page in the file of that name."""
    if not (raw.key or raw.url):
        return Broken(raw.offset, name, raw.place, "it has no URL")
    try:
        key = raw.key or document_key(raw.url)
        size = len(key.encode())
    except ValueError as error:  # of w3lib, or a lone surrogate
        return Broken(raw.offset, name, raw.place, f"the URL {raw.url[:200]!r}: {error}")
    if size > FIELD_BYTES["key"]:
        return Broken(raw.offset, name, raw.place, f"its URL has {size:,} bytes")
    html, encoding = raw.html, raw.encoding
    if isinstance(html, str):
        html, encoding = html.encode("utf-8", "surrogatepass"), "utf-8"
    if len(html) > reading.max_bytes:
        return Large(raw.offset, key)
    domain = registrable_domain(raw.url) if raw.url else FILES
    if raw.is_text:
        page = fingerprint_text(html, recipe=reading.recipe)
        return PageToJudge(raw.offset, key, domain, page, raw.record)
    read = _read(html, encoding, raw.url or None, reading)
    return PageToJudge(raw.offset, key, domain, read.fingerprint, raw.record, read.blocks)


def learned(found: PageToJudge, templates: Templates) -> PageFingerprint:
    """Return the fingerprint of a page, whose blocks are counted for its site."""
    return templates.learned(found.page, found.blocks, found.domain)


def _read(
    html: bytes, encoding: str | None, url: str | None, reading: ReadingOptions
) -> PageReading:
    read = partial(read_page, html, url=url, recipe=reading.recipe, blocks=True)
    try:
        return read(encoding=encoding)
    except UsageError:  # the header names an unknown encoding: what the page itself declares counts
        return read()


# ------------------------------------------------------------------------------ worker processes

AHEAD_UNITS = 256  # that were begun before their turn
AHEAD_BATCHES = 1024  # of results before their turn, in all
UNIT_BATCHES = 256  # and of one unit

Part = tuple[Task, list[Result], bool]


class Order(msgspec.Struct, frozen=True):
    """The task of a worker process."""

    task: Task
    reading: ReadingOptions


def read_all(tasks: Iterator[Task], reading: ReadingOptions, processes: int) -> Iterator[Part]:
    """Yield the results of all tasks in order: the task, some results, whether they are its last.

    With one process everything is read in this one, as stdin must be. Raises what iterating the tasks
    raises, and DedupError if a worker process dies.
    """
    if processes <= 1:
        for task in tasks:
            for batch in batches(task, reading):
                yield task, batch.results, batch.end
        return
    with _Workers(reading, processes) as workers:
        window: deque[tuple[Task, _Unit]] = deque()
        while True:
            while len(window) < processes or (
                len(window) < AHEAD_UNITS
                and sum(unit.qsize() for _, unit in window) < AHEAD_BATCHES
            ):
                following = next(tasks, None)
                if following is None:
                    break
                window.append((following, workers.submit(following)))
            if not window:
                return
            task, unit = window[0]
            part = unit.get()
            if isinstance(part, BaseException):
                raise part
            if part.end:
                window.popleft()
            yield task, part.results, part.end


_Unit = Queue[ResultBatch | BaseException]  # the batches of a unit that wait for their turn


class _Workers(ThreadPoolExecutor):
    """Threads, each of which drives a worker process. At the exit they are killed."""

    def __init__(self, reading: ReadingOptions, processes: int) -> None:
        super().__init__(processes, "dedup-scan")
        self._reading = reading
        self._own = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def submit(self, task: Task) -> _Unit:  # type: ignore[override]
        unit: _Unit = Queue(UNIT_BATCHES)
        super().submit(self._read, task, unit)
        return unit

    def __exit__(self, *_: object) -> None:
        self._closed = True
        for process in self._processes:
            process.kill()
        self.shutdown(cancel_futures=True)
        for process in self._processes:
            process.kill()  # a thread may have started one after the others were killed
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with suppress(OSError):  # an order that the worker no longer read
                    pipe.close()

    def _read(self, task: Task, unit: _Unit) -> None:
        try:
            for batch in self._batches(task):
                self._put(unit, batch)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that judges, which raises it
            self._put(unit, error)

    def _put(self, unit: _Unit, batch: ResultBatch | BaseException) -> None:
        while not self._closed:
            with suppress(Full):
                unit.put(batch, timeout=0.5)
                return

    def _batches(self, task: Task) -> Iterator[ResultBatch]:
        process: subprocess.Popen[bytes] = getattr(self._own, "process", None) or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it has died: reading its answer finds that, too
            _write_frame(process.stdin, msgspec.msgpack.encode(Order(task, self._reading)))
        end = False
        while not end:
            frame = _read_frame(process.stdout)
            if frame is None:
                raise DedupError(
                    f"{shown(task.unit.paths[0])}: the process that read it ended (code "
                    f"{process.wait()}); the work done so far is kept"
                )
            batch = msgspec.msgpack.decode(frame, type=ResultBatch)
            end = batch.end
            yield batch

    def _start(self) -> "subprocess.Popen[bytes]":
        process = self._own.process = subprocess.Popen(
            # not -m, which warns that the package has imported the module already
            [sys.executable, "-c", "from dedup.scan.reading import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._processes.append(process)
        return process


def main() -> None:
    """Serve orders from stdin, until it ends; write batches to stdout.

    A frame is its length (4 bytes, big-endian) and MessagePack.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the scan's
    orders, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the frames
    decode, encode = msgspec.msgpack.Decoder(Order).decode, msgspec.msgpack.Encoder().encode
    try:
        while (body := _read_frame(orders)) is not None:
            order = decode(body)
            for batch in batches(order.task, order.reading):
                _write_frame(answers, encode(batch))
    except BrokenPipeError:
        os._exit(1)  # the scan has ended; nothing is left to flush


def _read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame; None at the end of the stream, also in the middle of a frame."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else None


def _write_frame(stream: IO[bytes], body: bytes) -> None:
    stream.write(len(body).to_bytes(4, "big") + body)
    stream.flush()
