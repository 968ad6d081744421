"""Which requests the HTTP port takes, and their bounds: checked before anything is done for them.

    connection (number, time) -> Guard: Host -> token, role -> content type -> body, as there is room -> the application

Invariants: when full, the connection that has been waited for longest is closed, so that connections
that say nothing keep no health check out. A body that finds no room is read no further until there is some. A request for another Host is refused, on loopback too (against DNS rebinding: a
web page in a browser of this machine could ask under a name of its own); so is a body that is not
declared as JSON, or as HTML for /v1/judge (a form of a web page could send another).
"""

import asyncio
import contextlib
import hashlib
import ipaddress
import logging
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable
from functools import partial
from importlib.resources import files
from time import monotonic
from typing import Any

import msgspec
from h11 import LocalProtocolError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config as UvicornConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dedup.model.addresses import LOCAL_NAMES
from dedup.service.connections import subject_of
from dedup.service.core.access import NO_ROLES, Caller, Tokens, check_role
from dedup.service.core.config import Limits
from dedup.service.core.refusal import Refused, log_rate_limited
from dedup.service.core.turns import Room
from dedup.service.http.bodies import PATH_ROLES, Failed, Fault
from dedup.service.http.judge import HTML_TYPES
from dedup.service.http.judge import PATH as JUDGE
from dedup.wire import resp

SMALL_BYTES = 1 << 14  # of a request; less is not counted
HURRY_SECONDS = 5.0  # for a request to be whole, while others wait for room
DRAIN_POLL_SECONDS = 0.02

log = logging.getLogger(__name__)

PAGE = (files("dedup.service.http") / "page.html").read_bytes()


def _hashes(tag: bytes) -> bytes:
    """Return how a browser knows what stands between tags of PAGE: it runs and takes nothing else."""
    found = re.findall(b"<%b>(.*?)</%b>" % (tag, tag), PAGE, re.DOTALL)
    return b" ".join(b"'sha256-%b'" % b64encode(hashlib.sha256(each).digest()) for each in found)


HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src %b; style-src %b; connect-src 'self'; "
        b"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        % (_hashes(b"script"), _hashes(b"style")),
    ),
]


class Guard:
    """Checks every request before it reaches the application."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: Iterable[str],
        limits: Limits,
        port: "HttpConnections",
    ) -> None:
        self._app = app
        self._port = port
        self._tokens = tokens
        self._hosts = frozenset(host.lower() for host in hosts) | frozenset(LOCAL_NAMES)
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            # h11 has already answered a client whose bytes were malformed
            with contextlib.suppress(LocalProtocolError):
                await send(message)

        client = scope["state"]["connection"]
        self._port.wait_for(client)
        try:
            await self._answer(client, scope, receive, send_with_headers)
        finally:
            self._port.answered(client)

    async def _answer(
        self, client: H11Protocol, scope: Scope, receive: Receive, send: Send
    ) -> None:
        refused = self._refused(scope)
        body = b""
        if refused is None and scope["method"] == "POST":
            read = await self._body(client, scope["path"], receive)
            if read is None:  # the client is gone, or h11 has answered its malformed bytes
                return
            body, refused = read
        self._port.carry_out(client)
        if refused is not None:
            await refused(scope, receive, send)
            return
        scope["state"]["hold"] = partial(self._port.hold, client)
        taken = False

        async def receive_body() -> Message:
            nonlocal taken
            if taken:
                return {"type": "http.disconnect"}
            taken = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_body, send)

    def _refused(self, scope: Scope) -> Response | None:
        headers = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_known_host(hosts[0]):
            return _refusal(403, "ERR", "Host header not allowed; add it with --host-name")
        given = dict(headers)
        needed = PATH_ROLES.get(scope["path"], "")
        if needed is not None:
            scheme, _, token = given.get(b"authorization", b"").partition(b" ")
            is_bearer = scheme.lower() == b"bearer" or not self._tokens.asked
            roles = self._tokens.roles_of(token.strip()) if is_bearer else NO_ROLES
            if not roles:
                answer = _refusal(401, "NOAUTH", "show the token: Authorization: Bearer <token>")
                answer.headers["www-authenticate"] = "Bearer"
                return answer
            try:
                check_role(scope["path"], needed, roles)
            except Refused as error:
                return _refusal(403, error.code, str(error))
            state = scope["state"]
            address = (scope["client"] or ("",))[0]
            state["caller"] = Caller(address, roles, subject_of(state["connection"].transport))
        if scope["method"] == "POST":
            kind = given.get(b"content-type", b"").split(b";")[0].strip().lower()
            is_page = scope["path"] == JUDGE and kind.decode("latin-1") in HTML_TYPES
            if kind != b"application/json" and not is_page:
                return _refusal(
                    415,
                    "ERR",
                    "the body must be JSON: Content-Type: application/json"
                    + (" (or a page: text/html)" if scope["path"] == JUDGE else ""),
                )
        return None

    async def _body(
        self, client: H11Protocol, path: str, receive: Receive
    ) -> tuple[bytes, Response | None] | None:
        """Return a body, or why it is refused; None if the client is gone."""
        limits = self._limits
        most = limits.judge_bytes if path == JUDGE else limits.body_bytes
        parts, length, held = [], 0, 0
        while (
            length <= 2 * most
        ):  # a body that is a little too long is read to its end, so that the answer arrives
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            length += len(part)
            if length <= most:
                parts.append(part)
                if length > SMALL_BYTES:
                    await self._port.hold(client, length - held)
                    held = length
            if not message.get("more_body", False):
                break
        if length > most:
            return b"", _refusal(413, "LIMIT", f"a body has up to {most:,} bytes")
        return b"".join(parts), None

    def _is_known_host(self, host: bytes) -> bool:
        """Whether a Host is one of this service's names, or an address: no web page can have these."""
        name = host.decode("latin-1").lower()
        if name.startswith("["):
            name, bracket, port = name[1:].partition("]")
            if not bracket or (port and not port.startswith(":")):
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


def _refusal(status: int, word: str, text: str) -> Response:
    answer = Response(
        msgspec.json.encode(Failed(Fault(word, text))), status, media_type="application/json"
    )
    answer.headers["connection"] = "close"  # what is left of the request is not read
    return answer


# -------------------------------------------------------------------------------------- connections


OTHER_PORT = resp.error(
    "ERR", "this is the HTTP port of a table service: Redis clients use the port of --listen"
)


class _Http(H11Protocol):
    """uvicorn's protocol; a client that speaks RESP is told so, where HTTP would wait for the rest of its line."""

    _is_new = True

    def data_received(self, data: bytes) -> None:
        """Take some bytes (asyncio's interface)."""
        if self._is_new and data.startswith(b"*"):
            self.transport.write(OTHER_PORT)
            self.transport.close()
            return
        self._is_new = False
        super().data_received(data)


class HttpConnections:
    """All connections of the port: their number, their time, and the bytes that they make us hold.

    open   by connection, those that were active last at the end: since when its client is waited for; None: the client
           waits for us
    ended  those that the service closed, by reason
    room   for the bodies of requests
    unread bytes of answers that are not read, when they were counted last

    Invariants: beyond the limit the connection that was waited for longest is closed; one whose request is carried out never
    is. uvicorn itself answers no more than twice as many.
    """

    def __init__(self, limits: Limits, room: Room) -> None:
        self.open: dict[H11Protocol, float | None] = {}
        self.ended: Counter[str] = Counter()
        self.room = room
        self.unread = 0
        self._limits = limits
        self._idle_seconds = min(limits.idle_seconds, 60)
        self._state = ServerState()
        logging.getLogger("uvicorn.error").addFilter(_now_and_then)

    def serve(self, app: ASGIApp) -> None:
        """Answer requests with an application."""
        self._config = UvicornConfig(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(self._idle_seconds),
            limit_concurrency=2 * self._limits.http_connections,
        )
        self._config.load()

    def __call__(self) -> H11Protocol:
        """Return the protocol of a new connection."""
        if len(self.open) >= self._limits.http_connections:
            waited_for = (each for each, since in self.open.items() if since is not None)
            if (victim := next(waited_for, None)) is not None:
                self._end(victim, "silent")
        state: dict[str, Any] = {}
        made = state["connection"] = _Http(self._config, self._state, state)
        self.open[made] = monotonic()
        return made

    def wait_for(self, client: H11Protocol, seconds: float = 0.0) -> None:
        """Note that a client is waited for: for its request, or in so many seconds for the next one."""
        if client in self._state.connections:
            self.open.pop(client, None)  # its place is the last one
            self.open[client] = monotonic() + seconds

    def carry_out(self, client: H11Protocol) -> None:
        """Note that the request of a client is whole."""
        self.open[client] = None

    async def hold(self, client: H11Protocol, size: int) -> None:
        """Take room for bytes of a request; how long that takes is not the client's."""
        since, began = self.open.get(client), monotonic()
        self.open[client] = None
        await self.room.take(client, size)
        self.open[client] = None if since is None else since + monotonic() - began

    def answered(self, client: H11Protocol) -> None:
        """Give the room of a request back, and wait for the next one."""
        self.room.leave(client)
        self.wait_for(client, self._idle_seconds)

    def end_overdue(self, now: float) -> None:
        """Close the connections that are beyond a time limit, or whose answers no one reads; called every second or so."""
        limits, unread = self._limits, dict[H11Protocol, int]()
        # where others wait for room, a client soon has sent what it holds room for
        seconds = HURRY_SECONDS if self.room.waiting else limits.request_seconds
        for client, since in list(self.open.items()):
            waited = 0.0 if since is None else now - since
            if client.transport is None:  # its TLS handshake may never end, which no one tells
                if waited > limits.greeting_seconds:
                    del self.open[client]
            elif client not in self._state.connections:
                del self.open[client]
            elif waited > seconds:
                self._end(client, "slow")
            else:
                unread[client] = client.transport.get_write_buffer_size()
        self.unread = sum(unread.values())
        for client in sorted(unread, key=unread.__getitem__, reverse=True):
            if self.unread <= limits.unread_http_memory:
                break
            self.unread -= unread[client]
            self._end(client, "memory")

    def _end(self, client: H11Protocol, reason: str) -> None:
        del self.open[client]
        self.ended[reason] += 1
        if client.transport is not None:
            client.transport.abort()

    def drain(self) -> None:
        """Answer the requests under way, then close."""
        for client in list(self._state.connections):
            client.shutdown()

    async def drained(self) -> None:
        """Wait until the last connection has closed."""
        while self._state.connections:  # noqa: ASYNC110 - uvicorn tells no one when one has closed
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    def abort(self) -> None:
        """Close what is left at once."""
        for client in list(self._state.connections):
            client.transport.abort()


def _now_and_then(record: logging.LogRecord) -> bool:
    """Log what uvicorn says of strangers' requests once a minute, in our words."""
    if record.levelno < logging.ERROR:
        log_rate_limited(log, "junk", "malformed HTTP request")
    else:
        error = record.exc_info[1] if record.exc_info else None
        log_rate_limited(log, f"http {type(error)}", record.getMessage(), error)
    return False
