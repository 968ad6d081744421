"""Draws the pictures of the dashboard and of a crawl's report for docs/, from a real run of the demo.

python tests/support pictures [FOLDER]: into docs/pictures, or that folder; wide and on a phone, light
and dark.
"""

import itertools
import math
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from browsing import chromium, dashboard, opened
from demo_pages import demo_pages
from PIL import Image
from playwright.sync_api import Page, expect
from services import Serving

import dedup

DOCS = Path(__file__).parents[3] / "docs" / "pictures"
PAGES = 400
COLOURS = 64  # enough for a drawing, and a third of the bytes
SECONDS_BETWEEN_REQUESTS = 0.1  # so that the charts have something to show


def judged(service: Serving) -> None:
    """Judge pages for half a minute, faster and slower, so that the chart has something to show."""
    rng, began = random.Random(1), time.monotonic()
    url = f"redis://:{(service.token or '').replace(' ', '%20')}@127.0.0.1:{service.port}"
    with dedup.open(url, namespace="shop") as detector:
        for number in itertools.count():
            seconds = time.monotonic() - began
            if seconds > 30:
                return
            text = " ".join(f"word{rng.randrange(400)}" for _ in range(120))
            if number == 0 or rng.random() < 0.6:
                html = text  # else the one before, again
            verdict = detector.reserve(detector.fingerprint(html), f"http://shop.example/{number}")
            if verdict.token is not None:
                detector.insert(verdict)
            time.sleep(0.02 * (2 + math.sin(seconds)))


def main() -> None:
    """Make them."""
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS

    def taken(page: Page, name: str, height: int, section: str = "") -> None:
        path = to / f"{name}.png"
        width = page.viewport_size["width"]
        page.set_viewport_size({"width": width, "height": height})
        if section:
            page.locator("section", has=page.locator("h2", has_text=section)).evaluate(
                "section => scrollTo(0, section.offsetTop - 20)"
            )
        page.screenshot(path=path)
        few = Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(path, optimize=True)
        print(path, f"{path.stat().st_size:,} bytes")

    with (
        TemporaryDirectory() as folder,
        demo_pages(Path(folder), PAGES, DOWNLOAD_DELAY=SECONDS_BETWEEN_REQUESTS) as shown,
        chromium() as started,
    ):
        browser = started.browser()
        page = dashboard(browser, shown.service, 1100, "light")
        judged(shown.service)
        expect(page.locator("#namespaces tbody tr")).to_have_count(2)
        page.wait_for_timeout(2500)
        taken(page, "dashboard", 900)
        report = shown.reports["crawl-report"].as_uri()
        taken(opened(browser, report, 1100), "report", 800)
        taken(opened(browser, report, 390, "dark"), "report-phone", 1000)


if __name__ == "__main__":
    main()
