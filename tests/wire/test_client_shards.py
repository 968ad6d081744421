"""The client and services that share one store: real processes, one log, and what fails between them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from detecting import InLoop
from services import Serving
from sharding import (
    documents,
    in_flight,
    key_in,
    page,
    partition,
    sharded,
    until,
    urls,
)

import dedup
from dedup.model.errors import ServiceUnavailable
from dedup.model.page import Verdict

LOW, HIGH = "0-3", "4-7"

_numbers = count()


@pytest.fixture(scope="module")
def shards(kafka, tmp_path_factory) -> Iterator[list[Serving]]:
    with sharded(tmp_path_factory.mktemp("shards"), kafka, LOW, HIGH) as services:
        yield services


@pytest.fixture(params=[dedup.open, InLoop], ids=["threads", "loop"])
def opens(request) -> Callable[..., Any]:
    return request.param


def remembered(detector: Any, number: int, key: str) -> None:
    """Insert a page and wait until its event is applied."""
    detector.insert(detector.reserve(page(number), key))
    until(lambda: [found.key for found in detector.probe(page(number))] == [key])


# ------------------------------------------------------------------------------ all of them stand


def test_a_copy_is_dropped_wherever_its_original_is(shards, opens, request):
    """Original and copy at one shard or at two: near_duplicate, nothing is left in flight."""
    namespace = f"copies-{request.node.callspec.id}"
    with opens(urls(*shards), namespace=namespace, timeout_seconds=30) as detector:
        for number, (home, other) in enumerate([(LOW, LOW), (LOW, HIGH), (HIGH, LOW)], 1):
            original = key_in(home, number, namespace)
            copy = key_in(other, number + 100, namespace)
            remembered(detector, number, original)
            verdict = detector.reserve(page(number, 2), copy)
            assert (verdict.status, verdict.of, verdict.distance) == ("near_duplicate", original, 2)
            again = detector.reserve(page(number), original)
            assert again.status == "refetch"
            assert detector.release(again)
        until(lambda: in_flight(shards, namespace) == [0, 0])
        assert documents(shards, namespace) == [2, 1]
        assert detector.info()["documents"] == 3


def test_each_pages_document_is_at_its_home_only(shards, opens, request):
    """Pages inserted together are spread by their keys, found again, and forgotten at their homes."""
    namespace = f"spread-{request.node.callspec.id}"
    with opens(urls(*shards), namespace=namespace, timeout_seconds=30) as detector:
        keys = [f"http://example.com/{n}" for n in range(20)]
        verdicts = [detector.reserve(page(n), key) for n, key in enumerate(keys)]
        detector.insert_many(verdicts)
        low = sum(partition(key, namespace) < 4 for key in keys)
        until(lambda: documents(shards, namespace) == [low, 20 - low])
        until(lambda: in_flight(shards, namespace) == [0, 0])
        assert all(detector.forget(key) for key in keys)
        until(lambda: documents(shards, namespace) == [0, 0])


async def test_who_is_cancelled_leaves_no_reservation_at_any_shard(shards):
    """A cancelled reserve() is released at each that it was asked of."""
    opening = dedup.open_async(urls(*shards), namespace="cancelled", timeout_seconds=30)
    async with opening as detector:
        asked = asyncio.ensure_future(detector.reserve(page(1), "http://example.com/"))
        await asyncio.sleep(0)  # written in this turn of the loop
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert asked.cancelled()
        assert (await detector.reserve(page(1), "http://example.com/2")).status == "unique"
    until(lambda: in_flight(shards, "cancelled") == [1, 1])


# ------------------------------------------------------------------------------- some of them do


def answers(ask: Callable[[], Verdict]) -> Verdict:
    """Ask until there is an answer."""
    found: list[Verdict] = []

    def asked() -> bool:
        with contextlib.suppress(ServiceUnavailable):
            found.append(ask())
        return bool(found)

    until(asked)
    return found[0]


@pytest.fixture(scope="module")
def mortal(kafka, tmp_path_factory) -> Iterator[list[Serving]]:
    """Shards that a test may kill and start again."""
    with sharded(tmp_path_factory.mktemp("mortal"), kafka, LOW, HIGH) as services:
        yield services


@contextlib.contextmanager
def both(services: Sequence[Serving], timeout_seconds: float) -> Iterator[dict[str, Any]]:
    """Open a detector of either kind, each with its namespace."""
    namespaces = {f"threads-{next(_numbers)}": dedup.open, f"loop-{next(_numbers)}": InLoop}
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(
                opens(urls(*services), namespace=name, timeout_seconds=timeout_seconds)
            )
            for name, opens in namespaces.items()
        }


def test_promise_1_nothing_is_lost_when_a_shard_is_killed(mortal):
    """Killed with -9: what the other holds is dropped, all else kept; back again, it has all of it."""
    with both(mortal, 10) as detectors:
        held = {name: _before_the_kill(name, detector) for name, detector in detectors.items()}
        mortal[1].kill()
        for name, detector in detectors.items():
            _while_it_is_away(mortal, name, detector, held[name])
        mortal[1].start()
        for name, detector in detectors.items():
            copy = answers(lambda d=detector, n=name: d.reserve(page(2, 1), key_in(LOW, 12, n)))
            assert (copy.status, copy.of) == ("near_duplicate", key_in(HIGH, 2, name))
            detector.insert(held[name][1])  # its home has forgotten the token
            until(lambda name=name: documents(mortal, name) == [2, 2])
            until(lambda name=name: in_flight(mortal, name) == [0, 0])


def _before_the_kill(name: str, detector: Any) -> list[Verdict]:
    remembered(detector, 1, key_in(LOW, 1, name))
    remembered(detector, 2, key_in(HIGH, 2, name))
    return [
        detector.reserve(page(3), key_in(LOW, 3, name)),
        detector.reserve(page(4), key_in(HIGH, 4, name)),
    ]


def _while_it_is_away(mortal: list[Serving], name: str, detector: Any, held: list[Verdict]) -> None:
    copy = detector.reserve(page(1, 1), key_in(LOW, 11, name))
    assert (copy.status, copy.of) == ("near_duplicate", key_in(LOW, 1, name))
    for number, share in ((1, HIGH), (5, LOW), (5, HIGH)):
        with pytest.raises(ServiceUnavailable, match="partitions 4-7"):
            detector.reserve(page(number, 1), key_in(share, number + 20, name))
    with pytest.raises(ServiceUnavailable):
        detector.insert_many(held[::-1])  # the one whose home stands is, all the same
    until(lambda: documents(mortal[:1], name) == [2])
    until(lambda: in_flight(mortal[:1], name) == [1])  # the other's page


def test_a_reservation_whose_answer_is_lost_is_released(mortal):
    """A shard that stalls costs the timeout; what it then reserves for nobody is given back."""
    with both(mortal, 2) as detectors:
        before = reserved(mortal[1])
        assert mortal[1].process is not None
        mortal[1].process.send_signal(signal.SIGSTOP)
        try:
            for name, detector in detectors.items():
                for number, share in ((1, LOW), (2, HIGH)):
                    with pytest.raises(ServiceUnavailable):
                        detector.reserve(page(number), key_in(share, number, name))
        finally:
            mortal[1].process.send_signal(signal.SIGCONT)
        until(lambda: reserved(mortal[1]) >= before + 2)
        for name, detector in detectors.items():
            answers(detector.info)
            until(lambda name=name: in_flight(mortal, name) == [0, 0])


def reserved(service: Serving) -> int:
    """Return how many pages a service has found unique so far."""
    _, text = service.get("/metrics")
    found = re.findall(r'^dedup_results_total\{.*"unique".*\} (\S+)$', text.decode(), re.MULTILINE)
    return int(sum(map(float, found)))
