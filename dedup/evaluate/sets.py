"""Labelled sets: pages, and which pairs of them are near-duplicates.

    pages.jsonl[.zst]         id, url, html: a page a line
    pairs.tsv                 page_a, page_b, label (1, 0, or U: undecided), with tabs between them
    labels_meta.jsonl[.zst]   id, grp, kind: only beside the file of all pairs
    allpairs_j.npz            main: rows (i, j, J), J the similarity of the pages' reference texts
    order.json                the ids that i and j count

Of all pairs J >= 0.9 is a near-duplicate, J > 0.5 is left open, and a pair without a row is none. Two soft 404 pages
are near-duplicates in one group, and left open in two.
"""

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import msgspec
import numpy as np

from dedup.model.errors import DedupError, UsageError
from dedup.model.names import install

NEAR, FAR, SOFT_404 = 0.9, 0.5, "soft404"
LABELS = {"1": 1, "0": 0, "U": None}
WINDOW_BYTES = 2**31  # the widest window that zstd's --ultra --long writes
STEP = 64  # lines between two calls of progress

Progress = Callable[[int, int], None]  # done, in all
Label = int | None  # 1 near-duplicates, 0 none, None left open
Pair = tuple[int, int]  # the numbers of two pages, a < b
T = TypeVar("T")


class SetPage(msgspec.Struct, frozen=True):
    """A page of a set; its id is unique there."""

    id: str
    html: str
    url: str = ""


class PageLabel(msgspec.Struct, frozen=True):
    """What a set knows of a page: its group; and its kind, "real" or how it was made."""

    id: str
    grp: str = ""
    kind: str = ""


class Labels(NamedTuple):
    """The labels of a set; None where it has no such file."""

    pages: list[PageLabel] | None
    listed: dict[Pair, Label] | None  # the pairs labelled one by one
    every: dict[Pair, Label] | None  # of all pairs those that are near-duplicates or left open


def read_pages(path: Path, progress: Progress | None = None) -> Iterator[SetPage]:
    """Yield the pages of a file of JSON lines. Raises as read_records()."""
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
    """Yield (line number, record) for each line of a file of JSON (`.zst`: compressed) that is not blank.

    progress is called with bytes read and bytes of the file. Raises OSError, DedupError naming the line, UsageError if
    zstandard is missing.
    """
    decode, total = msgspec.json.Decoder(kind).decode, path.stat().st_size
    with _lines(path) as (lines, raw):
        for number, line in enumerate(lines, 1):
            if progress and number % STEP == 0:
                progress(min(raw.tell(), total - 1), total)
            if line.isspace():
                continue
            try:
                yield number, decode(line)
            except (ValueError, RecursionError) as error:
                raise DedupError(f"{path}: line {number}: {error}; correct or remove it") from error
    if progress:
        progress(total, total)


@contextmanager
def _lines(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file; yield what its lines are read from, and the file itself."""
    with path.open("rb") as raw:
        if path.suffix != ".zst":
            yield raw, raw
            return
        try:
            from zstandard import ZstdDecompressor, ZstdError
        except ModuleNotFoundError as error:
            needed = f"zstandard is not installed; run: {install('eval')}"
            raise UsageError(f"{path} is compressed, and {needed}") from error
        reader = ZstdDecompressor(max_window_size=WINDOW_BYTES).stream_reader
        try:
            yield io.BufferedReader(reader(raw, read_across_frames=True)), raw
        except ZstdError as error:
            raise DedupError(f"{path}: {error}; this is no zstd file, fetch it again") from error


def either(folder: Path, name: str) -> Path:
    """Return the path of a file, or of its compressed form if that is there."""
    packed = folder / f"{name}.zst"
    return packed if packed.is_file() else folder / name


def read_labels(pairs: Path, folder: Path | None, ids: list[str]) -> Labels:
    """Read the labels of pages with these ids. Raises DedupError naming file and line, UsageError without any."""
    number_of = {name: number for number, name in enumerate(ids)}
    every = folder is not None and (folder / "allpairs_j.npz").is_file()
    listed = _read_pairs(pairs, number_of) if pairs.is_file() or not every else None
    if folder is None or not every:
        return Labels(None, listed, None)
    path = either(folder, "labels_meta.jsonl")
    known = {page.id: page for _, page in read_records(path, PageLabel)}
    if missing := [name for name in ids if name not in known]:
        raise DedupError(f"{path}: it has no line for {missing[0]!r}; every page needs one")
    pages = [known[name] for name in ids]
    return Labels(pages, listed, _every(folder, number_of, pages))


def _read_pairs(path: Path, number_of: Mapping[str, int]) -> dict[Pair, Label]:
    """Read a list of pairs; the columns are named in the first line, or stand in this order."""
    names = ["page_a", "page_b", "label"]
    found: dict[Pair, Label] = {}
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        cells = line.split("\t")
        if number == 1 and "page_a" in cells:
            names = cells
        elif line.strip():
            row = dict(zip(names, cells, strict=False))
            try:
                a, b = sorted((number_of[row["page_a"]], number_of[row["page_b"]]))
                label = LABELS[row["label"]]
            except KeyError as error:
                fault = f"{error} is no page's id, no label (1, 0, U), or a column that is missing"
                raise DedupError(f"{path}: line {number}: {fault}") from error
            if a == b or found.setdefault((a, b), label) != label:
                raise DedupError(f"{path}: line {number}: one page, or two labels of one pair")
    if not found:
        raise DedupError(f"{path}: it contains no pairs; give lines page_a, page_b, label")
    return found


def _every(folder: Path, number_of: Mapping[str, int], pages: list[PageLabel]) -> dict[Pair, Label]:
    """Read the labels of all pairs."""
    path = folder / "allpairs_j.npz"
    try:
        names = msgspec.json.decode((folder / "order.json").read_bytes(), type=list[str])
        order = [number_of[name] for name in names]
        with np.load(path, allow_pickle=False) as arrays:
            rows = [(order[int(i)], order[int(j)], float(s)) for i, j, s in arrays["main"]]
    except (ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile) as error:
        fault = (
            f"'main' must be rows (i, j, J), and order.json the ids that i and j count ({error})"
        )
        raise DedupError(f"{path}: {fault}") from error
    soft = [number for number, page in enumerate(pages) if page.kind == SOFT_404]
    found: dict[Pair, Label] = {
        (a, b): 1 if pages[a].grp == pages[b].grp else None for a, b in combinations(soft, 2)
    }
    for a, b, similarity in rows:
        if similarity > FAR and SOFT_404 not in (pages[a].kind, pages[b].kind):
            found[min(a, b), max(a, b)] = 1 if similarity >= NEAR else None
    return found
