"""Writes the C source of the binding: build_ffi.py OUTPUT_C HEADER ...

The declarations are those of the public headers themselves, between their two "cffi:" marks, so
there is no second copy of them to go stale. The headers are named in the order in which they build
on each other.
"""

import re
import sys
from pathlib import Path

import cffi

output, *headers = map(Path, sys.argv[1:])

ffi = cffi.FFI()
for header in headers:
    text = header.read_text(encoding="utf-8")
    declarations = text.split("/* cffi: begin", 1)[1].split("*/", 1)[1].split("/* cffi: end", 1)[0]
    ffi.cdef(re.sub(r"/\*.*?\*/", "", declarations, flags=re.DOTALL))
ffi.set_source("dedup._native", "\n".join(f'#include "{header.name}"' for header in headers))
ffi.emit_c_code(str(output))
