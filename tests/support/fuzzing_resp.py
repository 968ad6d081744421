"""What fuzzes the RESP port: bytes in place of what a client sends, without a socket.

    bytes -> a connection, whole and cut anywhere -> the same answers, each of them a whole reply

Raises if the answers differ, are not RESP, or speak of an internal error.
"""

import asyncio
import json
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hiredis
from sketches import sketch

from dedup.model.recipes import NEWEST
from dedup.service.core.access import Tokens
from dedup.service.core.config import Limits
from dedup.service.core.namespaces import Namespaces
from dedup.service.core.operations import Operations
from dedup.service.resp.port import Connection, Port

LIMITS = Limits(namespaces=3)
TOKEN = "the token of it"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def resp(data: bytes) -> None:
    """Send bytes to a connection. The first one says whether a token is asked for, and seeds cuts."""
    if not data:
        return
    whole, pieces = (
        re.sub(rb"_[0-9a-f]{32}", b"TOKEN", asyncio.run(_talk(data[0], data[1:], cut)))
        for cut in (False, True)
    )
    if (
        b"this many elements" not in whole + pieces
    ):  # that is looked at before what stands before it
        assert whole == pieces, (whole, pieces)


async def _talk(seed: int, data: bytes, cut: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        namespaces = Namespaces(Path(folder), limits=LIMITS)
        commands = Operations(namespaces, None, LIMITS)
        commands.not_ready = None
        connection = Connection(
            Port(commands, LIMITS, Tokens(TOKEN if seed % 4 == 0 else None, None))
        )
        wire = Wire()
        rng = random.Random(seed)
        connection.connection_made(wire)
        try:
            while data and not wire.closed:
                count = rng.choice([1, 3, 20, 200]) if cut else len(data)
                connection.data_received(data[:count])
                data = data[count:]
                while (  # noqa: ASYNC110
                    connection._scheduled or connection._answers.waiting
                ):
                    await asyncio.sleep(0)
        finally:
            namespaces.close()
    assert b"internal error" not in wire.written, bytes(wire.written)
    _check_replies(bytes(wire.written))
    return re.sub(rb"[0-9a-f]{16}-", b"token-", wire.written)


def _check_replies(text: bytes) -> None:
    """Hold answers to RESP: whole replies and nothing else."""
    missing = object()
    reader = hiredis.Reader(notEnoughData=missing, replyError=str)
    reader.feed(text)
    while reader.gets() is not missing:
        pass
    assert not reader.has_data(), text


def command(*words: object) -> bytes:
    data = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(data) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in data)


def page(bits: int = 0, **more: object) -> str:
    fields = {"value": "0123456789abcdef", "sketch": sketch(bits).hex(), "recipe": NEWEST}
    return json.dumps(fields | {"features": 300, "domain": "example.com"} | more)


def seeds() -> Iterator[bytes]:
    """Yield inputs: each command, and some of them together."""
    first, other = page(), page(bits=0xFF, domain="a.b", kind="list", links="f" * 16)
    own = f"{0:032x}"
    commands = [
        command("DEDUP.RESERVE", "d", "http://a/1", first),
        command("DEDUP.RESERVE", "d", "http://a/2", first, "SCOPE", "site", "GUARD", "off"),
        command("DEDUP.RESERVE", "d", "http://a/3", first, "EXEMPT", "start", "FEATURES", 10),
        command("DEDUP.INSERT", "d", "http://a/1", "0123456789abcdef-0"),
        command("DEDUP.INSERT", "d", "http://a/1", "x", "PAID", "0"),
        command("DEDUP.RELEASE", "d", "http://a/1", "0123456789abcdef-0"),
        command("DEDUP.FORGET", "d", "http://a/1"),
        command("DEDUP.PROBE", "d", first) * 3,
        command("DEDUP.PROBE", "d", first, "SCOPE", "site", "FIELDS", "on"),
        command("DEDUP.PROBE", "d", other, "DISTANCE", 3, "SIMILARITY", ".9"),
        command("DEDUP.MPROBE", "d", "COUNT", 1, "PAGES", first, other),
        command("DEDUP.MPROBE", "d", "PAGES", *[first] * 1200),
        command("DEDUP.DROP", "d")
        + command("DEDUP.RESERVE", "d", "http://a/1", first, "TOKEN", own)
        + command("DEDUP.INSERT", "d", "http://a/1", own)
        + command("DEDUP.PROBE", "d", first),
        command("DEDUP.INFO"),
        command("HELLO", 3, "AUTH", "default", TOKEN, "SETNAME", "spider"),
        command("AUTH", TOKEN),
        command("AUTH", "default", "wrong"),
        command("CLIENT", "SETINFO", "LIB-NAME", "x"),
        command("CLIENT", "GETNAME") + command("CLIENT", "ID") + command("CLIENT", "INFO"),
        command("COMMAND", "DOCS") + command("COMMAND", "COUNT"),
        command("CONFIG", "GET", "save", "appendonly") + command("SELECT", 0),
        command("PING") + command("ECHO", "hello") + command("QUIT") + command("PING"),
    ]
    for i, each in enumerate(commands):
        yield bytes([i | 1]) + each
        yield b"\0" + commands[14 + i % 3] + each
    yield b"\1" + b"".join(commands[:14])
    yield b"\1" + b"*1000000000\r\n" + b"GET / HTTP/1.1\r\n\r\n"
