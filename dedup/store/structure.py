"""Looks over the pages of documents.mdb before LMDB touches them.

LMDB trusts its file: a cut or altered one can end the process (SIGBUS, a failed assertion) or give
wrong answers without a word. So each opening walks the file's trees first, by numpy, a level at a
time, and adds up what the records say; the store compares the sum with the one it wrote.

Invariants: only the file's bytes decide; no pointer is followed before it is known to be inside the file.
Every page is reached once and bears its own number, and no free page is in a tree; every
node lies inside its page; keys rise. Not verified: the bodies of the records (each has a checksum
of its own, tested whenever it is read) and the contents of free pages. The state under either meta
page is returned with the number of that page's transaction: the two must agree, or a meta page
that is damaged would bring an older state back.

The layout is that of LMDB 0.9 (mdb.c, "Page headers" and "Nodes") on 64-bit little-endian machines.
"""

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

HEADER = 16  # bytes before the node pointers of a page
NODE = 8  # bytes before the key of a node
MAGIC = 0xBEEFC0DE
VERSION = 1
BRANCH, LEAF, OVERFLOW, META = 1, 2, 4, 8
BIG, SUB = 1, 2  # node flags: its data lies on overflow pages; its data is a tree
FREE = 8  # flag of the tree of free pages: its keys are integers
CHUNK = 8192  # leaf pages looked at together
ASKED = 1 << 20  # bytes; of more the system may read a part
GAP = 8  # pages between two, which are read with them
NO_PAGE = 2**64 - 1

Numbers = npt.NDArray[np.uint64]


class Structure(NamedTuple):
    """What a sound file holds: the number of documents, and the XOR of the checksums of their records.

    states  the number of each meta page's transaction, and the state record in force after it;
            an older one only where it still can be read
    """

    documents: int
    records_sum: int
    states: tuple[tuple[int, bytes], ...]


class _Tree(NamedTuple):
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int


class _Meta(NamedTuple):
    number: int  # of the transaction that wrote it
    last: int  # the last page in use
    at: int  # where the trees of free pages and of names stand, in bytes


class _Nodes(NamedTuple):
    at: Numbers  # where each node's key begins, in bytes
    key: Numbers  # its length
    size: Numbers  # its data's length
    flags: Numbers


def read_structure(path: Path) -> Structure | None:
    """Return what the file holds; None for an empty file, and for another layout than this one.

    Time is linear in the file's pages, memory about 40 bytes a page. Raises ValueError saying what
    is wrong, and OSError.
    """
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return None
    if not path.stat().st_size:
        return None
    # Mapped, not read: only the pages' heads and keys are touched. The mapping ends with its last
    # view, which a traceback may hold for a while.
    with path.open("rb") as file:
        return _Walk(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).run()


class _Walk:
    def __init__(self, mapped: mmap.mmap) -> None:
        self._mapped = mapped
        if hasattr(mmap, "MADV_RANDOM"):  # branch pages are far from each other
            mapped.madvise(mmap.MADV_RANDOM)
        self._data = np.frombuffer(mapped, np.uint8)
        self._visited: list[Numbers] = []
        self._visits = 0

    def run(self) -> Structure | None:
        metas = self._metas()
        if metas is None:
            return None
        newest = max(metas)
        free, main, last_page = self._tree(newest.at, FREE), self._tree(newest.at + 48), newest.last
        freed = self._freed(free, last_page, newest.number)
        trees = self._names(main)
        records_sum = 0
        for nodes in self._leaves(trees["documents"], "documents"):
            self._require(nodes.size > 8, "documents: a record is too short")
            starts = self._starts(nodes)
            records_sum ^= int(np.bitwise_xor.reduce(self._words(starts)))
        for name in ("removed", "meta"):
            for nodes in self._leaves(trees[name], name, numbers=name == "removed"):
                self._starts(nodes)
        self._account(freed, last_page)
        states = tuple((meta.number, _Walk(self._mapped).state(meta)) for meta in metas)
        known = tuple((number, state) for number, state in states if state is not None)
        return Structure(trees["documents"].entries, records_sum, known)

    def state(self, meta: "_Meta") -> bytes | None:
        """Return the state record under a meta page, or None where it is not there to be read."""
        try:
            self._metas()
            tree = self._names(self._tree(meta.at + 48))["meta"]
            for nodes in self._leaves(tree, "meta", numbers=False):
                begins = nodes.at + nodes.key
                for at, begin, size in zip(nodes.at, begins, nodes.size, strict=True):
                    if self._data[at:begin].tobytes() == b"state":
                        return self._data[begin : begin + size].tobytes()
        except ValueError:  # its pages are in use again
            pass
        return None

    def _metas(self) -> "list[_Meta] | None":
        if len(self._data) < 4096:
            raise ValueError("it is cut")
        self._page = int(self._data[HEADER + 24 : HEADER + 28].view(np.uint32)[0])
        if self._page not in {2**n for n in range(9, 16)} or len(self._data) < 2 * self._page:
            raise ValueError("its first page is not readable")
        self._pages = len(self._data) // self._page
        data = self._data[: self._pages * self._page]
        self._u16, self._u32, self._u64 = data.view("<u2"), data.view("<u4"), data.view("<u8")
        # The 8 bytes at every even place, where nodes begin.
        self._words_at = np.ndarray(len(data) // 2 - 3, "<u8", data.data, strides=(2,))
        metas, versions = [], []
        for page in (0, 1):
            at = page * self._page
            if not self._u16[at // 2 + 5] & META or self._u32[at // 4 + 4] != MAGIC:
                raise ValueError(f"page {page} is not a meta page")
            versions.append(int(self._u32[at // 4 + 5]))
            at += HEADER + 24
            after = at + 96  # two trees of 48 bytes
            metas.append(_Meta(int(self._u64[after // 8 + 1]), int(self._u64[after // 8]), at))
        if versions[0] != versions[1]:
            raise ValueError("its meta pages are of two versions")
        return metas if versions[0] == VERSION else None  # another LMDB judges its own

    def _tree(self, at: int, flags: int = 0) -> _Tree:
        if int(self._data[at + 4]) != flags:  # keys would be compared in another way
            raise ValueError("a tree's flags are not those it was made with")
        depth = int(self._data[at + 6 : at + 8].view("<u2")[0])
        rest = self._data[at + 8 : at + 48].view("<u8")
        return _Tree(depth, *(int(number) for number in rest))

    def _names(self, main: _Tree) -> dict[str, _Tree]:
        trees = {}
        for nodes in self._leaves(main, "names", numbers=False):
            for at, key, size, flags in zip(*(n.tolist() for n in nodes), strict=True):
                if not flags & SUB or size != 48:
                    raise ValueError("names: an entry is not a tree")
                trees[self._data[at : at + key].tobytes().decode("latin-1")] = self._tree(at + key)
        if missing := {"documents", "removed", "meta"} - trees.keys():
            raise ValueError(f"names: {', '.join(sorted(missing))} missing")
        return trees

    def _freed(self, tree: _Tree, last_page: int, newest: int) -> Numbers:
        lists = [np.empty(0, np.uint64)]
        for nodes in self._leaves(tree, "free pages", big_endian=False):
            freeing = self._words(nodes.at, big_endian=False)
            self._require(freeing <= newest, "free pages: a transaction's number is too high")
            for at, size in zip(self._starts(nodes).tolist(), nodes.size.tolist(), strict=True):
                words = self._data[at : at + size // 8 * 8].view("<u8")
                if not len(words) or int(words[0]) != len(words[1:][: int(words[0])]):
                    raise ValueError("free pages: a list is cut")
                lists.append(words[1 : 1 + int(words[0])])
                self._require(lists[-1][1:] < lists[-1][:-1], "free pages: a list is out of order")
        freed = np.concatenate(lists)
        self._require((freed > 1) & (freed <= last_page), "free pages: a number is out of range")
        return freed

    def _account(self, freed: Numbers, last_page: int) -> None:
        every = np.concatenate([*self._visited, freed])
        # A page behind the end of the file was never written: it is free.
        if last_page >= self._pages + np.count_nonzero(freed >= self._pages):
            raise ValueError("the number of its last page does not fit")
        seen = np.zeros(last_page + 1, bool)
        seen[:2] = True
        if len(every) and int(every.max()) > last_page:
            raise ValueError("a page lies beyond the last")
        seen[every] = True
        if np.count_nonzero(seen) != len(every) + 2:
            raise ValueError("a page is used twice")

    def _leaves(
        self, tree: _Tree, name: str, *, numbers: bool = True, big_endian: bool = True
    ) -> Iterator[_Nodes]:
        """Yield the nodes of a tree's leaf pages, in order, after testing all that leads there.

        numbers: every key is a number of 8 bytes; else keys vary and are not compared.
        """
        if tree.root == NO_PAGE:
            if tree.entries:
                raise ValueError(f"{name}: the root is missing")
            return
        pages = np.array([tree.root], np.uint64)
        low = np.zeros(1, np.uint64)  # the least key that may stand on each page
        branches = 0
        for _ in range(tree.depth - 1):
            branches += len(pages)
            self._ask_for(pages)
            nodes, owners, firsts = self._nodes(pages, BRANCH, name)
            if numbers:
                self._require(firsts | (nodes.key == 8), f"{name}: a key's length")
                keys = self._words(nodes.at, big_endian=big_endian)
                # The first key of a branch page is not written: the page's own bound holds.
                low = np.where(firsts, low[owners], keys)
            pages = nodes.size
        if tree.depth < 1 or branches != tree.branches or len(pages) != tree.leaves:
            raise ValueError(f"{name}: the numbers of pages do not fit")
        entries = overflows = 0
        last = None
        self._ask_for(pages[:CHUNK])
        for begin in range(0, len(pages), CHUNK):
            part = slice(begin, begin + CHUNK)
            self._ask_for(pages[begin + CHUNK : begin + 2 * CHUNK])
            nodes, owners, firsts = self._nodes(pages[part], LEAF, name)
            entries += len(nodes.at)
            overflows -= self._visits
            if numbers:
                self._require(nodes.key == 8, f"{name}: a key's length")
                keys = self._words(nodes.at, big_endian=big_endian)
                bound = low[part][owners]
                self._require(keys >= bound, f"{name}: a key stands on a wrong page")
                before = keys[:1] if last is None else last
                shifted = np.concatenate([before, keys[:-1]])
                rising = shifted < keys
                below = ~firsts | (shifted < bound)
                if last is None:
                    rising[0] = below[0] = True
                self._require(rising & below, f"{name}: the keys do not rise")
                last = keys[-1:]
            yield nodes
            overflows += self._visits
        if entries != tree.entries or overflows != tree.overflows:
            raise ValueError(f"{name}: {entries} entries where {tree.entries} belong")

    def _ask_for(self, pages: Numbers) -> None:
        """Have the system read some pages, and no others, while this goes on."""
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        pages = np.sort(pages[pages < self._pages])
        gaps = np.flatnonzero(np.diff(pages) > GAP) + 1
        for run in np.split(pages, gaps) if len(pages) else []:
            begin, end = int(run[0]) * self._page, (int(run[-1]) + 1) * self._page
            for at in range(begin - begin % mmap.PAGESIZE, end, ASKED):
                self._mapped.madvise(mmap.MADV_WILLNEED, at, min(ASKED, end - at))

    def _nodes(
        self, pages: Numbers, kind: int, name: str
    ) -> tuple[_Nodes, npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return all nodes of some pages, the index of each one's page, and which are first.

        A branch node's `size` is the number of the page below it.
        """
        self._visit(pages, name)
        base = pages * self._page
        half = base // 2
        flags, lower, upper = (self._u16[half + i] for i in (5, 6, 7))
        fits = (flags == kind) & (lower > HEADER) & (lower <= upper) & (upper <= self._page)
        self._require(fits & (lower % 2 == 0), f"{name}: a page's header")
        counts = (lower.astype(np.int64) - HEADER) // 2
        owners = np.repeat(np.arange(len(pages)), counts)
        begins = np.cumsum(counts) - counts
        within = np.arange(len(owners)) - begins[owners]
        pointer = self._u16[half[owners] + within.astype(np.uint64) + HEADER // 2]
        inside = (pointer >= upper[owners]) & (pointer.astype(np.uint64) + NODE <= self._page)
        self._require(inside & (pointer % 2 == 0), f"{name}: a node lies outside its page")
        at = base[owners] + pointer
        head = self._words(at, big_endian=False)
        flags, key = head >> np.uint64(32) & np.uint64(0xFFFF), head >> np.uint64(48)
        size = head & np.uint64(0xFFFFFFFF)
        if kind == BRANCH:
            size = head & np.uint64(0xFFFFFFFFFFFF)
            held = key
        else:
            held = key + np.where(flags & BIG, np.uint64(8), size)
        self._require(pointer + NODE + held <= self._page, f"{name}: a node leaves its page")
        return _Nodes(at + NODE, key, size, flags), owners, within == 0

    def _starts(self, nodes: _Nodes) -> Numbers:
        """Return where each leaf node's data begins, in bytes, in the page or on others."""
        starts = nodes.at + nodes.key
        big = np.flatnonzero(nodes.flags & BIG)
        if len(big):
            first = self._words(starts[big], big_endian=False)
            self._visit(first, "overflow")
            half = first * self._page // 2
            needed = (nodes.size[big] + HEADER + self._page - 1) // self._page
            held = self._u32[half // 2 + 3]
            kind = self._u16[half + 5] == OVERFLOW
            self._require(kind & (held == needed), "overflow: a page's header")
            for page, pages in zip(first.tolist(), held.tolist(), strict=True):
                if page + pages > self._pages:
                    raise ValueError("overflow: it is cut")
                if pages > 1:
                    self._reach(np.arange(page + 1, page + pages, dtype=np.uint64))
            starts[big] = first * self._page + HEADER
        return starts

    def _visit(self, pages: Numbers, name: str) -> None:
        self._require((pages > 1) & (pages < self._pages), f"{name}: a page lies beyond the end")
        own = self._u64[pages * self._page // 8]
        self._require(own == pages, f"{name}: a page bears another number than its own")
        self._reach(pages)

    def _reach(self, pages: Numbers) -> None:
        self._visited.append(pages)
        self._visits += len(pages)
        if self._visits > self._pages:  # a ring would never end
            raise ValueError("a page is used twice")

    def _words(self, at: Numbers, *, big_endian: bool = True) -> Numbers:
        """Return the 8 bytes at each (even) place as a number."""
        word: Numbers = self._words_at[np.minimum(at // 2, len(self._words_at) - 1)]
        return word.byteswap() if big_endian else word

    @staticmethod
    def _require(held: npt.NDArray[np.bool_], reason: str) -> None:
        if not held.all():
            raise ValueError(reason)
