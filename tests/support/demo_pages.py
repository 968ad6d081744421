"""Every page that a person is shown, made by a real run of the demo: reports, and a live dashboard.

    with demo_pages(folder) as shown:
        shown.reports["crawl-report"]    a file, by its name
        shown.service                    a service that a crawl has just used

The demo's site is crawled twice, into a folder and into a service; its pages are scanned as a file.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services import Serving

from dedup.demo.site import Site, serve

__all__ = ["NAMESPACE", "TOKEN", "DemoPages", "demo_pages"]

TOKEN = "a token of these tests"
NAMESPACE = "news"
REPORTS = ("crawl-report", "scan-report", "comparison")

_CRAWL = """
import json, sys
from scrapy.crawler import CrawlerProcess
from dedup.demo.crawl import NewsSpider
url, settings = sys.argv[1], json.loads(sys.argv[2])
process = CrawlerProcess({"ADDONS": {"dedup.scrapy.Addon": 500}, "LOG_LEVEL": "ERROR"} | settings)
process.crawl(NewsSpider, start_urls=[url + "/"])
process.start()
"""


@dataclass(frozen=True)
class DemoPages:
    """The pages of one run: files by name, and the service whose dashboard shows the second crawl."""

    reports: dict[str, Path]
    service: Serving


def _run(*command: object) -> None:
    given = [str(part) for part in command]
    done = subprocess.run([sys.executable, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def demo_pages(folder: Path, pages: int = 200, **settings: object) -> Iterator[DemoPages]:
    """Make them, with more settings for the crawl that uses the service; the service ends with the block."""
    site = Site(pages)
    made = {name: folder / f"{name}.html" for name in REPORTS}
    store, asked = folder / "store", folder / "pages.jsonl"

    def crawl(url: str, **more: object) -> None:
        known = {"TELNETCONSOLE_ENABLED": False, "HTTPPROXY_ENABLED": False}
        _run("-c", _CRAWL, url, json.dumps(known | {"DEDUP_NAMESPACE": NAMESPACE} | more))

    with asked.open("w", encoding="utf-8") as file:
        for tick, path in enumerate(site.truth):
            html = site.render(path, tick)[2].decode()
            file.write(json.dumps({"url": f"http://site.example{path}", "html": html}) + "\n")
        file.write("no page at all\n")
    one, other = (folder / f"{name}.html" for name in ("one", "other"))
    first = next(iter(site.truth))
    for tick, file in enumerate((one, other)):
        file.write_bytes(site.render(first, tick)[2])
    with (
        serve(site) as url,
        Serving(folder / "service", token=TOKEN) as service,
    ):
        crawl(url, DEDUP_PATH=str(store), DEDUP_REPORT=str(folder / "first.html"))
        at = f"redis://:{TOKEN.replace(' ', '%20')}@127.0.0.1:{service.port}"
        crawl(url, DEDUP_SERVICE=at, DEDUP_REPORT=str(made["crawl-report"]), **settings)
        dedup = ("-m", "dedup")
        _run(*dedup, "scan", asked, "--report", made["scan-report"])
        _run(*dedup, "compare", one, other, "--html", made["comparison"])
        yield DemoPages(made, service)
