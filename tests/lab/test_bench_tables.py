"""Tables beside their peers: what it compares, on which fingerprints, and what it says of mistakes."""

import json
from pathlib import Path

import contenders as tables_contenders
import numpy as np
import pytest
import tables_comparison
from click.testing import CliRunner, Result
from comparisons import bench
from contenders import CONTENDERS, Entry
from tables_comparison import mistakes

from dedup.core.pairs import find_all
from dedup.core.table import PRESETS
from dedup.lab.bench.tables import brute_force, make_data
from dedup.model.errors import UsageError

OURS = [f"dedup {preset}" for preset in PRESETS]
PEERS = [entry for entry in CONTENDERS if entry.name not in OURS]
OF_ALL = {"us a probe", "us, batched", "times dedup auto", "build k/s", "B each", "wrong"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bench, ["tables", "--rounds", "2", *arguments])


def measured(*arguments: str) -> dict:
    result = run("--json", "-", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.long
@pytest.mark.parametrize("data", ["uniform", "clustered"])
def test_every_preset_is_measured(data: str) -> None:
    """Each with all its figures, its answers all right."""
    found = measured("--size", "2000", "--distance", "6", "--data", data, "--alone")
    facts = found["facts"]
    assert (facts["data"], facts["stored"], facts["distance"]) == (data, 2000, 6)
    assert facts["matches a probe"] > 0
    assert [*found["rows"]] == OURS
    for row in found["rows"].values():
        assert row.keys() == OF_ALL | {"insert k/s", "load k/s"}
        assert row["us a probe"]["count"] == row["us, batched"]["count"] == 2
        assert row["wrong"]["highest"] == 0
        assert all(figure["lowest"] > 0 for name, figure in row.items() if name != "wrong")


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("k", [3, *[pytest.param(k, marks=pytest.mark.long) for k in (1, 6)]])
def test_a_peer_finds_what_a_plain_search_finds(peer: Entry, k: int) -> None:
    """Every peer is set up so that it is exact, beside the first of ours."""
    if not peer.installed():
        pytest.skip(f"{', '.join(peer.needs)} is not installed")
    found = measured("--size", "1000", "--distance", str(k), "--only", f"{OURS[0]};{peer.name}")
    assert [*found["rows"]] == [OURS[0], peer.name]
    assert found["rows"][peer.name]["wrong"]["highest"] == 0


def test_mistakes_are_counted() -> None:
    """A query counts as a mistake if its answer, in a batch or alone, is not that expected."""

    class Wrong(tables_contenders.Contender):
        def queries(self, values: np.ndarray) -> list[int]:
            return values.tolist()

        def probe(self, query: int) -> list[int]:
            return [query + 5] if query < 2 else [query]

        def documents(self, answer: list[int]) -> list[int]:
            return answer

        def probe_many(self, batch: list[int]) -> list[list[int]]:
            return [[query] if query != 3 else [] for query in batch]

    asked = np.arange(5, dtype=np.uint64)
    assert mistakes(Wrong(3), asked, [[0], [1], [2], [3], [4]]) == 3


def test_wrong_answers_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column says how many answers were wrong."""
    monkeypatch.setattr(
        "tables_comparison.brute_force",
        lambda _s, queries, _k: [[10**6]] * len(queries),
    )
    rows = measured("--size", "300", "--alone")["rows"]
    assert [row["wrong"]["median"] for row in rows.values()] == [200] * 3


@pytest.mark.parametrize("k", [0, 1, 5])
def test_the_plain_search_is_the_definition(k: int) -> None:
    """It finds exactly the values whose difference has at most k bits."""
    data = make_data("clustered", 500, 1, k)
    stored, queries = data.stored.tolist(), data.queries[:20].tolist()
    wanted = [[i for i, s in enumerate(stored) if (s ^ q).bit_count() <= k] for q in queries]
    assert brute_force(data.stored, data.queries[:20], k) == wanted


def test_uniform_queries_are_near_ones_and_new_ones_in_turns() -> None:
    """Every other query lies within k + 1 bits of a stored one; those between do not."""
    data = make_data("uniform", 1_000, 1, 3)
    found = brute_force(data.stored, data.queries[:100], 4)
    assert all(found[::2])
    assert not any(found[1::2])


def test_clusters_are_small_flips_of_a_centre() -> None:
    """A good part lies within a dozen bits of another, but the same fingerprint seldom returns."""
    stored = make_data("clustered", 5_000, 1, 3).stored
    near = np.unique(find_all(stored, 12))
    assert 0.3 < len(near) / len(stored) < 0.95
    assert len(np.unique(stored)) > 0.9 * len(stored)
    assert np.array_equal(stored, make_data("clustered", 5_000, 1, 6).stored)


def test_a_file_is_stored_but_for_what_is_probed(tmp_path: Path) -> None:
    """Of a file of decimal numbers four fifths are stored, and others inserted and probed."""
    path = tmp_path / "values.txt"
    path.write_text("\n".join(str(n * 2**40 + 1) for n in range(100)))
    data = make_data(str(path), None, 2, 3)
    assert (len(data.stored), data.later.shape, len(data.queries)) == (80, (2, 1), 18)
    parts = [*data.stored.tolist(), *data.later.ravel().tolist(), *data.queries.tolist()]
    assert sorted(parts) == [n * 2**40 + 1 for n in range(100)]
    facts = measured("--data", str(path), "--size", "80", "--alone")["facts"]
    assert (facts["data"], facts["stored"]) == ("values.txt", 80)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1\n2\n3\n", "too few to store"),
        ("1\nx\n", "decimal numbers"),
        (f"{2**64}\n", "decimal numbers"),
        ("-1\n", "decimal numbers"),
        ("", "too few to store"),
    ],
)
def test_a_file_that_will_not_do_is_a_usage_error(tmp_path: Path, content: str, said: str) -> None:
    """Too few fingerprints, or what is none, ends with the file's name and what it must hold."""
    path = tmp_path / "values.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=said):
        make_data(str(path), None, 2, 3)
    assert run("--data", str(path), "--alone").exit_code != 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "no-such-file"], "no-such-file is no file"),
        (["--size", "ten"], "ten"),
        (["--distance", "16"], "16"),
        (["--only", "nobody"], "no contender is called so"),
    ],
)
def test_wrong_arguments_name_themselves(arguments: list[str], said: str) -> None:
    """What cannot be measured is refused before anything is."""
    result = run(*arguments)
    assert result.exit_code != 0
    assert said in result.output + str(result.exception)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers that are missing are left out, named, with the command that brings them."""
    monkeypatch.setattr(tables_contenders, "find_spec", lambda _: None)
    facts = measured("--size", "300", "--only", f"{OURS[0]};Faiss;gaoya")["facts"]
    for name in (peer.name for peer in PEERS if peer.needs[:1] in {("faiss",), ("gaoya",)}):
        assert "pip install --group bench" in facts[f"left out, {name}"]


@pytest.mark.parametrize(
    ("limit", "said"), [("--build-seconds", "s to build"), ("--build-gigabytes", "GB, more than")]
)
def test_a_peer_beyond_the_limits_is_left_out(limit: str, said: str) -> None:
    """Built small first, it is left out with the time or memory that it would take."""
    peer = "paper, k+1 blocks"
    found = measured("--size", "200000", limit, "0", "--only", f"{OURS[0]};{peer}")
    assert [*found["rows"]] == OURS[:1]
    assert said in found["facts"][f"left out, {peer}"]


def test_one_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a contender raises leaves it out, and the others are measured."""

    def broken(k: int) -> tables_contenders.Contender:
        raise ZeroDivisionError(f"k = {k}")

    entries = (CONTENDERS[0], Entry("broken", broken, trial=False))
    monkeypatch.setattr(tables_comparison, "CONTENDERS", entries)
    found = measured("--size", "300")
    assert [*found["rows"]] == OURS[:1]
    assert found["facts"]["left out, broken"] == "k = 3"
