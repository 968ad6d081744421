"""The bench of whole sites: what it counts; and of any crawl, that no page is left unasked in silence."""

import random
import sys

import pytest
from crawls.command import crawl_once
from crawls.judge import Contents, claims, judged
from crawls.served import Site, proxy
from crawls.sites import BuiltSite, Page, Source, build, table

HOST = "www.blog.example"
WORDS = ["".join(pair) for pair in zip("bdfgklmnprst" * 200, "aeiou" * 480, strict=True)]


def text(name, count):
    chance = random.Random(name)
    return " ".join(chance.choice(WORDS) + chance.choice(WORDS) for _ in range(count))


def page(path, main, around=""):
    html = f"<html><head><title>Site</title></head><body>{around}<main>{main}</main></body></html>"
    return Page(HOST + path, html, main)


def post(number):
    return (
        f"<h2><a href='/post/{number}/'>{text(number, 4)}</a></h2><p>{text(f'in {number}', 60)}</p>"
    )


def blog():
    """Tags whose first pages list the same posts; their second pages are linked from <nav>."""
    menu = "<nav>" + "".join(f"<a href='/tag/{t}/'>{t}</a>" for t in range(8)) + "</nav>"
    yield page("/", "".join(map(post, range(10))), menu)
    for tag in range(8):
        older = f"<nav><a href='/tag/{tag}/page/2/'>Older posts</a></nav>"
        yield page(f"/tag/{tag}/", f"<h1>Tag {tag}</h1>" + "".join(map(post, range(5))), menu + older)  # fmt: skip
        only = "".join(map(post, range(100 + 3 * tag, 103 + 3 * tag)))
        yield page(f"/tag/{tag}/page/2/", f"<h1>Tag {tag}</h1>{only}", menu)
    for number in [*range(10), *range(100, 124)]:
        yield page(f"/post/{number}/", f"<h1>{text(number, 4)}</h1><p>{text(-number, 200)}</p>", menu)  # fmt: skip


def manual():
    """A French start page that is not translated yet; its sidebar alone leads to the French chapters."""
    menu = "<nav><a href='/en/'>English</a> <a href='/fr/'>French</a></nav>"
    yield page("/", "<h1>Manuals</h1><p>Which language?</p><a href='/en/'>English</a>")
    for language in ("en", "fr"):
        links = (f"<a href='/{language}/{n}/'>{text(f'{language}{n}', 2)}</a>" for n in range(12))
        aside = menu + f"<aside>{' '.join(links)}</aside>"
        yield page(f"/{language}/", f"<h1>The manual</h1><p>{text('start', 200)}</p>", aside)
        for n in range(12):
            chapter = f"{language} {n}"
            yield page(f"/{language}/{n}/", f"<h1>{text(chapter, 3)}</h1><p>{text(chapter + 'x', 200)}</p>", aside)  # fmt: skip


def shop():
    """Products, each also under a section, with a print version: copies that lead nowhere new."""
    yield page("/", "".join(f"<a href='/section/{s}/'>{s}</a> " for s in range(3)))
    for section in range(3):
        links = (f"<a href='/section/{section}/{n}/'>{text(n, 2)}</a>" for n in range(12))
        yield page(f"/section/{section}/", f"<h1>Section {section}</h1>{' '.join(links)}")
        for n in range(12):
            main = f"<h1>{text(n, 2)}</h1><p>{text(f'of {n}', 120)}</p><a href='/'>Home</a>"
            yield page(f"/section/{section}/{n}/", main)


SITES = {"blog": blog, "manual": manual, "shop": shop}


def site_of(name):
    return Site(BuiltSite(name, HOST, [f"http://{HOST}/"], list(SITES[name]())))


def crawled(site, config, address, spider="html"):
    return crawl_once(site.starts, address, spider, config, sys.executable)


@pytest.mark.parametrize("name", SITES)
def test_a_request_that_is_not_made_is_listed(name):
    """What a crawl without the add-on asks is asked, or listed with its reason; a figure called saved is the difference."""
    site = site_of(name)
    contents = Contents(site.texts)
    with proxy(site) as address:
        none, *crawls = (crawled(site, each, address) for each in ("none", "drop", "text"))
    for crawl in crawls:
        found = judged(site, contents, crawl, none)
        assert found["ended"]
        assert found["lost pages"] == []
        assert found["unlisted"] == 0, sorted(set(none["asked"]) - set(crawl["asked"]))
        saved = claims(crawl["summary"], saved=True)
        assert saved == {kind: found["saved"][kind] for kind in saved}


# ------------------------------------------------------------------------------------ the bench


def source(**given):
    fields = {
        "name": "s",
        "kind": "blog",
        "half": "open",
        "limit": 9,
        "host": "a.example,b.example",
    }
    fields |= {"starts": ("/",), "content": "//main", "without": "//aside", "sources": ()}
    return Source(**{**fields, **given})


def test_the_table_of_sites_is_whole():
    """At least twenty sites, each with its versions, half and truth; starts are paths."""
    sites = table()
    assert len(sites) >= 20
    assert {each.half for each in sites.values()} == {"open", "held"}
    for each in sites.values():
        assert each.sources
        assert each.content.startswith("//")
        assert all(path.startswith("/") for path in each.starts)


def test_a_site_is_built_in_the_order_of_its_links():
    """Pages that no link leads to are left out, so are those beyond the limit; other names of the host are its own."""
    files = {
        "/index.html": b"<html><a href='b'>b</a><a href='http://b.example/c.html'>c</a>",
        "/b.html": b"<html><main>The <aside>not</aside> content</main><a href='/d.html'>",
        "/c.html": b"<html><body>c",
        "/d.html": b"<html><body>d",
        "/e.html": b"<html><body>e",
    }
    found = build(source(), files)
    assert [page.key[9:] for page in found.pages] == [
        "/index.html",
        "/b.html",
        "/c.html",
        "/d.html",
    ]
    assert found.pages[1].text == "The content"
    assert "http://a.example/c.html" in found.pages[0].html
    assert len(build(source(limit=2), files).pages) == 2


def test_a_query_that_was_saved_in_a_name_is_a_query_again():
    """Files NAME@QUERY.html, and the links to them."""
    files = {
        "/index.html": b"<html><a href='t.php@t=1&amp;v=2.html#p'>x</a>",
        "/t.php?t=1&v=2": b"<html><body>t",
    }
    found = build(source(sources=("query=@",)), files)
    assert [page.key for page in found.pages] == ["a.example/index.html", "a.example/t.php?t=1&v=2"]
    assert 'href="t.php?t=1&amp;v=2#p"' in found.pages[0].html


def test_noise_shows_the_same_pages():
    """Every other URL of a page has that page behind it; dead links are none."""
    site = Site(BuiltSite("shop", HOST, [f"http://{HOST}/"], list(shop())), noisy=True)
    page = "/section/0/"
    for url in (page, page + "?utm_source=rss", page + "?sid=1", page + "index.html?print=1"):
        assert site.page_of(f"http://{HOST}{url}") in (None, HOST + page)
    assert site.page_of(f"http://{site.mirror}{page}") == HOST + page
    assert site.page_of(f"http://{HOST}/calendar/2026/3") == "calendar 2026-03"
    assert site.answer(f"http://{HOST}/none")[0] == 404
    assert b"?sid=" in b"".join(site.answer(f"http://{key}")[2] for key in site.texts)


def test_what_is_left_and_lost_goes_by_the_contents():
    """A copy is left, a content that nothing kept is like is lost; what was not asked is listed, or missed."""
    pages = [Page(f"{HOST}/{n}", "<html>", text(n // 2, 50)) for n in range(6)]
    site = Site(BuiltSite("s", HOST, [f"http://{HOST}/0"], pages))
    urls = [f"http://{HOST}/{n}" for n in range(6)]

    def crawl(kept, asked, listed=()):
        return {"spider": "html", "config": "drop", "asked": asked, "items": [(url, {}) for url in kept], "parsed": len(kept),
                "stats": {"finish_reason": "finished"}, "summary": ["[dedup] 3 requests saved"],
                "listed": dict.fromkeys(listed, "text"), "cpu_seconds": 1.0, "peak_mb": 1.0}  # fmt: skip

    found = judged(
        site, Contents(site.texts), crawl(urls[:3], urls[:4], urls[4:5]), crawl(urls, urls)
    )
    assert (found["left"], found["lost pages"]) == (1, [f"{HOST}/4"])
    assert (found["not asked"], found["missed pages"]) == (2, urls[5:])
    assert (found["said"], found["saved"]["requests"]) == ({"requests": 3}, 2)


def test_records_are_compared_but_for_their_url():
    """Of metadata and link graphs; a link that says the same page is the same."""
    pages = [Page(f"{HOST}/{n}", "<html>", "") for n in range(3)]
    site = Site(BuiltSite("s", HOST, [f"http://{HOST}/0"], pages), noisy=True)
    urls = [f"http://{HOST}/{n}" for n in range(3)]

    def crawl(*links):
        items = [(url, {"out_links": each}) for url, each in zip(urls, links, strict=False)]
        return {"spider": "graph", "config": "drop", "asked": urls, "items": items, "parsed": 3,
                "stats": {}, "summary": [], "listed": {}, "cpu_seconds": 1.0, "peak_mb": 1.0}  # fmt: skip

    none = crawl([urls[0]], [urls[0] + "?sid=1"], [urls[1]])
    found = judged(site, Contents(site.texts), crawl([urls[0]], [urls[0] + "?utm_x=1"]), none)
    assert (found["left"], found["lost pages"]) == (1, [urls[2]])
