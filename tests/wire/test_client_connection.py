"""One connection of the client's loop, against a real socket: what is written together, and in which order."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress

import hiredis
import pytest

from dedup.model.errors import ServiceUnavailable
from dedup.wire.client.services import ServiceConnection


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


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_sent_in_one_turn_goes_out_in_one_write(closed):
    """The service reads once; a connection that is closed writes what is queued before."""

    async def steps(connection):
        answers = [connection.send(command(word)) for word in ("first", "second")]
        if not closed:
            assert await asyncio.gather(*answers) == [b"OK", b"OK"]
            return
        connection.close()
        ended = await asyncio.gather(*answers, return_exceptions=True)
        assert {type(each) for each in ended} == {ServiceUnavailable}

    assert run(steps) == [command("first") + command("second")]
