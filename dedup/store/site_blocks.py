"""The blocks of text of each site, counted: on how many of its pages each one stands.

    blocks of a page -> how much of it stands on many earlier pages, or on none (Share) -> counted

A page counts once, and only if no page of its title was counted before: copies, and pages of one template without
titles, make no template. Of such a page counts what no page had: it is not new any more. Counts are kept beside the store, in `site-blocks`, and read again when it is opened. A file that is
damaged, or of another recipe, is made again: what it held is learned again, and until then pages are judged as those of a new site.

Invariants: memory is bounded, by a table for each site that grows up to MOST_SETS (160 kB), and by MOST_BYTES for all
sites, of which those that were not seen for the longest time are forgotten. What is forgotten is learned again.
"""

import logging
import threading
from pathlib import Path
from typing import NamedTuple

from dedup.core.files import CHECKSUM_BYTES, PRIVATE, checksum, replace_file
from dedup.core.native import ffi, lib

SITE_BLOCKS = "site-blocks"
SAVED_AFTER = 4096  # pages that were counted

# A block is template if it stands on more than so many pages of its site: a share of those counted, within bounds.
TEMPLATE_LEAST, TEMPLATE_MOST, TEMPLATE_SHARE = 10, 50, 0.3
SHARED_PAGES = 30  # a block on more pages of its site is shared

SET_BYTES: int = lib.NDD_SITE_SET
MOST_SETS = 2500  # of a site: 20,000 blocks
FIRST_SETS = 39  # with which a site begins; doubled up to MOST_SETS
WAYS = 8  # blocks of a set
MOST_BYTES = 32 << 20  # of all sites

_MAGIC = b"dedup site blocks 2\n"

log = logging.getLogger(__name__)


class Share(NamedTuple):
    """How much of a page is the template of its site, as far as earlier pages tell.

    pages        pages of the site that were counted before
    read         words of the blocks that were read
    template        those of them in blocks of the template
    left         words that were not read, and that no earlier page has
    template_pages  the least number of pages on which a block of that template stands; 0: there is none
    shared       shingles (runs of three words) of the blocks read that stand on more than SHARED_PAGES
    """

    pages: int = 0
    read: int = 0
    template: int = 0
    left: int = 0
    template_pages: int = 0
    shared: int = 0


def template_above(pages: int) -> int:
    """Return on how many pages a block may stand before it is template, if so many pages of its site were counted."""
    return min(TEMPLATE_MOST, max(TEMPLATE_LEAST, int(TEMPLATE_SHARE * pages)))


class SiteBlocks:
    """The counts of sites. For several threads; pages are counted in the order in which they come."""

    def __init__(
        self,
        recipe: str,
        folder: Path | None = None,
        begin: Path | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Load what is kept in a folder for a recipe, if there is something. Raises OSError.

        folder      where it is to be kept; None: in memory only
        begin       the folder to load it from, if that is another one
        most_bytes  bounds the tables of all sites
        """
        self._recipe = recipe
        self._file = None if folder is None else folder / SITE_BLOCKS
        self._lock = threading.Lock()
        self._sites: dict[str, bytearray] = {}  # the one seen last comes last
        self._most_bytes = most_bytes
        self._share = ffi.new("ndd_site_share *")
        self._unsaved = 0  # pages that were counted since the last save
        if (first := begin or folder) is not None:
            self._load(first / SITE_BLOCKS)
        self.bytes = sum(map(len, self._sites.values()))  # that the tables take

    def counted(self, title: int, blocks: bytes, site: str) -> Share:
        """Return how much of a page is known of its site, and count its blocks."""
        with self._lock:
            table = self._table(site)
            share = self._tell(blocks, table)
            self._count(table, title, blocks)
            if self._file is not None and self._unsaved >= SAVED_AFTER:
                self._save(self._file)
        return share

    def sites(self) -> list[str]:
        """Return the sites of which something is known."""
        with self._lock:
            return list(self._sites)

    def share(self, blocks: bytes, site: str) -> Share:
        """Return how much of a page is known of its site, without counting it."""
        with self._lock:
            table = self._sites.get(site)
            return Share() if table is None else self._tell(blocks, table)

    def save(self, folder: Path | None = None) -> None:
        """Write what was learned since the last time, to its own folder; or all of it to another one. Raises OSError."""
        with self._lock:
            if folder is not None:
                self._save(folder / SITE_BLOCKS)
            elif self._file is not None and self._unsaved:
                self._save(self._file)

    # ------------------------------------------------------------------------------- counts, in memory

    def _table(self, site: str) -> bytearray:
        """Return the counts of a site that is seen now."""
        table = self._sites.pop(site, None)
        if table is None:
            table = self._made(FIRST_SETS)
        elif lib.ndd_site_blocks(ffi.from_buffer(table)) * 2 > _sets(table) * WAYS:
            table = self._grown(table)
        self._sites[site] = table
        while self.bytes > self._most_bytes and len(self._sites) > 1:
            self.bytes -= len(self._sites.pop(next(iter(self._sites))))
        return table

    def _count(self, table: bytearray, title: int, blocks: bytes) -> None:
        before, listed = table[:8], ffi.from_buffer(blocks)
        lib.ndd_site_count(ffi.from_buffer(table), _sets(table), title, listed, len(blocks) // 8)
        self._unsaved += table[:8] != before  # its pages and blocks

    def _tell(self, blocks: bytes, table: bytearray) -> Share:
        share, pages, listed = self._share, _pages(table), ffi.from_buffer(blocks)
        lib.ndd_site_tell(
            ffi.from_buffer(table),
            _sets(table),
            listed,
            len(blocks) // 8,
            template_above(pages),
            SHARED_PAGES,
            share,
        )
        return Share(
            pages,
            share.read,
            share.template,
            share.left,
            share.pages,
            share.shared,
        )

    def _made(self, sets: int) -> bytearray:
        table = bytearray((sets + 1) * SET_BYTES)
        self.bytes += len(table)
        return table

    def _grown(self, table: bytearray) -> bytearray:
        """Return a table with more sets and the same counts, or the same one if it is as large as may be."""
        sets = _sets(table)
        if sets >= MOST_SETS:
            return table
        larger = 2 * sets if 4 * sets <= MOST_SETS else MOST_SETS
        made = self._made(larger)
        lib.ndd_site_copy(ffi.from_buffer(table), sets, ffi.from_buffer(made), larger)
        self.bytes -= len(table)
        return made

    # --------------------------------------------------------------------------------------- and on disk

    def _save(self, file: Path) -> None:
        parts: list[bytes | bytearray] = [_MAGIC, _text(self._recipe)]
        for site, table in self._sites.items():
            parts += [_text(site), _sets(table).to_bytes(4, "little"), table]
        content = b"".join(parts)
        replace_file(file, content + checksum(content), PRIVATE)
        self._unsaved = 0

    def _load(self, file: Path) -> None:
        try:
            self._sites = _read(file.read_bytes(), self._recipe)
        except FileNotFoundError:
            pass
        except ValueError as error:
            log.warning(
                "%s is damaged (%s): the templates of sites are learned again",
                file,
                error,
            )


def _read(content: bytes, recipe: str) -> dict[str, bytearray]:
    """Return the tables of a file; none if it is of another recipe. Raises ValueError for anything else."""
    body = memoryview(content)[:-CHECKSUM_BYTES]
    if not content.startswith(_MAGIC) or checksum(body) != content[-CHECKSUM_BYTES:]:
        raise ValueError("checksum mismatch")
    found: dict[str, bytearray] = {}
    held, at = _text_at(body, len(_MAGIC))
    while held == recipe and at < len(body):
        site, at = _text_at(body, at)
        sets = int.from_bytes(body[at : at + 4], "little")
        end = at + 4 + (sets + 1) * SET_BYTES
        table = bytearray(body[at + 4 : end])
        if not 0 < sets <= MOST_SETS or len(table) != end - at - 4:
            raise ValueError("a table ends before its content does")
        found[site], at = table, end
    return found


def _pages(table: bytearray) -> int:
    """Return how many pages of a site were counted."""
    return int.from_bytes(table[:4], "little")


def _sets(table: bytearray) -> int:
    return len(table) // SET_BYTES - 1


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(4, "little") + data


def _text_at(body: memoryview, at: int) -> tuple[str, int]:
    end = at + 4 + int.from_bytes(body[at : at + 4], "little")
    return bytes(body[at + 4 : end]).decode("utf-8", "surrogatepass"), end
