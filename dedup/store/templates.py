"""What is learned of the sites: the template, the blocks of text that stand on many pages of a site.

    PageReading -> learned(): how much of it is template, or new (Share); its blocks are counted -> its PageFingerprint,
    `unread` or `partly` where what was read does not stand for the page

A site's menus, slogans and notices stand on many of its pages; who crawls the site sees that. A page is not judged by its
text (`unread`) if what was read of it is template and nearly nothing else, or if most of what no other page has was not
read; where much of that was not read (`partly`), its title and canonical URL count.

A page counts once, and only if no page of its title was counted before: copies, and pages of one template without
titles, make no template. Of such a page counts what no page had: it is not new any more. Counts are kept beside the store, in
`site-blocks`, and read again when it is opened. A file that is damaged, or of another recipe, is made again: what it held is
learned again, and until then pages are judged as those of a new site.

Invariants: this only informs the verdict; nothing of it is part of a fingerprint. Memory is bounded, by a table for each
site that grows up to MOST_SETS (160 kB), and by MOST_BYTES for all sites, of which those that were not seen for the longest
time are forgotten. What is forgotten is learned again.
"""

import logging
import threading
from math import ceil
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from dedup.core.files import CHECKSUM_BYTES, PRIVATE, checksum, replace_file
from dedup.core.native import ffi, lib
from dedup.model.names import count
from dedup.model.page import PageFingerprint
from dedup.model.recipes import NEVER

SITE_BLOCKS = "site-blocks"
SAVED_AFTER = 4096  # pages that were counted

# A block is template if it stands on more than so many pages of its site: a share of those counted, within bounds.
TEMPLATE_LEAST, TEMPLATE_MOST, TEMPLATE_SHARE = 10, 50, 0.3
SHARED_PAGES = 30  # a block on more pages of its site is shared

TEMPLATE_READ = 0.7  # a page of which so much of what was read is template,
BESIDE_TEMPLATE = 40  # and fewer other words than this, is not judged by its text;
LEFT_MORE = 20  # nor is one with so many more new words that were not read than words that were;
PARTLY = 0.5  # of one with so much of them, and as many more, title and canonical URL count
# Of a page with fewer shingles than this that are not shared, half of these have to be in a page that it is like.
OWN_LITTLE = 60

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
    fresh        words that were read, and that no earlier page has
    """

    pages: int = 0
    read: int = 0
    template: int = 0
    left: int = 0
    template_pages: int = 0
    shared: int = 0
    fresh: int = 0


def template_above(pages: int) -> int:
    """Return on how many pages a block may stand before it is template, if so many pages of its site were counted."""
    return min(TEMPLATE_MOST, max(TEMPLATE_LEAST, int(TEMPLATE_SHARE * pages)))


def is_unread(share: Share) -> bool:
    """Whether what was read does not stand for the page."""
    return is_template(share) or is_left(share)


def is_template(share: Share) -> bool:
    """Whether what was read of a page is the template of its site and nearly nothing else."""
    return (
        0 < share.read * TEMPLATE_READ <= share.template
        and share.read - share.template < BESIDE_TEMPLATE
    )


def is_left(share: Share) -> bool:
    """Whether most of what no earlier page has was not read."""
    return share.left > share.read + LEFT_MORE


def is_partly(share: Share) -> bool:
    """Whether what was read stands for a part of the page only: as equal as it may be, it makes no equal pages."""
    return share.left > PARTLY * share.read + LEFT_MORE


def is_seen(share: Share) -> bool:
    """Whether of what a page says beside the template earlier pages have the most: new, read or not, is half as much or less."""
    return share.fresh + share.left <= PARTLY * (share.read - share.template - share.fresh)


def least_similarity(share: Share) -> float:
    """Return how similar another page must be: for the words that this one does not share with many pages to be similar by half.

    Two pages of n shingles with the similarity J have u = 2 n / (1 + J) together, of which F stand on many pages; of the
    others J u - F are common to both. Where fewer than OWN_LITTLE of them are its own, that is to be half of u - F and more.
    In hundredths, rounded up: a service is told.
    """
    n, shared = share.read, share.shared
    if n - shared >= OWN_LITTLE or not shared:
        return 0.0
    return ceil(100 * (2 * n + shared) / (4 * n - shared)) / 100


class Templates:
    """The templates of sites. For several threads; pages are counted in the order in which they come."""

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

    def learned(self, page: PageFingerprint, blocks: bytes, site: str) -> PageFingerprint:
        """Count the blocks of a page of a site, and return its fingerprint.

        It is `unread` if what was read does not stand for it, `partly` if it stands for a part of it.
        """
        if not blocks or not site:
            return page
        with self._lock:
            table = self._table(site)
            share = self._tell(blocks, table)
            self._count(table, page.title, blocks)
            if self._file is not None and self._unsaved >= SAVED_AFTER:
                self._save(self._file)
        left, template = is_left(share), is_template(share)
        unread = page.unread or left or template
        partly = not unread and is_partly(share)
        least = NEVER if left and page.features else least_similarity(share)
        if template and not left and not is_seen(share):
            least = 0.0
        if not (unread or partly or least):
            return page
        return replace(page, unread=unread, partly=partly, least=least)

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
            share.fresh,
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


def in_words(share: Share) -> str:
    """Return how much of a page its site's memory knows, as a sentence."""
    read = f"read {count(share.read, 'word')}"
    if share.template:
        read += f", {share.template:,} of them on {share.template_pages:,} of the {share.pages:,} pages of this site"
    left = f"; {count(share.left, 'word')} not read are on none of them"
    return read + (left if share.left else "; of what was not read nothing is new")


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
