"""Pauses between tries, and messages that are logged once."""

import logging
import time

from dedup.core.faults import Backoff, SayOnce


def test_pauses_double_up_to_the_bound() -> None:
    """Each pause is twice the one before, and none is longer than the bound."""
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next() for _ in range(6)] == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_reset_starts_with_the_first_pause() -> None:
    """After a success the next failure waits as little as the first one did."""
    backoff = Backoff(0.25, 5.0)
    for _ in range(4):
        backoff.next()
    backoff.reset()
    assert [backoff.next(), backoff.next()] == [0.25, 0.5]


def test_another_factor() -> None:
    """The growth is a parameter."""
    backoff = Backoff(5.0, 45.0, factor=3.0)
    assert [backoff.next() for _ in range(4)] == [5.0, 15.0, 45.0, 45.0]


def test_the_first_pause_keeps_the_bound() -> None:
    """A first pause above the bound is the bound."""
    assert Backoff(9.0, 2.0).next() == 2.0


def test_any_number_of_tries() -> None:
    """A loop that never succeeds neither overflows nor leaves the bound."""
    backoff = Backoff(0.1, 2.0)
    assert max(backoff.next() for _ in range(5000)) == 2.0


def test_each_kind_is_said_once() -> None:
    """A kind is new the first time, whatever the others are."""
    once = SayOnce()
    assert [once.is_new(kind) for kind in ("a", "b", "a", "b", "a")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_what_ended_is_new_again() -> None:
    """The end of a fault is known once, and the next fault of its kind is new."""
    once = SayOnce()
    assert not once.ended("a")
    assert once.is_new("a")
    assert once.ended("a")
    assert not once.ended("a")
    assert once.is_new("a")


def test_a_kind_is_new_again_after_its_time() -> None:
    """With again_seconds a lasting fault is said now and then; each kind has its own time."""
    once = SayOnce(again_seconds=10.0)
    assert once.is_new("a", 100.0)
    assert once.is_new("b", 105.0)
    assert not once.is_new("a", 109.9)
    assert once.is_new("a", 110.0)
    assert not once.is_new("b", 110.0)
    assert not once.is_new("a", 119.0)


def test_a_message_that_is_left_out_is_counted(caplog) -> None:
    """The next message of a kind has the number of those since the last one."""
    once, log = SayOnce(again_seconds=0.2), logging.getLogger("test")
    for number in range(3):
        once.log(log, "a", "fault %d", number)
    time.sleep(0.25)
    once.log(log, "a", "fault %d", 3, level=logging.WARNING)
    assert caplog.messages == ["fault 0", "fault 3 (2 more like it)"]
