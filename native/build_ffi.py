"""Writes the C source of the binding: build_ffi.py OUTPUT_C HEADER ...

The declarations are those of the public headers themselves, between their two "cffi:" marks, so
there is no second copy of them to go stale. The headers are named in the order in which they build
on each other. A checksum of them is compiled in, NDD_INTERFACE: dedup/core/native.py states it too, so that a core
of other declarations is not used.
"""

import re
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path


def declarations(headers: Iterable[Path]) -> list[str]:
    """Return what the binding declares, without comments, a text for each header."""
    found = []
    for header in headers:
        text = header.read_text(encoding="utf-8")
        marked = text.split("/* cffi: begin", 1)[1].split("*/", 1)[1].split("/* cffi: end", 1)[0]
        found.append(re.sub(r"/\*.*?\*/", "", marked, flags=re.DOTALL))
    return found


def interface(declared: Iterable[str]) -> int:
    """Return the checksum of declarations, whatever white space lies between their words."""
    return zlib.crc32(" ".join(" ".join(declared).split()).encode())


def main(output: Path, *headers: Path) -> None:
    """Write the source."""
    import cffi

    ffi = cffi.FFI()
    declared = declarations(headers)
    for each in declared:
        ffi.cdef(each)
    ffi.cdef("#define NDD_INTERFACE ...")
    lines = [f'#include "{header.name}"' for header in headers]
    lines.append(f"#define NDD_INTERFACE {interface(declared)}u")
    ffi.set_source("dedup._native", "\n".join(lines))
    ffi.emit_c_code(str(output))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
