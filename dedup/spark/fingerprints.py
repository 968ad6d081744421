"""From pages to what is judged of them: mapInArrow over whatever holds URLs and HTML."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from dedup.model.recipes import Recipe, recipe_of
from dedup.scan.reading import result_of
from dedup.scan.scan_values import Broken, Found, Large, RawPage, Reading, Result, Skipped
from dedup.spark.schema import FOUND, batches, ddl, signed

__all__ = ["fingerprint_pages", "found_row"]


def fingerprint_pages(
    pages: DataFrame,
    *,
    url: str = "url",
    html: str = "html",
    position: str | None = None,
    recipe: Recipe | str | None = None,
    max_bytes: int = 1 << 24,
) -> DataFrame:
    """Return a row of columns FOUND for each page.

    pages     text or binary HTML in one column, the URL in another
    position  a bigint column that orders the pages: of some that are alike the first is kept. By
              default the order in which Spark reads them, which is not the same every time: give
              one, if verdicts are to be the same tomorrow
    """
    known = recipe if isinstance(recipe, Recipe) else recipe_of(recipe)
    reading = Reading(url, html, max_bytes, known)
    order = F.monotonically_increasing_id() if position is None else F.col(position).cast("bigint")
    chosen = pages.select(
        order.alias("position"), F.col(url).alias("url"), F.col(html).alias("html")
    )

    def read(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches((row for part in parts for row in _rows(part, reading)), FOUND)

    return chosen.mapInArrow(read, ddl(FOUND))


def _rows(part: pa.RecordBatch, reading: Reading) -> Iterator[tuple[Any, ...]]:
    positions, urls, pages = part.columns
    for position, url, html in zip(positions, urls, pages, strict=True):
        number, address, page = position.as_py(), url.as_py(), html.as_py()
        if address is None or page is None:
            yield found_row(number, Broken(0, "", f"position {number}", "URL or page is null"))
        else:
            raw = RawPage(address, None, page, None, 0, f"position {number}")
            yield found_row(number, result_of(raw, "", reading))


def found_row(position: int, result: Result) -> tuple[Any, ...]:
    """Return a result as a row of FOUND."""
    nothing = (None,) * 4
    match result:
        case Found():
            kind = "unread" if result.unread else "page"
            known = signed(result.value), result.sketch, signed(result.identity), result.features
            return position, kind, result.key, result.domain, *known, *(None,) * 4
        case Large():
            return position, "large", result.key, "", *nothing, *(None,) * 4
        case Skipped():
            return position, "skipped", None, None, *nothing, None, None, result.reason, None
        case Broken():
            told = result.path, result.place, result.reason, result.rest
            return position, "broken", None, None, *nothing, *told
