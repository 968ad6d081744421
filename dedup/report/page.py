"""One page of HTML, made of a few parts: facts, bars, tables, and two texts beside each other.

The rule kept here: a page is one file that needs nothing else, no script and nothing from elsewhere;
whatever comes from a crawled page is escaped; it reads in dark and light, on paper and on a phone.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from dedup.report.differences import Hunk
from dedup.report.texts import Region, regions, sides

__all__ = ["Cell", "bars", "facts", "page", "section", "table", "two_texts", "warning"]

Cell = str | int | float

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --bar: #3b82f6;
  --del: #e5484d33; --ins: #30a46c33; --warn: #f5a52433; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p, li, td, summary { overflow-wrap: anywhere; }
dl.facts { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
dl.facts > div { background: var(--soft); border-radius: .5rem; padding: .7rem .9rem; }
dl.facts dt { font-size: .85rem; opacity: .8; }
dl.facts dd { font-size: 1.5rem; font-variant-numeric: tabular-nums; margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .4rem 0 1rem; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .9rem .3rem 0; text-align: left;
  vertical-align: top; }
td { font-variant-numeric: tabular-nums; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.bar { min-width: 8rem; width: 45%; }
td.bar span { background: var(--bar); border-radius: .2rem; display: block; height: .9rem;
  margin-top: .3rem; }
.warning { background: var(--warn); border-radius: .5rem; padding: .6rem .9rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 0; overflow-wrap: anywhere; }
h3 + p { margin: 0 0 .4rem; opacity: .8; }
.pair { border-top: 1px solid var(--line); margin: 0; padding: .4rem 0; }
summary { cursor: pointer; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.5rem; }
.sides > div { border-top: 1px solid var(--line); overflow-wrap: anywhere; padding: .6rem 0; }
.sides > p { grid-column: 1 / -1; margin: .2rem 0; opacity: .75; }
del { background: var(--del); text-decoration: none; }
ins { background: var(--ins); text-decoration: none; }
footer { border-top: 1px solid var(--line); font-size: .85rem; margin-top: 2.5rem; opacity: .8; }
@media (max-width: 40rem) { .sides { grid-template-columns: 1fr; } body { margin-top: 1rem; } }
"""


def page(title: str, parts: Iterable[str], footer: str = "") -> str:
    """Return the page; its parts come from the functions below."""
    shown = escape(title)
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f"<title>{shown}</title>",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{shown}</h1>",
            *parts,
            f"<footer><p>{escape(footer)}</p></footer>\n</body>\n</html>\n",
        )
    )


def section(title: str, *parts: str, text: str = "") -> str:
    """Return a part with a heading, and a line of text below it."""
    told = f"<p>{escape(text)}</p>" if text else ""
    return "\n".join((f"<section>\n<h2>{escape(title)}</h2>{told}", *parts, "</section>"))


def warning(text: str) -> str:
    """Return a line that is not to be missed."""
    return f'<p class="warning" role="note">{escape(text)}</p>'


def facts(pairs: Iterable[tuple[str, Cell]]) -> str:
    """Return a few figures with their names, large."""
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{_shown(value)}</dd></div>" for name, value in pairs
    )
    return f'<dl class="facts">{rows}</dl>'


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table; numbers stand to the right."""
    listed = [list(row) for row in rows]
    numbers = [
        bool(listed) and all(isinstance(row[i], int | float) for row in listed)
        for i in range(len(headers))
    ]
    head = "".join(_cell("th", name, right) for name, right in zip(headers, numbers, strict=True))
    body = "\n".join(
        f"<tr>{''.join(_cell('td', x, right) for x, right in zip(row, numbers, strict=True))}</tr>"
        for row in listed
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def bars(rows: Iterable[tuple[str, int]], *, of: int | None = None) -> str:
    """Return named numbers with bars; `of` is what a full bar means, by default the greatest."""
    listed = list(rows)
    most = max([of or 0, *(number for _, number in listed), 1])
    lines = "\n".join(
        f'<tr><td>{escape(name)}</td><td class="number">{number:,}</td>'
        f'<td class="bar"><span style="width:{100 * number / most:.1f}%"></span></td></tr>'
        for name, number in listed
    )
    return f'<div class="wide"><table><tbody>{lines}</tbody></table></div>'


def two_texts(a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk], context: int) -> str:
    """Return where two texts differ, side by side, with so many words around each place."""
    if not hunks:
        return "<p>The main texts are the same.</p>"
    return f'<div class="sides">{"".join(_sides(a, b, hunks, context))}</div>'


def _sides(
    a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk], context: int
) -> Iterator[str]:
    at = 0
    for region in regions(a, b, hunks, context):
        yield _same(region.a_begin - at)
        yield _region(a, b, region)
        at = region.a_end
    yield _same(len(a) - at)


def _region(a: Sequence[str], b: Sequence[str], region: Region) -> str:
    left, right = sides(a, b, region, _marked, whole=False)
    return f'<div dir="auto">{left}</div><div dir="auto">{right}</div>'


def _same(count: int) -> str:
    return f"<p>{count:,} word{'' if count == 1 else 's'} the same</p>" if count > 0 else ""


def _marked(text: str, side: int) -> str:
    shown = escape(text)
    if side < 0:
        return shown
    tag = "ins" if side else "del"
    return f"<{tag}>{shown}</{tag}>"


def _cell(tag: str, value: Cell, right: bool) -> str:
    kind = ' class="number"' if right else ""
    return f"<{tag}{kind}>{_shown(value)}</{tag}>"


def _shown(value: Cell) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else escape(value)
