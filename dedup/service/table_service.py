"""The table service as a process: opens the stores, listens, and stops in order.

    bind -> listen (NOTREADY) -> open the stores in a thread (-> catch up with the log) -> ready
         -> SIGTERM -> take no more, answer what came -> close the stores, their index written

Invariant: whatever was acknowledged is in the stores before they are closed.
"""

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dedup.core.files import FolderLock
from dedup.model.addresses import HostPort
from dedup.model.errors import StoreLocked, UsageError
from dedup.service.connections import Listening
from dedup.service.core.access import Tokens
from dedup.service.core.config import ServiceConfig, check_config
from dedup.service.core.namespaces import Namespaces, Pruning, check_no_store
from dedup.service.core.operations import Operations
from dedup.service.core.refusal import log_rate_limited
from dedup.service.http.bodies import Health
from dedup.service.http.guard import HttpConnections
from dedup.service.http.server import made_app
from dedup.service.metrics import ServiceMetrics
from dedup.service.resp.port import Connection, Port

if TYPE_CHECKING:
    from dedup.service.replica import Replica


log = logging.getLogger(__name__)

OWN_FILES = 64  # open files other than those of connections and stores
NAMESPACE_FILES = 4  # of a namespace, at least
WATCH_SECONDS = 0.5  # between two checks of the connections' time limits


class Service:
    """All parts of one service; run() below makes and runs one."""

    def __init__(self, config: ServiceConfig) -> None:
        """Raises UsageError where too few files may be open."""
        config = _with_files(config)
        self.config = config
        self.namespaces = Namespaces(
            config.path,
            distance=config.distance,
            reservation_seconds=config.reservation_seconds,
            limits=config.limits,
            follow_log=config.kafka is not None,
        )
        self.replica = _replica(config, self.namespaces)
        inserts = None if self.replica is None else self.replica.inserts
        more_info = dict if self.replica is None else self.replica.info
        self.commands = Operations(self.namespaces, inserts, config.limits, more_info)
        self.tokens = Tokens(config.token, config.tokens)
        self.port = Port(self.commands, config.limits, self.tokens)
        self.web = HttpConnections(config.limits, self.commands.room)
        log_metrics = list if self.replica is None else self.replica.metrics
        metrics = ServiceMetrics(self.commands, self.port, self.web, log_metrics)
        self.web.serve(
            made_app(
                self.commands,
                metrics,
                self._asked_health,
                self.tokens,
                config.host_names,
                config.limits,
                self.web,
            )
        )
        self._ports = (self.web, self.port)
        self.stop = asyncio.Event()
        self.pruning: Pruning | None = None
        if config.keep_seconds is not None:
            self.pruning = Pruning(self.namespaces, config.keep_seconds, self.commands.counts)
        self._beside: list[asyncio.Task[None]] = []  # what they do, once the service is ready
        self._stores: asyncio.Future[None] | None = None  # a thread that opens them has no cancel
        self._told: Health | None = (
            None  # what was logged last of readiness, once the service is ready
        )
        self._following = False  # the log: from then on the replica decides about readiness
        self._failed: BaseException | None = None

    def health(self) -> Health:
        """Return whether pages are answered for, and if not, why."""
        reason = self.commands.not_ready
        if reason is not None:
            return Health("not_ready", reason)
        stale = self.commands.trouble if self.replica is None else self.replica.stale
        if stale:
            return Health("stale", stale)
        unserved = self.namespaces.trouble
        return Health("partial", unserved) if unserved else Health("ok")

    async def run(self, listening: Callable[[HostPort | None, HostPort | None], None]) -> None:
        """Serve until SIGTERM or SIGINT. listening() is called with the addresses that were bound.

        Raises OSError if an address cannot be bound, and what opening the stores raises.
        """
        config, loop = self.config, asyncio.get_running_loop()
        loop.set_exception_handler(_log_fault)
        sockets = Listening(config, self.tokens)
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, self.stop.set)
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows
            loop.add_signal_handler(signal.SIGHUP, sockets.read_again)

        def connection() -> Connection:
            return Connection(self.port)

        resp, http = None, None
        if config.listen is not None:
            resp = await sockets.listen("--listen", config.listen, connection)
        if config.http is not None:
            http = await sockets.listen("--http", config.http, self.web)
        if config.unix is not None:
            await sockets.listen_unix(config.unix, connection)
        listening(resp, http)
        watch = asyncio.create_task(self._watch())
        opening = asyncio.create_task(self._open())
        try:
            await self.stop.wait()
            log.info("stopping: no more commands are taken")
            self.commands.not_ready = "the service is stopping"
            sockets.close()
            await self._drain()
        finally:
            watch.cancel()
            opening.cancel()
            if self.pruning is not None:
                self.pruning.stop()
            await asyncio.wait({opening, *filter(None, (self._stores, *self._beside))})
            if self.replica is not None:
                await self.replica.close(config.limits.drain_seconds)
            for port in self._ports:
                port.abort()
            await asyncio.to_thread(self.namespaces.close)
        if self._failed is not None:
            raise self._failed
        log.info("stopped: every acknowledged insert is on disk")

    async def _open(self) -> None:
        """Open the stores, and catch up with the log if there is one; then the service is ready."""
        began = time.monotonic()
        try:
            if self.replica is not None:
                self.commands.not_ready = "Kafka has not answered yet"
                await self.replica.prepare()
                self.commands.not_ready = "the stores are being opened"
            self._stores = asyncio.ensure_future(asyncio.to_thread(self.namespaces.open_all))
            await asyncio.shield(self._stores)
            if self.replica is not None:
                self.commands.not_ready = self.replica.not_ready
                self._following = True
                await self.replica.catch_up()
        except Exception as error:  # noqa: BLE001 - ends the service, which says why
            self._failed = error
            self.stop.set()
            return
        self.commands.not_ready = None
        stale = "" if self.replica is None else self.replica.stale
        log.info(
            "ready%s: %d namespaces were opened in %.1f s%s",
            ", but stale" if stale else ", but not all" if self.namespaces.unserved else "",
            len(self.namespaces),
            time.monotonic() - began,
            f". {stale}" if stale else "",
        )
        self._told = self.health()  # which the line above says, or open_all() for each namespace
        if self.pruning is not None:
            self._beside.append(asyncio.create_task(self.pruning.run()))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = time.monotonic()
            for port in self._ports:
                port.end_overdue(now)
            if self.replica is not None and self._following and not self.stop.is_set():
                self.commands.not_ready = self.replica.not_ready
            self._log_change()

    def _asked_health(self) -> Health:
        """Return what /readyz says, and log it if that is new: what is short may end between two checks."""
        self._log_change()
        return self.health()

    def _log_change(self) -> None:
        """Log a change of what /readyz says; one of figures in its reason is none."""
        health, told = self.health(), self._told
        if told is None or self.stop.is_set() or _without_figures(health) == _without_figures(told):
            return
        self._told = health
        level = logging.INFO if health.status == "ok" else logging.WARNING
        reason = f": {health.reason}" if health.reason else f" again; before: {told.reason}"
        log.log(level, "/readyz: %s%s", health.status, reason)

    async def _drain(self) -> None:
        for port in self._ports:
            port.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.limits.drain_seconds):
                for port in self._ports:
                    await port.drained()


def _without_figures(health: Health) -> tuple[str, str]:
    return health.status, re.sub(r"[0-9.]+", "", health.reason)


def _replica(config: ServiceConfig, namespaces: Namespaces) -> "Replica | None":
    if config.kafka is None:
        return None
    from dedup.service.replica import Replica

    return Replica(
        config.kafka,
        namespaces,
        config.path,
        rebuild=config.rebuild,
    )


def run(
    config: ServiceConfig, listening: Callable[[HostPort | None, HostPort | None], None]
) -> None:
    """Run a service until SIGTERM or SIGINT. See Service.run()."""
    check_config(config)
    os.umask(0o077)  # what crawlers found is for this service only
    config.path.mkdir(parents=True, exist_ok=True)
    check_no_store(config.path)  # before a line says that it listens

    async def serve() -> None:
        await Service(config).run(listening)

    lock = _locked(config.path)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve())
    finally:
        lock.close()


def _locked(path: Path) -> FolderLock:
    """Lock the folder of the stores. Raises StoreLocked and OSError."""
    try:
        return FolderLock(path / ".lock")
    except StoreLocked as error:
        holder = str(error).partition(";")[0].removeprefix("the store ")
        raise StoreLocked(
            f"{holder}; a folder belongs to one service at a time: stop that one, or give this one "
            "another --path"
        ) from error


def _loop_factory() -> Callable[[], Any] | None:
    try:
        import uvloop
    except ImportError:
        if sys.platform != "win32":
            raise
        return None
    return uvloop.new_event_loop


def _with_files(config: ServiceConfig) -> ServiceConfig:
    """Raise the soft limit on open files to what is needed, or to the system's.

    Where it is too low, return a config with fewer namespaces and connections. Raises UsageError where no
    namespace could be opened, or not as many as were asked for.
    """
    try:
        import resource
    except ImportError:  # Windows
        return config
    limits = config.limits
    wanted = limits.connections + 2 * limits.http_connections + 8 * limits.namespaces + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most == wanted:
        return config
    namespaces = min(limits.namespaces, max((most - 2 * OWN_FILES) // NAMESPACE_FILES, 0))
    if namespaces < limits.namespaces and (config.namespaces_asked or not namespaces):
        least = NAMESPACE_FILES * limits.namespaces + 2 * OWN_FILES
        instead = f", or give --max-namespaces {namespaces}" if namespaces else ""
        raise UsageError(
            f"--max-namespaces {limits.namespaces} needs {least} open files, and the system allows "
            f"{hard}: raise `ulimit -Hn`{instead}"
        )
    spare = most - OWN_FILES - NAMESPACE_FILES * namespaces
    web = min(limits.http_connections, spare // 8)  # each makes room before it is gone
    connections = min(limits.connections, spare - 2 * web)
    log.warning(
        "only %d files may be open: up to %d namespaces (in place of %d) and %d connections (%d) are served; raise "
        "`ulimit -Hn`",
        most,
        namespaces,
        limits.namespaces,
        connections,
        limits.connections,
    )
    limits = replace(limits, namespaces=namespaces, connections=connections, http_connections=web)
    return replace(config, limits=limits)


def _log_fault(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what fails outside of commands, a TLS handshake of a stranger say, once a minute."""
    text = str(context.get("message", "an internal error"))
    log_rate_limited(log, text, text, context.get("exception"))
