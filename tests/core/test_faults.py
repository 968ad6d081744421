"""Messages that are logged once (pauses between tries: tests/wire/test_client.py)."""

import logging
import time

from dedup.core.faults import SayOnce


def test_each_kind_is_said_once_until_it_ended() -> None:
    """A kind is new the first time, whatever the others are; its end is known once."""
    once = SayOnce()
    assert [once.is_new(kind) for kind in ("a", "b", "a", "b", "a")] == [True] * 2 + [False] * 3
    assert once.ended("a")
    assert not once.ended("a")
    assert once.is_new("a")


def test_a_kind_is_new_again_after_its_time() -> None:
    """With again_seconds a lasting fault is said now and then; each kind has its own time."""
    once = SayOnce(again_seconds=10.0)
    asked = [("a", 100.0), ("b", 105.0), ("a", 109.9), ("a", 110.0), ("b", 110.0), ("a", 119.0)]
    assert [once.is_new(*each) for each in asked] == [True, True, False, True, False, False]


def test_a_message_that_is_left_out_is_counted(caplog) -> None:
    """The next message of a kind has the number of those since the last one."""
    once, log = SayOnce(again_seconds=0.2), logging.getLogger("test")
    for number in range(3):
        once.log(log, "a", "fault %d", number)
    time.sleep(0.25)
    once.log(log, "a", "fault %d", 3, level=logging.WARNING)
    assert caplog.messages == ["fault 0", "fault 3 (2 more like it)"]
