"""A chart of columns: axes with units, ticks that are round, what each column says."""

import re

import pytest

from dedup.report.html import STOPS, html_page
from dedup.report.parts import Chart, Column, Report


def drawn(numbers, kinds=("near",)):
    given = [
        Column(f"<{i}>", [(n, kind) for kind in kinds], f"<{i}>: {n}")
        for i, n in enumerate(numbers)
    ]
    page = html_page(Report("", [Chart(given, "A <title>", "bits", "pages")]))
    return page[page.index("<svg") : page.index("</svg>")]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (74, ["0", "20", "40", "60", "80"]),
        (2001, ["0", "1,000", "2,000", "3,000"]),
    ],
)
def test_the_scale_is_round_and_holds_every_column(most, ticks):
    """Ticks at 1, 2 or 5 times a power of ten, from 0 to the first that is no less than any column."""
    chart = drawn([most, 0])
    assert re.findall(r'text-anchor="end">([\d,]+)</text>', chart) == ticks
    top = min(float(y) for y in re.findall(r'class="part near"[^>]* y="([\d.]+)"', chart))
    assert top >= 42.0


def test_parts_stand_on_each_other():
    """The second part ends where the first begins."""
    first, second = re.findall(
        r'class="part [a-z]+"[^>]* y="([\d.]+)" height="([\d.]+)"', drawn([8], ("near", "exempt"))
    )
    assert float(second[0]) + float(second[1]) == pytest.approx(float(first[0]), abs=0.11)


def test_units_and_names_are_there_and_escaped():
    """Both axes have their unit; every column says what it is, as a tool tip and to who hears it."""
    chart = drawn(range(10))
    assert ">pages</text>" in chart and ">bits</text>" in chart
    assert chart.count("<title>&lt;") == chart.count('aria-label="&lt;') == 10
    assert "<0>" not in chart and "A <title>" not in chart
    assert chart.count('tabindex="0"') == 10


def test_many_columns_are_no_stops_of_the_keyboard():
    """Who comes by keyboard need not pass through each of a hundred; few names stand below them."""
    chart = drawn(range(5 * STOPS))
    assert 'tabindex="0"' not in chart
    assert len(re.findall(r'text-anchor="middle"', chart)) <= 7
