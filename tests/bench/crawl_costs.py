"""`python tests/bench crawl`: what the add-on costs a crawl, the same crawl with and without it, in turns.

    pages -> a site (a process) <- a spider (a process each time): without, with, with, without, ...
    python tests/bench/crawl_costs.py FOLDER COUNT       serves a folder's pages; prints the URL of the start

Invariants: the cost is the difference in CPU time of two whole processes that ran one after the other, which of them
first changes from pair to pair; all pages lie in memory before the first request.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from page_costs import PAGES, find_pages, write_pages
from runner import Bench, case, number

from dedup.demo.loopback import child, own_environment, serve_as_child
from dedup.model.errors import DedupError

START = "/index.html"
SPIDER = str(Path(__file__).with_name("crawl_spider.py"))
UNIT = "us of CPU a page"


@case(
    "crawl",
    PAGES,
    number("count", 500, "Number of pages."),
    click.Option(
        ["--work"],
        type=click.Choice(["fetch", "scrape", "parse"]),
        default="parse",
        show_default=True,
        help="The spider does nothing; makes a small item; one with text and links.",
    ),
    rounds=7,
    count=60,
)
def command(pages, count, work):
    """Compare crawls with and without the add-on: CPU time of the same pages, in turns."""
    with TemporaryDirectory(prefix="dedup-bench-") as made:
        folder = pages or Path(made)
        if pages is None:
            write_pages(folder, count)
        find_pages(folder, count)  # says what is wrong before anything runs
        with child(__file__, str(folder), str(count)) as url:
            facts, turns = {"work": work}, []

            def measure():
                turns.append(len(turns) % 2 == 1)
                pair = {addon: _crawl(url, work, addon) for addon in (turns[-1], not turns[-1])}
                return _rows(pair[False], pair[True], facts)

            yield Bench(facts, measure, ("scrapy", "twisted", "lxml", "lmdb"))


def _rows(without, addon, facts):
    pages = facts.setdefault("pages", without["pages"])
    if {without["pages"], addon["pages"]} != {pages}:
        raise DedupError("the crawls fetched different numbers of pages; run it again")
    if faults := sorted(name for name in addon["dedup"] if "/error/" in name):
        raise DedupError(f"the add-on met faults ({', '.join(faults)}): nothing to measure")
    facts["page_bytes"] = addon["bytes"] // pages
    facts["near_duplicates"] = int(addon["dedup"].get("dedup/near_duplicate", 0))

    def added(what):
        more = addon[what] - without[what]
        return {UNIT: 1e6 * more / pages, "%": 100 * more / without[what]}

    start = addon["startup_seconds"] - without["startup_seconds"]
    return {
        "crawl without the add-on": {UNIT: 1e6 * without["crawl_seconds"] / pages},
        "crawl with the add-on": {UNIT: 1e6 * addon["crawl_seconds"] / pages},
        "added": added("crawl_seconds"),
        "added, whole process": added("whole_seconds"),
        "added once, at the start": {"ms of CPU": 1e3 * start},
        "the add-on's own meter": {UNIT: 1e6 * addon["dedup"]["dedup/cpu_seconds"] / pages},
    }


def _crawl(url, work, addon):
    # by its path: with -m its packages would be imported, which are ours
    command = [sys.executable, "-P", SPIDER, url, work, *["addon"] * addon]
    environment = own_environment()
    # what pip installs is compiled, so the start of a crawl compiles nothing
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise DedupError(f"a crawl ended with exit code {done.returncode}; its error is above")
    return json.loads(done.stdout)


def _pages(files):
    """Return pages in memory, by path; the start links to all others."""
    paths = [f"/2025/11/{n % 28 + 1:02}/page-{n:06}.html" for n in range(len(files))]
    pages = dict(zip(paths, map(_load, files), strict=True))
    links = "".join(f'<li><a href="{path}">{path}</a></li>\n' for path in paths)
    words = "Every page of this site is named here, once, and in the order of their numbers."
    start = f"<!DOCTYPE html><html><body><p>{words}</p><ul>{links}</ul></body></html>"
    pages[START] = 200, "text/html; charset=utf-8", start.encode()
    missing = 404, "text/plain; charset=utf-8", b"There is no such page.\n"
    return lambda path: pages.get(path, missing)


def _load(file):
    """Return a page and its type; servers name the encoding where they know it."""
    body = file.read_bytes()
    try:
        body.decode()
    except UnicodeDecodeError:
        return 200, "text/html", body
    return 200, "text/html; charset=utf-8", body


if __name__ == "__main__":
    serve_as_child(_pages(find_pages(Path(sys.argv[1]), int(sys.argv[2]))), START)
