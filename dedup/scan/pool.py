"""Many processes, one order: results come as if one process had read everything.

    tasks, in order -> a thread for each worker process -> batches by unit -> in input order

The rules kept here:
  - A worker reads one unit at a time and takes the next one in order.
  - What is ahead of its turn waits here up to a limit; then its worker waits.
  - A worker that dies ends the scan with an error; nothing is passed over.
"""

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator

import msgspec

from dedup.model.errors import DedupError
from dedup.scan.formats.inputs import shown
from dedup.scan.process import Order, read_frame, write_frame
from dedup.scan.reading import batches
from dedup.scan.scan_values import Batch, Reading, Result, Task

__all__ = ["read_all"]

AHEAD_BYTES = 1 << 26  # of results that wait for their turn
AHEAD_UNITS = 256  # units taken that wait for their turn

Part = tuple[Task, list[Result], bool]


def read_all(tasks: Iterator[Task], reading: Reading, processes: int) -> Iterator[Part]:
    """Yield the results of all tasks in order: the task, some results, whether they are its last.

    With one process everything happens in this one, as does stdin. Raises what listing the tasks
    raises, and DedupError if a worker process ends before its time.
    """
    if processes <= 1:
        for task in tasks:
            for batch in batches(task, reading):
                yield task, batch.results, batch.end
        return
    pool = _Pool(tasks, reading, processes)
    try:
        yield from pool.parts()
    finally:
        pool.close()


class _Pool:
    def __init__(self, tasks: Iterator[Task], reading: Reading, processes: int) -> None:
        self._tasks, self._reading = tasks, reading
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Task, deque[bytes]]] = deque()  # by turn
        self._held_bytes = 0
        self._exhausted = self._closed = False
        self._error: BaseException | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._encode = msgspec.msgpack.Encoder().encode
        self._threads = [
            threading.Thread(target=self._run, name=f"dedup-scan-{i}", daemon=True)
            for i in range(processes)
        ]
        for thread in self._threads:
            thread.start()

    def parts(self) -> Iterator[Part]:
        decode = msgspec.msgpack.Decoder(Batch).decode
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._error or self._is_due())
                if self._error is not None:
                    raise self._error
                if not self._waiting:
                    return
                task, frames = self._waiting[0]
                frame = frames.popleft()
                self._held_bytes -= len(frame)
                batch = decode(frame)
                if batch.end:
                    self._waiting.popleft()
                self._changed.notify_all()
            yield task, batch.results, batch.end

    def _is_due(self) -> bool:
        return bool(self._waiting[0][1]) if self._waiting else self._exhausted

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            workers = list(self._workers)
        for worker in workers:
            worker.kill()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        """Drive one worker process, from a thread of its own."""
        worker: subprocess.Popen[bytes] | None = None
        try:
            while (taken := self._take()) is not None:
                task, frames = taken
                worker = worker or self._start()
                self._drive(worker, task, frames)
        except BaseException as error:
            with self._changed:
                if not self._closed:
                    self._error = self._error or error
                self._changed.notify_all()
        finally:
            if worker is not None:
                assert worker.stdin is not None
                assert worker.stdout is not None
                worker.kill()
                worker.wait()
                for pipe in (worker.stdin, worker.stdout):
                    try:
                        pipe.close()
                    except OSError:  # an order that the worker no longer read
                        pass

    def _take(self) -> tuple[Task, deque[bytes]] | None:
        """Take the next task, once there is room ahead; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < AHEAD_UNITS)
            if self._closed or self._exhausted or self._error:
                return None
            task = next(self._tasks, None)
            if task is None:
                self._exhausted = True
                self._changed.notify_all()
                return None
            self._waiting.append((task, deque()))
            return self._waiting[-1]

    def _start(self) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            # not -m, which warns that the package has imported the module already
            [sys.executable, "-c", "from dedup.scan.process import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with self._changed:
            self._workers.append(worker)
        return worker

    def _drive(self, worker: subprocess.Popen[bytes], task: Task, frames: deque[bytes]) -> None:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            write_frame(worker.stdin, self._encode(Order(task, self._reading)))
        except BrokenPipeError:
            pass  # it has died: there is no frame to read, either
        end = False
        while not end:
            frame = read_frame(worker.stdout)
            if frame is None:
                code = worker.wait()
                raise DedupError(
                    f"{shown(task.unit.paths[0])}: the process that read it ended (code {code}); "
                    "what was done so far is kept"
                )
            end = _is_end(frame)
            with self._changed:
                self._changed.wait_for(lambda: self._has_room(frames) or self._closed)
                frames.append(frame)
                self._held_bytes += len(frame)
                self._changed.notify_all()

    def _has_room(self, frames: deque[bytes]) -> bool:
        return self._held_bytes < AHEAD_BYTES or self._waiting[0][1] is frames


def _is_end(frame: bytes) -> bool:
    """Whether a batch is the last of its unit, which its last byte tells (true in MessagePack)."""
    return frame.endswith(b"\xc3")
