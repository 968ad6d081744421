"""The table of benchmarks, and the command that runs them."""

import click
from crawls.command import crawls
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
        (
            Option("pages", 2000, "Number of pages of the greatest site.", least=200),
            Option(
                "without", "", "Name of a rule that is switched off (item_sites.WITHOUT).", "text"
            ),
        ),
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
        "sites",
        "Crawl whole sites, and count pages with content of their own that are lost.",
        "NAME.jsonl (url, html) with NAME.truth.jsonl[.zst] (url, text: the content, as a person marked it); each drop "
        "is compared with the page it was dropped for.",
        (
            Option("corpora", None, "Folder of sites.", "path"),
            Option("count", None, "Pages of each site, from its beginning. [default: all]"),
            Option(
                "peers",
                False,
                "Judge the same pages by MinHash (datasketch) of resiliparse's and trafilatura's main content, at "
                "several settings.",
                "flag",
            ),
            Option(
                "distance",
                None,
                "Greatest distance in bits. [default: the recipe's]",
                least=0,
                most=15,
            ),
        ),
        opened("whole_sites"),
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


@click.group(cls=Cases, epilog="Example: python tests/bench pages")
def bench() -> None:
    """Benchmark a part of dedup on this machine, or compare it with other programs."""


bench.add(CASES)
bench.add_command(crawls)
