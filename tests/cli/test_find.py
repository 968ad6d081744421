"""What find-all and find-clusters write, beside the library's pairs and labels."""

import json

import numpy as np
import pytest
from command_line import call
from fingerprint_values import bit_counts

from dedup.cli import find
from dedup.core.pairs import find_all, find_clusters


@pytest.fixture
def values():
    """Ten thousand fingerprints in clusters of one to a few hundred members, some repeated."""
    rng = np.random.default_rng(4)
    centres = rng.integers(0, 2**63, 3000, dtype=np.uint64)
    picked = centres[(3000 * rng.random(10_000) ** 3).astype(np.intp)]
    return picked ^ (np.uint64(1) << rng.integers(0, 64, 10_000, np.uint64))


def lines(command, values, as_hex, *options):
    text = "".join(f"{v:x}\n" if as_hex else f"{v}\n" for v in values.tolist())
    done = call(command, "--distance", 2, *["--hex"] * as_hex, *options, data=text)
    assert done.exit_code == 0, done.output
    rows = map(json.loads, done.stdout.splitlines())
    return [[int(member, 16) for member in row] for row in rows] if as_hex else list(rows)


@pytest.mark.parametrize("as_hex", [False, True])
@pytest.mark.parametrize("rows", [7, 1 << 16])
def test_all_pairs_and_clusters_are_written(values, as_hex, rows, monkeypatch):
    """The pairs of the library, and the members of each label that two or more have, whatever is written at once."""
    monkeypatch.setattr(find, "ROWS", rows)
    assert lines("find-all", values, as_hex) == find_all(values, 2).tolist()
    members = {}
    for value, label in zip(values.tolist(), find_clusters(values, 2).tolist(), strict=True):
        members.setdefault(label, []).append(value)
    expected = sorted(sorted(cluster) for cluster in members.values() if len(cluster) > 1)
    assert len({len(cluster) for cluster in expected}) > 10
    assert lines("find-clusters", values, as_hex) == expected


@pytest.mark.parametrize("command", ["find-all", "find-clusters"])
@pytest.mark.parametrize("where", ["file", "stdin"])
def test_too_little_memory_is_said_before_the_search(command, where, tmp_path, monkeypatch):
    """The error says what it takes and names Spark; a file is not even read, and enough memory does."""
    text = "".join(f"{2**63 + 7919 * i}\n" for i in range(3000))
    (tmp_path / "values").write_text(text)
    given = ["--input", tmp_path / "values"] if where == "file" else []
    monkeypatch.setattr(find, "free_memory", lambda: 1 << 20)
    enough = call(command, *given, data=text)
    assert enough.exit_code == 0
    if where == "file":
        monkeypatch.setattr(find, "read_some", None)
    monkeypatch.setattr(find, "free_memory", lambda: 20 << 10)
    done = call(command, *given, data=text)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "more than the 20 KiB that is free" in done.stderr
    assert "dedup scan --engine spark" in done.stderr


def test_a_large_search_says_what_it_takes(monkeypatch):
    """A line says how much memory it takes."""
    monkeypatch.setattr(find, "WORTH_SAYING", 1000)
    done = call("find-all", data="1\n2\n" * 100)
    assert (done.exit_code, done.stdout.count("\n")) == (0, 3)
    assert "200 fingerprints: about 7.23 KiB of memory, and 32 bytes a pair" in done.stderr


# ------------------------------------------------------------------------------------ --stored


def near(values, stored, k):
    """Return the lines of a search by comparing every value with every stored one, nearest first."""
    found = []
    for b in stored.tolist():
        distances = bit_counts(values ^ np.uint64(b))
        order = np.argsort(distances, kind="stable")
        found += [[a, b] for a in values[order[distances[order] <= k]].tolist()]
    return found


@pytest.mark.parametrize("form", ["txt", "u64"])
def test_the_input_is_compared_with_what_is_stored(values, form, tmp_path):
    """--stored takes lines and raw numbers, and gives [input, stored]."""
    queries, stored, file = values[:200], values[100:5000], tmp_path / f"stored.{form}"
    if form == "txt":
        file.write_text("".join(f"{value}\n" for value in stored.tolist()))
    else:
        file.write_bytes(stored.astype("<u8").tobytes())
    found = lines("find-all", queries, False, "--stored", str(file))
    assert found == near(queries, stored, 2)
    assert len(found) > 200
