"""The demo judges rightly, and its crawl is real: unit tests of the judge, and whole runs."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from click.testing import CliRunner, Result
from crawling import wait_for

from dedup.cli import main
from dedup.cli.demo import show
from dedup.demo.crawl import DemoCrawl, Outcome, crawl_site
from dedup.demo.judgement import COPIES, DemoReport, as_json, judge
from dedup.demo.site import Site
from dedup.model.errors import DedupError

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


def test_variants_are_neither_wrong_nor_missed(made_up: MadeUp) -> None:
    """A variant dropped for one of its family is counted in a line of its own."""
    variants = made_up.some("unique", "variant")
    truth = made_up.site.truth
    first = variants[0]
    family = truth[first].family
    second = next(path for path in variants[1:] if truth[path].family == family)
    stranger = next(path for path in variants if truth[path].family != family)
    made_up.drop(second, first)
    report = made_up.judged()
    assert report.complaints == []
    assert report.misses == ()
    assert (report.variants.found, report.variants.missed) == (1, len(variants) - 1)
    assert report.variants.example is not None
    made_up.drop(stranger, first)
    assert [pair.path for pair in made_up.judged().wrong] == [stranger]


def test_pages_of_an_archive_are_wrong_only_where_a_link_is_lost() -> None:
    """Page 2 has the text of page 1: dropped for it, it loses something only if a link of it is new."""
    made_up = ideal(Site(pages=500, seed=7))
    listings = made_up.some("unique", "listing")
    second = next(path for path in listings if path.endswith("?page=2"))
    archive = second.partition("?")[0]
    first = f"{archive}?page=1"
    stranger = next(path for path in listings if not path.startswith(archive))
    made_up.drop(second, first)
    report = made_up.judged()
    assert (report.complaints, report.listings, report.misses) == ([], 1, ())
    made_up.drop(stranger, first)
    assert [pair.path for pair in made_up.judged().wrong] == [stranger]


def test_misses_are_counted_by_kind(made_up: MadeUp) -> None:
    """A copy kept as unique is missed, one kept as exempt is named apart, one that is compared is neither."""
    made_up.change(made_up.first("near_duplicate", "print"), "exempt", reason="compared")
    planted = made_up.judged().near_duplicates
    kept, in_flight = made_up.some("near_duplicate", "related")[:2]
    made_up.change(kept, "unique")
    made_up.change(in_flight, "exempt", reason="in_flight")
    report = made_up.judged()
    assert report.complaints == []
    assert {(miss.path, miss.kind, miss.reason) for miss in report.misses} == {
        (kept, "related", "unique"),
        (in_flight, "related", "in_flight"),
    }
    assert (report.kinds["related"].missed, report.kinds["related"].exempt) == (1, 1)
    assert report.found_percent == pytest.approx(100 * (planted - 2) / planted)
    assert report.exempt == {"start": 1, "in_flight": 1, "compared": 1}
    assert report.evidence == 1


def test_the_rows_of_fetched_pages_add_up(made_up: MadeUp) -> None:
    """Pages that a control visit or a last look fetches once more have a row: all rows make the sum."""
    made_up.outcomes["once more"] = Outcome("/", "exempt", reason="control")
    looked_at = made_up.first("near_duplicate", "print")
    made_up.outcomes["last look"] = Outcome(looked_at, "exempt", reason="compared")
    report = made_up.judged()
    assert report.complaints == []
    assert report.looked_again == 1
    lines: list[str] = []
    show(report, lines.append)
    numbers = {
        name.strip(): int(value)
        for name, value in re.findall(
            r"^( *[a-z].*?)  +(\d+)(?:  .*)?$", "\n".join(lines), re.MULTILINE
        )
    }
    parts = (
        "accepted and parsed",
        "near-duplicates dropped before parsing",
        "fetched a second time",
    )
    assert numbers["fetched a second time"] == 2
    assert numbers["pages fetched"] == sum(numbers[part] for part in parts)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda m: m.change("/", "failed", reason="gone", parsed=False), "1 pages failed"),
        (lambda m: m.stats.update({"dedup/error/store_locked": 3}), "3 faults of the add-on"),
        (lambda m: setattr(m, "errors", 2), "2 errors in Scrapy's log"),
    ],
)
def test_a_crawl_with_faults_is_no_success(
    made_up: MadeUp, spoil: Callable[[MadeUp], None], complaint: str
) -> None:
    """A page that failed, a fault of the add-on, an error in the log: each is a complaint."""
    spoil(made_up)
    assert made_up.judged().complaints == [complaint]


@pytest.mark.parametrize("mode", ["drop", "skip_links", "tag"])
def test_only_dropping_forbids_parsing(made_up: MadeUp, mode: str) -> None:
    """A near-duplicate that the spider saw is a fault in the mode drop, and the point of others."""
    path = made_up.first("near_duplicate", "session")
    made_up.outcomes[path] = msgspec.structs.replace(made_up.outcomes[path], parsed=True)
    made_up.mode = mode
    report = made_up.judged()
    assert report.parsed_near_duplicates == 1
    assert bool(report.complaints) == (mode == "drop")


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
        "outlinks never requested",
        "wrong drops (must be 0)",
        "listings that lost new links (must be 0)",
        "product variants",
        "1 start",
        "us a page",
        f"Scrapy fetched {report.fetched} of 150 URLs",
        "dedup demo --site-only",
        'ADDONS = {"dedup.scrapy.Addon": 500}',
        'DEDUP_MODE = "tag"',
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


def test_a_crawl_that_fails_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what failed; nothing goes to stdout."""

    def fail(*_: object) -> None:
        raise DedupError("the demo's crawl failed: no network")

    monkeypatch.setattr("dedup.demo.crawl.crawl_site", fail)
    result = invoke("--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the demo's crawl failed: no network" in result.stderr


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scrapy the demo says what to install."""
    monkeypatch.setattr(
        "dedup.cli.demo.find_spec", lambda name: None if name == "scrapy" else object()
    )
    result = invoke()
    assert result.exit_code == 1
    assert "the demo needs scrapy" in result.stderr
    assert "pip install 'crawl-dedup[scrapy]'" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("--pages=99",), ("--port=8000",), ("--mode=keep",), ("--site-only", "--port=-1")]
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    """Too few pages, a port for the crawl, an unknown mode, a port that is none."""
    assert invoke(*arguments).exit_code == 2


def test_a_port_taken_is_named() -> None:
    """Another program on the port: exit code 1, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke("--site-only", "--pages=100", f"--port={port}")
    assert result.exit_code == 1
    assert f"127.0.0.1:{port}" in result.stderr
    assert "another --port" in result.stderr


# Whole runs


def run(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize(
    ("seed", "pages"), [(1, 300), pytest.param(2, 500, marks=pytest.mark.long)]
)
def test_the_demo(seed: int, pages: int) -> None:
    """Real Scrapy drops planted near-duplicates, but for those that it compares, and nothing else."""
    more = [] if pages == 500 else [f"--pages={pages}"]  # 500 is the usual number
    with run("--json", f"--seed={seed}", *more) as process:
        stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stdout + stderr
    assert stderr == ""
    report = json.loads(stdout)
    print({name: report[name] for name in ("fetched", "near_duplicates", "found_percent")})
    assert report["ok"] is True
    assert report["seed"] == seed
    assert report["urls"] == pages
    assert report["wrong"] == report["unreached"] == []
    assert report["lost_links"] == report["failed"] == report["faults"] == {}
    told = (
        report["near_duplicates"] + report["evidence"]
    )  # on a site of 500 URLs, about half and half
    assert told >= 0.7 * (told + len(report["misses"]))
    again = report["exempt"].get("control", 0) + report["looked_again"]
    assert report["fetched"] == report["accepted"] + report["near_duplicates"] + again
    assert report["outlinks_never_requested"] > 20
    assert report["near_duplicates"] > 30
    assert report["parsed_near_duplicates"] == 0
    assert report["items"] >= report["accepted"]
    assert sum(1 for kind in report["kinds"].values() if kind["found"] and kind["example"]) >= 4
    assert report["exempt"]["start"] == 1
    assert report["exempt"]["compared"] >= 2
    assert 0 < report["dedup_cpu_seconds"] < report["cpu_seconds"]


@pytest.mark.long
def test_another_mode_drops_nothing() -> None:
    """In the mode tag every page is parsed, near-duplicates too, and every URL requested."""
    crawl = crawl_site(pages=120, seed=3, mode="tag")
    report = judge(Site(120, 3), crawl)
    assert report.complaints == []
    assert report.fetched == report.urls == report.items == 120
    assert report.near_duplicates == report.parsed_near_duplicates
    assert report.evidence > 0
    assert report.outlinks_never_requested == 0


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_ctrl_c_ends_the_crawl_cleanly(tmp_path: Path) -> None:
    """Interrupted in the middle: no traceback, no temporary folder, no process left."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with run("--pages=1500", env=environment, start_new_session=True) as process:
        try:
            wait_for(lambda: any(f.stat().st_size > 200 for f in tmp_path.glob("*/requests.log")))
            assert len(running(str(tmp_path))) == 2  # the site and the crawl
        finally:
            process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert stdout == ""
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []
    assert running(str(tmp_path)) == []


def running(folder: str) -> list[str]:
    """Return the processes that work in the folder or name it, where /proc tells."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            told = f"{process.name} {(process / 'cwd').readlink()} {command}"
        except OSError:  # it has ended, or is not ours
            continue
        if folder in told:
            found.append(told)
    return found


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
