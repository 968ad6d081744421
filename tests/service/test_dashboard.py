"""The dashboard of a real service, and reports, in a real browser; pictures of them kept for people.

Debian's Chromium, driven by Playwright. With DEDUP_SCREENSHOTS set to a folder, what the tests saw
is kept there, at 1280 and 390 pixels, light and dark.
"""

import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from needing import program
from playwright.sync_api import Browser, Page, expect, sync_playwright
from scrapy.settings import Settings
from services import RECIPE, Serving
from sketches import sketch

import dedup
from dedup.model.values import Verdict
from dedup.scrapy.crawl_report import write_report
from dedup.scrapy.journal import Journal
from dedup.scrapy.settings import Config

TOKEN = "a token of these tests"
NAMESPACE = "news"
EVIL = "http://evil.example/<img src=x onerror=document.title='owned'>"
ORIGINALS, COPIES = 30, 20


def seeded(service):
    """Fill a service: originals, copies of some of them, and a near one that was kept all the same."""
    rng = random.Random(5)
    bits = [(rng.getrandbits(64), rng.getrandbits(256)) for _ in range(ORIGINALS)]

    def page(value, words):
        return dedup.PageFingerprint(value, sketch(words), 0, 100, RECIPE)

    url = f"redis://:{TOKEN.replace(' ', '%20')}@127.0.0.1:{service.port}"
    with dedup.open(url, namespace=NAMESPACE) as detector:
        for i, (value, words) in enumerate(bits):
            key = EVIL if i == 0 else f"http://site{i % 3}.example/{i}"
            detector.insert(detector.reserve(page(value, words), key))
        for i in range(COPIES):
            value, words = bits[0] if i < 12 else bits[1]
            copy = page(value ^ 1 << i, words)
            verdict = detector.reserve(copy, f"http://copies.example/{i}")
            assert verdict.status == "near_duplicate"
        value, words = bits[1]
        kept = detector.reserve(page(value ^ 0b111, words), "http://kept.example/", exempt="start")
        detector.insert(kept)
    return bits


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("dashboard"), token=TOKEN) as service:
        service.bits = seeded(service)
        yield service


@pytest.fixture(scope="module")
def browser():
    chromium = program("chromium")
    with sync_playwright() as playwright:
        # as root, as in a container, Chromium runs without its sandbox or not at all
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=240_000
        )
        yield browser
        browser.close()


expect.set_options(timeout=120_000)  # milliseconds


def opened(browser: Browser, service: Serving, width: int = 1280, scheme: str = "light") -> Page:
    """Open the dashboard and show the token. What the page complains about fails the test."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(120_000)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda said: page.errors.append(said.text) if said.type == "error" else None)
    page.goto(f"http://127.0.0.1:{service.http_port}/")
    page.fill("#token", TOKEN)
    page.press("#token", "Enter")
    expect(page.locator("#main")).to_be_visible()
    page.errors = [e for e in page.errors if "401" not in e]  # before the token
    return page


# Of each element with a text of its own: its colour over the colours behind it, as WCAG counts it.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const laid = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const [colour, opacity] of colours) {
      canvas.globalAlpha = opacity; canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const faint = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.matches("option, script, noscript")) continue;
    const above = [];
    let opacity = 1;
    for (let up = e; up; up = up.parentElement) {
      above.unshift(up);
      opacity *= Number(getComputedStyle(up).opacity);
    }
    const behind = [[dark ? "#121212" : "#ffffff", 1], ...above.map((up) => [getComputedStyle(up).backgroundColor, 1])];
    const [a, b] = [laid([...behind, [getComputedStyle(e).color, opacity]]), laid(behind)].map(light);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${e.tagName} ${e.textContent.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""


def kept(page: Page, name: str) -> None:
    """Keep a picture of the whole page where that is asked for."""
    if folder := os.environ.get("DEDUP_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def fact(page: Page, name: str) -> str:
    return page.locator(f"#facts div:has(dt:text-is('{name}')) dd").inner_text()


def test_the_figures_are_those_of_the_service(browser, service):
    """Documents, verdicts, share, distances, domains and hot documents are what happened."""
    page = opened(browser, service)
    expect(page.locator("#state")).to_have_text("ready")
    assert fact(page, "documents") == f"{ORIGINALS + 1}"
    assert fact(page, "near-duplicates") == f"{COPIES}"
    assert fact(page, "judged") == f"{ORIGINALS + COPIES + 1}"
    row = page.locator("#distances tr:has(td:text-is('1 bit')) td.number")
    assert row.inner_text() == f"{COPIES}"
    hosts = page.locator("#hosts tbody tr").all_inner_texts()
    assert hosts[0].split()[:3] == ["copies.example", f"{COPIES}", f"{COPIES}"]
    expect(page.locator("#hosts .warned")).to_contain_text(
        "Over 60 % near-duplicates: copies.example"
    )
    expect(page.locator("#namespaces tbody tr")).to_have_count(1)
    assert fact(page, "oldest snapshot") == "none yet"
    assert page.locator("#hot tbody tr").first.inner_text().split()[-1] == "12"
    expect(page.locator("#rates svg path")).to_have_count(6)
    assert not page.errors


def test_what_was_crawled_is_never_markup(browser, service):
    """A document key that is markup is shown as text, wherever it appears."""
    page = opened(browser, service)
    page.click("#hot a >> nth=0")
    expect(page.locator("#found h3")).to_have_text(EVIL)
    assert page.title() == "dedup"
    assert page.locator("img").count() == 0


def test_a_page_is_looked_up_by_key_and_by_fingerprint(browser, service):
    """Its neighbours are shown with distances, and the differing bits among 64 squares."""
    page = opened(browser, service)
    page.fill("#what", "http://site1.example/1")
    page.press("#what", "Enter")
    expect(page.locator("#found article")).to_have_count(2)
    expect(page.locator("#found article h3").nth(1)).to_have_text("http://kept.example/")
    assert page.locator("#found .bits i").count() == 64
    assert page.locator("#found .bits i.differs").count() == 3
    squares = page.locator("#found .bits i").evaluate_all("all => all.map(i => i.className)")
    assert [i for i, kind in enumerate(squares) if kind == "differs"] == [61, 62, 63]
    page.fill("#what", f"{service.bits[1][0]:016x}")
    page.press("#what", "Enter")
    expect(page.locator("#found article")).to_have_count(2)
    page.fill("#what", "http://nobody.example/")
    page.press("#what", "Enter")
    expect(page.locator("#found")).to_contain_text("There is no document with this key")
    assert not [error for error in page.errors if "404" not in error]


def test_a_document_is_forgotten(browser, service):
    """The button asks, and the document is gone."""
    page = opened(browser, service)
    page.on("dialog", lambda dialog: dialog.accept())
    page.fill("#what", "http://site2.example/2")
    page.press("#what", "Enter")
    page.click("text=Forget this document")
    expect(page.locator("#found")).to_contain_text("Forgotten.")
    page.press("#what", "Enter")
    expect(page.locator("#found")).to_contain_text("There is no document with this key")


def test_a_wrong_token_shows_nothing(browser, service):
    """Without the token the page has no figures; a wrong one is said to be wrong."""
    page = browser.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"http://127.0.0.1:{service.http_port}/")
    expect(page.locator("#state")).to_have_text("locked")
    page.fill("#token", "not it")
    page.press("#token", "Enter")
    expect(page.locator("#state")).to_have_text("the token is wrong")
    assert page.locator("#main").is_hidden()
    assert page.locator("#facts div").count() == 0


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_screen(browser, service, width, scheme):
    """Nothing sticks out at the side, on a desk or a phone; a picture is kept where asked for."""
    page = opened(browser, service, width, scheme)
    page.fill("#what", "http://site1.example/1")
    page.press("#what", "Enter")
    expect(page.locator("#found .bits")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    kept(page, f"dashboard-{width}-{scheme}")


@pytest.mark.long
def test_everything_is_reached_by_keyboard(browser, service):
    """Tab goes from the links of the tables to the form and its button."""
    page = opened(browser, service)
    expect(page.locator("#hot a").first).to_be_visible()
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.id || document.activeElement.textContent")
        )
    assert {"what", "where", "within", "Look up", EVIL} <= reached


@pytest.mark.long
def test_who_reads_a_table_by_keyboard_stays_there(browser, service):
    """What is in focus is still there, and in focus, after the figures were asked for again."""
    page = opened(browser, service)
    page.locator("#hot a").first.focus()
    with page.expect_response("**/v1/overview"):
        pass
    with page.expect_response("**/v1/overview"):  # the one before it has been drawn
        pass
    assert page.evaluate("document.activeElement.textContent") == EVIL
    page.keyboard.press("Enter")
    expect(page.locator("#found h3").first).to_have_text(EVIL)
    assert page.evaluate("document.activeElement.id") == "found"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser, service, scheme):
    """Every text has a contrast of 4.5 or more (WCAG 2.2, 1.4.3), every control a name."""
    page = opened(browser, service, scheme=scheme)
    page.fill("#what", "http://site1.example/1")
    page.press("#what", "Enter")
    expect(page.locator("#found .bits")).to_be_visible()
    assert page.evaluate(CONTRASTS) == []
    controls = page.locator("input:visible, select:visible, button:visible")
    for control in controls.all():
        assert control.evaluate("c => c.labels?.length > 0 || c.textContent.trim() !== ''")


def test_a_service_that_is_gone_is_said_to_be(browser, tmp_path):
    """When the service ends the page says so, and goes on when it is back."""
    with Serving(tmp_path, token=TOKEN) as service:
        page = opened(browser, service)
        service.stop()
        expect(page.locator("#state")).to_contain_text(
            "no answer from the service", timeout=120_000
        )


# ------------------------------------------------------------------------------------------ reports


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A crawl's report on a host of copies, whose addresses and words are long."""
    journal = Journal()
    said = " ".join(f"word{n}" for n in range(80))
    host = f"http://{'a-rather-long-name.' * 3}example"
    for n in range(40):
        key = f"{host}/{'path/' * 12}{n}" if n else f"{host}/first"
        body = f"<p>{said} and {'unbroken' * 12}{n}</p>".encode()
        of = f"{host}/first" if n else None
        status, token = ("near_duplicate", None) if n else ("unique", "token")
        verdict = Verdict(
            status, "", key, of, n % 8, 0.97, "unknown", dedup.fingerprint(body), token
        )
        response = SimpleNamespace(url=key, body=body, encoding="utf-8")
        journal.judged(verdict, response, dedup.recipe_of(None))
    stats = {"dedup/probed": 40, "dedup/near_duplicate": 39, "dedup/unique": 1}
    stats |= {f"dedup/near_duplicate/distance/{n}": 5 for n in range(8)}
    stats |= {"dedup/exempt/other_title": 3, "downloader/request_count": 45}
    made = tmp_path_factory.mktemp("report") / "report.html"
    write_report(made, "long", stats, Config.from_settings(Settings()), journal)
    return made


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_fits_the_screen_and_is_read_easily(browser, report, width, scheme):
    """Nothing sticks out at the side, and texts, differences too, have a contrast of 4.5 or more."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(120_000)
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    expect(page.locator("ins").first).to_be_visible()
    expect(page.locator(".warning")).to_contain_text("Over 60%")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CONTRASTS) == []
    kept(page, f"report-{width}-{scheme}")
