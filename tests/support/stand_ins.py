"""What plugins fetch pages through, on loopback: a proxy, and the Zyte API.

    with stand_in() as there:
        there.url            GET http://site/page     as a proxy
                             POST /extract            as the Zyte API

It fetches each page itself, from where it is asked for, and notes by which way.
"""

import base64
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class StandIn(ThreadingHTTPServer):
    """Counts what it was asked for in `asked`: proxy, extract."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self.server.asked["proxy"] += 1
        status, body = _fetched(self.path)  # a proxy is sent the whole URL
        self._answer(status, "text/html; charset=utf-8", body)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked[self.path.rpartition("/")[2]] += 1
        status, body = _fetched(asked["url"])
        page = {"url": asked["url"], "statusCode": status}
        if asked.get("browserHtml"):
            page["browserHtml"] = body.decode()
        else:
            page["httpResponseBody"] = base64.b64encode(body).decode()
            page["httpResponseHeaders"] = [
                {"name": "content-type", "value": "text/html; charset=utf-8"}
            ]
        self._answer(200, "application/json", json.dumps(page).encode())

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _fetched(url: str) -> tuple[int, bytes]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """Serve until the block ends."""
    server = StandIn()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
