"""Many pages at once, as Arrow arrays: what Polars, DuckDB, Ray and datasets pass on without a copy.

    array of pages -> the native reader, page by page, where the bytes lie -> columns -> one struct array

Invariants: the answer for a page is that of fingerprint(); a missing page gives a missing answer. The GIL is free
while a page is read, so threads share the work.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from dedup.core.fingerprint import borrowed_reader, fingerprint, keyed_recipe
from dedup.core.native import check, ffi, lib
from dedup.model.errors import UsageError
from dedup.model.page import SKETCH_BYTES
from dedup.model.recipes import Recipe

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 256  # pages that a thread reads before it takes others

_PAGE = np.dtype(
    {
        "names": ["value", "sketch", "title", "canonical", "features"],
        "formats": ["u8", f"V{SKETCH_BYTES}", "u4", "u4", "u4"],
        "offsets": [
            ffi.offsetof("ndd_page", name)
            for name in ("value", "sketch", "title", "canonical", "features")
        ],
        "itemsize": ffi.sizeof("ndd_page"),
    }
)


def fingerprint_batch(
    array: Any, *, text: bool = False, recipe: Recipe | str | None = None, threads: int = 1
) -> "pa.StructArray":
    """Return the fingerprints of an Arrow array of pages: a pyarrow.StructArray of the same length.

    array    pyarrow.Array or ChunkedArray of strings or bytes, or what has __arrow_c_array__ or
             __arrow_c_stream__ (a column of Polars, of datasets, of DuckDB); a null gives a null
    text     the values are plain text, not HTML
    recipe   as in fingerprint()
    threads  that read pages at the same time

    Fields: value (uint64), sketch (37 bytes), identity (uint64: hashes of title and canonical URL), features
    (uint32). Raises UsageError for an array of another type; needs pyarrow.
    """
    import pyarrow as pa

    pages = _plain(array)
    known = keyed_recipe(recipe)
    offsets, data = _buffers(pages)
    found = np.zeros(len(pages), _PAGE)
    is_bytes = pa.types.is_binary(pages.type) or pa.types.is_large_binary(pages.type)

    def read(begin: int) -> None:
        end = min(begin + AT_ONCE, len(pages))
        answers = ffi.cast("ndd_page *", ffi.from_buffer(found))
        with borrowed_reader() as reader:
            for i in range(begin, end):
                at, size = data + offsets[i], offsets[i + 1] - offsets[i]
                if text:
                    check(lib.ndd_read_text(reader, at, size, known.key, answers + i))
                    continue
                if is_bytes and not lib.ndd_seems_utf8(at, size):
                    again.append(i)
                    continue
                status = lib.ndd_read_html(reader, at, size, ffi.NULL, 0, known.key, answers + i)
                check(status, f"page {i}, of {size} bytes")
                if is_bytes and answers[i].invalid_bytes:
                    again.append(i)

    again: list[int] = []  # pages in another encoding, perhaps; appending is atomic
    begins = range(0, len(pages), AT_ONCE)
    if threads > 1:
        with ThreadPoolExecutor(threads, "dedup-batch") as pool:
            for _ in pool.map(read, begins):
                pass
    else:
        for begin in begins:
            read(begin)
    for i in again:
        page = fingerprint(pages[i].as_py(), recipe=known)
        halves = divmod(page.identity, 1 << 32)
        found[i] = (page.value, np.void(page.sketch), *halves, page.features)
    return _struct(found, pages)


def _plain(array: Any) -> Any:
    """Return one Arrow array of strings or bytes. Raises UsageError."""
    import pyarrow as pa

    if not isinstance(array, pa.Array | pa.ChunkedArray):
        if hasattr(array, "__arrow_c_array__"):
            array = pa.array(array)
        elif hasattr(array, "__arrow_c_stream__"):
            array = pa.chunked_array(array)
        else:
            raise UsageError(
                f"an Arrow array of pages is needed, not {type(array).__name__}; pyarrow.array(...) makes one"
            )
    chunks = [_strings(each) for each in getattr(array, "chunks", [array])]
    if len(chunks) == 1:
        return chunks[0]
    kind = chunks[0].type if chunks else pa.string()
    try:
        joined = pa.concat_arrays([each.cast(kind) for each in chunks] or [pa.array([], kind)])
    except pa.ArrowException as error:  # larger than one array holds
        raise UsageError(
            f"more than 2 GiB of strings in one array ({error}); give large_string, or parts"
        ) from error
    return joined


def _strings(array: Any) -> Any:
    """Return an array as one of strings or bytes that lie one after the other. Raises UsageError."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):  # whose values may be of any kind below
        values = _strings(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    plain = {
        pa.string_view(): pa.large_string(),
        pa.binary_view(): pa.large_binary(),
        pa.null(): pa.string(),
    }.get(kind)
    if plain is not None:
        return array.cast(plain)
    if kind not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        raise UsageError(f"an array of {kind} holds no pages; strings or bytes are needed")
    return array


def _buffers(pages: Any) -> tuple[list[int], Any]:
    """Return where each page begins, the end of the last one, and the bytes they lie in."""
    import pyarrow as pa

    is_large = pa.types.is_large_string(pages.type) or pa.types.is_large_binary(pages.type)
    _, places, held = pages.buffers()
    if places is None or not len(pages):
        return [0] * (len(pages) + 1), ffi.NULL
    offsets = np.frombuffer(places, np.int64 if is_large else np.int32)
    begin = pages.offset
    data = ffi.NULL if held is None else ffi.cast("const uint8_t *", held.address)
    return offsets[begin : begin + len(pages) + 1].tolist(), data


def _struct(found: Any, pages: Any) -> Any:
    import pyarrow as pa

    sketches = np.ascontiguousarray(found["sketch"])
    sketch = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(SKETCH_BYTES), len(found), [None, pa.py_buffer(sketches)]
    )
    identity = found["title"].astype(np.uint64) << np.uint64(32) | found["canonical"]
    columns = {
        "value": pa.array(np.ascontiguousarray(found["value"])),
        "sketch": sketch,
        "identity": pa.array(identity),
        "features": pa.array(np.ascontiguousarray(found["features"])),
    }
    mask = pages.is_null() if pages.null_count else None
    return pa.StructArray.from_arrays([*columns.values()], [*columns], mask=mask)
