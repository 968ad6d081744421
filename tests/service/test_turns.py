"""Long work leaves the event loop to others."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fuzzing_resp import LIMITS, Wire, command
from sketches import sketch
from starlette.datastructures import QueryParams
from starlette.responses import Response
from stores import document

import dedup
from dedup.model.recipes import NEWEST
from dedup.service.core import turns as scheduling
from dedup.service.core.access import ALL, Caller, Tokens
from dedup.service.core.namespaces import Namespaces, PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.core.turns import TURNS
from dedup.service.http.server import EXPORTED, PART, _Endpoints
from dedup.service.resp.port import Connection, Port

VALUES = [0, 0xFF << 20, 0xFFFFF << 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    with dedup.open(folder, namespace="d") as detector:
        for i, value in enumerate(VALUES):
            page = dedup.PageFingerprint(value, sketch(), 0, 300, NEWEST)
            detector.insert(detector.reserve(page, f"http://example.com/{i}", exempt="start"))
    return folder


async def rest(connections: list[Connection]) -> None:
    while any(c._scheduled or c._answers.waiting for c in connections):  # noqa: ASYNC110
        await asyncio.sleep(0)


def flooding(folder, count) -> tuple[Namespaces, Port, list[Connection], list[Wire]]:
    """Return a port with connections that have spoken."""
    namespaces = Namespaces(folder, limits=LIMITS)
    port = Port(Operations(namespaces, None, LIMITS), LIMITS, Tokens(None, None))
    port.commands.not_ready = None
    connections, wires = [Connection(port) for _ in range(count)], [Wire() for _ in range(count)]
    for connection, wire in zip(connections, wires, strict=True):
        connection.connection_made(wire)
        connection.data_received(command("PING"))
    return namespaces, port, connections, wires


async def test_a_flood_leaves_the_loop_to_others(folder):
    """However many connections have long work, an iteration of the loop does a few slices of it, in turns.

    A new connection needs several iterations until it is answered; its own commands wait for none of the others.
    """
    namespaces, port, connections, wires = flooding(folder, 40)
    slow = command("ECHO", "x" * 100) * 3000
    left = [slow] * len(connections)
    for connection, data in zip(connections, left, strict=True):
        connection.data_received(data)
    began = [len(wire.written) for wire in wires]
    assert sum(size > 10 for size in began) <= 1  # the others wait for their turn
    await asyncio.sleep(0)
    moved = [len(wire.written) > size for wire, size in zip(wires, began, strict=True)]
    assert any(moved)
    assert not all(moved)
    fresh, wire = Connection(port), Wire()
    fresh.connection_made(wire)
    fresh.data_received(command("PING"))
    assert wire.written == b"+PONG\r\n"
    await rest(connections)
    assert {wire.written.count(b"$100") for wire in wires} == {3000}
    namespaces.close()


async def test_a_newcomer_waits_for_no_flood(folder):
    """Who connects after 100 clients sent long transactions is answered before a fifth of their commands was read."""
    namespaces, port, _, _ = flooding(folder, 0)
    connections, flood = [Connection(port) for _ in range(100)], command("ECHO", "x") * 9_900
    for connection in connections:
        connection.connection_made(Wire())
        connection.data_received(command("MULTI") + flood)  # all in one iteration of the loop
    newcomer, wire = Connection(port), Wire()
    newcomer.connection_made(wire)
    newcomer.data_received(command("PING"))
    while not wire.written:  # noqa: ASYNC110
        await asyncio.sleep(0)
    read = sum(len(connection.session.queued or ()) for connection in connections)
    assert read < 0.2 * 9_900 * len(connections)
    for connection in connections:
        connection.connection_lost(None)
    namespaces.close()


async def test_a_backup_leaves_the_loop_to_others(tmp_path, monkeypatch):
    """An answer of a backup is made in parts, between which others have their turn."""
    monkeypatch.setattr(scheduling, "SLICE_SECONDS", 0.0)  # each part is a slice
    query = {"ns": "d"}
    request = SimpleNamespace(
        query_params=QueryParams(query), state=SimpleNamespace(caller=Caller("", ALL, ""))
    )

    async def iterations(answering: Coroutine[Any, Any, Response]) -> tuple[int, bytes]:
        answer, count = asyncio.ensure_future(answering), 0
        while not answer.done():
            await asyncio.sleep(0)
            count += 1
        return count, (await answer).body

    namespaces = Namespaces(tmp_path)
    commands = Operations(namespaces)
    commands.not_ready = None
    detector = commands.detector("d", NEWEST, PolicyOverrides(), make=True)
    detector.apply(
        [(f"k{n}", document(f"k{n}", n << 40)) for n in range(EXPORTED)], {}, judge=False
    )
    do = _Endpoints(commands, None, None)
    count, body = await iterations(do.export(request))
    assert b'"k%d"' % (EXPORTED - 1) in body
    assert count > EXPORTED // PART // TURNS
    namespaces.close()


async def test_a_flood_of_transactions_leaves_the_loop_to_others(folder):
    """500 connections send EXEC at once: an iteration of the loop carries out a few of the queues, and ends them all."""
    namespaces, _, connections, wires = flooding(folder, 500)
    for connection in connections:
        connection.data_received(command("MULTI") + command("ECHO", "done"))
    for connection in connections:
        connection.data_received(command("EXEC"))
    for iterations in range(1, 20):
        await asyncio.sleep(0)
        ended = sum(b"done" in wire.written for wire in wires)
        assert ended <= TURNS * iterations
    assert ended
    await rest(connections)
    assert all(wire.written.endswith(b"*1\r\n$4\r\ndone\r\n") for wire in wires)
    namespaces.close()
