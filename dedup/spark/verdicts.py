"""From fingerprints to verdicts: each component is judged by itself, in the order of its pages.

Pages of different components never meet: no two of them are within k, nor have one key. So judging
each component in order gives what judging everything in order gives.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from dedup.detector import EmbeddedDetector
from dedup.detector.rules import unlike_any
from dedup.model.page import Document, PageFingerprint, ReserveOptions, Status
from dedup.model.policy import Options, Policy, Scope, Similarity
from dedup.model.recipes import Recipe, recipe_of
from dedup.model.verdict_forms import to_columns as verdict_columns
from dedup.scan.accepted import Layer
from dedup.spark.components import components, edges_within
from dedup.spark.fingerprints import PAGE, VERDICT, batches, ddl, of_columns

_KEPT = (
    "status in ('unique', 'refetch') or reason in ('other_title', 'short', 'unread')"  # accepted
)
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
        return replace(page, unread=True) if self.kind == "unread" else page

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
    pages = found.where("kind in ('page', 'unread', 'large')").select("position", "kind", *PAGE)
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
        options = ReserveOptions(domain=row.domain, guard=identity)
        verdict = detector.accept(row.page(recipe), row.key, options)
        yield row.with_verdict(*verdict_columns(verdict))


def _kept(row: _Row, status: Status, reason: str = "") -> tuple[Any, ...]:
    """Return the row of a page that was compared with nothing."""
    return row.with_verdict(status, reason, None, None, None, None, row.key)
