"""One connection of the client's loop, against a real socket: what is written together, and in which order."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress

import hiredis
import pytest

from dedup.wire.client import services as connection_module
from dedup.wire.client.services import ServiceConnection

FOR_EVER = 3600.0


class Server:
    """Notes what it reads, and answers each command; whole once its connection is over."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.over = asyncio.Event()

    async def __call__(self, reader, writer):
        commands = hiredis.Reader()
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self.reads.append(data)
                commands.feed(data)
                while commands.gets() is not False:
                    writer.write(b"+OK\r\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.over.set()


def command(word: str) -> bytes:
    return hiredis.pack_command((word,))


def run(steps) -> list[bytes]:
    """Return what a server read, read by read, of a connection to it."""

    async def main():
        served = Server()
        async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(
                lambda: ServiceConnection(60.0, nullcontext()), host, port
            )
            await steps(connection)
            connection.close()
            await served.over.wait()
        return served.reads

    return asyncio.run(main())


def test_what_is_sent_later_goes_out_before_what_is_asked_next(monkeypatch):
    """In one write: the service reads once."""
    monkeypatch.setattr(connection_module, "LATER_SECONDS", FOR_EVER)

    async def steps(connection):
        connection.send_later(command("told"))
        await asyncio.sleep(0.01)
        assert await connection.send(command("asked")) == b"OK"

    assert run(steps) == [command("told") + command("asked")]


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_sent_later_goes_out_if_nothing_is_asked(monkeypatch, closed):
    """Soon; and when the connection is closed, at once."""
    monkeypatch.setattr(connection_module, "LATER_SECONDS", FOR_EVER if closed else 0.001)

    async def steps(connection):
        connection.send_later(command("first"))
        connection.send_later(command("second"))
        while connection._waiting and not closed:  # noqa: ASYNC110  (for an answer; it has no event)
            await asyncio.sleep(0.001)

    assert run(steps) == [command("first") + command("second")]


def test_what_is_sent_later_and_not_written_is_known_when_the_link_breaks(monkeypatch):
    """It is told again on the next one."""
    monkeypatch.setattr(connection_module, "LATER_SECONDS", FOR_EVER)

    async def steps(connection):
        connection.send_later(command("told"))
        connection._transport.abort()
        await connection.lost
        assert connection.undelivered == [command("told")]

    assert run(steps) == []
