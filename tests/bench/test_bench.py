"""Benchmarks: they come to their end and report what they say they do. No figure is judged here."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import table_costs
from click.testing import CliRunner
from runner import Bench, case, number

from dedup.model.errors import DedupError

pytestmark = pytest.mark.long  # `make bench` is for those who work on this

SPEC = importlib.util.spec_from_file_location("bench_main", Path(__file__).with_name("__main__.py"))
MAIN = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MAIN)


def run(*arguments, command=MAIN.bench):
    return CliRunner().invoke(command, [*map(str, arguments)])


def compared(*arguments):
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_figures_are_medians_with_their_range_and_ratios_are_of_one_round():
    """Of three rounds; a column that a row lacks is empty in the table."""
    figures = iter([(1.0, 2.0), (3.0, 9.0), (2.0, 2.0)])

    @case("some", number("size", 7, "Size."), rounds=3)
    def some(size):
        def one():
            ours, theirs = next(figures)
            return {"ours": {"us": ours, "MB": size}, "theirs": {"us": theirs}}

        yield Bench({"size": size}, one, ratio="us")

    lines = run(command=some).stdout.splitlines()
    assert "size: 7" in lines
    (ours,) = (line.split("  ") for line in lines if line.startswith("ours"))
    (theirs,) = (re.split("  +", line) for line in lines if line.startswith("theirs"))
    assert "2.00 (1.00 to 3.00)" in ours
    assert theirs[1:] == ["2.00 (2.00 to 9.00)", "-", "2.00 (1.00 to 3.00)"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tables", "--distance", "16"], "16 is not in the range"),
        (["pages", "--pages", "no-such-folder"], "no-such-folder"),
        (["nothing"], "No such benchmark 'nothing'"),
    ],
)
def test_wrong_arguments_name_themselves(arguments, said):
    """What cannot be measured is refused before anything is."""
    done = run(*arguments)
    assert done.exit_code
    assert said in done.stderr


def test_a_store_is_filled_killed_and_opened(tmp_path):
    """A row for each figure; with --rate what is written then; JSON goes to a file."""
    file = tmp_path / "store.json"
    done = run("store", "--size", 20_000, "--requests", 100, "--json", file)
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_bytes())["rows"]
    assert all(each["median"] > 0 for each in rows["us, RESERVE, p50"].values())
    assert "s to open after kill -9" in done.stdout
    rows = compared("store", "--rate", 200, "--seconds", 1)["rows"]
    assert rows["us, insert, mean"]["200 a second"]["median"] > 0


def test_batch_and_pairs_find_what_they_planted():
    """Each counts it; one in 16384 of a stream, and every fifth of them one bit too far."""
    facts = compared("batch", "--queries", 1000, "--stored", 3_000_000)["facts"]
    assert (facts["planted"], facts["near_misses"]) == (148, 36)
    assert compared("pairs", "--values", 20_000)["facts"]["pairs"] == 2000


def test_every_preset_is_measured_and_checked(monkeypatch):
    """Each with all its figures; a table that finds something else than a plain search has none."""
    for row in compared("tables", "--size", 2000, "--distance", 6, "--rounds", 1)["rows"].values():
        assert {"us a probe", "us, batched", "B each", "insert k/s"} <= row.keys()
    monkeypatch.setattr(table_costs, "plain_search", lambda _s, asked, _k: [[10**6]] * len(asked))
    with pytest.raises(DedupError, match="40 of 40 answers are wrong"):
        raise run("tables", "--size", "300").exception


@pytest.mark.parametrize("k", [0, 1, 5])
def test_the_plain_search_is_the_definition(k):
    """It finds exactly the values whose difference has at most k bits."""
    stored = np.random.default_rng(k).integers(0, 2**64, 500, np.uint64)
    queries = stored[:20] ^ np.uint64(2**k - 1)
    wanted = [
        [i for i, s in enumerate(stored.tolist()) if (s ^ q).bit_count() <= k]
        for q in queries.tolist()
    ]
    assert table_costs.plain_search(stored, queries, k) == wanted


def test_generated_pages_have_about_53_kb():
    """Without --pages both of ours are timed on generated pages of the size of real ones."""
    found = compared("pages", "--count", "3", "--rounds", "1")
    assert [*found["rows"]] == ["dedup", "dedup, its native core alone"]
    assert 45_000 < found["facts"]["page_bytes"] < 62_000


@pytest.mark.parametrize("name", ["crawl", "service", "scan"])
def test_a_first_look_comes_to_its_end(name):
    """--quick gives figures of every row."""
    assert all(compared(name, "--quick")["rows"].values())


def test_the_comparisons_that_are_named_are_those_that_there_are():
    """Every `tests/bench NAME --OPTION` of the documentation and the Makefile can be run, and none is left unnamed."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", root / "Makefile", *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    looped = re.findall(r"for part in ([a-z \"-]+); do[^;]*; echo \"tests/bench", text)
    named = {name: set() for part in looped for name in re.findall(r"(?<!-)\b[a-z]+", part)}
    for name, options in re.findall(r"tests/bench ([a-z]+)((?: --?[a-z]+[^-`\n;]*)*)", text):
        named.setdefault(name, set()).update(re.findall(r"--[a-z]+", options))
    assert named.keys() == MAIN.MODULES.keys()
    for name, options in named.items():
        params = MAIN.bench.get_command(None, name).params
        assert options <= {each for param in params for each in param.opts}, name
