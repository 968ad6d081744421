"""A site of pages of one image: a few words of each page's own, under a staff list that all pages have."""

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


def learned_late(found: list[str]) -> bool:
    """Whether the first of 60 pages are taken for copies, and none of the later ones: status and reason of each."""
    return found[1:10] == ["near_duplicate"] * 9 and set(found[30:]) == {"exempt unread"}
