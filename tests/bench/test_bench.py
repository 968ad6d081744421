"""Benchmarks: they come to their end and report what they say they do. No figure is judged here."""

import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
import table_costs
from cases import CASES, bench
from click.testing import CliRunner
from runner import Bench, Case, Option, measure, shown
from table_data import brute_force, make_data

from dedup.core.table import PRESETS
from dedup.model.errors import DedupError

pytestmark = pytest.mark.long  # `make bench` is for those who work on this


def run(*arguments):
    return CliRunner().invoke(bench, [*map(str, arguments)])


def compared(*arguments):
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# --------------------------------------------------------------------------------- the runner


def case(rounds, ratio=None):
    figures = iter([(1.0, 2.0), (3.0, 9.0), (2.0, 2.0)])

    @contextmanager
    def open_case(size, progress):
        def one():
            a, b = next(figures)
            return {"ours": {"us": a}, "theirs": {"us": b, "MB": size}}

        yield Bench({"size": size}, one, ratio=ratio)

    return Case("some", "Measure.", "", (Option("size", 7, "Size."),), open_case, rounds)


def test_a_figure_is_the_median_with_its_range():
    """Of three rounds; a column that a row lacks is empty in the table."""
    result = measure(case(3), 3, {"size": 7})
    found = result.rows["ours"]["us"]
    assert (found.median, found.lowest, found.highest, found.count) == (2, 1, 3, 3)
    lines = [line.split("  ") for line in shown(result).splitlines()]
    assert next(line for line in lines if line[0] == "ours")[-1].strip() == "-"
    assert "size: 7" in shown(result)


def test_a_ratio_is_of_one_round():
    """The ratio of each round counts, not that of the medians."""
    result = measure(case(3, "us"), 3, {"size": 7})
    assert result.rows["ours"]["times ours"].median == 1
    found = result.rows["theirs"]["times ours"]
    assert (found.lowest, found.median, found.highest) == (1, 2, 3)


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_every_case_is_a_command_with_its_options(each):
    """`NAME --help` names all of them, and --quick changes options that there are."""
    done = run(each.name, "--help")
    assert done.exit_code == 0
    names = [option.name.replace("_", "-") for option in each.options]
    assert all(f"--{name}" in done.stdout for name in names)
    assert set(each.quick) - {"rounds"} <= {option.name for option in each.options}
    assert ("--rounds" in done.stdout) == (each.rounds is not None)


# ---------------------------------------------------------------------------------- the cases


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pages", "--pages", "no-such-file"], "no-such-file"),
        (["tables", "--distance", "16"], "16 is not in the range"),
        (["nothing"], "No such benchmark 'nothing'"),
    ],
)
def test_wrong_arguments_name_themselves(arguments, said):
    """What cannot be measured is refused before anything is."""
    done = run(*arguments)
    assert done.exit_code
    assert said in f"{done.stderr}{done.exception}"


def test_a_store_is_filled_killed_and_opened(tmp_path):
    """`store` has a row for each figure, and writes JSON to a file."""
    file = tmp_path / "store.json"
    arguments = ("--size", "20000", "--requests", "100", "--json", str(file))
    done = run("store", *arguments)
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_bytes())["rows"]
    assert all(cell["median"] > 0 for cell in rows["us, RESERVE, p50"].values())
    assert "s to open after kill -9" in done.stdout


# ---------------------------------------------------------------------------- the comparisons


def test_every_preset_is_measured_and_checked(monkeypatch):
    """Each with all its figures; a table that finds something else than a plain search has none."""
    found = compared("tables", "--size", "2000", "--distance", "6", "--rounds", "1")
    assert [*found["rows"]] == [f"dedup {preset}" for preset in PRESETS]
    for row in found["rows"].values():
        assert {"us a probe", "us, batched", "B each", "insert k/s", "remove k/s"} <= row.keys()
        assert all(figure["median"] > 0 for figure in row.values())
    monkeypatch.setattr(table_costs, "brute_force", lambda _s, asked, _k: [[10**6]] * len(asked))
    with pytest.raises(DedupError, match="200 of 200 answers are wrong"):
        raise run("tables", "--size", "300").exception


@pytest.mark.parametrize("k", [0, 1, 5])
def test_the_plain_search_is_the_definition(k):
    """It finds exactly the values whose difference has at most k bits."""
    data = make_data(500, k)
    stored, queries = data.stored.tolist(), data.queries[:20].tolist()
    wanted = [[i for i, s in enumerate(stored) if (s ^ q).bit_count() <= k] for q in queries]
    assert brute_force(data.stored, data.queries[:20], k) == wanted


def test_uniform_queries_are_near_ones_and_new_ones_in_turns():
    """Every other query lies within k + 1 bits of a stored one; those between do not."""
    data = make_data(1_000, 3)
    found = brute_force(data.stored, data.queries[:100], 4)
    assert all(found[::2])
    assert not any(found[1::2])


def test_generated_pages_have_about_53_kb():
    """Without --pages both of ours are timed on generated pages of the size of real ones."""
    found = compared("pages", "--count", "3", "--rounds", "1")
    assert [*found["rows"]] == ["dedup", "dedup, its native core alone"]
    assert 45_000 < found["facts"]["page_bytes"] < 62_000


@pytest.mark.parametrize("name", ["service", "scan"])
def test_a_first_look_comes_to_its_end(name):
    """--quick gives figures of every row."""
    assert all(compared(name, "--quick")["rows"].values())


def test_the_comparisons_that_are_named_are_those_that_there_are():
    """Every `tests/bench NAME --OPTION` of the documentation and the Makefile can be run, and none is left unnamed."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", root / "Makefile", *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    looped = re.findall(r"for part in ([a-z \"-]+); do[^;]*; echo \"tests/bench", text)
    named = {name: set[str]() for part in looped for name in re.findall(r"(?<!-)\b[a-z]+", part)}
    for name, options in re.findall(r"tests/bench ([a-z]+)((?: --?[a-z]+[^-`\n;]*)*)", text):
        named.setdefault(name, set()).update(re.findall(r"--[a-z]+", options))
    assert named.keys() == bench.commands.keys()
    files = set(re.findall(r"tests/bench/\w+\.py", text))
    assert [file for file in sorted(files) if not (root / file).is_file()] == []
    for name, options in named.items():
        assert options <= {o for p in bench.commands[name].params for o in p.opts}, name
