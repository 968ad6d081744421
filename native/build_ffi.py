"""Writes the C source of the binding: build_ffi.py NDD_H OUTPUT_C.

The declarations are those of the public header itself, between its two "cffi:" marks, so there is
no second copy of them to go stale.
"""

import re
import sys
from pathlib import Path

import cffi

header, output = map(Path, sys.argv[1:])
text = header.read_text(encoding="utf-8")
declarations = text.split("/* cffi: begin", 1)[1].split("*/", 1)[1].split("/* cffi: end", 1)[0]

ffi = cffi.FFI()
ffi.cdef(re.sub(r"/\*.*?\*/", "", declarations, flags=re.DOTALL))
ffi.set_source("dedup._native", '#include "ndd.h"')
ffi.emit_c_code(str(output))
