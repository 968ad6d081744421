"""The paper's tables: permuted, sorted, searched by interpolation; the reference beside dedup.Table.

    values, a design -> a sorted table for each choice of blocks -> probe -> the values within k

The designs are those of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling"
(WWW 2007), section 3.1: (6,) cuts the 64 bits into 6 blocks and has a table for each choice of 3 to
come first, 20 tables for k = 3; (4, 4) cuts what one of 4 blocks leaves into 4 again, 16 tables;
(5,) gives 10 and (4,) gives 4. `dedup.plan` lists them for a number of documents.

Invariant: every answer is exact, whatever the values; a search that finds them spread
unevenly goes on by halving, so a probe takes no longer than its candidates do.
"""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from paper_library import check, ffi, lib

from dedup.core.numbers import Array, Numbers, bit_counts, many, max_distance, number, pointer
from dedup.core.table import limit_number
from dedup.model.errors import UsageError

WIDTH = 64
CODECS = {None: lib.NDD_UNCOMPRESSED, "huffman": lib.NDD_HUFFMAN, "elias-fano": lib.NDD_ELIAS_FANO}
_MATCH = np.dtype([("document", "u8"), ("value", "u8"), ("distance", "u4"), ("reserved", "u4")])


class Match(NamedTuple):
    """A document whose value lies within k of a probed one, as dedup.Match has it."""

    document: int
    value: int
    distance: int


class PermutedTables:
    """Fingerprints in the tables of one design; immutable, so threads may probe it at once.

    values     a batch of n fingerprints; equal ones are kept apart by their documents
    k          greatest Hamming distance found, in bits, 0 .. 15
    design     blocks at each level, or the number of blocks of the one level
    documents  a batch of n documents; by default the positions in values
    codec      None, or how the tables are compressed: "huffman" as the paper has it, "elias-fano"

    Raises UsageError for a design whose levels do not each have more than k blocks and at most as
    many as there are bits left to cut, for k below 0, and for anything else outside what is stated;
    MemoryError when 8 bytes a value and table are not to be had.
    """

    def __init__(
        self,
        values: Numbers,
        k: int,
        design: int | Sequence[int],
        documents: Numbers | None = None,
        codec: str | None = None,
    ) -> None:
        given = many(values, "values")
        own = np.arange(len(given), dtype=np.uint64)
        keys = own if documents is None else many(documents, "documents")
        if len(keys) != len(given):
            raise UsageError(
                f"{len(given)} values and {len(keys)} documents were given; "
                "there must be one document for each value"
            )
        if codec not in CODECS:
            known = ", ".join(map(repr, CODECS))
            raise UsageError(f"codec is {codec!r}; it must be one of {known}")
        self._k = max_distance(k)
        self._levels = _levels(design, self._k)
        order = np.lexsort((keys, given))
        self._documents = keys[order]
        self._values, starts = np.unique(given[order], return_index=True)
        self._starts = np.append(starts, len(given)).astype(np.intp)
        levels = ffi.new("uint32_t[]", self._levels)
        handle = ffi.new("ndd_permuted **")
        status = lib.ndd_permuted_open(
            pointer(self._values),
            len(self._values),
            self._k,
            levels,
            len(self._levels),
            CODECS[codec],
            handle,
        )
        check(status, f"tables of the design {self._levels} for k = {self._k}")
        self._handle = ffi.gc(handle[0], lib.ndd_permuted_close)
        count, size = ffi.new("uint32_t *"), ffi.new("uint64_t *")
        prefixes = np.empty(lib.NDD_PERMUTED_TABLES, np.uint64)
        lib.ndd_permuted_get(self._handle, pointer(prefixes), len(prefixes), count, size)
        self._prefixes, self._bytes = prefixes[: count[0]].copy(), int(size[0])
        self._candidates = 0

    @property
    def k(self) -> int:
        """The greatest distance found, in bits."""
        return self._k

    @property
    def levels(self) -> tuple[int, ...]:
        """The number of blocks at each level of the design."""
        return self._levels

    @property
    def prefixes(self) -> list[int]:
        """The prefix of each table, as a mask of the fingerprint's bits."""
        return [int(prefix) for prefix in self._prefixes]

    @property
    def prefix_bits(self) -> tuple[int, int]:
        """The length of the shortest prefix and of the longest, in bits."""
        lengths = bit_counts(self._prefixes)
        return int(lengths.min()), int(lengths.max())

    @property
    def bytes(self) -> int:
        """The memory of the tables, documents aside: uncompressed, 8 bytes a distinct value in each."""
        return self._bytes

    @property
    def candidates(self) -> int:
        """How many fingerprints the last probe or batch compared, in all tables together."""
        return self._candidates

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._documents)

    def probe(self, value: int, limit: int | None = None) -> list[Match]:
        """Return the documents of all values within k, nearest first, then by document.

        At most `limit` of them (>= 1), the first ones.
        """
        _, documents, values, distances = self._probe([number(value, "value")], limit)
        columns = documents.tolist(), values.tolist(), distances.tolist()
        return [Match(*row) for row in zip(*columns, strict=True)]

    def probe_many(
        self, values: Numbers, limit: int | None = None
    ) -> tuple[Array, Array, npt.NDArray[np.uint8]]:
        """Probe a batch of n values at once and return (offsets, documents, distances).

        offsets is uint64 of shape (n + 1,); documents (uint64) and distances (uint8) have one entry
        for each match. The matches of values[i] are those from offsets[i] up to offsets[i + 1], in
        the order of probe(), at most `limit` for each value.
        """
        offsets, documents, _, distances = self._probe(values, limit)
        return offsets, documents, distances

    def _probe(
        self, given: Numbers, limit: int | None
    ) -> tuple[Array, Array, Array, npt.NDArray[np.uint8]]:
        most = limit_number(limit)
        queries = many(given, "values")
        ends, found = self._found(queries)
        # Each value found, once for each of its documents.
        places = np.searchsorted(self._values, found["value"])
        first, counts = self._starts[places], self._starts[places + 1] - self._starts[places]
        begins = np.cumsum(counts) - counts
        rows = np.repeat(first - begins, counts) + np.arange(int(counts.sum()))
        documents = self._documents[rows]
        values, distances = np.repeat(found["value"], counts), np.repeat(found["distance"], counts)
        query = np.repeat(np.repeat(np.arange(len(queries)), np.diff(ends)), counts)
        order = np.lexsort((values, documents, distances, query))
        per_query = np.bincount(query, minlength=len(queries))
        if most:
            rank = np.arange(len(order)) - np.repeat(np.cumsum(per_query) - per_query, per_query)
            order = order[rank < most]
            per_query = np.minimum(per_query, most)
        offsets = np.concatenate(([0], np.cumsum(per_query))).astype(np.uint64)
        return offsets, documents[order], values[order], distances[order].astype(np.uint8)

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
                self._candidates = int(candidates[0])
                return offsets.astype(np.int64), matches[:total]
            capacity = total


def _levels(design: int | Iterable[int], k: int) -> tuple[int, ...]:
    """Return a design as its numbers of blocks, or raise UsageError saying what is wrong with it."""
    try:
        levels = tuple(map(index, design if isinstance(design, Iterable) else (design,)))
    except TypeError:
        levels = ()
    if not levels:
        raise UsageError(f"design is {design!r}; it must be a number of blocks, or one a level")
    left = WIDTH
    for blocks in levels:
        if blocks <= k:
            raise UsageError(
                f"design is {design!r}: {blocks} blocks are too few for k = {k}; "
                f"it takes {k + 1} or more"
            )
        if blocks > left:
            raise UsageError(
                f"design is {design!r}: {blocks} blocks are more than the {left} bits left to cut"
            )
        widths = sorted(left // blocks + (i < left % blocks) for i in range(blocks))
        left = sum(widths[:k])  # at least; the native core checks every choice
    return levels
