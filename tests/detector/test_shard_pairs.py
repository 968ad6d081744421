"""Two near-duplicates in flight at two shards: one of them goes on, whatever comes in which order.

The services are real Operations over real stores, without sockets; the log is a list.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from logs import RECIPE
from sketches import sketch

from dedup.model.events import decode, encode, record_key
from dedup.model.page import Document, PageFingerprint, ReserveOptions, Verdict
from dedup.service.core.namespaces import Namespaces, PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.replica import LogInserts
from dedup.wire.shards import PartitionShare, merged, partition_of

NS, COUNT = "news", 4
SHARES = ("0-1", "2-3")


def page(bits: int) -> PageFingerprint:
    return PageFingerprint(0x0123456789ABCDEF, sketch(bits), 0, 300, RECIPE)


def homes(key: str) -> int:
    """Which of the two shards is the home of a key."""
    return partition_of(record_key(NS, key), COUNT) // 2


def keys_of(first: int, second: int) -> tuple[str, str]:
    """Return two keys, the smaller one first, with these homes."""
    keys = sorted(f"http://example.com/{i}" for i in range(40))
    return next(
        (a, b)
        for a, b in itertools.combinations(keys, 2)
        if (homes(a), homes(b)) == (first, second)
    )


class Shards:
    """Two services, and the log between them."""

    unacknowledged = 0

    def __init__(self, folder: Path) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.commands = []
        for number, held in enumerate(SHARES):
            namespaces = Namespaces(folder / str(number), share=PartitionShare.of(held, COUNT))
            commands = Operations(namespaces, LogInserts(self))
            commands.not_ready = None
            self.commands.append(commands)

    def close(self) -> None:
        for commands in self.commands:
            commands.namespaces.close()

    async def send(self, key: bytes, value: bytes | None) -> None:
        self.log.append((key, value))

    def reserve(self, shard: int, key: str, token: str) -> Verdict:
        return self.commands[shard].reserve(
            NS,
            key,
            page(len(key)),
            PolicyOverrides(),
            ReserveOptions(token=token, home=shard == homes(key)),
        )

    def asked(self, key: str, token: str) -> Verdict | None:
        """One whole attempt: everywhere, merged; what reserves nothing is released everywhere."""
        answers = {shard: self.reserve(shard, key, token) for shard in (0, 1)}
        return self.settled(key, token, answers)

    def settled(self, key: str, token: str, answers: dict[int, Verdict]) -> Verdict | None:
        verdict = merged(answers, homes(key))
        if verdict is None or verdict.token is None:
            self.release(key, token, 0, 1)
        return verdict

    def release(self, key: str, token: str, *shards: int) -> None:
        for shard in shards:
            self.commands[shard].release(NS, key, token)

    async def insert(self, key: str, token: str) -> None:
        done = self.commands[homes(key)].insert(NS, key, token)
        assert done is not None
        await done
        self.release(key, token, 1 - homes(key))

    def in_flight(self) -> list[int]:
        return [commands.info()["in_flight"] for commands in self.commands]

    def apply(self) -> None:
        """Have the homes apply what is new in the log."""
        new, self.log = self.log, []
        for key, value in new:
            event = decode(key, value)
            detector = self.commands[homes(event.key)].namespaces.detector(NS, recipe=RECIPE)
            assert detector is not None
            detector.apply([(event.key, event.document)], {})


@pytest.fixture
def shards(tmp_path):
    made = Shards(tmp_path)
    yield made
    made.close()


PAIRS = list(itertools.product((0, 1), repeat=2))
_numbers = itertools.count()


def fresh() -> str:
    """A token that nobody has used."""
    return f"token-{next(_numbers):016x}"


def both_ways(pair: tuple[int, int]) -> tuple[tuple[str, str], tuple[str, str]]:
    keys = keys_of(*pair)
    return keys, keys[::-1]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_in_any_interleaving_one_waits_and_one_goes_on(pair, shards):
    """Whichever homes they have: never both pending, never both unique; the home of the smaller key decides."""
    keys = keys_of(*pair)
    steps = [(number, shard) for number in (0, 1) for shard in (0, 1)]
    for order in itertools.permutations(steps):
        tokens = fresh(), fresh()
        answers: dict[int, dict[int, Verdict]] = {0: {}, 1: {}}
        for number, shard in order:
            answers[number][shard] = shards.reserve(shard, keys[number], tokens[number])
        verdicts = [shards.settled(keys[n], tokens[n], answers[n]) for n in (0, 1)]
        came_first = next(number for number, shard in order if shard == homes(keys[0]))
        assert verdicts[came_first].status == "unique", order
        assert verdicts[1 - came_first].status == "pending", order
        assert verdicts[1 - came_first].of == keys[came_first]
        shards.release(keys[came_first], tokens[came_first], 0, 1)
        assert shards.in_flight() == [0, 0]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_who_waits_is_dropped_once_the_other_is_applied(pair, shards):
    """An accepted page counts at its home against everybody, whoever decides between the two."""

    async def main():
        for one, other in both_ways(pair):
            token = fresh()
            assert shards.asked(one, token).status == "unique"
            assert shards.asked(other, fresh()).status == "pending"
            await shards.insert(one, token)
            assert shards.in_flight() == [1 - homes(one), homes(one)]
            waits = shards.asked(other, fresh())  # the event is on its way
            assert (waits.status, waits.of) == ("pending", one)
            shards.apply()
            dropped = shards.asked(other, fresh())
            assert (dropped.status, dropped.of) == ("near_duplicate", one)
            assert shards.in_flight() == [0, 0]
            await shards.commands[homes(one)].forget(NS, one)
            shards.apply()

    asyncio.run(main())


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_who_waits_goes_on_once_the_other_is_given_back(pair, shards):
    for one, other in both_ways(pair):
        first, second = fresh(), fresh()
        assert shards.asked(one, first).status == "unique"
        assert shards.asked(other, fresh()).status == "pending"
        shards.release(one, first, 0, 1)
        assert shards.asked(other, second).status == "unique"
        shards.release(other, second, 0, 1)


def test_a_document_of_another_shard_drops_a_page(shards):
    """The most similar of all shards is named."""
    one, other = keys_of(1, 0)
    shards.log.append(encode(NS, Document(one, page(3), "", 0.0)))
    shards.apply()
    verdict = shards.asked(other, fresh())
    assert (verdict.status, verdict.of) == ("near_duplicate", one)
    assert shards.asked(one, fresh()).status == "refetch"
