"""The table of benchmarks, and the command that runs them."""

import click
from crawls.command import command
from runner import Case, Cases, Option, opened

DISTANCE = Option("distance", 3, "Greatest distance in bits.", least=0, most=15)

CASES = (
    Case(
        "pages",
        "Measure the CPU time from a page's bytes to its fingerprint.",
        "MB/s and pages a second are of one thread.",
        (
            Option(
                "pages",
                None,
                "A folder of HTML pages (default: generated ones of 53 KB).",
                "path",
            ),
            Option("count", 40, "Number of pages."),
            Option(
                "peers",
                False,
                "Measure resiliparse's main content with 1e0ng's simhash, too.",
                "flag",
            ),
        ),
        opened("page_costs"),
        rounds=7,
        quick={"count": 10, "rounds": 1},
        quick_text="10 pages, one round",
    ),
    Case(
        "tables",
        "Measure dedup.Table: probes, memory, changes; beside Faiss.",
        "Every preset has the same fingerprints; the first answers are compared with those of a plain search.",
        (
            Option("size", 1_000_000, "Number of fingerprints stored.", most=2**31 - 2),
            DISTANCE,
            Option("peers", False, "Measure Faiss, too.", "flag"),
        ),
        opened("table_costs"),
        rounds=5,
        quick={"size": 100_000, "rounds": 1},
        quick_text="100,000 stored, one round",
    ),
    Case(
        "store",
        "Fill a store, kill the process that does, open it, reserve and insert pages.",
        "CPU time is that of all threads; what makes the documents does not count.",
        (
            Option(
                "size",
                1_000_000,
                "Number of documents; each takes 210 bytes of disk.",
                most=2**31 - 2,
            ),
            DISTANCE,
            Option("requests", 10_000, "Pages that are reserved and inserted.", least=100),
        ),
        opened("store_costs"),
        quick={"size": 200_000, "requests": 2_000},
        quick_text="200,000 documents, 2,000 pages",
    ),
    Case(
        "service",
        "Measure a table service: PROBE, RESERVE + INSERT.",
        "Rates are for the CPU time of the service's process, as the load comes from the same machine.",
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
        opened("service_costs"),
        rounds=5,
        quick={"documents": 100_000, "requests": 20_000, "rounds": 1},
        quick_text="100,000 documents, one round",
    ),
    Case(
        "scan",
        "Time `dedup scan` on generated WARC files, with one process and with one a core.",
        "From the start of the command to its end; memory is that of the largest process.",
        (
            Option("pages", 10_000, "Number of pages in all."),
            Option("files", 4, "Number of WARC files."),
        ),
        opened("scan_rate"),
        rounds=3,
        quick={"pages": 500, "rounds": 1},
        quick_text="500 pages, one round",
    ),
)


@click.group(cls=Cases, epilog="Example: python tests/bench pages")
def bench() -> None:
    """Benchmark a part of dedup on this machine, or compare it with other programs."""


bench.add(CASES)
bench.add_command(command)
