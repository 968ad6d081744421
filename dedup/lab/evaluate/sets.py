"""Labelled sets: a folder with all there is to know, pages and a list of pairs, or the demo's pages.

    folder:  pages.jsonl[.zst]         id, url, html: a page a line
             pairs.tsv                 page_a, page_b, label (1, 0 or U), kind ...
             labels_meta.jsonl[.zst]   id, src, grp, kind, lang, main (the reference text)
             allpairs_j.npz            main: rows (i, j, J), J the similarity of the reference texts
             order.json                the ids that i and j count
    files:   --pages and --pairs, in the same formats
    labels -> is this pair of near-duplicates? 1 yes, 0 no, -1 left open

Invariants:
  - Pages are their numbers, 0 to n - 1, and a pair (a, b) has a < b.
  - Whatever is not as stated is named, with its file and line, before anything is measured with it. Of all
    pairs, J >= 0.9 is a near-duplicate, J > 0.5 is left open, and a pair without a row is none; two soft 404
    pages are near-duplicates in one group and left open in two.
  - Of the demo's pages those of one group have the same main content and are near-duplicates; variants of one
    product are left open (they are alike by the paper's definition, and not the same); all other pairs are none.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from dedup.lab.evaluate.page_files import Page, Progress, read_pages, read_records
from dedup.model.errors import DedupError, UsageError

# ------------------------------------------------------------------------------------------- labels


OPEN = -1

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.int8]


class Listed(msgspec.Struct, frozen=True):
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
    listed: Listed | None
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


class Source(Protocol):
    """Where a set comes from. pages() may be called again and yields the same."""

    name: str

    def pages(self, progress: Progress | None = None) -> Iterator[Page]:
        """Yield the pages."""

    def labels(self, ids: list[str]) -> Labels:
        """Return what is known of the pages with these ids, numbered in this order."""


class _Meta(msgspec.Struct, frozen=True):
    id: str
    grp: str
    kind: str = "real"
    lang: str = ""
    src: str = ""
    main: str | None = None


class FolderSet:
    """A set in a folder. Raises UsageError if it has no pages, or no labels of pairs."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        pages = _either(folder, "pages.jsonl")
        if pages is None:
            raise UsageError(f"{folder} is no labelled set: there is no pages.jsonl or .zst in it")
        self._pages = pages
        self._meta = _either(folder, "labels_meta.jsonl")
        self._pairs = folder / "pairs.tsv"
        self._every = folder / "allpairs_j.npz"
        if not (self._pairs.is_file() or self._every.is_file()):
            raise UsageError(f"{folder} has no labels: neither pairs.tsv nor allpairs_j.npz")

    def pages(self, progress: Progress | None = None) -> Iterator[Page]:
        """Yield the pages."""
        return read_pages(self._pages, progress)

    def labels(self, ids: list[str]) -> Labels:
        """Return what the folder tells. Raises DedupError naming a file, OSError."""
        listed = _read_pairs(self._pairs, ids) if self._pairs.is_file() else None
        pages = self._read_meta(ids, listed)
        every = self._read_every(ids, pages) if self._every.is_file() else None
        if self._meta is None and every is not None:
            pages = Pages(clusters(*every.near(), len(ids)))
        return Labels(pages, listed, every)

    def _read_meta(self, ids: list[str], listed: Listed | None) -> Pages:
        if self._meta is None:
            return _unknown(listed, len(ids))
        found: dict[str, tuple[_Meta, int | None]] = {}
        wanted = set(ids)
        for number, meta in read_records(self._meta, _Meta):
            if meta.id in wanted and meta.id not in found:
                words = None if meta.main is None else count_words(meta.main)
                found[meta.id] = msgspec.structs.replace(meta, main=None), words
            elif meta.id in wanted:
                raise DedupError(f"{self._meta}: line {number}: {meta.id!r} was there before")
        if missing := [i for i in ids if i not in found]:
            raise DedupError(
                f"{self._meta}: it has no line for {missing[0]!r}; every page needs one"
            )
        metas = [found[i][0] for i in ids]
        lengths = [found[i][1] for i in ids]
        names = {name: number for number, name in enumerate(dict.fromkeys(m.grp for m in metas))}
        return Pages(
            np.array([names[m.grp] for m in metas], np.int64),
            [m.kind for m in metas],
            [m.lang for m in metas],
            [m.src for m in metas],
            None if None in lengths else np.array(lengths, np.int64),
        )

    def _read_every(self, ids: list[str], pages: Pages) -> Every:
        n = len(ids)
        at = _order(self._every.with_name("order.json"), ids)
        rows = _rows(self._every, n)
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


class FileSet:
    """Pages and a list of labelled pairs.

    complete says that the list names every near-duplicate, so that all pairs have a label.
    """

    def __init__(self, pages: Path, pairs: Path, *, complete: bool = False) -> None:
        self.name = str(pages)
        self._pages, self._pairs, self._complete = pages, pairs, complete

    def pages(self, progress: Progress | None = None) -> Iterator[Page]:
        """Yield the pages."""
        return read_pages(self._pages, progress)

    def labels(self, ids: list[str]) -> Labels:
        """Return the labels of the list. Raises DedupError naming a line, OSError."""
        listed = _read_pairs(self._pairs, ids)
        every = None
        if self._complete:
            keys = pair_keys(listed.a, listed.b, len(ids))
            order = np.argsort(keys)
            order = order[listed.label[order] != 0]
            every = Every(keys[order], listed.label[order], np.zeros(len(ids), bool))
        return Labels(_unknown(listed, len(ids)), listed, every)


def count_words(text: str) -> int:
    """Return the length of a text: its words, and its characters where none stand between spaces."""
    return sum(1 for _ in _WORD.finditer(text))


def _either(folder: Path, name: str) -> Path | None:
    """Return a file, or its compressed form; None if there is neither."""
    found = (folder / name, folder / f"{name}.zst")
    return next((path for path in found if path.is_file()), None)


def _unknown(listed: Listed | None, n: int) -> Pages:
    """Return what is known of pages without a word about them: what the labels connect."""
    if listed is None:
        return Pages(np.arange(n))
    near = listed.label == 1
    return Pages(clusters(listed.a[near], listed.b[near], n))


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


def _read_pairs(path: Path, ids: list[str]) -> Listed:
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
        raise DedupError(f"{path}: there is no pair in it; give lines page_a, page_b, label, kind")
    ends = np.array(list(rows), np.int64)
    labels = np.array([label for label, _ in rows.values()], np.int8)
    return Listed(ends[:, 0], ends[:, 1], labels, [kind for _, kind in rows.values()])


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


# --------------------------------------------------------------------------------- the demo's pages


STEP = 16  # pages between two calls of progress


class GeneratedSet:
    """The demo site with a number of pages. Raises UsageError if they are fewer than it needs."""

    def __init__(self, pages: int, seed: int = 1) -> None:
        self.name = f"generated site, {pages} pages, seed {seed}"
        from dedup.lab.demo.site.site import Site  # only this set reads the demo's words

        self._site = Site(pages, seed)

    def pages(self, progress: Progress | None = None) -> Iterator[Page]:
        """Yield the pages, each as its first request gets it."""
        total = len(self._site.truth)
        for number, path in enumerate(self._site.truth):
            if progress and number % STEP == 0:
                progress(number, total)
            _, _, body = self._site.render(path, number)
            yield Page(path, body.decode(), f"http://localhost{path}")
        if progress:
            progress(total, total)

    def labels(self, ids: list[str]) -> Labels:
        """Return what the site knows of its pages."""
        truths = [self._site.truth[path] for path in ids]
        members: dict[str, list[int]] = {}
        families: dict[str, list[int]] = {}
        for number, truth in enumerate(truths):
            members.setdefault(truth.group, []).append(number)
            if truth.family:
                families.setdefault(truth.family, []).append(number)
        marks = {pair: OPEN for family in families.values() for pair in combinations(family, 2)}
        marks |= {pair: 1 for group in members.values() for pair in combinations(group, 2)}
        ends = np.array(sorted(marks), np.int64).reshape(-1, 2)
        every = Every(
            pair_keys(ends[:, 0], ends[:, 1], len(ids)),
            np.array([marks[pair] for pair in sorted(marks)], np.int8),
            np.zeros(len(ids), bool),
        )
        together = [truth.family or truth.group for truth in truths]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(together))}
        pages = Pages(
            np.array([numbers[name] for name in together], np.int64),
            ["original" if truth.kind == "article" else truth.kind for truth in truths],
            [truth.language for truth in truths],
            None,
            np.array([count_words(self._site.text(path)) for path in ids], np.int64),
        )
        return Labels(pages, None, every)
