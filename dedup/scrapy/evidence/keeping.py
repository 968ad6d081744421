"""Callbacks whose items hold nothing but the page itself: there the text of the page decides.

    an item -> each field is the page, its address, a time, its title, or a datum -> Keeping.note()

A corpus builder yields {url, title, html}, or {url, text}; a link collector {url}. Comparing such items adds nothing
to comparing the pages. A field with the same value in all items ("source": "docs") counts for nothing beside one that
holds the page; a truth value never does, as it may be what a monitor is for.
"""

import msgspec

PAGES = 3  # of a callback that showed nothing else, before the text decides
CALLBACKS = 1000


class Shown(msgspec.Struct):
    """What an item shows of its callback.

    holds   whether a field holds the page
    says    whether a field says something else than address, time and title
    data    the fields that do, by name, with the hashes of their values
    """

    holds: bool = False
    says: bool = False
    data: dict[str, bytes] = {}


class _Callback(msgspec.Struct):
    pages: int = 0
    data: dict[str, bytes] = {}
    holds: bool = True
    keeps: bool = True


class Keeping:
    """The callbacks of one crawl."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[str, _Callback] = {}

    def note(self, callback: str, items: list[Shown]) -> None:
        """Note the items of a page."""
        if callback not in self._known and len(self._known) >= CALLBACKS:
            return
        known = self._known.setdefault(callback, _Callback())
        if not known.keeps:
            return
        for item in items:
            if not known.pages and item is items[0]:
                known.data = dict(item.data)
            known.holds = known.holds and item.holds
            known.keeps = known.keeps and item.data == known.data and (item.holds or not item.data)
        known.pages += 1

    def keeps(self, callback: str) -> bool:
        """Whether the items of a callback hold nothing but the page itself."""
        known = self._known.get(callback)
        return known is not None and known.keeps and known.pages >= PAGES
