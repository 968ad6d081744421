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

from dedup.model.names import count, running
from dedup.report import parts
from dedup.report.parts import Cell, Chart, Kind, Report, Texts
from dedup.report.texts import Piece, regions, sides

_CODE = re.compile("[0-9a-f]{16}|DEDUP_[A-Z_]+")  # a fingerprint, a setting

# A chart, in units of the drawing; the axes leave the rectangle between these edges.
WIDTH, HEIGHT = 600, 220
LEFT, RIGHT, TOP, BOTTOM = 62, 590, 42, 176
THICK = 48  # a column, at most
LABELS = 7  # names below the columns, at most
STOPS = (
    20  # columns that a keyboard reaches one by one; more are listed in a table beside the chart
)
TICKS = 4  # on the vertical axis, about


def html_page(report: Report) -> str:
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
    environment.filters |= {"shown": _shown, "count": count, "drawn": _Drawn, "rows": _text_rows}
    environment.globals["style"] = (folder / "report.css").read_text(encoding="utf-8")
    return environment.get_template("page.html.jinja")


def _shown(value: Cell) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# ------------------------------------------------------------------------------------ compared texts


class _TextRow(NamedTuple):
    """Equal words (how many, and the words if they are shown), or the two sides of a region."""

    equal: int = 0
    words: str = ""
    left: Sequence[Piece] = ()
    right: Sequence[Piece] = ()


def _text_rows(texts: Texts) -> Iterator[_TextRow]:
    def equal(begin: int, end: int) -> Iterator[_TextRow]:
        if end > begin:
            yield _TextRow(end - begin, running(texts.a[begin:end]) if texts.whole else "")

    at = 0
    for region in regions(texts.a, texts.b, texts.hunks, texts.context):
        yield from equal(at, region.a_begin)
        left, right = sides(texts.a, texts.b, region, whole=texts.whole)
        yield _TextRow(left=left, right=right)
        at = region.a_end
    yield from equal(at, len(texts.a))


# ------------------------------------------------------------------------------------------- charts


class _Rect(NamedTuple):
    kind: Kind
    y: float
    height: float


class _Drawn:
    """A chart in units of the drawing: ticks at 1, 2 or 5 times a power of ten, and its columns."""

    width, height, right, top, bottom = WIDTH, HEIGHT, RIGHT, TOP, BOTTOM
    left = LEFT

    def __init__(self, chart: Chart) -> None:
        greatest = max((sum(n for n, _ in column.parts) for column in chart.columns), default=0)
        step = _step(greatest)
        self._most = step * max(1, -(-greatest // step))  # the scale ends at a tick
        self.ticks = [(n, self._y(n)) for n in range(0, self._most + 1, step)]
        self.column_width = (RIGHT - LEFT) / max(1, len(chart.columns))
        self.bar_width = min(0.8 * self.column_width, THICK)
        self.label_every = -(-len(chart.columns) // LABELS)
        self.is_reached = len(chart.columns) <= STOPS

    def rects(self, column: parts.Column) -> Iterator[_Rect]:
        """Yield the parts of a column, on top of each other."""
        top = 0
        for number, kind in column.parts:
            low, top = top, top + number
            yield _Rect(kind, self._y(top), self._y(low) - self._y(top))

    def _y(self, number: int) -> float:
        return BOTTOM - (BOTTOM - TOP) * number / self._most


def _step(most: int) -> int:
    """Return 1, 2 or 5 times a power of ten, so that about TICKS of them reach the number."""
    size = 1
    while True:
        for step in (size, 2 * size, 5 * size):
            if TICKS * step >= most:
                return step
        size *= 10
