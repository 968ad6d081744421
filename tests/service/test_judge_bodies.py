"""Bodies of requests that are work: every gzip member is read, the event loop does a slice at a time, memory is bounded."""

import asyncio
import contextlib
import gzip
import http.client
import json
import threading
import time
import zlib
from types import SimpleNamespace

import pytest
from commands import ONCE
from hypothesis import given
from hypothesis import strategies as st
from needing import linux_only
from services import Serving
from starlette.datastructures import QueryParams

from dedup.core.packed import gunzipped
from dedup.model.errors import DedupError
from dedup.service.core.access import ALL, Caller
from dedup.service.core.namespaces import Namespaces
from dedup.service.core.operations import Operations
from dedup.service.http.server import _Endpoints

JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html"}
GZIP = {"content-encoding": "gzip"}
MOST = 4_000_000
LOOP_SECONDS = 0.1  # of CPU in one iteration of the loop: such a body took .6 to .9


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=20), st.integers(0, 9))
def test_every_member_is_read(parts, zeros):
    """Whatever is packed in how many members comes back whole; zeros behind it are no member."""
    packed = b"".join(gzip.compress(part, mtime=0) for part in parts) + bytes(zeros)
    assert gunzipped(packed, 1 << 20) == b"".join(parts)


@given(st.binary(min_size=1, max_size=300), st.binary(min_size=1, max_size=300), st.data())
def test_what_is_no_member_is_an_error(part, junk, data):
    """Cut anywhere, or with something else behind it."""
    packed = gzip.compress(part, mtime=0)
    with pytest.raises(zlib.error):
        gunzipped(packed[: data.draw(st.integers(1, len(packed) - 1))], 1 << 20)
    if junk.strip(b"\0"):
        with pytest.raises(zlib.error):
            gunzipped(packed + b"x" + junk, 1 << 20)


def test_unpacking_takes_time_in_its_size():
    """A hundred thousand members without a byte; a bomb ends at the limit."""
    assert gunzipped(gzip.compress(b"", mtime=0) * 100_000, 10) == b""
    assert gunzipped(gzip.compress(bytes(1 << 24), mtime=0), 1001) == bytes(1001)


def judged(body, headers):
    return (
        "judge",
        headers,
        {"ns": "a", "url": "http://a/"} if headers["content-type"] == HTML["content-type"] else {},
        body,
    )


def packed(body, headers):
    return judged(gzip.compress(body, 1), headers | GZIP)


PAGE = b'{"ns": "a", "url": "http://a/", '
BODIES = {
    "empty lists": judged(b"[" + b"[]," * (MOST // 3) + b"[]]", JSON),
    "empty lists, packed": packed(b"[" + b"[]," * (MOST // 3) + b"[]]", JSON),
    "lists in a field": judged(PAGE + b'"html": [' + b"[]," * (MOST // 3) + b"[]]}", JSON),
    "half of a pair, then lists": judged(PAGE + rb'"html": "\ud83d ", "kind": [' + b"[]," * (MOST // 3) + b"[]]}", JSON),
    "halves of pairs": judged(PAGE + b'"html": "' + rb"\ud83d " * (MOST // 7) + b'"}', JSON),
    "escapes, then half of a pair": judged(PAGE + b'"html": "' + rb"\n" * (MOST // 2) + rb'\ud83d "}', JSON),
    "unknown fields": judged(b"{" + b",".join(b'"%d":1' % i for i in range(300_000)) + b"}", JSON),
    "depth": judged(PAGE + b'"html": ' + b"[" * MOST, JSON),
    "blocks": judged(b"<p>a" * (MOST // 4), HTML),
    "blocks, packed": packed(b"<p>a" * (MOST // 4), HTML),
    "four thousand pages": judged(json.dumps({"ns": "a", "pages": [{"url": f"http://a/?{i}&b&a", "text": f"word{i} other{i}"} for i in range(4000)]}).encode(), JSON),
    "pages in 64 kB": judged(json.dumps({"ns": "a", "pages": [{"url": f"http://b/?{i}&b&a", "text": f"w{i} o{i}"} for i in range(1000)]}).encode(), JSON),
    "a long query": ("judge", HTML, {"ns": "a", "url": "http://a/?" + "b&a&" * 2000}, b"<p>"),
    "insert": ("insert", JSON, {}, json.dumps({"ns": "a", "items": [{"key": f"k{i}" * 60, "token": "t" * 60} for i in range(10_000)]}).encode()),
    "insert, empty lists": ("insert", JSON, {}, b'{"ns": "a", "items": [' + b"[]," * (MOST // 3) + b"[]]}"),
    "forget, short keys": ("forget", JSON, {}, b'{"ns": "a", "keys": [' + b'"k",' * (MOST // 4) + b'"k"]}'),
    "insert, one row": ("insert", JSON, {}, b'{"ns": "a", "items": [{"key": "k", "token": "t", "paid": [' + b"[]," * (MOST // 3) + b"[]]}]}"),
    "release": ("release", JSON, {}, json.dumps({"ns": "a", "items": [{"key": "k", "token": "t"}] * 10_000}).encode()),
}  # fmt: skip


@linux_only
@pytest.mark.parametrize("name", BODIES)
async def test_no_body_stops_the_loop(tmp_path, name):
    """CPU time of the loop's thread between two turns of another task, while the worst body of each kind is answered.

    A machine that others use takes its time from one turn now and then: what stops the loop does so each time.
    """
    turns = []
    while not turns or (min(turns) >= LOOP_SECONDS and len(turns) < 5):
        turns.append(await longest_turn(tmp_path / str(len(turns)), *BODIES[name]))
    assert min(turns) < LOOP_SECONDS, turns


async def longest_turn(folder, path, headers, query, body):
    namespaces = Namespaces(folder)
    commands = Operations(namespaces)
    commands.not_ready = None
    do = _Endpoints(commands, None, None)
    longest, is_done = 0.0, False

    async def another_client():
        nonlocal longest
        while not is_done:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    async def read():
        return body

    async def hold(size):
        await commands.room.take("request", size)

    request = SimpleNamespace(
        headers=headers,
        query_params=QueryParams(query),
        body=read,
        state=SimpleNamespace(hold=hold, caller=Caller("", ALL, "")),
    )
    other = asyncio.ensure_future(another_client())
    await asyncio.sleep(0)
    with contextlib.suppress(DedupError):
        await (do.judge(request) if path == "judge" else do.post(path)(request))
    is_done = True
    await other
    namespaces.close()
    return longest


def ask(serving, path, body, headers):
    connection = http.client.HTTPConnection("127.0.0.1", serving.http_port, timeout=300)
    with contextlib.closing(connection):
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@linux_only
@pytest.mark.parametrize(
    "kind",
    [
        "page",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("packed", "astral", "escapes")),
    ],
)
def test_memory_bounds_what_is_judged(tmp_path, kind):
    """Many large requests at once: those that find no room wait, and all are judged; a slow one holds no one up for long."""
    text = {
        "page": lambda i: b"<p>%d " % i + b"<p>a" * 900_000,
        "packed": lambda i: gzip.compress(b"<p>%d " % i + b"<p>a" * 900_000, 1),
        "astral": lambda i: json.dumps({"ns": "n", "url": f"http://a/{i}", "html": "a" * 3_900_000 + "\U0001f600"}).encode(),
        "escapes": lambda i: b'{"ns": "n", "url": "http://a/%d", "html": "%b"}' % (i, rb"\n\ud83d " * 400_000),
    }[kind]  # fmt: skip
    headers = JSON if kind in {"astral", "escapes"} else HTML
    headers |= GZIP if kind == "packed" else {}
    answers = []
    with Serving(tmp_path, "--memory", "64M") as serving, serving.client(**ONCE) as client:
        client.ping()
        before = most = serving.resident_bytes

        def judge(i):
            path = "/v1/judge" + (
                "" if headers["content-type"] == JSON["content-type"] else f"?ns=n&url=http://a/{i}"
            )
            answers.append(ask(serving, path, text(i), headers))

        slow = http.client.HTTPConnection("127.0.0.1", serving.http_port)
        slow.putrequest("POST", "/v1/forget")
        slow.putheader("Content-Type", "application/json")
        slow.putheader("Content-Length", str(MOST))
        slow.endheaders(b" " * (MOST - 1))
        threads = [threading.Thread(target=judge, args=(i,)) for i in range(12)]
        for each in threads:
            each.start()
        while any(each.is_alive() for each in threads):
            most = max(most, serving.resident_bytes)
            assert client.ping()
            time.sleep(0.02)
        slow.close()
        assert [status for status, _ in answers] == [200] * len(threads), answers
        assert most - before < 110 << 20
        assert b"dedup_partial_bytes 0" in serving.get("/metrics")[1]
