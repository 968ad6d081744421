"""Faults of dedup in real crawls: whatever fails, no page is lost, and each fault is counted."""

import pytest
from crawling import Case, article, hub, run_case, run_cases

import dedup

PAGES = {
    "/": hub("/a", "/b", "/c"),
    "/a": article(1),
    "/b": article(1, frame="b"),
    "/c": article(2),
}
CASES = {
    "locked": Case(PAGES),
    "damaged": Case(PAGES),
    "othersecret": Case(PAGES, settings={"DEDUP_SECRET": "another one"}),
    "nosecret": Case(PAGES),
    "nofolder": Case(PAGES),
    "healthy": Case(PAGES, settings={"DEDUP_PROOF": "text"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def crawls(folder):
    path = folder / "dedup"
    for namespace in ("othersecret", "nosecret"):
        dedup.open(path, namespace=namespace, secret="the first one").close()
    (path / "damaged").mkdir()
    (path / "damaged" / "documents.mdb").write_bytes(b"not what was written" * 500)
    (path / "nofolder").write_text("a file where the folder should be")
    with dedup.open(path, namespace="locked"):
        return run_cases(folder, CASES)


KINDS = [
    ("locked", "store_locked"),
    ("damaged", "store_damaged"),
    ("othersecret", "recipe_mismatch"),
    ("nosecret", "recipe_mismatch"),
    ("nofolder", "not_adirectory_error"),
]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_promise_1_nothing_is_lost_without_a_store(crawls, name, kind):
    """A store that cannot be opened costs no page; each page counts the fault, and one error says which namespace."""
    assert crawls[name].parsed == set(PAGES)
    assert crawls[name].faults == {kind: len(PAGES)}
    (error,) = [line for line in crawls[name].errors if f"'{name}'" in line]
    assert f"[dedup] off for '{name}' in this crawl, pages are kept: " in error
    assert kind == "recipe_mismatch" or f"/dedup/{name}" in error


def test_locked_store_names_the_way_out(crawls, folder):
    """After the error of a store that another process holds a line has the command that shares it, and the setting."""
    lines = crawls["locked"].log.splitlines()
    (error,) = [number for number, line in enumerate(lines) if "off for 'locked'" in line]
    way_out = lines[error + 1]
    assert (
        f"[dedup] to share it between crawls run `dedup serve --path {folder / 'dedup'}` before"
        in way_out
    )
    assert 'DEDUP_SERVICE = "auto"' in way_out


def test_fault_of_one_namespace_touches_no_other(crawls):
    """A spider of the same process with a store of its own goes on dropping."""
    assert len(crawls["healthy"].dropped) == 1
    assert crawls["healthy"].faults == {}


# Of every other call: test_scrapy_faults_everywhere.py and test_scrapy_faults_addon.py.
BREAK = """
import dedup.detector

real = dedup.detector.EmbeddedDetector.insert_many
def insert_many(self, verdicts):
    if self.info()["namespace"] == "insert":
        raise ZeroDivisionError("broken insert")
    return real(self, verdicts)
dedup.detector.EmbeddedDetector.insert_many = insert_many

class Broken:
    def process_item(self, item, spider=None):
        raise ValueError("the pipeline is broken")
"""
BROKEN = {
    "insert": Case(PAGES),
    "foreign": Case(
        PAGES,
        """
        def links(self, response):
            for request in super().links(response):
                request.meta.update(dedup="mine", dedup_namespace=["no"], redirect_urls=3)
                yield request
        """,
    ),
    "mine": Case(
        {"/": article(1)},
        """
        def parse(self, response):
            response.meta["dedup"] = "mine"
            self.note("parsed", response)
            yield {"url": response.url}
        """,
        {"ITEM_PIPELINES": {"spiders.Broken": 1}},
    ),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    return run_cases(tmp_path_factory.mktemp("broken"), BROKEN, setup=BREAK)


@pytest.mark.parametrize(
    ("name", "faults"),
    [("insert", {"zero_division_error": 4}), ("foreign", {"type_error": 3}), ("mine", {})],
)
def test_promise_1_nothing_is_lost_by_a_fault(broken, name, faults):
    """Inserts fail, a spider writes meta of its own, and to meta["dedup"]: every page is parsed, each fault counts."""
    assert broken[name].parsed == set(BROKEN[name].pages)
    assert broken[name].dropped == {}
    assert broken[name].faults == faults


def test_fault_is_logged_once(broken):
    """Of the faults of a kind the first one, with its traceback and what it costs; none of a signal handler."""
    log = broken["insert"].log
    assert log.count("[dedup] failed (broken insert); ") == 1
    assert "ZeroDivisionError: broken insert\n" in log
    assert "was parsed, but is not remembered" in log
    assert broken["insert"].stat("inserted") == 0
    assert "the pipeline is broken" in log
    assert not [line for line in broken["mine"].errors if "signal handler" in line]


def test_reactor_without_asyncio_disables_the_addon(tmp_path):
    """On another reactor the add-on is off, says why, and the crawl goes on without it."""
    reactor = "twisted.internet.selectreactor.SelectReactor"
    settings = {"TWISTED_REACTOR": reactor}
    crawl = run_case(tmp_path, Case(PAGES), settings=settings)
    assert crawl.parsed == set(PAGES)
    reason = "dedup waits for pages in flight on an asyncio loop; remove TWISTED_REACTOR"
    assert crawl.log.count(reason) == 1
    assert "dedup: 0 pages judged" not in crawl.log
