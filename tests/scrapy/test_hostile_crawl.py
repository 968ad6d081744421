"""The size cap of a crawl, DEDUP_MAX_BYTES, to the byte."""

import dataclasses
import gzip

import pytest
from crawling import TEXT, Case, Page, article, hub, run_case

MOST = 30_000


def sized(number: int, size: int, **answer) -> Page:
    """An article of exactly so many bytes."""
    page = article(number, **answer)
    return dataclasses.replace(page, body=page.body + b" " * (size - len(page.body)))


def packed(page: Page) -> Page:
    """The same page, compressed on its way."""
    body = gzip.compress(page.body)
    assert len(body) < MOST // 10
    return dataclasses.replace(page, body=body, headers={"Content-Encoding": "gzip"})


KINDS = {
    "most": sized(1, MOST),
    "over": sized(2, MOST + 1),
    "packed": packed(sized(3, MOST)),
    "packedover": packed(sized(4, MOST + 1)),
}
PAGES = {"/": hub(*(f"/{kind}{copy}" for kind in KINDS for copy in ("", "/copy")))}
PAGES |= {f"/{kind}{copy}": page for kind, page in KINDS.items() for copy in ("", "/copy")}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    return run_case(
        tmp_path_factory.mktemp("cap"), Case(PAGES, settings=TEXT | {"DEDUP_MAX_BYTES": MOST})
    )


@pytest.mark.parametrize("kind", ["most", "packed"])
def test_a_page_of_the_greatest_size_is_judged(crawl, kind):
    """At exactly DEDUP_MAX_BYTES, as the spider gets it, a copy is dropped."""
    assert f"/{kind}" in crawl.parsed
    assert f"/{kind}/copy" in crawl.dropped


@pytest.mark.parametrize("kind", ["over", "packedover"])
def test_a_page_one_byte_larger_is_exempt(crawl, kind):
    """One byte more, and the page and its copy are kept and say why."""
    for path in (f"/{kind}", f"/{kind}/copy"):
        assert path in crawl.parsed
        assert crawl.meta(path)["reason"] == "too_large"


def test_pages_over_the_cap_are_counted(crawl):
    """The reason is a stat, and counts exactly those four."""
    assert crawl.stat("exempt/too_large") == 4
