"""The embedded detector: what needs a clock of the test's, a fault, a kill, threads, or its insides.

Against a model of the rules it is held in test_detector_model.py. What every detector keeps, embedded or behind a service, is in test_detectors.py.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
from unittest import mock

import msgspec
import pytest
from detecting import ONES, RECIPE, A, B, C, Clock, accept, bits, page, saying
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

import dedup
import dedup.detector.reservations
import dedup.model.names
from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.recipes import recipe_of
from dedup.store.verify import verify_store


@pytest.fixture
def detector(tmp_path, clock):
    with dedup.open(tmp_path, clock=clock) as opened:
        yield opened


# ------------------------------------------------------------------------------- the promises


def test_promise_1_nothing_is_lost_when_the_store_errs(detector, monkeypatch):
    """An insert that fails leaves the reservation: others stay pending, and it can be repeated."""

    def refuse(_):
        raise OSError(28, "No space left on device", "documents.mdb")

    verdict = detector.reserve(page(), A)
    with monkeypatch.context() as patch:
        patch.setattr(detector._store, "insert", refuse)
        with pytest.raises(OSError, match="No space"):
            detector.insert(verdict)
    assert detector.reserve(page(), B).status == "pending"
    detector.insert(verdict)
    assert detector.reserve(page(), B).status == "near_duplicate"


def test_promise_2_a_page_is_never_a_duplicate_of_itself_after_a_crash(tmp_path):
    """A page that was in flight or inserted when the process was killed is kept when resumed."""
    code = """
        import os, sys
        import dedup
        from dedup.model.recipes import NEWEST
        from dedup.model.page import PageFingerprint
        detector = dedup.open(sys.argv[1])
        def reserve(key, value):
            page = PageFingerprint(value, bytes([255]) + bytes(36), 0, 100, NEWEST)
            return detector.reserve(page, key)
        detector.insert(reserve("http://example.com/a", 0))
        reserve("http://example.com/b", 2**64 - 1)
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    assert subprocess.run(command, check=False, timeout=600).returncode == -9
    with dedup.open(tmp_path) as resumed:
        assert resumed.reserve(page(0), A).status == "refetch"
        assert resumed.reserve(page(ONES), B).status == "unique"
        assert resumed.reserve(page(0), C).status == "near_duplicate"


def test_promise_2_a_page_is_never_a_duplicate_of_itself_when_crawled_again(detector):
    """A recrawl of near-duplicates that were all accepted keeps every one of them."""
    detector.insert(detector.reserve(page(), A))
    detector.insert(detector.reserve(page(), B, exempt="start"))
    for key in (A, B):
        verdict = detector.reserve(page(bits(1)), key)
        assert verdict.status == "refetch"
        detector.insert(verdict)
    assert len(detector) == 2


# --------------------------------------------------------------------------- the decision


def test_the_guard_looks_at_every_match(detector):
    """A page counts as a near-duplicate of those matches that are not other pages by their own word:
    not of the most similar, and of one in flight only once that is inserted."""
    accept(detector, page(identity=saying(1)), A)
    second = detector.reserve(page(bits(3), bits(9), identity=saying(2)), B)
    assert second.reason == "other_title"
    copy = page(bits(1), bits(3), identity=saying(2))
    verdict = detector.reserve(copy, C)
    assert (verdict.status, verdict.of) == ("pending", B)
    detector.insert(second)
    verdict = detector.reserve(copy, C)
    assert (verdict.status, verdict.of) == ("near_duplicate", B)


# ------------------------------------------------------------------------- ending a reservation


def test_an_expired_reservation_is_inserted_all_the_same(detector, clock):
    """After expiry insert() stores, and tells that a near-duplicate was inserted meanwhile."""
    verdict = detector.reserve(page(), A)
    clock.now += 600
    other = detector.reserve(page(), B)
    assert other.status == "unique"
    assert detector.insert(other) is False
    assert detector.insert(verdict) is True
    assert len(detector) == 2
    assert detector.reserve(page(), A).status == "refetch"


@settings(max_examples=examples(60), deadline=None)
@given(
    values=st.lists(st.integers(0, 9).map(lambda n: bits(5 * n)), min_size=1, max_size=12),
    sizes=st.lists(st.integers(1, 5), min_size=12, max_size=12),
    recent=st.sampled_from([1, 64]),
)
def test_late_duplicates_are_told_however_pages_are_inserted(values, sizes, recent):
    """Of pages that were all unique when they were reserved, those are late that a scan finds late.

    So it is one by one or together, and however many were inserted in between.
    """
    clock = Clock()
    with (
        mock.patch.object(dedup.detector.reservations, "RECENT", recent),
        tempfile.TemporaryDirectory() as folder,
        dedup.open(folder, clock=clock) as detector,
    ):
        verdicts = []
        for number, value in enumerate(values):
            clock.now += 600  # the ones before have expired
            verdicts.append(detector.reserve(page(value), f"http://example.com/{number}"))
        assert {verdict.status for verdict in verdicts} == {"unique"}
        late = []
        while verdicts:
            size = sizes.pop()
            late += detector.insert_many(verdicts[:size])
            verdicts = verdicts[size:]
        expected = [
            any((value ^ other).bit_count() <= 8 for other in values[:number])
            for number, value in enumerate(values)
        ]
        assert late == expected
        assert len(detector) == len(values)


# ------------------------------------------------------------------------------------- opening


FORKED = """
    import os, sys, dedup
    from dedup.model.recipes import NEWEST
    from dedup.model.page import PageFingerprint

    def page(n):
        return PageFingerprint(n * 0x9E3779B97F4A7C15 % 2**64, bytes(37), 0, 100, NEWEST)

    detector = dedup.open(sys.argv[1])
    held = detector.reserve(page(1), "http://example.com/1")
    child = os.fork()
    if child == 0:
        for action in (
            lambda: detector.insert(held),
            lambda: detector.release(held),
            lambda: detector.reserve(page(2), "http://example.com/2"),
            lambda: len(detector),
            lambda: dedup.open(sys.argv[1]),
        ):
            try:
                print("child", action())
            except dedup.DedupError as error:
                print(type(error).__name__, "forked" in str(error))
        detector.close()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    for n in range(2, 5):
        detector.insert(detector.reserve(page(n), f"http://example.com/{n}"))
    detector.insert(held)
    print(len(detector))
    detector.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_store_stays_with_the_process_that_opened_it(tmp_path):
    """One forked later is refused by name, and leaves nothing of its own in the store."""
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKED), tmp_path],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ran.stdout.splitlines() == ["UsageError True"] * 4 + ["StoreLocked False", "4"]
    assert verify_store(tmp_path, "default").problems == []


@pytest.mark.parametrize("target", ["", b""])
def test_an_empty_target_is_no_folder(target):
    """It would be the current one, by way of a variable that is not set."""
    with pytest.raises(UsageError, match="names no folder"):
        dedup.open(target)


@pytest.mark.parametrize("wrong", [{"identity": -1}, {"identity": 2**64}, {"sketch": bytes(36)}])
def test_a_fingerprint_that_is_none_is_not_inserted(detector, wrong):
    """No 64-bit number, and no sketch of another length, reaches the store, whatever verdict it is put into."""
    made = detector.reserve(page(), A).brought(page=page(5, **wrong))
    with pytest.raises(UsageError, match="64|not allowed"):
        detector.insert(msgspec.structs.replace(made, token="unknown"))
    assert len(detector) == 0


def test_promise_6_a_digest_that_is_too_long_leaves_the_store_as_it_is(tmp_path):
    """The greatest is taken and read again; one byte more is refused, and the page can be inserted without it."""
    with dedup.open(tmp_path) as detector:
        detector.insert(detector.reserve(page(), A).brought(items=b"i" * 1024))
        verdict = detector.reserve(page(ONES), B)
        for ending in (
            detector.insert,
            lambda made: detector.insert_held([(B, made.token, {"items": made.document.items})]),
        ):
            with pytest.raises(UsageError, match="items up to 1,024"):
                ending(verdict.brought(items=b"i" * 1025))
        detector.insert(verdict)
    with dedup.open(tmp_path) as detector:
        assert detector.get(A).items == b"i" * 1024
        assert detector.reserve(page(), C).of == A
        assert detector.reserve(page(ONES), C).of == B


def test_a_closed_detector_is_closed_while_others_share_its_store(tmp_path):
    """What asks the store of them is refused too."""
    with dedup.open(tmp_path):
        detector = dedup.open(tmp_path)
        detector.close()
        for action in (
            detector.__len__,
            detector.__enter__,
            lambda: detector.store,
        ):
            with pytest.raises(UsageError, match="closed"):
                action()


def test_secrets_belong_to_a_store(tmp_path):
    """A keyed store judges without its secret, makes fingerprints only with it, refuses others."""
    with dedup.open(tmp_path, secret="one") as keyed:
        made = keyed.fingerprint(b"<p>some words in a page</p>")
        assert made.recipe == keyed.recipe.id == recipe_of(secret="one").id
    with dedup.open(tmp_path) as without:
        assert without.reserve(made, A, exempt="start").token
        with pytest.raises(RecipeMismatch, match="secret"):
            without.fingerprint(b"<p>some words in a page</p>")
        with pytest.raises(RecipeMismatch):
            dedup.open(tmp_path, secret="two")
        with pytest.raises(RecipeMismatch):
            dedup.open(tmp_path, recipe=RECIPE)
        with pytest.raises(RecipeMismatch):
            dedup.open(tmp_path, recipe=recipe_of(RECIPE))
