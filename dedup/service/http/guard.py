"""Which requests the HTTP port takes, and their bounds: checked before anything is done for them.

    connection (number, times, bytes) -> Guard: Host -> token, role -> content type -> size -> the application

Invariants: when full, the connection that has been idle longest is closed, so that connections
that say nothing keep no health check out. A request for another Host is refused, on loopback too (against DNS rebinding: a
web page in a browser of this machine could ask under a name of its own); so is a body that is not
declared as JSON (a form of a web page could send one).
"""

import asyncio
import contextlib
import ipaddress
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from time import monotonic

import msgspec
from h11 import LocalProtocolError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config as UvicornConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dedup.service.connections import Buffers, Handshake, address_of, file_of, subject_of
from dedup.service.core.limits import LOCAL_NAMES, Limits
from dedup.service.core.roles import NO_ROLES, Caller, Refused, Tokens, check_role, log_now_and_then
from dedup.service.http.bodies import PATH_ROLES, Failed, Fault

RESERVED_FILES = 16  # of those that may be open: for stores
SMALL_BYTES = 1 << 14  # of a request; less is not counted

log = logging.getLogger(__name__)

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

    def __init__(self, app: ASGIApp, tokens: Tokens, hosts: Iterable[str], limits: Limits) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = frozenset(host.lower() for host in hosts) | frozenset(LOCAL_NAMES)
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            # a client whose own bytes have ended its connection was told so already
            with contextlib.suppress(LocalProtocolError):
                await send(message)

        refused = self._refused(scope)
        body = b""
        if refused is None and scope["method"] == "POST":
            read = await self._body(receive)
            if read is None:  # the client is gone, or was told already what is wrong with its bytes
                return
            body, refused = read
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
            state["caller"] = Caller(address, roles, state["subject"])
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

    async def _body(self, receive: Receive) -> tuple[bytes, Response | None] | None:
        most = self._limits.body_bytes
        parts, length = [], 0
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
    """All connections of the port: their number, their times, and the bytes that they make us hold.

    ended   connections that the service closed, by reason
    files   how many files may be open in this process
    """

    def __init__(self, app: ASGIApp, limits: Limits, unread: Buffers, partial: Buffers) -> None:
        self.limits = limits
        self.unread, self.partial = unread, partial
        self.state = ServerState()
        self.ended: Counter[str] = Counter()
        self.files = 1 << 30
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
        logging.getLogger("uvicorn.error").addFilter(_now_and_then)

    def __call__(self) -> "_HttpConnection":
        """Return the protocol of a new connection."""
        return _HttpConnection(self._config, self.state, self)

    def __iter__(self) -> Iterator["_HttpConnection | Handshake"]:
        for connection in list(self.state.connections):
            assert isinstance(connection, _HttpConnection | Handshake)
            yield connection

    def __len__(self) -> int:
        return len(self.state.connections)

    def admit(self, client: Handshake, _: str, __: int) -> str | None:
        """Take a connection whose TLS handshake begins; another one makes room for it."""
        self.state.connections.add(client)  # type: ignore[arg-type]
        self.make_room(client)
        return None

    def gone(self, client: Handshake, _: str) -> None:
        """Note that a handshake is over."""
        self.state.connections.discard(client)

    def make_room(self, new: "_HttpConnection | Handshake") -> None:
        """End a connection if a new one is one too many.

        Of the address with the most connections the one that has waited for its client for longest;
        where all are being answered, the new one. Where files are short two are ended, until there
        are enough: they may all have been taken at once.
        """
        short = new.file > self.files - RESERVED_FILES
        if (len(self) > self.limits.http_connections or short) and not self._end_silent(
            2 if short else 1, new
        ):
            new.abort("too_many")

    def _end_silent(self, count: int, new: "_HttpConnection | Handshake | None" = None) -> bool:
        """End some connections that wait for their client, none of them new; False: there is none."""
        waiting = [each for each in self if each is not new and not each.is_answered]
        if not waiting:
            return False
        addresses = Counter(each.address for each in waiting)
        most = max(addresses, key=addresses.__getitem__)
        of_it = sorted((c for c in waiting if c.address == most), key=lambda c: c.turn_since)
        for connection in of_it[:count]:
            connection.abort("silent")
        return True

    def end_overdue(self, now: float) -> None:
        """Close the connections whose request or answer takes too long, and those that take the last files.

        Many that come at once have taken them before the first could be ended; then no other one is
        even told of.
        """
        for connection in self:
            if reason := connection.overdue(now):
                connection.abort(reason)
        if over := sum(each.file > self.files - RESERVED_FILES for each in self):
            self._end_silent(over)

    async def drain(self, seconds: float) -> None:
        """Let the requests under way end, within a time, and close the connections."""
        for connection in self:
            connection.shutdown()
        if self.state.tasks:
            await asyncio.wait(list(self.state.tasks), timeout=seconds)
        for connection in self:
            connection.transport.abort()


class _HttpConnection(H11Protocol):
    """One client.

    since       since when a request is under way; None: there is none
    turn_since  since when it is waited for what it is waited for now
    """

    def __init__(
        self, config: UvicornConfig, state: ServerState, everyone: HttpConnections
    ) -> None:
        super().__init__(config, state, {})
        self._everyone = everyone
        self.since: float | None = monotonic()
        self.turn_since = self.since
        self.address, self.file = "", -1
        self._taken = 0  # bytes of the request

    @property
    def is_answered(self) -> bool:
        """Whether its request has come whole, and the answer is being made."""
        cycle = self.cycle
        return cycle is not None and not (cycle.response_complete or cycle.more_body)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; another one makes room for it where they are too many."""
        super().connection_made(transport)
        self.address, self.file = address_of(transport), file_of(transport)
        self.app_state["subject"] = subject_of(transport)
        self._everyone.make_room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the connection."""
        self._everyone.unread.note(self, 0)
        self._everyone.partial.note(self, 0)
        super().connection_lost(exc)

    def overdue(self, now: float) -> str | None:
        """Return why it should end now, or None."""
        most = self._everyone.limits.request_seconds
        return "slow" if self.since is not None and now - self.since > most else None

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self._everyone.ended[reason] += 1
        self.connections.discard(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        if self.since is None:
            self.since = self.turn_since = monotonic()
        self._taken += len(data)
        if self._taken > SMALL_BYTES:
            self._everyone.partial.note(self, self._taken)
        super().data_received(data)

    def pause_writing(self) -> None:
        """Note what the client does not read."""
        self._everyone.unread.note(self, self.transport.get_write_buffer_size())
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on."""
        self._everyone.unread.note(self, 0)
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since = None
        self.turn_since = monotonic()
        if self._taken > SMALL_BYTES:
            self._everyone.partial.note(self, 0)
        self._taken = 0
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self.since = monotonic()  # another one was behind it


def _now_and_then(record: logging.LogRecord) -> bool:
    """Log what uvicorn says of strangers' requests once a minute, in our words."""
    if record.levelno < logging.ERROR:
        log_now_and_then(log, "junk", "malformed HTTP request")
    else:
        error = record.exc_info[1] if record.exc_info else None
        log_now_and_then(log, f"http {type(error)}", record.getMessage(), error)
    return False
