"""The table of `dedup bench`: what can be measured on this machine, and with which options.

A case's function is imported when it is opened.
"""

from contextlib import AbstractContextManager
from typing import Any

from dedup.lab.bench.runner import Bench, Case, Option

DISTANCE = Option("distance", 3, "Greatest distance in bits.", least=0, most=15)
Opened = AbstractContextManager[Bench]


def _pages(**options: Any) -> Opened:
    from dedup.lab.bench.pages import open_pages

    return open_pages(**options)


def _crawl(**options: Any) -> Opened:
    from dedup.lab.bench.crawl import open_crawls

    return open_crawls(**options)


def _tables(**options: Any) -> Opened:
    from dedup.lab.bench.tables import open_tables

    return open_tables(**options)


def _store(**options: Any) -> Opened:
    from dedup.lab.bench.store import open_store

    return open_store(**options)


def _service(**options: Any) -> Opened:
    from dedup.lab.bench.service import open_service

    return open_service(**options)


CASES = (
    Case(
        "pages",
        "Measure the CPU time from a page's bytes to its fingerprint.",
        "MB/s and pages a second are of one thread.",
        (
            Option(
                "pages",
                None,
                'A folder of HTML pages, or a .jsonl or .jsonl.zst file with pages under "html" '
                "(default: generated ones of 53 KB).",
                "path",
            ),
            Option("count", 40, "Number of pages."),
        ),
        _pages,
        rounds=7,
        quick={"count": 10, "rounds": 1},
        quick_text="10 pages, one round",
    ),
    Case(
        "tables",
        "Measure dedup.Table: probes, memory, changes.",
        "Each preset has the same fingerprints; the first answers are compared with a plain search. "
        "CPU time of one core.",
        (
            Option(
                "data",
                "uniform",
                "uniform, clustered, or a file with a decimal fingerprint a line.",
                "text",
            ),
            Option(
                "sizes", (1_000_000,), "Numbers of fingerprints stored.", "numbers", 1, 2**31 - 2
            ),
            Option("distances", (3, 6), "Distances to measure.", "numbers", 1, 15),
        ),
        _tables,
        rounds=5,
        quick={"sizes": (100_000,), "rounds": 1},
        quick_text="100,000 stored, one round",
    ),
    Case(
        "store",
        "Fill a store, kill the process that does, open it, reserve and insert pages.",
        "The small store of the last rows has a million documents, or a tenth as many. With --memory "
        "the processes are limited.",
        (
            Option(
                "sizes",
                (1_000_000,),
                "Numbers of documents to measure at; a document takes 210 bytes of disk.",
                "numbers",
                1,
                2**31 - 2,
            ),
            DISTANCE,
            Option(
                "path",
                None,
                "Folder to keep the store in; one that holds documents is filled further.",
                "folder",
            ),
            Option("memory", None, "Memory that the processes may have: bytes, 512M, 8G.", "text"),
            Option(
                "cgroup",
                None,
                "A memory cgroup of your own, for --memory: files in memory count too. "
                "[default: RLIMIT_DATA]",
                "path",
            ),
            Option("requests", 10_000, "Pages that are reserved and inserted.", least=100),
        ),
        _store,
        quick={"sizes": (200_000,), "requests": 2_000},
        quick_text="200,000 documents, 2,000 pages",
    ),
    Case(
        "service",
        "Measure a table service: PROBE, RESERVE + INSERT, latencies.",
        "Rates are for the CPU time of the service's process, as the load comes from the same machine. "
        "At half load latencies are counted from when a probe was due.",
        (
            Option("documents", 1_000_000, "Number of documents stored."),
            DISTANCE,
            Option(
                "requests",
                100_000,
                "Single probes a round; eight times this number are pipelined, a tenth reserved.",
                least=1000,
            ),
        ),
        _service,
        rounds=5,
        quick={"documents": 100_000, "requests": 20_000, "rounds": 1},
        quick_text="100,000 documents, one round",
    ),
    Case(
        "crawl",
        "Compare crawls with and without the add-on: CPU time of the same pages, in turns.",
        "CPU time is that of the spider's process, user and system, all threads. The add-on's steps are "
        "timed in one more crawl.",
        (
            Option(
                "pages",
                None,
                "A folder of HTML pages to crawl (default: generated ones of 53 KB).",
                "path",
            ),
            Option("count", 500, "Number of pages."),
            Option(
                "work",
                "parse",
                "The spider does nothing; makes an item with links; also makes requests for them.",
                "choice",
                choices=("fetch", "parse", "follow"),
            ),
            Option("service", False, "Use a table service in place of a store.", "flag"),
        ),
        _crawl,
        rounds=7,
        quick={"count": 60, "rounds": 1},
        quick_text="60 pages, one round",
    ),
)
