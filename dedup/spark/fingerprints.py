"""Fingerprint pages with mapInArrow; the columns that the steps exchange."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from dedup.model.forms import FIELDS
from dedup.model.page import PageFingerprint
from dedup.model.recipes import Recipe, recipe_of
from dedup.scan.reading import learned, result_of
from dedup.scan.values import Broken, Large, PageToJudge, RawPage, ReadingOptions, Result, Skipped
from dedup.store.templates import Templates


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
    reading = ReadingOptions(url, html, max_bytes, known)
    order = F.monotonically_increasing_id() if position is None else F.col(position).cast("bigint")
    chosen = pages.select(
        order.alias("position"), F.col(url).alias("url"), F.col(html).alias("html")
    )

    def read(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        templates = Templates(known.id)  # of the sites of this partition
        return batches((row for part in parts for row in _rows(part, reading, templates)), FOUND)

    return chosen.mapInArrow(read, ddl(FOUND))


def _rows(
    part: pa.RecordBatch, reading: ReadingOptions, templates: Templates
) -> Iterator[tuple[Any, ...]]:
    positions, urls, pages = part.columns
    for position, url, html in zip(positions, urls, pages, strict=True):
        number, address, page = position.as_py(), url.as_py(), html.as_py()
        if address is None or page is None:
            broken = Broken(0, "", f"position {number}", "URL or page is null")
            yield found_row(number, broken, templates)
        else:
            raw = RawPage(address, None, page, None, 0, f"position {number}")
            yield found_row(number, result_of(raw, "", reading), templates)


def found_row(position: int, result: Result, templates: Templates) -> tuple[Any, ...]:
    """Return a result as a row of FOUND; the blocks of a page are counted in templates."""
    nothing = (None,) * len(_FIELDS)
    match result:
        case PageToJudge():
            page = learned(result, templates)
            kind = "unread" if page.unread else "partly" if page.partly else "page"
            return position, kind, result.key, result.domain, *to_columns(page), *(None,) * 4
        case Large():
            return position, "large", result.key, "", *nothing, *(None,) * 4
        case Skipped():
            return position, "skipped", None, None, *nothing, None, None, result.reason, None
        case Broken():
            fault = result.path, result.place, result.reason, result.rest
            return position, "broken", None, None, *nothing, *fault


ROWS_AT_ONCE = 1024


def _numbers(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.int64()) for name in names]


def _texts(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.string()) for name in names]


# The fields of a fingerprint that judging needs, as columns; the recipe is the job's.
_FIELDS = [field for field in FIELDS if field.of_page and field.name not in {"recipe", "links"}]
_TYPES = {"word": pa.int64(), "number": pa.int64(), "bytes": pa.binary()}
_FINGERPRINT = [(field.column, _TYPES[field.form.codec]) for field in _FIELDS]
_values = attrgetter(*(field.name for field in _FIELDS))

PAGE = ("key", "domain", *(name for name, _ in _FINGERPRINT))
"""The columns of a page, in FOUND and VERDICT."""

FOUND = pa.schema(
    [
        ("position", pa.int64()),
        *_texts("kind", "key", "domain"),
        *_FINGERPRINT,
        *_texts("path", "place", "reason"),
        ("rest", pa.bool_()),
    ]
)
"""A record: kind is page, partly or unread (dedup.store.templates), large, skipped or broken; the last four columns are for the last two.

page_identity is PageFingerprint.identity; the identity of VERDICT is Verdict's."""

VERDICT = pa.schema(
    [
        ("position", pa.int64()),
        *_texts("key", "domain"),
        *_FINGERPRINT,
        *_texts("status", "reason", "of"),
        *_numbers("distance"),
        ("similarity", pa.float64()),
        *_texts("identity", "cluster"),
    ]
)
PAIR = pa.schema(_numbers("a", "b"))

_SPARK = {
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
}


def ddl(schema: pa.Schema) -> str:
    """Return an Arrow schema as Spark writes one."""
    return ", ".join(f"`{field.name}` {_SPARK[field.type]}" for field in schema)


def to_columns(page: PageFingerprint) -> tuple[Any, ...]:
    """Return a fingerprint as the values of its columns."""
    return tuple(
        signed(value) if field.form.codec == "word" else value
        for field, value in zip(_FIELDS, _values(page), strict=True)
    )


def of_columns(columns: Sequence[Any], recipe: str) -> PageFingerprint:
    """Return the fingerprint of the values of its columns."""
    fields: dict[str, Any] = {
        field.name: unsigned(value) if field.form.codec == "word" else value
        for field, value in zip(_FIELDS, columns, strict=True)
    }
    return PageFingerprint(recipe=recipe, **fields)


def signed(value: int) -> int:
    """Return an unsigned number as the bigint of the same bits."""
    return value - (1 << 64) if value >> 63 else value


def unsigned(value: int) -> int:
    """Return the number that signed() made a bigint."""
    return value & ((1 << 64) - 1)


def batches(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches of that schema."""
    iterator = iter(rows)
    while some := list(islice(iterator, ROWS_AT_ONCE)):
        columns = [
            pa.array(column, field.type)
            for column, field in zip(zip(*some, strict=True), schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def words(column: Any) -> npt.NDArray[np.uint64]:
    """Return a column of bigints as fingerprints, without a copy."""
    array: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return array.view(np.uint64)
