"""Every page that a person is shown, of a real run of the demo, in a real browser.

Wide and on a phone, light and dark: axe-core finds nothing, nothing sticks out at the side, and a
picture is kept for people where DEDUP_SCREENSHOTS asks for it.
"""

from types import SimpleNamespace

import pytest
from browsing import MAY_CRASH, dashboard, faults, kept, opened
from dedup.scrapy.crawl_report import write_report
from demo_pages import REPORTS, demo_pages
from detecting import verdict_on
from playwright.sync_api import expect
from scrapy.settings import Settings

import dedup
from dedup.scrapy.report.journal import Journal
from dedup.scrapy.settings import Config

pytestmark = MAY_CRASH

SIZES = [
    (390, "dark"),
    pytest.param(1280, "light", marks=pytest.mark.long),
    pytest.param(1280, "dark", marks=pytest.mark.long),
    pytest.param(390, "light", marks=pytest.mark.long),
]


def long_report(folder):
    """A crawl's report on a host of copies, whose addresses and words are long."""
    journal = Journal()
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
        response = SimpleNamespace(url=key, body=body, encoding="utf-8")
        journal.judged(verdict, response, dedup.recipe_of(None))
    stats = {"dedup/probed": 40, "dedup/near_duplicate": 39, "dedup/unique": 1}
    stats |= {f"dedup/near_duplicate/distance/{n}": 5 for n in range(8)}
    stats |= {"dedup/exempt/other_title": 3, "downloader/request_count": 45}
    write_report(
        folder / "long-report.html", "long", stats, Config.from_settings(Settings()), journal
    )
    return folder / "long-report.html"


def empty_report(folder):
    """The report of a crawl that judged nothing."""
    made = folder / "empty-report.html"
    write_report(made, "empty", {}, Config.from_settings(Settings()), Journal())
    return made


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
    """Before the token, with a crawl's figures, and with a page looked up."""
    page = opened(browser, f"http://127.0.0.1:{pages.service.http_port}/", width, scheme)
    expect(page.locator("#state")).to_have_text("locked")
    assert faults(page) == []
    page.close()
    page = dashboard(browser, pages.service, width, scheme)
    page.click("#drops td:nth-child(3) a >> nth=0")  # an original
    page.click("#found td a >> nth=0")  # one of its near-duplicates
    expect(page.locator("#found")).to_contain_text("Not stored: a near-duplicate of")
    expect(page.locator("#found .bits").first).to_be_visible()
    checked(page, "dashboard", width, scheme)
    page.close()


def test_a_column_says_what_it_is(browser, pages):
    """Its name and number are shown under the pointer, and when it is reached by keyboard."""
    page = opened(browser, pages.reports["crawl-report"].as_uri())
    chart = page.get_by_role("group", name="Near-duplicates by DEDUP_DISTANCE")
    columns = chart.get_by_role("img")
    expect(columns).to_have_count(13)
    told = columns.nth(3).locator("text.told")
    expect(told).to_be_hidden()
    columns.nth(3).locator(".place").hover(force=True)  # its column lies above it
    expect(told).to_be_visible()
    columns.nth(4).focus()
    page.mouse.move(0, 0)
    page.keyboard.press("Shift+Tab")
    expect(told).to_be_visible()
    assert told.inner_html().startswith("3 bits: ")
