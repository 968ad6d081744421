"""Draws a report as one HTML page.

    Report -> page.html.jinja, report.css -> one file

Invariants: the page needs no other file, no script and no network; every text is escaped by the
template engine; it reads in dark and light colours, on paper and on a phone.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from dedup.model.names import count
from dedup.report import parts
from dedup.report.parts import Cell, ReportPage, Texts
from dedup.report.texts import Piece, regions, sides

_CODE = re.compile("[0-9a-f]{16}|DEDUP_[A-Z_]+")  # a fingerprint, a setting
_QUOTED = re.compile("`([^`]+)`")  # code in a sentence


def html_page(report: ReportPage) -> str:
    """Return the report as the text of an HTML file."""
    return _template().render(report=report)


@cache
def _template() -> Template:
    folder = Path(__file__).parent
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for kind in parts.Part.__args__:
        environment.tests[kind.__name__.lower()] = lambda part, kind=kind: isinstance(part, kind)
    environment.tests["web"] = lambda url: url.startswith(("http://", "https://"))
    environment.tests["link"] = lambda cell: isinstance(cell, parts.Link)
    environment.tests["code"] = lambda cell: isinstance(cell, str) and _CODE.fullmatch(cell)
    environment.filters |= {"pieces": _pieces, "shown": _shown, "count": count, "rows": _text_rows}
    environment.globals["style"] = (folder / "report.css").read_text(encoding="utf-8")
    return environment.get_template("page.html.jinja")


def _shown(value: Cell) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _pieces(text: str) -> list[str]:
    """Return a sentence in pieces: every second one stood in `such quotes`, and is code."""
    return _QUOTED.split(text)


# ------------------------------------------------------------------------------------ compared texts


class _TextRow(NamedTuple):
    """How many words are equal, or the two sides of a region."""

    equal: int = 0
    left: Sequence[Piece] = ()
    right: Sequence[Piece] = ()


def _text_rows(texts: Texts) -> Iterator[_TextRow]:
    at = 0
    for region in regions(texts.a, texts.b, texts.hunks, texts.context):
        if region.a_begin > at:
            yield _TextRow(region.a_begin - at)
        left, right = sides(texts.a, texts.b, region)
        yield _TextRow(left=left, right=right)
        at = region.a_end
    if len(texts.a) > at:
        yield _TextRow(len(texts.a) - at)
