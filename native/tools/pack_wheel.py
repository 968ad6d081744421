"""Packs wheels again, 4 % smaller: pack_wheel.py WHEEL ... (zopfli finds what zlib has no time for).

Their files, and the order of these, stay what they are: RECORD is of what a file holds, not of how it is packed.
"""

import sys
import zipfile
from pathlib import Path

import zopfli


def pack(wheel: Path) -> None:
    """Replace a wheel by one that holds the same."""
    files = _files(wheel)
    packed = wheel.with_suffix(".packed")
    with zopfli.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for info, data in files:
            made.writestr(info, data)
    assert [data for _, data in _files(packed)] == [data for _, data in files]
    packed.replace(wheel)


def _files(wheel: Path) -> list[tuple[zipfile.ZipInfo, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        return [(info, archive.read(info)) for info in archive.infolist()]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        pack(Path(path))
