"""Near-duplicates on Apache Spark: more pages than one machine scans.

    pages -> fingerprint_pages -> found -> judge_pages -> verdicts -> accepted_pages (for tomorrow)

Invariants:
  - A verdict is that of `dedup scan` over the same pages in the same order: pages that could meet are
    brought together (verdicts.py) and judged in their order by the same detector.
  - The search is exact within k without a cross join: values that lie within k agree in one of k + 1
    blocks, so each block's values meet in buckets, and the native core searches a bucket, hot or not.
  - Spark has no unsigned numbers: a fingerprint is the bigint of the same 64 bits.
docs/use/spark.md is the users' page. Python workers must be those of the driver (PYSPARK_PYTHON).
"""

from dedup.spark.fingerprints import fingerprint_pages
from dedup.spark.verdicts import accepted_pages, judge_pages

__all__ = ["accepted_pages", "fingerprint_pages", "judge_pages"]
