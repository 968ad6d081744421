"""Draws the picture of README beside this file: python docs/pictures/page.py."""

from tables import Picture

SAME = (
    "The council met on Tuesday and agreed to",
    "widen the bridge over the river next year.",
    "Work begins in spring, the mayor said.",
)
MARKED = (
    ("08:15, 412 readers", "Also read: a new school"),
    ("17:40, 998 readers", "Also read: the harbour"),
)


def page() -> None:
    """Two pages that differ in a few words, and what becomes of them."""
    p = Picture("Two pages with nearly the same text; the second one is dropped", 720, 240)
    addresses = ("/news/bridge-17", "/news/bridge-17?sid=7f3a")
    ends = (
        "parsed, and remembered once its items are through",
        "dropped: 96 % similar to /news/bridge-17",
    )
    for i, (address, end) in enumerate(zip(addresses, ends, strict=True)):
        x = 20 + i * 360
        p.rect(x, 36, 320, 146, "off")
        p.rect(x, 36, 320, 146)
        p.text(x, 24, address, "code")
        for n, line in enumerate(SAME):
            p.text(x + 14, 62 + n * 22, line)
        for n, words in enumerate(MARKED[i]):
            p.rect(x + 10, 122 + n * 26, 170, 20, "bad")
            p.text(x + 14, 137 + n * 26, words, "mark")
        p.arrow(x + 160, 182, x + 160, 206)
        p.rect(x, 206, 320, 28, "cd"[i])
        p.rect(x, 206, 320, 28)
        p.text(x + 160, 225, end, "mid small")
    p.save("page.svg")


if __name__ == "__main__":
    page()
