"""A real `dedup serve` for tests: a process of its own, on ports that the system gives it.

    with Serving(folder) as service:
        service.client()
        service.kill()          # -9
        service.start()         # again, on the same folder

Nothing is left when the block ends; a service that does not end by itself within a bound is killed,
and that fails the test.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from forking import Forked, forked

from dedup.model.recipes import NEWEST

if TYPE_CHECKING:
    import redis

START_SECONDS = 180.0
STOP_SECONDS = 180.0
ANSWER_SECONDS = 120.0

RECIPE = NEWEST

_PROGRAM = "from dedup.cli import main; main()"
_WITH_LIMITS = """
import msgspec
from dedup.cli import main
from dedup.service import table_service
serve = table_service.run
def lowered(given, listening):
    limits = msgspec.structs.replace(given.limits, **{})
    serve(msgspec.structs.replace(given, limits=limits), listening)
table_service.run = lowered
main()
"""


class Serving:
    """A service, started on entering the block.

    port, http_port  where it listens
    log              its stderr so far, one JSON object a line
    """

    def __init__(
        self,
        path: Path,
        *options: object,
        token: str | None = None,
        wait: bool = True,
        limits: dict[str, float] | None = None,
        setup: str = "",
        **env: str,
    ) -> None:
        """limits replaces bounds of dedup.service.core.config.Limits that have no option.

        setup is Python that the process runs first, without limits.
        """
        self.path = path
        self.options = [str(option) for option in options]
        self.token = token
        self.env = os.environ | env
        self.env.pop("DEDUP_TOKEN", None)
        if token is not None:
            self.env["DEDUP_TOKEN"] = token
        self.program = _PROGRAM if limits is None else _WITH_LIMITS.format(limits)
        if setup:
            self.program = f"{setup}\n{_PROGRAM}"
        self.process: Forked | None = None
        self.wait = wait
        self.log: list[str] = []
        self._earlier = 0  # lines of earlier runs
        self._reading: list[threading.Thread] = []
        self.port = self.http_port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        try:
            assert self.stop() == 0 or kind is not None, "\n".join(self.log)
        finally:
            if self.process.poll() is None:
                self.kill()

    def start(self) -> None:
        """Start it, on its former ports if it had any, and wait until it is ready."""
        self._earlier = len(self.log)
        command = ["--debug", "serve", "--path", str(self.path), "--log", "json"]
        for option, port in (("--listen", self.port), ("--http", self.http_port)):
            if option not in self.options:
                command += [option, f"127.0.0.1:{port}"]
        self.process = forked("service", self.program, [*command, *self.options], env=self.env)
        lines: Queue[bytes] = Queue()
        self._reading = [
            threading.Thread(target=_read, args=each, daemon=True)
            for each in (
                (self.process.stdout, lines.put),
                (self.process.stderr, lambda line: self.log.append(line.decode().rstrip())),
            )
        ]
        for thread in self._reading:
            thread.start()
        try:
            where = json.loads(lines.get(timeout=START_SECONDS))["listening"]
        except (Empty, ValueError):
            self.process.kill()
            self.ended()
            raise AssertionError("the service did not start:\n" + "\n".join(self.log)) from None
        self.port = urlsplit(where.get("redis", "")).port or 0
        self.http_port = urlsplit(where.get("http", "")).port or 0
        if self.wait:
            self.wait_until_ready()

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until its log says so."""
        deadline = time.monotonic() + seconds
        while not any('"message":"ready' in line for line in self.log[self._earlier :]):
            assert self.process is not None
            assert self.process.poll() is None, "\n".join(self.log)
            assert time.monotonic() < deadline, "\n".join(self.log)
            time.sleep(0.01)

    def connect(self) -> socket.socket:
        """Return a plain connection to its RESP port."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS)

    def client(self, **options: Any) -> redis.Redis:
        """Return a client of its RESP port, as patient as the tests: redis-py's own waits for five seconds."""
        import redis

        patient = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
        return redis.Redis(port=self.port, **(patient | options))

    def get(self, path: str, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
        """Return status and body of an HTTP request; with a context, over TLS."""
        scheme = "http" if context is None else "https"
        try:
            with urllib.request.urlopen(
                f"{scheme}://127.0.0.1:{self.http_port}{path}",
                timeout=ANSWER_SECONDS,
                context=context,
            ) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    @property
    def resident_bytes(self) -> int:
        """Its memory, where /proc tells."""
        assert self.process is not None
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def kill(self) -> None:
        """Kill it with -9."""
        assert self.process is not None
        self.process.kill()
        self.ended()

    def stop(self) -> int:
        """Stop it with SIGTERM; return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end; return its exit status. The log is whole then."""
        assert self.process is not None
        code = self.process.wait(STOP_SECONDS)
        for thread in self._reading:
            thread.join(STOP_SECONDS)
        return code


def few_files(count: int) -> str:
    """Setup of a service that may open only so many files."""
    return f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({count}, {count}))"


def _read(pipe, take) -> None:
    with pipe:
        for line in pipe:
            take(line)
    take(b"")
