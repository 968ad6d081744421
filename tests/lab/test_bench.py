"""Benchmarks: they come to their end and report what they say they do. No figure is judged here."""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from all_pairs import permuted_pairs
from archives import Truth
from click.testing import CliRunner
from comparisons import COMPARISONS
from comparisons import bench as comparisons

from dedup.cli import main
from dedup.cli.bench import shown
from dedup.core.pairs import find_all
from dedup.lab.bench import CASES, Bench, Case, Option, measure


def bench(*arguments):
    command = [sys.executable, "-m", "dedup", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def compared(*arguments):
    done = CliRunner().invoke(comparisons, [*arguments, "--json"])
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


def test_progress_is_reported_for_every_round():
    """(done, total), once a round."""
    seen = []
    measure(case(3), 3, {"size": 7}, lambda *given: seen.append(given))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_every_case_is_a_command_with_its_options(each):
    """`dedup bench NAME --help` names all of them, and --quick changes options that there are."""
    done = CliRunner().invoke(main, ["bench", each.name, "--help"])
    assert done.exit_code == 0
    assert all(f"--{option.name}" in done.stdout for option in each.options)
    assert set(each.quick) - {"rounds"} <= {option.name for option in each.options}
    assert ("--rounds" in done.stdout) == (each.rounds is not None)


def test_cases_have_names_of_their_own():
    """In each of the two tables."""
    for cases in (CASES, COMPARISONS):
        assert len({each.name for each in cases}) == len(cases)


# ---------------------------------------------------------------------------------- the cases


@pytest.mark.long
def test_crawl_reports_both_crawls():
    """`bench crawl --quick --json` crawls 60 pages of about 53 KB with and without the add-on."""
    done = bench("crawl", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    facts, rows = report["facts"], report["rows"]
    assert (facts["work"], facts["pages"], report["rounds"]) == ("parse", 60, 1)
    assert 45_000 < facts["page_bytes"] < 61_000
    assert facts["near_duplicates"] == 0

    def us(row):
        return rows[row]["us of CPU a page"]["median"]

    added = us("crawl with the add-on") - us("crawl without the add-on")
    assert us("added") == pytest.approx(added)
    assert 0 < us("the add-on's own meter") < us("crawl with the add-on")
    steps = [row.strip() for row in rows if row.startswith("  ")]
    assert steps == [
        "page to fingerprint",
        "document key",
        "probe and reservation",
        "insert, and the stats",
        "all else",
    ]
    assert all(us(f"  {step}") > 0 for step in steps[:-1])
    whole = rows["added, whole process"]["us of CPU a page"]["median"]
    start = rows["added once, at the start"]["ms of CPU"]["median"]
    assert whole == pytest.approx(added + 1e3 * start / 60)
    assert report["machine"]["packages"]["scrapy"]


@pytest.mark.long
def test_crawl_takes_a_folder_of_pages(tmp_path):
    """--pages takes the HTML files of a folder, in any encoding, and prints a table."""
    # long enough that each is a near-duplicate of each, whichever comes first
    words = " ".join(f"mot{n}" for n in range(400))
    for number, encoding in enumerate(("utf-8", "latin-1", "utf-8")):
        page = f"<html><head><meta charset={encoding}></head><body><p>é {number} {words}</p>"
        (tmp_path / f"{number}.html").write_bytes(page.encode(encoding))
    done = bench("crawl", "--quick", "--pages", str(tmp_path), "--work", "follow")
    assert done.returncode == 0, done.stderr
    assert "pages: 3\n" in done.stdout
    assert "near_duplicates: 2\n" in done.stdout
    assert "crawl with the add-on" in done.stdout


def test_crawl_refuses_a_folder_without_pages(tmp_path):
    """A folder without HTML files is a usage error that names it."""
    done = bench("crawl", "--quick", "--pages", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path} holds no HTML files" in done.stderr


@pytest.mark.long
def test_tables_are_checked_and_measured():
    """Every preset has its figures in every setting; JSON goes to a file, too."""
    arguments = (
        "--sizes",
        "300,2000",
        "--distances",
        "3,6",
        "--rounds",
        "1",
        "--data",
        "clustered",
    )
    done = CliRunner().invoke(main, ["bench", "tables", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert [*report["rows"]] == [
        f"{size}, k = {k}, {preset}"
        for size in ("300", "2,000")
        for k in (3, 6)
        for preset in ("auto", "compact", "fast")
    ]
    for row in report["rows"].values():
        assert all(figure["median"] > 0 for figure in row.values())


def test_a_wrong_answer_is_an_error(monkeypatch):
    """A table that finds something else than a plain search has no figures."""
    monkeypatch.setattr(
        "dedup.lab.bench.tables.brute_force", lambda _s, queries, _k: [[10**6]] * len(queries)
    )
    done = CliRunner().invoke(main, ["bench", "tables", "--sizes", "300", "--distances", "3"])
    assert done.exit_code == 1
    assert "wrong answer" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tables", "--data", "no-such-file"], "no-such-file is no file"),
        (["tables", "--sizes", "ten"], "ten must be numbers"),
        (["tables", "--distances", "3,16"], "3,16 must be numbers in 1 .. 15"),
        (["store", "--cgroup", "/"], "--cgroup needs --memory"),
        (["nothing"], "No such benchmark 'nothing'"),
    ],
)
def test_wrong_arguments_name_themselves(arguments, said):
    """What cannot be measured is refused before anything is."""
    done = CliRunner().invoke(main, ["bench", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_store_is_filled_killed_and_opened(tmp_path):
    """`bench store` has a row for each figure and a column for each size, and writes JSON to a file."""
    file = tmp_path / "store.json"
    arguments = ("--sizes", "20000,30000", "--requests", "100", "--json", str(file))
    done = CliRunner().invoke(main, ["bench", "store", *arguments])
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_bytes())["rows"]
    assert {len(row) for row in rows.values()} == {2}
    assert all(cell["median"] > 0 for cell in rows["us, RESERVE, p50"].values())
    assert "s to open after kill -9" in done.stdout


@pytest.mark.long
def test_a_service_is_measured():
    """Rates, CPU and latencies are there, in order."""
    done = CliRunner().invoke(main, ["bench", "service", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["facts"]["documents"] == 100_000
    assert 0 < sum(report["facts"]["segments"]) <= 100_000
    *loads, half = report["rows"].values()
    assert [*report["rows"]] == [
        "PROBE, single",
        "PROBE, pipelined 64",
        "RESERVE + INSERT",
        "RESERVE + INSERT, 16 in a write",
        "RESERVE + INSERT, on one core",
        "PROBE, at half load",
    ]
    for load in loads:
        assert load["a second"]["median"] > 0
        assert load["a CPU second"]["median"] > 0
    shares = [half[name]["median"] for name in ("p50 ms", "p99 ms", "p99.9 ms")]
    assert 0 < shares[0] <= shares[1] <= shares[2]


# ---------------------------------------------------------------------------- the comparisons


def test_directory_reports_every_tenth():
    """Every entry is another page, and kept; both memories have times."""
    report = compared("directory", "--quick")
    assert report["facts"]["entries"] == report["facts"]["kept"] == 500
    assert len(report["rows"]) == 10
    for row in report["rows"].values():
        assert len(row) == 2
        assert min(figure["median"] for figure in row.values()) > 0


def test_batch_finds_what_it_planted():
    """It searches the stream it was given, and counts what it planted there."""
    report = compared("batch", "--queries", "1000", "--stored", "3000000")
    facts = report["facts"]
    assert (facts["queries"], facts["stored"], facts["distance"]) == (1000, 3_000_000, 3)
    # one in 16384, and every fifth of them one bit too far
    assert (facts["planted"], facts["near_misses"]) == (148, 36)
    assert facts["others"] < 3
    assert report["rows"]["s of CPU of all threads"][""]["median"] > 0
    assert "the paper: 200 mappers, 100 s" in (
        CliRunner().invoke(comparisons, ["batch", "--queries", "10", "--stored", "100000"]).stdout
    )


@pytest.mark.long
def test_items_decide_on_generated_sites():
    """No site loses an item, each has copies that are dropped; a digest has a size."""
    rows = compared("items", "--quick")["rows"]
    sites = [row for row in rows.values() if "items lost" in row]
    assert len(sites) == 6
    for row in sites:
        assert row["items lost"]["median"] == 0
        assert row["dropped"]["median"] > 0
    assert rows["digest, 3 fields"]["bytes"]["median"] == 36


def test_pairs_are_those_of_the_reference():
    """All ways find the pairs that were planted."""
    report = compared("pairs", "--values", "20000")
    assert (report["facts"]["values"], report["facts"]["pairs"]) == (20_000, 2000)
    assert report["rows"]["the way of simhash-cpp"]["CPU s"]["median"] > 0


@pytest.mark.long
def test_shards_are_measured_beside_one_service(kafka, monkeypatch):
    """Latencies and CPU of both, and their ratio, on one log."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka)
    options = ("--documents", "500", "--shards", "2", "--rounds", "1", "--seconds", "1")
    rows = compared("shards", *options, "--pages", "100")["rows"]
    assert [*rows] == ["one service", "2 shards"]
    for row in rows.values():
        assert 0 < row["p50 ms"]["median"] <= row["p99 ms"]["median"]
        assert row["us of CPU a page, client"]["median"] > 0
    one, shards = (row["p50 ms"]["median"] for row in rows.values())
    assert rows["2 shards"]["times one service"]["median"] == pytest.approx(shards / one)


@pytest.mark.long
def test_events_are_applied_for_the_time(kafka, monkeypatch):
    """All of them are, and what the start took is left out."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka)
    row = compared("events", "--quick")["rows"]["events applied"]
    assert row["a CPU second"]["median"] * row["us"]["median"] == pytest.approx(1e6)


@pytest.mark.long
@pytest.mark.skipif(not which("redis-server"), reason="redis-server is not installed")
def test_a_probe_is_compared_with_get():
    """One at a time, and many in a write."""
    rows = compared("redis", "--quick")["rows"]
    for how in ("single", "64 in a write"):
        get, probe = (rows[f"{name}, {how}"]["a CPU second"]["median"] for name in ("GET", "PROBE"))
        assert rows[f"PROBE, {how}"]["of GET's"]["median"] == pytest.approx(probe / get)


@pytest.mark.long
def test_scan_measures_every_way():
    """Pages a second for one process and for one a core."""
    report = compared("scan", "--pages", "20", "--rounds", "1")
    assert (report["facts"]["pages"], report["facts"]["near_duplicates"]) == (20, 4)
    assert next(iter(report["rows"])) == "1 process"
    assert all(row["pages/s of CPU"]["median"] > 0 for row in report["rows"].values())


@pytest.mark.parametrize("k", range(5))
def test_the_reference_finds_all_pairs(k):
    """Permuted and sorted copies find what find_all finds, also where many values are near."""
    rng = np.random.default_rng(k)
    centres = rng.integers(0, 2**64, 300, np.uint64)
    values = rng.choice(centres, 3000) ^ np.uint64(1) << rng.integers(0, 64, 3000, np.uint64)
    values = np.unique(values ^ np.uint64(1) << rng.integers(0, 64, 3000, np.uint64))
    found = permuted_pairs(values, k)
    assert found.tolist() == find_all(values, k).tolist()
    assert k < 2 or len(found) > 1000


def test_what_was_kept_is_held_to_exact_similarities():
    """Of dropped texts the nearest that was kept counts, of kept ones an earlier one that was kept."""
    words = [f"w{n}" for n in range(100)]
    near, half = [*words[:98], "a", "b"], [*words[:70], *(f"x{n}" for n in range(30))]
    texts = [" ".join(each) for each in (words, near, half, [f"y{n}" for n in range(100)])]
    truth = Truth(texts)
    found = truth.of({0, 3})  # of the first text: 96 of 100 triples, and 68 of 128
    assert found == {"dropped": 2, "right %": 50, "wrong": 0, "missed": 0}
    assert truth.of({0, 1, 2, 3})["missed"] == 1
    assert truth.of({0, 1, 2}) == {"dropped": 1, "right %": 0, "wrong": 1, "missed": 1}


@pytest.mark.long
def test_archives_beside_reading_alone():
    """tests/bench archives: every way reads all pages; the peers are left out by name without their Python."""
    found = compared("archives", "--pages", "60", "--documents", "200")
    assert found["facts"]["pages"] == 60
    assert "datatrove" in found["facts"]["left out"]
    texts = found["rows"]["texts: dedup scan"]
    assert (texts["dropped"]["median"], texts["right %"]["median"]) == (12, 100)
    assert (texts["wrong"]["median"], texts["missed"]["median"]) == (0, 0)


def test_the_comparisons_that_are_named_are_those_that_there_are():
    """Every `tests/bench NAME --OPTION` of the documentation and the Makefile can be run, and none is left unnamed."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", root / "Makefile", *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    looped = re.findall(r"for part in ([a-z ]+); do[^;]*; echo \"tests/bench", text)
    named = {name: set[str]() for part in looped for name in part.split()}
    for name, options in re.findall(r"tests/bench ([a-z]+)((?: --?[a-z]+[^-`\n;]*)*)", text):
        named.setdefault(name, set()).update(re.findall(r"--[a-z]+", options))
    assert named.keys() == comparisons.commands.keys()
    files = set(re.findall(r"tests/bench/\w+\.py", text))
    assert [file for file in sorted(files) if not (root / file).is_file()] == []
    for name, options in named.items():
        assert options <= {o for p in comparisons.commands[name].params for o in p.opts}, name
