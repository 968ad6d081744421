"""Table services, for an asyncio loop: their URLs, a connection to each, which is asked, and what it replies.

    redis://[:token@]host[:port], rediss:// for TLS, unix:///path: spelled as redis-py spells them
    connect -> HELLO 2 AUTH (what it is) -> connected, until it breaks
    send -> (written together, once a turn of the loop) -> replies, in the order of the commands
    execute -> the first service that is there -> replies; for one that fails the next, within the timeout again

Invariants: a caller waits at most timeout_seconds, and gets the reply, ReplyError, or ServiceUnavailable. A connection
without any reply for timeout_seconds is aborted, with all that was asked on it. It is made again by a task of its own,
less and less often, but at least every LONGEST_PAUSE_SECONDS. A service that is known to be away is not waited for. The
token is in an address and in no text made of it. There is no coroutine and no timer for each command: redis.asyncio
takes 15 times the CPU time with 16 commands under way.
"""

import asyncio
import logging
import re
import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from os import getpid
from socket import gethostname
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import hiredis
import msgspec

from dedup.core.faults import Backoff, SayOnce
from dedup.model.errors import ServiceUnavailable, UsageError
from dedup.wire.client.command_codec import Command, error_of, unreadable
from dedup.wire.resp import Answers, NotResp, pack
from dedup.wire.tls import client_tls

log = logging.getLogger("dedup")

PORT = 7700
SCHEMES = ("redis://", "rediss://", "unix://", "redis+unix://")
FORM = (
    "redis://[:token@]host[:port], rediss:// with ?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE, "
    "or unix://[:token@]/path"
)
_TLS_OPTIONS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}


class Address(msgspec.Struct, frozen=True):
    """A service's host and port, and how it is spoken to.

    token    what AUTH sends, or None
    tls      whether the connection is encrypted (rediss://)
    ca_file  the certificates to trust in place of the system's, or None
    cert_file, key_file  what the client shows of itself, or None
    path     of a Unix socket, in place of host and port; or None
    """

    host: str
    port: int
    token: str | None = None
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEMES[self.tls]}{host}:{self.port}"

    def __repr__(self) -> str:
        return f"<Address {self}>"

    def context(self) -> ssl.SSLContext | None:
        """Return what checks the service's certificate and shows our own, or None without TLS.

        Raises UsageError for a file that cannot be read.
        """
        if not self.tls:
            return None
        return client_tls(self, self.ca_file, self.cert_file, self.key_file)


def addresses_of(urls: str | Sequence[str]) -> tuple[Address, ...]:
    """Return the addresses of URLs in order of preference; a text holds them between commas.

    Raises UsageError saying what is wrong, without the token.
    """
    if isinstance(urls, str):
        urls = urls.split(",")
    if not urls:
        raise UsageError(f"no service URL is given; allowed is {FORM}")
    return tuple(_address(url) for url in urls)


Shards = Sequence[str | Sequence[str]]


def shards_of(urls: str | Shards, scope: str) -> list[tuple[Address, ...]]:
    """Return the addresses of each shard: texts are one shard in order of preference, lists of them a shard each.

    Raises UsageError, also for several shards in another scope than "site".
    """
    if isinstance(urls, str) or not any(isinstance(each, list | tuple) for each in urls):
        return [addresses_of(cast("str | Sequence[str]", urls))]
    shards = [addresses_of(each) for each in urls]
    if len(shards) > 1 and scope != "site":
        raise UsageError(
            f"{len(shards)} shards, each with the pages of its domains, need the scope 'site': in {scope!r} pages of all "
            "domains are compared, and no shard has all of them"
        )
    return shards


def _address(url: str) -> Address:
    if not isinstance(url, str):
        raise UsageError(f"service URL {url!r} is not allowed: {FORM}")
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError as error:
        raise UsageError(f"service URL {_shown(url)!r} is not allowed ({error}): {FORM}") from None
    is_unix, tls = "unix" in parts.scheme, parts.scheme == "rediss"
    known = f"{parts.scheme}://" in SCHEMES and not parts.fragment
    if is_unix:
        known = known and not host and port is None and len(parts.path) > 1
    else:
        known = known and bool(host) and parts.path in {"", "/", "/0"}
    known = known and options.keys() <= (
        _TLS_OPTIONS if tls else {"password"} if is_unix else set()
    )
    if not known or ("ssl_keyfile" in options and "ssl_certfile" not in options):
        raise UsageError(f"service URL {_shown(url)!r} is not allowed: {FORM}")
    return Address(
        host or "",
        PORT if port is None else port,
        unquote(parts.password) if parts.password else options.get("password"),
        tls,
        options.get("ssl_ca_certs"),
        options.get("ssl_certfile"),
        options.get("ssl_keyfile"),
        unquote(parts.path) if is_unix else None,
    )


def _shown(url: str) -> str:
    """Return a URL without its user, token and options."""
    scheme, separator, rest = url.strip().partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2].partition('?')[0]}"


# ------------------------------------------------------------------------------------ a connection

CLOSED, BROKE = "it closed the connection", "the connection broke"
GOODBYE_SECONDS = 0.5  # for a connection that is closed
WAITING_LIMIT = 10_000  # commands without a reply; beyond it a command is refused


def _own_name() -> bytes:
    """Return the name of this process in the service's `CLIENT LIST`: machine (or pod) and process id."""
    return re.sub(rb"[^!-~]", b"-", f"{gethostname()[:100]}:{getpid()}".encode())


class ReplyError(Exception):
    """The service's answer is an error: "-CODE message"."""


class ServiceConnection(asyncio.Protocol):
    """Bytes out, replies in. `lost` is done, with the reason, when the connection ended."""

    def __init__(self, timeout_seconds: float, meter: AbstractContextManager[Any]) -> None:
        """Be the protocol of loop.create_connection(); meter is entered around the work done."""
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout_seconds
        self._meter = meter
        self._transport: asyncio.Transport | None = None
        self._answers = Answers(ReplyError)
        self._out: list[bytes] = []
        self._due = False  # whether that is written in this turn of the loop
        self._waiting: deque[asyncio.Future[Any]] = deque()  # for their replies
        self._deadlines: deque[float] = deque()  # of those written, in their order
        self._expired = 0  # of the first ones: their callers have given up
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self._gone = asyncio.Event()  # nothing of it is in the loop any more

    def send(self, data: bytes) -> asyncio.Future[Any]:
        """Send a command; the future gets its reply. Never waits. Raises ServiceUnavailable."""
        if self.lost.done() or self._transport is None:
            raise ServiceUnavailable("the connection is closed")
        if len(self._waiting) >= WAITING_LIMIT:
            raise ServiceUnavailable(f"{WAITING_LIMIT} commands wait for an answer")
        self._out.append(data)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def close(self) -> None:
        """Close the connection; what is queued is sent, replies are not waited for."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        self._end("it was closed")

    async def wait_closed(self) -> None:
        """Wait until a connection that was closed has left the loop: with TLS it says good-bye before."""
        if self._transport is not None:
            try:
                await asyncio.wait_for(self._gone.wait(), GOODBYE_SECONDS)
            except TimeoutError:
                self._transport.abort()

    # ------------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (asyncio's interface)."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand out replies (asyncio's interface)."""
        with self._meter:
            self._heard = self._loop.time()
            try:
                for reply in self._answers.of(data):
                    self._hand_out(reply)
            except IndexError:
                self._abort("it sent more answers than commands")
            except (hiredis.ProtocolError, NotResp) as error:
                self._abort(f"its answer is not RESP ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        """End (asyncio's interface)."""
        self._end(f"{BROKE} ({exc})" if exc else CLOSED)
        self._gone.set()

    def _hand_out(self, reply: Any) -> None:
        caller = self._waiting.popleft()
        self._deadlines.popleft()
        if self._expired:
            self._expired -= 1
        if caller.done():  # expired, or cancelled
            return
        if isinstance(reply, ReplyError):
            caller.set_exception(reply)
        else:
            caller.set_result(reply)

    def _flush(self) -> None:
        self._due = False
        if not self._out or self._transport is None:
            return
        with self._meter:
            now = self._loop.time()
            if len(self._deadlines) == self._expired:
                self._heard = now  # no reply was due until now
            self._deadlines.extend([now + self._timeout] * len(self._out))
            self._transport.write(b"".join(self._out))
            self._out.clear()
            if self._timer is None:
                self._timer = self._loop.call_at(now + self._timeout, self._expire)

    def _expire(self) -> None:
        """End what is past its deadline; and the connection, if nothing was heard."""
        self._timer = None
        now = self._loop.time()
        while self._expired < len(self._deadlines) and self._deadlines[self._expired] <= now:
            caller = self._waiting[self._expired]
            self._expired += 1
            if not caller.done():
                caller.set_exception(self._late())
        if self._expired and now - self._heard >= self._timeout:
            self._abort(str(self._late()))
        elif self._expired < len(self._deadlines):
            self._timer = self._loop.call_at(self._deadlines[self._expired], self._expire)

    def _late(self) -> ServiceUnavailable:
        return ServiceUnavailable(f"no answer within {self._timeout:g} s")

    def _abort(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        if self.lost.done():
            return
        waiting, self._waiting = self._waiting, deque()
        self.lost.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
        self._out.clear()
        self._deadlines.clear()
        self._expired = 0
        for caller in waiting:
            if not caller.done():
                caller.set_exception(ServiceUnavailable(reason))


FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
# Nobody waits for a connection, and it takes some turns of a spider's loop, which may be busy.
CONNECT_SECONDS = 5.0


class Endpoint:
    """One service's address and its connection, which is reconnected with back-off.

    connection  None while there is none
    tried       set once the first attempt to connect is over
    refusals    the pauses after answers that it cannot do its work; an answer that it could ends them
    trouble     what is wrong, or was last
    """

    def __init__(
        self,
        address: Address,
        timeout_seconds: float,
        meter: AbstractContextManager[Any],
    ) -> None:
        """Begin to connect."""
        self.address = address
        self.connection: ServiceConnection | None = None
        self.refusals = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self.tried = asyncio.Event()
        self.trouble = f"no connection within {timeout_seconds:g} s, it is still tried"
        self._timeout = timeout_seconds
        self._meter = meter
        self._pause_until = 0.0  # of the loop's clock
        self._loop = asyncio.get_running_loop()
        self._once = SayOnce()
        self._task = self._loop.create_task(self._keep())

    @property
    def stands(self) -> bool:
        """Whether the service may be asked."""
        return self.connection is not None and self._loop.time() >= self._pause_until

    def send(self, data: bytes) -> asyncio.Future[Any]:
        """Send a command; the future gets its reply. Never waits. Raises ServiceUnavailable."""
        if self.connection is None:
            raise ServiceUnavailable(self.trouble)
        return self.connection.send(data)

    def refused(self, trouble: str) -> None:
        """Note that the service answers, but cannot do its work: it is not asked for a while."""
        self.trouble = trouble
        if self.stands:  # else others that were asked before the pause were refused as well
            self._pause_until = self._loop.time() + self.refusals.next()

    async def first_try(self) -> None:
        """Wait, no longer than the timeout, until the first attempt to connect is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.tried.wait(), self._timeout)

    async def close(self) -> None:
        """Close the connection; what is queued on it is sent."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
            await connection.wait_closed()
        await asyncio.sleep(0)  # one that was aborted ends in the next turn of the loop

    async def _keep(self) -> None:
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                async with asyncio.timeout(max(self._timeout, CONNECT_SECONDS)):
                    connection = await self._connect()
            except Exception as error:  # noqa: BLE001 - kept as the service's trouble; another one is asked
                self.trouble = _trouble(self.address, error)
                text = "the table service %s cannot be used (%s); pages are kept meanwhile"
                self._once.log(log, "away", text, self.address, self.trouble, level=logging.WARNING)
            else:
                self.connection = connection
                self.trouble = ""
                self.tried.set()
                if self._once.ended("away"):
                    log.info("the table service %s answers again", self.address)
                since = self._loop.time()
                self.trouble = f"{await connection.lost}; {RUNS}"
                self.connection = None
                if self._loop.time() - since > 1:
                    backoff.reset()
            self.tried.set()
            await asyncio.sleep(backoff.next())

    async def _connect(self) -> ServiceConnection:
        address = self.address
        made = partial(ServiceConnection, self._timeout, self._meter)
        if address.path is not None:
            _, connection = await self._loop.create_unix_connection(made, address.path)
        else:
            _, connection = await self._loop.create_connection(
                made, address.host, address.port, ssl=address.context()
            )
        try:
            login = () if address.token is None else (b"AUTH", b"default", address.token)
            hello = b"HELLO", b"2", *login, b"SETNAME", _own_name()
            if b"dedup" not in (facts := await connection.send(pack(hello))):
                raise unreadable(facts)
        except BaseException as error:
            connection.close()
            await connection.wait_closed()
            if isinstance(error, ReplyError):
                raise error_of(str(error)) from None
            raise
        return connection


RUNS = "see that `dedup serve` runs there"


def _trouble(address: Address, error: Exception) -> str:
    """Return why a service could not be connected to, and what to do."""
    said = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; name its authority in the URL: ?ssl_ca_certs=FILE"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection: {error.reason}; the URL of a service without TLS begins with redis://"
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s; see that the host and its port can be reached"
    if isinstance(error, OSError):
        return f"{said}; {RUNS}"
    has_ended = said.startswith((CLOSED, BROKE))  # before it answered
    if has_ended and not address.tls:
        return f"{said}; the URL of a service with TLS begins with rediss://"
    if has_ended and address.cert_file is None:
        return f"{said}; show a certificate if it asks for one: ?ssl_certfile=FILE&ssl_keyfile=FILE"
    return said


# ------------------------------------------------------------------------------------ the services

HOLDERS_LIMIT = 100_000  # tokens of which it is known who holds them


class Request:
    """A command, and the reply to it. Services are known by their numbers.

    data        what goes over the wire
    only        the service that is to be asked, None: the first that is there
    avoided     services that are not asked
    sent        the future of the reply of the service that is asked
    reply       the answer, or the DedupError that it stands for; None until then
    service     the one that is asked, or gave it; -1: none
    unanswered  services that may have carried it out, but did not answer
    """

    __slots__ = ("avoided", "data", "only", "reply", "sent", "service", "unanswered")

    def __init__(
        self, command: Command, only: int | None = None, avoided: frozenset[int] = frozenset()
    ) -> None:
        self.data = pack(command)
        self.only = only
        self.avoided = avoided
        self.sent: asyncio.Future[Any] | None = None
        self.reply: Any = None
        self.service = -1
        self.unanswered: frozenset[int] = frozenset()


class Services:
    """Services that hold the same documents, in order of preference. Made and used in one running loop.

    holders  which of them holds the reservation of a token, for the last HOLDERS_LIMIT ones
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        timeout_seconds: float,
        meter: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Begin to connect; meter is entered around the work done for the connections."""
        self.holders: dict[str, int] = {}
        meter = nullcontext() if meter is None else meter
        self._endpoints = [Endpoint(address, timeout_seconds, meter) for address in addresses]

    def begin(self, request: Request) -> None:
        """Send a request to the first service that is there; execute() waits for the reply. Never waits."""
        for number, endpoint in enumerate(self._endpoints):
            if (
                number in request.avoided
                or request.only not in {None, number}
                or not endpoint.stands
            ):
                continue
            with suppress(ServiceUnavailable):
                request.sent, request.service = endpoint.send(request.data), number
                return

    async def execute(self, request: Request) -> Any:
        """Send a request, unless it was begun, to the next service if one fails; return the reply.

        It is noted in the request, too: an error is the DedupError that it stands for, ServiceUnavailable where no service
        replied. Cancelled, the request names the service that may have carried it out.
        """
        while True:
            if request.sent is None:
                await self._first_tries(request)
                self.begin(request)
            if request.sent is None:
                request.reply, request.service = self.unavailable(), -1
                return request.reply
            endpoint = self._endpoints[request.service]
            try:
                reply = await request.sent
            except ReplyError as error:
                reply = error_of(str(error))
                if isinstance(reply, ServiceUnavailable):  # it cannot do its work
                    endpoint.refused(str(reply))
            except ServiceUnavailable as error:
                reply, endpoint.trouble = error, str(error)
                request.unanswered |= {request.service}
            except BaseException:
                request.unanswered |= {request.service}
                raise
            if not isinstance(reply, ServiceUnavailable):
                endpoint.refusals.reset()
                request.reply = reply
                return reply
            request.avoided |= {request.service}
            request.sent = None

    async def _first_tries(self, request: Request) -> None:
        """Wait until there is a service for a request, or connecting to each was tried."""
        for number, endpoint in enumerate(self._endpoints):
            if not endpoint.tried.is_set():
                await endpoint.first_try()
            if endpoint.stands and number not in request.avoided:
                return

    def note_holder(self, token: str, number: int) -> None:
        """Remember the service that holds a token."""
        self.holders[token] = number
        if len(self.holders) > HOLDERS_LIMIT:
            self.holders.pop(next(iter(self.holders)))

    def send_only(self, number: int, command: Command) -> None:
        """Send a service a command whose reply does not matter, if it is there."""
        if (connection := self._endpoints[number].connection) is not None:
            with suppress(ServiceUnavailable):
                connection.send(pack(command)).add_done_callback(_unread)

    def unavailable(self) -> ServiceUnavailable:
        """Return the error that says what is wrong with each service."""
        why = "; ".join(
            f"{each.address}: {each.trouble or 'it was not asked'}" for each in self._endpoints
        )
        return ServiceUnavailable(f"no table service can be used ({why})")

    async def close(self) -> None:
        """Close all connections. Nothing of them is left in the loop."""
        for endpoint in self._endpoints:
            await endpoint.close()


def _unread(future: asyncio.Future[Any]) -> None:
    """Take an error that no one waits for: else asyncio says that it was never retrieved."""
    if not future.cancelled():
        future.exception()
