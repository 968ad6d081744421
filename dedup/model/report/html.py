"""One page of HTML, made of a few parts: facts, bars, tables, and two texts side by side.

The rule kept here: a page is one file that needs nothing else, no script and nothing from elsewhere (its style, report.css, is put in);
whatever comes from a crawled page is escaped; it reads in dark and light, on paper and on a phone.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path

from dedup.model.report.differences import Hunk
from dedup.model.report.texts import count, regions, running, sides

__all__ = [
    "Bar", "Cell", "bars", "beside", "facts", "folded", "legend", "line", "link", "page", "percent",
    "section", "table", "two_texts", "warning",
]  # fmt: skip

Cell = str | int | float

# A named number, and its kind if that has a colour: unique, near, refetch or exempt.
Bar = tuple[str, int] | tuple[str, int, str]

_CODE = re.compile("[0-9a-f]{16}|DEDUP_[A-Z_]+")  # a fingerprint, a setting
_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?( %)?|-")  # no address of a host


@cache
def _style() -> str:
    return (Path(__file__).parent / "report.css").read_text(encoding="utf-8")


def page(
    title: str, parts: Iterable[str], footer: str = "", *, head: tuple[str, str] = ("", "")
) -> str:
    """Return the page; its parts come from the functions below.

    head is what stands above them instead of the title, and a smaller line below that.
    """
    above, below = (escape(text) for text in head)
    small = f" <small>{below}</small>" if below else ""
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f"<title>{escape(title)}</title>",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_style()}</style>\n</head>\n<body>\n<main>\n<h1>{above or escape(title)}{small}</h1>",
            *parts,
            "</main>",
            *([f"<footer><p>{escape(footer)}</p></footer>"] if footer else ()),
            "</body>\n</html>\n",
        )
    )


def line(text: str) -> str:
    """Return a line of text."""
    return f"<p>{escape(text)}</p>"


def link(address: str) -> str:
    """Return an address that leads there, if it is one of the web; else its text."""
    shown = escape(address)
    if not address.startswith(("http://", "https://")):
        return shown
    return f'<a href="{shown}" rel="noreferrer noopener">{shown}</a>'


def folded(title: str, *parts: str) -> str:
    """Return parts that are seen when their title is clicked."""
    return "\n".join(
        (f'<details class="folded"><summary>{escape(title)}</summary>', *parts, "</details>")
    )


def beside(*parts: str) -> str:
    """Return parts, small tables, beside each other where there is room."""
    return "\n".join(('<div class="beside">', *parts, "</div>"))


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
    """Return a table; numbers, also such as "12.3 %", stand to the right."""
    listed = [list(row) for row in rows]
    if not listed:
        return "<p>There are none.</p>"
    numbers = [all(_is_number(row[i]) for row in listed) for i in range(len(headers))]
    head = "".join(
        _cell("th" if name else "td", name, right, ' scope="col"' if name else "")
        for name, right in zip(headers, numbers, strict=True)
    )
    body = "\n".join(
        f"<tr>{''.join(_cell('td', x, right) for x, right in zip(row, numbers, strict=True))}</tr>"
        for row in listed
    )
    # focusable: on a narrow screen it scrolls by itself, by keyboard too
    named = escape(", ".join(filter(None, headers)) or "table")
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{named}"><table><thead><tr>{head}'
        f"</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def legend(*kinds: tuple[str, str]) -> str:
    """Return what the colours of a chart mean: of each kind its class (report.css) and its name."""
    named = "".join(f'<span><i class="{kind}"></i>{escape(name)}</span>' for kind, name in kinds)
    return f'<p class="legend">{named}</p>'


def percent(part: int, whole: int) -> str:
    """Return a share, such as "12.3 %"; "-" of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def bars(rows: Iterable[Bar]) -> str:
    """Return named numbers with bars; the greatest has a full one.

    A name that begins with a space is a part of what stands above it.
    """
    listed = list(rows)
    most = max([row[1] for row in listed] + [1])
    return f"<table><tbody>{_bar_lines(listed, most)}</tbody></table>"


def _bar_lines(rows: Iterable[Bar], most: int) -> str:
    lines = []
    for name, number, *kind in rows:
        part = ' class="part"' if name.startswith(" ") else ""
        colour = f' class="{kind[0]}"' if kind else ""
        lines.append(
            f'<tr><td{part}>{escape(name.strip())}</td><td class="number">{number:,}</td>'
            f'<td class="bar"><span{colour} style="width:{100 * number / most:.1f}%"></span></td></tr>'
        )
    return "\n".join(lines)


def two_texts(
    a: Sequence[str],
    b: Sequence[str],
    hunks: Sequence[Hunk],
    context: int,
    *,
    names: tuple[str, str],
    whole: bool = False,
) -> str:
    """Return where two texts differ, side by side, with `context` words around each place.

    Their names stand above the sides. If whole, every word is there: those that are the same are
    folded up, else they are counted.
    """
    if not hunks and not whole:
        return "<p>The main texts are the same.</p>"
    shown = "\n".join((*_names(names, hunks), *_sides(a, b, hunks, context, whole)))
    return f'<div class="sides">{shown}</div>'


def _names(names: tuple[str, str], hunks: Sequence[Hunk]) -> Iterator[str]:
    for side, name in zip("AB", names, strict=True):
        alone = f" <mark>only in {side}</mark>" if hunks else ""
        yield f'<div class="{side.lower()}"><b>{side}</b> {escape(name)}{alone}</div>'


def _sides(
    a: Sequence[str], b: Sequence[str], hunks: Sequence[Hunk], context: int, whole: bool
) -> Iterator[str]:
    at = 0
    for region in regions(a, b, hunks, context):
        yield _same(a[at : region.a_begin], whole)
        left, right = sides(a, b, region, _marked, whole=whole)
        yield f'<div class="a" dir="auto">{left}</div><div class="b" dir="auto">{right}</div>'
        at = region.a_end
    yield _same(a[at:], whole)


def _same(words: Sequence[str], whole: bool) -> str:
    if not words:
        return ""
    name = f"{count(len(words), 'word')} the same"
    if not whole:
        return f"<p>{name}</p>"
    return f'<details><summary>{name}</summary><p dir="auto">{escape(running(words))}</p></details>'


def _marked(text: str, side: int) -> str:
    shown = escape(text)
    if side < 0:
        return shown
    tag = "ins" if side else "del"
    return f"<{tag}>{shown}</{tag}>"


def _cell(tag: str, value: Cell, right: bool, more: str = "") -> str:
    kind = ' class="number"' if right else ""
    return f"<{tag}{kind}{more}>{_shown(value)}</{tag}>"


def _is_number(value: Cell) -> bool:
    return not isinstance(value, str) or _NUMBER.fullmatch(value) is not None


def _shown(value: Cell) -> str:
    """Return a figure, a fingerprint of 16 hex digits, a setting's name, or a text, as HTML."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"<code>{value}</code>" if _CODE.fullmatch(value) else escape(value)
