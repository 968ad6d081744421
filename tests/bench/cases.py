"""The table of benchmarks, and the command that runs them."""

import click
from crawls.command import command
from runner import Case, Cases, Option, opened

THREADS = Option("threads", 0, "Number of threads; 0: one a core.", least=0)


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
                'A folder of HTML pages, or a .jsonl or .jsonl.zst file with pages under "html" '
                "(default: generated ones of 53 KB).",
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
            Option(
                "data",
                "uniform",
                "uniform, clustered, or a file with a decimal fingerprint a line.",
                "text",
            ),
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
            Option(
                "rate",
                (),
                "Inserts a second, 2,20,200: measure only what is written then, in a store of 20,000.",
                "numbers",
                1,
                100_000,
            ),
            Option("seconds", 600, "How long inserts come at each rate.", least=1),
        ),
        opened("store_costs"),
        quick={"sizes": (200_000,), "requests": 2_000, "seconds": 60},
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
        opened("service_costs"),
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
                "The spider does nothing; makes a small item; one with text and links; also requests for these.",
                "choice",
                choices=("fetch", "scrape", "parse", "follow"),
            ),
            Option("service", False, "Use a table service in place of a store.", "flag"),
        ),
        opened("crawl_costs"),
        rounds=7,
        quick={"count": 60, "rounds": 1},
        quick_text="60 pages, one round",
    ),
    Case(
        "batch",
        "Time a batch search: a million queries against a stream.",
        "Searches a generated stream for fingerprints near one of many queries, and fails unless all planted "
        "near-duplicates are found. The paper: 200 mappers, 100 seconds. With --stored 8589934592 the "
        "stream is as long as the paper's.",
        (
            Option("queries", 1_000_000, "Number of queries."),
            Option("stored", 1 << 30, "Number of fingerprints in the stream."),
            DISTANCE,
            THREADS,
        ),
        opened("batch_search"),
        quick={"queries": 100_000, "stored": 1 << 24},
        quick_text="100,000 queries, 2^24 fingerprints",
    ),
    Case(
        "pairs",
        "Time all pairs, beside the way of simhash-cpp.",
        "That is the paper's permuted and sorted tables (up to 10 million fingerprints); the pairs found are "
        "compared.",
        (Option("values", 10_000_000, "Number of fingerprints."), DISTANCE, THREADS),
        opened("all_pairs"),
        quick={"values": 200_000},
        quick_text="200,000 fingerprints",
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
    Case(
        "events",
        "Time how a service applies a Kafka topic of documents.",
        "On a Kafka that is started for it, or the one of KAFKA_BOOTSTRAP_SERVERS: CPU time of the service from its "
        "start until it has all.",
        (Option("events", 400_000, "Number of events."), DISTANCE),
        opened("applied_events"),
        rounds=3,
        quick={"events": 5_000, "rounds": 1},
        quick_text="5,000 events, one round",
    ),
)


@click.group(cls=Cases, epilog="Example: python tests/bench pages")
def bench() -> None:
    """Benchmark a part of dedup on this machine, or compare it with other programs."""


bench.add(CASES)
bench.add_command(command)
