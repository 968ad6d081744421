"""Near-duplicates on Spark, two days of a crawl: python examples/spark_job.py

Needs Java 17 and, in the checkout, pip install '.[spark]'; runs on this machine. In a cluster, read your own
tables in place of the made-up pages, and write verdicts and accepted pages with .write.parquet(...).
"""

import os
import random
import sys

try:
    from pyspark.sql import SparkSession
except ModuleNotFoundError:
    sys.exit(
        "pyspark is missing; run: pip install '.[spark]' in the checkout of crawl-dedup (it needs Java 17)"
    )

from dedup.spark import accepted_pages, fingerprint_pages, judge_pages

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (
    SparkSession.builder.master("local[2]")
    .appName("near-duplicates")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")

rng = random.Random(1)  # noqa: S311
texts = [" ".join(f"word{rng.randrange(3000)}" for _ in range(200)) for _ in range(50)]
pages = [  # made up: some texts come again under another address
    (number, f"http://news.example.com/{number}", f"<p>{rng.choice(texts)}</p>".encode())
    for number in range(120)
]
accepted = None
for day, some in (("monday", pages[:80]), ("tuesday", pages[80:])):
    crawled = spark.createDataFrame(some, "number bigint, url string, html binary")
    found = fingerprint_pages(crawled, position="number").persist()
    verdicts = judge_pages(found, accepted).persist()
    counts = {row["status"]: row["count"] for row in verdicts.groupBy("status").count().collect()}
    print(day, dict(sorted(counts.items())))
    accepted = accepted_pages(verdicts, accepted).persist()
print(accepted.count(), "pages are remembered")
spark.stop()
