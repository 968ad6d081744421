"""From fingerprints to verdicts: each component is judged by itself, in the order of its pages.

Pages of different components never meet: no two of them are within k, nor have one key. So judging
each component in order gives what judging everything in order gives.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from dedup.detector import EmbeddedDetector
from dedup.model.policy import Options, Policy, Scope, Similarity
from dedup.model.recipes import Recipe, recipe_of
from dedup.model.values import Document, PageFingerprint, Status
from dedup.model.verdict_forms import to_columns
from dedup.scan.accepted import Layer
from dedup.spark.components import components, edges_within
from dedup.spark.schema import VERDICT, batches, ddl, unsigned

__all__ = ["accepted_pages", "judge_pages"]

_KNOWN = ("key", "domain", "value", "sketch", "page_identity", "features")
_UNJUDGED = {"large": "too_large", "unread": "unread"}  # kinds, and why they are exempt
_JUDGED = ("component", "position", *_KNOWN, "kind")


class _Row(NamedTuple):
    component: int | None
    position: int
    key: str
    domain: str
    value: int
    sketch: bytes
    page_identity: int
    features: int
    kind: str


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
    pages = found.where("kind in ('page', 'unread', 'large')").select("position", *_KNOWN, "kind")
    if previous is not None:
        older = previous.select(F.lit(-1).cast("bigint").alias("position"), *_KNOWN)
        pages = pages.union(older.withColumn("kind", F.lit("older")))
    read = pages.where("kind in ('page', 'older')")
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
    taken = verdicts.where("status in ('unique', 'refetch') or reason = 'other_title'")
    pages = taken.select("position", *_KNOWN)
    if previous is not None:
        pages = pages.union(previous.select(F.lit(-1).cast("bigint").alias("position"), *_KNOWN))
    newest = F.row_number().over(Window.partitionBy("key").orderBy(F.desc("position")))
    return pages.withColumn("rank", newest).where("rank = 1").select(*_KNOWN)


def _same_key(pages: DataFrame) -> DataFrame:
    """Return edges that connect the values of each key that has several."""
    least = F.min("value").over(Window.partitionBy("key"))
    found = pages.select(F.col("value").alias("a"), least.alias("b"))
    return found.where("a <> b").distinct()


def _rows(parts: Iterable[pa.RecordBatch]) -> Iterator[_Row]:
    for part in parts:
        yield from map(_Row, *(column.to_pylist() for column in part.columns))


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
        if row.kind in _UNJUDGED:
            yield _kept(row, "exempt", _UNJUDGED[row.kind])
            continue
        if row.component != component or (first is None and detector is None):
            component, detector, first = row.component, None, row
            if row.kind == "page":
                short = row.features < policy.min_features
                yield _kept(row, "exempt", "short") if short else _kept(row, "unique")
            continue
        if detector is None:
            layer = Layer(policy.distance)
            detector = EmbeddedDetector.over(layer, recipe, policy)
            assert first is not None
            _begin(layer, first, recipe, policy)
        if row.kind == "older":
            layer.insert(_document(row, recipe))
            continue
        verdict = detector.reserve(_page(row, recipe), row.key, domain=row.domain, guard=identity)
        if verdict.token is not None:
            detector.insert(verdict)
        yield *_known(row), *to_columns(verdict)


def _begin(layer: Layer, first: _Row, recipe: Recipe, policy: Policy) -> None:
    """Have the layer hold what the first page of its component left: nothing, if it was short."""
    if first.kind == "older" or first.features >= policy.min_features:
        layer.insert(_document(first, recipe))


def _known(row: _Row) -> tuple[Any, ...]:
    return row.position, *(getattr(row, name) for name in _KNOWN)


def _kept(row: _Row, status: Status, reason: str = "") -> tuple[Any, ...]:
    """Return the row of a page that nothing was compared with."""
    return *_known(row), status, reason, None, None, None, None, row.key


def _page(row: _Row, recipe: Recipe) -> PageFingerprint:
    value, identity = unsigned(row.value), unsigned(row.page_identity)
    return PageFingerprint(value, row.sketch, identity, row.features, recipe.id)


def _document(row: _Row, recipe: Recipe) -> Document:
    return Document(row.key, _page(row, recipe), row.domain, 0.0)
