"""`dedup demo`: a real Scrapy crawl of a generated site, and what the add-on did to it.

Rule: stdout has the table, or with --json one object; progress goes to stderr, if that is a
terminal. Exit code 1 says that a page with content of its own was lost, or that the crawl failed.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option
from dedup.model.errors import DedupError

if TYPE_CHECKING:
    from dedup.scrapy.settings import Mode, Urls

__all__ = ["demo"]


@click.command(
    epilog="Examples: dedup demo --pages 2000 --seed 7; dedup demo --site-only --port 8000"
)
@click.option(
    "--pages", default=500, show_default=True, help="Number of URLs on the site, at least 100."
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    help="Seed of the site's content; another seed makes another site.",
)
@click.option(
    "--mode",
    type=click.Choice(["drop", "skip_links", "tag"]),
    default="drop",
    show_default=True,
    help="What happens to near-duplicates (the setting DEDUP_MODE).",
)
@click.option(
    "--urls",
    type=click.Choice(["learn", "skip", "off"]),
    default="learn",
    show_default=True,
    help="What the crawl learns of its URLs, and does with it (the setting DEDUP_URLS).",
)
@click.option(
    "--kafka",
    is_flag=True,
    help="Run two spiders, a table service and a Kafka broker, and kill some of them.",
)
@click.option(
    "--install",
    is_flag=True,
    help="With --kafka: download Kafka, and Java if it is missing (with Maven, pip and apt-get).",
)
@json_option("Print one JSON object instead of tables.")
@click.option("--site-only", is_flag=True, help="Only serve the site, until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port of --site-only. [default: any free port]"
)
def demo(
    pages: int,
    seed: int,
    mode: "Mode",
    urls: "Urls",
    kafka: bool,
    install: bool,
    as_json: bool,
    site_only: bool,
    port: int | None,
) -> None:
    """Crawl a sample site with Scrapy and show what is dropped, and why.

    A news site is generated and served on loopback: articles, their copies under session ids, with
    other advertisements, times and counters or in a partner's shell, soft 404s, listings, product
    variants. Scrapy crawls it with the add-on enabled, and the result is compared with what the
    pages really are. Nothing is left behind.

    With --kafka two spiders share a table service, and their accepted pages go to a Kafka broker
    (KAFKA_BOOTSTRAP_SERVERS, or one that the demo starts; --install downloads it). Halfway, one spider
    and the service are killed with -9 and restarted; the result shows that nothing was lost.
    """
    if site_only:
        _serve(pages, seed, port or 0, as_json=as_json)
        return
    if kafka:
        _fleet(pages, seed, install=install, as_json=as_json)
        return
    if install:
        raise click.UsageError("--install needs --kafka: the plain demo downloads nothing.")
    if port is not None:
        raise click.UsageError("--port needs --site-only; the crawl takes any free port.")
    _need("scrapy")
    from dedup.lab.demo.crawl import crawl_site
    from dedup.lab.demo.judgement import as_json as plain
    from dedup.lab.demo.judgement import judge, show
    from dedup.lab.demo.site.demo_site import Site

    site = Site(pages, seed)
    progress = _Progress()
    try:
        crawl = crawl_site(pages, seed, mode, urls, progress)
    finally:
        progress.clear()
    report = judge(site, crawl)
    if as_json:
        terminal.out_json({"seed": seed} | plain(report))
    else:
        show(report, terminal.out)
    if report.complaints:
        click.get_current_context().exit(1)


def _fleet(pages: int, seed: int, *, install: bool, as_json: bool) -> None:
    _need("scrapy", "aiokafka", "cramjam", "hiredis", "starlette", "uvicorn", "prometheus_client")
    import msgspec

    from dedup.lab.demo.fleet import run_fleet

    report = run_fleet(pages, seed, lambda text: click.echo(text, err=as_json), install=install)
    if as_json:
        terminal.out_json({"seed": seed} | msgspec.structs.asdict(report))
    else:
        rows = [
            ("pages", report.pages),
            ("parsed", report.parsed),
            ("dropped, each as alike to an accepted page", report.dropped),
            ("accepted before the kill", report.accepted_before_kill),
            ("of those forgotten", len(report.forgotten)),
            ("remembered by the service now", report.remembered),
            ("dropped without an accepted original", len(report.unexplained)),
            ("lost", len(report.lost)),
        ]
        terminal.out(terminal.table(("", "pages"), [(name, f"{n:,}") for name, n in rows]))
        for complaint in report.complaints:
            terminal.out(complaint)
        if not report.complaints:
            terminal.out("Nothing was lost.")
    if report.complaints:
        click.get_current_context().exit(1)


def _need(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        extras = "scrapy" if missing == ["scrapy"] else "all"
        raise DedupError(
            f"the demo needs {' and '.join(missing)}; run: pip install 'crawl-dedup[{extras}]'"
        )


def _serve(pages: int, seed: int, port: int, *, as_json: bool) -> None:
    from dedup.lab.demo.site.demo_site import Site
    from dedup.lab.demo.site.site_server import serve_forever

    def say(url: str) -> None:
        if as_json:
            terminal.out_json({"url": url, "pages": pages, "seed": seed})
        else:
            terminal.out(f"{pages} URLs at {url}/ until Ctrl-C")

    site = Site(pages, seed)
    try:
        serve_forever(site, port, ready=say)
    except OSError as error:
        raise DedupError(
            f"the site cannot be served on 127.0.0.1:{port}: {error.strerror}; give another --port"
        ) from error


class _Progress:
    """A line on stderr that says how far the crawl is, if stderr is a terminal."""

    def __init__(self) -> None:
        self._rate = terminal.Rate()
        terminal.status.show("making the site ...")

    def __call__(self, fetched: int, near_duplicates: int) -> None:
        """Say the numbers, and how fast it goes; how many more there are only the end shows."""
        rate = self._rate.text(fetched, 0)
        shown = terminal.count(near_duplicates, "near-duplicate")
        terminal.status.show(f"fetched {terminal.count(fetched, 'page')}{rate}, {shown} ...")

    def clear(self) -> None:
        """Leave an empty line."""
        terminal.status.clear()
