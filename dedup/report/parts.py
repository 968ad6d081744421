"""The parts of a report, frozen values: a heading, figures, tables, bars, compared texts.

    ReportPage(title, [FigureRow(...), Section("Hosts", [TablePart(...)])])    drawn by dedup.report.html

Invariants: a part holds values and says nothing of how they are drawn; texts are plain, never HTML.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from dedup.report.texts import Hunk

Kind = Literal["", "unique", "near", "refetch", "exempt"]  # what a colour stands for

_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?( %)?|-")  # not an IP address


class Link(Struct, frozen=True):
    """An address; a web page links it, if it is one of the web."""

    url: str

    def __str__(self) -> str:
        return self.url


Cell = str | int | float | Link


class Text(Struct, frozen=True):
    """A paragraph."""

    text: str


class Warned(Struct, frozen=True):
    """A paragraph that a reader must not miss."""

    text: str


class Lines(Struct, frozen=True):
    """A list of sentences."""

    lines: Sequence[str]


class FigureRow(Struct, frozen=True):
    """A few large numbers with their names."""

    pairs: Sequence[tuple[str, Cell]]

    @property
    def columns(self) -> int:
        """How many stand side by side on a wide screen; half of them on a narrower one, so that none is left alone."""
        return min(len(self.pairs), 6)


class Bar(NamedTuple):
    """A named number in Bars; one that is a part belongs to the last row that is not."""

    name: str
    number: int
    kind: Kind = ""
    is_part: bool = False


class Bars(Struct, frozen=True):
    """Named numbers with bars; the greatest has a full one."""

    rows: Sequence[Bar]

    @property
    def most(self) -> int:
        """The number of a full bar."""
        return max([row.number for row in self.rows] + [1])


class TablePart(Struct, frozen=True):
    """Rows under headers; an empty header names nothing."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers only, also such as "12.3 %"."""
        return [all(_is_number(row[i]) for row in self.rows) for i in range(len(self.headers))]

    @property
    def phone(self) -> str:
        """How its rows stand on a phone: "named" gives the numbers a line below the name, "stacked" each cell its own."""
        if len(self.headers) < 4:
            return ""
        return "named" if all(self.numeric[1:]) and not self.numeric[0] else "stacked"


class Texts(Struct, frozen=True):
    """Two texts and where they differ, with `context` words around each difference; other equal words are counted."""

    a: Sequence[str]
    b: Sequence[str]
    hunks: Sequence[Hunk]
    names: tuple[str, str]
    context: int


class Folded(Struct, frozen=True):
    """Parts that are shown when their title is clicked; a small one belongs to the line above."""

    title: str
    parts: Sequence["Part"]
    small: bool = False
    is_open: bool = False


class ListEntry(Struct, frozen=True):
    """An address with a note, and what belongs to it."""

    address: str
    note: str
    parts: Sequence["Part"] = ()
    is_heading: bool = False


class Section(Struct, frozen=True):
    """Parts under a heading, with a sentence that explains them."""

    title: str
    parts: Sequence["Part"]
    text: str = ""


Part = Text | Warned | Lines | FigureRow | Bars | TablePart | Texts | Folded | ListEntry | Section


class ReportPage(Struct, frozen=True):
    """A report: its title, its parts, who made it."""

    title: str
    parts: Sequence[Part]
    made_by: str = ""


def percent(part: int, whole: int) -> str:
    """Return a share, such as "12.3 %"; "-" of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _is_number(value: Cell) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return not isinstance(value, Link)
