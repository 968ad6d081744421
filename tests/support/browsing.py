"""A real browser for tests: Debian's Chromium, driven by Playwright, and axe-core on every page.

With DEDUP_SCREENSHOTS set to a folder, what the tests saw is kept there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from needing import program
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright
from services import Serving

__all__ = ["MAY_CRASH", "Chromium", "chromium", "dashboard", "faults", "kept", "opened"]

# Contrasts that axe-core cannot tell: of one character, which may be an icon; of what a table that
# scrolls has beyond its edge.
UNTOLD = {"shortTextContent", "nonBmp", "elmPartiallyObscured", "elmPartiallyObscuring"}
MILLISECONDS = 120_000  # a busy machine is not a failure

expect.set_options(timeout=MILLISECONDS)

# A test is run again when the browser itself has died under it, and for no other fault.
MAY_CRASH = pytest.mark.flaky(reruns=2, only_rerun="TargetClosedError")


class Chromium:
    """A browser that is started again after it died."""

    def __init__(self, playwright: Playwright) -> None:
        self._playwright = playwright
        self._path = program("chromium")
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        """Return the running browser."""
        if self._browser is None or not self._browser.is_connected():
            # as root, as in a container, Chromium runs without its sandbox or not at all; a
            # container's /dev/shm may be too small for it
            arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
            self._browser = self._playwright.chromium.launch(
                executable_path=self._path, args=arguments, timeout=2 * MILLISECONDS
            )
        return self._browser

    def close(self) -> None:
        if self._browser is not None:
            self._browser.close()


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start a browser when it is asked for; it ends with the block."""
    with sync_playwright() as playwright:
        started = Chromium(playwright)
        try:
            yield started
        finally:
            started.close()


def opened(browser: Browser, url: str, width: int = 1280, scheme: str = "light") -> Page:
    """Open a page. What it complains about is in its list `errors`."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(MILLISECONDS)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda said: page.errors.append(said.text) if said.type == "error" else None)
    page.goto(url)
    return page


def dashboard(browser: Browser, service: Serving, width: int = 1280, scheme: str = "light") -> Page:
    """Open the page of a service's metrics and show the token."""
    page = opened(browser, f"http://127.0.0.1:{service.http_port}/", width, scheme)
    page.fill("#token", service.token or "")
    page.press("#token", "Enter")
    expect(page.locator("#main")).to_be_visible()
    page.errors = [error for error in page.errors if "401" not in error]  # before the token
    return page


def faults(page: Page) -> list[str]:
    """Return what axe-core finds wrong on a page, or cannot tell for sure: a line for each place."""
    found = Axe().run(page).response
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in [*found["violations"], *found["incomplete"]]
        for node in rule["nodes"]
        if not any(_untold(check["data"]) for check in node["any"])
    ]


def _untold(data: object) -> bool:
    return isinstance(data, dict) and data.get("messageKey") in UNTOLD


def kept(page: Page, name: str) -> None:
    """Keep a picture of the whole page where that is asked for."""
    if folder := os.environ.get("DEDUP_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
