"""What crawls learn of their sites' URLs, and skip: real crawls of small sites, with known items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from crawling import Case, Crawl, Crawling, Page, article, hub, run_cases, serve
from item_pages import ITEMS, item
from scrapy import FormRequest, Request
from sizes import sized

from dedup.scrapy.memory.state import LEARNED, Learned, read
from dedup.scrapy.page.request import is_ordinary, mark, mark_of
from dedup.scrapy.urls import SiteUrls

pytestmark = pytest.mark.sized

ARTICLES = sized(quick=16, full=25)
WAYS = ("off", "learn", "skip")


def planted(forms: tuple[str, ...], count: int = ARTICLES) -> dict[str, Page]:
    """Articles, each of which leads to its copies under other URLs, and to the next one."""
    pages = {"/": hub(*(f"/a/{n}" for n in range(count)))}
    for n in range(count):
        copies = [form.format(n=n, k=7 * n) for form in forms]
        pages |= {path: item(n, *copies) for path in (f"/a/{n}", *copies)}
    return pages


def crawl(
    folder: Path,
    pages: Mapping[str, Page],
    settings: Mapping[str, Any] | None = None,
    ways: tuple[str, ...] = WAYS,
    body: str = ITEMS,
    **options: Any,
) -> dict[str, Crawl]:
    """Crawl a site in each of the ways that DEDUP_URLS has."""
    cases = {way: Case(pages, body, {"DEDUP_URLS": way} | dict(settings or {})) for way in ways}
    return run_cases(folder, cases, in_turn=True, **options)


def items(crawl: Crawl) -> set[str]:
    return {event["item"] for event in crawl.of("item")}


def rules(folder: Path, way: str) -> set[str]:
    """Return the rules that a crawl's store keeps, without their hosts."""
    learned = read(folder / "dedup" / way / LEARNED, Learned)
    memory: Any = SimpleNamespace(documents=tuple)
    config: Any = SimpleNamespace(urls="learn", mode="drop", url_rules=None)
    site = SiteUrls(memory, config)
    site.take(b"" if learned is None else learned.urls)
    return {each.rule.partition(" ")[0] for each in site.rules()}


def test_copies_are_not_fetched(tmp_path):
    """Sessions, campaigns and print versions: after ten of each they are skipped; no item is lost."""
    forms = ("/a/{n}?sid={k}", "/a/{n}?utm_medium=x&utm_source=y{k}", "/print/a/{n}", "/a/{n}/")
    crawls = crawl(tmp_path, planted(forms))
    for way, done in crawls.items():
        assert items(done) == set(map(str, range(ARTICLES))), way
        assert done.faults == {}, way
        assert done.errors == [], way
    assert len(crawls["off"].requested) == len(crawls["learn"].requested) == 1 + 5 * ARTICLES
    assert not [name for name in crawls["off"].stats if "/url_" in name]
    saved = len(crawls["learn"].requested) - len(crawls["skip"].requested)
    assert saved == crawls["skip"].stat("url_skipped") > 0
    assert crawls["learn"].stat("url_would_skip") >= saved
    expected = {"drop:sid", "drop:utm_medium=x", "drop:utm_source", "part:/print", "slash"}
    assert rules(tmp_path, "learn") == expected
    assert rules(tmp_path, "skip") <= expected
    assert rules(tmp_path, "off") == set()
    would = f"{crawls['learn'].stat('url_would_skip')} requests would not be sent"
    said = f"[dedup] URLs: {would} with DEDUP_URLS = 'skip', by 5 rules: "
    assert said in crawls["learn"].log
    assert f"[dedup] URLs: {saved} requests not sent, by " in crawls["skip"].log
    skipped = [e for e in crawls["skip"].of("failed") if e["error"] == "KnownUrl"]
    assert len(skipped) == saved
    for event in skipped:
        noted, site = event["dedup"], crawls["skip"].url
        assert noted["status"] == "skipped"
        number = event["path"].replace("/print", "").split("?")[0].strip("/")
        assert noted["of"].split("?")[0].replace("/print", "").rstrip("/") == f"{site}/{number}"
        assert all(rule.endswith(site.removeprefix("http://")) for rule in noted["rules"])


def test_a_parameter_that_matters_on_one_path(tmp_path):
    """`id` says which page it is on /view, and means nothing on /news: a person says where it is skipped."""
    pages = {
        "/": hub(*(f"/view?id={n}" for n in range(30)), *(f"/news/{n}?id=0" for n in range(30)))
    }
    pages |= {f"/view?id={n}": item(n) for n in range(30)}
    for n in range(30):
        copies = [f"/news/{n}?id={k}" for k in (1, 2)]
        pages |= {path: item(100 + n, *copies) for path in (f"/news/{n}?id=0", *copies)}
    with serve(pages) as site:
        host = site.url.removeprefix("http://")
        (tmp_path / "rules").write_text(f"value:id {host}/news\n")
        settings = {"DEDUP_URLS": "skip", "DEDUP_URL_RULES": str(tmp_path / "rules")}
        done = Crawling(tmp_path, {"skip": (site, Case(pages, ITEMS, settings))}).end()["skip"]
    assert items(done) == {str(n) for n in (*range(30), *range(100, 130))}
    assert done.stat("url_skipped") > 20
    assert {path for path in done.requested if path.startswith("/view")} == {
        f"/view?id={n}" for n in range(30)
    }


def test_pages_with_one_text_that_lead_on(tmp_path):
    """Lists whose text is the same, page by page, lead to items that only they lead to: all are fetched."""
    pages, start = {}, []
    for c in range(8):
        start.append(f"/l{c}")
        for p in range(1, 8):
            path = f"/l{c}" if p == 1 else f"/l{c}?page={p}"
            following = [f"/l{c}?page={p + 1}"] if p < 7 else []
            mine = [f"/i/{c}-{p}-{k}" for k in range(2)]
            pages[path] = article(5000 + c, *mine, *following, title=f"List {c}")
            for k, one in enumerate(mine):
                pages[one] = item(20_000 + 100 * c + 10 * p + k, mine[1 - k])
    done = crawl(tmp_path, pages | {"/": hub(*start)}, ways=("skip", "off"))
    assert items(done["skip"]) == items(done["off"])
    assert len(items(done["skip"])) == 8 * 7 * 2


def test_another_mode_skips_nothing(tmp_path):
    """Where near-duplicates are parsed, all are fetched."""
    crawls = crawl(tmp_path, planted(("/a/{n}?sid={k}",)), {"DEDUP_MODE": "tag"}, ("skip", "off"))
    assert crawls["skip"].stat("url_skipped") == 0
    assert sorted(crawls["skip"].requested) == sorted(crawls["off"].requested)


def ordinary(url: str = "http://a.com/x", **arguments: Any) -> Request:
    request = Request(url, **arguments)
    mark(request, scheduled=request.url)
    return request


@pytest.mark.parametrize(
    ("request_", "skipped"),
    [
        (ordinary(), True),
        (ordinary(method="POST"), False),
        (ordinary(dont_filter=True), False),
        (ordinary(meta={"dont_dedup": True}), False),
        (ordinary(meta={"dedup_key": "x"}), False),
        (ordinary(meta={"is_start_request": True}), False),
        (ordinary(meta={"redirect_urls": ["http://a.com/y"]}), False),
        (ordinary(meta={"retry_times": 1}), False),
        (ordinary(body=b"x"), False),
        (ordinary(cookies={"language": "fr"}), False),
        (Request("http://a.com/x"), False),
        (FormRequest("http://a.com/x", formdata={"a": "b"}), False),
    ],
)
def test_only_ordinary_requests_are_skipped(request_, skipped):
    """Start requests, forms, what is past the filter, and what nobody scheduled are always sent."""
    assert is_ordinary(request_, mark_of(request_)) == skipped
