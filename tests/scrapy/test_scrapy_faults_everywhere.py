"""A fault at every call of detector and store in a real crawl: no page is lost, and each fault is counted.

tests/support/faulting.py finds the calls and breaks them. A crawl without a fault says which are made, and
how often; then they fail at every call, with kinds of fault in turn; at size each fails at its last one, too,
and the outermost calls fail with every kind. The store holds documents, and a snapshot, before each crawl. A
last crawl has several pages in flight, and one call of every so many fails.
"""

import itertools
import shutil
from collections import Counter
from unittest.mock import patch
from urllib.parse import urlsplit

import faulting
import pytest
from crawling import Case, Crawling, article, hub, run_case, serve
from killing import ASKS_AGAIN, content, parsed_contents, site_pages
from seeds import seed_of
from sizes import FULL

import dedup
from dedup.model.errors import DedupError
from dedup.scrapy.evidence.items import ItemsDigest, encode
from dedup.scrapy.guard import kind_of
from dedup.store import store
from dedup.store.verify import verify_store

pytestmark = pytest.mark.sized  # `make test` breaks a quarter of the calls, `make test-long` all

PAGES = {
    "/": hub("/a", "/b", "/again", "/gone-copy", "/raises", "/pipeline", "/latin", "/other"),
    "/a": article(1),
    "/b": article(1, frame="a copy of /a"),
    "/again": article(2),
    "/gone-copy": article(3, frame="a copy of what was stored before"),
    "/raises": article(4),
    "/pipeline": article(5),
    "/latin": article(6, content_type="text/html; charset=iso-8859-1", encoding="iso-8859-1"),
}
STORED = {"/again": article(2), "/gone": article(3), "/other": article(7)}  # which now is a 404
CONTENT = {"/a": 1, "/b": 1, "/again": 2, "/gone": 3, "/gone-copy": 3}
DROPPED = {"/b", "/gone-copy"}

# Does no harm where it fails as a file may: the table is rebuilt from the documents. A snapshot
# that cannot be written is written another time. A warning in the log says so.
HARMLESS_AT_OPENING = {"SegmentedTable.__init__"}
# Fails in a thread of its own, at any time: the next insert says so.
FLUSHED = "Documents.sync"
NAMED = "scrapy.page.session.namespace_of"  # called where the namespace is the spider's name

KINDS = itertools.cycle(faulting.KINDS)
# A map that is full once is enlarged, and nothing failed.
ONCE = itertools.cycle(kind for kind in faulting.KINDS if kind != "map")
OUTER = [
    "scrapy.memory.embedded.open_embedded", "scrapy.page.session.read_page", "EmbeddedDetector.judge", "EmbeddedDetector.insert_many",
    "EmbeddedDetector.release", "EmbeddedDetector.forget", "EmbeddedDetector.close",
]  # fmt: skip


def plan_of(total):
    """Return lines of (point, kind, when): of what a crawl calls a quarter at each call; at size the others, and all at the last one."""
    used = [point for point in faulting.POINTS if total[point]]
    each = [(point, next(KINDS), "all") for point in used]
    plan = [line for n, line in enumerate(each) if (n % 4 > 0) == FULL or line[0] in OUTER]
    if FULL:
        plan += [(point, next(ONCE), "last") for point in used]
        plan += [(point, kind, "all") for point in OUTER for kind in faulting.KINDS]
    return plan


@pytest.fixture(scope="module")
def site():
    with serve(PAGES) as site:
        yield site


@pytest.fixture(scope="module")
def made(tmp_path_factory, site):
    """The folder of a store that every crawl begins with a copy of; its pages brought their address."""
    brought = encode(ItemsDigest(1))
    folder = tmp_path_factory.mktemp("made")
    with dedup.open(folder, namespace="site") as detector, patch.object(store, "TAIL_AT_CLOSE", 1):
        for path, page in STORED.items():
            read = detector.fingerprint(page.body, encoding="utf-8")
            detector.insert(detector.reserve(read, site.url + path).brought(items=brought))
        detector.close()
    assert (folder / "site" / "keys" / "manifest.json").exists()
    return folder


def crawl(folder, site, made, plan):
    """Crawl once for each (point, kind, n-th call or None), in one process, and verify the stores."""
    cases = {}
    for number, (point, kind, call) in enumerate(plan):
        name = f"f{number}"
        shutil.copytree(made, folder / name)
        settings = {
            "DEDUP_PATH": str(folder / name),
            "DEDUP_NAMESPACE": None if point == NAMED else "site",
            "DEDUP_PROOF": "text",
            "DEDUP_WAIT_SECONDS": 0.05,
            "ITEM_PIPELINES": {"faulting.BrokenPipeline": 1},
        }
        cases[name] = (
            site,
            Case(PAGES, faulting.armed(point, kind, call) + faulting.PARSE, settings),
        )
    setup = "import faulting, dedup.store.store\nfaulting.prepare()\n"
    setup += "dedup.store.store.TAIL_AT_CLOSE = 1\n"
    # a crawl that takes longer than another flushes no more often: calls are the same in all
    setup += "dedup.store.documents.FLUSH_SECONDS = 3600\n"
    # each page is inserted by the call that ends it, so that faults can be told apart
    setup += "import dedup.scrapy.page.in_flight\ndedup.scrapy.page.in_flight.COMMIT_PAGES = 1"
    crawls = Crawling(folder, cases, setup, in_turn=True).end()
    return [(crawl, verify_store(folder / name, "site")) for name, crawl in crawls.items()]


def calls(crawl):
    """Return how often each point was called."""
    return Counter(crawl.of("calls")[0]["calls"])


@pytest.fixture(scope="module")
def healthy(tmp_path_factory, site, made):
    ((crawled, report),) = crawl(
        tmp_path_factory.mktemp("healthy"), site, made, [("nowhere", "bug", None)]
    )
    assert report.problems == []
    return crawled


@pytest.fixture(scope="module")
def faulty(tmp_path_factory, site, made, healthy):
    """What came of each line of the plan: the crawl, and the report on its store."""
    total = calls(healthy) + Counter([NAMED])
    runs = {
        (point, kind, when): (point, kind, None if when == "all" else total[point])
        for point, kind, when in plan_of(total)
    }
    found = crawl(tmp_path_factory.mktemp("faulty"), site, made, [*runs.values()])
    return dict(zip(runs, found, strict=True))


def test_the_crawl_without_a_fault_calls_most_of_detector_and_store(healthy):
    """What no crawl calls, as other programs do, is not broken here."""
    total = calls(healthy)
    assert sum(bool(total[point]) for point in faulting.POINTS) > 80
    assert all(total[point] for point in OUTER)
    assert healthy.faults == {}
    assert set(healthy.dropped) == DROPPED


def test_promise_1_nothing_is_lost_by_a_fault_anywhere(faulty):
    """Each page is parsed once, or dropped as alike to one that was parsed or stored."""
    for name, (crawled, _) in faulty.items():
        assert sorted([*crawled.paths("parsed"), *crawled.dropped]) == sorted(PAGES), name
        for path, verdict in crawled.dropped.items():
            original = urlsplit(verdict["of"]).path
            assert CONTENT[original] == CONTENT[path], name
            assert original in crawled.parsed | set(STORED), name


def miscounted(name, crawled):
    """Return the counts of faults, where they are not those of the calls by Scrapy that a fault was raised in; else {}.

    A store that does not open touches every page, the one that is gone too.
    """
    point, kind, when = name
    raised = {event["operation"] for event in crawled.of("raised")}
    assert raised, name
    touched = len(PAGES) + 1 if "opening" in raised else len(raised - {"saving"})
    error = kind_of(faulting.KINDS[kind]("text"))
    kinds = {error, "oserror"} if kind in {"map", "lmdb"} else {error}
    if point.endswith("documents.decode_state"):  # an error of ours there is told with the path
        kinds.add("dedup_error")
    if "opening" in raised:  # an OSError in the index each time, also when it is rebuilt
        kinds.add("index_unusable")
    if raised == {"saving"} or (point in HARMLESS_AT_OPENING and not crawled.faults):
        assert f"broken {point} in {crawled.name}." in crawled.log, name
        return crawled.faults
    if point.endswith("documents.decode_state") and when == "last" and not crawled.faults:
        # of the state before the last one: what cannot be read there is of no transaction (documents.wrote)
        assert issubclass(faulting.KINDS[kind], DedupError), name
        return {}
    number = sum(crawled.faults.values())
    right = 1 <= number <= len(PAGES) if point == FLUSHED else number == touched
    return {} if right and set(crawled.faults) <= kinds else crawled.faults | {"wanted": touched}


def test_fault_anywhere_is_counted_for_each_page_it_touches(faulty):
    """dedup/error/KIND is the number of calls by Scrapy that a fault was raised in."""
    wrong = {name: miscounted(name, crawled) for name, (crawled, _) in faulty.items()}
    assert {name: counts for name, counts in wrong.items() if counts} == {}


def test_fault_anywhere_is_logged_once(faulty):
    """One error of dedup's own logger says what failed."""
    for name, (crawled, _) in faulty.items():
        said = f"broken {name[0]} in {crawled.name}."
        lines = [line for line in crawled.errors if "[dedup] ERROR" in line and said in line]
        assert len(lines) == bool(crawled.faults), name


def test_crawl_with_a_fault_anywhere_ends_well(faulty):
    """The crawl ends by itself, and its store verifies."""
    for name, (crawled, report) in faulty.items():
        assert crawled.stats["finish_reason"] == "finished", name
        assert crawled.stats["spider_exceptions/count"] == 1, name  # the callback of /raises
        assert [p for p in report.problems if "it is rebuilt" not in p] == [], name


def strangers(log):
    """Return the errors in a log that are not dedup's, nor a callback's or pipeline's of the test."""
    allowed = ("[dedup] ERROR", "/raises>", "Error processing {'url'", "was not flushed to disk")
    errors = [line for line in log.splitlines() if " ERROR: " in line or " CRITICAL: " in line]
    errors += [line for line in log.splitlines() if line.startswith("Exception ")]
    return [line for line in errors if not any(a in line for a in allowed)]


def test_no_fault_leaves_dedup(faulty):
    """No error in the log is Scrapy's or Python's own, about an exception that got through."""
    assert strangers(next(iter(faulty.values()))[0].log) == []


@pytest.fixture(
    scope="module",
    params=[pytest.param(150, id="some", marks=pytest.mark.long), pytest.param(10, id="many")],
)
def storm(request, tmp_path_factory, tell):
    """A crawl with eight pages in flight, where one call of every so many fails; its store."""
    folder = tmp_path_factory.mktemp("storm")
    seed = seed_of("STORM")
    tell(f"one call of every {request.param} failed, STORM_SEED={seed}")
    body = faulting.stormy(seed, request.param) + ASKS_AGAIN.format(asks_again=False)
    settings = {"CONCURRENT_REQUESTS": 8, "DEDUP_WAIT_SECONDS": 0.2}
    setup = "import faulting\nfaulting.prepare()"
    crawled = run_case(folder, Case(site_pages(20), body, settings), setup=setup)
    return crawled, verify_store(folder / "dedup", "only")


def test_promise_1_nothing_is_lost_in_a_storm_of_faults(storm):
    """Whatever fails, every content is parsed, and a drop names a page alike that was parsed."""
    crawled, _ = storm
    assert crawled.of("raised")
    assert crawled.faults
    assert parsed_contents(crawled) == {str(n) for n in range(20)}
    assert crawled.parsed | set(crawled.dropped) == set(site_pages(20))
    for path, verdict in crawled.dropped.items():
        original = verdict["of"].removeprefix(crawled.url)
        assert content(original) == content(path)
        assert original in crawled.parsed - {path}


def test_store_verifies_after_a_storm_of_faults(storm):
    """The crawl ends by itself, no fault gets out of dedup, and its store is sound."""
    crawled, report = storm
    assert crawled.stats["finish_reason"] == "finished"
    assert strangers(crawled.log) == []
    assert [p for p in report.problems if "it is rebuilt" not in p] == []
