"""The demo judges rightly, and its crawl is real: unit tests of the judge, and whole runs."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from click.testing import CliRunner, Result

from dedup.cli import main
from dedup.cli.demo import show
from dedup.demo.crawl import DemoCrawl, Outcome
from dedup.demo.judgement import COPIES, DemoReport, as_json, judge
from dedup.demo.site import Site

COMMAND = [sys.executable, "-c", "from dedup.cli import main; main()", "demo"]


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(pages=150, seed=4)


@dataclass
class MadeUp:
    """A crawl that never took place: ideal at first, then changed by a test."""

    site: Site
    outcomes: dict[str, Outcome]
    requested: set[str]
    stats: dict[str, float]
    mode: Any = "drop"
    errors: int = 0

    def change(self, path: str, status: str, **fields: Any) -> None:
        self.outcomes[path] = Outcome(path, status, **fields)

    def drop(self, path: str, of: str) -> None:
        self.change(path, "near_duplicate", of=of, distance=2, similarity=0.931, parsed=False)

    def first(self, status: str, *kinds: str) -> str:
        return self.some(status, *kinds)[0]

    def some(self, status: str, *kinds: str) -> list[str]:
        truth = self.site.truth
        return [
            path
            for path, outcome in self.outcomes.items()
            if outcome.status == status and truth[path].kind in kinds
        ]

    def crawl(self) -> DemoCrawl:
        return DemoCrawl(
            mode=self.mode,
            outcomes=tuple(self.outcomes.values()),
            requested=frozenset(self.requested),
            items=0,
            errors=self.errors,
            stats=self.stats,
            cpu_seconds=2.0,
            wall_seconds=3.0,
        )

    def judged(self) -> DemoReport:
        return judge(self.site, self.crawl())


def ideal(site: Site) -> MadeUp:
    """Every page reached, all that repeats an accepted page dropped with its links."""
    made = MadeUp(site, {}, {"/robots.txt", site.start}, {"dedup/cpu_seconds": 0.02})
    accepted: dict[str, str] = {}
    waiting = [site.start]
    while waiting:
        path = waiting.pop(0)
        earlier = accepted.setdefault(site.truth[path].group, path)
        if earlier != path:
            made.drop(path, earlier)
            continue
        made.change(path, "unique")
        for link in site.links(path):
            if link not in made.requested:
                made.requested.add(link)
                waiting.append(link)
    made.change(site.start, "exempt", reason="start")
    return made


@pytest.fixture
def made_up(site: Site) -> MadeUp:
    return ideal(site)


# Judging


def test_an_ideal_crawl_is_praised(made_up: MadeUp) -> None:
    """Nothing is wrong, lost or missed, and copies of every kind were found."""
    report = made_up.judged()
    assert report.complaints == []
    assert as_json(report)["ok"] is True
    assert report.found_percent == 100
    assert report.misses == report.wrong == report.unreached == ()
    assert set(report.kinds) == set(COPIES)
    assert all(count.found and count.example for count in report.kinds.values())
    assert sum(count.found for count in report.kinds.values()) == report.near_duplicates
    assert report.fetched == report.accepted + report.near_duplicates == len(made_up.outcomes)
    assert report.exempt == {"start": 1}
    assert report.dedup_cpu_percent == pytest.approx(1.0)
    assert report.dedup_microseconds_per_page == pytest.approx(20_000 / report.fetched)


def test_a_lost_listing_link_is_found(made_up: MadeUp) -> None:
    """An article that the server never saw is held against the listing that names it."""
    listing = made_up.first("unique", "listing")
    victim = next(
        path for path in made_up.site.links(listing) if made_up.site.truth[path].kind == "article"
    )
    made_up.requested.remove(victim)
    report = made_up.judged()
    assert report.lost_links == {listing: [victim]}
    lines: list[str] = []
    show(report, lines.append)
    assert f"lost from {listing}: {victim}" in lines
    assert report.unreached == (victim,)
    assert "1 listings lost new links" in report.complaints


def parse_a_copy(made_up: MadeUp) -> None:
    path = made_up.first("near_duplicate", "session")
    made_up.outcomes[path] = msgspec.structs.replace(made_up.outcomes[path], parsed=True)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda m: m.change("/", "failed", reason="gone", parsed=False), "1 pages failed"),
        (lambda m: m.stats.update({"dedup/error/store_locked": 3}), "3 faults of the add-on"),
        (lambda m: setattr(m, "errors", 2), "2 errors in Scrapy's log"),
        (parse_a_copy, "1 dropped pages were parsed"),
    ],
)
def test_a_crawl_with_faults_is_no_success(
    made_up: MadeUp, spoil: Callable[[MadeUp], None], complaint: str
) -> None:
    """A page that failed, a fault of the add-on, an error in the log, a copy that was parsed: each is a complaint."""
    spoil(made_up)
    assert made_up.judged().complaints == [complaint]


# The command


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["demo", *arguments])


@pytest.fixture
def as_made_up(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """Let the command see the made-up crawl instead of a real one."""
    monkeypatch.setattr("dedup.demo.crawl.crawl_site", lambda *_: made_up.crawl())
    return made_up


def test_the_table_tells_everything(as_made_up: MadeUp) -> None:
    """Numbers, reasons, an example pair with likeness, and what to do next; exit code 0."""
    result = invoke("--pages=150", "--seed=4")
    assert result.exit_code == 0, result.output
    report = as_made_up.judged()
    for words in (
        *COPIES.values(),
        "93 % similar, distance 2",
        "wrong drops (must be 0)",
        "listings that lost new links (must be 0)",
        f"Scrapy fetched {report.fetched} of 150 URLs",
        'ADDONS = {"dedup.scrapy.Addon": 500}',
    ):
        assert words in result.stdout


def test_a_wrong_drop_is_exit_code_1(as_made_up: MadeUp) -> None:
    """As a table and as JSON, with the pair that is wrong."""
    victim, other = as_made_up.some("unique", "article")[:2]
    as_made_up.drop(victim, other)
    shown, told = invoke("--pages=150", "--seed=4"), invoke("--pages=150", "--seed=4", "--json")
    assert (shown.exit_code, told.exit_code) == (1, 1)
    assert f"wrong drop: {victim} of {other}, 93 % similar, distance 2" in shown.stdout
    assert "This must not be: 1 pages with their own content were dropped." in shown.stdout
    assert json.loads(told.stdout)["wrong"][0]["path"] == victim


@pytest.mark.parametrize(
    "arguments", [("--pages=99",), ("--port=8000",), ("--mode=keep",), ("--site-only", "--port=-1")]
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    """Too few pages, a port for the crawl, an unknown mode, a port that is none."""
    assert invoke(*arguments).exit_code == 2


# Whole runs


def run(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("pages", [300, pytest.param(500, marks=pytest.mark.long)])
def test_the_demo(pages: int) -> None:
    """Real Scrapy drops planted near-duplicates, but for those that it compares, and nothing else."""
    with run("--json", "--seed=1", f"--pages={pages}") as process:
        stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stdout + stderr
    assert stderr == ""
    report = json.loads(stdout)
    assert report["ok"] is True
    assert report["urls"] == pages
    assert report["wrong"] == report["unreached"] == []
    assert report["lost_links"] == report["failed"] == report["faults"] == {}
    told = report["near_duplicates"] + report["evidence"]  # about half and half
    assert told >= 0.7 * (told + len(report["misses"]))
    again = report["exempt"].get("control", 0) + report["looked_again"]
    assert report["fetched"] == report["accepted"] + report["near_duplicates"] + again
    # how many of them depends on the order of pages: 11 to 46 of 300 in 56 crawls
    assert 0 < report["outlinks_never_requested"] <= pages - (report["fetched"] - again)
    assert report["near_duplicates"] > 30
    assert report["parsed_near_duplicates"] == 0
    assert report["items"] >= report["accepted"]
    assert sum(1 for kind in report["kinds"].values() if kind["found"] and kind["example"]) >= 4
    assert report["exempt"]["start"] == 1
    assert report["exempt"]["compared"] >= 2
    assert 0 < report["dedup_cpu_seconds"] < report["cpu_seconds"]


def test_site_only_serves_until_ctrl_c() -> None:
    """The URL is told at once, pages are served, Ctrl-C is the way to end and no error."""
    with run("--site-only", "--pages=100", "--json") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with urlopen(f"{told['url']}/", timeout=60) as response:
            assert b"Lantern Herald" in response.read()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0
    assert stderr == ""
