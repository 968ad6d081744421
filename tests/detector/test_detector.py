"""The embedded detector: what needs a clock of the test's, a fault, a kill, threads, or its insides.

Against a model of the rules it is held in test_detector_model.py. What every detector keeps, embedded or behind a service, is in test_detectors.py.
"""

import os
import subprocess
import sys
import textwrap

import msgspec
import pytest
from detecting import ONES, RECIPE, A, B, C, page

import dedup
import dedup.detector.reservations
import dedup.model.names
from dedup.detector import MemoryBudget, open_embedded
from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.policy import Options
from dedup.model.recipes import recipe_of
from dedup.store.verify import verify_store


@pytest.fixture
def detector(tmp_path, clock):
    with dedup.open(tmp_path, clock=clock) as opened:
        yield opened


def test_a_store_that_is_closed_gives_the_memory_of_its_pages_in_flight_back(tmp_path):
    """Other stores of a service share that memory; a namespace may be dropped with pages in flight."""
    memory = MemoryBudget(100_000)
    with open_embedded(tmp_path, Options(), memory) as detector:
        detector.reserve(page(), A)
        assert memory.used > 0
    assert memory.used == 0


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


# --------------------------------------------------------------------------- the decision


# ------------------------------------------------------------------------- ending a reservation


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
