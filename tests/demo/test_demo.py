"""The demo judges rightly, and its crawl is real: unit tests of the report, and a whole run."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

from dedup.cli import main
from dedup.demo.crawl import DemoCrawl, Dropped
from dedup.demo.report import compare
from dedup.demo.site import Site

COMMAND = [sys.executable, "-c", "from dedup.cli import main; main()", "demo"]
SITE = Site(150, 4)


def item_of(path: str) -> tuple[str, str, str]:
    return SITE.truth[path].group, "", ""


def without() -> DemoCrawl:
    """Every page requested, parsed, and its item passed."""
    paths = [*SITE.truth]
    return DemoCrawl(paths, paths, [], {}, [item_of(path) for path in paths], cpu_seconds=2.0)


def ideal() -> DemoCrawl:
    """Every page requested, the first of each content parsed, the others dropped."""
    first: dict[str, str] = {}
    dropped = []
    for path, truth in SITE.truth.items():
        if first.setdefault(truth.group, path) != path:
            dropped.append(Dropped(path, first[truth.group], 2, 0.931))
    parsed = [*first.values()]
    items = [item_of(path) for path in parsed]
    return DemoCrawl([*SITE.truth], parsed, dropped, {}, items, cpu_seconds=1.5)


def lose(crawl: DemoCrawl) -> str:
    """Take a product, which has no copy, from what a crawl parsed; return its path."""
    path = next(path for path in crawl.parsed if SITE.truth[path].kind == "variant")
    crawl.parsed.remove(path)
    crawl.items.remove(item_of(path))
    return path


def drop(crawl: DemoCrawl) -> None:
    crawl.dropped.append(Dropped(lose(crawl), "/", 2, 0.931))


def test_an_ideal_crawl_is_praised() -> None:
    """Nothing is wrong or lost, and the figures are those of the two crawls."""
    report = compare(SITE, without(), ideal())
    assert (report["ok"], report["complaints"]) == (True, [])
    assert report["wrong"] == report["unreached"] == report["lost_items"] == []
    contents = len({truth.group for truth in SITE.truth.values()})
    assert report["without_addon"] == {
        "requests": 150,
        "parsed": 150,
        "items": 150,
        "different_items": contents,
        "cpu_milliseconds": 2000,
    }
    assert report["with_addon"]["items"] == report["with_addon"]["parsed"] == contents
    assert report["near_duplicates"] == 150 - contents
    kinds = report["kinds"].values()
    assert sum(kind["on_site"] for kind in kinds) == 150
    assert all(kind["fetched"] == kind["parsed"] + kind["dropped"] for kind in kinds)
    assert report["kinds"]["soft404"]["example"]["similarity"] == 0.931


@pytest.mark.parametrize(
    ("spoil", "complaints"),
    [
        (lose, ["1 contents were never reached", "1 items were lost"]),
        (drop, ["1 pages with their own content were dropped", "1 items were lost"]),
        (lambda c: c.items.pop(), ["1 items were lost"]),
        (lambda c: c.failed.update({"/": "gone"}), ["1 pages failed"]),
        (lambda c: c.stats.update({"dedup/error/store_locked": 3}), ["3 faults of the add-on"]),
        (lambda c: setattr(c, "errors", 2), ["2 errors in Scrapy's log"]),
    ],
    ids=["unreached", "wrong", "item", "failed", "fault", "error"],
)
def test_a_crawl_with_faults_is_no_success(
    spoil: Callable[[DemoCrawl], object], complaints: list[str]
) -> None:
    """Each kind of loss and fault is a complaint."""
    crawl = ideal()
    spoil(crawl)
    report = compare(SITE, without(), crawl)
    assert (report["ok"], report["complaints"]) == (False, complaints)


# The command


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["demo", *arguments])


def made_up(monkeypatch: pytest.MonkeyPatch, crawl: DemoCrawl) -> None:
    """Let the command see made-up crawls instead of real ones."""
    monkeypatch.setattr("dedup.demo.crawl.crawl_both", lambda *_: (without(), crawl))
    monkeypatch.setattr("dedup.cli.demo.SEED", 4)  # as SITE has it


def test_the_tables_have_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both crawls and their difference, an example with its likeness, and what to do next; exit code 0."""
    made_up(monkeypatch, ideal())
    result = invoke("--pages=150")
    assert result.exit_code == 0, result.output
    contents = len({truth.group for truth in SITE.truth.values()})
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert f"items passed on 150 {contents} {contents - 150}" in lines
    assert "CPU milliseconds 2,000 1,500 -500" in lines
    assert any(line.startswith("93 % similar, distance 2: /") for line in lines)
    assert 'ADDONS = {"dedup.scrapy.Addon": 500}' in lines


def test_a_loss_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tables and as JSON, with the page that is wrong."""
    crawl = ideal()
    drop(crawl)
    made_up(monkeypatch, crawl)
    shown, plain = invoke("--pages=150"), invoke("--pages=150", "--json")
    assert (shown.exit_code, plain.exit_code) == (1, 1)
    assert f"wrong: {crawl.dropped[-1].path}" in shown.stdout
    assert "This must not be: 1 pages with their own content were dropped; 1 items" in shown.stdout
    assert json.loads(plain.stdout)["wrong"][0]["path"] == crawl.dropped[-1].path


@pytest.mark.parametrize(
    "arguments", [("--pages=99",), ("--port=8000",), ("--site-only", "--port=-1")]
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    """Too few pages, a port for the crawl, a port that is none."""
    assert invoke(*arguments).exit_code == 2


# Whole runs


def run(*arguments: str) -> "subprocess.Popen[str]":
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *arguments], **pipes)


@pytest.mark.parametrize("pages", [150, pytest.param(500, marks=pytest.mark.long)])
def test_the_demo(pages: int) -> None:
    """Real Scrapy loses no item with the add-on, passes each once, and fetches and parses fewer pages."""
    with run("--json", f"--pages={pages}") as process:
        stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stdout + stderr
    assert stderr == ""
    report = json.loads(stdout)
    before, after = report["without_addon"], report["with_addon"]
    assert report["ok"] is True
    assert before["requests"] == before["parsed"] == before["items"] == report["urls"] == pages
    assert after["different_items"] == before["different_items"]
    assert after["different_items"] <= after["items"] < before["items"]
    assert after["parsed"] < after["requests"] < pages
    assert report["near_duplicates"] == sum(k["dropped"] for k in report["kinds"].values()) > 10
    assert report["kinds"]["variant"]["parsed"] == report["kinds"]["variant"]["on_site"]


def test_site_only_serves_until_ctrl_c() -> None:
    """The URL is printed at once, pages are served, Ctrl-C is the way to end and no error."""
    with run("--site-only", "--pages=100", "--json") as process:
        assert process.stdout is not None
        served = json.loads(process.stdout.readline())
        with urlopen(f"{served['url']}/", timeout=60) as response:
            assert b"Lantern Herald" in response.read()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0
    assert stderr == ""
