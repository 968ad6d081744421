"""By which parts two URLs differ, and what a URL is under rules. How rules are learned: test_url_rules.py."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.detector.url_rules import (
    Rule,
    differences,
    rule_of,
    take_apart,
)
from dedup.detector.url_rules.rule_set import RuleSet
from dedup.model.errors import UsageError
from dedup.model.names import document_key

A = "http://a.com"


def explained(a: str, b: str) -> set[str] | None:
    one, other = take_apart(a), take_apart(b)
    assert one is not None
    assert other is not None
    found = differences(one, other)
    assert found == differences(other, one)
    return None if found is None else set(map(str, found))


@pytest.mark.parametrize(
    ("a", "b", "atoms"),
    [
        ("/x?sid=1", "/x?sid=2", {"value:sid"}),
        ("/x?sid=1&b=2", "/x?b=2", {"drop:sid"}),
        ("/x?a=1&b=2", "/x?b=2&a=1", set()),
        ("/x?a=1&a=2", "/x?a=2&a=1", {"value:a"}),
        ("/x?a", "/x?a=", {"value:a"}),
        ("/x?a=1&b=1", "/x?b=2&c=3", {"drop:a", "value:b", "drop:c"}),
        ("/print/x", "/x", {"part:/print"}),
        ("/a/print/x", "/a/x", {"part:/print"}),
        ("/a/x/print", "/a/x", {"part:/print"}),
        ("/a/x/print/", "/a/x/", {"part:/print"}),
        ("/a/x.amp.html", "/a/x.html", {"part:.amp"}),
        ("/a/x.html.amp", "/a/x.html", {"part:.amp"}),
        ("/a/x-print", "/a/x", {"part:-print"}),
        ("/a/index.html", "/a/", {"part:index.html"}),
        ("/index.html", "/", {"part:index.html"}),
        ("/a/", "/a", {"slash"}),
        ("/A/b", "/a/B", {"case"}),
        ("/x;jsessionid=1?a=2", "/x?a=2", {"drop:;jsessionid"}),
        ("/x;jsessionid=1", "/x;jsessionid=2", {"value:;jsessionid"}),
        ("/(S(abc))/x", "/(S(def))/x", {"value:(S)"}),
        ("/(S(abc))/x", "/x", {"drop:(S)"}),
        ("/one", "/two", None),
        ("/item/1", "/item/12", None),
        ("/items", "/item", None),
    ],
)
def test_differences(a, b, atoms):
    """By which parts two URLs differ; None where no rule could be about it."""
    assert explained(A + a, A + b) == atoms


def test_differences_of_hosts_and_schemes():
    """Hosts are mirrors of the shorter one, http is one with https."""
    assert explained("http://www.a.com/x", "https://a.com/x") == {"host:www.a.com=a.com", "scheme"}
    assert explained("http://m.a.com/", "http://www.a.com/") == {"host:www.a.com=m.a.com"}


@pytest.mark.parametrize(
    "url", ["ftp://a.com/", "http:///x", "no url", "http://a.com/" + "x" * 3000]
)
def test_what_is_no_url_is_left_alone(url):
    """What is not of the web, or too long, has no parts."""
    assert take_apart(url) is None


SEGMENTS = st.sampled_from(
    ["a", "b", "print", "amp", "x.html", "x.amp.html", "index.html", "A", "(S(q))"]
)
URLS = st.builds(
    lambda scheme, host, path, end, session, query: document_key(
        f"{scheme}://{host}/{'/'.join(path)}{end}{session}?{'&'.join(query)}".rstrip("?")
    ),
    st.sampled_from(["http", "https"]),
    st.sampled_from(["a.com", "www.a.com", "m.a.com"]),
    st.lists(SEGMENTS, max_size=3),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", ";s=1", ";s=2"]),
    st.lists(
        st.sampled_from(["id=1", "id=2", "sid=1", "sid=2", "sid", "page=1", "utm_a=x"]), max_size=3
    ),
)
TEXTS = ["host:www.a.com=a.com", "host:m.a.com=a.com"] + [
    f"{atom} {host}"
    for host in ("a.com", "www.a.com")
    for atom in (
        *("scheme", "case", "slash", "part:/print", "part:/amp", "part:.amp", "part:index.html"),
        *("drop:sid", "value:id", "drop:page", "value:;s", "drop:(S)", "drop:utm_a"),
    )
]
RULES = st.frozensets(st.sampled_from(TEXTS).map(rule_of), max_size=8)


@given(URLS, URLS)
def test_parts_tell_urls_apart(a, b):
    """Without rules a URL is itself, and two that differ differ by something, or by nothing known."""
    one, other = take_apart(a), take_apart(b)
    same = one == other
    # "?" alone and parameters of one name apart, keys with the same parts are one key
    assert same == (sorted(a) == sorted(b) and one == other)
    assert (differences(one, other) == frozenset()) == same
    assert (RuleSet(()).normal(one).form == RuleSet(()).normal(other).form) == same


@given(URLS, RULES)
def test_rules_used_are_of_the_set(url, rules):
    """What is used is of the set, and a URL that no rule touches is itself."""
    parts = take_apart(url)
    form, used = RuleSet(rules).normal(parts)
    assert set(used) <= rules
    if not used:
        assert form == RuleSet(()).normal(parts).form


@given(URLS, URLS)
def test_a_difference_is_what_its_rules_take_away(a, b):
    """The rules about the atoms by which two URLs differ map them together, but for parts in parts."""
    one, other = take_apart(a), take_apart(b)
    atoms = differences(one, other)
    if not atoms:
        return
    hosts = RuleSet(Rule(atom, "") for atom in atoms if atom.kind == "host")
    inside = hosts.scopes(one, other)[0]
    rules = RuleSet(Rule(atom, "" if atom.kind == "host" else inside) for atom in atoms)
    assert rules.normal(one).form == rules.normal(other).form


@given(st.sampled_from(TEXTS))
def test_rules_as_people_write_them(written):
    """A rule that is written is read back."""
    assert str(rule_of(written)) == written


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "drop:sid",
        "drop a.com",
        "slash:x a.com",
        "host:a.com a.com",
        "host:a=b=c",
        "part:/x a.com/b",
        "x:y z",
    ],
)
def test_what_is_no_rule(wrong):
    """A text that is no rule is refused, and named."""
    with pytest.raises(UsageError, match="is not a rule"):
        rule_of(wrong)


def test_scopes_go_from_wide_to_narrow():
    """A scope is a host and the first segments of a path."""
    from dedup.detector.url_rules.rule_set import scopes_of

    scopes = scopes_of("a.com", "/a/b/c/d")
    assert scopes == ("a.com", "a.com/a", "a.com/a/b", "a.com/a/b/c")
    assert all(narrow.startswith(wide) for wide, narrow in pairwise(scopes))
