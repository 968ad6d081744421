"""python tests/bench crawls: the sites, spiders and configurations that are asked for, and the table of what they gave.

Invariant: of one site, one spider's crawls follow each other, so that their CPU times compare.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
from runner import json_file_option, machine, out_result

from crawls.judge import Contents, judged
from crawls.real import RealSpider, site_of
from crawls.real import spiders as real_spiders
from crawls.served import Site, proxy
from crawls.sites import Source, built, table
from dedup.cli import terminal
from dedup.model.errors import DedupError

SPIDERS = {
    "html": ("none", "drop", "text", "hash", "minhash", "url"),
    "text": ("none", "drop", "text", "hash", "minhash", "url"),
    "meta": ("none", "drop", "text", "url"),
    "graph": ("none", "drop", "text", "url"),
    "real": ("none", "drop", "url"),
}
CONFIGS = SPIDERS["html"]
SUMS = (
    "requests",
    "parsed",
    "items",
    "left",
    "lost",
    "calendar",
    "not asked",
    "unlisted",
    "missed",
)
QUICK = {"sites": "whizzy-blog,csswg-wiki,masks-shop", "spiders": "html,meta", "pages": 80}
CRAWL_SECONDS = 3000
PROGRAM = Path(__file__).with_name("spider.py")


@dataclass(frozen=True)
class Plan:
    """What is measured of each site."""

    spiders: tuple[str, ...]
    configs: tuple[str, ...]
    pages: int | None
    noisy_pages: int
    rounds: int
    python: str
    cache: Path
    clones: Path | None


def crawl_once(
    starts: Sequence[str], address: str, spider: str, config: str, python: str, **more: Any
) -> Any:
    """Crawl in a process of its own; return what spider.py says of it."""
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as folder:
        job = {"starts": starts, "proxy": address, "spider": spider, "config": config, **more}
        file = Path(folder) / "job.json"
        file.write_text(json.dumps({**job, "packages": [sysconfig.get_path("purelib")]}))
        done = subprocess.run(
            [python, PROGRAM, file], cwd=folder, capture_output=True, timeout=CRAWL_SECONDS
        )
        result = Path(folder) / "result.json"
        if done.returncode or not result.exists():
            raise DedupError(f"a crawl failed ({spider}, {config}): {done.stderr.decode()[-800:]}")
        return json.loads(result.read_bytes()) | {"spider": spider, "config": config}


def crawl_site(source: Source, variant: str, plan: Plan) -> list[dict[str, Any]]:
    """Return the figures of each spider and configuration on a site."""
    noisy = variant == "noisy"
    most = plan.noisy_pages if noisy else plan.pages
    site = Site(built(source, plan.cache, plan.clones), noisy, most)
    contents, rows = Contents(site.texts), []
    with proxy([site]) as address:
        for spider in plan.spiders:
            configs = [c for c in plan.configs if c in SPIDERS[spider]]
            rounds = [
                {c: crawl_once(site.starts, address, spider, c, plan.python) for c in configs}
                for _ in range(plan.rounds)
            ]
            for config in configs:
                found = [judged(site, contents, each[config], each["none"]) for each in rounds]
                row = found[-1] | {"cpu": median(each["cpu"] for each in found)}
                place = {"site": source.name, "kind": source.kind, "half": source.half}
                place |= {"pages": len(site.texts), "variant": variant, "spider": spider}
                rows.append({**place, "config": config, **row})
    return rows


def crawl_real(spider: RealSpider, plan: Plan) -> list[dict[str, Any]]:
    """Return the figures of a public spider, none if it makes fewer than two items of its page."""
    site, rows = Site(site_of(spider)), []
    contents = Contents({})
    with proxy([site]) as address:
        given = {"real": [spider.module, str(spider.folder)]}
        none = None
        for config in [c for c in plan.configs if c in SPIDERS["real"]]:
            try:
                found = crawl_once(site.starts, address, "real", config, plan.python, **given)
            except DedupError:
                return []
            none = none or found
            if len(none["items"]) < 2 * len(site.texts):
                return []
            place = {"site": spider.name, "kind": "public spider", "half": "open"}
            place |= {
                "pages": len(site.texts),
                "variant": "real",
                "spider": "real",
                "config": config,
            }
            rows.append({**place, **judged(site, contents, found, none)})
    return rows


def sums(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each variant, spider and configuration: of all sites."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[n] for n in ("variant", "spider", "config")), []).append(row)
    found = []
    for (variant, spider, config), group in groups.items():
        total = {n: sum(row[n] for row in group) for n in SUMS}
        none = [row for row in groups[variant, spider, "none"] if row["site"] in {r["site"] for r in group}]  # fmt: skip
        seconds = [sum(row["cpu_seconds"] for row in part) for part in (group, none)]
        found.append(
            {"site": f"all {len(group)}", "pages": sum(row["pages"] for row in group), **total}
            | {"variant": variant, "spider": spider, "config": config}
            | {"cpu": seconds[0] / seconds[1], "peak_mb": max(row["peak_mb"] for row in group)}
            | {
                part: {k: sum(row[part].get(k, 0) for row in group) for k in ("requests", "items", "parses")}
                for part in ("said", "saved")
            }
        )  # fmt: skip
    return found


def shown(result: dict[str, Any]) -> str:
    """Return the figures as text: the table, what was lost or missed by name, the machine."""
    head = ("site", "", "spider", "with", "requests", "parsed", "items", "left", "lost", "calendar",
            "not asked", "unlisted", "missed", "cpu", "MB", "requests said/saved")  # fmt: skip
    lines = []
    for row in [*result["rows"], *result["all"]]:
        cells = [f"{row[n]:,}" for n in SUMS]
        said = row["said"].get("requests", 0)
        lines.append((row["site"], row["variant"], row["spider"], row["config"], *cells, f"{row['cpu']:.2f}",
                      f"{row['peak_mb']:.0f}", f"{said:,}/{row['saved']['requests']:,}"))  # fmt: skip
    named = []
    for row in result["rows"]:
        place = " ".join(row[n] for n in ("site", "variant", "spider", "config"))
        if row["config"] in ("drop", "text"):
            named += [f"{place}: {kind[:-6]} {page}" for kind in ("lost pages", "missed pages") for page in row[kind]]  # fmt: skip
        if not row["ended"] or row["errors"]:
            named.append(f"{place}: {row['errors'] or 'did not finish'}")
    return "\n".join([terminal.table(head, lines), "", *named, "", result["machine"]])


def chosen(value: str | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of an option, commas between; all if there is none."""
    names = tuple(value.split(",")) if value else tuple(known)
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{', '.join(unknown)}: none of {', '.join(known)}")
    return names


@click.command(epilog="Example: python tests/bench crawls --quick")
@click.option("--sites", help="Names of crawls/sites.tsv, with commas between. [default: all]")
@click.option("--half", type=click.Choice(["open", "held"]), help="Sites of this half alone.")
@click.option("--spiders", help=f"Of {','.join(SPIDERS)}. [default: all]")
@click.option("--configs", help=f"Of {','.join(CONFIGS)}. [default: those that each spider has]")
@click.option("--variants", default="clean,noisy", show_default=True, help="Of clean, noisy.")
@click.option("--pages", type=click.IntRange(10), help="Most pages of a clean site. [default: all]")
@click.option("--noisy-pages", type=click.IntRange(10), default=60, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Sites at once.")
@click.option("--python", default=sys.executable, help="Python whose add-on is measured, of another checkout.")  # fmt: skip
@click.option("--cache", type=click.Path(path_type=Path), help="Folder of packages and built sites. [default: the user's cache]")  # fmt: skip
@click.option("--clones", type=click.Path(path_type=Path), help="Folder of git repositories, OWNER/NAME. [default: they are cloned]")  # fmt: skip
@click.option("--real", type=click.IntRange(0), default=0, help="Also so many public spiders on their saved pages; needs city-scrapers-core.")  # fmt: skip
@click.option("--quick", is_flag=True, help="A first look: three sites, 80 pages, two spiders.")
@click.option("--build", is_flag=True, help="Only build the sites.")
def crawls(
    sites: str | None, half: str | None, variants: str, jobs: int, quick: bool, build: bool, real: int,
    json_file: str | None, cache: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Crawl real whole sites with and without the add-on, and beside other ways.

    Columns: near-duplicates left, contents lost, URLs not asked; tests/bench/crawls/judge.py says what they mean.
    """
    known = table()
    sites = sites or (QUICK["sites"] if quick else None)
    if quick:
        given["spiders"] = given["spiders"] or QUICK["spiders"]
        given["pages"] = given["pages"] or QUICK["pages"]
    names = (
        [n for n in chosen(sites, known) if half in (None, known[n].half)]
        if sites != "none"
        else []
    )
    cache = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crawl-dedup" / "sites"  # fmt: skip
    configs = chosen(given.pop("configs"), CONFIGS)
    plan = Plan(
        spiders=chosen(given.pop("spiders"), SPIDERS),
        configs=("none", *(c for c in configs if c != "none")),
        cache=cache.absolute(),
        **given,
    )
    for name in names:  # one after the other: they share what they are made of
        pages = len(built(known[name], plan.cache, plan.clones).pages)
        if build:
            terminal.out(f"{name}: {pages} pages, {known[name].kind}, {known[name].half}")
    if build:
        return
    every = chosen(variants, ("clean", "noisy"))
    report, rows = terminal.progress("crawls"), []
    with ProcessPoolExecutor(jobs) as pool:
        running = [pool.submit(crawl_site, known[n], v, plan) for v in every for n in names]
        if real:
            found = list(real_spiders(plan.cache, plan.clones))[:real]
            running += [pool.submit(crawl_real, spider, plan) for spider in found]
        for number, each in enumerate(running):
            rows += each.result()
            if report:
                report(number + 1, len(running))
    made = machine("crawl-dedup", "scrapy", "datasketch", "resiliparse").text()
    result = {
        "bench": "crawls",
        "python": plan.python,
        "rows": rows,
        "all": sums(rows),
        "machine": made,
    }
    out_result(result, lambda: shown(result), json_file)


crawls.params.append(json_file_option())
