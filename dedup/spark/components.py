"""Which pages could meet: values within k of each other, and pages of one key, and what these connect.

    values -> k + 1 buckets each -> the clusters of a bucket (native) -> edges -> connected components

Two values within k bits agree in at least one of k + 1 blocks, so every such pair meets in a bucket.
A bucket's clusters come from the native core and leave as one edge a value, not as pairs: a hot
bucket, or a thousand values all within k, costs no more than its size. The components are those of
all pairs, because each pair is connected in some bucket.

Edges become components by alternating large-star and small-star steps (Kiveris et al., "Connected
Components in MapReduce and Beyond", SoCC 2014), which keep them few and end in stars.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from dedup.core.pairs import find_clusters
from dedup.model.errors import DedupError
from dedup.spark.fingerprints import PAIR, ddl, words

MOST_STEPS = 100
_BUCKET = "bucket bigint, value bigint"


def edges_within(values: DataFrame, k: int) -> DataFrame:
    """Return edges (a, b) that connect all values within k bits; values is a column of bigints."""
    distinct = values.distinct()
    if k == 0:
        return distinct.select(F.col("value").alias("a"), F.col("value").alias("b")).limit(0)
    shifts, masks = _blocks(k)

    def spread(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            numbers = words(part.column(0))
            for block, (shift, mask) in enumerate(zip(shifts, masks, strict=True)):
                bits = (numbers >> np.uint64(shift)) & np.uint64(mask)
                bucket = (bits | np.uint64(block << 40)).view(np.int64)
                yield pa.RecordBatch.from_arrays(
                    [pa.array(bucket), part.column(0)], names=["bucket", "value"]
                )

    def connect(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for bucket in _buckets(parts):
            labels = find_clusters(bucket, k).astype(np.intp)
            others = labels != np.arange(len(labels))
            if others.any():
                ends = bucket[others].view(np.int64), bucket[labels[others]].view(np.int64)
                yield pa.RecordBatch.from_arrays([pa.array(e) for e in ends], schema=PAIR)

    buckets = distinct.mapInArrow(spread, _BUCKET).repartition("bucket")
    return buckets.sortWithinPartitions("bucket").mapInArrow(connect, ddl(PAIR)).distinct()


def components(edges: DataFrame) -> DataFrame:
    """Return (a, b) for every end of an edge but the least of its component, which is b."""
    current = edges.where("a <> b").select(
        F.greatest("a", "b").alias("a"), F.least("a", "b").alias("b")
    )
    current = current.distinct().localCheckpoint()
    before = None
    for _ in range(MOST_STEPS):
        now = _signature(current)
        if now == before:
            return current
        before = now
        current = _small_star(_large_star(current)).localCheckpoint()
    raise DedupError(f"the components were not found in {MOST_STEPS} steps; please report it")


def _large_star(edges: DataFrame) -> DataFrame:
    """Connect each greater neighbour of a node to the least of its neighbours and itself."""
    both = edges.union(edges.select(F.col("b").alias("a"), F.col("a").alias("b")))
    least = F.least("a", F.min("b").over(Window.partitionBy("a"))).alias("least")
    found = both.select("a", "b", least).where("b > a")
    return found.select(F.col("b").alias("a"), F.col("least").alias("b")).distinct()


def _small_star(edges: DataFrame) -> DataFrame:
    """Connect each smaller neighbour of a node, and itself, to the least of them; edges go down."""
    least = F.min("b").over(Window.partitionBy("a")).alias("least")
    found = edges.select("a", "b", least)
    own = found.select("a", F.col("least").alias("b"))
    others = found.where("b <> least").select(F.col("b").alias("a"), F.col("least").alias("b"))
    return own.union(others).distinct()


def _signature(edges: DataFrame) -> tuple[int, int]:
    row = edges.agg(F.count("*"), F.bit_xor(F.xxhash64("a", "b"))).first()
    assert row is not None
    return int(row[0]), int(row[1] or 0)


def _blocks(k: int) -> tuple[list[int], list[int]]:
    """Return where each of k + 1 blocks of 64 bits begins, and the mask of its width."""
    count = k + 1
    widths = [64 // count + (i < 64 % count) for i in range(count)]
    shifts = [sum(widths[:i]) for i in range(count)]
    return shifts, [(1 << width) - 1 for width in widths]


def _buckets(parts: Iterator[pa.RecordBatch]) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the values of each bucket with more than one, from rows sorted by bucket."""
    held: list[npt.NDArray[np.uint64]] = []
    last = None
    for part in parts:
        if not part.num_rows:
            continue
        names, values = words(part.column(0)), words(part.column(1))
        starts = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
        for begin, end in pairwise(starts):
            if names[begin] != last:
                yield from _whole(held)
                held, last = [], names[begin]
            held.append(values[begin:end])
    yield from _whole(held)


def _whole(held: list[npt.NDArray[np.uint64]]) -> Iterator[npt.NDArray[np.uint64]]:
    if sum(map(len, held)) > 1:
        yield np.ascontiguousarray(held[0] if len(held) == 1 else np.concatenate(held))
