"""Draws the pictures of docs/explain/tables.md beside this file: python docs/pictures/tables.py."""

from pathlib import Path

HERE = Path(__file__).parent
CELL, HEIGHT = 10, 22  # a bit of a fingerprint

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .small { font-size: 11px } .code { font: 12px ui-monospace, monospace } .mid { text-anchor: middle }
  .note { fill: #57606a } .line { stroke: #57606a; fill: none } .box { stroke: #8c959f; fill: none }
  .a { fill: #b6d4f2 } .b { fill: #f6d8ae } .c { fill: #c5e5c0 } .d { fill: #dccbee }
  .off { fill: #eaeef2 } .bad { fill: #c1440e } .key { fill: #1b6ca8 } .value { fill: #d0d7de }
  .mark { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #9da7b1 } .line { stroke: #9da7b1 } .box { stroke: #6e7681 }
    .a { fill: #1f4a73 } .b { fill: #6b4a16 } .c { fill: #275a2c } .d { fill: #4b3570 }
    .off { fill: #21262d } .bad { fill: #f0743e } .key { fill: #58a6ff } .value { fill: #30363d }
    .mark { fill: #0d1117 }
  }
"""


class Picture:
    """Shapes in the order they are drawn; x and y are those of the upper left."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.name, self.parts = title, []
        self.head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">\n<title>{title}</title>\n'
            f"<style>{STYLE}</style>\n"
        )

    def rect(self, x: float, y: float, width: float, height: float, style: str = "box") -> None:
        """Draw a rectangle."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{style}"/>'
        )

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        """Write words; y is that of their base line."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{words}</text>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draw an arrow."""
        self.parts.append(f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" class="line"/>')
        side = 4 if x2 >= x1 else -4
        head = (
            f"M{x2 - side:g} {y2 - 4:g}L{x2:g} {y2:g}L{x2 - side:g} {y2 + 4:g}"
            if abs(x2 - x1) > abs(y2 - y1)
            else f"M{x2 - 4:g} {y2 - 4:g}L{x2:g} {y2:g}L{x2 + 4:g} {y2 - 4:g}"
        )
        self.parts.append(f'<path d="{head}" class="line"/>')

    def blocks(self, x: float, y: float, blocks: list[tuple[int, str, str]]) -> None:
        """Draw blocks of a fingerprint: bits, style and words of each."""
        for bits, style, words in blocks:
            self.rect(x, y, bits * CELL, HEIGHT, style)
            self.rect(x, y, bits * CELL, HEIGHT)
            self.text(x + bits * CELL / 2, y + 15, words, "mid small")
            x += bits * CELL

    def differ(self, x: float, y: float, bits: list[int]) -> None:
        """Mark bits that differ."""
        for bit in bits:
            self.rect(x + bit * CELL + 2, y + 2, CELL - 4, HEIGHT - 4, "bad")

    def save(self, name: str) -> None:
        """Write it beside this file."""
        content = self.head + "\n".join(self.parts) + "\n</svg>\n"
        HERE.joinpath(name).write_text(content, encoding="utf-8")


def pigeonhole() -> None:
    """A pair cut into blocks."""
    p = Picture("Three differing bits cannot reach all of four blocks", 700, 150)
    p.text(20, 24, "Two fingerprints that differ in 3 bits, cut into 4 blocks of 16")
    for y, marks in ((40, []), (76, [5, 9, 38])):
        p.blocks(30, y, [(16, style, "") for style in "abcd"])
        p.differ(30, y, marks)
    for i, words in enumerate(("2 differ", "equal", "1 differs", "equal")):
        p.text(110 + i * 160, 120, words, "mid" if words == "equal" else "mid note")
    p.text(20, 142, "3 differences, 4 blocks: at least one block is the same in both.", "note")
    p.save("tables-pigeonhole.svg")


def permuted() -> None:
    """A sorted table, and its candidates."""
    p = Picture("A permuted table is sorted by the block that stands first", 700, 250)
    p.text(20, 24, "One of the paper's tables: block 3 first, then sorted; a probe does the same")
    p.blocks(30, 44, [(16, "a", "1"), (16, "b", "2"), (16, "c", "3"), (16, "d", "4")])
    for x1, x2 in ((430, 110), (110, 270), (270, 430), (590, 590)):
        p.arrow(x1, 66, x2, 94)
    p.blocks(30, 96, [(16, "c", "3"), (16, "a", "1"), (16, "b", "2"), (16, "d", "4")])
    p.text(110, 136, "prefix", "mid small note")
    rows = ("0017", "2f3a", "2f3a", "2f3a", "c401")
    for i, prefix in enumerate(rows):
        y, hit = 146 + i * 16, prefix == "2f3a"
        p.rect(30, y, 160, 16, "c" if hit else "off")
        p.rect(30, y, 640, 16)
        p.text(110, y + 12, prefix, "mid code")
        if hit:
            p.text(430, y + 12, "candidate: compared in full", "mid small")
    p.text(
        20, 244, "All with the prefix of the probe lie side by side: one search, one run.", "note"
    )
    p.save("tables-permuted.svg")


def thresholds() -> None:
    """Where three differences may lie in two blocks."""
    p = Picture("Two blocks, each searched for up to one differing bit", 700, 236)
    p.text(20, 24, "k = 3, two blocks of 32 bits: one of them differs in at most 1 bit")
    for y, marks, words in (
        (40, [7, 14, 50], "2 + 1: the second block finds it"),
        (84, [20, 41, 60], "1 + 2: the first block finds it"),
        (128, [36, 45, 58], "0 + 3: the first block finds it"),
    ):
        p.blocks(30, y, [(32, "a", ""), (32, "b", "")])
        p.differ(30, y, marks)
        p.text(350, y + 37, words, "mid small note")
    p.text(20, 200, "If both differed in 2 bits or more, it would be 4 in all: more than k.")
    p.text(
        20,
        222,
        "A block is looked up as it is, and once with each of its key bits flipped.",
        "note",
    )
    p.save("tables-thresholds.svg")


def left_out() -> None:
    """The bits that one, two or four tables leave out."""
    p = Picture("Tables that leave out different bits share the flips", 700, 250)
    p.text(20, 24, "One block of 32 bits, threshold 1, keys of 22 bits: what is left out is free")
    rows = (
        ("one table", [(10, "off", "left out"), (22, "a", "key, each bit flipped")], "23 look-ups"),
        ("two tables", [(10, "off", "left out"), (10, "a", "key"), (12, "b", "6 flipped")], ""),
        ("", [(10, "a", "key"), (10, "off", "left out"), (12, "b", "6 flipped")], "14 look-ups"),
        ("four tables", [(10, "off", "left out"), (22, "a", "key")], ""),
        ("", [(10, "a", ""), (10, "off", "left out"), (12, "a", "key")], ""),
        ("", [(20, "a", "key"), (10, "off", "left out"), (2, "a", "")], ""),
        ("", [(22, "a", "key"), (10, "off", "left out")], "4 look-ups"),
    )
    y = 40
    for name, blocks, cost in rows:
        if name and y > 40:
            y += 8
        p.text(20, y + 15, name)
        p.blocks(130, y, blocks)
        p.text(470, y + 15, cost, "note")
        y += 25
    p.text(20, 244, "More tables, fewer look-ups: memory for time.", "note")
    p.save("tables-left-out.svg")


def bucket() -> None:
    """From key to entries."""
    p = Picture("From a fingerprint to its bucket", 700, 236)
    p.text(20, 24, "A look-up in one block table")
    p.blocks(30, 40, [(20, "off", ""), (22, "a", "key bits"), (22, "off", "")])
    p.arrow(340, 64, 340, 84)
    p.text(352, 79, "brought together, folded, one bit flipped or none", "small note")
    p.text(340, 100, "bucket number", "mid")
    p.arrow(340, 106, 340, 122)
    for i in range(8):
        style = "key" if i == 0 else "value" if i < 6 else "off"
        p.rect(70 + i * 68, 126, 68, 24, style)
        p.rect(70 + i * 68, 126, 68, 24)
    p.text(104, 168, "head", "mid small note")
    p.text(376, 168, "entries, side by side in a cache line or a few", "mid small note")
    p.arrow(104, 174, 104, 194)
    for i in range(5):
        p.rect(70 + i * 68, 198, 68, 24, "value")
        p.rect(70 + i * 68, 198, 68, 24)
    p.text(424, 214, "a crowded bucket goes on elsewhere", "small note")
    p.save("tables-bucket.svg")


if __name__ == "__main__":
    for draw in (pigeonhole, permuted, thresholds, left_out, bucket):
        draw()
