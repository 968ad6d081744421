"""A chart of columns, drawn as SVG: two axes with units, a few ticks, and what each column says.

    columns (a name, its parts, what it says) -> scale -> SVG

The rule kept here: no script. What a column says is shown when the pointer is over it, and when it is
reached by keyboard; a screen reader says it. More than STOPS are not gone through one by one: who
draws them lists their numbers, too.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Column", "columns"]

WIDTH, HEIGHT = (
    600,
    220,
)  # in units of the drawing; the axes leave the rectangle between these edges
LEFT, RIGHT, TOP, BOTTOM = 62, 590, 42, 176
THICK = 48  # a column, at most
LABELS = 7  # names below the columns, at most
STOPS = 20  # columns that are reached by keyboard one by one
TICKS = 4  # on the vertical axis, about


class Column(NamedTuple):
    """A column: its name on the axis, its parts (number and kind, see report.css), what it says."""

    name: str
    parts: Sequence[tuple[int, str]]
    told: str


def columns(given: Sequence[Column], *, title: str, across: str, up: str) -> str:
    """Return a chart of columns, parts on top of each other; across and up name the axes' units."""
    greatest = max((sum(n for n, _ in column.parts) for column in given), default=0)
    step = _step(greatest)
    most = step * max(1, -(-greatest // step))  # where the scale ends: a tick
    lines = [
        f'<line x1="{LEFT}" x2="{RIGHT}" y1="{_y(n, most):.1f}" y2="{_y(n, most):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{_y(n, most) + 4:.1f}" text-anchor="end">{n:,}</text>'
        for n in range(0, most + 1, step)
    ]
    return (
        f'<div class="wide"><svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="{escape(title)}"><g aria-hidden="true">{"".join(lines)}'
        f'<text x="0" y="16">{escape(up)}</text>'
        f'<text x="{RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(across)}</text></g>'
        f"{''.join(_drawn(given, most))}</svg></div>"
    )


def _drawn(given: Sequence[Column], most: int) -> Iterator[str]:
    wide = (RIGHT - LEFT) / len(given)
    every = -(-len(given) // LABELS)
    for i, column in enumerate(given):
        x, top, rects, drawn = LEFT + i * wide, 0, "", min(0.8 * wide, THICK)
        for number, kind in column.parts:
            low, top = top, top + number
            rects += (
                f'<rect class="part {kind}" x="{x + (wide - drawn) / 2:.1f}" width="{drawn:.1f}" '
                f'y="{_y(top, most):.1f}" height="{_y(low, most) - _y(top, most):.1f}"/>'
            )
        name = ""
        if i % every == 0:
            name = (
                f'<text aria-hidden="true" x="{x + wide / 2:.1f}" y="{BOTTOM + 18}" '
                f'text-anchor="middle">{escape(column.name)}</text>'
            )
        told = escape(column.told)
        reached = 'tabindex="0" ' if len(given) <= STOPS else ""
        yield (
            f'<g {reached}role="img" aria-label="{told}"><title>{told}</title>'
            f'<rect class="place" x="{x:.1f}" width="{wide:.1f}" y="{TOP}" height="{BOTTOM - TOP}"/>'
            f'{rects}{name}<text class="told" aria-hidden="true" x="{RIGHT}" y="16" '
            f'text-anchor="end">{told}</text></g>'
        )


def _y(number: int, most: int) -> float:
    return BOTTOM - (BOTTOM - TOP) * number / most


def _step(most: int) -> int:
    """Return 1, 2 or 5 times a power of ten: about TICKS of them make up the greatest number."""
    size = 1
    while True:
        for step in (size, 2 * size, 5 * size):
            if TICKS * step >= most:
                return step
        size *= 10
