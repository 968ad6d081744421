"""Every page that a person is shown, of a real run of the demo, in a real browser.

Wide and on a phone, light and dark: axe-core finds nothing, nothing sticks out at the side, and a
picture is kept for people where DEDUP_SCREENSHOTS asks for it.
"""

import re

import pytest
from browsing import MAY_CRASH, dashboard, faults, kept, opened
from demo_pages import REPORTS, demo_pages
from detecting import verdict_on
from playwright.sync_api import expect

import dedup
from dedup.report.crawl import Crawl, crawl_report
from dedup.report.html import html_page
from dedup.report.journal import Journal, JudgedPage
from dedup.scrapy.report import words_of

pytestmark = [pytest.mark.long, MAY_CRASH]

SIZES = [(390, "dark"), (1280, "light")]


def long_report(folder):
    """A crawl's report on a host of copies, whose addresses and words are long."""
    journal = Journal("drop", None, words_of)
    said = " ".join(f"word{n}" for n in range(80))
    host = f"http://{'a-rather-long-name.' * 3}example"
    for n in range(40):
        key = f"{host}/{'path/' * 12}{n}" if n else f"{host}/first"
        body = f"<p>{said} and {'unbroken' * 12}{n}</p>".encode()
        of = f"{host}/first" if n else None
        status, token = ("near_duplicate", None) if n else ("unique", "token")
        verdict = verdict_on(
            status, "", key, of, n % 8, 0.97, "unknown", dedup.fingerprint(body), token
        )
        journal.judged(JudgedPage(verdict, key, body, "utf-8", dedup.recipe_of(None), "parse"))
    journal.crawl.stats = {"probed": 40, "near_duplicate": 39, "unique": 1, "exempt/short": 3}
    journal.crawl.requests = 45
    return written(folder / "long-report.html", journal.crawl)


def empty_report(folder):
    """The report of a crawl that judged nothing."""
    return written(folder / "empty-report.html", Crawl("drop"))


def written(path, crawl):
    path.write_text(html_page(crawl_report(crawl)))
    return path


MORE = {"long-report": long_report, "empty-report": empty_report}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    with demo_pages(folder, 120, DOWNLOAD_DELAY=0.02, DEDUP_PROOF="text") as shown:
        shown.reports.update({name: make(folder) for name, make in MORE.items()})
        yield shown


def checked(page, name, width, scheme):
    """Assert what is true of every page."""
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    colours = "getComputedStyle(document.documentElement).backgroundColor"
    assert (
        page.evaluate(colours) != "rgba(0, 0, 0, 0)"
    )  # also where it is shown inside another page
    kept(page, f"{name}-{width}-{scheme}")


@pytest.mark.parametrize("name", [*REPORTS, *MORE])
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_axe_finds_nothing_in_a_report(browser, pages, name, width, scheme):
    """Reports of crawls, stores and scans, and comparisons; with all that is folded unfolded, too."""
    page = opened(browser, pages.reports[name].as_uri(), width, scheme)
    checked(page, name, width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_axe_finds_nothing_in_the_dashboard(browser, pages, width, scheme):
    """Before the token, and with a crawl's figures."""
    page = opened(browser, f"http://127.0.0.1:{pages.service.http_port}/", width, scheme)
    expect(page.locator("#state")).to_have_text("locked")
    assert faults(page) == []
    page.close()
    page = dashboard(browser, pages.service, width, scheme)
    expect(page.locator("#namespaces tbody tr")).to_have_count(1)
    expect(page.locator("#rates path").first).to_have_attribute("d", re.compile("L"))
    checked(page, "dashboard", width, scheme)
    page.close()
