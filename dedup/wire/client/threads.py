"""The table services of a detector, for threads: redis-py's connections, and who is asked.

    ask_all -> a connection to each service of a route -> written to all, read from all -> replies;
               for one that fails, the next ones that hold what it held

The rule kept here: no call waits longer than the timeout for a connection, and as long for the
answer, of each service; one that fails again and again is asked ever more seldom (breaker.py). A
route is made of what the services at the other ends of these very connections hold.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast
from weakref import WeakKeyDictionary

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.retry import Retry

from dedup.model.errors import ServiceUnavailable
from dedup.wire.client.address import Address
from dedup.wire.client.asked import Asked, packed
from dedup.wire.client.breaker import Breaker
from dedup.wire.client.commands import PARTITIONS, Command, error_of
from dedup.wire.client.flows import Flow, Holders, T
from dedup.wire.client.routing import OLDER, Holding, Route, holding_of, unavailable

__all__ = ["Services"]

CONNECTIONS = 64  # to each service; more threads at once meet ServiceUnavailable
UNTOLD_LIMIT = 10_000


class Services:
    """The services at some URLs, in order of preference. Thread-safe."""

    def __init__(
        self, addresses: Sequence[Address], timeout_seconds: float, clock: Callable[[], float]
    ) -> None:
        """Connect to nobody yet; clock gives seconds that never go back."""
        self.holders = Holders()
        self._ends = [_End(address, timeout_seconds) for address in addresses]
        self._lock = threading.Lock()  # of the breakers
        self._clock = clock

    def run(self, flow: Flow[T]) -> T:
        """Carry out what a flow asks for; return what it comes to. Raises what it raises."""
        try:
            batch = next(flow)
            while True:
                self.ask_all(batch)
                batch = next(flow)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            flow.close()
            self._tell_all()

    def ask_all(self, batch: Sequence[Asked]) -> None:
        """Ask all at once, and note in each command who answered what. Raises no fault of theirs."""
        failed: set[int] = set()
        while batch:
            route, calls = self._found(failed)
            try:
                batch = self._ask(batch, route, calls, failed)
            finally:
                for call in calls.values():
                    call.end()

    def _ask(
        self, batch: Sequence[Asked], route: Route, calls: dict[int, "_Call"], failed: set[int]
    ) -> list[Asked]:
        """Ask who is on a route; add to failed who did not answer, return what they were asked."""
        asked_of: dict[int, list[Asked]] = {}
        for asked in batch:
            for number in asked.left(route):
                asked_of.setdefault(number, []).append(asked)
        try:
            for number, some in asked_of.items():
                call = calls[number]
                call.send([asked.bytes_for(number, call.holding) for asked in some])
            for number, some in asked_of.items():
                for asked, reply in zip(some, calls[number].replies(len(some)), strict=False):
                    if not isinstance(reply, ServiceUnavailable):
                        asked.replies[number] = reply
        finally:
            again: dict[Asked, None] = {}
            for number, some in asked_of.items():
                left = [asked for asked in some if number not in asked.replies]
                self._noted(number, calls[number], left, failed)
                again |= dict.fromkeys(left)
        return list(again)

    def _noted(self, number: int, call: "_Call", left: Sequence[Asked], failed: set[int]) -> None:
        """Note how a service fared, and what it was asked and did not answer."""
        self._note(self._ends[number], call.trouble)
        if left:
            failed.add(number)
        if call.unread:
            for asked in left:
                asked.lost |= {number}

    def _found(self, failed: set[int]) -> tuple[Route, dict[int, "_Call"]]:
        """Return whom to ask, of those that did not fail, and connections to them."""
        route, calls = Route(), {}
        try:
            for number, end in enumerate(self._ends):
                if number in failed or not self._allows(end):
                    continue
                try:
                    call = end.call()
                except ServiceUnavailable as error:
                    self._note(end, str(error))
                    continue
                calls[number] = call
                if route.wants(call.holding):
                    route.add(number, call.holding, end.address)
                if route.complete:
                    break
        except BaseException:
            for call in calls.values():
                call.end()
            raise
        return route, calls

    def tell(self, end: int, command: Command) -> None:
        """Have a service release something, as soon as it can be reached."""
        self._ends[end].untold.append(packed(command))

    def _tell_all(self) -> None:
        """Tell the services what they were to be told; what they may not have heard stays."""
        calls = []
        for end in self._ends:
            if end.untold and self._allows(end):
                try:
                    calls.append((end, end.call(), list(end.untold)))
                except ServiceUnavailable as error:
                    self._note(end, str(error))
        try:
            for _, call, told in calls:
                call.send(told)
            for end, call, told in calls:
                for data in told[: len(call.replies(len(told)))]:
                    with suppress(ValueError):
                        end.untold.remove(data)
                self._note(end, call.trouble)
        finally:
            for _, call, _ in calls:
                call.end()

    def _allows(self, end: "_End") -> bool:
        with self._lock:
            return end.breaker.allows(self._clock())

    def _note(self, end: "_End", trouble: str) -> None:
        with self._lock:
            if trouble:
                end.trouble = trouble
                end.breaker.failed(self._clock())
            else:
                end.breaker.answered()

    def unavailable(self, route: Route) -> ServiceUnavailable:
        """Return the error that says what is wrong with each service."""
        return unavailable(route, [(end.address, end.holding, end.trouble) for end in self._ends])

    def close(self) -> None:
        """Close the connections."""
        for end in self._ends:
            end.client.close()


class _End:
    """One URL, its connections, and how it fares."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self.address = address
        self.breaker = Breaker()
        self.holding = OLDER
        self.trouble = "it failed before, and is tried again soon"
        self.untold: deque[bytes] = deque(maxlen=UNTOLD_LIMIT)
        self._holdings: WeakKeyDictionary[Connection, Holding] = WeakKeyDictionary()
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": address.ca_file} if address.tls else {}
        self.client = redis.Redis(
            host=address.host,
            port=address.port,
            password=address.token,
            protocol=2,
            max_connections=CONNECTIONS,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._greet,  # type: ignore[arg-type]
            **tls,
        )

    def call(self) -> "_Call":
        """Return a connection. Raises ServiceUnavailable."""
        pool = self.client.connection_pool
        try:
            connection = pool.get_connection()
        except redis.AuthenticationError as error:
            raise error_of(f"NOAUTH {error}") from None
        except (redis.RedisError, OSError) as error:
            raise ServiceUnavailable(str(error)) from None
        return _Call(pool, connection, self._holdings[connection])

    def _greet(self, connection: Connection) -> None:
        """Show a new connection's other end the token, and ask what it holds."""
        connection.on_connect()  # type: ignore[no-untyped-call]
        connection.send_command(*PARTITIONS)  # type: ignore[no-untyped-call]
        try:
            said = connection.read_response()
        except redis.AuthenticationError:
            raise
        except redis.ResponseError as error:
            said = error_of(_line(error))
        try:
            self.holding = self._holdings[connection] = holding_of(said)
        except ServiceUnavailable as error:
            raise redis.ConnectionError(str(error)) from None


class _Call:
    """A connection while it is used: written to, then read from. It raises no fault of the network.

    unread   how many commands have no answer; the connection is not used again then
    trouble  what failed, or what an answer says that keeps the service from its work; or ""
    """

    def __init__(
        self, pool: redis.ConnectionPool, connection: Connection, holding: Holding
    ) -> None:
        self.holding = holding
        self.unread = 0
        self.trouble = ""
        self._pool = pool
        self._connection = connection

    def send(self, commands: Sequence[bytes]) -> None:
        """Write commands."""
        self.unread = len(commands)
        try:
            self._connection.send_packed_command([b"".join(commands)])  # type: ignore[no-untyped-call]
        except (redis.RedisError, OSError) as error:
            self.trouble = str(error)

    def replies(self, count: int) -> list[Any]:
        """Return the answers that came, or the errors that they stand for."""
        replies: list[Any] = []
        while len(replies) < count and (replies or not self.trouble):
            try:
                replies.append(self._connection.read_response())
            except redis.ResponseError as error:
                said = error_of(_line(error))
                if isinstance(said, ServiceUnavailable):
                    self.trouble = str(said)
                replies.append(said)
            except (redis.RedisError, OSError) as error:
                self.trouble = str(error)
                break
            self.unread -= 1
        return replies

    def end(self) -> None:
        """Give the connection back."""
        if self.unread:
            self._connection.disconnect()  # type: ignore[no-untyped-call]
        self._pool.release(self._connection)


def _line(error: redis.ResponseError) -> str:
    """Return an error's answer as it came: redis-py leaves out the code ERR."""
    text = str(error)
    return text if text.partition(" ")[0].isupper() else f"ERR {text}"
