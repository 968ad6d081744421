"""The figures of the documentation come from one file of measurements, and from nowhere else."""

import json
import re

import figure_pages
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


def test_a_table_is_made_of_the_counts():
    """Shares are of the pairs there are, and of those that were found."""
    step = {"found": 9, "wrong": 1, "found_alone": 10, "wrong_alone": 10}
    entry = {
        "near_duplicates": 10,
        "by_k": {str(k): step for k in figure_pages.STEPS},
        "by_similarity": {str(s): step for s in figure_pages.SIMILARITIES},
    }
    held = {f"set-{name}": {"figures": {"all_real": entry}} for name in ("development", "second")}
    lines = figure_pages.distance_steps(held).splitlines()
    assert lines[2] == "| 1 | 10.0 % | 10.0 % | 90.0 % | 50.0 % | 50.0 % |"
    assert lines[-3].startswith("| **8** | **10.0 %** |")


def test_what_is_kept_of_a_measurement_is_counts():
    """A run of the demo becomes an entry with what a page may use."""
    found = {"urls": 500, "fetched": 318, "near_duplicates": 83, "found_percent": 98.8, "x": 1}
    found["wrong"] = ["/a"]
    if not (figures.ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    entry = figures.entry("demo-1", found)
    assert "x" not in entry["figures"]
    assert entry["figures"]["fetched"] == 318
    assert entry["figures"]["wrong"] == 1
