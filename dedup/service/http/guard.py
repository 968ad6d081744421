"""Which requests the HTTP port takes, and their bounds: checked before anything is done for them.

    connection (number, times, bytes) -> Guard: Host -> token, role -> content type -> size -> the application

Invariants: when full, the connection that has been idle longest is closed, so that connections
that say nothing keep no health check out. A request for another Host is refused, on loopback too (against DNS rebinding: a
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
from collections.abc import Iterable
from importlib.resources import files
from time import monotonic

import msgspec
from h11 import LocalProtocolError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config as UvicornConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dedup.model.addresses import LOCAL_NAMES
from dedup.service.connections import (
    MANY_FILES,
    Buffers,
    Connections,
    address_of,
    file_of,
    subject_of,
)
from dedup.service.core.access import NO_ROLES, Caller, Tokens, check_role
from dedup.service.core.config import Limits
from dedup.service.core.refusal import Refused, log_rate_limited
from dedup.service.http.bodies import PATH_ROLES, Failed, Fault
from dedup.service.http.judge import HTML_TYPES
from dedup.service.http.judge import PATH as JUDGE

RESERVED_FILES = 16  # file descriptors kept free for stores
SMALL_BYTES = 1 << 14  # of a request; less is not counted

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
            # h11 has already answered a client whose bytes were malformed
            with contextlib.suppress(LocalProtocolError):
                await send(message)

        refused = self._refused(scope)
        body = b""
        if refused is None and scope["method"] == "POST":
            most = self._limits.judge_bytes if scope["path"] == JUDGE else self._limits.body_bytes
            read = await _body(receive, most)
            if read is None:  # the client is gone, or h11 has answered its malformed bytes
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
            is_page = scope["path"] == JUDGE and kind.decode("latin-1") in HTML_TYPES
            if kind != b"application/json" and not is_page:
                return _refusal(
                    415,
                    "ERR",
                    "the body must be JSON: Content-Type: application/json"
                    + (" (or a page: text/html)" if scope["path"] == JUDGE else ""),
                )
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


async def _body(receive: Receive, most: int) -> tuple[bytes, Response | None] | None:
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


class HttpConnections(Connections):
    """All connections of the port. One with a request in progress is never evicted."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        unread: Buffers,
        partial: Buffers,
        files: int = MANY_FILES,
    ) -> None:
        super().__init__(
            limits.http_connections, unread, partial, reserved_files=RESERVED_FILES, files=files
        )
        self.request_seconds = limits.request_seconds
        self._state = ServerState()
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
        return _HttpConnection(self._config, self._state, self)

    def end_overdue(self, now: float) -> None:
        """Close also the connections that take the last files.

        Many that come at once can take them all before one is closed; the event loop then accepts no more.
        """
        super().end_overdue(now)
        if over := sum(map(self.takes_last_files, self.open)):
            self.evict(over)


class _HttpConnection(H11Protocol):
    """One client."""

    def __init__(self, config: UvicornConfig, state: ServerState, port: HttpConnections) -> None:
        super().__init__(config, state, {})
        self._port = port
        self._since: float | None = monotonic()  # a request is under way; None: there is none
        self.address, self.file = "", -1
        self._taken = 0  # bytes of the request

    def _note_answered(self) -> None:
        """Note whether its request has come whole, and the answer is being made."""
        cycle = self.cycle
        if cycle is not None and not (cycle.response_complete or cycle.more_body):
            self._port.mark_active(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; at the limit the one that was idle longest is evicted."""
        super().connection_made(transport)
        self.address, self.file = address_of(transport), file_of(transport)
        self.app_state["subject"] = subject_of(transport)
        refused = self._port.admit(self)
        if refused is not None:
            self.abort(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the connection."""
        self._port.gone(self)
        super().connection_lost(exc)

    def overdue(self, now: float) -> str | None:
        """Return why it should end now, or None."""
        is_slow = self._since is not None and now - self._since > self._port.request_seconds
        return "slow" if is_slow else None

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self._port.ended[reason] += 1
        self._port.gone(self)
        self.transport.abort()

    def finish(self) -> None:
        """Answer the request under way, then close."""
        self.shutdown()

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        if self._since is None:
            self._since = monotonic()
            self._port.mark_idle(self)
        self._taken += len(data)
        if self._taken > SMALL_BYTES:
            self._port.partial.note(self, self._taken)
        super().data_received(data)
        self._note_answered()

    def pause_writing(self) -> None:
        """Note what the client does not read."""
        self._port.unread.note(self, self.transport.get_write_buffer_size())
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on."""
        self._port.unread.note(self, 0)
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = None
        self._port.mark_idle(self)
        if self._taken > SMALL_BYTES:
            self._port.partial.note(self, 0)
        self._taken = 0
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self._since = monotonic()  # another one was behind it
            self._note_answered()


def _now_and_then(record: logging.LogRecord) -> bool:
    """Log what uvicorn says of strangers' requests once a minute, in our words."""
    if record.levelno < logging.ERROR:
        log_rate_limited(log, "junk", "malformed HTTP request")
    else:
        error = record.exc_info[1] if record.exc_info else None
        log_rate_limited(log, f"http {type(error)}", record.getMessage(), error)
    return False
