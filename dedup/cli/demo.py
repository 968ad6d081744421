"""`dedup demo`: Scrapy crawls a sample site with the add-on and without, and the difference is shown.

Exit code 1 says that something was lost, or that a crawl failed.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, number_option
from dedup.model.errors import DedupError
from dedup.model.names import install
from dedup.report.texts import alike

SEED = 1  # of what the site is made of


@click.command(epilog="Examples: dedup demo --pages 2000; dedup demo --site-only --port 8000")
@click.option("--pages", default=500, show_default=True, help="URLs on the site, at least 100.")
@json_option("Print one JSON object instead of tables.")
@click.option("--site-only", is_flag=True, help="Only serve the site, until Ctrl-C.")
@number_option("--port", "Port of --site-only. [default: any free port]", least=0, most=65535)
def demo(pages: int, as_json: bool, site_only: bool, port: int | None) -> None:
    """Crawl a sample site with Scrapy and show what is dropped, and why.

    A news site is generated and served on loopback: articles, a shop, copies of articles under session ids and in print
    versions, pages that are gone. Clock, counters and advertisements change at each request. Scrapy crawls it twice,
    without the add-on and with it. Nothing is left behind.
    """
    if site_only:
        _serve(pages, port or 0, as_json=as_json)
        return
    if port is not None:
        raise click.UsageError("--port needs --site-only; the crawl takes any free port.")
    if find_spec("scrapy") is None:
        raise DedupError(f"the demo needs scrapy; run: {install('scrapy')}")
    from dedup.demo.crawl import crawl_both
    from dedup.demo.report import compare
    from dedup.demo.site import Site

    site, shown = Site(pages, SEED), terminal.progress("pages fetched")

    def progress(fetched: int, found: int) -> None:
        if shown:
            shown(fetched, 0, f", {terminal.count(found, 'near-duplicate')} dropped")

    try:
        report = compare(site, *crawl_both(pages, SEED, progress))
    finally:
        terminal.status.clear()
    if as_json:
        terminal.out_json({"seed": SEED} | report)
    else:
        show(report, terminal.out_lines)
    if not report["ok"]:
        click.get_current_context().exit(1)


def _serve(pages: int, port: int, *, as_json: bool) -> None:
    from dedup.demo.site import Site, serve_forever

    def say(url: str) -> None:
        if as_json:
            terminal.out_json({"url": url, "pages": pages, "seed": SEED})
        else:
            terminal.out(f"{pages} URLs at {url}/ until Ctrl-C")

    try:
        serve_forever(Site(pages, SEED), port, ready=say)
    except OSError as error:
        fault = f"the site cannot be served on 127.0.0.1:{port}: {error.strerror}"
        raise DedupError(f"{fault}; give another --port") from error


_TOTALS = {
    "requests": "pages fetched",
    "parsed": "pages parsed",
    "items": "items passed on",
    "different_items": "  different ones",
    "cpu_milliseconds": "CPU milliseconds",
}
_NEXT = """
No item was lost. `dedup demo --site-only` shows the site. In a project of your own, settings.py needs:
    ADDONS = {"dedup.scrapy.Addon": 500}
    DEDUP_MODE = "tag"  # changes nothing, only says what it would drop; leave this line out to drop"""


def show(report: dict[str, Any], say: Callable[[str], None]) -> None:
    """Say the report line by line."""
    from dedup.demo.site import KINDS

    say(f"Scrapy crawled a news site of {report['urls']} URLs, without the add-on and with it.\n")
    without, found = report["without_addon"], report["with_addon"]
    rows = [(label, without[n], found[n], found[n] - without[n]) for n, label in _TOTALS.items()]
    say(terminal.table(("", "without", "with", "difference"), rows))
    fates = ("on_site", "fetched", "parsed", "dropped")
    counted = [(label, *(report["kinds"][n][f] for f in fates)) for n, label in KINDS.items()]
    say("\n" + terminal.table(("pages", "on the site", *fates[1:]), counted))
    say("\nThe dropped page of each kind that is least similar to the accepted one:")
    for page in (kind["example"] for kind in report["kinds"].values() if kind["example"]):
        likeness = f"{alike(page['similarity'])}, distance {page['distance']}"
        say(f"  {likeness}: {page['path']}\n    of {page['of']}")
    for what in ("wrong", "unreached", "lost_items", "failed"):
        for each in list(report[what])[:5]:
            say(f"{what.replace('_', ' ')}: {each['path'] if isinstance(each, dict) else each}")
    say(_NEXT if report["ok"] else f"\nThis must not be: {'; '.join(report['complaints'])}.")
