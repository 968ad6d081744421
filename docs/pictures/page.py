"""Draws the picture of README beside this file: python docs/pictures/page.py."""

from tables import Picture


def page() -> None:
    """The way of a page through the add-on."""
    p = Picture("The way of a page", 720, 206)
    steps = (
        ("fetched page", "Scrapy", "off"),
        ("main text", "native reader", "a"),
        ("fingerprint", "64-bit simhash", "a"),
        ("table", "accepted pages", "b"),
    )
    for i, (words, note, style) in enumerate(steps):
        x = 20 + i * 160
        p.rect(x, 40, 120, 54, style)
        p.rect(x, 40, 120, 54)
        p.text(x + 60, 64, words, "mid")
        p.text(x + 60, 82, note, "mid small note")
        if i:
            p.arrow(x - 40, 67, x, 67)
    p.text(20, 24, "Before a page is parsed: is there an accepted page with nearly the same text?")
    for x, words, note, style in (
        (140, "no: parsed", "remembered once its items are through", "c"),
        (480, "yes: dropped", "with its outlinks; says of which page", "d"),
    ):
        p.rect(x, 140, 220, 54, style)
        p.rect(x, 140, 220, 54)
        p.text(x + 110, 164, words, "mid")
        p.text(x + 110, 182, note, "mid small note")
    p.arrow(560, 94, 560, 140)
    p.arrow(530, 94, 360, 144)
    p.save("page.svg")


if __name__ == "__main__":
    page()
