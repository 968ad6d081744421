"""What find-all and find-clusters write, beside the library's pairs and labels."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from dedup.cli import find, main
from dedup.pairs import find_all, find_clusters


@pytest.fixture
def values():
    """Ten thousand fingerprints in clusters of one to a few hundred members, some repeated."""
    rng = np.random.default_rng(4)
    centres = rng.integers(0, 2**63, 3000, dtype=np.uint64)
    picked = centres[(3000 * rng.random(10_000) ** 3).astype(np.intp)]
    return picked ^ (np.uint64(1) << rng.integers(0, 64, 10_000, np.uint64))


def lines(command, values, as_hex):
    text = "".join(f"{v:x}\n" if as_hex else f"{v}\n" for v in values.tolist())
    done = CliRunner().invoke(main, [command, "--distance", "2", *["--hex"] * as_hex], input=text)
    assert done.exit_code == 0, done.output
    rows = map(json.loads, done.stdout.splitlines())
    return [[int(member, 16) for member in row] for row in rows] if as_hex else list(rows)


@pytest.mark.parametrize("as_hex", [False, True])
@pytest.mark.parametrize("rows", [7, 1 << 16])
def test_all_pairs_are_written(values, as_hex, rows, monkeypatch):
    """find-all writes the pairs of the library, whatever is written at once."""
    monkeypatch.setattr(find, "ROWS", rows)
    assert lines("find-all", values, as_hex) == find_all(values, 2).tolist()


@pytest.mark.parametrize("as_hex", [False, True])
@pytest.mark.parametrize("rows", [7, 1 << 16])
def test_all_clusters_are_written(values, as_hex, rows, monkeypatch):
    """find-clusters writes the members of each label that two or more have, all sorted."""
    monkeypatch.setattr(find, "ROWS", rows)
    members = {}
    for value, label in zip(values.tolist(), find_clusters(values, 2).tolist(), strict=True):
        members.setdefault(label, []).append(value)
    expected = sorted(sorted(cluster) for cluster in members.values() if len(cluster) > 1)
    assert len({len(cluster) for cluster in expected}) > 10
    assert lines("find-clusters", values, as_hex) == expected
