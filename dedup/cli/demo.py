"""`dedup demo`: a real Scrapy crawl of a generated site, and what the add-on did to it.

Invariant: stdout has the table, or with --json one object; progress goes to stderr, if that is a
terminal. Exit code 1 says that a page with content of its own was lost, or that the crawl failed.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, number_option, setting_option
from dedup.model.errors import DedupError
from dedup.report.texts import alike

if TYPE_CHECKING:
    from dedup.demo.judgement import DemoReport, KindCount, Pair
    from dedup.model.policy import Mode, Urls


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
@setting_option("mode", help="What happens to near-duplicates (the setting DEDUP_MODE).")
@setting_option(
    "urls", help="What the crawl learns of its URLs, and does with it (the setting DEDUP_URLS)."
)
@json_option("Print one JSON object instead of tables.")
@click.option("--site-only", is_flag=True, help="Only serve the site, until Ctrl-C.")
@number_option("--port", "Port of --site-only. [default: any free port]", least=0, most=65535)
def demo(
    pages: int,
    seed: int,
    mode: "Mode",
    urls: "Urls",
    as_json: bool,
    site_only: bool,
    port: int | None,
) -> None:
    """Crawl a sample site with Scrapy and show what is dropped, and why.

    A news site is generated and served on loopback: articles, their copies under session ids, with
    other advertisements, times and counters or in a partner's shell, soft 404s, listings, product
    variants. Scrapy crawls it with the add-on enabled, and the result is compared with what the
    pages really are. Nothing is left behind.
    """
    if site_only:
        _serve(pages, seed, port or 0, as_json=as_json)
        return
    if port is not None:
        raise click.UsageError("--port needs --site-only; the crawl takes any free port.")
    if find_spec("scrapy") is None:
        raise DedupError("the demo needs scrapy; run: pip install 'crawl-dedup[scrapy]'")
    from dedup.demo.crawl import crawl_site
    from dedup.demo.judgement import as_json as plain
    from dedup.demo.judgement import judge
    from dedup.demo.site import Site

    site = Site(pages, seed)
    shown = terminal.progress("pages fetched")

    def progress(fetched: int, found: int) -> None:
        if shown:
            shown(fetched, 0, f", {terminal.count(found, 'near-duplicate')}")

    try:
        crawl = crawl_site(pages, seed, mode, urls, progress)
    finally:
        terminal.status.clear()
    report = judge(site, crawl)
    if as_json:
        terminal.out_json({"seed": seed} | plain(report))
    else:
        show(report, terminal.out_lines)
    if report.complaints:
        click.get_current_context().exit(1)


def _serve(pages: int, seed: int, port: int, *, as_json: bool) -> None:
    from dedup.demo.site import Site, serve_forever

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


# ---------------------------------------------------------------------------------- the report


_BECAME: dict["Mode", str] = {
    "drop": "dropped before parsing",
    "skip_links": "parsed, their links not followed",
    "tag": "tagged and kept",
}
_LONGEST_LIST = 5


def show(report: "DemoReport", say: Callable[[str], None]) -> None:
    """Say the report line by line: tables, examples and a sentence."""
    say(f"\nNear-duplicates {_BECAME[report.mode]}, and why")
    say(_kinds_table(report))
    say("\nThe least similar pair of each kind:")
    for name, count in (*_named(report), ("product variant", report.variants)):
        if count.example is not None:
            say(f"  {name}: {_likeness(count.example)}")
            say(f"    {count.example.path}\n    of {count.example.of}")
    say(f"\n{_totals_table(report)}\n")
    for pair in report.wrong[:_LONGEST_LIST]:
        say(f"wrong drop: {pair.path} of {pair.of}, {_likeness(pair)}")
    for path, links in list(report.lost_links.items())[:_LONGEST_LIST]:
        say(f"lost from {path}: {', '.join(links[:_LONGEST_LIST])}")
    for path, reason in list(report.failed.items())[:_LONGEST_LIST]:
        say(f"failed: {path}: {reason}")
    say(_sentence(report))
    if not report.complaints:
        say(_NEXT)


def _named(report: "DemoReport") -> "list[tuple[str, KindCount]]":
    from dedup.demo.judgement import COPIES

    return [(COPIES.get(kind, kind), count) for kind, count in report.kinds.items()]


def _likeness(pair: "Pair") -> str:
    return f"{alike(pair.similarity)}, distance {pair.distance}"


def _kinds_table(report: "DemoReport") -> str:
    counts = report.kinds.values()
    found, missed, exempt = (
        sum(getattr(c, n) for c in counts) for n in ("found", "missed", "exempt")
    )
    return terminal.table(
        ("why", "found", "missed", "kept exempt"),
        [
            *((name, c.found, c.missed, c.exempt) for name, c in _named(report)),
            ("all planted near-duplicates fetched", found, missed, exempt),
            ("product variants (neither wrong nor missed)", report.variants.found, "", ""),
        ],
    )


def _totals_table(report: "DemoReport") -> str:
    rows: list[tuple[str, object, str]] = []

    def row(name: str, value: object, note: str = "") -> None:
        rows.append((name, value, note))

    row("URLs on the site", report.urls)
    row("pages fetched", report.fetched)
    row("  accepted and parsed", report.accepted)
    row(f"  near-duplicates {_BECAME[report.mode]}", report.near_duplicates)
    if again := report.fetched - report.accepted - report.near_duplicates:
        row("  fetched a second time", again, "control visits, last looks, retries")
    row("  repeated URLs (never dropped)", report.refetches)
    row("  kept as exempt", sum(report.exempt.values()), _listed(report.exempt))
    row("outlinks never requested", report.outlinks_never_requested, "linked from near-duplicates")
    if report.found_percent is not None:
        missed = Counter(miss.kind for miss in report.misses)
        row("planted near-duplicates found", f"{report.found_percent:.1f} %")
        row("  misses", len(report.misses), _listed(missed))
    if report.evidence:
        row("  compared", report.evidence, "only what is new of them passed")
    variants = report.variants
    row(
        "product variants wrongly dropped",
        variants.found,
        f"of {variants.found + variants.missed} fetched",
    )
    row("pages of an archive without new links", report.listings, "neither wrong nor missed")
    row("wrong drops (must be 0)", len(report.wrong))
    row("listings that lost new links (must be 0)", len(report.lost_links))
    if report.unreached:
        row("pages with own content never requested", len(report.unreached))
    if report.failed or report.errors:
        row("failed pages, logged errors", f"{len(report.failed)}, {report.errors}")
    if report.faults:
        row("faults of the add-on", sum(report.faults.values()), _listed(report.faults))
    row("CPU of the crawl", f"{report.cpu_seconds:.2f} s", f"wall {report.wall_seconds:.2f} s")
    row(
        "CPU for deduplication",
        f"{report.dedup_microseconds_per_page:.0f} us a page",
        f"{report.dedup_cpu_percent:.1f} % of the crawl's, its start included",
    )
    width = max(len(str(value)) for _, value, _ in rows)
    return terminal.table(
        ("", "", ""), [(name, str(value).rjust(width), note) for name, value, note in rows]
    )


def _listed(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def _sentence(report: "DemoReport") -> str:
    if report.complaints:
        return f"This must not be: {'; '.join(report.complaints)}."
    became = _BECAME[report.mode]
    return (
        f"Scrapy fetched {report.fetched} of {report.urls} URLs; {report.near_duplicates} of them "
        f"were near-duplicates ({became}), {report.outlinks_never_requested} URLs that they link "
        "to were never requested, and nothing with content of its own was lost."
    )


_NEXT = """\
Look at the site with `dedup demo --site-only`. In a project of your own two lines in settings.py do:
    ADDONS = {"dedup.scrapy.Addon": 500}
    DEDUP_MODE = "tag"  # only says so, changes nothing; without this line it drops"""
