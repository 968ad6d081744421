"""The paper's tables: permuted, sorted, searched by interpolation; the reference beside dedup.Table.

    values, a design -> a sorted table for each choice of blocks -> probe -> the values within k

The designs are those of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling"
(WWW 2007), section 3.1: (6,) cuts the 64 bits into 6 blocks and has a table for each choice of 3 to
come first, 20 tables for k = 3; (4, 4) cuts what one of 4 blocks leaves into 4 again, 16 tables;
(5,) gives 10 and (4,) gives 4. `dedup.plan` lists them for a number of documents.

Invariant: every answer is exact, whatever the values; a search that finds them spread
unevenly goes on by halving, so a probe takes no longer than its candidates do.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from fingerprint_values import bit_counts
from paper_library import check, ffi, lib

from dedup.core.numbers import Array, Numbers, many, pointer

CODECS = {None: lib.NDD_UNCOMPRESSED, "huffman": lib.NDD_HUFFMAN, "elias-fano": lib.NDD_ELIAS_FANO}
_MATCH = np.dtype([("document", "u8"), ("value", "u8"), ("distance", "u4"), ("reserved", "u4")])


class PermutedTables:
    """n fingerprints in the tables of one design; immutable, so threads may probe it at once.

    k            the greatest Hamming distance found, in bits
    levels       the number of blocks at each level of the design, each more than k
    codec        how the tables are compressed: None, "huffman" as the paper has it, or "elias-fano"
    prefixes     the prefix of each table, as a mask of the fingerprint's bits
    prefix_bits  the length of the shortest prefix and of the longest
    bytes        the memory of the tables; uncompressed, 8 bytes a distinct value in each
    candidates   how many fingerprints the last batch compared, in all tables together
    """

    def __init__(
        self, values: Numbers, k: int, levels: tuple[int, ...], codec: str | None = None
    ) -> None:
        given = many(values, "values")
        self._documents = np.argsort(given, kind="stable").astype(np.uint64)
        self._values, starts = np.unique(given, return_counts=True)
        self._starts = np.concatenate(([0], np.cumsum(starts))).astype(np.intp)
        handle = ffi.new("ndd_permuted **")
        blocks, count = ffi.new("uint32_t[]", levels), len(self._values)
        opened = (pointer(self._values), count, k, blocks, len(levels), CODECS[codec], handle)
        check(lib.ndd_permuted_open(*opened), f"tables of the design {levels} for k = {k}")
        self._handle = ffi.gc(handle[0], lib.ndd_permuted_close)
        tables, size = ffi.new("uint32_t *"), ffi.new("uint64_t *")
        prefixes = np.empty(lib.NDD_PERMUTED_TABLES, np.uint64)
        lib.ndd_permuted_get(self._handle, pointer(prefixes), len(prefixes), tables, size)
        self.prefixes: list[int] = prefixes[: tables[0]].tolist()
        lengths = bit_counts(prefixes[: tables[0]])
        self.prefix_bits = int(lengths.min()), int(lengths.max())
        self.bytes, self.candidates = int(size[0]), 0

    def probe_many(self, values: Numbers) -> tuple[Array, Array, npt.NDArray[np.uint8]]:
        """Return (offsets, documents, distances) of a batch as dedup.Table does; a document is a value's position."""
        queries = many(values, "values")
        ends, found = self._found(queries)
        # Each value found, once for each of its documents.
        places = np.searchsorted(self._values, found["value"])
        first, counts = self._starts[places], self._starts[places + 1] - self._starts[places]
        begins = np.cumsum(counts) - counts
        rows = np.repeat(first - begins, counts) + np.arange(int(counts.sum()))
        documents, distances = self._documents[rows], np.repeat(found["distance"], counts)
        query = np.repeat(np.repeat(np.arange(len(queries)), np.diff(ends)), counts)
        order = np.lexsort((documents, distances, query))
        per_query = np.bincount(query, minlength=len(queries))
        offsets = np.concatenate(([0], np.cumsum(per_query))).astype(np.uint64)
        return offsets, documents[order], distances[order].astype(np.uint8)

    def _found(self, queries: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Return where the native matches of each query end, from 0 on, and the matches."""
        offsets = np.zeros(len(queries) + 1, np.uint64)
        candidates, capacity = ffi.new("uint64_t *"), 4 * len(queries) + 64
        while True:
            matches = np.empty(capacity, _MATCH)
            status = lib.ndd_permuted_probe(
                self._handle,
                pointer(queries),
                len(queries),
                ffi.from_buffer("uint64_t[]", offsets, require_writable=True),
                ffi.cast("ndd_match *", ffi.from_buffer(matches, require_writable=True)),
                capacity,
                candidates,
            )
            check(status, "probing permuted tables")
            total = int(offsets[-1])
            if total <= capacity:
                self.candidates = int(candidates[0])
                return offsets.astype(np.int64), matches[:total]
            capacity = total
