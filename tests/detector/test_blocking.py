"""The detector of a service for threads: what its thread adds to the asynchronous one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from detecting import A, B, page
from network import Proxy
from services import Serving

import dedup
from dedup.detector.interface import AsyncDetector
from dedup.detector.remote import BlockingDetector
from dedup.model.errors import ServiceUnavailable, UsageError


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory):
    with Serving(tmp_path_factory.mktemp("service")) as serving:
        yield serving


def url(at: Serving | Proxy) -> str:
    return f"redis://127.0.0.1:{at.port}"


class Waiting:
    """An asynchronous detector whose forget() waits until it is cancelled."""

    recipe = policy = templates = None

    def __init__(self) -> None:
        self.begun, self.cancelled = threading.Event(), threading.Event()

    async def forget(self, key: str) -> bool:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return True

    async def close(self) -> None:
        pass


def over(waiting: Waiting) -> BlockingDetector:
    async def opening() -> AsyncDetector:
        return waiting  # type: ignore[return-value]

    return BlockingDetector(opening)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "dedup-client"]


def test_its_thread_ends_with_it(service):
    """After close(), and where it could not be opened, there is no thread of its own."""
    with dedup.open(url(service), namespace="thread", timeout_seconds=30):
        assert threads() == ["dedup-client"]
    assert threads() == []
    with pytest.raises(ServiceUnavailable):
        dedup.open("redis://127.0.0.1:1")
    assert threads() == []


def test_closing_ends_calls_under_way():
    """A call that waits in another thread meets UsageError, and so does every later one."""
    waiting = Waiting()
    detector = over(waiting)
    met: list[Exception] = []

    def call() -> None:
        try:
            detector.forget(A)
        except UsageError as error:
            met.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert waiting.begun.wait(60)
    detector.close()
    thread.join()
    assert str(met[0]) == "the detector is closed"
    assert waiting.cancelled.is_set()
    with pytest.raises(UsageError, match="closed"):
        detector.forget(A)


INTERRUPTED = """
import signal, sys, threading, time
sys.path[:0] = sys.argv[1:]
from test_blocking import Waiting, over

waiting = Waiting()
detector = over(waiting)

def interrupt():
    waiting.begun.wait()
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "wait":  # an interrupt before it cancels nothing
        time.sleep(0.001)
    signal.pthread_kill(main, signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    detector.forget("a")
except KeyboardInterrupt:
    assert waiting.cancelled.wait(60)
    detector.close()
    print("interrupted")
"""


def test_an_interrupt_cancels_the_call():
    """KeyboardInterrupt reaches the caller, and the coroutine is cancelled."""
    paths = [str(Path(__file__).parent), *sys.path]
    command = [sys.executable, "-c", INTERRUPTED, *paths]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_connections_of_its_own(service):
    """Parent and child go on with the same detector; neither reads what the other asked."""
    options: Any = {"namespace": "forked", "timeout_seconds": 30}
    with dedup.open(url(service), **options) as detector:
        original = detector.reserve(page(), A)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                said = detector.reserve(page(), B).status
                detector.close()
            except BaseException as error:
                said = repr(error)
            os.write(write, said.encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1000) == b"pending"
        detector.insert(original)
        assert detector.reserve(page(), B).of == A


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_it_is_imported_where_there_is_no_fork():
    """As on Windows: neither os.fork nor os.register_at_fork."""
    code = "import os; del os.fork, os.register_at_fork; import dedup, dedup.detector.remote"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
