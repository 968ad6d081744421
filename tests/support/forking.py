"""Processes that are forked from one that has imported Scrapy, which takes longer than to crawl a few pages.

    process = forked(folder, stderr)      crawling.main() in a process of its own; like subprocess.Popen

The one they are forked from imports what Scrapy's settings name, nothing of dedup and no reactor: each
crawl does that itself, as it does in a process that was started anew. It ends with the one that started it.
"""

import atexit
import contextlib
import gc
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

SUPPORT = str(Path(__file__).parent)


class Forked:
    """A process that was forked elsewhere: the part of subprocess.Popen that tests use."""

    def __init__(self, server: "_Server", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.ended(self.pid, 0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            self.returncode = self._server.ended(self.pid, 0.1)  # other threads wait, too
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it with -9."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


class _Server:
    """The process that forks, as seen from the one that asks it to."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=os.environ | {"PYTHONPATH": SUPPORT},
        )
        its.close()
        self._socket = ours
        self._rest = b""
        self._started = 0
        self._lock = Lock()
        self._codes: dict[int, int] = {}
        self._pid = os.getpid()
        atexit.register(self.close)

    def start(self, folder: Path, stderr: Path, environment: dict[str, str]) -> Forked:
        asked = {"folder": str(folder), "stderr": str(stderr), "environment": environment}
        with self._lock:
            self._started = 0
            self._socket.sendall(json.dumps(asked).encode() + b"\n")
            while not self._started:
                self._read()
            return Forked(self, self._started)

    def ended(self, pid: int, seconds: float) -> int | None:
        """Return the exit code of a process that has ended; look for news so long."""
        with self._lock:
            if pid not in self._codes and select.select([self._socket], [], [], seconds)[0]:
                self._read()
            return self._codes.pop(pid, None)

    def _read(self) -> None:
        """Note what the server says: what it has started, and how others ended."""
        part = self._socket.recv(65536)
        assert part, "the process that forks others has ended"
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "started" in said:
                self._started = said["started"]
            else:
                self._codes[said["ended"]] = said["code"]

    def close(self) -> None:
        if os.getpid() == self._pid:
            self._socket.shutdown(socket.SHUT_RDWR)
            self._process.wait()


_server: _Server | None = None


def forked(folder: Path, stderr: Path, environment: dict[str, str]) -> Any:
    """Crawl what lies in a folder, in a process of its own."""
    global _server
    if _server is None:
        _server = _Server()
    return _server.start(folder, stderr, environment)


# ------------------------------------------------------------------------ in the process that forks


def _import_scrapy() -> None:
    from scrapy.settings import default_settings

    named: list[Any] = [*vars(default_settings).values()]
    for value in named:
        if isinstance(value, dict):
            named += [*value, *value.values()]
        elif isinstance(value, str) and value.startswith("scrapy.") and "telnet" not in value:
            import_module(value.rpartition(".")[0])
    for name in ("crawling", "scrapy.core.downloader.handlers.http11", "lmdb", "msgspec"):
        import_module(name)
    assert "twisted.internet.reactor" not in sys.modules
    assert not [name for name in sys.modules if name.startswith(("dedup.scrapy", "dedup.store"))]


def _serve(connection: socket.socket) -> str | None:
    """Fork what is asked for and tell what ended; return in each child, and at the end None."""
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    lines = connection.makefile("r")
    gc.collect()
    gc.freeze()
    while True:
        ready = select.select([connection, wake], [], [])[0]
        if wake in ready:
            wake.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                _tell(connection, ended=ended[0], code=os.waitstatus_to_exitcode(ended[1]))
        if connection in ready:
            if not (line := lines.readline()):
                return None
            asked = json.loads(line)
            if pid := os.fork():
                _tell(connection, started=pid)
                continue
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for each in (lines, connection, wake, woken):
                each.close()
            return _become(**asked)


def _tell(connection: socket.socket, **said: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(json.dumps(said).encode() + b"\n")


def _become(folder: str, stderr: str, environment: dict[str, str]) -> str:
    """Be in the child what a program that was started there would be."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for path, number in ((os.devnull, 1), (stderr, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    random.seed()
    sys.path[0] = ""
    return folder


def main() -> None:
    _import_scrapy()
    connection = socket.socket(fileno=int(sys.argv[1]))
    if (folder := _serve(connection)) is not None:
        import crawling

        sys.argv = ["-c", folder]
        crawling.main()


if __name__ == "__main__":
    main()
