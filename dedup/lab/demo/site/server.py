"""Serves the demo site on loopback: in a thread, in the foreground, or in a process of its own.

    with serve(Site()) as url: ...            in a thread of this process
    serve_forever(Site(), port=8000)          until Ctrl-C
    with serve_in_child(pages=500) as url: ...
    python -m dedup.lab.demo.site.server --pages 500   what the line above starts

Invariant: it listens on 127.0.0.1 only, and a child ends with its parent: it reads its standard input,
which its parent holds open and never writes to, and stops at the end of it.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from dedup.lab.demo.site.site import Site

_ROBOTS = b"User-agent: *\nAllow: /\n"
_CHILD_ENDS_WITHIN_SECONDS = 10


class _Server(ThreadingHTTPServer):
    """One site, a counter of requests, and the log of them."""

    request_queue_size = 128

    def __init__(self, site: Site, port: int, log: str | Path | None) -> None:
        self.site = site
        self.ticks = count(1)
        self._log_lock = Lock()
        # server_close() closes it: a log lives as long as its server.
        self._log = Path(log).open("a", encoding="utf-8") if log else None  # noqa: SIM115
        super().__init__(("127.0.0.1", port), _Handler)  # closes what is open if it fails

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def note(self, line: str) -> None:
        """Append a line to the log, at once readable by others."""
        with self._log_lock:
            if self._log is not None and not self._log.closed:
                print(line, file=self._log, flush=True)

    def server_close(self) -> None:
        super().server_close()
        with self._log_lock:
            if self._log is not None:
                self._log.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a client that went away; anything else is a fault worth seeing."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"  # keep-alive
    timeout = 60  # seconds until an idle connection is closed
    wbufsize = -1  # one write per response
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.server.note(f"{self.command} {self.path}")
        if self.path == "/robots.txt":
            status, content_type, body = 200, "text/plain; charset=utf-8", _ROBOTS
        else:
            status, content_type, body = self.server.site.render(self.path, next(self.server.ticks))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """The log file has it already."""


@contextmanager
def serve(site: Site, port: int = 0, log: str | Path | None = None) -> Iterator[str]:
    """Serve the site from a thread; give its base URL, without a slash at the end.

    log  a file to which each request appends one line, "METHOD path"
    Raises OSError if the port (0: any free one) is taken or the log cannot be written.
    """
    with _Server(site, port, log) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), name="dedup-demo", daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def serve_forever(
    site: Site,
    port: int = 0,
    log: str | Path | None = None,
    ready: Callable[[str], object] = print,
) -> None:
    """Serve the site until Ctrl-C; `ready` is called with its base URL."""
    with _Server(site, port, log) as server, suppress(KeyboardInterrupt):
        ready(server.url)
        server.serve_forever()


@contextmanager
def serve_in_child(pages: int = 500, seed: int = 1, log: str | Path | None = None) -> Iterator[str]:
    """Serve a site from a process of its own, so that a crawler's CPU time is the crawler's alone.

    Gives the base URL. Raises RuntimeError if the child does not come up.
    """
    command = [
        sys.executable,
        "-m",
        "dedup.lab.demo.site.server",
        f"--pages={pages}",
        f"--seed={seed}",
    ]
    if log is not None:
        command.append(f"--log={log}")
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the crawler; the child hears of it by its stdin
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            url = child.stdout.readline().strip()
            if not url:
                raise RuntimeError(
                    f"the demo's server did not start: {' '.join(command)} ended with exit code "
                    f"{child.wait(_CHILD_ENDS_WITHIN_SECONDS)}; its error stands above"
                )
            yield url
        finally:
            child.stdin.close()
            try:
                child.wait(_CHILD_ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until standard input ends; say the base URL first."""
    parser = argparse.ArgumentParser(prog="python -m dedup.lab.demo.site.server")
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log")
    options = parser.parse_args(arguments)
    site = Site(options.pages, options.seed)
    with suppress(KeyboardInterrupt), serve(site, options.port, options.log) as url:
        print(url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
