"""Rules about URLs: how two URLs differ, which rules come in force, and which requests they make known."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.settings import Settings
from sizes import examples

from dedup.model.errors import UsageError
from dedup.model.names import document_key
from dedup.model.page import SKETCH_BYTES, Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.scrapy.settings import check_settings
from dedup.scrapy.urls import SiteUrls, known
from dedup.scrapy.urls.known import CHECKED, FEW, PAIRS
from dedup.scrapy.urls.rules import RuleSet, candidates, rule_of

A = "http://a.com"
ANY: frozenset[str] = frozenset()


def accepted(key: str, text: int, kind: str = "", *, paid: bool = True) -> Document:
    """Return an accepted page: equal numbers are one text."""
    page = PageFingerprint(text, bytes([text % 256]) * SKETCH_BYTES, text << 32, 200, NEWEST)
    return Document(key, page, kind=kind, paid=paid)


def urls(mode: str = "skip", documents: tuple[Document, ...] = (), rules: Any = None) -> SiteUrls:
    config: Any = SimpleNamespace(urls=mode, mode="drop", url_rules=rules)
    memory: Any = SimpleNamespace(documents=lambda: documents)
    return SiteUrls(memory, config)


def teach(
    site: SiteUrls,
    pattern: str,
    copy: str,
    count: int = PAIRS,
    start: int = 0,
    *,
    same: bool = True,
) -> None:
    """Accept pages, and tell what their copies brought."""
    for number in range(start, start + count):
        site.accept(accepted(A + pattern.format(number), number))
        site.learn(A + copy.format(number, 7 * number), A + pattern.format(number), same=same)


def original(site: SiteUrls, path: str, kind: str = "") -> str | None:
    found = site.known(Request(A + path), kind)
    return None if found is None else found.original.removeprefix(A)


def held(site: SiteUrls) -> list[str]:
    return sorted(rule.rule for rule in site.rules())


# ------------------------------------------------------------------------------------ two URLs


@pytest.mark.parametrize(
    ("a", "b", "rules"),
    [
        ("/x?sid=1", "/x?sid=2", {"value:sid a.com"}),
        ("/x?b=2&sid=1", "/x?b=2", {"drop:sid a.com"}),
        ("/x?a=1&b=1", "/x?b=2&c=3", {"drop:a a.com", "value:b a.com", "drop:c a.com"}),
        ("/print/x", "/x", {"part:/print a.com"}),
        ("/a/x/print", "/a/x", {"part:/print a.com"}),
        ("/a/x/print/", "/a/x/", {"part:/print a.com"}),
        ("/a/index.html", "/a/", {"part:index.html a.com"}),
        ("/a/", "/a", {"slash a.com"}),
        ("/A/b", "/a/B", {"case a.com"}),
        ("/x;jsessionid=1?a=2", "/x?a=2", {"drop:;jsessionid a.com"}),
        ("/x;jsessionid=1", "/x;jsessionid=2", {"value:;jsessionid a.com"}),
        ("/(S(abc))/x", "/(S(def))/x", {"value:(S) a.com"}),
        ("/(S(abc))/x", "/x", {"drop:(S) a.com"}),
        ("/x;v=1/y", "/x/y;v=1", {"value:;v a.com"}),
        ("/one", "/two", set()),
        ("/item/1", "/item/12", set()),
        ("/list/2", "/list", set()),
        ("/print/x/", "/x", set()),
        ("/print/x?sid=1", "/x", set()),
    ],
)
def test_what_two_urls_teach(a, b, rules):
    """One rule, or some about parameters; and these map the two together, and nothing else."""
    found = candidates(A + a, A + b)
    assert {rule.text() for rule in found} == rules
    together = RuleSet(dict.fromkeys(found, ANY))
    assert (together.mapping(A + a, A + b) is not None) == bool(rules)
    assert together.mapping(A + a, A + "/other") is None


def test_hosts_and_schemes():
    """The shorter host stays; a parameter's rule is of that host."""
    assert [r.text() for r in candidates("http://m.a.com/x", "http://a.com/x")] == [
        "host:m.a.com=a.com"
    ]
    assert [r.text() for r in candidates("http://a.com/x", "https://a.com/x")] == ["scheme a.com"]
    rules = RuleSet({rule_of("host:m.a.com=a.com")[0]: ANY, rule_of("drop:sid a.com")[0]: ANY})
    assert rules.mapping("http://m.a.com/x?sid=1", "http://a.com/x") is not None
    assert rules.mapping("http://b.a.com/x?sid=1", "http://b.a.com/x") is None


SEGMENTS = st.sampled_from(["print", "a", "A", "b.html", "index.html", "amp", "x;v=1", "(S(q))"])
URLS = st.builds(
    lambda scheme, host, path, query: document_key(f"{scheme}://{host}/{path}?{query}"),
    st.sampled_from(["http", "https"]),
    st.sampled_from(["a.com", "m.a.com"]),
    st.lists(SEGMENTS, max_size=3).map("/".join) | st.just("a/"),
    st.lists(
        st.builds("{}={}".format, st.sampled_from(["sid", "id", "p"]), st.integers(0, 3)),
        max_size=2,
    ).map("&".join),
)
SOME_RULES = st.dictionaries(
    st.sampled_from(
        "drop:sid a.com|value:id a.com|drop:p a.com/a|part:/print a.com|part:index.html a.com|case a.com|slash a.com|"
        "scheme a.com|host:m.a.com=a.com|drop:;v a.com|value:(S) a.com|drop:sid m.a.com".split("|")
    ).map(lambda text: rule_of(text)[0]),
    st.just(ANY),
)


@settings(max_examples=examples(150), deadline=None)
@given(URLS, SOME_RULES)
def test_a_url_under_rules_is_itself_under_them(url, rules):
    """And without a rule that says something it is the URL."""
    form, used = RuleSet(rules).normal(url)
    assert RuleSet(rules).normal(form)[0] == form
    assert (form == url) or used
    assert set(used) <= rules.keys()


# ------------------------------------------------------------------------------------- learning


def test_a_rule_needs_its_evidence():
    """A rule is in force from the tenth pair on, and makes known what was not fetched."""
    site = urls()
    teach(site, "/p{}", "/p{}?sid={}", PAIRS - 1)
    assert original(site, "/p1?sid=9") is None
    teach(site, "/p{}", "/p{}?sid={}", 1, start=PAIRS - 1)
    assert original(site, "/p1?sid=9") == "/p1"
    assert site.known(Request(A + "/p1?sid=9"), "").rules == ("drop:sid a.com",)
    assert original(site, "/p99?sid=9") is None
    assert original(site, "/p1") is None
    (rule,) = site.rules()
    assert (rule.rule, rule.pairs) == ("drop:sid a.com", PAIRS)
    assert (rule.copy, rule.original) == (
        f"{A}/p{PAIRS - 1}?sid={7 * (PAIRS - 1)}",
        f"{A}/p{PAIRS - 1}",
    )


def test_a_rule_needs_several_originals():
    """A thousand copies of two pages are no rule."""
    site = urls()
    for number in range(1000):
        of = f"{A}/p{number % (FEW - 1)}"
        site.learn(f"{of}?sid={number}", of, same=True)
    assert held(site) == []


def test_a_value_says_nothing_of_another():
    """That page=1 is the list says nothing of page=2; with several values a rule counts for all."""
    site = urls()
    teach(site, "/l{}", "/l{}?page=1")
    assert held(site) == ["drop:page=1 a.com"]
    assert original(site, "/l3?page=1") == "/l3"
    assert original(site, "/l3?page=2") is None
    for number in range(FEW):
        site.learn(f"{A}/l{number}?page={number}", f"{A}/l{number}", same=True)
    assert held(site) == ["drop:page a.com"]


def test_a_pair_that_brought_something_new_ends_the_rule():
    """For the rest of the crawl, whatever speaks for it; other rules stay."""
    site = urls()
    teach(site, "/p{}", "/p{}?sid={}")
    teach(site, "/p{}", "/print/p{}")
    site.learn(A + "/print/p2?sid=3", A + "/print/p2", same=False)
    assert held(site) == ["part:/print a.com"]
    teach(site, "/p{}", "/p{}?sid={}", 50)
    assert held(site) == ["part:/print a.com"]


def test_a_rule_does_not_begin_against_a_pair():
    """A pair that brought something new before counts as much."""
    site = urls()
    site.learn(A + "/v?colour=1&sid=1", A + "/v?colour=2&sid=2", same=False)
    teach(site, "/p{}", "/p{}?colour={}")
    assert held(site) == ["drop:colour a.com"]  # alone it maps no such pair together
    teach(site, "/p{}", "/p{}?sid={}")
    assert held(site) == ["drop:colour a.com"]


@pytest.mark.parametrize("first", [True, False])
def test_two_accepted_pages_end_the_rule(first):
    """What was accepted under two URLs is two pages: the rule that makes them one ends, or does not begin."""
    site = urls()
    pages = [accepted(f"{A}/view?id={n}", 100 + n) for n in range(3)]
    for page in pages if first else ():
        site.accept(page)
    teach(site, "/news/{}?id=1", "/news/{}?id={}")
    assert held(site) == ([] if first else ["value:id a.com"])
    for page in pages:
        site.accept(page)
    assert held(site) == []
    teach(site, "/news/{}?id=1", "/news/{}?id={}", 50)
    assert held(site) == []


def test_pages_of_one_text_or_of_other_callbacks_are_no_evidence():
    """Short pages with the same words, and what is not compared."""
    site = urls()
    teach(site, "/p{}", "/p{}?sid={}")
    site.accept(accepted(A + "/p1?sid=3", 1))
    site.accept(accepted(A + "/p2?sid=3", 77, "other"))
    assert held(site) == ["drop:sid a.com"]
    site.unlike(A + "/p3?sid=3")
    assert held(site) == []


def test_several_parameters_at_once():
    """Campaigns come together; each is learned, and beside it a session in the path."""
    site = urls()
    teach(site, "/p{0}?x=1", "/p{0}?utm_medium={1}&utm_source=b{1}&x=1")
    assert held(site) == ["drop:utm_medium a.com", "drop:utm_source a.com"]
    teach(site, "/q{}?x=1", "/q{};jsessionid={}?utm_source=b&x=1")
    assert original(site, "/q3;jsessionid=X?utm_medium=1&x=1") == "/q3?x=1"
    assert original(site, "/q3;jsessionid=X?x=2") is None


def test_only_pages_that_paid_and_of_their_kind_are_originals():
    """A page that brought no item, is for another callback, or was forgotten makes nothing known."""
    site = urls()
    teach(site, "/p{}", "/p{}?sid={}")
    site.accept(accepted(A + "/poor", 60, "item", paid=False))
    site.accept(accepted(A + "/rich", 61, "item"))
    assert original(site, "/poor?sid=1", "item") is None
    assert original(site, "/rich?sid=1", "list") is None
    assert original(site, "/rich?sid=1", "item") == "/rich"
    site.forget(A + "/rich")
    assert original(site, "/rich?sid=1", "item") is None


def test_sites_and_hosts_teach_about_themselves():
    """A pair of two sites counts for neither, and a rule is of its host."""
    site = urls()
    for number in range(20):
        site.learn(f"http://b.com/p{number}?id={number}", f"{A}/p{number}", same=True)
        site.learn(f"http://b.com/p{number}?id={number}", f"http://b.com/p{number}", same=True)
    assert held(site) == ["drop:id b.com"]
    site.accept(accepted("http://c.b.com/p1", 1))
    assert site.known(Request("http://c.b.com/p1?id=3"), "") is None


def test_what_is_done_with_known_requests():
    """skip: not sent, but for one in twenty; learn: sent; off: nothing is learned."""
    for mode in ("skip", "learn", "off"):
        site = urls(mode)
        teach(site, "/p{}", "/p{}?sid={}", 400)
        found = [site.known(Request(f"{A}/p{n}?sid=x"), "") for n in range(400)]
        skipped = sum(each is not None and each.skip for each in found)
        if mode == "skip":
            assert 400 - 3 * 400 / CHECKED < skipped < 400
        else:
            assert skipped == 0
        assert (None in found) == (mode == "off")
        assert bool(site.to_bytes()) == (mode != "off")


# ---------------------------------------------------------------------------- what a person says


def said(folder: Any, text: str) -> SiteUrls:
    (folder / "rules").write_text(text)
    return urls(rules=folder / "rules")


def test_pinned_and_forbidden(tmp_path):
    """A pinned rule is in force from the start and never ends, a forbidden one is never in force."""
    site = said(
        tmp_path,
        "# ours\n\ndrop:ref a.com\npin value:id a.com/view\n-drop:sid a.com\nforbid value:c a.com",
    )
    site.accept(accepted(A + "/p1", 1))
    site.accept(accepted(A + "/p1?ref=1", 2))
    site.accept(accepted(A + "/view/x?id=1", 3))
    site.learn(A + "/p1?ref=5", A + "/p1", same=False)
    assert original(site, "/p1?ref=7") == "/p1"
    assert original(site, "/view/x?id=2") == "/view/x?id=1"
    assert original(site, "/p1?id=2") is None
    teach(site, "/p{}", "/p{}?sid={}")
    teach(site, "/p{}?c=0", "/p{}?c={}")
    teach(site, "/p{}", "/p{}?c={}")
    assert held(site) == ["drop:ref a.com", "value:id a.com/view"]


@pytest.mark.parametrize(
    "line",
    [
        "drop a.com",
        "take:sid a.com",
        "part:/print a.com/x",
        "host:a.com",
        "host:a.com=b.com",
        "- -drop:sid a.com",
    ],
)
def test_a_wrong_line_stops_the_crawl(tmp_path, line):
    """The message names the file and the line."""
    path = tmp_path / "rules"
    path.write_text(f"drop:sid a.com\n{line}\n")
    asked = Settings({"DEDUP_URL_RULES": str(path)})

    async def check() -> None:
        check_settings(asked)

    with pytest.raises(UsageError, match=r"rules, line 2: .* is not a rule"):
        asyncio.run(check())
    path.unlink()
    with pytest.raises(UsageError, match="DEDUP_URL_RULES"):
        asyncio.run(check())


# ------------------------------------------------------------------------------- from run to run


def test_round_trip():
    """What one run learned the next goes on with: rules, half the evidence, and what has ended."""
    site = urls()
    teach(site, "/p{}", "/p{}?sid={}")
    teach(site, "/p{}", "/p{}?half={}", PAIRS - 1)
    teach(site, "/p{}", "/print/p{}")
    site.learn(A + "/print/p1", A + "/p1", same=False)
    assert urls().to_bytes() == b""
    documents = tuple(accepted(f"{A}/p{n}", n) for n in range(20))
    again = urls(documents=documents)
    again.take(site.to_bytes())
    assert original(again, "/p15?sid=1") == "/p15"
    assert held(again) == ["drop:sid a.com"]
    teach(again, "/p{}", "/print/p{}")
    teach(again, "/p{}", "/p{}?half={}", 1)
    assert held(again) == ["drop:half a.com", "drop:sid a.com"]
    for content in (b"", b"\xc1", b"\x80"):
        again.take(content)


def test_memory_is_bounded(monkeypatch):
    """Pages, rules and pairs without end; what exceeds the bounds is not learned."""
    for name in ("PAGES", "RULES", "APART"):
        assert getattr(known, name) >= 5000
        monkeypatch.setattr(known, name, 50)
    site = urls()
    for number in range(200):
        site.accept(accepted(f"http://s{number % 3}.com/{number}", number))
        site.learn(f"{A}/p?x{number}=1", f"{A}/p", same=True)
        site.learn(f"{A}/p?y={number}&z={number}", f"{A}/p", same=False)
    assert sum(len(each.pages) for each in site._sites.values()) == 50
    assert sum(len(each.records) for each in site._sites.values()) == 50
    assert sum(len(each.apart) for each in site._sites.values()) == 50
    teach(site, "/p{}", "/p{}?sid={}")
    assert held(site) == []


# --------------------------------------------------------------------------------------- oracle

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), URLS, st.integers(0, 4)),
        st.tuples(st.just("same"), URLS, URLS),
        st.tuples(st.just("new"), URLS, URLS),
        st.tuples(st.just("forget"), URLS, st.none()),
        st.tuples(st.just("again"), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.integers(1, 3))
def test_no_rule_maps_what_differs(steps, needed):
    """Whatever the order: pairs that brought something new, and accepted pages of other texts, stay apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "PAIRS", needed)
        patch.setattr(known, "FEW", min(needed, 2))
        site, pages, apart, ended = urls(), {}, [], set()
        for step, url, other in steps:
            if step == "accept":
                site.accept(accepted(url, other))
                pages[url] = other
            elif step == "forget":
                site.forget(url)
                pages.pop(url, None)
            elif step == "again":
                content = site.to_bytes()
                site = urls(documents=tuple(accepted(u, t) for u, t in pages.items()))
                site.take(content)
                site.learn(A + "/", A + "/z", same=False)
                apart.append((A + "/", A + "/z"))
            else:
                site.learn(url, other, same=step == "same")
                if step == "new" and url != other:
                    apart.append((url, other))
            rules = site._sites["a.com"].rules if "a.com" in site._sites else RuleSet({})
            for pair in apart:
                assert rules.mapping(*pair) is None
            forms: dict[str, int] = {}
            for key, text in pages.items():
                assert forms.setdefault(rules.normal(key)[0], text) == text
            for key in [*pages, *(f"{A}/a?sid={n}" for n in range(3))]:
                found = site.known(Request(key), "")
                assert found is None or (
                    found.original in pages and rules.mapping(key, found.original) is not None
                )
            assert not ended & rules.rules.keys()
            if "a.com" in site._sites:
                ended |= {r for r, record in site._sites["a.com"].records.items() if record.ended}
