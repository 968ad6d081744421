"""Pages to be measured: JSON lines, a page each, compressed or not; and their fingerprints.

    file -> lines -> Page(id, url, html) -> Prints (an array for each field)

Invariant: a set is read through and never held; memory does not grow with the pages' bytes.
What is not a page is named with its file and line.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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

WINDOW_BYTES = 2**31  # the widest window that zstd's --ultra --long writes
LINE_BYTES = 1 << 28  # of the longest line
CHUNK_BYTES = 1 << 20  # of text handed on at once
READ_BYTES = 1 << 14  # read at once from a compressed file
STEP = 64  # pages between two calls of progress

Progress = Callable[[int, int], None]  # done, in all
Words = npt.NDArray[np.uint64]
T = TypeVar("T")


class Page(msgspec.Struct, frozen=True):
    """A page of a set; its id is unique there, its url may be empty."""

    id: str
    html: str
    url: str = ""


class Prints(msgspec.Struct, frozen=True):
    """The fingerprints of n pages, an array of shape (n,) for each number; ids in the same order.

    domains  the registrable domain of each page's URL, "" where there is none
    """

    ids: list[str]
    domains: list[str]
    value: Words
    sketch: list[bytes]
    identity: Words
    features: npt.NDArray[np.int64]
    unread: npt.NDArray[np.bool_]
    thing: Words
    parts: list[bytes]
    recipe: Recipe

    def __len__(self) -> int:
        """Return n."""
        return len(self.ids)

    def page(self, index: int) -> PageFingerprint:
        """Return the fingerprint of one page."""
        return PageFingerprint(
            int(self.value[index]),
            self.sketch[index],
            int(self.identity[index]),
            int(self.features[index]),
            self.recipe.id,
            bool(self.unread[index]),
            thing=int(self.thing[index]),
            parts=self.parts[index],
        )


def measure(pages: Iterable[Page], recipe: Recipe) -> Prints:
    """Fingerprint every page, in order. Raises what reading them raises, and RecipeMismatch."""
    ids: list[str] = []
    domains: list[str] = []
    prints: list[PageFingerprint] = []
    for page in pages:
        ids.append(page.id)
        domains.append(registrable_domain(page.url) if page.url else "")
        prints.append(fingerprint(page.html, url=page.url or None, recipe=recipe))
    return Prints(
        ids,
        domains,
        np.array([p.value for p in prints], np.uint64),
        [p.sketch for p in prints],
        np.array([p.identity for p in prints], np.uint64),
        np.array([p.features for p in prints], np.int64),
        np.array([p.unread for p in prints], bool),
        np.array([p.thing for p in prints], np.uint64),
        [p.parts for p in prints],
        recipe,
    )


def read_pages(path: Path, progress: Progress | None = None) -> Iterator[Page]:
    """Yield the pages of a file of JSON lines (`.zst`: compressed), fields id, html and url.

    progress is called with the bytes read and the bytes of the file. Raises OSError, DedupError
    naming a line, and UsageError if zstandard is needed and not installed.
    """
    known: set[str] = set()
    for number, page in read_records(path, Page, progress):
        if not page.id or page.id in known:
            fault = f"the id {page.id!r} was there before" if page.id else "the id is empty"
            raise DedupError(f"{path}: line {number}: {fault}; give each page an id of its own")
        known.add(page.id)
        yield page
    if not known:
        raise DedupError(f"{path}: there is no page in it; give JSON lines with id, url and html")


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
        raise DedupError(f"{path}: line {number} has no end; give a page a line")
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
