"""What the dashboard's figures are counted from: bounded, and true."""

import pytest
from detecting import verdict_on
from services import RECIPE

from dedup.model.page import PageFingerprint
from dedup.service.core import overview
from dedup.service.core.overview import HostView, NearDuplicatesSeen, Tally


def verdict(key, of=None, *, reason="", value=7):
    page = PageFingerprint(value, bytes(37), 0, 100, RECIPE)
    status = "near_duplicate" if of else "exempt" if reason else "unique"
    token = None if of else "token"
    return verdict_on(status, reason, key, of, of and 3, of and 0.9, None, page, token, "a.example")


def test_near_duplicates_are_remembered_by_key_original_and_value():
    """The newest first; of one namespace; and no more once the page was judged to be another thing."""
    seen = NearDuplicatesSeen()
    for i in range(3):
        seen.judged("news", verdict(f"copy {i}", "first", value=i))
    seen.judged("other", verdict("copy 0", "first"))
    assert [each.key for each in seen.about("news", "first")] == ["copy 2", "copy 1", "copy 0"]
    (one,) = seen.about("news", "copy 1")
    assert (one.of, one.distance, one.similarity, one.value) == ("first", 3, 0.9, f"{1:016x}")
    assert seen.about("news", f"{1:016x}") == [one]
    seen.judged("news", verdict("copy 1", reason="new_links"))
    assert seen.about("news", "copy 1") == []
    assert len(seen.about("other", "first")) == 1


@pytest.mark.parametrize(("limit", "most"), [("SEEN", 5), ("SEEN_CHARACTERS", 5 * (100 + 5))])
def test_memory_of_near_duplicates_is_bounded(monkeypatch, limit, most):
    """In their number and in the length of their keys; the oldest are forgotten first."""
    monkeypatch.setattr(overview, limit, most)
    seen = NearDuplicatesSeen()
    for i in range(20):
        for _ in range(2):  # asked for again
            seen.judged("news", verdict(f"{i:0100}", "first"))
    assert [int(each.key) for each in seen.about("news", "first")] == [19, 18, 17, 16, 15]


def test_exempt_reasons_are_counted(monkeypatch):
    """By reason; a client that makes reasons up takes no memory beyond a bound."""
    monkeypatch.setattr(overview, "REASONS", 10)
    tally = Tally()
    for i in range(50):
        tally.judged("news", verdict(f"a{i}", reason="short"))
        tally.judged("news", verdict(f"b{i}", reason=f"made_up_{i}"))
    counted = tally.exempt()
    assert counted["short"] == 50
    assert len(counted) <= 10


def test_namespaces_are_counted_apart(monkeypatch):
    """Verdicts, hosts and history; a near-duplicate that is kept after all is no drop; memory is bounded."""
    monkeypatch.setattr(overview, "NAMESPACES", 10)
    tally, none = Tally(), (0, 0, 0)
    tally.sample(0.0, (0, 0, 0, 0, 0, 0), none, (0.1, 1.0))
    for name in ("news", "shop"):
        tally.judged(name, verdict("first"))
        tally.judged(name, verdict("copy", "first"))
    tally.judged("shop", verdict("copy", reason="new_links"))
    tally.sample(9.0, (0, 2, 2, 0, 1, 0), none, (0.1, 1.0))
    assert tally.namespace("news") == (2, 1, 1)
    assert tally.namespace("shop") == (3, 1, 0)
    assert (tally.history().unique, tally.history().exempt) == ([2], [1])
    assert (tally.history("shop").unique, tally.history("news").exempt) == ([1], [0])
    assert tally.hosts("news") == [HostView("a.example", 2, 1)]
    assert tally.exempt("news") == {}
    for i in range(100):
        tally.judged(f"{i}", verdict("a"))
    assert tally.namespace("shop") == (3, 1, 0)
    assert sum(tally.namespace(f"{i}")[0] for i in range(100)) <= 10


def test_history_has_the_time_of_commands():
    """Of each sample the least bound within which half, and 99 of 100, ended; null without commands."""
    tally, bounds, none = Tally(), (0.001, 0.01, 0.1), (0, 0, 0, 0, 0, 0)
    samples = ((9, 9, 9, 9), (109, 9, 9, 9), (109, 9, 9, 9), (139, 69, 10, 9), (139, 69, 10, 12))
    for i, counts in enumerate(samples):
        tally.sample(10.0 * i, none, counts, bounds)
    history = tally.history()
    assert history.median_seconds == [0.001, None, 0.01, 0.1]
    assert history.slow_seconds == [0.001, None, 0.1, 0.1]
    assert len(history.seconds) == len(history.probes) == 4
