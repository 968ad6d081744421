"""What is learned of a site's URLs: by which parts two differ, which rules come to hold, and which fall."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.detector.url_rules import (
    Learner,
    Page,
    Rule,
    SiteRules,
    differences,
    is_same,
    rule_of,
    take_apart,
)
from dedup.detector.url_rules.learner import MOST_PAGES, MOST_SITES
from dedup.detector.url_rules.rule_set import RuleSet
from dedup.detector.url_rules.site_rules import FOR, MOST_RULES, ORIGINALS
from dedup.model.errors import UsageError
from dedup.model.names import document_key
from dedup.model.recipes import NEWEST, recipe_of
from dedup.model.values import SKETCH_BYTES, PageFingerprint

RECIPE = recipe_of()
A = "http://a.com"


def text(number: int) -> PageFingerprint:
    """Return the fingerprint of a page: equal numbers are one text, others have nothing in common."""
    source = random.Random(number)
    title = source.getrandbits(32)
    return PageFingerprint(
        source.getrandbits(64), source.randbytes(SKETCH_BYTES), title << 32, 200, NEWEST
    )


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
    with pytest.raises(UsageError, match="is no rule"):
        rule_of(wrong)


# ----------------------------------------------------------------------------------- learning


def taught(
    site: SiteRules | Learner, pattern: str, copy: str, count: int = FOR, start: int = 0
) -> None:
    """Accept pages, and then their copies' URLs."""
    for number in range(start, start + count):
        site.accept(Page(A + pattern.format(number), text(number)))
        site.copy(A + copy.format(number), A + pattern.format(number))


def held(site: SiteRules) -> list[str]:
    return sorted(map(str, site.held))


def test_a_rule_needs_its_evidence():
    """A rule holds from the tenth pair on, and maps what was not fetched to what was accepted."""
    site = SiteRules(RECIPE)
    taught(site, "/page/{}", "/page/{}?sid=7", FOR - 1)
    assert site.known(A + "/page/1?sid=9") is None
    taught(site, "/page/{}", "/page/{}?sid=7", 1, start=FOR - 1)
    known = site.known(A + "/page/1?sid=9")
    assert known is not None
    assert (known.original, list(map(str, known.rules))) == (A + "/page/1", ["drop:sid a.com"])
    assert site.known(A + "/page/99?sid=9") is None
    assert site.known(A + "/page/1") is None


def test_a_rule_needs_several_originals():
    """A thousand copies of two pages are no rule."""
    site = SiteRules(RECIPE)
    for number in range(1000):
        site.copy(
            f"{A}/p{number % (ORIGINALS - 1)}?sid={number}", f"{A}/p{number % (ORIGINALS - 1)}"
        )
    assert held(site) == []


def test_a_rule_falls_for_good():
    """The first two accepted pages that a rule maps together, with other texts, end it."""
    site = SiteRules(RECIPE)
    taught(site, "/page/{}", "/page/{}?sid=7")
    site.accept(Page(A + "/page/1?sid=3", text(1000)))
    assert held(site) == []
    taught(site, "/page/{}", "/page/{}?sid=7", 100, start=100)
    assert not any(rule.scope == "a.com" for rule in site.held)
    assert site.known(A + "/page/1?sid=9") is None


def test_a_rule_is_not_born_against_what_was_seen():
    """Pages that a rule would map together are looked at when it comes to hold."""
    site = SiteRules(RECIPE)
    site.accept(Page(A + "/list?page=1", text(1001)))
    site.accept(Page(A + "/list?page=2", text(1002)))
    for number in range(FOR):
        site.accept(Page(f"{A}/list?page=1&cat={number}", text(number)))
        site.copy(f"{A}/list?page=2&cat={number}", f"{A}/list?page=1&cat={number}")
    assert held(site) == []


def test_a_parameter_that_matters_on_one_path_only():
    """`id` is who a page is on /view, and nothing on /news: there it has a rule."""
    site = SiteRules(RECIPE)
    for number in range(5):
        site.accept(Page(f"{A}/view?id={number}", text(500 + number)))
    for number in range(FOR):
        site.accept(Page(f"{A}/news/{number}?id=1", text(number)))
        site.copy(f"{A}/news/{number}?id=2", f"{A}/news/{number}?id=1")
    assert held(site) == ["value:id a.com/news"]
    assert site.known(A + "/news/3?id=77") is not None
    assert site.known(A + "/view?id=77") is None


@pytest.mark.parametrize("parameter", ["page", "lang", "colour", "sort"])
def test_what_matters_is_never_skipped(parameter):
    """Where pages differ with a parameter, copies elsewhere on the path teach nothing about it."""
    site = SiteRules(RECIPE)
    for number in range(40):
        site.accept(Page(f"{A}/list?{parameter}={number}", text(number)))
        site.copy(f"{A}/list?{parameter}={number + 100}", f"{A}/list?{parameter}={number}")
    assert held(site) == []


def test_several_parameters_at_once():
    """Campaigns come together; each is learned, and together with a session that holds."""
    site = SiteRules(RECIPE)
    taught(site, "/p{}?x=1", "/p{}?utm_medium=a&utm_source=b&x=1")
    assert held(site) == ["drop:utm_medium a.com", "drop:utm_source a.com"]
    taught(site, "/q{}?x=1", "/q{}?sid=5&utm_source=b&x=1")
    assert "drop:sid a.com" in held(site)
    assert site.known(A + "/q3?sid=1&utm_medium=1&utm_source=9&x=1") is not None
    assert site.known(A + "/q3?sid=1&x=2") is None


def test_mirrors_parts_and_sessions_in_the_path():
    """Hosts, print versions and sessions are learned, and hold together."""
    site = SiteRules(RECIPE)
    taught(site, "/p{}", "/print/p{}")
    taught(site, "/p{}", "/p{};jsessionid=1")
    for number in range(FOR):
        site.copy(f"https://m.a.com/p{number}", f"http://a.com/p{number}")
    assert held(site) == ["drop:;jsessionid a.com", "part:/print a.com"]
    for number in range(FOR):
        site.copy(f"http://m.a.com/p{number}", f"http://a.com/p{number}")
    assert "host:m.a.com=a.com" in held(site)
    assert site.known("http://m.a.com/print/p3;jsessionid=9").original == A + "/p3"


def test_only_pages_that_paid_and_of_their_kind_are_originals():
    """A page that brought no item, or is for another callback, shuts nothing out."""
    site = SiteRules(RECIPE)
    taught(site, "/p{}", "/p{}?sid=1")
    site.accept(Page(A + "/poor", text(600), "item", paid=False))
    site.accept(Page(A + "/rich", text(601), "item"))
    assert site.known(A + "/poor?sid=1") is None
    assert site.known(A + "/rich?sid=1", "list") is None
    assert site.known(A + "/rich?sid=1", "item") is not None
    site.forget(A + "/rich")
    assert site.known(A + "/rich?sid=1", "item") is None


def test_a_page_that_is_not_read_is_like_no_other():
    """A PDF under the print version's URL ends the rule."""
    site = SiteRules(RECIPE)
    taught(site, "/p{}", "/print/p{}")
    site.accept(Page(A + "/print/p3", None))
    assert held(site) == []


def test_links_in_doubt():
    """A copy that leads to something new holds a rule up, until that was met elsewhere."""
    site = SiteRules(RECIPE)
    taught(site, "/p{}", "/p{}?from=1")
    assert site.known(A + "/p1?from=2") is not None
    site.doubt(A + "/p2?from=5", A + "/p2", [b"link0001", b"link0002"], 5.0)
    assert site.known(A + "/p1?from=2") is None
    site.met(A + "/p2?from=5", [b"link0001", b"link0002"], 1.0)
    site.met(A + "/p7?from=9", [b"link0001", b"link0002"], 1.0)
    site.met(A + "/p6", [b"link0001", b"link0002"], 9.0, ["drop:from"])
    assert site.known(A + "/p1?from=2") is None
    site.met(A + "/p8", [b"link0001"], 1.0, ["drop:from"])
    assert site.known(A + "/p1?from=2") is None
    site.met(A + "/p9", [b"link0002"], 9.0, ["value:page"])
    assert site.known(A + "/p1?from=2") is not None


def test_what_a_person_says():
    """A pinned rule holds without evidence, a forbidden one never does."""
    site = SiteRules(RECIPE)
    site.say(rule_of("drop:ref a.com"), "pin")
    site.say(rule_of("drop:sid a.com"), "forbid")
    taught(site, "/p{}", "/p{}?sid=1")
    assert "drop:sid a.com" not in held(site)
    assert site.known(A + "/p1?ref=1") is not None
    site.say(rule_of("drop:ref a.com"), "")
    assert site.known(A + "/p1?ref=1") is None


# -------------------------------------------------------------------------------------- oracle

PARAMETERS = ["sid", "id", "page"]
SMALL_URLS = st.builds(
    lambda path, query: document_key(f"{A}{path}" + (f"?{'&'.join(query)}" if query else "")),
    st.sampled_from(["/a", "/a/", "/b", "/b/c", "/print/a", "/print/b/c"]),
    st.lists(
        st.builds("{}={}".format, st.sampled_from(PARAMETERS), st.integers(0, 3)),
        max_size=2,
        unique_by=lambda parameter: parameter.partition("=")[0],
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), SMALL_URLS, st.integers(0, 4)),
        st.tuples(st.just("copy"), SMALL_URLS, SMALL_URLS),
        st.tuples(st.just("forget"), SMALL_URLS, st.none()),
    ),
    max_size=120,
)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(1, 3))
def test_no_rule_maps_two_texts_together(steps, needed):
    """Whatever the order of evidence: pages that are remembered, of other texts, stay apart."""
    from dedup.detector.url_rules import site_rules

    before = site_rules.FOR, site_rules.ORIGINALS
    site_rules.FOR, site_rules.ORIGINALS = needed, 1
    try:
        site, pages, dead = SiteRules(RECIPE), {}, set()
        for step, url, other in steps:
            if step == "accept":
                site.accept(Page(url, text(other)))
                pages[url] = other
            elif step == "copy":
                site.copy(url, other)
            else:
                site.forget(url)
                pages.pop(url, None)
            assert_apart(site, pages)
            assert not dead & site.held
            dead |= {rule for rule, record in site.records.items() if record.against}
    finally:
        site_rules.FOR, site_rules.ORIGINALS = before


def assert_apart(site: SiteRules, pages: dict[str, int]) -> None:
    forms: dict[object, int] = {}
    rules = RuleSet(site.held)
    for url, number in pages.items():
        form = rules.normal(take_apart(url)).form
        assert forms.setdefault(form, number) == number, (url, site.held)
    for url in pages:
        for name in PARAMETERS:
            known = site.known(f"{url}{'&' if '?' in url else '?'}{name}=9")
            assert known is None or known.original in pages


# --------------------------------------------------------------------------------- many sites


def test_a_site_teaches_about_itself_alone():
    """Evidence across sites counts for neither, and a rule is of its host."""
    learner = Learner()
    for number in range(100):
        learner.accept(Page(f"http://good.com/p{number}", text(number)))
        learner.copy(f"http://bad.com/p{number}?id=1", f"http://good.com/p{number}")
        learner.copy(f"http://bad.com/p{number}?id=1", f"http://bad.com/p{number}")
    assert [(name, str(rule)) for name, rule, _ in learner.held()] == [
        ("bad.com", "drop:id bad.com")
    ]
    assert learner.known("http://good.com/p1?id=1") is None
    assert learner.known("http://other.bad.com/p1?id=1") is None


def test_memory_is_bounded():
    """A site without end, and sites without end, leave what is kept within its bounds."""
    learner = Learner()
    for number in range(MOST_RULES + 50):
        learner.copy(f"{A}/p?x{number}=1", f"{A}/p")
    assert len(learner.records()["a.com"]) == MOST_RULES
    for number in range(MOST_SITES + 100):
        learner.accept(Page(f"http://s{number}.com/", text(1)))
    assert len(learner._sites) == MOST_SITES


def test_pages_are_bounded(monkeypatch):
    """The pages of the sites that were not met for longest go first."""
    assert MOST_PAGES >= 10_000
    monkeypatch.setattr("dedup.detector.url_rules.learner.MOST_PAGES", 50)
    learner = Learner()
    for number in range(120):
        learner.accept(Page(f"http://s{number % 3}.com/{number}", text(1)))
    assert sum(len(site.pages) for site in learner._sites.values()) == 50 == learner._pages


def test_which_pages_are_the_same():
    """Near-duplicates that do not say that they are two; short and unread ones only if equal."""
    one, other = text(1), text(2)
    assert is_same(one, one, RECIPE)
    assert not is_same(one, other, RECIPE)
    assert not is_same(None, None, RECIPE)
    short = PageFingerprint(1, one.sketch, 5 << 32, 3, NEWEST)
    assert is_same(short, short, RECIPE)
    assert not is_same(short, PageFingerprint(1, one.sketch, 6 << 32, 3, NEWEST), RECIPE)
    renamed = PageFingerprint(one.value ^ 1, one.sketch, 6 << 32, 200, NEWEST)
    assert not is_same(one, renamed, RECIPE)
    unread = PageFingerprint(one.value, one.sketch, one.identity, 200, NEWEST, unread=True)
    assert not is_same(unread, unread, RECIPE)


def test_scopes_go_from_wide_to_narrow():
    """A scope is a host and the first segments of a path."""
    from dedup.detector.url_rules.rule_set import scopes_of

    scopes = scopes_of("a.com", "/a/b/c/d")
    assert scopes == ("a.com", "a.com/a", "a.com/a/b", "a.com/a/b/c")
    assert all(narrow.startswith(wide) for wide, narrow in pairwise(scopes))
