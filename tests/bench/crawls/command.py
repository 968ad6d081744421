"""python tests/bench crawls: the sites, spiders and configurations that are asked for, and the table of what they gave.

Invariant: of one site, one spider's crawls follow each other, so that their CPU times compare.
"""

import json
import os
import random
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
from runner import json_file_option, machine, machine_text, out_result

from crawls.judge import SUMS, Contents, judged, summed
from crawls.real import RealSpider, public_spiders, real_site
from crawls.served import Site, proxy
from crawls.sites import Source, built, table
from dedup.cli import terminal
from dedup.model.errors import DedupError

CONFIGS = ("none", "drop", "text", "hash", "minhash", "url")
SPIDERS = {"html": CONFIGS, "text": CONFIGS} | dict.fromkeys(
    ("meta", "graph"), (*CONFIGS[:3], "url")
)
REAL = ("none", "drop", "url")
QUICK = {
    "sites": "whizzy-blog,csswg-wiki,masks-shop",
    "spiders": "html,meta",
    "pages": 80,
    "real": 0,
}
CRAWL_SECONDS = 3000
# an environment of no bytecode would let each crawl compile the add-on anew, as no installed one does
COMPILED = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
PROGRAM = Path(__file__).with_name("spider.py")
FOLDER = click.Path(path_type=Path)


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
    starts: Sequence[str],
    address: str,
    spider: str,
    config: str,
    python: str,
    real: Sequence[str] = (),
) -> Any:
    """Crawl in a process of its own; return what spider.py says of it."""
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as folder:
        job = {"starts": starts, "proxy": address, "spider": spider, "config": config, "real": real}
        file, result = (Path(folder) / name for name in ("job.json", "result.json"))
        file.write_text(json.dumps(job | {"packages": [sysconfig.get_path("purelib")]}))
        command = [python, PROGRAM, file]
        done = subprocess.run(
            command, cwd=folder, env=COMPILED, capture_output=True, timeout=CRAWL_SECONDS
        )
        if done.returncode or not result.exists():
            raise DedupError(f"a crawl failed ({spider}, {config}): {done.stderr.decode()[-800:]}")
        return json.loads(result.read_bytes()) | {"spider": spider, "config": config}


def crawl_site(source: Source, variant: str, plan: Plan) -> list[dict[str, Any]]:
    """Return the figures of each spider and configuration on a site."""
    noisy = variant == "noisy"
    most = plan.noisy_pages if noisy else plan.pages
    site = Site(built(source, plan.cache, plan.clones), noisy, most)
    contents, rows = Contents(site.texts), []
    place = {"site": source.name, "kind": source.kind, "half": source.half, "variant": variant}
    with proxy(site) as address:
        for spider in plan.spiders:
            configs = [c for c in plan.configs if c in SPIDERS[spider]]
            rounds = [
                {c: crawl_once(site.starts, address, spider, c, plan.python) for c in configs}
                for _ in range(plan.rounds)
            ]
            for config in configs:
                found = [judged(site, contents, each[config], each["none"]) for each in rounds]
                rows.append(place | found[-1] | {"cpu": median(each["cpu"] for each in found)})
    return rows


def crawl_real(spider: RealSpider, plan: Plan) -> list[dict[str, Any]]:
    """Return the figures of a public spider. Raises DedupError if it makes next to no items of its page."""
    site, given = Site(real_site(spider), as_is=True), (spider.module, str(spider.folder))
    place = {"site": spider.name, "kind": "public spider", "half": "open", "variant": "real"}
    configs = [c for c in plan.configs if c in REAL]
    with proxy(site, any_host=True) as address:
        none = crawl_once(site.starts, address, "real", "none", plan.python, given)
        if len(none["items"]) < 2 * len(site.texts):
            raise DedupError(f"{len(none['items'])} items of {len(site.texts)} pages")
        crawls = [
            crawl_once(site.starts, address, "real", c, plan.python, given) for c in configs[1:]
        ]
    return [place | judged(site, Contents({}), crawl, none) for crawl in (none, *crawls)]


def shown(result: dict[str, Any]) -> str:
    """Return the figures as text: the table, what was lost or missed by name, the machine."""
    head = ("site", "", "spider", "with", *SUMS, "cpu", "MB", "requests said/saved")
    lines, named = [], [f"{name}: {why}" for name, why in result["failed"].items()]
    for row in [*result["rows"], *result["all"]]:
        place = [row[n] for n in ("site", "variant", "spider", "config")]
        both = f"{row['said'].get('requests', 0):,}/{row['saved']['requests']:,}"
        figures = (f"{row['cpu']:.2f}", f"{row['peak_mb']:.0f}", both)
        lines.append((*place, *(f"{row[n]:,}" for n in SUMS), *figures))
        if row["config"] in ("drop", "text"):
            found = [
                (kind[:-6], page)
                for kind in ("lost pages", "missed pages")
                for page in row.get(kind, ())
            ]
            named += [f"{' '.join(place)}: {kind} {page}" for kind, page in found]
        if row.get("errors") or not row.get("ended", True):
            named.append(f"{' '.join(place)}: {row['errors'] or 'did not finish'}")
    return "\n".join([terminal.table(head, lines), "", *named, "", result["machine"]])


def chosen(value: str | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of an option, commas between; all if there is none."""
    names = tuple(value.split(",")) if value else tuple(known)
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{', '.join(unknown)}: none of {', '.join(known)}")
    return names


OPTIONS: dict[str, dict[str, Any]] = {
    "sites": {"help": "Names in crawls/sites.tsv, commas between; - for none. [default: all]"},
    "half": {"type": click.Choice(["open", "held"]), "help": "Sites of this half alone."},
    "spiders": {"help": f"Of {','.join(SPIDERS)}. [default: all]"},
    "configs": {"help": f"Of {','.join(CONFIGS)}. [default: those of each spider]"},
    "variants": {"default": "clean,noisy", "help": "Of clean, noisy."},
    "pages": {"type": int, "default": 300, "help": "Most pages of a site."},
    "noisy-pages": {"type": int, "default": 40, "help": "Most pages of a noisy site."},
    "real": {"type": int, "default": 30, "help": "So many public spiders, too."},
    "rounds": {"type": click.IntRange(1), "default": 1, "help": "Crawls of each kind, in turns."},
    "jobs": {"type": click.IntRange(1), "default": 2, "help": "Sites at once."},
    "python": {"default": sys.executable, "help": "The Python of the add-on to measure."},
    "cache": {"type": FOLDER, "envvar": "DEDUP_SITES", "help": "Folder of packages and sites. [default: the user's cache]"},
    "clones": {"type": FOLDER, "envvar": "DEDUP_CLONES", "help": "Folder of repositories OWNER/NAME. [default: they are cloned]"},
    "quick": {"is_flag": True, "help": "A first look: three sites, 80 pages, two spiders."},
    "build": {"is_flag": True, "help": "Only build the sites."},
}  # fmt: skip


def crawls(quick: bool, build: bool, json_file: str | None, jobs: int, **given: Any) -> None:
    """Crawl real whole sites with and without the add-on, and beside other ways.

    tests/bench/crawls/judge.py says what the columns mean.
    """
    given |= (
        {n: v for n, v in QUICK.items() if given[n] == OPTIONS[n].get("default")} if quick else {}
    )
    known, half, configs = table(), given.pop("half"), chosen(given.pop("configs"), CONFIGS)
    sites, real, variants = (given.pop(n) for n in ("sites", "real", "variants"))
    names = (
        [n for n in chosen(sites, known) if half in (None, known[n].half)] if sites != "-" else []
    )
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    given["cache"] = (given["cache"] or Path(cache) / "crawl-dedup" / "sites").absolute()
    given["configs"] = ("none", *(c for c in configs if c != "none"))
    plan = Plan(**given | {"spiders": chosen(given["spiders"], SPIDERS)})
    report, rows, lines, failed = terminal.progress("crawls"), [], [], {}
    for name in list(names):  # one after the other: they share what they are made of
        try:
            site = built(known[name], plan.cache, plan.clones)
        except (OSError, subprocess.SubprocessError) as error:
            failed[name] = str(error)
            names.remove(name)
        else:
            lines.append((name, len(site.pages), known[name].kind, known[name].half))
    if build:
        terminal.out(terminal.table(("site", "pages", "kind", "half"), lines))
        return
    found = list(public_spiders(plan.cache, plan.clones)) if real else []
    with ProcessPoolExecutor(jobs) as pool:
        every = chosen(variants, ("clean", "noisy"))
        running = {
            f"{n}, {v}": pool.submit(crawl_site, known[n], v, plan) for v in every for n in names
        }
        for spider in random.Random(1).sample(found, min(real, len(found))):
            running[spider.name] = pool.submit(crawl_real, spider, plan)
        for number, (name, each) in enumerate(running.items()):
            try:
                rows += each.result()
            except (DedupError, OSError, subprocess.SubprocessError) as error:
                failed[name] = str(error)
            if report:
                report(number + 1, len(running))
    made = machine_text(machine("crawl-dedup", "scrapy", "datasketch", "resiliparse"))
    result = {"bench": "crawls", "python": plan.python, "rows": rows, "all": summed(rows)}
    result |= {"failed": failed, "machine": made}
    out_result(result, lambda: shown(result), json_file)


command = click.Command(
    "crawls",
    callback=crawls,
    params=[click.Option([f"--{n}"], show_default=n != "python", **o) for n, o in OPTIONS.items()],
    help=crawls.__doc__,
    epilog="Example: python tests/bench crawls --quick",
)
command.params.append(json_file_option())
