"""The pages a benchmark reads: a folder, a JSONL file, or generated ones of about 53 KB."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dedup.lab.bench.crawl.benchmark_site import find_pages, write_pages
from dedup.model.errors import UsageError
from dedup.model.values import SKETCH_BYTES

__all__ = ["load_pages", "sketch_of"]


def sketch_of(value: int) -> bytes:
    """Return a sketch for a made-up value: those of near values are alike, those of others not."""
    places = b"\xff" + value.to_bytes(8, "little") * 4  # of a long text: all places taken
    return places + value.to_bytes(8, "little")[: SKETCH_BYTES - len(places)]


def load_pages(source: Path | None, count: int) -> list[bytes]:
    """Return up to `count` pages, taken at even distances from all there are.

    source  a folder of HTML files; a .jsonl or .jsonl.zst file, an object a line with the page
            under "html"; or None: generated pages

    Raises UsageError if it holds no pages.
    """
    if source is None:
        with TemporaryDirectory() as folder:
            write_pages(Path(folder), count)
            return [path.read_bytes() for path in find_pages(Path(folder), count)]
    if source.is_dir():
        return [path.read_bytes() for path in _spread(find_pages(source, 10**9), count)]
    with _lines(source) as lines:
        places = set(_spread(range(sum(1 for _ in lines)), count))
    with _lines(source) as lines:
        pages = [_page(line, source, i + 1) for i, line in enumerate(lines) if i in places]
    if not pages:
        raise UsageError(f"{source} holds no pages; give a folder or a .jsonl file")
    return pages


def _spread(items: Any, count: int) -> list[Any]:
    if len(items) <= count:
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


@contextmanager
def _lines(source: Path) -> Iterator[Iterator[bytes]]:
    with source.open("rb") as file:
        if source.suffix != ".zst":
            yield iter(file)
            return
        import zstandard

        with zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(file) as plain:
            yield iter(io.BufferedReader(plain))


def _page(line: bytes, source: Path, number: int) -> bytes:
    try:
        html = json.loads(line)["html"]
        return bytes(html.encode("utf-8", "surrogatepass"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f'{source}: line {number} is no JSON object with a page under "html"'
        ) from error
