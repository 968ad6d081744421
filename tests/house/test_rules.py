"""The one table of rules is true: its constants have the values of the source, and its last line counts them."""

import re
from pathlib import Path

import pytest

from dedup.model.policy import SETTINGS
from dedup.model.recipes import recipe_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explain" / "rules.md").read_text("utf-8")
SOURCE = [
    path.read_text("utf-8")
    for room in ("scrapy", "detector", "model")
    for path in sorted((ROOT / "dedup" / room).rglob("*.py"))
]
ROWS = [
    [cell.strip() for cell in line.strip("| ").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]
CONSTANTS = [
    (name, value)
    for row in ROWS
    for name, values in re.findall(r"`(\w+)` ([\d.]+(?: of a \w+, [\d.]+)*)", row[2])
    for value in re.findall(r"[\d.]+", values)
]


def values_of(name):
    """Return the values that the source gives a constant, a setting or a field of the recipe."""
    if name.startswith("DEDUP_"):
        return {float(SETTINGS[name.removeprefix("DEDUP_").lower()].default)}
    if name.islower():
        return {float(getattr(recipe_of(), name))}
    found = "\n".join(SOURCE)
    return {float(v) for v in re.findall(rf"^{name} = ([\d._]+)(?:  #|$)", found, re.MULTILINE)}


@pytest.mark.parametrize(("name", "value"), CONSTANTS)
def test_a_constant_has_the_value_of_the_source(name, value):
    """Whatever decides has the value that the table says."""
    assert float(value) in values_of(name)


def test_rules_and_constants_are_counted():
    """The rules are numbered, and the line below the table says how many there are, and how many constants."""
    assert [int(row[0]) for row in ROWS] == [*range(1, len(ROWS) + 1)]
    assert f"{len(ROWS)} rules, {len(CONSTANTS)} constants." in PAGE


def test_each_rule_is_needed_by_two_kinds_of_sites():
    """A rule that one kind of site needs says so, and is named as a limit."""
    for row in ROWS:
        number, *_, kinds = row
        is_one = "one kind only" in kinds
        assert is_one == (f"Rule {number} is known" in PAGE), row
        assert is_one or kinds == "all sites" or ";" in kinds, row
