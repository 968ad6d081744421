"""Reservations: who is in flight. The time is a number here, nothing waits."""

import re
import sys
import tracemalloc
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from sketches import sketch

from dedup.core.table import Table
from dedup.detector import reservations as module
from dedup.detector.reservations import MemoryBudget, Reservations, TooManyReserved
from dedup.model.page import Document, PageFingerprint, Verdict
from dedup.model.policy import Options
from dedup.model.recipes import NEWEST, recipe_of

POLICY = Options().policy(recipe_of())
CLIENT_TOKEN = "[A-Za-z0-9-]{16,64}"


def page(value: int) -> PageFingerprint:
    return PageFingerprint(value, sketch(), 0, 100, NEWEST)


def reserve(
    held: Reservations,
    key: str,
    value: int,
    now: float,
    seconds: float = 10,
    token: str | None = None,
) -> str:
    verdict = Verdict("unique", "", Document(key, page(value), "example.com"))
    found = held.reserve(verdict, POLICY, now=now, seconds=seconds, token=token).token
    assert found is not None
    return found


def test_expired_reservations_are_taken_out_in_bounded_steps(monkeypatch):
    """Each reserve takes out at most SWEPT expired ones, and in the end all of them."""
    monkeypatch.setattr(module, "SWEPT", 4)
    held = Reservations(3)
    for i in range(20):
        reserve(held, f"old {i}", i << 20, now=0)
    sizes = []
    for i in range(6):
        reserve(held, f"new {i}", i << 40, now=100)
        sizes.append(len(held))
    assert sizes == [17, 14, 11, 8, 5, 6]


def test_tokens_cannot_be_guessed():
    """A token says nothing about the next one, and a client's own never looks like one of ours."""
    held = Reservations(3)
    tokens = [reserve(held, str(i), i << 20, now=0) for i in range(200)]
    assert len({token[:20] for token in tokens}) == len(set(tokens)) == 200
    assert not any(re.fullmatch(CLIENT_TOKEN, token) for token in tokens)


@pytest.mark.parametrize("used", ["held", "ended"])
def test_a_token_that_was_used_is_known(used):
    """Whether it is held or has ended: no page is reserved with it again."""
    held = Reservations(3)
    reserve(held, "a", 1, now=0, token="a" * 20)
    if used == "ended":
        held.end("a" * 20, "released")
    assert held.knows("a" * 20)
    assert not held.knows("b" * 20)
    assert held.holds("a", 0) == (used == "held")
    held.end("a" * 20, "released")
    assert len(held) == 0
    assert reserve(held, "a", 1, now=100)


def test_a_reserve_costs_the_same_whatever_lifetimes_there_are():
    """A hundred thousand different lifetimes are not looked at one by one."""

    def cost(lifetimes):
        held = Reservations(3)
        for i in range(2000):
            reserve(held, str(i), i << 20, now=0, seconds=1000 + i % lifetimes)
        steps = 0

        def count(_frame, kind, _what):
            nonlocal steps
            steps += kind in ("line", "call")
            return count

        reserve(held, "before", 1 << 60, now=0, seconds=0.5)  # something has to be swept
        sys.settrace(count)
        try:
            reserve(held, "new", 1 << 61, now=10)
        finally:
            sys.settrace(None)
        return steps

    assert cost(2000) < 1.5 * cost(1)


def test_what_reservations_take_is_bounded_in_bytes():
    """One too many is refused, and nothing else changes; what is ended or expired makes room."""
    budget = MemoryBudget(100_000)
    held = Reservations(3, budget)
    tokens = []
    with pytest.raises(TooManyReserved, match="memory"):
        while True:
            tokens.append(reserve(held, f"{len(tokens)}{'k' * 8000}", len(tokens) << 20, now=0))
    assert 3 <= len(tokens) <= 6  # half of the budget
    assert len(held) == len(tokens)
    held.end(tokens[0], "released")
    assert reserve(held, "k" * 8000, 1, now=0)
    last = reserve(held, "later" + "k" * 8000, 2, now=100)
    held.end(last, "released")
    assert budget.used == held.bytes == 0


def test_one_namespace_leaves_memory_for_the_others():
    """Who has taken much is refused while there is as much left for each of the others."""
    budget = MemoryBudget(1_000_000)
    greedy, modest = Reservations(3, budget), Reservations(3, budget)
    with pytest.raises(TooManyReserved):
        for i in range(10_000):
            reserve(greedy, str(i), i << 20, now=0)
    for i in range(100):
        assert reserve(modest, str(i), i << 20, now=0)


def test_a_full_memory_gives_up_the_oldest_pinned_reservation():
    """A pin whose event never comes has no end of its own: it makes room where there is none."""
    held = Reservations(3, MemoryBudget(100_000))
    first = reserve(held, "first", 1, now=0)
    held.pin(first)
    for i in range(500):
        held.pin(reserve(held, str(i), (i + 2) << 20, now=0))
    assert held.get(first) is None
    assert held.holds("499", 10**9)


def test_memory_is_what_a_reservation_takes():
    """What is counted for reservations is at least what they take, and less than twice that."""
    tracemalloc.start()
    held, before = Reservations(3), tracemalloc.get_traced_memory()[0]
    table = Table(3)
    for i in range(5000):
        reserve(held, f"http://example.com/{i}/{'x' * 60}", i * 0x9E3779B97F4A7C15 % 2**64, now=0)
    for i in range(5000):
        table.insert(i * 0x9E3779B97F4A7C15 % 2**64, i)
    taken = tracemalloc.get_traced_memory()[0] - before + table.stats().bytes
    tracemalloc.stop()
    assert taken <= held.bytes <= 2 * taken


def test_the_number_of_remembered_endings_is_bounded(monkeypatch):
    """Only the last endings are remembered."""
    monkeypatch.setattr(module, "ENDED_LIMIT", 2)
    held = Reservations(3)
    for token in ("a", "b", "c"):
        held.end(token, "released")
    assert [held.ending(t) for t in ("a", "b", "c")] == [None, "released", "released"]


steps = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "end", "wait"]),
        st.integers(0, 7),
        st.integers(0, 2**64 - 1).map(lambda v: v & 0x8000_0001_0001_0003),
    ),
    max_size=60,
)


@pytest.mark.parametrize("compared", [64, 4, 0], ids=["few", "some", "many"])
@pytest.mark.parametrize("k", [0, 2, 6])
@settings(max_examples=examples(40), deadline=None)
@given(steps)
def test_reservations_equal_a_plain_list(k, compared, steps):
    """After any steps, near() and holds() say what a scan of a plain list says.

    So they do whether values are compared one by one, or looked up in a table when they are many.
    """
    with mock.patch.object(module, "COMPARED", compared):
        follow(k, steps)


def follow(k, steps):
    held, model, now, count = Reservations(k), {}, 0.0, 0
    for action, number, value in steps:
        if action == "reserve":
            token = reserve(held, str(number), value, now, seconds=1 + number)
            model[token] = (str(number), value, now + 1 + number, count)
            count += 1
        elif action == "end" and model:
            token = sorted(model)[number % len(model)]
            held.end(token, "inserted")
            del model[token]
        else:
            now += number / 2
        near = sorted(
            ((v ^ value).bit_count(), made, key)
            for key, v, expires, made in model.values()
            if expires > now and (v ^ value).bit_count() <= k
        )
        expected = [(distance, key) for distance, _, key in near]
        assert [(d, page.key) for page, d in held.near(value, k, now)] == expected
        alive = {key for key, _, expires, _ in model.values() if expires > now}
        assert {str(n) for n in range(8) if held.holds(str(n), now)} == alive


@pytest.mark.parametrize("compared", [32, 8, 1], ids=["few", "some", "many"])
@settings(max_examples=examples(30), deadline=None)
@given(steps, st.integers(1, 5), st.integers(0, 4))
def test_a_limit_keeps_the_nearest_of_a_plain_list(compared, steps, limit, without):
    """With a limit near() says the first of what it says without one, whatever has ended."""
    with mock.patch.object(module, "COMPARED", compared):
        held, tokens = Reservations(2), []
        for i, (action, number, _) in enumerate(steps):
            if action == "end" and tokens:
                held.end(tokens.pop(number % len(tokens)), "released")
            else:
                tokens.append(reserve(held, str(number), steps[i][2], 0.0))
            for value in {value for _, _, value in steps[:8]}:
                every = held.near(value, 2, 0.0)
                some = held.near(value, 2, 0.0, limit, min(without, limit))
                assert some == every[min(without, limit) : limit]
                assert some.cut == (len(every) > limit)
                alive = [held.get(token).verdict.document for token in tokens]
                assert sorted(page.key for page, _ in every) == sorted(
                    page.key for page in alive if (page.page.value ^ value).bit_count() <= 2
                )
