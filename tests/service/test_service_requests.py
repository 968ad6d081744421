"""DEDUP.JOIN, SEEN, FETCHED, LEFT, LEAVE: requests at a service, without and with crawls that die."""

from __future__ import annotations

import shutil

import pytest

from dedup.model.errors import DedupError, UsageError
from dedup.service.core import requests_seen
from dedup.service.core.limits import Limits
from dedup.service.core.requests_seen import DEAD_SECONDS, RequestsSeen
from dedup.service.core.roles import Refused

ONE, TWO, THREE = (f"{number:032x}" for number in (1, 2, 3))


def digest(number: int) -> bytes:
    return f"{number:032x}".encode()


def pairs(*numbers: int, request: bytes = b"request %d") -> list[bytes]:
    return [w for n in numbers for w in (digest(n), request % n if b"%" in request else request)]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the filter of a service; again, as after a kill: nothing is closed before."""
    made = []

    def again(**limits: int) -> RequestsSeen:
        for before in made:
            before.close()
        made.append(RequestsSeen(tmp_path, Limits(**limits), clock))
        return made[-1]

    yield again
    made[-1].close()


def left(requests, crawl: str, **options: str) -> tuple[list[int], int]:
    records, waiting = requests.left("shop", crawl, **options)
    return [int.from_bytes(name, "big") for name, _ in records], waiting


def test_a_request_is_scheduled_once(opened):
    """In one command, by another crawl, and after a restart."""
    requests = opened()
    assert requests.seen("shop", ONE, pairs(1, 2, 1)) == [0, 0, 1]
    assert requests.seen("shop", TWO, pairs(2, 3)) == [1, 0]
    assert requests.fetched("shop", ONE, [digest(1), digest(1), digest(9)]) == 1
    requests = opened()
    assert requests.seen("shop", TWO, pairs(1, 2, 3, 4)) == [1, 1, 1, 0]
    assert requests.seen("other", TWO, pairs(1)) == [0]


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_dead_crawl_left_is_given_once(opened, clock, restart):
    """Not what it fetched; and what has no request is free again."""
    requests = opened()
    requests.seen("shop", ONE, pairs(1, 2, 3))
    requests.seen("shop", ONE, pairs(4, request=b""))
    requests.fetched("shop", ONE, [digest(2)])
    clock.now += 1
    assert left(requests, TWO) == ([], 1)  # it may be dead
    if restart:
        requests = opened()
    clock.now += 1
    requests.seen("shop", TWO, [])
    clock.now += DEAD_SECONDS - 1
    requests.seen("shop", TWO, [])
    clock.now += 2
    assert left(requests, TWO)[0] == [1, 3]
    assert left(requests, TWO) == ([], 0)
    assert left(requests, THREE)[0] == []
    assert requests.seen("shop", THREE, pairs(1, 2, 3, 4)) == [1, 1, 1, 0]
    clock.now += DEAD_SECONDS + 1
    requests.seen("shop", THREE, [])
    assert sorted(n for _ in range(3) for n in left(requests, THREE)[0]) == [1, 3]


def test_a_crawl_that_speaks_is_not_waited_for(opened, clock):
    """As soon as it was heard after the other one began to ask."""
    requests = opened()
    requests.seen("shop", ONE, pairs(1))
    clock.now += 1
    assert left(requests, TWO) == ([], 1)
    clock.now += 1
    requests.seen("shop", ONE, [])
    assert left(requests, TWO) == ([], 0)


def test_a_crawl_takes_its_own_again(opened):
    """All of it, in batches, and what it schedules from then on is not among them."""
    requests = opened()
    many = range(requests_seen.LEFT_MOST + 50)
    requests.seen("shop", ONE, pairs(*many))
    requests = opened()
    found, waiting = left(requests, ONE, own="first")
    requests.seen("shop", ONE, pairs(9999))
    while waiting:
        more, waiting = left(requests, ONE, own="next")
        found += more
    assert found == list(many)


@pytest.mark.parametrize(("finished", "again"), [(True, [0, 1]), (False, [1, 1])])
def test_the_end_of_a_crawl(opened, finished, again):
    """Finished: what failed may be tried again. Else it is another's."""
    requests = opened()
    requests.seen("shop", ONE, pairs(1, 2))
    requests.fetched("shop", ONE, [digest(2)])
    while requests.leave("shop", ONE, finished=finished):
        pass
    assert left(requests, TWO)[0] == ([] if finished else [1])
    assert requests.seen("shop", TWO, pairs(1, 2)) == again


@pytest.mark.parametrize(
    ("memory", "alive", "again"),
    [
        ("crawl", False, 0),
        ("crawl", True, 1),
        ("ever", False, 1),
        ("30d", False, 1),
        ("1s", False, 0),
    ],
)
def test_memory(opened, clock, monkeypatch, memory, alive, again):
    """A new crawl begins with what the most patient one asked for."""
    now = 1_000_000_000.0
    monkeypatch.setattr("dedup.core.digests.time.time", lambda: now)
    requests = opened()
    requests.join("shop", ONE, memory)
    requests.seen("shop", ONE, pairs(1))
    requests.fetched("shop", ONE, [digest(1)])
    clock.now += 0 if alive else DEAD_SECONDS + 1
    monkeypatch.setattr("dedup.core.digests.time.time", lambda: now + 86400)
    requests.join("shop", TWO, "crawl")
    assert requests.seen("shop", TWO, pairs(1)) == [again]


def test_what_is_refused_changes_nothing(opened):
    """Words that are none, too much at once, and more than --memory allows."""
    requests = opened(memory_bytes=1)
    for wrong in ([b"x"], [b"x", b""], [digest(1).upper().replace(b"0", b"A"), b""]):
        with pytest.raises(UsageError):
            requests.seen("shop", ONE, wrong)
    with pytest.raises(UsageError):
        requests.seen("shop", "../../etc", [])
    with pytest.raises(UsageError):
        requests.join("shop", ONE, "sometimes")
    with pytest.raises(DedupError):
        requests.seen("../shop", ONE, [])
    with pytest.raises(Refused, match="65,536"):
        requests.seen("shop", ONE, [digest(1), bytes(70_000)])
    with pytest.raises(Refused, match="--memory"):
        requests.seen("shop", ONE, pairs(1))
    assert opened().seen("shop", ONE, pairs(1)) == [0]


def test_a_copy_of_the_folder_is_the_filter(opened, clock, tmp_path):
    """Copied while nobody uses it: what was fetched is known, what waits is given to the next crawl."""
    requests = opened()
    requests.seen("shop", ONE, pairs(1, 2, 3))
    requests.fetched("shop", ONE, [digest(2)])
    requests.close()
    copied = tmp_path / "copy" / "shop" / "requests"
    shutil.copytree(tmp_path / "shop" / "requests", copied)
    again = RequestsSeen(tmp_path / "copy", Limits(), clock)
    try:
        assert again.seen("shop", TWO, pairs(1, 2, 3, 4)) == [1, 1, 1, 0]
        clock.now += DEAD_SECONDS + 1
        assert left(again, TWO)[0] == [1, 3]
    finally:
        again.close()
