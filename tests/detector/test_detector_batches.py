"""What the table service needs of a detector: batches of probes, and reservations by their tokens."""

import random

import pytest
from detecting import ONES, RECIPE, bits, page, saying
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from sketches import sketch

import dedup
from dedup.model.errors import UsageError
from dedup.model.page import Document, PageFingerprint
from dedup.store import TooMany


@pytest.fixture
def detector(tmp_path, clock):
    with dedup.open(tmp_path, clock=clock) as opened:
        yield opened


def near(value: int, rng: random.Random, most: int) -> int:
    for bit in rng.sample(range(64), rng.randrange(most + 1)):
        value ^= 1 << bit
    return value


@settings(deadline=None, max_examples=examples(30))
@given(seed=st.integers(0, 2**32), distance=st.integers(0, 9), scope=st.booleans())
def test_a_batch_of_probes_answers_as_each_alone(tmp_path_factory, seed, distance, scope):
    """probe_many gives probe's answer for each page that has one, and no other index."""
    rng = random.Random(seed)
    bases = [rng.getrandbits(64) for _ in range(4)]
    folder = tmp_path_factory.mktemp("s")
    options = {"scope": "site"} if scope else {}
    with (
        dedup.open(folder, distance=9) as widest,
        dedup.open(folder, distance=distance, **options) as detector,
    ):
        for i in range(60):
            fingerprint = page(near(rng.choice(bases), rng, 6), bits(rng.randrange(70)))
            domain = rng.choice(["a", "b"])
            verdict = widest.reserve(fingerprint, f"k{i}", domain=domain, exempt="start")
            widest.insert(verdict)
        values = [near(rng.choice(bases), rng, 6) for _ in range(40)]
        values += [rng.getrandbits(64) for _ in range(10)]
        sketches = [sketch(bits(rng.randrange(70))) for _ in values]
        pages = [
            PageFingerprint(value, sketched, 0, rng.choice([3, 15, 2**32 - 1]), RECIPE)
            for value, sketched in zip(values, sketches, strict=True)
        ]
        asked = [Document("", each, rng.choice(["a", "b", ""])) for each in pages]
        together = detector.probe_many(asked)
        for i, each in enumerate(asked):
            assert together.pop(i, []) == detector.probe(each.page, domain=each.domain or None)
        assert not together


def test_a_batch_with_too_many_neighbours_is_refused(detector):
    """Beyond the limit nothing is read, and the error names the limit."""
    for i in range(20):
        detector.insert(detector.reserve(page(7), f"k{i}", exempt="start"))
    near, far = Document("", page(7)), Document("", page(ONES))
    assert len(detector.probe_many([near, far], limit=20)[0]) == 20
    with pytest.raises(TooMany, match="more than 39 documents"):
        detector.probe_many([near, near], limit=39)


def test_a_token_brings_back_its_verdict(detector):
    """held() gives what insert() and release() need; None once it has ended, or for no token."""
    verdict = detector.reserve(page(7), "k", domain="a")
    held = detector.held(verdict.token)
    assert (held.key, held.page, held.domain, held.token) == ("k", page(7), "a", verdict.token)
    assert detector.ending(verdict.token) is None
    detector.insert(held)
    assert detector.held(verdict.token) is None
    assert detector.ending(verdict.token) == "inserted"
    assert detector.get("k").page == page(7)
    other = detector.reserve(page(ONES), "other")
    detector.release(detector.held(other.token))
    assert detector.ending(other.token) == "released"
    assert detector.held("unknown") is detector.ending("unknown") is None


def test_an_insert_by_token_knows_late_duplicates(detector, clock):
    """A page that was unique, and met a near-duplicate's insert since, is late; an exempt one not."""
    first = detector.reserve(page(7), "a")
    exempt = detector.reserve(page(7), "b", exempt="start")
    detector.insert(detector.reserve(page(7), "c", exempt="in_flight"))
    assert detector.insert(detector.held(first.token)) is True
    assert detector.insert(detector.held(exempt.token)) is False


@pytest.mark.parametrize(
    ("title", "paid", "late"), [(0, True, True), (0, False, False), (1, True, False)]
)
def test_a_page_is_late_only_where_what_came_since_counts(detector, title, paid, late):
    """One that brought nothing does not, nor another page of the site by its title."""
    first = detector.reserve(page(7, identity=saying(2)), "http://example.com/a")
    other = page(7, 1, identity=saying(title))
    since = detector.reserve(other, "http://example.com/b", exempt="in_flight")
    detector.insert(since.brought(paid=paid))
    assert detector.insert(first) is late


def test_a_token_does_not_carry_another_page_of_its_key(detector):
    """The page that was judged is the one that is inserted."""
    with pytest.raises(UsageError, match="belongs to"):
        detector.insert(detector.reserve(page(), "a").brought(page=page(ONES)))


def test_a_pinned_reservation_does_not_expire(detector, clock):
    """It keeps near-duplicates pending long after its time, until it is ended."""
    pinned = detector.reserve(page(7), "a")
    plain = detector.reserve(page(ONES), "b")
    assert detector.pin(pinned.token)
    assert detector.pin(pinned.token)
    clock.now += 10_000_000
    for i in range(40):  # reserving takes expired ones out
        detector.release(detector.reserve(page(0xFFFF << 20, i), f"other{i}"))
    assert detector.held(plain.token) is None
    assert detector.reserve(page(7), "c").status == "pending"
    assert detector.release(detector.held(pinned.token))
    assert detector.reserve(page(7), "c").status == "unique"
    assert not detector.pin(pinned.token)
