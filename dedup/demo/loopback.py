"""Serve made pages on loopback, in a thread or in a process of its own; and run such processes.

    pages (path -> status, content type, body) -> Server <- a crawler

It listens on 127.0.0.1 only. A child that serves pages ends with its parent: it reads its standard input, which its
parent holds open and never writes to, and stops at the end of it.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from dedup.model.errors import DedupError

Answer = tuple[int, str, bytes]  # status, content type, body
Pages = Callable[[str], Answer]  # by the path and query of a request


class Server(ThreadingHTTPServer):
    """Answers requests from pages; a line "METHOD path" for each goes to a log, if there is one.

    Raises OSError if the port (0: any free one) is taken or the log cannot be written.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, pages: Pages, port: int = 0, log: str | Path | None = None) -> None:
        self.pages = pages
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if log else None
        super().__init__(("127.0.0.1", port), _Handler)  # closes what is open if it fails

    @property
    def url(self) -> str:
        """The base URL, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_port}"

    def server_close(self) -> None:
        """Stop listening, and close the log."""
        super().server_close()
        log, self.log = self.log, None
        if log is not None:
            os.close(log)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away; report anything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"  # keep-alive
    timeout = 60  # seconds until an idle connection is closed
    wbufsize = -1  # one write per response
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.server.log is not None:
            os.write(self.server.log, f"{self.command} {self.path}\n".encode())
        status, content_type, body = self.server.pages(self.path)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Print nothing; the server's log has the request."""


@contextmanager
def serving(pages: Pages, port: int = 0, log: str | Path | None = None) -> Iterator[str]:
    """Serve from a thread until the block ends; give the base URL. Raises OSError as Server does."""
    with Server(pages, port, log) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), name="dedup-site", daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def serve_as_child(pages: Pages, start: str = "", log: str | Path | None = None) -> None:
    """Print the URL of a start page, and serve until standard input ends: the child of `child()`."""
    with suppress(KeyboardInterrupt), serving(pages, log=log) as url:
        print(f"{url}{start}", flush=True)
        sys.stdin.read()


def own_environment() -> dict[str, str]:
    """Return the environment without a Scrapy project's settings: they are not those of a demo or a benchmark."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SCRAPY_")}


@contextmanager
def running(*arguments: str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """Run Python with these arguments until the block ends, which ends it, too; its output is a pipe.

    options are those of subprocess.Popen. Ctrl-C is for its parent, which ends it.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command, environment = [sys.executable, *arguments], own_environment()
    with subprocess.Popen(
        command, env=environment, start_new_session=True, **pipes, **options
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()


@contextmanager
def child(*arguments: str) -> Iterator[str]:
    """Run Python with what calls serve_as_child() until the block ends; give the URL it prints.

    So a crawler's CPU time is the crawler's alone. Raises DedupError if it does not start.
    """
    with running(*arguments) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            code = process.wait(10)
            raise DedupError(f"the site's server ended with exit code {code}; its error is above")
        yield url
