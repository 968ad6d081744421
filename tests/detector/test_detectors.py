"""What every detector keeps, whichever way it was opened: a folder or a service, blocking or in a loop.

Through the interface alone. Times are real here: a service has a clock of its own. What only an
embedded detector can show is in test_detector.py.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from detecting import ONES, RECIPE, A, B, C, accept, bits, flat, page, saying, verdict_on
from sketches import differing

import dedup
from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.recipes import recipe_of

# ------------------------------------------------------------------------------- the promises


def test_promise_1_nothing_is_lost_without_an_inserted_original(detector):
    """A near-duplicate of a page in flight is pending; it is dropped only once that is inserted."""
    original = detector.reserve(page(), A)
    assert detector.reserve(page(), B).status == "pending"
    detector.insert(original)
    assert detector.reserve(page(), B).status == "near_duplicate"


def test_promise_1_nothing_is_lost_and_every_drop_is_explained(detector):
    """A near_duplicate verdict says of which page, how far, how alike, and what both say."""
    accept(detector, page(bits(2), differing(0.95), identity=saying(1)), A)
    probe = page(identity=saying(1))
    verdict = detector.reserve(probe, B)
    assert verdict.similarity is not None and 0.95 <= verdict.similarity < 0.96
    expected = ("near_duplicate", "", B, A, 2, verdict.similarity, "same", probe, None)
    assert flat(verdict) == (*expected, "example.com")


def test_promise_1_nothing_is_lost_by_a_near_duplicate(detector):
    """A near-duplicate holds no token, cannot be inserted, and never becomes an original."""
    accept(detector, page(0), A)
    verdict = detector.reserve(page(bits(6)), B)
    assert verdict.status == "near_duplicate"
    with pytest.raises(UsageError, match="no token"):
        detector.insert(verdict)
    assert not detector.release(verdict)
    assert detector.reserve(page(bits(15)), C).status == "unique"


def test_promise_2_a_page_is_never_a_duplicate_of_itself(detector):
    """The same key is a refetch with a token: in flight, inserted, or with another content."""
    first = detector.reserve(page(), A)
    assert (detector.reserve(page(), A).status, first.status) == ("refetch", "unique")
    detector.insert(first)
    for value in (0, bits(3), ONES):
        verdict = detector.reserve(page(value), A)
        assert (verdict.status, verdict.of) == ("refetch", None)
        assert verdict.token


@pytest.mark.parametrize("detectors", [1, 2])
def test_promise_3_two_phases_exactly_one_of_two_at_once_wins(opens, detectors):
    """20 times two threads reserve near-duplicates at once: one is unique, one is pending."""
    sides = [opens() for _ in range(detectors)] * (3 - detectors)
    with ThreadPoolExecutor(2) as threads:
        for number in range(20):
            value = number * 0x9E3779B97F4A7C15 % 2**64
            barrier = threading.Barrier(2)

            def reserve(side: int, value: int = value, number: int = number, b: Any = barrier):
                b.wait()
                return sides[side].reserve(page(value), f"http://example.com/{number}/{side}")

            verdicts = sorted(threads.map(reserve, (0, 1)), key=lambda v: v.status)
            assert [v.status for v in verdicts] == ["pending", "unique"]
            assert verdicts[0].of == verdicts[1].key
            sides[0].insert(verdicts[1])
            again = sides[1].reserve(page(value), verdicts[0].key)
            assert again.status == "near_duplicate"
    assert len(sides[0]) == 20


def test_promise_3_two_phases_a_released_page_leaves_nothing(detector):
    """After release the next near-duplicate is unique; releasing again is False."""
    verdict = detector.reserve(page(), A)
    assert detector.release(verdict)
    assert not detector.release(verdict)
    assert detector.reserve(page(), B).status == "unique"


def test_promise_3_two_phases_what_nobody_ends_expires(opens):
    """At its expiry a reservation no longer holds anyone up."""
    detector = opens(reservation_seconds=0.2)
    verdict = detector.reserve(page(), A)
    time.sleep(0.25)
    other = detector.reserve(page(), B)
    assert other.status == "unique"
    assert not detector.release(verdict)
    detector.release(other)
    assert detector.reserve(page(ONES), C).status == "unique"


def test_promise_5_fingerprints_of_another_recipe_are_refused(detector):
    """probe and reserve raise RecipeMismatch naming both recipes."""
    other = page(recipe="words-0-0")
    for action in (detector.probe, lambda p: detector.reserve(p, A)):
        with pytest.raises(RecipeMismatch, match=f"{RECIPE}.*words-0-0"):
            action(other)


def test_promise_5_a_namespace_keeps_its_recipe(opens):
    """A namespace with pages of one recipe is opened for no other: both are named."""
    accept(opens(), page(), A)
    keyed = recipe_of(secret="a secret")
    with pytest.raises(RecipeMismatch, match=RECIPE):
        opens(secret="a secret").reserve(page(recipe=keyed.id), B)


@pytest.mark.parametrize(("end", "status"), [("insert", "near_duplicate"), ("release", "unique")])
def test_decide_waits_for_a_page_in_flight(opens, end, status):
    """decide() answers once the page in flight was inserted or released, and is never `pending`."""
    one, other = opens(), opens()
    original = one.reserve(page(), A)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(other.decide, page(), B, wait_seconds=60)
        time.sleep(0.05)
        assert not waiting.done()
        getattr(one, end)(original)
        assert waiting.result().status == status


@pytest.mark.parametrize("seconds", [0, 0.03])
def test_decide_keeps_a_page_that_waited_long_enough(detector, seconds):
    """It is exempt, and inserted like others; without one in flight nothing is waited for."""
    detector.reserve(page(), A)
    verdict = detector.decide(page(), B, wait_seconds=seconds)
    assert (verdict.status, verdict.reason) == ("exempt", "in_flight")
    detector.insert(verdict)
    assert detector.decide(page(), C, wait_seconds=seconds).status == "near_duplicate"


# ------------------------------------------------------------------------- ending a reservation


def test_insert_after_release_is_refused(detector):
    """A page that was given back never becomes an original behind its crawler's back."""
    verdict = detector.reserve(page(), A)
    detector.release(verdict)
    with pytest.raises(UsageError, match="released"):
        detector.insert(verdict)
    assert len(detector) == 0


def test_a_verdict_twice_in_a_batch_is_inserted_once(detector):
    """Inserting twice changes nothing, in one call as in two."""
    verdict, other = detector.reserve(page(), A), detector.reserve(page(ONES), B)
    assert detector.insert_many([verdict, other, verdict]) == [False, False, False]
    assert len(detector) == 2
    assert detector.info()["in_flight"] == 0


UNIQUE = ("unique", "", A, None, None, None, None)


def test_a_token_that_nobody_knows_is_inserted_all_the_same(detector):
    """A verdict of a process that has ended stores its page; releasing one is False."""
    old, other = (
        verdict_on(*UNIQUE, page(), f"0123456789abcdef-{n}", "example.com") for n in range(2)
    )
    assert detector.release(other) is False
    assert detector.insert(old) is False
    assert detector.reserve(page(), C).of == A
    assert detector.info()["in_flight"] == 0


def test_a_token_does_not_carry_another_page(detector):
    """A verdict put together from two is refused."""
    token = detector.reserve(page(), A).token
    forged = verdict_on("unique", "", B, None, None, None, None, page(ONES), token)
    with pytest.raises(UsageError, match="belongs to"):
        detector.insert(forged)
    assert len(detector) == 0


# ------------------------------------------------------------------------------------- opening


def test_two_detectors_see_each_other(opens):
    """They share documents and pages in flight; closing one leaves the other as it is."""
    first, second = opens(), opens()
    verdict = first.reserve(page(), A)
    assert second.reserve(page(), B).status == "pending"
    first.insert(verdict)
    first.close()
    first.close()
    assert second.reserve(page(), B).status == "near_duplicate"
    assert len(second) == 1


def test_a_greater_distance_also_finds_what_was_there(opens):
    """A second detector with a greater distance finds what a first one with a smaller put in."""
    narrow = opens(distance=2)
    accept(narrow, page(0), A)
    narrow.reserve(page(ONES), B)
    wide = opens(distance=8)
    assert wide.reserve(page(bits(8)), C).of == A
    assert wide.reserve(page(ONES ^ bits(8)), C).of == B
    assert narrow.reserve(page(bits(8)), C).status == "unique"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("distance", 16),
        ("distance", True),
        ("similarity", "strict"),
        ("min_features", -1),
        ("scope", "page"),
        ("reservation_seconds", float("nan")),
        ("namespace", "../x"),
        ("secret", ""),
        ("recipe", 5),
    ],
)
def test_a_wrong_argument_names_itself(opens, argument, value):
    """UsageError says which argument, its value, and what is allowed; nothing is left open."""
    with pytest.raises(UsageError, match=argument) as caught:
        opens(**{argument: value})
    assert argument == "secret" or repr(value) in str(caught.value)
    assert len(opens()) == 0


def test_a_closed_detector_says_so(detector):
    """Every call after close() is a usage error."""
    verdict = detector.reserve(page(), A)
    detector.close()
    for action in (
        lambda: detector.probe(page()),
        lambda: detector.reserve(page(), A),
        lambda: detector.insert(verdict),
        lambda: detector.release(verdict),
        lambda: detector.forget(A),
        detector.info,
    ):
        with pytest.raises(UsageError, match="closed"):
            action()


@pytest.mark.parametrize("key", [None, 5, b"http://example.com/a", "http://example.com/\ud800"])
def test_a_key_that_is_no_text_is_refused(detector, key):
    """Another type, or half of a surrogate pair: it would be judged, and then could not be inserted."""
    with pytest.raises(UsageError, match="document key|Unicode"):
        accept(detector, page(), key, domain="")
    assert len(detector) == 0


def test_fingerprints_may_be_numpys(detector):
    """A page put together from an array's numbers is stored and found like any other."""
    made = page(np.uint64(ONES), identity=np.uint64(7))
    accept(detector, made, A)
    assert detector.reserve(made, B).of == A
    assert detector.reserve(page(ONES, identity=7), C).of == A


def test_open_async_is_awaited_or_entered(tmp_path):
    """Both give a detector, and `async with` closes it; asyncio.run() takes it as it takes a coroutine."""

    async def entered():
        async with dedup.open_async(tmp_path) as detector:
            return await detector.count()

    assert asyncio.run(entered()) == 0
    detector = asyncio.run(dedup.open_async(tmp_path))
    asyncio.run(detector.close())
    dedup.open_async(tmp_path).close()  # never awaited: no warning
