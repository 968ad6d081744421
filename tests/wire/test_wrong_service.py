"""Whatever a service answers, a page is judged or kept: within the time of a call, and in bounded memory."""

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import suppress

import hiredis
import pytest
from detecting import A, B, page

import dedup
from dedup.model.errors import DedupError, ServiceUnavailable
from dedup.wire.resp import ANSWER_BYTES

HELLO = b"*2\r\n$6\r\nserver\r\n$5\r\ndedup\r\n"
TOKEN = "a-token-of-sixteen"


def answer(*words: object) -> bytes:
    """An array of texts, integers and nil."""
    parts = [
        b"$-1\r\n" if w is None else b":%d\r\n" % w if isinstance(w, int) else b"$%d\r\n%b\r\n" % (len(w.encode()), w.encode())
        for w in words
    ]  # fmt: skip
    return b"*%d\r\n" % len(parts) + b"".join(parts)


def near(of: object = B, similarity: str = "0.99", status: str = "near_duplicate") -> bytes:
    return answer(status, None, of, 1, similarity, None, "same")


WRONG = {
    "junk": bytes(range(128, 256)),
    "another protocol": b"HTTP/1.1 200 OK\r\n\r\n",
    "RESP3": b"%1\r\n+a\r\n+b\r\n",
    "an integer": b":7\r\n",
    "nil": b"$-1\r\n",
    "an array of 2^31": b"*2147483647\r\n",
    "an array of 10^8": b"*99999999\r\n",
    "an endless length": b"$99999999999999\r\nabc",
    "a deep array": b"*1\r\n" * 100_000,
    "an endless string": b"$2000000000\r\n" + b"a" * (ANSWER_BYTES + 1),
    "an endless line": b"+" + b"a" * 100_000,
    "half an answer": near()[:-20],
    "two answers": near() * 2,
    "an error": b"-WEIRD \x1b[2J\r\n",
    "no status": answer("zzz", TOKEN, None, None, None, None, None),
    "no token": answer("unique", None, None, None, None, None, None),
    "a token, and a near-duplicate": answer("near_duplicate", TOKEN, B, 1, "0.9", None, "same"),
    "a near-duplicate of nothing": near(None),
    "a near-duplicate of itself": near(A),
    "a similarity that is none": near(similarity="nan"),
    "no UTF-8": near().replace(b"same", b"\xff\xfe\xfd\xfc"),
    "no document": b"*8" + near()[2:] + b"$2\r\n{}\r\n",
}


async def judged(said: bytes, **options: object) -> object:
    """Return the verdict of a service that answers each RESERVE like this, or the error."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = hiredis.Reader()
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                commands.feed(data)
                while (command := commands.gets()) is not False:
                    known = {b"HELLO": HELLO, b"DEDUP.PROBE": b"*0\r\n", b"DEDUP.RESERVE": said}
                    writer.write(known.get(command[0], b":1\r\n"))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"redis://127.0.0.1:{port}"
        async with await dedup.open_async(url, timeout_seconds=0.5) as detector:
            try:
                return await detector.reserve(page(), A, **options)
            except DedupError as error:
                return error


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_answer_is_an_unavailable_service(name):
    """In bounded time and memory; so the page is kept, and counted. (A second answer is one too many.)"""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    found = await judged(WRONG[name])
    if name == "two answers":
        assert getattr(found, "of", B) == B
    else:
        assert isinstance(found, ServiceUnavailable), found
    assert time.process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 160 << 10


async def test_a_page_that_is_kept_is_never_asked_for_again():
    """With a reason to keep it, `pending` is no answer: else a service could have a crawl wait for ever."""
    assert (await judged(near(status="pending"))).status == "pending"
    for status in ("pending", "near_duplicate"):
        found = await judged(near(status=status), exempt="in_flight")
        assert isinstance(found, ServiceUnavailable)
