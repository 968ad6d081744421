"""Processes that are forked from one that has done their imports, which take longer than most of what tests do.

    forked("scrapy", code, arguments, stdout=..., stderr=...)    python -c CODE ARGUMENTS; like subprocess.Popen
    completed(code, arguments)                                   the same for what a service needs; like subprocess.run

The one they are forked from imports what other packages have for a crawl, or for the table service: nothing of
dedup that is under test, and no reactor. A child does that itself, as a process that was started anew does. The
process that forks is one for each process of tests, and ends with it.
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
import tempfile
import textwrap
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

# What a service or a worker imports of other packages.
SERVICE = (
    "aiokafka asyncio cramjam hiredis jinja2 lmdb msgspec numpy prometheus_client publicsuffixlist starlette.applications "
    "starlette.responses starlette.routing uvicorn.config uvicorn.server uvicorn.protocols.http.h11_impl uvloop "
    "w3lib.url click.shell_completion"
).split()


INSTALL_A_REACTOR = ("telnet", "ftp")  # modules of Scrapy, or what they import, in some versions


class Forked:
    """A process that was forked elsewhere: the part of subprocess.Popen that tests use."""

    def __init__(self, server: "_Server", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: Any = None
        self.stderr: Any = None
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


class _Server:
    """The process that forks, as seen from the one that asks it to."""

    def __init__(self, kind: str) -> None:
        self._socket, its = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, __file__, kind, str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            cwd="/",
        )
        its.close()
        self._rest = b""
        self._started = 0
        self._codes: dict[int, int] = {}
        self._lock = Lock()
        self._pid = os.getpid()
        atexit.register(self.close)

    def start(self, asked: dict[str, Any], *files: int) -> Forked:
        message = json.dumps(asked).encode()
        with self._lock:
            self._started = 0
            socket.send_fds(self._socket, [len(message).to_bytes(4, "big")], files)
            self._socket.sendall(message)
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


_servers: dict[str, _Server] = {}


def forked(
    kind: str,
    code: str,
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdout: Path = Path(os.devnull),
    stderr: Path | None = None,
) -> Any:
    """Run a program in a process of its own; without a file for stderr it and stdout are pipes.

    It is forked on Linux. On macOS what was forked may not use much of the system.
    """
    with ExitStack() as stack:
        paths = [] if stderr is None else [stdout, stderr]
        files: list[Any] = [stack.enter_context(path.open("ab")) for path in paths]
        if sys.platform != "linux":
            command = [sys.executable, "-c", code, *arguments]
            out, err = files or (subprocess.PIPE, subprocess.PIPE)
            return subprocess.Popen(command, cwd=cwd, env=env, stdout=out, stderr=err)
        pipes = [] if files else [os.pipe(), os.pipe()]
        files += [stack.enter_context(open(end, "wb")) for _, end in pipes]  # noqa: PTH123
        if kind not in _servers:
            _servers[kind] = _Server(kind)
        asked = {
            "code": code,
            "arguments": arguments,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        process = _servers[kind].start(asked, *(file.fileno() for file in files))
    if pipes:
        process.stdout, process.stderr = (open(end, "rb") for end, _ in pipes)  # noqa: SIM115, PTH123
    return process


def completed(
    code: str, arguments: Sequence[object], **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end in a process of its own, and return what it wrote."""
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code = textwrap.dedent(code)
        process = forked("service", code, words, stdout=out, stderr=err, **options)
        try:
            ended_with = process.wait(600)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, ended_with, out.read_text(), err.read_text())


# ------------------------------------------------------------------------ in the process that forks


def _import(kind: str) -> None:
    for name in SERVICE if kind == "service" else _named_by_scrapy():
        import_module(name)
    assert "twisted.internet.reactor" not in sys.modules
    under_test = ("dedup.scrapy", "dedup.service", "dedup.store", "dedup.detector", "dedup.core")
    assert not [name for name in sys.modules if name.startswith(under_test)]


def _named_by_scrapy() -> list[str]:
    from scrapy.settings import default_settings

    found, values = ["crawling", "lmdb", "msgspec"], [*vars(default_settings).values()]
    for value in values:
        if isinstance(value, dict):
            values += [*value, *value.values()]
        elif isinstance(value, str) and value.startswith("scrapy."):
            found.append(value.rpartition(".")[0])
    return [name for name in found if not name.endswith(INSTALL_A_REACTOR)]


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork what is asked for and tell what ended; return in each child, and at the end None."""
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests' Ctrl-C: they end this
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()
    while True:
        ready = select.select([connection, wake], [], [])[0]
        if wake in ready:
            wake.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                _tell(connection, ended=pid, code=os.waitstatus_to_exitcode(status))
        if connection not in ready:
            continue
        head, files, _, _ = socket.recv_fds(connection, 4, 2)
        if not head:
            return None
        asked = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        if pid := os.fork():
            for number in files:
                os.close(number)
            _tell(connection, started=pid)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, interrupted)
        for each in (connection, wake, woken):
            each.close()
        for number, target in zip(files, (1, 2), strict=True):
            os.dup2(number, target)
            os.close(number)
        return json.loads(asked)


def _tell(connection: socket.socket, **said: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(json.dumps(said).encode() + b"\n")


def main() -> None:
    """Serve until the other side ends; a child runs what it was asked for."""
    _import(sys.argv[1])
    asked = _serve(socket.socket(fileno=int(sys.argv[2])))
    if asked is None:
        return
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    random.seed()
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = ["", *paths]
    sys.argv = ["-c", *asked["arguments"]]
    sys.modules["__main__"] = program = ModuleType("__main__")
    exec(compile(asked["code"], "<string>", "exec"), vars(program))


if __name__ == "__main__":
    main()
