"""On how many pages of each site a block of text stands: what a crawl learns of its sites' frames.

    the list of a page's blocks (PageReading.blocks) -> count() -> tell() -> Share -> dedup.detector.rules

A site's menus, slogans and notices stand on many of its pages; who crawls the site sees that. A page counts once, and
only if no page of its title was counted before: copies, and pages of one template without titles, teach nothing.

Invariants: memory is bounded, by a table for each site that grows up to MOST_SETS (160 kB), and by MOST_BYTES for all
sites, of which those that were not seen for the longest time are forgotten. What is forgotten is learned again. This
only informs the verdict: nothing of it is part of a fingerprint.
"""

from typing import NamedTuple

from dedup.core.files import CHECKSUM_BYTES, checksum
from dedup.core.native import ffi, lib

SET_BYTES: int = lib.NDD_SITE_SET
MOST_SETS = 2500  # of a site: 20,000 blocks
FIRST_SETS = 39  # with which a site begins; doubled up to MOST_SETS
WAYS = 8  # blocks of a set
MOST_BYTES = 32 << 20  # of all sites

_MAGIC = b"dedup site blocks 2\n"


class Share(NamedTuple):
    """How much of a page is the frame of its site.

    pages        pages of the site that were counted so far
    read         words of the blocks that were read
    frame        those of them in blocks of the frame
    left         words that were not read, are no navigation, and that no other page has
    frame_pages  the least number of pages on which a block of that frame stands; 0: there is none
    """

    pages: int
    read: int
    frame: int
    left: int
    frame_pages: int


class SiteBlocks:
    """Counts of blocks, by site. For one thread at a time."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Start without any site; most_bytes bounds the tables of all."""
        self._sites: dict[str, bytearray] = {}  # the one seen last comes last
        self._most_bytes = most_bytes
        self._share = ffi.new("ndd_site_share *")
        self.bytes = 0  # that the tables take
        self.counted = 0  # pages that taught something, since the start

    def __len__(self) -> int:
        """Return the number of sites."""
        return len(self._sites)

    def count(self, site: str, title: int, blocks: bytes) -> int:
        """Count the blocks of a page, unless one of its title was counted; return how many pages of the site were.

        title is the hash of the page's title, 0 for none.
        """
        table = self._sites.pop(site, None)
        if table is None:
            table = self._made(FIRST_SETS)
        elif lib.ndd_site_blocks(ffi.from_buffer(table)) * 2 > _sets(table) * WAYS:
            table = self._grown(table)
        self._sites[site] = table
        native = ffi.from_buffer(table)
        before = self.pages(site)
        pages: int = lib.ndd_site_count(
            native, _sets(table), title, ffi.from_buffer(blocks), len(blocks) // 8
        )
        self.counted += pages != before
        while self.bytes > self._most_bytes and len(self._sites) > 1:
            self.bytes -= len(self._sites.pop(next(iter(self._sites))))
        return pages

    def sites(self) -> list[str]:
        """Return their names."""
        return list(self._sites)

    def pages(self, site: str) -> int:
        """Return how many pages of a site were counted."""
        return int.from_bytes(self._sites.get(site, b"")[:4], "little")

    def tell(self, site: str, blocks: bytes, frame_above: int, left_most: int = 0) -> Share:
        """Return how much of a page is frame, or new.

        Frame are blocks on more than `frame_above` pages. Those on at most `left_most` are new: 1 of a page that was
        counted just now.
        """
        table = self._sites.get(site)
        if table is None:
            return Share(0, 0, 0, 0, 0)
        share = self._share
        lib.ndd_site_tell(
            ffi.from_buffer(table),
            _sets(table),
            ffi.from_buffer(blocks),
            len(blocks) // 8,
            frame_above,
            left_most,
            share,
        )
        return Share(self.pages(site), share.read, share.frame, share.left, share.pages)

    def to_bytes(self, recipe: str) -> bytes:
        """Return all counts, with a checksum: what from_bytes() takes. recipe: the id of what made the hashes."""
        parts: list[bytes | bytearray] = [_MAGIC, _text(recipe)]
        for site, table in self._sites.items():
            parts += [_text(site), _sets(table).to_bytes(4, "little"), table]
        content = b"".join(parts)
        return content + checksum(content)

    @classmethod
    def from_bytes(cls, content: bytes, recipe: str, most_bytes: int = MOST_BYTES) -> "SiteBlocks":
        """Return the counts of to_bytes(); none for another recipe. Raises ValueError for anything else."""
        made = cls(most_bytes)
        body = memoryview(content)[:-CHECKSUM_BYTES]
        if not content.startswith(_MAGIC) or checksum(body) != content[-CHECKSUM_BYTES:]:
            raise ValueError("checksum mismatch")
        held, at = _text_at(body, len(_MAGIC))
        while held == recipe and at < len(body):
            site, at = _text_at(body, at)
            sets = int.from_bytes(body[at : at + 4], "little")
            end = at + 4 + (sets + 1) * SET_BYTES
            table = bytearray(body[at + 4 : end])
            if not 0 < sets <= MOST_SETS or len(table) != end - at - 4:
                raise ValueError("a table ends before its content does")
            made._sites[site] = table
            made.bytes += len(table)
            at = end
        return made

    def _made(self, sets: int) -> bytearray:
        table = bytearray((sets + 1) * SET_BYTES)
        self.bytes += len(table)
        return table

    def _grown(self, table: bytearray) -> bytearray:
        """Return a table with more sets and the same counts, or the same one if it is as large as may be."""
        sets = _sets(table)
        if sets >= MOST_SETS:
            return table
        larger = min(2 * sets, MOST_SETS)
        if 2 * larger > MOST_SETS:
            larger = MOST_SETS
        made = self._made(larger)
        lib.ndd_site_copy(ffi.from_buffer(table), sets, ffi.from_buffer(made), larger)
        self.bytes -= len(table)
        return made


def _sets(table: bytearray) -> int:
    return len(table) // SET_BYTES - 1


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(4, "little") + data


def _text_at(body: memoryview, at: int) -> tuple[str, int]:
    end = at + 4 + int.from_bytes(body[at : at + 4], "little")
    return bytes(body[at + 4 : end]).decode("utf-8", "surrogatepass"), end
