"""Labelled sets: a folder with all there is to know, or pages and a list of pairs.

    file -> lines -> SetPage(id, url, html) -> Prints (an array for each field)

    folder:  pages.jsonl[.zst]         id, url, html: a page a line
             pairs.tsv                 page_a, page_b, label (1, 0 or U), kind ...
             labels_meta.jsonl[.zst]   id, src, grp, kind, lang, main (the reference text)
             allpairs_j.npz            main: rows (i, j, J), J the similarity of the reference texts
             order.json                the ids that i and j count
    files:   --pages and --pairs, in the same formats
    labels -> is this pair of near-duplicates? 1 yes, 0 no, -1 left open

Invariants:
  - A set is read through and never held; memory does not grow with the pages' bytes.
  - Pages are their numbers, 0 to n - 1, and a pair (a, b) has a < b.
  - Whatever is not as stated is named, with its file and line, before anything is measured with it. Of all
    pairs, J >= 0.9 is a near-duplicate, J > 0.5 is left open, and a pair without a row is none; two soft 404
    pages are near-duplicates in one group and left open in two.
"""

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.core.fingerprint import fingerprint
from dedup.model.errors import DedupError, UsageError
from dedup.model.names import registrable_domain
from dedup.model.page import PageFingerprint
from dedup.model.recipes import Recipe

# -------------------------------------------------------------------------------------------- pages

WINDOW_BYTES = 2**31  # the widest window that zstd's --ultra --long writes
LINE_BYTES = 1 << 28  # of the longest line
CHUNK_BYTES = 1 << 20  # of text handed on at once
READ_BYTES = 1 << 14  # read at once from a compressed file
STEP = 64  # pages between two calls of progress

Progress = Callable[[int, int], None]  # done, in all
Words = npt.NDArray[np.uint64]
T = TypeVar("T")


class SetPage(msgspec.Struct, frozen=True):
    """A page of a set; its id is unique there, its url may be empty."""

    id: str
    html: str
    url: str = ""


class Prints(msgspec.Struct, frozen=True):
    """The fingerprints of n pages; their ids and domains ("" without a URL) in the same order.

    value, identity, features, thing   of all pages: an array of shape (n,) each
    """

    ids: list[str]
    domains: list[str]
    pages: list[PageFingerprint]
    recipe: Recipe
    value: Words
    identity: Words
    features: npt.NDArray[np.int64]
    thing: Words

    def __len__(self) -> int:
        """Return n."""
        return len(self.ids)


def measure(pages: Iterable[SetPage], recipe: Recipe) -> Prints:
    """Fingerprint every page, in order. Raises what reading them raises, and RecipeMismatch."""
    ids: list[str] = []
    domains: list[str] = []
    prints: list[PageFingerprint] = []
    for page in pages:
        ids.append(page.id)
        domains.append(registrable_domain(page.url) if page.url else "")
        prints.append(fingerprint(page.html, url=page.url or None, recipe=recipe))
    value, identity, thing = (
        np.array([getattr(page, name) for page in prints], np.uint64)
        for name in ("value", "identity", "thing")
    )
    features = np.array([page.features for page in prints], np.int64)
    return Prints(ids, domains, prints, recipe, value, identity, features, thing)


def read_pages(path: Path, progress: Progress | None = None) -> Iterator[SetPage]:
    """Yield the pages of a file of JSON lines (`.zst`: compressed), fields id, html and url.

    progress is called with the bytes read and the bytes of the file. Raises OSError, DedupError
    naming a line, and UsageError if zstandard is needed and not installed.
    """
    known: set[str] = set()
    for number, page in read_records(path, SetPage, progress):
        if not page.id or page.id in known:
            fault = f"the id {page.id!r} occurs twice" if page.id else "the id is empty"
            raise DedupError(f"{path}: line {number}: {fault}; give each page an id of its own")
        known.add(page.id)
        yield page
    if not known:
        raise DedupError(f"{path}: it contains no pages; give JSON lines with id, url and html")


def read_records(
    path: Path, kind: type[T], progress: Progress | None = None
) -> Iterator[tuple[int, T]]:
    """Yield (line number, record) for each line of a file of JSON; blank lines are skipped."""
    decode = msgspec.json.Decoder(kind).decode
    with _lines(path) as (file, raw):
        total, number = path.stat().st_size, 0
        while line := _line(path, file, number + 1):
            number += 1
            if line.isspace():
                continue
            try:
                record = decode(line)
            except (ValueError, RecursionError) as error:
                raise DedupError(f"{path}: line {number}: {error}; correct or remove it") from error
            yield number, record
            if progress and number % STEP == 0:
                progress(min(raw.tell(), total - 1), total)
        if progress:
            progress(total, total)


def _line(path: Path, file: IO[bytes], number: int) -> bytes:
    line = file.readline(LINE_BYTES)
    if len(line) == LINE_BYTES:
        raise DedupError(f"{path}: line {number} is too long; give a page a line")
    return line


@contextmanager
def _lines(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file; yield what its lines are read from, and the file itself."""
    with path.open("rb") as raw:
        if path.suffix != ".zst":
            yield raw, raw
            return
        with io.BufferedReader(_Decompressed(path, raw), CHUNK_BYTES) as lines:
            yield lines, raw


class _Decompressed(io.RawIOBase):
    """What a zstd file holds, frame after frame; one that is cut or damaged raises DedupError."""

    def __init__(self, path: Path, raw: IO[bytes]) -> None:
        try:
            from zstandard import ZstdDecompressor, ZstdError
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{path} is compressed, and zstandard is not installed; "
                "run: pip install 'crawl-dedup[eval]'"
            ) from error
        self._path, self._raw, self._error = path, raw, ZstdError
        self._zstd = ZstdDecompressor(max_window_size=WINDOW_BYTES)
        self._frame: Any = None  # the one that is being read
        self._compressed = self._ready = b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer and return how many bytes it took; 0 at the end."""
        while not self._ready:
            self._compressed = self._compressed or self._raw.read(READ_BYTES)
            if not self._compressed:
                if self._frame is not None:
                    raise self._damaged("it ends in the middle")
                return 0
            if self._frame is None:
                self._frame = self._zstd.decompressobj()
            try:
                self._ready = self._frame.decompress(self._compressed)
            except self._error as error:
                raise self._damaged(str(error)) from error
            self._compressed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _damaged(self, reason: str) -> DedupError:
        return DedupError(f"{self._path}: {reason}; it is no whole zstd file, fetch it again")


# ------------------------------------------------------------------------------------------- labels


OPEN = -1

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.int8]


class ListedPairs(msgspec.Struct, frozen=True):
    """m pairs labelled one by one: a, b and label of shape (m,); their kinds ("" if none is told)."""

    a: Numbers
    b: Numbers
    label: Marks
    kind: list[str]


class Every(msgspec.Struct, frozen=True):
    """A label for every pair of n pages, without n * n numbers.

    keys, label  the pairs that are near-duplicates or left open, by rising pair_keys(); any other
                 is neither
    apart        pages of which two are left open unless a key says otherwise (soft 404 pages of
                 two sites: it cannot be told); a mask of shape (n,)
    """

    keys: Numbers
    label: Marks
    apart: npt.NDArray[np.bool_]

    def of(self, a: Numbers, b: Numbers) -> Marks:
        """Return the labels of pairs a < b."""
        label = np.where(self.apart[a] & self.apart[b], np.int8(OPEN), np.int8(0))
        if len(self.keys):
            keys = pair_keys(a, b, len(self.apart))
            at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            label = np.where(self.keys[at] == keys, self.label[at], label)
        return label.astype(np.int8)

    def near(self) -> tuple[Numbers, Numbers]:
        """Return (a, b) of every pair that is labelled a near-duplicate."""
        keys = self.keys[self.label == 1]
        return keys // len(self.apart), keys % len(self.apart)


class Pages(msgspec.Struct, frozen=True):
    """What sorts the figures: a list of n for each, None where nothing is told.

    kinds      "real" is a page as its site gave it, anything else is made
    groups     pages that hang together, by number: what the bootstrap draws
    words      length of the reference text
    """

    groups: Numbers
    kinds: list[str] | None = None
    languages: list[str] | None = None
    sources: list[str] | None = None
    words: Numbers | None = None


class Labels(msgspec.Struct, frozen=True):
    """All that is known of a set; listed or every may be None, not both."""

    pages: Pages
    listed: ListedPairs | None
    every: Every | None


def pair_keys(a: Numbers, b: Numbers, n: int) -> Numbers:
    """Return one number for each pair a < b of n pages, rising by a, then b."""
    return a.astype(np.int64) * n + b


def clusters(a: Numbers, b: Numbers, n: int) -> Numbers:
    """Return for each of n pages the number of the cluster that the pairs connect it to."""
    root = list(range(n))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    for i, j in zip(a.tolist(), b.tolist(), strict=True):
        root[find(j)] = find(i)
    return np.array([find(i) for i in range(n)], np.int64)


# -------------------------------------------------------------------------------------------- files


NEAR, FAR = 0.9, 0.5
SOFT_404 = "soft404"
LABELS = {"1": 1, "0": 0, "U": OPEN}

# A word, or a character of a script that is written without spaces.
_WORD = re.compile(
    "[\u0e00-\u0e7f\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
    "|[^\\W\u0e00-\u0e7f\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)


class _Meta(msgspec.Struct, frozen=True):
    id: str
    grp: str
    kind: str = "real"
    lang: str = ""
    src: str = ""
    main: str | None = None


class FileSet:
    """Pages and a list of labelled pairs, both in files. pages() may be called again and yields the same.

    complete says that the list names every near-duplicate, so that all pairs have a label.
    """

    def __init__(self, pages: Path, pairs: Path, *, complete: bool = False) -> None:
        self.name = str(pages)
        self._pages, self._pairs, self._complete = pages, pairs, complete
        self._meta: Path | None = None  # what sorts the pages
        self._every: Path | None = None  # labels of all pairs

    def pages(self, progress: Progress | None = None) -> Iterator[SetPage]:
        """Yield the pages."""
        return read_pages(self._pages, progress)

    def labels(self, ids: list[str]) -> Labels:
        """Return what the files tell. Raises DedupError naming a file or a line, OSError."""
        listed = _read_pairs(self._pairs, ids) if self._pairs.is_file() else None
        pages = self._read_meta(ids, listed)
        every = None
        if self._every is not None:
            every = self._read_every(self._every, ids, pages)
            if self._meta is None:
                pages = Pages(clusters(*every.near(), len(ids)))
        elif self._complete and listed is not None:
            keys = pair_keys(listed.a, listed.b, len(ids))
            order = np.argsort(keys)
            order = order[listed.label[order] != 0]
            every = Every(keys[order], listed.label[order], np.zeros(len(ids), bool))
        return Labels(pages, listed, every)

    def _read_meta(self, ids: list[str], listed: ListedPairs | None) -> Pages:
        if self._meta is None:
            return _unknown(listed, len(ids))
        found: dict[str, tuple[_Meta, int | None]] = {}
        wanted = set(ids)
        for number, meta in read_records(self._meta, _Meta):
            if meta.id in wanted and meta.id not in found:
                words = None if meta.main is None else count_words(meta.main)
                found[meta.id] = msgspec.structs.replace(meta, main=None), words
            elif meta.id in wanted:
                raise DedupError(f"{self._meta}: line {number}: {meta.id!r} occurs twice")
        if missing := [i for i in ids if i not in found]:
            raise DedupError(
                f"{self._meta}: it has no line for {missing[0]!r}; every page needs one"
            )
        metas = [found[i][0] for i in ids]
        lengths = [found[i][1] for i in ids]
        return Pages(
            _numbered(m.grp for m in metas),
            [m.kind for m in metas],
            [m.lang for m in metas],
            [m.src for m in metas],
            None if None in lengths else np.array(lengths, np.int64),
        )

    def _read_every(self, file: Path, ids: list[str], pages: Pages) -> Every:
        n = len(ids)
        at = _order(file.with_name("order.json"), ids)
        rows = _rows(file, n)
        a, b = at[rows[:, 0].astype(np.int64)], at[rows[:, 1].astype(np.int64)]
        label = np.where(rows[:, 2] >= NEAR, 1, OPEN).astype(np.int8)
        kept = rows[:, 2] > FAR
        soft = np.array([kind == SOFT_404 for kind in pages.kinds or [""] * n], bool)
        kept &= ~(soft[a] | soft[b])
        keys = pair_keys(np.minimum(a, b), np.maximum(a, b), n)[kept]
        same = _same_group(np.flatnonzero(soft), pages.groups, n)
        keys = np.concatenate([keys, same])
        label = np.concatenate([label[kept], np.ones(len(same), np.int8)])
        keys, first = np.unique(keys, return_index=True)
        return Every(keys, label[first], soft)


class FolderSet(FileSet):
    """A set in a folder. Raises UsageError if it has no pages, or no labels of pairs."""

    def __init__(self, folder: Path) -> None:
        pages = _either(folder, "pages.jsonl")
        if pages is None:
            raise UsageError(f"{folder} is no labelled set: there is no pages.jsonl or .zst in it")
        super().__init__(pages, folder / "pairs.tsv")
        self.name = str(folder)
        self._meta = _either(folder, "labels_meta.jsonl")
        every = folder / "allpairs_j.npz"
        self._every = every if every.is_file() else None
        if self._every is None and not self._pairs.is_file():
            raise UsageError(f"{folder} has no labels: neither pairs.tsv nor allpairs_j.npz")


def count_words(text: str) -> int:
    """Return the length of a text: its words, and its characters where none stand between spaces."""
    return sum(1 for _ in _WORD.finditer(text))


def _either(folder: Path, name: str) -> Path | None:
    """Return a file, or its compressed form; None if there is neither."""
    found = (folder / name, folder / f"{name}.zst")
    return next((path for path in found if path.is_file()), None)


def _unknown(listed: ListedPairs | None, n: int) -> Pages:
    """Return what is known of pages without a word about them: what the labels connect."""
    if listed is None:
        return Pages(np.arange(n))
    near = listed.label == 1
    return Pages(clusters(listed.a[near], listed.b[near], n))


def _numbered(names: Iterable[str]) -> Numbers:
    """Return a number for each name, the same for the same name."""
    listed = list(names)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(listed))}
    return np.array([numbers[name] for name in listed], np.int64)


def _same_group(
    pages: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], n: int
) -> npt.NDArray[np.int64]:
    """Return the keys of all pairs of these pages in one group."""
    members: defaultdict[int, list[int]] = defaultdict(list)
    for page in pages.tolist():
        members[int(groups[page])].append(page)
    pairs = [pair for group in members.values() for pair in combinations(group, 2)]
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    return pair_keys(ends[:, 0], ends[:, 1], n)


def _read_pairs(path: Path, ids: list[str]) -> ListedPairs:
    """Read a list of pairs: tabs between the columns, named in the first line or in this order."""
    number_of = {name: number for number, name in enumerate(ids)}
    places = {"page_a": 0, "page_b": 1, "label": 2, "kind": 3}
    rows: dict[tuple[int, int], tuple[int, str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        try:
            for number, line in enumerate(file, 1):
                cells = line.rstrip("\r\n").split("\t")
                if number == 1 and "page_a" in cells:
                    places = {name: at for at, name in enumerate(cells)}
                    if missing := {"page_b", "label"} - places.keys():
                        raise _Fault(f"there is no column {min(missing)}")
                elif line.strip():
                    pair, label, kind = _pair(cells, places, number_of)
                    if rows.setdefault(pair, (label, kind))[0] != label:
                        raise _Fault(f"{cells[:2]} had another label before")
        except _Fault as fault:
            raise DedupError(f"{path}: line {number}: {fault}; correct or remove it") from fault
        except UnicodeDecodeError as error:
            raise DedupError(f"{path}: it is not UTF-8 ({error})") from error
    if not rows:
        raise DedupError(f"{path}: it contains no pairs; give lines page_a, page_b, label, kind")
    ends = np.array(list(rows), np.int64)
    labels = np.array([label for label, _ in rows.values()], np.int8)
    return ListedPairs(ends[:, 0], ends[:, 1], labels, [kind for _, kind in rows.values()])


class _Fault(Exception):
    """What is wrong with a line."""


def _pair(
    cells: list[str], places: dict[str, int], number_of: dict[str, int]
) -> tuple[tuple[int, int], int, str]:
    a_at, b_at, label_at = (places[name] for name in ("page_a", "page_b", "label"))
    if len(cells) <= max(a_at, b_at, label_at):
        raise _Fault(f"{len(cells)} columns; it takes two ids and a label, with tabs between")
    for at in (a_at, b_at):
        if cells[at] not in number_of:
            raise _Fault(f"{cells[at]!r} is not the id of a page")
    a, b = sorted((number_of[cells[a_at]], number_of[cells[b_at]]))
    if a == b:
        raise _Fault(f"{cells[a_at]!r} stands on both sides")
    if cells[label_at] not in LABELS:
        raise _Fault(f"the label {cells[label_at]!r} is none of {', '.join(LABELS)}")
    kind_at = places.get("kind", len(cells))
    return (a, b), LABELS[cells[label_at]], cells[kind_at] if kind_at < len(cells) else ""


def _order(path: Path, ids: list[str]) -> npt.NDArray[np.int64]:
    """Return for each entry of order.json the number of its page."""
    try:
        order = msgspec.json.decode(path.read_bytes(), type=list[str])
    except msgspec.MsgspecError as error:
        raise DedupError(f"{path}: {error}; give a list of page ids") from error
    number_of = {name: number for number, name in enumerate(ids)}
    if len(order) != len(ids) or set(order) != number_of.keys():
        raise DedupError(
            f"{path}: its {len(order)} ids are not those of the {len(ids)} pages; each page must "
            "be there once"
        )
    return np.array([number_of[name] for name in order], np.int64)


def _rows(path: Path, n: int) -> npt.NDArray[np.float64]:
    """Return the rows (i, j, J) of a file of all pairs."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            rows = np.asarray(arrays["main"], np.float64)
    except (ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise DedupError(f"{path}: there is no array 'main' to be read ({error})") from error
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise DedupError(f"{path}: 'main' has shape {rows.shape}; it must be rows of (i, j, J)")
    ends = rows[:, :2]
    wrong = ~np.isfinite(rows).all(1) | (ends[:, 0] == ends[:, 1])
    wrong |= ((ends < 0) | (ends >= n) | (ends != np.floor(ends))).any(1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DedupError(
            f"{path}: row {row} of 'main', {rows[row].tolist()}, is no pair of the {n} pages"
        )
    return rows
