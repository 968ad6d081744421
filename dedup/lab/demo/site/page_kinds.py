"""What a page of the demo site is, before it is dressed in a shell.

Rule: values only, all frozen; `plan` makes them, `shells` shows them, `Truth` is what a test or the
demo's report compares a verdict with.
"""

from typing import Literal, get_args

import msgspec

from dedup.lab.demo.site.articles import Story

__all__ = ["KINDS", "Kind", "Page", "Truth"]

Kind = Literal[
    "front",  # the start page
    "section",  # the start page of a section
    "listing",  # one page of a section's archive: text alike, links new
    "article",  # an original
    "event",  # a report of an event on which others report in other words
    "variant",  # a product page that differs from its family in a few words
    "session",  # a copy under a session id; all its links carry the id
    "print",  # a copy with other advertisements and a plainer look
    "stamp",  # a copy with another time and view counter
    "related",  # a copy with other related links
    "syndicated",  # a copy on a partner's site, in another shell
    "soft404",  # "page not found", said with HTTP status 200
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Truth(msgspec.Struct, frozen=True):
    """What a page really is. Pages of one group have the same main content."""

    path: str
    kind: Kind
    group: str
    language: str
    family: str = ""  # variants of one family are near-duplicates of each other


class Page(msgspec.Struct, frozen=True):
    """A page before it is dressed: what it says, in which look, and the links in their places."""

    truth: Truth
    look: str
    story: Story
    nav: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()  # inside the paragraphs
    items: tuple[str, ...] = ()  # the teasers of front, section and listing pages
    related: tuple[str, ...] = ()
    popular: tuple[str, ...] = ()
    more: tuple[str, ...] = ()  # copies of this page, broken links, pagination
    original: str = ""  # a copy's original

    @property
    def links(self) -> list[str]:
        """Every path this page links to, once."""
        places = (self.nav, self.inline, self.items, self.related, self.popular, self.more)
        return list(dict.fromkeys(path for place in places for path in place))
