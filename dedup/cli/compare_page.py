"""The HTML page of `dedup compare --html`: the verdict, the distances, and both texts.

The rule kept here: one file that needs nothing else, no script and nothing from elsewhere; every
word of the pages is escaped.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape

from dedup.cli import terminal
from dedup.report.differences import Hunk
from dedup.report.texts import regions, running, sides

__all__ = ["Row", "compare_page"]

CONTEXT = 25  # words shown before and after a hunk

Row = tuple[str | int, ...]

_HEX = re.compile("[0-9a-f]{16}")

# Each side has a colour of its own, A red and B green, over light and dark alike; on a narrow screen
# the sides stand one below the other, and tables too wide for it scroll by themselves.
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --a: #e5484d; --b: #30a46c; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { border-left: .35rem solid var(--line); font-size: 1.5rem; line-height: 1.3; margin: 0 0 1.2rem; padding-left: .9rem; }
h1 small { display: block; font-size: 1rem; font-weight: normal; opacity: .75; }
.tables { display: flex; flex-wrap: wrap; gap: 0 3rem; margin: 1.2rem 0; }
.tables > div { max-width: 100%; overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .4rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; }
td { font-variant-numeric: tabular-nums; max-width: 24rem; overflow-wrap: anywhere; }
td:first-child { overflow-wrap: normal; white-space: nowrap; }
td code { font: .85rem ui-monospace, monospace; overflow-wrap: normal; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.5rem; }
.sides > * { min-width: 0; }
.sides > div { border-left: .2rem solid; overflow-wrap: anywhere; padding: .5rem 0 .5rem .9rem; margin: .3rem 0; }
.a { border-color: color-mix(in srgb, var(--a) 55%, transparent) !important; }
.b { border-color: color-mix(in srgb, var(--b) 55%, transparent) !important; }
.sides > details { grid-column: 1 / -1; margin: .3rem 0; opacity: .75; }
summary { cursor: pointer; }
del, ins, mark { border-radius: .2rem; padding: .05rem .1rem; text-decoration: none; }
mark { color: inherit; display: block; width: fit-content; }
del, .a mark { background: color-mix(in srgb, var(--a) 24%, transparent); }
ins, .b mark { background: color-mix(in srgb, var(--b) 24%, transparent); }
@media (max-width: 40rem) {
  body { margin: 1.2rem auto; }
  .sides { grid-template-columns: 1fr; }
  th, td { padding-right: .7rem; }
  td code { font-size: .75rem; }
}
"""


def compare_page(
    names: tuple[str, str],
    verdict: tuple[str, str],
    notes: Sequence[str],
    tables: Sequence[Sequence[Row]],
    words: tuple[Sequence[str], Sequence[str]],
    hunks: Sequence[Hunk],
) -> str:
    """Return the page.

    names    of A and B
    verdict  the answer, and why; notes: more lines below it
    tables   rows of cells, the first of each its headers; fingerprints are 16 hex digits
    words    the two texts, and the hunks in which they differ
    """
    return "\n".join(_page(names, verdict, notes, tables, words, hunks)) + "\n"


def _page(
    names: tuple[str, str],
    verdict: tuple[str, str],
    notes: Sequence[str],
    tables: Sequence[Sequence[Row]],
    words: tuple[Sequence[str], Sequence[str]],
    hunks: Sequence[Hunk],
) -> Iterator[str]:
    a, b = (escape(name) for name in names)
    answer, why = (escape(text) for text in verdict)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f"<title>{a} and {b}: {answer}</title>"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style>\n</head>\n<body>"
    yield f"<h1>verdict: {answer} <small>({why})</small></h1>"
    yield from (f"<p>{escape(note)}</p>" for note in notes)
    yield '<div class="tables">'
    for table in tables:
        yield "<div><table>"
        for cell, row in zip("h" + "d" * len(table), table, strict=False):
            cells = "".join(f"<t{cell}>{_cell(x)}</t{cell}>" for x in row)
            yield f"<tr>{cells}</tr>"
        yield "</table></div>"
    yield '</div>\n<div class="sides">'
    for side, name in (("A", a), ("B", b)):
        alone = f" <mark>only in {side}</mark>" if hunks else ""
        yield f'<div class="{side.lower()}"><b>{side}</b> {name}{alone}</div>'
    yield from _sides(*words, hunks)
    yield "</div>\n</body>\n</html>"


def _cell(content: str | int) -> str:
    if isinstance(content, int):
        return f"{content:,}"
    text = escape(content)
    return f"<code>{text}</code>" if _HEX.fullmatch(content) else text


def _sides(a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk]) -> Iterator[str]:
    at = 0
    for region in regions(a, b, hunks, CONTEXT):
        yield from _same(a[at : region.a_begin])
        left, right = sides(a, b, region, _marked, whole=True)
        yield f'<div class="a" dir="auto">{left}</div><div class="b" dir="auto">{right}</div>'
        at = region.a_end
    yield from _same(a[at:])


def _same(words: Sequence[str]) -> Iterator[str]:
    if words:
        name = f"{terminal.count(len(words), 'word')} the same"
        yield f'<details><summary>{name}</summary><p dir="auto">{escape(running(words))}</p></details>'


def _marked(text: str, side: int) -> str:
    shown = escape(text)
    if side < 0:
        return shown
    tag = "ins" if side else "del"
    return f"<{tag}>{shown}</{tag}>"
