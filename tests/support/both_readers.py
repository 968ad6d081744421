"""A page read by the native core and by the oracle, which must agree."""

import oracle

from dedup.core.fingerprint import fingerprint, main_words


def kept_words(html: str) -> list[str]:
    """Return the words that both keep, in the page's order."""
    page = oracle.read_html(html.encode())
    found = main_words(html)
    assert [oracle.Block(*block) for block in found] == page.blocks
    made = fingerprint(html)
    assert (made.value, made.sketch, made.features) == (page.value, page.sketch, page.features)
    return [word for block in found for word in block.tokens]
