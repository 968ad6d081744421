"""What every detector keeps, whichever way it was opened: a folder or a service, blocking or in a loop.

Through the interface alone. Times are real here: a service has a clock of its own. What only an
embedded detector can show is in test_detector.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detecting import ONES, RECIPE, A, B, C, InLoop, accept, bits, page, saying
from services import Serving
from sketches import differing

import dedup
from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.recipes import recipe_of
from dedup.model.values import Neighbour, Verdict

_names = (f"ns{number}" for number in count())


Open = Callable[..., Any]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("service"), "--distance", "10") as serving:
        yield serving


@pytest.fixture(params=["folder", "folder in a loop", "service", "service in a loop"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open detectors of one namespace, of this test alone; they are closed when it ends."""
    namespace, opened = next(_names), []
    target: Any = tmp_path
    make: Open = dedup.open
    if request.param == "folder in a loop":
        make = InLoop
    elif request.param != "folder":
        target = f"redis://127.0.0.1:{request.getfixturevalue('service').port}"
        make = dedup.open if request.param == "service" else InLoop

    def opening(**options: Any) -> Any:
        options = {"namespace": namespace} | options
        if make is not dedup.open or isinstance(target, str):
            options = {"timeout_seconds": 30} | options  # this machine may be busy
        detector = make(target, **options)
        opened.append(detector)
        return detector

    yield opening
    for detector in opened:
        detector.__exit__(None, None, None)


@pytest.fixture
def detector(opens: Open) -> Any:
    return opens()


def further(sketched: int) -> int:
    """One bit more than these, which are bits(n)."""
    return sketched << 1 | 1


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
    assert verdict == Verdict(*expected, "example.com")


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


def test_promise_3_two_phases_exactly_one_of_two_at_once_wins(opens):
    """20 times two detectors reserve near-duplicates at once: one is unique, one is pending."""
    sides = [opens(), opens()]
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


# --------------------------------------------------------------------------- the decision


def test_distances_decide_at_the_bit(opens):
    """Within distance and similarity it is a near-duplicate, one bit further it is not."""
    detector = opens(distance=3, similarity=0.8)
    accept(detector, page(), A)
    limit = differing(0.8)
    for value, sketched, status in (
        (3, limit, "near_duplicate"),
        (3, further(limit), "unique"),
        (4, 0, "unique"),
        (0, limit, "near_duplicate"),
        (0, further(limit), "unique"),
    ):
        verdict = detector.reserve(page(bits(value), sketched), B)
        assert verdict.status == status
        detector.release(verdict)


ELSEWHERE = "http://another.org/b"


@pytest.mark.parametrize("inserted", [True, False])
@pytest.mark.parametrize(
    ("features", "keys", "least"),
    [
        (20, (A, B), 0.875),  # of one site
        (20, (A, ELSEWHERE), 0.75),  # of two, which share no template
        (20, (A, "no URL"), 0.875),  # it is not known whether of one
        (20, ("no URL", A), 0.875),
        (19, (A, B), 0.9),  # of few words
        (8, (A, B), 0.9),
        (19, (A, ELSEWHERE), None),
        (19, (A, "no URL"), None),
        (19, ("no URL", "nor this"), None),
    ],
)
def test_how_alike_two_texts_must_be(detector, inserted, features, keys, least):
    """By the recipe, for two pages of which either has so many features; None: however alike."""
    limit = 0 if least is None else differing(least)
    dropped = "near_duplicate" if inserted else "pending"
    for number, pair in enumerate([(features, 100), (100, features), (features, features)]):
        value = number * 0x9E3779B97F4A7C15 % 2**64
        original = detector.reserve(page(value, features=pair[0]), f"{keys[0]}{number}")
        if inserted:
            detector.insert(original)
        key = f"{keys[1]}{number}"
        for sketched, alike in ((limit, least is not None), (further(limit), False)):
            verdict = detector.reserve(page(value, sketched, features=pair[1]), key)
            assert verdict.status == (dropped if alike else "unique"), (pair, alike)
            detector.release(verdict)
        if inserted:
            probed = page(value, limit, features=pair[1])
            near = detector.probe(probed, domain=verdict.domain)
            assert [n.key for n in near] == ([original.key] if least is not None else [])


def test_careful_is_the_recipes_rule(opens):
    """ "careful" is what is in force without a choice, for one site and for two."""
    plain, careful = opens(), opens(similarity="careful")
    assert plain.policy == careful.policy
    accept(plain, page(), A)
    for key, limit in ((B, differing(0.875)), (ELSEWHERE, differing(0.75))):
        for sketched, status in ((limit, "near_duplicate"), (further(limit), "unique")):
            verdict = careful.reserve(page(0, sketched), key)
            assert verdict.status == status
            careful.release(verdict)


def test_paper_is_the_simhash_alone(opens):
    """k = 3 and no look at the texts, as Manku, Jain and Das Sarma have it; unless a distance is given."""
    detector, wider = opens(similarity="paper"), opens(similarity="paper", distance=5)
    accept(detector, page(), A)
    for key in (B, ELSEWHERE):
        assert detector.reserve(page(bits(3), ONES), key).status == "near_duplicate"
        verdict = detector.reserve(page(bits(4), ONES), key)
        assert verdict.status == "unique"
        detector.release(verdict)
        assert wider.reserve(page(bits(5), ONES), key).status == "near_duplicate"


def test_a_similarity_that_is_chosen_is_exact(opens):
    """It is not rounded on its way to a service."""
    limit = differing(0.9)
    above = opens(similarity=0.90003)
    accept(above, page(), A)
    found = opens(similarity=0.9).reserve(page(0, limit), B).similarity
    assert 0.9 <= found < 0.91
    assert opens(similarity=found).reserve(page(0, limit), B).status == "near_duplicate"
    assert opens(similarity=found + 0.00004).reserve(page(0, limit), B).status == "unique"


def test_the_recipe_gives_the_defaults(detector):
    """Without arguments distance, similarities and numbers of features are the recipe's."""
    recipe = recipe_of()
    assert detector.recipe == recipe
    policy = detector.policy
    for name in (
        *("distance", "similarity", "similarity_across", "similarity_short"),
        *("min_features", "full_features"),
    ):
        assert getattr(policy, name) == getattr(recipe, name), name
    assert policy.scope == "global"


def test_short_pages_are_exempt_without_a_token(detector):
    """A page under min_features is kept, holds nothing, and matches nothing."""
    accept(detector, page(), A)
    verdict = detector.reserve(page(features=7), B)
    assert (verdict.status, verdict.reason, verdict.token) == ("exempt", "short", None)
    assert detector.probe(page(features=7), domain="example.com") == []
    assert detector.reserve(page(features=8), B).status == "near_duplicate"


@pytest.mark.parametrize("exempt", [None, "start"])
def test_unread_pages_are_exempt_without_a_token(detector, exempt):
    """A page of which too little was read is kept, holds nothing, matches nothing, is not stored."""
    accept(detector, page(), A)
    for key in (A, B):
        verdict = detector.reserve(page(unread=True), key, exempt=exempt)
        assert (verdict.status, verdict.reason, verdict.token) == ("exempt", "unread", None)
        assert verdict.domain == "example.com"
    with pytest.raises(UsageError, match="no token"):
        detector.insert(verdict)
    assert not detector.release(verdict)
    assert detector.probe(page(unread=True), domain="example.com") == []
    assert (len(detector), detector.info()["in_flight"]) == (1, 0)


@pytest.mark.parametrize("size", [0, 33, 36, 38])
def test_a_sketch_of_another_length_is_refused(detector, size):
    """Before it is held: it would be compared with those of other pages."""
    wrong = page(sketch=bytes(size))
    with pytest.raises(UsageError, match="37 bytes|sketch"):
        detector.reserve(wrong, A)
    with pytest.raises(UsageError, match="37 bytes|sketch"):
        detector.probe(wrong)
    assert detector.info().get("in_flight", 0) == 0


def test_an_unread_page_of_another_recipe_is_refused(detector):
    """As any other is."""
    with pytest.raises(RecipeMismatch):
        detector.reserve(page(unread=True, recipe="words-0-0"), A)


def test_min_features_may_be_zero(opens):
    """With min_features=0 even empty pages are judged."""
    detector = opens(min_features=0)
    accept(detector, page(features=0), A)
    assert detector.reserve(page(features=0), B).status == "near_duplicate"


def test_an_exempt_page_is_reserved_and_becomes_an_original(detector):
    """A reason given by the caller comes first: the page is kept, inserted, and drops others."""
    accept(detector, page(), A)
    verdict = detector.reserve(page(), B, exempt="start")
    assert (verdict.status, verdict.reason, verdict.of) == ("exempt", "start", None)
    assert not detector.insert(verdict)
    detector.forget(A)
    assert detector.reserve(page(), C).of == B


def test_the_most_similar_match_is_named(detector):
    """Of several: greatest similarity, then least distance, then smallest key."""
    for key, value, sketched in (
        ("http://d.com/", 0, 9),
        ("http://c.com/", 3, 5),
        ("http://b.com/", 2, 5),
        ("http://a.com/", 2, 5),
    ):
        accept(detector, page(bits(value), bits(sketched)), key, exempt="start")
    verdict = detector.reserve(page(), A)
    assert (verdict.of, verdict.distance) == ("http://a.com/", 2)
    assert verdict.similarity == detector.probe(page())[0].similarity
    assert [n.key for n in detector.probe(page())] == [
        "http://a.com/",
        "http://b.com/",
        "http://c.com/",
        "http://d.com/",
    ]


def test_probe_gives_distances_and_takes_nothing(detector):
    """probe() returns stored near-duplicates only, and reserves nothing."""
    accept(detector, page(bits(2), identity=saying(1)), A)
    detector.reserve(page(), B, exempt="start")
    assert detector.probe(page()) == [Neighbour(A, 2, 1.0, "unknown", "example.com")]
    for title, said in ((0, "unknown"), (1, "same"), (2, "other")):
        found = detector.probe(page(identity=saying(title)), domain="example.com")
        assert found == [Neighbour(A, 2, 1.0, said, "example.com")]
    found = detector.probe(page(identity=saying(2)), domain="another.org")
    assert found == [Neighbour(A, 2, 1.0, "unknown", "example.com")]
    assert detector.probe(page(ONES)) == []
    assert detector.info()["in_flight"] == 1


@pytest.mark.parametrize("inserted", [True, False])
@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        (saying(1), saying(2), "other"),
        (saying(1), saying(1), "same"),
        (saying(0, 1), saying(0, 2), "other"),
        (saying(0, 1), saying(0, 1), "same"),
        (saying(1, 1), saying(1, 2), "other"),  # one title, but another canonical URL
        (saying(1, 1), saying(2, 1), "other"),
        (saying(1, 1), saying(1, 0), "same"),  # only one declares a canonical URL
        (saying(1, 0), saying(0, 1), "unknown"),
        (saying(), saying(1, 1), "unknown"),
        (saying(), saying(), "unknown"),
    ],
)
def test_a_page_that_is_another_by_its_own_word_is_kept(detector, inserted, mine, theirs, said):
    """Alike text with another title, or another canonical URL, is kept, with a token.

    The verdict names the page that it is like, once that one is inserted.
    """
    original = detector.reserve(page(identity=theirs), A)
    if inserted:
        detector.insert(original)
    dropped = "near_duplicate" if inserted else "pending"
    alike = page(bits(1), bits(5), identity=mine)
    unguarded = detector.reserve(alike, B, guard=False)
    assert (unguarded.status, unguarded.of, unguarded.identity) == (dropped, A, said)
    verdict = detector.reserve(alike, B)
    if said == "other":
        assert (verdict.status, verdict.reason) == ("exempt", "other_title")
        named = (A, "other") if inserted else (None, None)
        assert verdict.token is not None
        assert (verdict.of, verdict.identity) == named
        detector.release(verdict)
    else:
        assert verdict == unguarded


def test_of_another_site_a_page_says_nothing(detector):
    """Titles and canonical URLs are compared within a site only: a copy elsewhere is dropped."""
    accept(detector, page(identity=saying(1, 1)), A)
    for key in (ELSEWHERE, "no URL"):
        verdict = detector.reserve(page(bits(1), identity=saying(2, 2)), key)
        assert (verdict.status, verdict.identity) == ("near_duplicate", "unknown")


def test_word_for_word_the_same_is_no_other_page(detector):
    """Where value and sketch are the same, what the two pages say counts for nothing."""
    accept(detector, page(identity=saying(1)), A)
    verdict = detector.reserve(page(identity=saying(2)), B)
    assert (verdict.status, verdict.identity) == ("near_duplicate", "unknown")
    kept = detector.reserve(page(bits(1), identity=saying(2)), B)
    assert (kept.status, kept.reason) == ("exempt", "other_title")


def test_site_scope_matches_only_within_a_registrable_domain(opens):
    """In the scope "site" a copy elsewhere, or without a domain, is unique; an empty one is not known."""
    detector = opens(scope="site")
    accept(detector, page(), "http://www.example.co.uk/a")
    flying = detector.reserve(page(ONES), "http://www.example.co.uk/c")
    for key, options, status in (
        ("http://shop.example.co.uk/b", {}, "near_duplicate"),
        ("http://example.com/b", {}, "unique"),
        ("a key of one's own", {}, "unique"),
        ("a key of one's own", {"url": "http://example.co.uk/"}, "near_duplicate"),
        ("a key of one's own", {"domain": "example.co.uk"}, "near_duplicate"),
        ("http://www.example.co.uk/b", {"domain": ""}, "near_duplicate"),
        ("http://www.example.co.uk/b", {"url": "no URL"}, "near_duplicate"),
        ("a key of one's own", {"domain": "", "url": "http://example.co.uk/"}, "near_duplicate"),
    ):
        verdict = detector.reserve(page(), key, **options)
        assert (verdict.status, key, options) == (status, key, options)
        detector.release(verdict)
    assert detector.reserve(page(ONES), "http://example.com/d").status == "unique"
    assert detector.reserve(page(ONES), "http://example.co.uk/d").of == flying.key
    assert len(detector.probe(page(), domain="example.co.uk")) == 1
    assert detector.probe(page(), domain="example.com") == detector.probe(page()) == []


def test_a_replaced_content_is_no_longer_matched(detector):
    """After a refetch with new content the old one is free again."""
    accept(detector, page(0), A)
    accept(detector, page(ONES), A)
    assert detector.reserve(page(0), B).status == "unique"
    assert detector.reserve(page(ONES), C).of == A


# ------------------------------------------------------------------------- ending a reservation


def test_insert_is_idempotent(detector):
    """The second insert of a verdict changes nothing and is False."""
    verdict = accept(detector, page(), A)
    assert detector.insert(verdict) is False
    assert len(detector) == 1


def test_release_never_touches_an_inserted_document(detector):
    """Releasing after inserting is False and the document stays."""
    verdict = accept(detector, page(), A)
    assert detector.release(verdict) is False
    assert len(detector) == 1
    assert detector.insert(verdict) is False


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


def test_a_batch_may_be_empty(detector):
    """Nothing to insert is no fault."""
    assert detector.insert_many([]) == []


UNIQUE = ("unique", "", A, None, None, None, None)


def test_a_token_that_nobody_knows_is_inserted_all_the_same(detector):
    """A verdict of a process that has ended stores its page; releasing one is False."""
    old, other = (
        Verdict(*UNIQUE, page(), f"0123456789abcdef-{n}", "example.com") for n in range(2)
    )
    assert detector.release(other) is False
    assert detector.insert(old) is False
    assert detector.reserve(page(), C).of == A
    assert detector.info()["in_flight"] == 0


def test_a_token_does_not_carry_another_page(detector):
    """A verdict put together from two is refused."""
    token = detector.reserve(page(), A).token
    forged = Verdict("unique", "", B, None, None, None, None, page(ONES), token)
    with pytest.raises(UsageError, match="belongs to"):
        detector.insert(forged)
    assert len(detector) == 0


def test_forget_removes_a_document(detector):
    """forget() is True once, and afterwards a near-duplicate is unique."""
    accept(detector, page(), A)
    assert detector.forget(A)
    assert not detector.forget(A)
    assert detector.reserve(page(), B).status == "unique"


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


def test_namespaces_do_not_see_each_other(opens):
    """A page of another namespace is unique."""
    accept(opens(), page(), A)
    assert opens(namespace=next(_names)).reserve(page(), B).status == "unique"


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
        ("distance", 3.0),
        ("distance", True),
        ("similarity", 1.01),
        ("similarity", -0.1),
        ("similarity", True),
        ("similarity", "strict"),
        ("similarity", float("nan")),
        ("min_features", -1),
        ("scope", "page"),
        ("reservation_seconds", 0),
        ("reservation_seconds", float("nan")),
        ("reservation_seconds", "600"),
        ("namespace", "../x"),
        ("secret", ""),
        ("secret", 5),
        ("recipe", 5),
    ],
)
def test_a_wrong_argument_names_itself(opens, argument, value):
    """UsageError says which argument, its value, and what is allowed."""
    with pytest.raises(UsageError, match=argument) as caught:
        opens(**{argument: value})
    assert argument == "secret" or repr(value) in str(caught.value)


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


def test_a_key_that_is_no_text_is_refused(detector):
    """Half of a surrogate pair is not valid Unicode: UsageError, and nothing is reserved."""
    with pytest.raises(UsageError, match="Unicode"):
        accept(detector, page(), "http://example.com/\ud800")
    assert len(detector) == 0


@pytest.mark.parametrize("key", [None, 5, b"http://example.com/a"])
def test_a_key_of_another_type_is_refused(detector, key):
    """So that it is not judged, and then cannot be inserted."""
    with pytest.raises(UsageError, match="document key"):
        detector.reserve(page(), key, domain="")


def test_fingerprints_may_be_numpys(detector):
    """A page put together from an array's numbers is stored and found like any other."""
    made = page(np.uint64(ONES), identity=np.uint64(7))
    accept(detector, made, A)
    assert detector.reserve(made, B).of == A
    assert detector.reserve(page(ONES, identity=7), C).of == A


def test_options_may_be_numpys(opens):
    """A number of numpy is a number."""
    detector = opens(distance=np.int64(3), similarity=np.float64(0.9))
    accept(detector, page(0), A)
    assert detector.reserve(page(bits(4)), B).status == "unique"
    assert detector.reserve(page(bits(3)), C).of == A


def test_secrets_key_the_recipe(opens):
    """With a secret, pages are made and judged under the keyed recipe."""
    keyed = opens(secret="one")
    made = keyed.fingerprint(b"<p>" + b" ".join(b"word%d" % n for n in range(50)) + b"</p>")
    assert made.recipe == keyed.recipe.id == recipe_of(secret="one").id
    accept(keyed, made, A)
    assert keyed.reserve(made, B).of == A


def test_fingerprint_makes_pages_that_reserve_takes(detector):
    """fingerprint() follows the detector's recipe."""
    made = detector.fingerprint("<p>" + " ".join(f"word{i}" for i in range(50)) + "</p>", url=A)
    assert detector.reserve(made, A).status == "unique"


def test_info_says_what_is_there(detector):
    """info() tells documents, pages in flight, and the recipe."""
    accept(detector, page(ONES), B)
    detector.reserve(page(), A)
    info = detector.info()
    assert (info["documents"], info["in_flight"]) == (1, 1)
    assert info["recipe"] == RECIPE
