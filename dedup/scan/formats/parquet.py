"""Pages from Parquet: a row each, with a column for the URL and one for the page.

Invariant: rows are read a few at a time, as many as the file's own figures allow. (pyarrow
holds a value as a whole; a file that lies about its figures is bounded by the machine alone.)
"""

import os
from collections.abc import Iterator
from typing import Any

from dedup.scan.formats.inputs import shown
from dedup.scan.values import Broken, RawPage, Reading

BATCH_BYTES = 1 << 24  # of pages in memory at once, by their mean size
BATCH_ROWS = 256
LARGEST = 4  # times the limit of a page: row groups with greater rows are left out


def read_parquet(path: str, reading: Reading) -> Iterator[RawPage | Broken]:
    """Yield each row as a page. Raises OSError if the file cannot be opened."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = [reading.url_field, reading.html_field]
    row, shown_path = 0, shown(os.fsencode(path))
    with open(path, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            file = parquet.ParquetFile(raw, pre_buffer=False, buffer_size=1 << 20)
            if missing := [name for name in columns if name not in file.schema_arrow.names]:
                names = ", ".join(file.schema_arrow.names[:20])
                reason = f"has no column {missing[0]!r}, only {names}"
                reason += "; name the right ones with --url-field and --html-field"
                yield Broken(0, shown_path, "", reason, rest=True)
                return
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                mean_bytes = group.total_byte_size / max(group.num_rows, 1)
                if mean_bytes > LARGEST * reading.max_bytes:
                    reason = f"{group.num_rows:,} rows of {mean_bytes:,.0f} bytes each"
                    yield Broken(raw.tell(), shown_path, f"row group {number}", reason, rest=True)
                    row += group.num_rows
                    continue
                rows = max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(mean_bytes, 1.0))))
                for batch in file.iter_batches(
                    rows, row_groups=[number], columns=columns, use_threads=False
                ):
                    urls, pages = (batch.column(name) for name in columns)
                    for url, html in zip(urls, pages, strict=True):
                        row += 1
                        yield _page(url.as_py(), html.as_py(), shown_path, row, raw.tell())
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            yield Broken(raw.tell(), shown_path, f"after row {row}", reason, rest=True)


def _page(url: Any, html: Any, name: str, row: int, offset: int) -> RawPage | Broken:
    if not isinstance(url, str) or not isinstance(html, str | bytes):
        return Broken(offset, name, f"row {row}", "no text in one of its columns")
    return RawPage(url, None, html, None, offset, f"row {row}", row)
