"""Pages from HTML files. A file's path, as it was given, is its document key."""

import os
from collections.abc import Iterator, Sequence

from dedup.scan.formats.inputs import shown
from dedup.scan.scan_values import Broken, RawPage, Reading

__all__ = ["read_files"]


def read_files(paths: Sequence[str], reading: Reading) -> Iterator[RawPage | Broken]:
    """Yield each file as a page."""
    offset = 0
    for path in paths:
        key = shown(os.fsencode(path))
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a path as text
                html = file.read(reading.max_bytes + 1)
        except OSError as error:
            yield Broken(offset, key, "", error.strerror or str(error), rest=True)
            continue
        offset += len(html)
        yield RawPage("", key, html, None, offset, "")
