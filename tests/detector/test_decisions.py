"""Which pages count as near-duplicates, and what a verdict says of them: for a folder and a service.

Through the interface alone, as in test_detectors.py, where every kind of detector is.
"""

from __future__ import annotations

import pytest
from detecting import ONES, A, B, accept, bits, flat_neighbours, page, saying
from msgspec.structs import replace
from sketches import differing

from dedup.core.fingerprint import near_duplicate
from dedup.model.errors import UsageError
from dedup.model.recipes import recipe_of


def further(sketched: int) -> int:
    """One bit more than these, which are bits(n)."""
    return sketched << 1 | 1


ELSEWHERE = "http://another.org/b"


@pytest.mark.parametrize("inserted", [True, False])
@pytest.mark.parametrize(
    ("features", "keys", "least"),
    [
        (20, (A, B), 0.875),  # of one site
        (20, (A, ELSEWHERE), 0.75),  # of two, which share no template
        (20, (A, "no URL"), 0.875),  # it is not known whether of one
        (20, ("no URL", A), 0.875),
        (19, (A, B), 0.875),  # of few words
        (8, (A, B), 0.875),
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


@pytest.mark.parametrize(
    ("features", "titles", "keys", "least"),
    [
        (60, (1, 1), (A, B), 0.85),
        (60, (1, 2), (A, B), 0.875),
        (60, (0, 0), (A, B), 0.875),  # without a title
        (59, (1, 1), (A, B), 0.875),  # in so little text the title is compared, too
        (60, (1, 1), (A, ELSEWHERE), 0.75),
        (60, (1, 1), (A, "no URL"), 0.875),
    ],
)
def test_pages_of_one_title_may_be_less_similar(detector, features, titles, keys, least):
    """Of one site, if they have more than little text."""
    identities = [saying(title) for title in titles]
    accept(detector, page(features=features, identity=identities[0]), keys[0])
    limit = differing(least)
    for sketched, status in ((limit, "near_duplicate"), (further(limit), "unique")):
        fingerprint = page(0, sketched, features=features, identity=identities[1])
        verdict = detector.reserve(fingerprint, keys[1], guard=False)
        assert verdict.status == status
        detector.release(verdict)


def test_the_recipe_gives_the_defaults(opens):
    """Without arguments, and as "careful", distance, similarities and numbers of features are the recipe's."""
    recipe, detector = recipe_of(), opens()
    assert opens(similarity="careful").policy == detector.policy
    assert detector.recipe == recipe
    policy = detector.policy
    for name in (
        *("distance", "similarity", "similarity_titled", "similarity_across"),
        *("min_features", "full_features"),
    ):
        assert getattr(policy, name) == getattr(recipe, name), name
    assert policy.scope == "global"


@pytest.mark.parametrize(
    ("little", "reason"),
    [({"features": 7}, "short"), ({"features": 1, "unread": True}, "unread")],
)
def test_a_page_of_little_text_is_kept_unless_it_is_a_copy(detector, little, reason):
    """It is exempt, never unique, and stored: an equal page is its near-duplicate, one that differs in anything is not."""
    accept(detector, page(), A)
    first = page(**little, identity=saying(1, 1))
    verdict = detector.reserve(first, B)
    assert (verdict.status, verdict.reason) == ("exempt", reason)
    detector.insert(verdict)
    assert detector.reserve(first, B).status == "refetch"
    assert detector.probe(first, domain="example.com") == []
    other = "http://www.example.com/other"
    copy = detector.reserve(first, other)
    assert (copy.status, copy.of, copy.token) == ("near_duplicate", B, None)
    for another in (
        page(**little, identity=saying(2, 1)),
        page(**little, identity=saying(1, 1), thing=5),
        page(**little, identity=saying(1, 1), parts=bytes(31) + b"1"),
        page(**little, identity=saying(1, 1), value=1),
    ):
        verdict = detector.reserve(another, other)
        assert (verdict.status, verdict.reason) == ("exempt", reason)
        detector.release(verdict)
    assert detector.reserve(page(features=8), other).of == A


@pytest.mark.parametrize("size", [0, 33, 36, 38])
def test_a_sketch_of_another_length_is_refused(detector, size):
    """Before it is held: it would be compared with those of other pages."""
    wrong = page(sketch=bytes(size))
    with pytest.raises(UsageError, match="37 bytes|sketch"):
        detector.reserve(wrong, A)
    with pytest.raises(UsageError, match="37 bytes|sketch"):
        detector.probe(wrong)
    assert detector.info().get("in_flight", 0) == 0


def test_min_features_may_be_zero(opens):
    """With min_features=0 even empty pages are judged."""
    detector = opens(min_features=0)
    accept(detector, page(features=0), A)
    assert detector.reserve(page(features=0), B).status == "near_duplicate"


def test_probe_gives_distances_and_takes_nothing(detector):
    """probe() returns stored near-duplicates only, and reserves nothing."""
    accept(detector, page(bits(2), identity=saying(1)), A)
    detector.reserve(page(), B, exempt="start")
    assert flat_neighbours(detector.probe(page())) == [(A, 2, 1.0, "unknown", "example.com")]
    for title, said in ((0, "unknown"), (1, "same"), (2, "other")):
        found = detector.probe(page(identity=saying(title)), domain="example.com")
        assert flat_neighbours(found) == [(A, 2, 1.0, said, "example.com")]
    found = detector.probe(page(identity=saying(2)), domain="another.org")
    assert flat_neighbours(found) == [(A, 2, 1.0, "unknown", "example.com")]
    assert detector.probe(page(ONES)) == []
    assert detector.info()["in_flight"] == 1


def test_equal_text_under_one_canonical_url_is_one_page(detector):
    """A print copy: the same words as read, other ones beside, another title, but the page's canonical URL."""
    beside = [bytes(20) + bytes([n]) * 4 + bytes(8) for n in (1, 2)]
    accept(detector, page(identity=saying(1, 7), parts=beside[0]), A)
    copy = page(identity=saying(2, 7), parts=beside[1])
    verdict = detector.reserve(copy, B)
    assert (verdict.status, verdict.identity) == ("near_duplicate", "same")
    for other in (
        replace(copy, identity=saying(2, 8)),
        replace(copy, identity=saying(2)),
        replace(copy, value=1),
    ):
        kept = detector.reserve(other, B)
        assert (kept.status, kept.reason) == ("exempt", "other_title"), other
        detector.release(kept)


def test_both_pages_are_asked_whether_they_were_read():
    """Whichever of two pages comes first: one of which too little was read is near equal pages only."""
    read, other = page(), page(bits(1), bits(2))
    unread, equal = replace(other, unread=True), replace(read, unread=True)
    assert near_duplicate(read, other)
    for a, b in ((read, unread), (unread, read)):
        assert not near_duplicate(a, b)
    for a, b in ((read, equal), (equal, read)):
        assert near_duplicate(a, b)


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
