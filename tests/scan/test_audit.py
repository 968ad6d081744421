"""`dedup audit`: what other tools removed is read in their own forms, judged exactly, and summed up with intervals."""

import contextlib
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_line import call
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sizes import examples

from dedup.model.errors import DedupError
from dedup.scan.audit.judging import wilson
from dedup.scan.audit.removals import RemovalFormat, hash_of, of_members, of_pairs, read_removals
from dedup.scan.audit.sample import draw, jaccard

WORDS = [f"w{i:04}" for i in range(2000)]


def text(seed: int, changed: int = 0) -> str:
    """A hundred words; of one seed they are alike but for the changed ones, which are the same every time."""
    rng = random.Random(seed)
    words = rng.sample(WORDS, 100)
    for i in range(changed):
        words[5 * i] = f"x{changed}y{i}"
    return " ".join(words)


# Documents by id: 0 and 1 are copies, 2 is near them; 3 and 4 have nothing in common.
TEXTS = [text(1), text(1), text(1, 1), text(2), text(3)]
# What a tool removed: 1 and 2 for 0, rightly, and 4 for 3, wrongly.
PAIRS = [(0, 1), (0, 2), (3, 4)]
GROUPS = [(0, 7), (1, 7), (2, 7), (3, 9), (4, 9)]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.jsonl"
    rows = [
        {"id": i, "url": f"http://h{i % 2}.example/{i}", "text": t} for i, t in enumerate(TEXTS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def audited(removals: Path, documents: Path, *more: object) -> dict:
    result = call("audit", removals, "-d", documents, "--text-field", "text", "--json", *more)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def lines(path: Path, rows: list) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def table(path: Path, names: list[str], rows: list[tuple]) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(
            pa.Table.from_pylist([dict(zip(names, r, strict=True)) for r in rows]), path
        )
    else:
        text = "".join(",".join(map(str, row)) + "\n" for row in [tuple(names), *rows])
        path.write_text("\ufeff" + text, encoding="utf-8")
    return path


FORMS = {
    "pairs": lambda d: (
        lines(d / "a.jsonl", [{"kept": a, "removed": b} for a, b in PAIRS]),
        ["--id-field", "id"],
    ),
    "one for several": lambda d: (
        lines(d / "a.jsonl", [{"kept": 0, "removed": [1, 2]}, {"kept": 3, "removed": [4]}]),
        ["--id-field", "id"],
    ),
    "arrays": lambda d: (lines(d / "a.jsonl", [[0, 1, 2], [3, 4]]), ["--id-field", "id"]),
    "csv": lambda d: (table(d / "a.csv", ["kept", "removed"], PAIRS), ["--positions"]),
    "named": lambda d: (
        table(d / "a.csv", ["good", "bad"], PAIRS),
        ["--positions", "--kept-field", "good", "--removed-field", "bad"],
    ),
    "parquet": lambda d: (table(d / "a.parquet", ["id", "group"], GROUPS), ["--id-field", "id"]),
    "dedup scan": lambda d: (
        lines(
            d / "a.jsonl",
            [
                {"key": f"http://h{b % 2}.example/{b}", "of": f"http://h{a % 2}.example/{a}"}
                for a, b in PAIRS
            ]
            + [{"key": "http://h0.example/0", "of": None}],
        ),
        [],
    ),
    "text-dedup": lambda d: (
        table(
            d / "a.parquet", ["__INDEX__", "__CLUSTER__"], [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3)]
        ),
        [],
    ),
    "NeMo Curator": lambda d: (
        table(d / "a.parquet", ["_curator_dedup_id", "_duplicate_group_id"], GROUPS),
        [
            "--id-field",
            "id",
            "--removed-ids",
            table(d / "ids.parquet", ["_curator_dedup_id"], [(1,), (2,), (4,)]),
        ],
    ),
    "datatrove": lambda d: (
        lines(
            d / "a.jsonl",
            [
                {"id": i, "metadata": {"minhash_cluster_id": g}}
                for i, g in [*GROUPS, (9, -1), (8, -1)]
            ],
        ),
        [],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_other_tools_write_is_read(tmp_path, documents, form):
    """Three removals in two groups, of which one is no copy, whatever the form."""
    removals, options = FORMS[form](tmp_path)
    found = audited(removals, documents, *options)
    known = form if form.startswith(("dedup", "text", "NeMo", "data")) else None
    assert known is None or found["tool"] == known
    assert (found["removed"], found["groups"], found["judged"], found["not_found"]) == (3, 2, 3, 0)
    assert (found["whole"]["no_copy"]["count"], found["whole"]["no_near_duplicate"]["count"]) == (
        1,
        1,
    )
    assert [share["name"] for share in found["by_group_size"]] == ["up to 2", "3 to 5"]
    assert found["worst"][0]["jaccard"] == 0
    assert found["worst"][0]["differs"][0].startswith("[-w")
    assert found["lost"] == found["superseded"] == found["chained"] == 0


def test_the_terminal_and_the_reports_say_the_same(tmp_path, documents):
    """A page of HTML and JSON beside the text."""
    removals, options = FORMS["pairs"](tmp_path)
    for name in ("a.html", "b.json"):
        result = call(
            "audit",
            removals,
            "-d",
            documents,
            "--text-field",
            "text",
            *options,
            "--report",
            tmp_path / name,
        )
        assert result.exit_code == 0
    assert (
        "no copies (Jaccard of 3-token shingles under 0.8): 33.3 % (1; 95 % interval 6.1 to 79.2 %)"
        in result.stdout
    )
    assert "33.3 %" in (tmp_path / "a.html").read_text()
    assert json.loads((tmp_path / "b.json").read_bytes())["judged"] == 3


def test_documents_that_are_not_there_are_counted(tmp_path, documents):
    """A pair without its documents is left out; no pair at all is an error that says how ids are read."""
    removals = lines(tmp_path / "a.jsonl", [{"kept": 0, "removed": 1}, {"kept": 0, "removed": "z"}])
    found = audited(removals, documents, "--id-field", "id")
    assert (found["drawn"], found["judged"], found["not_found"]) == (2, 1, 1)
    result = call("audit", removals, "-d", documents, "--text-field", "text")
    assert result.exit_code == 1
    assert "none of the 3 documents" in result.stderr
    assert "--id-field" in result.stderr


@pytest.mark.parametrize(
    ("name", "data", "named"),
    [
        ("a.jsonl", b'{"x": 1}', "its fields x are of no known form"),
        ("a.jsonl", b"{", "a.jsonl line 1: not JSON"),
        ("a.jsonl", b'{"kept": 1, "removed": 2}\n{"kept": 1}', "a row has no field 'removed'"),
        ("a.jsonl", b"[]", "no document was removed"),
        ("a.txt", b"1 2", "its fields (none) are of no known form"),
        ("a.parquet", b"PAR1", "a.parquet"),
    ],
)
def test_bad_input_is_named(tmp_path, documents, name, data, named):
    """The file, the place, and what is wrong."""
    (tmp_path / name).write_bytes(data)
    result = call("audit", tmp_path / name, "-d", documents, "--text-field", "text")
    assert result.exit_code in {1, 2}
    assert named in result.stderr


def hashes(*names: object) -> np.ndarray:
    return np.array([hash_of(name) for name in names], np.int64)


def test_a_group_that_lost_all_members_is_found():
    """b for a, a for b: none is left. So where all members of a group are listed as removed."""
    found = of_pairs("", hashes("b", "a", "d"), hashes("a", "b", "c"))
    assert (sorted(found.sizes.tolist()), found.lost, set(found.lost_members)) == (
        [2, 2],
        1,
        {hash_of("a"), hash_of("b")},
    )
    groups = np.array([1, 1, 2, 2])
    found = of_members(
        "", hashes("a", "b", "c", "d"), groups, gone=np.unique(hashes("a", "b", "d"))
    )
    assert (found.lost, len(found.removed)) == (1, 2)


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12)).filter(lambda p: p[0] != p[1]),
        max_size=20,
        unique_by=lambda p: p[0],
    )
)
@settings(max_examples=examples(200))
def test_groups_are_those_of_a_plain_walk(pairs):
    """From each removed document on to the one that was kept at last, or around a circle."""
    kept_for = dict(pairs)
    found = of_pairs("", hashes(*kept_for), hashes(*kept_for.values()))
    lasts = {}
    for start in kept_for:
        seen, at = [], start
        while at in kept_for and at not in seen:
            seen.append(at)
            at = kept_for[at]
        lasts[start] = frozenset(seen[seen.index(at) :]) if at in kept_for else at
    sizes = {
        last: sum(1 for each in lasts.values() if each == last) + (not isinstance(last, frozenset))
        for last in lasts.values()
    }
    assert sorted(found.sizes.tolist()) == sorted(sizes.values())
    assert found.lost == sum(isinstance(last, frozenset) for last in sizes)
    assert found.superseded == sum(kept in kept_for for kept in kept_for.values())


def test_every_pair_is_drawn_with_the_same_chance():
    """Of ten pairs each is in about half of the samples of five, and a seed gives one sample."""
    found = of_pairs("", hashes(*range(10)), hashes(*range(10, 20)))
    times = np.bincount([place for seed in range(400) for place in draw(found, 5, seed).pairs])
    assert times.min() > 160
    assert times.max() < 240
    assert draw(found, 5, 3) == draw(found, 5, 3)


def test_a_chain_is_found(tmp_path):
    """A near B near C, A far from C: six words of a hundred change from one to the next."""
    base = text(5).split(" ")
    versions = [
        " ".join([*(f"n{i}" for i in range(6 * step)), *base[6 * step :]]) for step in range(3)
    ]
    documents = lines(
        tmp_path / "d.jsonl", [{"url": str(i), "text": t} for i, t in enumerate(versions)]
    )
    removals = lines(tmp_path / "a.jsonl", [["0", "1", "2"]])
    found = audited(removals, documents, "--threshold", 0.84)
    assert (found["groups_looked_into"], found["chained"]) == (1, 1)
    (chain,) = found["chains"]
    assert ({chain["first"], chain["last"]}, chain["middle"]) == ({"0", "2"}, "1")
    assert chain["far"] < 0.84 <= min(chain["near"])


def test_jaccard_is_that_of_the_sets():
    """Of 3-token shingles; a shorter text is one shingle."""
    assert jaccard("a b c d".split(), "a b c e".split()) == 1 / 3
    assert jaccard(["a"], ["a"]) == jaccard([], []) == 1
    assert jaccard(["a"], []) == 0


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(0, 10, 0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1), (1, 1000, 0.0002, 0.0056)],
)
def test_wilsons_interval(count, total, low, high):
    """Against published values (Newcombe 1998 has the method)."""
    found = wilson(count, total)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0, 1)


def test_fields_go_together():
    """A removed field without a kept one, or a group, is a wrong usage."""
    result = call("audit", "a.jsonl", "-d", "b.jsonl", "--removed-field", "x")
    assert result.exit_code == 2
    assert "--kept-field or --group-field" in result.stderr
    assert RemovalFormat("pairs", "a", kept="b").fields == {"removed": "a", "kept": "b"}


@given(st.binary(max_size=300), st.sampled_from([".jsonl", ".csv", ".parquet", ".jsonl.gz"]))
@settings(max_examples=examples(200))
def test_any_bytes_end_in_removals_or_in_an_error(tmp_path_factory, data, suffix):
    """A file of chance bytes is read, or refused by name."""
    path = tmp_path_factory.mktemp("any") / f"a{suffix}"
    path.write_bytes(data)
    with contextlib.suppress(DedupError):
        read_removals([str(path)])
