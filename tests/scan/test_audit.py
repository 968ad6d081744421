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
from dedup.scan.audit.removals import RemovalFields, hash_of, read_removals, removals_of
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
        ["--removed-field", "key", "--kept-field", "of"],
    ),
    "group whose id is the kept one's": lambda d: (
        table(
            d / "a.parquet", ["__INDEX__", "__CLUSTER__"], [(1, 0), (0, 0), (2, 0), (4, 3), (3, 3)]
        ),
        ["--positions", "--removed-field", "__INDEX__", "--group-field", "__CLUSTER__"],
    ),
    "groups by a path, and documents in none": lambda d: (
        lines(
            d / "a.jsonl",
            [{"id": i, "in": {"cluster": g}} for i, g in [*GROUPS, (9, -1), (8, -1), (7, None)]],
        ),
        ["--id-field", "id", "--removed-field", "id", "--group-field", "in.cluster"],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_other_tools_write_is_read(tmp_path, documents, form):
    """Three removals for two documents, of which one is no copy, whatever the form."""
    removals, options = FORMS[form](tmp_path)
    found = audited(removals, documents, *options)
    assert (found["removed"], found["kept"], found["judged"], found["not_found"]) == (3, 2, 3, 0)
    assert (found["whole"]["no_copy"]["count"], found["whole"]["no_near_duplicate"]["count"]) == (
        1,
        1,
    )
    assert found["worst"][0]["jaccard"] == 0
    assert found["worst"][0]["differs"][0].startswith("[-w")
    assert found["superseded"] == 0


ROOTS = [(i, i) for i in range(40)] + [(i, i - 40) for i in range(40, 45)]  # five removed documents

MAPS = {
    "pairs": (
        ["--removed-field", "doc", "--kept-field", "root"],
        lambda d: table(d / "m.csv", ["doc", "root"], ROOTS),
    ),
    "groups": (
        ["--removed-field", "doc", "--group-field", "root"],
        lambda d: table(d / "m.parquet", ["doc", "root"], ROOTS[::-1]),
    ),
    "lists": (
        [],
        lambda d: lines(d / "m.jsonl", [{"kept": b, "removed": [b, a]} for a, b in ROOTS]),
    ),
    "arrays": ([], lambda d: lines(d / "m.jsonl", [[b, a] for a, b in ROOTS])),
}


@pytest.mark.parametrize("form", MAPS)
def test_a_document_that_was_kept_for_itself_is_no_removal(tmp_path, form):
    """A map "document, root": the roots map to themselves; of what was removed nothing is a copy."""
    options, make = MAPS[form]
    documents = lines(tmp_path / "d.jsonl", [{"id": i, "text": text(i)} for i in range(45)])
    found = audited(make(tmp_path), documents, "--id-field", "id", *options)
    assert (found["removed"], found["kept"], found["superseded"]) == (5, 5, 0)
    assert found["whole"]["no_copy"]["share"] == 1


def test_the_terminal_says_the_same(tmp_path, documents):
    """The counts and shares with their intervals, and the words in which the least similar pair differs."""
    removals, options = FORMS["pairs"](tmp_path)
    result = call("audit", removals, "-d", documents, "--text-field", "text", *options)
    assert result.exit_code == 0
    share = "33.3 % (1; 95 % interval 6.1 to 79.2 %)"
    assert result.stdout.splitlines()[:3] == [
        "3 removed documents in favour of 2 others; 3 pairs judged of 3 drawn",
        f"no copies (Jaccard similarity under 0.8): {share}",
        f"no near-duplicates by the verdict of dedup scan: {share}",
    ]
    assert "\n4\n  not like 3 (Jaccard 0.00)\n  [-w" in result.stdout


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


def test_a_kept_document_that_was_removed_too_is_counted():
    """b for a, a for b, d for a: of each the kept one was removed; e for c: it was not. f for f is no removal."""
    found = removals_of(hashes("b", "a", "d", "e", "f"), hashes("a", "b", "a", "c", "f"))
    assert (len(found.removed), found.kept_documents, found.superseded) == (4, 3, 3)


def test_every_pair_is_drawn_with_the_same_chance():
    """Of ten pairs each is in about half of the samples of five, and a seed gives one sample."""
    found = removals_of(hashes(*range(10)), hashes(*range(10, 20)))
    times = np.bincount([place for seed in range(400) for place in draw(found, 5, seed).pairs])
    assert times.min() > 160
    assert times.max() < 240
    assert draw(found, 5, 3) == draw(found, 5, 3)


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
    assert RemovalFields("a", kept="b").names == {"removed": "a", "kept": "b"}


@given(st.binary(max_size=300), st.sampled_from([".jsonl", ".csv", ".parquet", ".jsonl.gz"]))
@settings(max_examples=examples(200))
def test_any_bytes_end_in_removals_or_in_an_error(tmp_path_factory, data, suffix):
    """A file of chance bytes is read, or refused by name."""
    path = tmp_path_factory.mktemp("any") / f"a{suffix}"
    path.write_bytes(data)
    with contextlib.suppress(DedupError):
        read_removals([str(path)])
