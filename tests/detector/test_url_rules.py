"""What is learned of a site's URLs: which rules come to hold, and which fall. Their parts: test_url_parts.py."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.detector.url_rules import (
    Learner,
    Page,
    Record,
    SiteRules,
    is_same,
    rule_of,
    take_apart,
)
from dedup.detector.url_rules.rule_records import decode_rules, encode_rules, read_said
from dedup.detector.url_rules.rule_set import RuleSet
from dedup.detector.url_rules.site_rules import (
    FOR,
    LIKELY,
    MOST_PAGES,
    MOST_RULES,
    MOST_SITES,
    ORIGINALS,
)
from dedup.model.errors import UsageError
from dedup.model.names import document_key
from dedup.model.page import SKETCH_BYTES, PageFingerprint
from dedup.model.recipes import NEWEST, recipe_of

RECIPE = recipe_of()
A = "http://a.com"


def text(number: int) -> PageFingerprint:
    """Return the fingerprint of a page: equal numbers are one text, others have nothing in common."""
    source = random.Random(number)
    title = source.getrandbits(32)
    return PageFingerprint(
        source.getrandbits(64), source.randbytes(SKETCH_BYTES), title << 32, 200, NEWEST
    )


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


def test_what_is_likely():
    """From the third pair on a URL may be that of an accepted page; a rule that fell is not likely."""
    site = SiteRules(RECIPE)
    taught(site, "/p{}", "/p{}?sid=1", LIKELY - 1)
    assert not site.likely(A + "/p1?sid=2")
    taught(site, "/p{}", "/p{}?sid=1", 1, start=LIKELY)
    assert site.likely(A + "/p1?sid=2")
    assert site.likely_form(A + "/new?sid=1") == site.likely_form(A + "/new?sid=2")
    assert not site.likely(A + "/new?sid=1")
    assert not site.likely(A + "/p1")
    site.accept(Page(A + "/new", text(700)))
    assert site.likely(A + "/new?sid=1")
    site.accept(Page(A + "/p1?sid=1", text(701)))
    taught(site, "/p{}", "/p{}?sid=1", FOR, start=20)
    assert not site.likely(A + "/new?sid=1")


def test_what_a_person_says():
    """A pinned rule holds without evidence, a forbidden one never does; what was saved changes neither."""
    ref, sid = rule_of("drop:ref a.com"), rule_of("drop:sid a.com")
    site = SiteRules(RECIPE, {ref: "pin", sid: "forbid"})
    site.take({ref: Record(pairs=3), sid: Record(pairs=12, holds=True)})
    taught(site, "/p{}", "/p{}?sid=1")
    assert "drop:sid a.com" not in held(site)
    assert site.known(A + "/p1?ref=1") is not None
    site.refute(A + "/p1?ref=1", A + "/p1")
    assert site.known(A + "/p1?ref=1") is not None


def test_what_a_person_said_is_in_no_file_but_the_persons():
    """It holds for a site that was evicted and met again; without the line in the file it holds no more."""
    ref = rule_of("drop:ref a.com")
    learner = Learner(RECIPE, {"a.com": {ref: "pin"}})
    for number in range(MOST_SITES + 1):
        learner.accept(Page(f"http://s{number}.com/", text(1)))
    learner.accept(Page(A + "/1", text(1)))
    assert learner.known(A + "/1?ref=1") is not None
    again = Learner(RECIPE)
    again.take(decode_rules(encode_rules(learner.records())))
    again.accept(Page(A + "/1", text(1)))
    assert again.known(A + "/1?ref=1") is None


def test_a_file_of_a_person(tmp_path):
    """A line each, by the site that the rule is for; what is not a line is named with its number."""
    file = tmp_path / "rules"
    file.write_text(
        "# ours\n\npin drop:ref shop.a.com\n  forbid value:id a.com/news \npin host:m.b.com=b.com\n"
    )
    assert read_said(file) == {
        "a.com": {rule_of("drop:ref shop.a.com"): "pin", rule_of("value:id a.com/news"): "forbid"},
        "b.com": {rule_of("host:m.b.com=b.com"): "pin"},
    }
    for line in ("drop:ref a.com", "pin", "pin drop:ref", "allow drop:ref a.com"):
        file.write_text(f"\n{line}\n")
        with pytest.raises(UsageError, match=r"rules, line 2: .*"):
            read_said(file)
    for content in (b"\xff", None):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(UsageError, match="cannot be read"):
            read_said(file)


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
    monkeypatch.setattr("dedup.detector.url_rules.site_rules.MOST_PAGES", 50)
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
