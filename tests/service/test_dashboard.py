"""The page at `/` in a real browser: it draws what /metrics counts, and says what is wrong."""

import re

import pytest
from browsing import MAY_CRASH, dashboard, opened
from commands import ONCE, reserve
from playwright.sync_api import expect
from services import Serving

pytestmark = [pytest.mark.long, MAY_CRASH]

TOKEN = "a token of these tests"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("page"), token=TOKEN) as service:
        yield service


def test_the_figures_are_those_of_the_metrics(browser, service):
    """Documents, pages in flight, verdicts, namespaces and faults are what happened; the page asks no other host."""
    page = dashboard(browser, service, 390)
    with service.client(password=TOKEN, **ONCE) as client:
        for key in "abc":
            token = reserve(client, "news", key)[1]
            if key == "a":
                client.execute_command("DEDUP.INSERT", "news", key, token)
        with pytest.raises(Exception, match="unknown command"):
            client.execute_command("NONSENSE")
    expect(page.locator("#state")).to_have_text("ready")
    row = page.locator("#namespaces tbody tr")
    expect(row).to_have_text(re.compile("^news1"))
    fact = "#facts div:has(dt:text-is('{}')) dd".format
    expect(page.locator(fact("documents"))).to_have_text("1")
    expect(page.locator(fact("process memory"))).to_contain_text("MB")
    expect(page.locator("#legend")).to_contain_text("unique 1")
    expect(page.locator("#faults")).to_contain_text("error answer ERR")
    expect(page.locator("#rates path")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not page.errors


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
    """When the service ends the page says so."""
    with Serving(tmp_path, token=TOKEN) as service:
        page = dashboard(browser, service)
        service.stop()
        expect(page.locator("#state")).to_contain_text("no answer from the service")
