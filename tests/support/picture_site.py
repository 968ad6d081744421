"""A site of pages of one image: a few words of each page's own, under a staff list that all pages have; and pages of which
each visit shows some other words, beside many of their own."""

import random

WORDS = [a + b for a in "ka lo mi ne pu ra so".split() for b in "bel dor fin gam lux mor".split()]
SITE = "http://pictures.example"


def text(seed: int, words: int) -> str:
    """Return words, other ones for each seed."""
    numbers = random.Random(seed)
    return " ".join(numbers.choice(WORDS) for _ in range(words))


def picture(number: int, own: int = 4, source: int | None = None) -> str:
    """Return a page; own is how many words it has of its own, source the number of its image."""
    staff = "".join(f"<p>{text(900 + i, 30)}.</p>" for i in range(5))
    return (
        f"<title>Picture {number}</title><img src={number if source is None else source}.jpg>"
        f"<p>{text(number, own)}</p><div>{staff}</div>"
    )


def article(number: int, visit: int = 0) -> str:
    """Return a page whose navigation has thirty paragraphs of its own; of the text each visit changes every 18th word."""
    rows = "".join(f"<p>{text(1000 * number + i, 40)}</p>" for i in range(30))
    words = text(number, 300).split()
    words[::18] = [f"visit{visit}"] * len(words[::18])
    return (
        f"<title>Article {number}</title><h1>Article {number}</h1><main><p>{' '.join(words)}</p></main>"
        f"<nav>{rows}</nav>"
    )


def catalogue(number: int, visit: int = 0) -> str:
    """Return a page of which little is read: an introduction to a list of links, of which one line is another at each visit."""
    rows = "".join(
        f"<li><a href=/{number}/{i}>{text(1000 * number + i + visit * (i == 0), 20)}</a>"
        for i in range(20)
    )
    return f"<title>List {number}</title><p>{text(1, 40)}.</p><ul>{rows}</ul>"


def learned_late(found: list[str]) -> bool:
    """Whether the first of 60 pages are taken for copies, and none of the later ones: status and reason of each."""
    return found[1:10] == ["near_duplicate"] * 9 and set(found[30:]) == {"exempt unread"}
