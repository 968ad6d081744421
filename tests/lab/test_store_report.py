"""`dedup store report`: the figures against plain Python, and what is said of crowded places."""

import json
import random
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from sketches import sketch

from dedup.cli import main
from dedup.cli.terminal import Bar
from dedup.lab.spread import spread as report_module
from dedup.lab.spread.spread import (
    bucket_counts,
    expected_neighbours,
    neighbour_counts,
    neighbourhoods,
    report_store,
)
from dedup.model.recipes import recipe_of
from dedup.model.values import Document, PageFingerprint
from dedup.store import Store

RECIPE = recipe_of()
WORD = st.integers(0, 2**64 - 1)


def call(*args: object) -> Result:
    return CliRunner().invoke(main, ["store", "report", *map(str, args)], prog_name="dedup")


def document(key, value, domain="example.com", sketch_bits=0, features=100, title=0):
    page = PageFingerprint(value, sketch(sketch_bits), title << 32, features, RECIPE.id)
    return Document(key, page, domain, 1.0)


@pytest.fixture
def folder(tmp_path):
    """A store with a hot value, a dense place around it, another hot value, and loose pages."""
    rng = random.Random(1)
    hot = 0x0F0F_0F0F_0F0F_0F0F
    documents = [
        document("hot 1", hot, title=1),
        document("hot 2", hot, sketch_bits=2**4 - 1, title=2),
        document("hot 3", hot, sketch_bits=2**4 - 1, title=1),
        document("hot 4", hot, sketch_bits=2**90 - 1, domain="other.org"),
        document("near 1", hot ^ 0b11, features=RECIPE.min_features - 1),
        document("near 2", hot ^ 0b1111100, domain=""),
        document("second 1", 2**63),
        document("second 2", 2**63),
    ]
    documents += [document(f"loose {i}", rng.getrandbits(64), f"d{i % 4}.net") for i in range(50)]
    with Store.open(tmp_path, "site") as store:
        store.insert_many(documents)
    return tmp_path / "site"


@given(st.sets(WORD, max_size=40))
@settings(deadline=None)
def test_neighbours_share_the_bits_that_plain_python_counts(values):
    """The leading 1-bit of each XOR of sorted neighbours, by int.bit_length."""
    ordered = sorted(values)
    expected = Counter(64 - (a ^ b).bit_length() for a, b in pairwise(ordered))
    seen = neighbour_counts(np.array(ordered, np.uint64))
    assert {p: n for p, n in enumerate(seen.tolist()) if n} == expected


@pytest.mark.parametrize("count", [2, 3, 100])
def test_random_values_come_to_what_is_expected(count):
    """The mean over many random draws lies within five standard errors of the formula."""
    rng = np.random.default_rng(5)
    draws = np.array(
        [
            neighbour_counts(np.unique(rng.integers(0, 2**64, count, dtype=np.uint64)))
            for _ in range(2000)
        ]
    )
    error = draws.std(axis=0) / 2000**0.5
    assert (np.abs(draws.mean(axis=0) - expected_neighbours(count)) <= 5 * error + 0.01).all()
    assert expected_neighbours(count).sum() == pytest.approx(count - 1)


def test_nothing_is_expected_of_one_value():
    """No value or one has no neighbours; a million values have as many as there are, less one."""
    assert expected_neighbours(0).sum() == expected_neighbours(1).sum() == 0
    assert expected_neighbours(10**6).sum() == pytest.approx(10**6 - 1)


@given(st.lists(WORD, max_size=40), st.sampled_from([2, 128, 1024]))
@settings(deadline=None)
def test_buckets_are_equal_parts_of_the_range(values, buckets):
    """A value lies in part value * buckets / 2**64."""
    expected = Counter(value * buckets >> 64 for value in values)
    seen = bucket_counts(np.array(values, np.uint64), buckets)
    assert len(seen) == buckets
    assert {b: n for b, n in enumerate(seen.tolist()) if n} == expected


@given(st.lists(st.integers(0, 40).map(lambda n: n << 58 | n), max_size=60), st.integers(0, 4))
@settings(deadline=None)
def test_neighbourhoods_count_every_document_within_k(values, k):
    """The documents within k of a value, by a comparison with each."""
    distinct, times = np.unique(np.array(values, np.uint64), return_counts=True)
    expected = [sum((v ^ w).bit_count() <= k for w in values) for v in distinct.tolist()]
    assert neighbourhoods(distinct, times, k).tolist() == expected


def test_neighbourhoods_of_many_values(monkeypatch):
    """The same in several batches, also where each value has so many matches that they shrink."""
    monkeypatch.setattr(report_module, "MATCHES", 500)
    rng = np.random.default_rng(3)
    crowd = np.uint64(1) << rng.integers(0, 64, 100, dtype=np.uint64)
    values = np.concatenate([rng.integers(0, 2**64, 300, dtype=np.uint64), crowd])
    distinct, times = np.unique(values, return_counts=True)
    expected = [sum((v ^ w).bit_count() <= 3 for w in values.tolist()) for v in distinct.tolist()]
    seen: list[tuple[int, int]] = []
    around = neighbourhoods(distinct, times, 3, lambda *step: seen.append(step))
    assert around.tolist() == expected
    assert seen[-1] == (len(distinct), len(distinct))


def test_hot_values_are_explained(folder):
    """The values with most documents, with keys, domains, and why they stand beside the oldest."""
    report = report_store(folder, top=3)
    assert [(p.value, p.documents, p.values) for p in report.hot] == [
        ("0f0f0f0f0f0f0f0f", 4, 1),
        ("8000000000000000", 2, 1),
    ]
    first, second = report.hot
    assert first.keys == ["hot 1", "hot 2", "hot 3"]
    assert first.domains == {"example.com": 3, "other.org": 1}
    assert (first.short, first.apart, first.other, first.alike) == (0, 1, 1, 1)
    assert (second.alike, second.keys) == (1, ["second 1", "second 2"])


def test_dense_places_are_those_with_others_around(folder):
    """A place counts the documents of all values within k; a hot value alone is no dense place."""
    report = report_store(folder, k=5)
    assert [(p.value, p.documents, p.values) for p in report.dense] == [("0f0f0f0f0f0f0f0f", 6, 3)]
    place = report.dense[0]
    assert place.features == (RECIPE.min_features - 1, 100)
    assert (place.short, place.apart, place.other, place.alike) == (1, 1, 1, 2)
    assert report.crowded == 8
    narrow = report_store(folder, k=2).dense[0]
    assert (narrow.documents, narrow.values) == (5, 2)


def test_the_report_adds_up(folder):
    """Documents, values, neighbours and buckets come to the same numbers; domains are sorted."""
    report = report_store(folder)
    assert (report.documents, report.values, report.domains) == (58, 54, 7)
    assert sum(report.neighbours) == report.values - 1
    assert sum(report.buckets) == report.documents
    assert report.distance == RECIPE.distance
    assert [*report.domain_documents.items()][:3] == [
        ("d0.net", 13),
        ("d1.net", 13),
        ("d2.net", 12),
    ]
    assert report.domain_documents["example.com"] == 6
    assert report.domain_documents[""] == 1


def test_the_command_prints_tables_and_json(folder):
    """The JSON is the report; the tables show its numbers, with bars and example keys."""
    seen = json.loads(call(folder, "--json").stdout)["stores"][0]
    report = report_store(folder)
    assert seen["hot"][0]["keys"] == report.hot[0].keys
    assert seen["neighbours"] == report.neighbours
    shown = call(folder, "--distance", 5, "--top", 2).stdout
    assert (
        f"58 documents of recipe {RECIPE.id}\n54 distinct values, 7 domains; 8 documents" in shown
    )
    for shared, count in enumerate(report.neighbours):
        if count:
            assert re.search(rf"^ *{shared} +{63 - shared} +{count} ", shown, re.MULTILINE)
    assert "0f0f0f0f0f0f0f0f: 4 documents, 100 features\n" in shown
    assert "0f0f0f0f0f0f0f0f: 6 documents of 3 values, " in shown
    assert "  beside the oldest: 1 too far from it, 1 other pages by title, 1 alike\n" in shown
    assert "\nand 5 more\n" in shown


def test_nothing_is_changed_and_other_stores_are_shown(folder):
    """The store's bytes stay; a damaged neighbour is named, and gives exit code 1."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    bad = folder.parent / "bad"
    bad.mkdir()
    (bad / "documents.mdb").write_bytes(b"no store at all")
    result = call(folder.parent)
    assert result.exit_code == 1
    assert "bad/documents.mdb" in result.stderr
    assert "58 documents of recipe" in result.stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_empty_store_has_an_empty_report(tmp_path):
    """No document, no division by it."""
    Store.open(tmp_path, "none").close()
    result = call(tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(
        f"0 documents of recipe {RECIPE.id}\n"
        f"0 distinct values, 0 domains; 0 documents with another within {RECIPE.distance} bits\n"
    )


def test_bars_are_as_long_as_their_numbers():
    """The most fills the room, half fills half, one of many still is seen, none is not."""
    drawn = [Bar(number, most).drawn(32) for number, most in ((8, 8), (4, 8), (1, 10**6), (0, 8))]
    assert drawn == ["█" * 32, "█" * 16, "▏", ""]


def test_help_shows_an_example():
    """The help of the command ends with an example that calls it."""
    assert "Example: dedup store report" in call("--help").output


def test_the_page_says_what_the_text_says(folder, tmp_path):
    """--html writes one page with every store's figures and nothing to load."""
    made = tmp_path / "page.html"
    assert call(folder, "--html", made).exit_code == 0
    page = made.read_text()
    found = report_store(folder)
    assert f"<dt>documents</dt><dd>{found.documents:,}</dd>" in page
    assert f"<dt>distinct values</dt><dd>{found.values:,}</dd>" in page
    assert all(
        f"<h3><code>{place.value}</code></h3>" in page for place in [*found.hot, *found.dense]
    )
    assert page.count('<rect class="part') == len(found.buckets)
    assert not re.findall(r"""src=["']|<script|<link""", page)


def test_keys_are_escaped_on_the_page(tmp_path):
    """A document key is anything a crawler met; on the page it is text."""
    with Store.open(tmp_path, "site") as store:
        store.insert_many([document(f"<script>{n}</script>", 7) for n in range(2)])
    shown = call(tmp_path, "--html", "-").stdout
    assert "&lt;script&gt;1&lt;/script&gt;" in shown
    assert "<script" not in shown


def test_page_and_json_do_not_share_stdout(folder):
    """--html - and --json together are a usage error."""
    assert call(folder, "--html", "-", "--json").exit_code == 2
