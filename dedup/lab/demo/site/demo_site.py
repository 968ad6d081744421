"""The demo site: its pages, what each of them really is, and their bytes.

Rule: `Site(pages, seed)` is the same everywhere and never changes; `render` is a function of path
and tick, so a second request differs as on a living site, and any request can be repeated.
"""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

from dedup.lab.demo.site.page_kinds import Truth
from dedup.lab.demo.site.shells import render
from dedup.lab.demo.site.site_plan import START, plan

__all__ = ["Site"]


class Site:
    """A generated news site of `pages` URLs, all reachable from `start`.

    truth  what each page is, by path
    Raises UsageError if pages is too small for every kind of page to occur.
    """

    start = START

    def __init__(self, pages: int = 500, seed: int = 1) -> None:
        self._pages = plan(pages, seed)
        self._seed = seed
        self.truth: Mapping[str, Truth] = MappingProxyType(
            {path: page.truth for path, page in self._pages.items()}
        )

    def render(self, path: str, tick: int) -> tuple[int, str, bytes]:
        """Return status, content type and body of the tick-th request, made for that path."""
        page = self._pages.get(path)
        if page is None:
            return 404, "text/plain; charset=utf-8", b"There is no such page.\n"
        rng = Random(f"{self._seed} {path} {tick}")
        return 200, "text/html; charset=utf-8", render(page, self._pages, rng).encode()

    def links(self, path: str) -> list[str]:
        """Return the paths that the page links to, each once."""
        return self._pages[path].links

    def text(self, path: str) -> str:
        """Return the page's main content: title, paragraphs and caption, without any shell."""
        return self._pages[path].story.text
