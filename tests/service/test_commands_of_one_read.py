"""Commands of one read are carried out as if each had come alone; inserts of one read are one commit."""

import asyncio
import itertools
from pathlib import Path

from commands import page
from fuzzing_resp import LIMITS, Wire, command
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sizes import examples
from sketches import sketch

import dedup
from dedup.model.recipes import NEWEST
from dedup.service.core.access import Tokens
from dedup.service.core.namespaces import Namespaces
from dedup.service.core.operations import Operations
from dedup.service.resp.port import Connection, Port
from dedup.store.store import Store

FAR = [0, 0xFFFFF << 40, 0xFFFFF << 16]  # values that are not near each other


def reserve(
    key: object, value: int, token: object, *options: object, recipe: str = NEWEST
) -> bytes:
    return command("DEDUP.RESERVE", "d", key, page(value, recipe=recipe), "TOKEN", token, *options)


MADE = reserve("first", 0xFFFF << 48, "a-token-of-its-own-")  # makes the namespace


def ended(what: str, key: object, token: object, *some: object) -> bytes:
    return command(f"DEDUP.{what}", "d", key, token, *some)


def answered(folder: Path, reads: list[bytes]) -> tuple[bytes, int]:
    """Return what a new service answers to some reads, and how many commands it was asked."""

    async def talk() -> tuple[bytes, int]:
        namespaces = Namespaces(folder, limits=LIMITS)
        commands = Operations(namespaces, None, LIMITS)
        commands.not_ready = None
        port, wire = Port(commands, LIMITS, Tokens(None, None)), Wire()
        connection = Connection(port)
        connection.connection_made(wire)
        try:
            for read in reads:
                connection.data_received(read)
                while connection._scheduled or connection._answers.waiting:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        finally:
            namespaces.close()
        return bytes(wire.written), sum(port.asked.values())

    return asyncio.run(talk())


keys = st.integers(0, 5).map(lambda n: f"http://example.com/{n}")
tokens = st.integers(0, 9).map(lambda n: f"a-token-of-{n:08d}")
values = st.builds(lambda far, bits: far ^ bits, st.sampled_from(FAR), st.integers(0, 7))
options = st.sampled_from(
    [(), ("FIELDS", "on"), ("DISTANCE", 2), ("EXEMPT", "start"), ("DISTANCE", 99), ("GUARD", "off")]
)
pages = st.builds(
    lambda key, value, token, some: reserve(key, value, token, *some), keys, values, tokens, options
)
probes = st.builds(
    lambda value, digits, some, ns: command("DEDUP.PROBE", ns, page(value, sketch=digits), *some),
    values,
    st.sampled_from([sketch().hex(), sketch().hex().upper(), "00" * 37, "z" + "0" * 73, "ab"]),
    st.sampled_from([(), ("COUNT", 1), ("FIELDS", "on"), ("DISTANCE", 1), ("DISTANCE", 99)]),
    st.sampled_from(["d", "d", "none"]),
)
brought = st.sampled_from(
    [(), ("PAID", 0), ("PAID", 1), ("ITEMS", "ab"), ("items", "cd"), ("ITEMS", "x")]
)
endings = st.one_of(
    st.builds(lambda key, token: ended("RELEASE", key, token), keys, tokens),
    st.builds(lambda key, token, some: ended("INSERT", key, token, *some), keys, tokens, brought),
)
wrong = st.sampled_from(
    [
        reserve("", 1, "a-token-of-00000001"),
        reserve(b"\xff", 1, "a-token-of-00000002"),
        reserve("k", 1, "short"),
        reserve("k", 1, "a-token-of-00000003", recipe="words-0-0"),
        reserve("k", 1 << 64, "a-token-of-00000003"),
        command("DEDUP.RESERVE", "d"),
        command("DEDUP.RELEASE"),
        command("DEDUP.RELEASE", "d", "k"),
        command("DEDUP.FORGET", "d", "http://example.com/1"),
        command("DEDUP.INFO", "x"),
        command("PING"),
        b"PING\r\n",
    ]
)


@settings(max_examples=examples(60), deadline=None)
@given(
    commands=st.lists(st.one_of(pages, pages, pages, probes, probes, endings, wrong), max_size=50),
    cuts=st.sets(st.integers(1, 20_000), max_size=4),
)
@example(
    commands=[
        command("DEDUP.PROBE", "d", page(1), *some) for some in (("COUNT", 1), ("DISTANCE", 99))
    ],
    cuts=set(),
)
def test_commands_of_one_read_are_answered_as_if_each_came_alone(tmp_path_factory, commands, cuts):
    """The answers and the counts are the same, with errors, inserts and other commands in between, cut anywhere."""
    whole = b"".join(commands)
    edges = itertools.pairwise([0, *sorted(cuts), max(20_001, len(whole))])
    reads = filter(None, [whole[a:b] for a, b in edges])
    together = answered(tmp_path_factory.mktemp("together"), [MADE, *reads])
    assert together == answered(tmp_path_factory.mktemp("alone"), [MADE, *commands])


def test_inserts_of_one_read_are_one_commit(tmp_path, monkeypatch):
    """Whatever each of them says of its page: items, paid, nothing. One that fails has its error."""
    batches = []
    insert_many = Store.insert_many
    monkeypatch.setattr(
        Store,
        "insert_many",
        lambda store, documents: batches.append(len(documents)) or insert_many(store, documents),
    )
    spread = [(n + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for n in range(16)]
    reads = [
        MADE,
        b"".join(reserve(f"k{n}", value, f"a-token-of-{n:08d}") for n, value in enumerate(spread)),
        b"".join(
            ended("INSERT", f"k{n}", f"a-token-of-{n:08d}", *said)
            for n, said in enumerate(
                [("ITEMS", f"{n:02x}") for n in range(8)]
                + [(), ("PAID", 0), ("PAID", 0, "ITEMS", "ff"), ("paid", 1)] * 2
            )
        ),
    ]
    said, _ = answered(tmp_path, reads)
    assert said.endswith(b"+OK\r\n" * 16)
    assert batches == [16]
    with dedup.open(tmp_path, namespace="d") as detector:
        assert detector.get("k3").items == b"\x03"
        assert detector.get("k8").paid
        assert not detector.get("k9").paid
        assert (detector.get("k10").paid, detector.get("k10").items) == (False, b"\xff")
