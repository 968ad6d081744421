"""`python tests/bench crawl`: what the add-on costs a crawl, the same crawl with and without it, in turns.

    pages -> a site (a process) <- a spider (a process each time): without, with, with, without, ...
    python tests/bench/crawl_costs.py FOLDER COUNT       serves a folder's pages; prints the URL of the start

Invariants: the cost is the difference in CPU time of two whole processes that ran one after the other,
which of them first changes from pair to pair; all pages lie in memory before the first request.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from crawl_spider import Outcome, Work
from page_costs import find_pages, write_pages
from runner import Bench, Progress, Round
from service_costs import serving

from dedup.demo.loopback import Answer, Pages, child, own_environment, serve_as_child
from dedup.model.errors import DedupError

START = "/index.html"
SPIDER = str(Path(__file__).with_name("crawl_spider.py"))


@contextmanager
def open_case(
    pages: Path | None,
    count: int,
    work: Work,
    service: bool,
    progress: Progress | None = None,
) -> Iterator[Bench]:
    """Crawl the first `count` pages of a folder, or generated ones, both ways in each round.

    service  the crawls with the add-on ask a table service, which is started for it, and whose own
             time does not count; without it they have an embedded store

    Raises UsageError for a folder without pages, DedupError if a crawl fails.
    """
    del progress
    with ExitStack() as stack:
        folder = pages or Path(stack.enter_context(TemporaryDirectory(prefix="dedup-bench-")))
        if pages is None:
            write_pages(folder, count)
        find_pages(folder, count)  # says what is wrong before anything runs
        url = stack.enter_context(child(__file__, str(folder), str(count)))
        memory = None
        if service:
            held = Path(stack.enter_context(TemporaryDirectory(prefix="dedup-bench-")))
            _, port = stack.enter_context(serving(held, None))
            memory = f"redis://127.0.0.1:{port}"
        facts: dict[str, Any] = {"work": work, "service": service}
        turns = 0

        def measure() -> Round:
            nonlocal turns
            turns += 1
            order = (False, True) if turns % 2 else (True, False)
            pair = {addon: _crawl(url, work, memory, addon=addon) for addon in order}
            _check(pair[False], pair[True], facts)
            rows = _rows(pair[False], pair[True])
            if turns > 1:
                return rows
            timed = _crawl(url, work, memory, addon=True, steps=True)
            if memory is None and (lost := [n for n, s in timed.steps_seconds.items() if not s]):
                raise DedupError(f"steps of the add-on were not seen: {', '.join(lost)}")
            return {**rows, **_steps(timed)}

        yield Bench(facts, measure, packages=("scrapy", "twisted", "lxml", "lmdb"))


def _check(without: Outcome, addon: Outcome, facts: dict[str, Any]) -> None:
    """Raise DedupError if the two crawls did not do the same; note what they did."""
    fetched = facts.setdefault("pages", without.pages)
    if {without.pages, addon.pages} != {fetched}:
        raise DedupError("the crawls fetched different numbers of pages; run it again")
    if faults := sorted(name for name in addon.dedup if "/error/" in name):
        raise DedupError(f"the add-on met faults ({', '.join(faults)}): nothing to measure")
    facts["page_bytes"] = addon.bytes // addon.pages
    facts["near_duplicates"] = int(addon.dedup.get("dedup/near_duplicate", 0))


def _rows(without: Outcome, addon: Outcome) -> Round:
    pages = without.pages
    added = addon.crawl_seconds - without.crawl_seconds
    whole = addon.whole_seconds - without.whole_seconds
    metered = addon.dedup["dedup/cpu_seconds"]
    return {
        "crawl without the add-on": {"us of CPU a page": 1e6 * without.crawl_seconds / pages},
        "crawl with the add-on": {"us of CPU a page": 1e6 * addon.crawl_seconds / pages},
        "added": {
            "us of CPU a page": 1e6 * added / pages,
            "%": 100 * added / without.crawl_seconds,
        },
        "added, whole process": {
            "us of CPU a page": 1e6 * whole / pages,
            "%": 100 * whole / without.whole_seconds,
        },
        "added once, at the start": {
            "ms of CPU": 1e3 * (addon.startup_seconds - without.startup_seconds)
        },
        "the add-on's own meter": {"us of CPU a page": 1e6 * metered / pages},
    }


def _steps(outcome: Outcome) -> Round:
    """Return the add-on's steps, timed in a crawl of their own: timing costs some microseconds a page."""
    steps = {
        name: 1e6 * seconds / outcome.pages
        for name, seconds in outcome.steps_seconds.items()
        if seconds  # with a service some steps are not the crawl's
    }
    metered = 1e6 * outcome.dedup["dedup/cpu_seconds"] / outcome.pages
    steps["all else"] = metered - sum(steps.values())
    return {f"  {name}": {"us of CPU a page": us} for name, us in steps.items()}


def _crawl(
    url: str, work: Work, service: str | None, *, addon: bool, steps: bool = False
) -> Outcome:
    # by its path: with -m its packages would be imported, which are ours
    command = [sys.executable, "-P", SPIDER, f"--url={url}", f"--work={work}"]
    environment = own_environment()
    # what pip installs is compiled, so the start of a crawl compiles nothing
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if service is not None:
        command.append(f"--service={service}")
    command += ["--addon"] * addon + ["--steps"] * steps
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise DedupError(f"a crawl ended with exit code {done.returncode}; its error is above")
    return msgspec.json.decode(done.stdout, type=Outcome)


# ------------------------------------------------------------------------------------ the site


def _pages(files: Sequence[Path]) -> Pages:
    """Return pages in memory, by path; the start links to all others."""
    paths = [f"/2025/11/{n % 28 + 1:02}/page-{n:06}.html" for n in range(len(files))]
    pages = dict(zip(paths, map(_load, files), strict=True))
    links = "".join(f'<li><a href="{path}">{path}</a></li>\n' for path in paths)
    words = "Every page of this site is named here, once, and in the order of their numbers."
    start = f"<!DOCTYPE html><html><body><p>{words}</p><ul>{links}</ul></body></html>"
    pages[START] = 200, "text/html; charset=utf-8", start.encode()
    missing = 404, "text/plain; charset=utf-8", b"There is no such page.\n"
    return lambda path: pages.get(path, missing)


def _load(file: Path) -> Answer:
    """Return a page and its type; servers name the encoding where they know it."""
    body = file.read_bytes()
    try:
        body.decode()
    except UnicodeDecodeError:
        return 200, "text/html", body
    return 200, "text/html; charset=utf-8", body


if __name__ == "__main__":
    serve_as_child(_pages(find_pages(Path(sys.argv[1]), int(sys.argv[2]))), START)
