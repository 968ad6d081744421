"""Tables beside their peers: what it compares, on which fingerprints, and what it says of mistakes."""

import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import contenders as tables_contenders
import numpy as np
import pytest
from click.testing import CliRunner, Result
from comparisons import bench
from contender_process import Build, Check, Died, start, write_data
from contenders import CONTENDERS, Entry, find
from tables_comparison import _Running

from dedup.core.pairs import find_all
from dedup.core.table import PRESETS
from dedup.lab.bench.tables import brute_force, make_data
from dedup.model.errors import UsageError

OURS = [f"dedup {preset}" for preset in PRESETS]
PEERS = [entry for entry in CONTENDERS if entry.name not in OURS]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bench, ["tables", "--rounds", "2", *arguments])


def measured(*arguments: str) -> dict:
    result = run("--json", "-", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_data(make_data("uniform", 2_000, 2, 3), tmp_path)
    return tmp_path


@pytest.mark.long
def test_every_preset_is_measured_in_every_setting() -> None:
    """All data, sizes and k have a setting, and in it all presets, their answers all right."""
    arguments = ["--sizes", "300,2000", "--distances", "3,6", "--data", "uniform", "--no-peers"]
    found = measured(*arguments, "--data", "clustered")
    settings = [(one["data"], one["size"], one["k"]) for one in found["settings"]]
    sizes = [(size, k) for size in (300, 2000) for k in (3, 6)]
    assert settings == [(data, *rest) for data in ("uniform", "clustered") for rest in sizes]
    for setting in found["settings"]:
        assert [one["name"] for one in setting["contenders"]] == OURS
        assert setting["matches"] > 0
        for one in setting["contenders"]:
            assert (one["checked"], one["mistakes"]) == (200, 0)
            assert one["probe_us"]["count"] == one["batch_us"]["count"] == 2
            assert min(one["probe_us"]["lowest"], one["batch_us"]["lowest"]) > 0
            assert one["build_per_second"] > 0
            assert one["load_per_second"] > 0
            assert one["insert_per_second"]["lowest"] > 0
            assert one["own_bytes"] > 8  # a value; documents in order take hardly any


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("k", [3, *[pytest.param(k, marks=pytest.mark.long) for k in (1, 6)]])
def test_a_peer_finds_what_a_plain_search_finds(peer: Entry, k: int) -> None:
    """Every peer is set up so that it is exact, beside the first of ours."""
    if not peer.installed():
        pytest.skip(f"{', '.join(peer.needs)} is not installed")
    arguments = ["--sizes", "1000", "--distances", str(k), "--data", "uniform"]
    (setting,) = measured(*arguments, "--only", OURS[0], "--only", peer.name)["settings"]
    assert setting["left_out"] == []
    ours, theirs = setting["contenders"]
    assert theirs["name"] == peer.name
    assert (theirs["checked"], theirs["mistakes"]) == (200, 0)
    ratio = theirs["batch_us"]["median"] / ours["batch_us"]["median"]
    ratios = theirs["batch_ratio"]
    assert ratios["lowest"] / 2 < ratio < ratios["highest"] * 2


def test_mistakes_are_counted() -> None:
    """A query counts as a mistake if its answer, in a batch or alone, is not that expected."""
    right = [[1], [], [2, 3], [4]]
    answers = Check(many=[[1], [9], [2], [4]], single=[[], []], expected=None)
    running = _Running(SimpleNamespace(check=lambda _: answers), Build(1, None, None))
    running.check(right)
    assert (running.checked, running.mistakes) == (4, 3)


@pytest.mark.long
def test_wrong_answers_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says how many answers were wrong."""
    monkeypatch.setattr(
        "tables_comparison.brute_force",
        lambda _s, queries, _k: [[10**6]] * len(queries),
    )
    result = run("--sizes", "300", "--distances", "3", "--data", "uniform", "--no-peers")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("200 of 200") == 3


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
    (setting,) = measured("--data", str(path), "--distances", "3", "--no-peers")["settings"]
    assert (setting["data"], setting["size"]) == ("values.txt", 80)


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
    result = run("--data", str(path), "--no-peers")
    assert result.exit_code != 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "no-such-file"], "no-such-file is no file"),
        (["--sizes", "ten"], "ten must be numbers"),
        (["--distances", "3,16"], "3,16 must be numbers in 1 .. 15"),
        (["--only", "nobody"], "no contender is called so"),
    ],
)
def test_wrong_arguments_name_themselves(arguments: list[str], said: str) -> None:
    """What cannot be measured is refused before anything is."""
    result = run(*arguments)
    assert result.exit_code != 0
    assert said in result.output + str(result.exception)


@pytest.mark.long
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers that are missing are left out, named, with the command that brings them."""
    monkeypatch.setattr(tables_contenders, "find_spec", lambda _: None)
    result = run("--sizes", "300", "--distances", "3", "--data", "uniform")
    assert result.exit_code == 0, result.output
    names = ", ".join(peer.name for peer in PEERS if peer.package)
    assert f"left out: {names}; run: pip install --group bench" in result.stdout


@pytest.mark.skipif(find_spec("simhash") is None, reason="simhash is not installed")
@pytest.mark.parametrize(
    ("limit", "said"), [("--build-seconds", "s to build"), ("--build-gigabytes", "GB, more than")]
)
def test_a_peer_beyond_the_limits_is_left_out(limit: str, said: str) -> None:
    """Built small first, it is left out with the time or memory that it would take."""
    arguments = ["--sizes", "3000", "--distances", "3", "--data", "clustered", limit, "0"]
    (setting,) = measured(*arguments, "--only", OURS[0], "--only", "1e0ng")["settings"]
    assert [one["name"] for one in setting["contenders"]] == OURS[:1]
    assert said in setting["left_out"][0]


def test_one_that_dies_says_so(folder: Path) -> None:
    """A process that ends is reported with its exit code, and the call does not hang."""
    with start(find(OURS[0]), 3, folder) as process:
        assert process.build().own_bytes > 0
        process._child.kill()
        with pytest.raises(Died, match="signal 9"):
            process.probe_us(0.01)


def test_one_that_fails_says_why(folder: Path) -> None:
    """An exception inside a contender comes back as Died, with its type."""
    (folder / "later.npy").unlink()
    with start(find(OURS[0]), 3, folder) as process, pytest.raises(Died, match="FileNotFoundError"):
        process.build()


@pytest.mark.long
def test_json_and_plot_are_written(tmp_path: Path) -> None:
    """--json FILE and --plot FILE write both, beside the table; - writes JSON alone."""
    json_file, plot_file = tmp_path / "tables.json", tmp_path / "tables.svg"
    arguments = ["--sizes", "300", "--distances", "3", "--data", "uniform", "--no-peers"]
    result = run(*arguments, "--json", str(json_file), "--plot", str(plot_file))
    assert result.exit_code == 0, result.output
    assert "300 uniform fingerprints, k = 3" in result.stdout
    assert json.loads(json_file.read_bytes())["settings"][0]["size"] == 300
    assert all(f">{name}<" in plot_file.read_text() for name in OURS)


@pytest.mark.long
def test_a_page_takes_the_figures_between_its_marks(tmp_path: Path) -> None:
    """--page replaces what stands between the marks, again and again, and nothing else."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n")
    arguments = ["--sizes", "300", "--distances", "3", "--data", "uniform", "--no-peers"]
    for _ in range(2):
        result = run(*arguments, "--page", str(page))
        assert result.exit_code == 0, result.output
    text = page.read_text()
    assert text.startswith("before\n<!-- figures: begin -->\n")
    assert text.endswith("\n<!-- figures: end -->\nafter\n")
    assert "old" not in text
    assert text.count("### 300 uniform, k = 3") == 1
    assert text.count("| 0 of 200 |") == len(OURS)


def test_a_page_without_marks_is_refused_at_once(tmp_path: Path) -> None:
    """A page that has no place for figures is left as it is."""
    page = tmp_path / "page.md"
    page.write_text("words")
    result = run("--page", str(page))
    assert result.exit_code != 0
    assert "no place for these figures" in result.output + str(result.exception)
    assert page.read_text() == "words"


def test_a_plot_of_another_kind_is_refused_at_once() -> None:
    """A plot's name says .svg or .png, which is checked before anything is measured."""
    result = run("--plot", "tables.gif")
    assert result.exit_code != 0
    assert "tables.gif" in result.output + str(result.exception)
