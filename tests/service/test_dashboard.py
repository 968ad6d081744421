"""The dashboard of a real service in a real browser: what it shows, looks up, and lets be chosen."""

import json
import os
import random
import time
import urllib.error
import urllib.request

import pytest
from browsing import MAY_CRASH, opened
from browsing import dashboard as shown
from playwright.sync_api import Page, expect
from services import RECIPE, Serving
from sketches import sketch

import dedup

pytestmark = [pytest.mark.long, MAY_CRASH]

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


def answered(service, path):
    """Return what the page asks for."""
    head = {"Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(f"http://127.0.0.1:{service.http_port}{path}", headers=head)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("dashboard"), token=TOKEN) as service:
        while not answered(service, "/v1/overview")["history"]["seconds"]:
            time.sleep(0.2)  # what happens before the second sample is in none
        service.bits = seeded(service)
        yield service


def fact(page: Page, name: str) -> str:
    return page.locator(f"#facts div:has(dt:text-is('{name}')) dd").inner_text()


def test_the_figures_are_those_of_the_service(browser, service):
    """Documents, verdicts, share, distances, domains and hot documents are what happened."""
    page = shown(browser, service)
    expect(page.locator("#state")).to_have_text("ready")
    assert fact(page, "documents") == f"{ORIGINALS + 1}"
    assert fact(page, "near-duplicates") == f"{COPIES}"
    assert fact(page, "judged") == f"{ORIGINALS + COPIES + 1}"
    row = page.locator("#distances tr:has(td:text-is('1 bit')) td.number").all_inner_texts()
    assert row == [f"{COPIES}", f"{COPIES}", "100.0 %"]
    assert page.locator("#exempt tbody tr").all_inner_texts() == ["start requests (start)\t1\t"]
    hosts = page.locator("#hosts tbody tr").all_inner_texts()
    assert hosts[0].split()[:3] == ["copies.example", f"{COPIES}", f"{COPIES}"]
    expect(page.locator("#hosts .warned")).to_contain_text(
        "Over 60 % near-duplicates: copies.example"
    )
    expect(page.locator("#namespaces tbody tr")).to_have_count(1)
    assert not page.locator("#facts dt:text-is('index written')").count()  # too few documents
    assert page.locator("#hot tbody tr").first.inner_text().split()[-1] == "12"
    expect(page.locator("#rates svg path")).to_have_count(6)
    assert not page.errors


def test_a_namespace_is_chosen(browser, service):
    """Figures, charts, drops and connections are those of the one that is chosen; its spiders say who they are."""
    url = f"redis://:{TOKEN.replace(' ', '%20')}@127.0.0.1:{service.port}"
    with dedup.open(url, namespace="shop") as detector:
        words = sketch(7)
        first = dedup.PageFingerprint(1, words, 1 << 32, 100, RECIPE, parts=bytes(32))
        other = dedup.PageFingerprint(3, words, 1 << 32, 100, RECIPE, parts=b"1" * 4 + bytes(28))
        detector.insert(detector.reserve(first, "http://shop.example/a"))
        assert detector.reserve(other, "http://shop.example/b").status == "near_duplicate"
        assert detector.reserve(other, "http://shop.example/c").status == "near_duplicate"
        detector.reserve(other, "http://shop.example/c", exempt="new_links")
        page = shown(browser, service)
        page.select_option("#only", "shop")
        expect(page.locator("#drops tbody tr")).to_have_count(1)
        expect(page.locator("#drops tbody tr td.key").first).to_have_text("http://shop.example/b")
        expect(page.locator("#drops tbody tr td.words")).to_have_text("inline data")
        assert fact(page, "judged") == "4"
        assert fact(page, "saved*") == "1 25.0 %"
        assert page.locator("#hosts tbody tr").count() == 1
        expect(page.locator("#rates svg path")).to_have_count(4)
        client = page.locator("#clients tbody tr")
        expect(client).to_have_count(1)
        name, address, namespace, _, *counts = client.locator("td").all_inner_texts()
        assert name.endswith(f":{os.getpid()}")
        assert (address, namespace, counts) == ("127.0.0.1", "shop", ["4", "2", "50.0 %"])
        page.select_option("#only", "")
        expect(page.locator("#drops tbody tr")).to_have_count(12)
    expect(page.locator("#clients")).to_contain_text("None is connected.")
    assert not page.errors


def test_what_was_crawled_is_never_markup(browser, service):
    """A document key that is markup is shown as text, wherever it appears."""
    page = shown(browser, service)
    page.click("#hot a >> nth=0")
    expect(page.locator("#found h3")).to_have_text(EVIL)
    assert page.title() == "dedup"
    assert page.locator("img").count() == 0


def test_a_page_is_looked_up_by_key_and_by_fingerprint(browser, service):
    """Its neighbours are shown with distances, and the differing bits among 64 squares."""
    page = shown(browser, service)
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


def test_a_near_duplicate_is_looked_up(browser, service):
    """It is not stored: the page says of what it was one, how far, and shows that document's others."""
    page = shown(browser, service)
    page.fill("#what", "http://copies.example/3")
    page.press("#what", "Enter")
    copy = page.locator("#found article").first
    expect(copy).to_contain_text(f"Not stored: a near-duplicate of {EVIL}")
    expect(copy).to_contain_text("1 bit apart, 100 % similar; judged 20")
    expect(page.locator("#found article h3").nth(1)).to_have_text(EVIL)  # within 8 bits
    page.click("#found article a")
    expect(page.locator("#found")).to_contain_text("12 near-duplicates of it, judged lately")
    expect(page.locator("#found tbody tr")).to_have_count(12)
    expect(page.locator("#found")).to_contain_text("No other page is stored within 8 bits")
    page.fill("#what", f"{service.bits[0][0] ^ 1 << 3:016x}")  # of the same copy
    page.press("#what", "Enter")
    expect(copy.locator("h3")).to_have_text("http://copies.example/3")
    assert not [error for error in page.errors if "404" not in error]


def test_a_document_is_forgotten(browser, service):
    """The button asks, and the document is gone."""
    page = shown(browser, service)
    page.on("dialog", lambda dialog: dialog.accept())
    page.fill("#what", "http://site2.example/2")
    page.press("#what", "Enter")
    page.click("text=Forget this document")
    expect(page.locator("#found")).to_contain_text("Forgotten.")
    page.press("#what", "Enter")
    expect(page.locator("#found")).to_contain_text("There is no document with this key")


def test_a_wrong_token_shows_nothing(browser, service):
    """Without the token the page has no figures; a wrong one is said to be wrong."""
    page = opened(browser, f"http://127.0.0.1:{service.http_port}/")
    expect(page.locator("#state")).to_have_text("locked")
    page.fill("#token", "not it")
    page.press("#token", "Enter")
    expect(page.locator("#state")).to_have_text("the token is wrong")
    assert page.locator("#main").is_hidden()
    assert page.locator("#facts div").count() == 0


def test_a_service_that_is_gone_is_said_to_be(browser, tmp_path):
    """When the service ends the page says so, and goes on when it is back."""
    with Serving(tmp_path, token=TOKEN) as service:
        page = shown(browser, service)
        service.stop()
        expect(page.locator("#state")).to_contain_text("no answer from the service")
