"""The HTML page of `dedup compare --html`: the verdict, the distances, and both texts.

The rule kept here: one file that needs nothing else, no script and nothing from elsewhere; every
word of the pages is escaped.
"""

from collections.abc import Iterator, Sequence
from html import escape

from dedup.cli import terminal
from dedup.report.differences import Hunk
from dedup.report.texts import regions, running, sides

__all__ = ["Row", "compare_page"]

CONTEXT = 25  # words shown before and after a hunk

Row = tuple[str | int, ...]

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --del: #e5484d33; --ins: #30a46c33; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; }
h1 small { font-weight: normal; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .9rem .25rem 0; text-align: left; }
td { font-variant-numeric: tabular-nums; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.5rem; }
.sides > div { border-top: 1px solid var(--line); overflow-wrap: anywhere; padding: .6rem 0; }
.sides > details, .sides > p { grid-column: 1 / -1; margin: .2rem 0; opacity: .75; }
del { background: var(--del); text-decoration: none; }
ins { background: var(--ins); text-decoration: none; }
"""


def compare_page(
    names: tuple[str, str],
    verdict: str,
    notes: Sequence[str],
    tables: Sequence[Sequence[Row]],
    words: tuple[Sequence[str], Sequence[str]],
    hunks: Sequence[Hunk],
) -> str:
    """Return the page.

    names    of A and B
    verdict  in a line; notes: more lines below it
    tables   rows of cells, the first of each its headers
    words    the two texts, and the hunks in which they differ
    """
    return "\n".join(_page(names, verdict, notes, tables, words, hunks)) + "\n"


def _page(
    names: tuple[str, str],
    verdict: str,
    notes: Sequence[str],
    tables: Sequence[Sequence[Row]],
    words: tuple[Sequence[str], Sequence[str]],
    hunks: Sequence[Hunk],
) -> Iterator[str]:
    a, b = (escape(name) for name in names)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f"<title>{a} and {b}: {escape(verdict)}</title>"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(verdict)}</h1>"
    yield from (f"<p>{escape(note)}</p>" for note in notes)
    for table in tables:
        yield "<table>"
        for cell, row in zip("h" + "d" * len(table), table, strict=False):
            texts = (f"{x:,}" if isinstance(x, int) else escape(x) for x in row)
            cells = "".join(f"<t{cell}>{text}</t{cell}>" for text in texts)
            yield f"<tr>{cells}</tr>"
        yield "</table>"
    yield f'<div class="sides">\n<div><b>A</b> {a}</div><div><b>B</b> {b}</div>'
    yield from _sides(*words, hunks)
    yield "</div>\n</body>\n</html>"


def _sides(a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk]) -> Iterator[str]:
    at = 0
    for region in regions(a, b, hunks, CONTEXT):
        yield from _same(a[at : region.a_begin])
        left, right = sides(a, b, region, _marked, whole=True)
        yield f'<div dir="auto">{left}</div><div dir="auto">{right}</div>'
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
