"""Which requests the HTTP port takes, and their bounds: checked before anything is done for them.

    connection (number, times) -> Guard: Host -> token -> content type -> size -> the application

The rules kept here: a request for another Host is refused, on loopback too (against DNS rebinding: a
web page in a browser of this machine could ask under a name of its own); so is a body that is not
declared as JSON (a form of a web page could send one).
"""

import asyncio
import hmac
import ipaddress
from collections.abc import Iterable
from time import monotonic

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config as UvicornConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dedup.service.core.limits import LOCAL_NAMES, Limits
from dedup.service.http.json_types import Failed, Fault

__all__ = ["Guard", "HttpConnections"]

OPEN_TO_ALL = (
    *("/", "/dashboard.css", "/dashboard.js"),  # what it shows is asked for with the token
    *("/livez", "/readyz", "/openapi.json"),
)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        b"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Guard:
    """Checks every request before it reaches the application."""

    def __init__(
        self, app: ASGIApp, token: str | None, hosts: Iterable[str], limits: Limits
    ) -> None:
        self._app = app
        self._token = None if token is None else f"bearer {token}".encode()
        self._hosts = frozenset(host.lower() for host in hosts) | frozenset(LOCAL_NAMES)
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        refused = self._refused(scope)
        body = b""
        if refused is None and scope["method"] == "POST":
            body, refused = await self._body(receive)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        taken = False

        async def receive_body() -> Message:
            nonlocal taken
            if taken:
                return {"type": "http.disconnect"}
            taken = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_body, send_with_headers)

    def _refused(self, scope: Scope) -> Response | None:
        headers = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_known_host(hosts[0]):
            return _refusal(403, "ERR", "this service has another Host: see --host-name")
        given = dict(headers)
        if self._token is not None and scope["path"] not in OPEN_TO_ALL:
            scheme, _, token = given.get(b"authorization", b"").partition(b" ")
            shown = scheme.lower() + b" " + token.strip()
            if not hmac.compare_digest(shown, self._token):
                answer = _refusal(401, "NOAUTH", "show the token: Authorization: Bearer <token>")
                answer.headers["www-authenticate"] = "Bearer"
                return answer
        if scope["method"] == "POST":
            kind = given.get(b"content-type", b"").split(b";")[0].strip().lower()
            if kind != b"application/json":
                return _refusal(415, "ERR", "the body must be JSON: Content-Type: application/json")
        return None

    def _is_known_host(self, host: bytes) -> bool:
        """Whether a Host is one of this service's names, or an address: no web page can have these."""
        name = host.decode("latin-1").lower()
        if name.startswith("["):
            name, bracket, _ = name[1:].partition("]")
            if not bracket:
                return False
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    async def _body(self, receive: Receive) -> tuple[bytes, Response | None]:
        most = self._limits.body_bytes
        parts, length = [], 0
        while (
            length <= 2 * most
        ):  # a body that is a little too long is read to its end, so that the answer arrives
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"", _refusal(400, "ERR", "the body is cut")
            part = message.get("body", b"")
            length += len(part)
            if length <= most:
                parts.append(part)
            if not message.get("more_body", False):
                break
        if length > most:
            return b"", _refusal(413, "LIMIT", f"a body has up to {most:,} bytes")
        return b"".join(parts), None


def _refusal(status: int, word: str, text: str) -> Response:
    answer = Response(
        msgspec.json.encode(Failed(Fault(word, text))), status, media_type="application/json"
    )
    answer.headers["connection"] = "close"  # what is left of the request is not read
    return answer


# -------------------------------------------------------------------------------------- connections


class HttpConnections:
    """All connections of the port: their number, and their times."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.limits = limits
        self.state = ServerState()
        self.refused = 0
        self._config = UvicornConfig(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(min(limits.idle_seconds, 60)),
        )
        self._config.load()

    def __call__(self) -> "_HttpConnection":
        """Return the protocol of a new connection."""
        return _HttpConnection(self._config, self.state, self)

    def end_overdue(self, now: float) -> None:
        """Close the connections whose request or answer takes too long."""
        for connection in list(self.state.connections):
            assert isinstance(connection, _HttpConnection)
            since = connection.since
            if since is not None and now - since > self.limits.request_seconds:
                connection.transport.abort()

    async def drain(self, seconds: float) -> None:
        """Let the requests under way end, within a time, and close the connections."""
        for connection in list(self.state.connections):
            connection.shutdown()
        if self.state.tasks:
            await asyncio.wait(list(self.state.tasks), timeout=seconds)
        for connection in list(self.state.connections):
            connection.transport.abort()


class _HttpConnection(H11Protocol):
    """One client."""

    def __init__(
        self, config: UvicornConfig, state: ServerState, everyone: HttpConnections
    ) -> None:
        super().__init__(config, state, {})
        self._everyone = everyone
        self.since: float | None = monotonic()  # since when a request is under way

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._everyone.limits.http_connections:
            self._everyone.refused += 1
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        if self.since is None:
            self.since = monotonic()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since = None
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self.since = monotonic()  # another one was behind it
