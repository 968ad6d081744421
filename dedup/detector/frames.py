"""What a detector learns of its sites: the frame, the blocks of text that stand on many pages of a site.

    PageReading -> learned() -> its PageFingerprint, `unread` or `partly` where what was read does not stand for the page

Counts of blocks are kept beside the store, in `site-blocks`, and read again when it is opened. A file that is damaged, or
of another recipe, is made again: what it held is learned again, and until then pages are judged as those of a new
site. rules.py decides what is frame.
"""

import logging
import threading
from pathlib import Path

from msgspec.structs import replace

from dedup.core.files import PRIVATE, replace_file
from dedup.core.site_blocks import Share, SiteBlocks
from dedup.detector.rules import frame_above, is_partly, is_unread
from dedup.model.page import PageFingerprint

SITE_BLOCKS = "site-blocks"
SAVED_AFTER = 4096  # counted pages

log = logging.getLogger(__name__)


class Frames:
    """The frames of sites. For several threads; pages are counted in the order in which they come."""

    def __init__(self, recipe: str, folder: Path | None = None, begin: Path | None = None) -> None:
        """Load what is kept in a folder for a recipe, if there is something. Raises OSError.

        folder  where it is to be kept; None: in memory only
        begin   the folder to load it from, if that is another one
        """
        self._recipe = recipe
        self._file = None if folder is None else folder / SITE_BLOCKS
        self._lock = threading.Lock()
        first = begin or folder
        self._blocks = SiteBlocks() if first is None else _load(first / SITE_BLOCKS, recipe)
        self._saved = 0  # pages that were counted at the last save

    def learned(self, page: PageFingerprint, blocks: bytes, site: str) -> PageFingerprint:
        """Count the blocks of a page of a site, and return its fingerprint.

        It is `unread` if what was read does not stand for it, `partly` if it stands for a part of it.
        """
        if not blocks or not site:
            return page
        with self._lock:
            before = self._blocks.counted
            self._blocks.count(site, page.title, blocks)
            share = self._share(blocks, site, self._blocks.counted - before)
            unread = page.unread or is_unread(share)
            if self._file is not None and self._blocks.counted - self._saved >= SAVED_AFTER:
                self._save(self._file)
        partly = not is_unread(share) and is_partly(share)
        if (unread, partly) == (page.unread, page.partly):
            return page
        return replace(page, unread=unread, partly=partly)

    def sites(self) -> list[str]:
        """Return the sites of which something is known."""
        with self._lock:
            return self._blocks.sites()

    def share(self, blocks: bytes, site: str) -> Share:
        """Return how much of a page is known of its site, without counting it."""
        with self._lock:
            return self._share(blocks, site, 0)

    def _share(self, blocks: bytes, site: str, left_most: int) -> Share:
        above = frame_above(self._blocks.pages(site))
        return self._blocks.tell(site, blocks, above, left_most)

    def save(self, folder: Path | None = None) -> None:
        """Write what was learned since the last time, to its own folder; or all of it to another one. Raises OSError."""
        with self._lock:
            if folder is not None:
                self._save(folder / SITE_BLOCKS)
            elif self._file is not None and self._blocks.counted != self._saved:
                self._save(self._file)

    def _save(self, file: Path) -> None:
        replace_file(file, self._blocks.to_bytes(self._recipe), PRIVATE)
        self._saved = self._blocks.counted


def _load(file: Path, recipe: str) -> SiteBlocks:
    try:
        return SiteBlocks.from_bytes(file.read_bytes(), recipe)
    except FileNotFoundError:
        return SiteBlocks()
    except ValueError as error:
        log.warning(
            "%s is damaged (%s): what it held of the sites' blocks is learned again", file, error
        )
        return SiteBlocks()
