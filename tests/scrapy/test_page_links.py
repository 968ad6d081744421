"""Whether a page has a link to a URL: answered as if the canonical URLs of all its links were made."""

from contextlib import suppress
from itertools import product

import pytest
from scrapy.http import HtmlResponse, TextResponse
from w3lib.url import canonicalize_url

from dedup.scrapy.page.outlinks import PageLinks

BASE = "http://site.example/a/b?q=1"
PATHS = (
    "",
    "b",
    "./b",
    "../b",
    "b/",
    "/a/b",
    "caf%C3%A9",
    "café",
    "%62",
    "a b",
    "b;v=1",
    ".",
    "..",
    "x~y",
    "%2562",
)
QUERIES = ("", "?q=1", "?b=2&a=1", "?a=1&b=2", "?p=/b")
FRAGMENTS = ("", "#top", "#b?x/y")
OTHERS = ("http://site.example", "http://site.example/", "//site.example/a/b", "HTTP://SITE.example/b", "mailto:b",
          "javascript:void(0)", "http://[x", "http://other.example?b", " b ", "tel:1/b")  # fmt: skip
HREFS = [path + query + fragment for path, query, fragment in product(PATHS, QUERIES, FRAGMENTS)]


def _page(hrefs: list[str]) -> HtmlResponse:
    links = "".join(f'<a href="{href.replace("&", "&amp;")}">x</a>' for href in hrefs)
    return HtmlResponse(BASE, body=f"<html>{links}</html>".encode(), encoding="utf-8")


@pytest.mark.parametrize("href", HREFS[::7] + list(OTHERS))
def test_a_link_leads_to_every_spelling_of_its_url_and_to_no_other(href: str) -> None:
    """Compare with the canonical URL of the link, for the URLs of all the others."""
    page = _page([href])
    own = None
    with suppress(ValueError):
        own = canonicalize_url(page.urljoin(href.strip()))
    links = PageLinks(page)
    for other in HREFS + list(OTHERS):
        with suppress(ValueError):
            url = page.urljoin(other.strip())
            assert links.lead_to(url) == (canonicalize_url(url) == own), (href, url)


def test_every_link_counts_and_a_text_without_markup_has_none() -> None:
    """Find each of many, in areas and in the head, too."""
    page = _page(HREFS)
    links = PageLinks(page)
    assert all(links.lead_to(page.urljoin(href)) for href in HREFS)
    assert not links.lead_to("http://site.example/a/elsewhere")
    body = b'<html><head><link href="/l"></head><map><area href="/m"></map></html>'
    others = PageLinks(HtmlResponse(BASE, body=body))
    assert others.lead_to("http://site.example/l")
    assert others.lead_to("http://site.example/m")
    assert not PageLinks(TextResponse(BASE, body=b"href")).lead_to(BASE)
