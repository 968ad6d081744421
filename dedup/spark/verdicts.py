"""From fingerprints to verdicts: each component is judged by itself, in the order of its pages.

    values -> k + 1 buckets each -> the clusters of a bucket (native) -> edges -> connected components

Pages of different components never meet: no two of them are within k, nor have one key. So judging
each component in order gives what judging everything in order gives.

Two values within k bits agree in at least one of k + 1 blocks, so every such pair meets in a bucket.
A bucket's clusters come from the native core and leave as one edge a value, not as pairs: a hot
bucket, or a thousand values all within k, costs no more than its size. The components are those of
all pairs, because each pair is connected in some bucket.

Edges become components by alternating large-star and small-star steps (Kiveris et al., "Connected
Components in MapReduce and Beyond", SoCC 2014), which keep them few and end in stars.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from dedup.core.pairs import find_clusters
from dedup.detector import EmbeddedDetector
from dedup.detector.rules import unlike_any
from dedup.model.errors import DedupError
from dedup.model.forms import to_columns as verdict_columns
from dedup.model.page import JUDGED, Document, PageFingerprint, ReserveOptions, Status
from dedup.model.policy import Options, Policy, Scope, Similarity
from dedup.model.recipes import Recipe, recipe_of
from dedup.scan.accepted import Layer
from dedup.spark.fingerprints import PAGE, PAIR, VERDICT, batches, ddl, of_columns, words

_KEPT = f"status in ('unique', 'refetch') or reason in {JUDGED}"  # accepted
_JUDGED = ("component", "position", "kind", *PAGE)


class _Row(NamedTuple):
    """A page to be judged; columns are those of its fingerprint."""

    component: int | None
    position: int
    kind: str
    key: str
    domain: str
    columns: tuple[Any, ...]

    def page(self, recipe: Recipe) -> PageFingerprint:
        page = of_columns(self.columns, recipe.id)
        return replace(page, unread=self.kind == "unread", partly=self.kind == "partly")

    def document(self, recipe: Recipe) -> Document:
        return Document(self.key, self.page(recipe), self.domain)

    def with_verdict(self, *verdict: Any) -> tuple[Any, ...]:
        """Return a row of VERDICT."""
        return self.position, self.key, self.domain, *self.columns, *verdict


def judge_pages(
    found: DataFrame,
    previous: DataFrame | None = None,
    *,
    distance: int | None = None,
    similarity: Similarity | None = None,
    min_features: int | None = None,
    scope: Scope = "global",
    identity: bool = False,
    recipe: Recipe | str | None = None,
) -> DataFrame:
    """Return the verdict on each page of `found` (columns FOUND), as columns VERDICT.

    previous  pages that were accepted before (accepted_pages() of yesterday): they come first, and
              get no verdict
    identity  keep pages that are other pages of their site by title or canonical URL
    The other arguments are those of dedup.open(). found is used more than once: persist it if it is
    expensive to make.
    """
    known = recipe if isinstance(recipe, Recipe) else recipe_of(recipe)
    options = Options(
        distance=distance, similarity=similarity, min_features=min_features, scope=scope
    )
    policy = options.policy(known)
    pages = found.where("kind in ('page', 'partly', 'unread', 'large')").select(
        "position", "kind", *PAGE
    )
    if previous is not None:
        first = F.lit(-1).cast("bigint").alias("position")
        older = previous.select(first, F.lit("older").alias("kind"), *PAGE)
        pages = pages.union(older)
    read = pages.where("kind <> 'large'")
    edges = edges_within(read.select("value"), policy.distance).union(_same_key(read))
    labels = components(edges).select(F.col("a").alias("value"), F.col("b").alias("component"))
    together = pages.join(labels, "value", "left").withColumn(
        "component", F.coalesce("component", "value")
    )
    ordered = together.select(*_JUDGED).repartition("component")
    sorted_ = ordered.sortWithinPartitions("component", "position", "key")

    def judge(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches(_judged(_rows(parts), known, policy, identity), VERDICT)

    return sorted_.mapInArrow(judge, ddl(VERDICT))


def accepted_pages(verdicts: DataFrame, previous: DataFrame | None = None) -> DataFrame:
    """Return the pages that a later run compares with: of each key the last that was accepted."""
    taken = verdicts.where(_KEPT)
    pages = taken.select("position", *PAGE)
    if previous is not None:
        pages = pages.union(previous.select(F.lit(-1).cast("bigint").alias("position"), *PAGE))
    newest = F.row_number().over(Window.partitionBy("key").orderBy(F.desc("position")))
    return pages.withColumn("rank", newest).where("rank = 1").select(*PAGE)


def _same_key(pages: DataFrame) -> DataFrame:
    """Return edges that connect the values of each key that has several."""
    least = F.min("value").over(Window.partitionBy("key"))
    found = pages.select(F.col("value").alias("a"), least.alias("b"))
    return found.where("a <> b").distinct()


def _rows(parts: Iterable[pa.RecordBatch]) -> Iterator[_Row]:
    for part in parts:
        for component, position, kind, key, domain, *columns in zip(
            *(column.to_pylist() for column in part.columns), strict=True
        ):
            yield _Row(component, position, kind, key, domain, tuple(columns))


def _judged(
    rows: Iterator[_Row], recipe: Recipe, policy: Policy, identity: bool
) -> Iterator[tuple[Any, ...]]:
    """Judge rows that come component by component, each in its order.

    Most components are one page, and nothing is like it: a detector is made for the second.
    """
    component: int | None = None
    detector: EmbeddedDetector | None = None
    first: _Row | None = None
    for row in rows:
        if row.kind == "large":
            yield _kept(row, "exempt", "too_large")
            continue
        if row.component != component or (first is None and detector is None):
            component, detector, first = row.component, None, row
            if row.kind != "older":
                yield _kept(row, *unlike_any(row.page(recipe), policy))
            continue
        if detector is None:
            layer = Layer(policy.distance)
            detector = EmbeddedDetector.over(layer, recipe, policy)
            assert first is not None
            layer.insert(first.document(recipe))
        if row.kind == "older":
            layer.insert(row.document(recipe))
            continue
        options = ReserveOptions(domain=row.domain, guard=identity or row.kind == "partly")
        verdict = detector.accept(row.page(recipe), row.key, options)
        yield row.with_verdict(*verdict_columns(verdict))


def _kept(row: _Row, status: Status, reason: str = "") -> tuple[Any, ...]:
    """Return the row of a page that was compared with nothing."""
    return row.with_verdict(status, reason, None, None, None, None, row.key)


# ------------------------------------------------------------------------- which pages could meet

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
