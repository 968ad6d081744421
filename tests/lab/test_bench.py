"""Benchmarks: they come to their end and report what they say they do. No figure is judged here."""

import json
import subprocess
import sys

import numpy as np
import pytest

from dedup.core.pairs import find_all
from dedup.lab.bench.all_pairs import permuted_pairs


def bench(*arguments):
    command = [sys.executable, "-m", "dedup", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


@pytest.mark.long
def test_crawl_reports_both_crawls():
    """`bench crawl --quick --json` crawls 60 pages of about 53 KB with and without the add-on."""
    done = bench("crawl", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["work"], report["pages"], report["rounds"]) == ("parse", 60, 1)
    assert 45_000 < report["page_bytes"] < 61_000
    assert report["near_duplicates"] == 0
    with_us, without_us = report["with_us"]["median"], report["without_us"]["median"]
    assert report["added_us"]["median"] == pytest.approx(with_us - without_us)
    assert 0 < report["metered_us"]["median"] < with_us
    steps = [
        "page to fingerprint",
        "document key",
        "probe and reservation",
        "insert, and the stats",
    ]
    assert [*report["steps_us"]] == [*steps, "all else"]
    assert all(report["steps_us"][step] > 0 for step in steps)
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
    assert done.stdout.startswith("3 pages of 3 KB (2 near-duplicates), a spider that parses and")
    assert "crawl with the add-on" in done.stdout


def test_directory_reports_every_tenth():
    """`bench directory --quick --json`: every entry is another page, and kept; both memories have times."""
    done = bench("directory", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["entries"] == report["kept"] == 500
    assert len(report["embedded_us"]) == len(report["service_us"]) == 10
    assert min(report["embedded_us"] + report["service_us"]) > 0


def test_crawl_refuses_a_folder_without_pages(tmp_path):
    """A folder without HTML files is a usage error that names it."""
    done = bench("crawl", "--quick", "--pages", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path} holds no HTML files" in done.stderr


def test_batch_finds_what_it_planted():
    """`bench batch --json` searches the stream it was told, and counts what it planted there."""
    done = bench("batch", "--queries", "1000", "--stored", "3000000", "--pairs", "20000", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["queries"], report["stored"], report["k"]) == (1000, 3_000_000, 3)
    # one in 16384, and every fifth of them one bit too far
    assert (report["planted"], report["near_misses"]) == (148, 36)
    assert report["others"] < 3
    assert report["cpu_seconds"] > 0
    assert report["paper_seconds"] > 0
    joined = report["pairs"]
    assert (joined["values"], joined["k"], joined["pairs"]) == (20_000, 3, 2000)
    assert joined["reference_cpu_seconds"] > 0


def test_batch_prints_a_table():
    """Without --json there is a table with the paper's figures in it."""
    done = bench(
        "batch", "--queries", "10", "--stored", "100000", "--distance", "5", "--pairs", "0"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 queries against a generated stream of 100,000 fingerprints")
    assert "the paper, 200 mappers" in done.stdout
    assert bench("batch", "--quick", "--full").returncode == 2


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
