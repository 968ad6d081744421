"""What the add-on costs a crawl: the same crawl with and without it, in turns.

    pages -> a site (a process) <- a spider (a process each time): without, with, without, with, ...

The rule kept here: the cost is the difference in CPU time of two crawls that ran one after the
other, for every such pair; which of the two goes first changes from pair to pair.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from dedup.lab.bench.crawl.benchmark_site import find_pages, serve_in_child, write_pages
from dedup.lab.bench.crawl.benchmark_spider import Outcome, Work
from dedup.lab.bench.crawl.service_process import table_service
from dedup.lab.bench.samples import Machine, Samples, machine, samples
from dedup.model.errors import DedupError

__all__ = ["CrawlBench", "bench_crawl"]


class CrawlBench(msgspec.Struct, frozen=True):
    """The outcome; times are CPU time of the crawl's process, user and system.

    work             what the spider does with a page (crawl_spider)
    pages            pages of the site, of page_bytes on average
    without_us       microseconds a page without the add-on
    with_us          and with it
    added_us         their difference, pair by pair
    added_percent    the difference as a share of the crawl without, pair by pair
    metered_us       what the add-on's own meter says (dedup/cpu_seconds): without Scrapy's calls
                     into it, without other threads, and without what the spider then finds cold
    startup_added_ms milliseconds that it adds once, up to the first callback
    steps_us         microseconds a page by step, of one more crawl; timing them takes a few
    near_duplicates  pages of the site that were found to be some
    """

    work: Work
    pages: int
    page_bytes: int
    rounds: int
    without_us: Samples
    with_us: Samples
    added_us: Samples
    added_percent: Samples
    metered_us: Samples
    startup_added_ms: Samples
    steps_us: dict[str, float]
    near_duplicates: int
    machine: Machine


def bench_crawl(
    folder: Path | None = None,
    count: int = 500,
    rounds: int = 7,
    work: Work = "parse",
    *,
    service: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> CrawlBench:
    """Crawl the first `count` pages of a folder, or generated ones, `rounds` times both ways.

    service  the crawls with the add-on ask a table service, which is started for it, and whose own
             time does not count; without it they have an embedded store

    Raises UsageError for a folder without pages, DedupError if a crawl fails.
    """
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="dedup-bench-")))
            write_pages(folder, count)
        find_pages(folder, count)  # says what is wrong before anything runs
        url = stack.enter_context(serve_in_child(folder, count))
        memory = stack.enter_context(table_service()) if service else None
        pairs = []
        for number in range(rounds):
            pair = {}
            for addon in (False, True) if number % 2 == 0 else (True, False):
                pair[addon] = _crawl(url, work, memory, addon=addon)
                if progress is not None:
                    progress(2 * number + len(pair), 2 * rounds)
            pairs.append((pair[False], pair[True]))
        return _report(work, pairs, _steps(_crawl(url, work, memory, addon=True, steps=True)))


def _steps(outcome: Outcome) -> dict[str, float]:
    steps = {
        name: 1e6 * seconds / outcome.pages
        for name, seconds in outcome.steps_seconds.items()
        if seconds  # a step that a service takes is none of the crawl's
    }
    metered = 1e6 * outcome.dedup["dedup/cpu_seconds"] / outcome.pages
    return steps | {"all else": metered - sum(steps.values())}


def _crawl(
    url: str, work: Work, service: str | None, *, addon: bool, steps: bool = False
) -> Outcome:
    command = [
        sys.executable,
        "-m",
        "dedup.lab.bench.crawl.benchmark_spider",
        f"--url={url}",
        f"--work={work}",
    ]
    # a project's settings, named by the environment, are not the benchmark's
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SCRAPY_")}
    if service is not None:
        command.append(f"--service={service}")
    command += ["--addon"] * addon + ["--steps"] * steps
    done = subprocess.run(  # noqa: S603 - this package
        command,
        env=environment,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise DedupError(f"a crawl ended with exit code {done.returncode}; its error stands above")
    return msgspec.json.decode(done.stdout, type=Outcome)


def _report(
    work: Work, pairs: list[tuple[Outcome, Outcome]], steps_us: dict[str, float]
) -> CrawlBench:
    first, pages = pairs[0][1], pairs[0][0].pages
    if any(outcome.pages != pages for pair in pairs for outcome in pair):
        raise DedupError("the crawls fetched different numbers of pages; run it again")
    faults = {name for _, outcome in pairs for name in outcome.dedup if "/error/" in name}
    if faults:
        raise DedupError(f"the add-on met faults ({', '.join(sorted(faults))}): nothing to measure")

    def each(figure: Callable[[Outcome, Outcome], float]) -> Samples:
        return samples([figure(*pair) for pair in pairs])

    return CrawlBench(
        work=work,
        pages=pages,
        page_bytes=first.bytes // pages,
        rounds=len(pairs),
        without_us=each(lambda a, _: 1e6 * a.crawl_seconds / pages),
        with_us=each(lambda _, b: 1e6 * b.crawl_seconds / pages),
        added_us=each(lambda a, b: 1e6 * (b.crawl_seconds - a.crawl_seconds) / pages),
        added_percent=each(lambda a, b: 100 * (b.crawl_seconds / a.crawl_seconds - 1)),
        metered_us=each(lambda _, b: 1e6 * b.dedup["dedup/cpu_seconds"] / pages),
        startup_added_ms=each(lambda a, b: 1e3 * (b.startup_seconds - a.startup_seconds)),
        steps_us=steps_us,
        near_duplicates=int(first.dedup.get("dedup/near_duplicate", 0)),
        machine=machine("scrapy", "twisted", "lxml", "lmdb"),
    )
