"""What a detector learns of its sites: the template, the blocks of text that stand on many pages of a site.

    PageReading -> learned(): how much of it is template, or new (Share); its blocks are counted -> its PageFingerprint,
    `unread` or `partly` where what was read does not stand for the page

A site's menus, slogans and notices stand on many of its pages; who crawls the site sees that (dedup.store.site_blocks). A page
is not judged by its text (`unread`) if what was read of it is template and nearly nothing else, or if most of what no other
page has was not read; where much of that was not read (`partly`), its title and canonical URL count.

Invariant: this only informs the verdict; nothing of it is part of a fingerprint.
"""

from math import ceil

from msgspec.structs import replace

from dedup.model.names import count
from dedup.model.page import PageFingerprint
from dedup.model.policy import NEVER
from dedup.store.site_blocks import Share, SiteBlocks

TEMPLATE_READ = 0.7  # a page of which so much of what was read is template,
BESIDE_TEMPLATE = 40  # and fewer other words than this, is not judged by its text;
LEFT_MORE = 20  # nor is one with so many more new words that were not read than words that were;
PARTLY = 0.5  # of one with so much of them, and as many more, title and canonical URL count
# Of a page with fewer shingles than this that are not shared, half of these have to be in a page that it is like.
OWN_LITTLE = 60


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


class Templates(SiteBlocks):
    """The templates of sites."""

    def learned(self, page: PageFingerprint, blocks: bytes, site: str) -> PageFingerprint:
        """Count the blocks of a page of a site, and return its fingerprint.

        It is `unread` if what was read does not stand for it, `partly` if it stands for a part of it.
        """
        if not blocks or not site:
            return page
        share = self.counted(page.title, blocks, site)
        left, template = is_left(share), is_template(share)
        unread = page.unread or left or template
        partly = not unread and is_partly(share)
        least = NEVER if left and page.features else least_similarity(share)
        if not (unread or partly or least):
            return page
        return replace(page, unread=unread, partly=partly, least=least)


def in_words(share: Share) -> str:
    """Return how much of a page its site's memory knows, as a sentence."""
    read = f"read {count(share.read, 'word')}"
    if share.template:
        read += f", {share.template:,} of them on {share.template_pages:,} of the {share.pages:,} pages of this site"
    left = f"; {count(share.left, 'word')} not read are on none of them"
    return read + (left if share.left else "; of what was not read nothing is new")
