"""`dedup bench pages`: what it measures, on which pages, and what it says of peers."""

import json
from collections.abc import Callable
from pathlib import Path

import page_extractors
import pytest
from click.testing import CliRunner, Result
from comparisons import bench as comparisons

from dedup.cli import main
from dedup.lab.bench import installed
from dedup.lab.bench.pages import load_pages

PAGES = [f"<p>page {number} has some words of its own" for number in range(10)]
OURS = ["dedup", "dedup, its native core alone"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "pages", "--rounds", "1", *arguments])


def measured(*arguments: str) -> dict:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def compared(*arguments: str) -> Result:
    return CliRunner().invoke(comparisons, ["pages", "--rounds", "1", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, page in enumerate(PAGES):
        (tmp_path / f"{number}.html").write_text(page)
    return tmp_path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps({"html": page}) + "\n" for page in PAGES))
    return path


def test_generated_pages_have_about_53_kb() -> None:
    """Without --pages both of ours are timed on generated pages of the size of real ones."""
    found = measured("--count", "3")
    assert [*found["rows"]] == OURS
    assert found["facts"]["pages"] == 3
    assert 45_000 < found["facts"]["page_bytes"] < 62_000
    for row in found["rows"].values():
        assert row["us a page"]["median"] > 0
        speed = row["MB/s"]["median"] / row["pages/s"]["median"] * 1e6
        assert speed == pytest.approx(found["facts"]["page_bytes"], abs=1)


@pytest.mark.parametrize("source", ["folder", "lines"])
def test_given_pages_are_taken_at_even_distances(
    source: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder or a JSONL file is read, and of more pages than asked for every so-manieth."""
    seen: set[bytes] = set()
    monkeypatch.setattr("dedup.lab.bench.pages.native_core", lambda: seen.add)
    path: Path = request.getfixturevalue(source)
    assert measured("--pages", str(path), "--count", "5")["facts"]["pages"] == 5
    assert seen == {page.encode() for page in PAGES[::2]}


def test_what_is_not_installed_is_left_out_and_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that is missing costs nothing but its line."""

    def absent() -> Callable[[bytes], object]:
        raise AssertionError("made, though not installed")

    monkeypatch.setattr(page_extractors, "PEERS", (("nobody", ("no-such-package",), absent),))
    found = json.loads(compared("--pages", str(folder), "--json").stdout)
    assert len(found["rows"]) == 2
    assert "left out, not installed: nobody" in compared("--pages", str(folder)).stdout


@pytest.mark.parametrize(
    ("name", "packages", "make"), page_extractors.PEERS, ids=[p[0] for p in page_extractors.PEERS]
)
def test_an_installed_peer_fingerprints_a_page(
    name: str, packages: tuple[str, ...], make: Callable[[], Callable[[bytes], object]]
) -> None:
    """Every peer that is installed takes a page's bytes to a simhash."""
    for package in packages:
        if not installed(package):
            pytest.skip(f"{name}: {package} is not installed")
    (page,) = load_pages(None, 1)
    assert make()(page).value > 0


def test_a_line_without_a_page_is_named(tmp_path: Path) -> None:
    """What is no page set ends with the file and the line."""
    path = tmp_path / "pages.jsonl"
    path.write_text('{"html": "x"}\n{"text": "y"}\n')
    result = run("--pages", str(path))
    assert result.exit_code == 2
    assert "line 2" in result.stderr
    path.write_text("")
    assert "holds no pages" in run("--pages", str(path)).stderr
