"""The figures of the documentation come from one file of measurements, and from nowhere else."""

import json
import re

import pytest
from tools import figures

HELD = json.loads(figures.FILE.read_text("utf-8"))


@pytest.mark.parametrize("name", list(HELD))
def test_a_measurement_says_where_it_comes_from(name):
    """Its command, the machine, the day, the commit, and figures."""
    entry = HELD[name]
    if name in figures.MEASUREMENTS:
        assert entry["command"] == figures.MEASUREMENTS[name].command
    assert entry["command"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry["date"])
    assert re.fullmatch(r"[0-9a-f]{12}", entry["commit"])
    assert entry["machine"]["cores"] >= 1
    assert entry["figures"]


def test_pages_say_what_was_measured():
    """A table between marks is the one that the file gives: `make figures` writes both."""
    assert figures.stale(HELD) == []


def test_every_table_of_readme_and_quality_is_from_the_file():
    """No row of figures stands in them outside of marks; a table of files is none."""
    for name in ("README.md", "docs/explain/quality.md", "docs/explain/performance.md"):
        text = (figures.ROOT / name).read_text("utf-8")
        outside = re.sub(r"<!-- ([\w -]+): begin -->.*?<!-- \1: end -->", "", text, flags=re.DOTALL)
        heads = re.findall(r"(?<!\|)\n(\|.+)\n\|[-| ]+\n", outside)
        assert [head for head in heads if head != "| file | what |"] == [], name
