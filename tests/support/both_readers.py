"""A page read by the native core and by the oracle, which must agree."""

import oracle

from dedup.core.fingerprint import PageReading, main_words, read_page
from dedup.model.page import PageFingerprint


def as_reading(page: oracle.Reading, recipe: str = "words-0-9") -> PageReading:
    """Return what the oracle found as the package gives it."""
    identity = page.title << 32 | page.canonical
    found = PageFingerprint(
        page.value, page.sketch, identity, page.features, recipe, page.unread,
        thing=page.thing, parts=page.parts,
    )  # fmt: skip
    return PageReading(found, page.text_bytes, page.data_bytes, page.words, page.words_read)


def kept_words(html: str) -> list[str]:
    """Return the words that both keep, in the page's order."""
    page = oracle.read_html(html.encode())
    found = main_words(html)
    assert [oracle.Block(*block) for block in found] == page.blocks
    assert read_page(html) == as_reading(page)
    return [word for block in found for word in block.tokens]
