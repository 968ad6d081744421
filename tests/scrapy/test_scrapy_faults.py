"""Faults of dedup in real crawls: whatever fails, no page is lost, and each fault is counted."""

import pytest
from crawling import Case, Page, article, hub, run_case, run_cases

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
    """A store that cannot be opened costs no page, and each page counts the fault."""
    assert crawls[name].parsed == set(PAGES)
    assert crawls[name].faults == {kind: len(PAGES)}


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_store_that_cannot_be_opened_is_told_once(crawls, name, kind):
    """One error says which namespace goes without, and where the store lies."""
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


def test_faults_stand_in_the_summary(crawls):
    """The summary at the end tells the faults."""
    said = "\n[dedup] faults of dedup, what they concerned was kept: store_locked"
    assert f"{said} ({len(PAGES)})\n" in crawls["locked"].log


def test_fault_of_one_namespace_touches_no_other(crawls):
    """A spider of the same process with a store of its own goes on dropping."""
    assert len(crawls["healthy"].dropped) == 1
    assert crawls["healthy"].faults == {}


# Each method of the detector breaks for the spider of its name.
BREAK = """
import dedup.detector, dedup.scrapy.middlewares, dedup.scrapy.page.judge

def breaks(method, named):
    real = getattr(dedup.detector.EmbeddedDetector, method)
    def broken(self, *args, **kwargs):
        if self.info()["namespace"] == named:
            raise ZeroDivisionError(f"broken {method}")
        return real(self, *args, **kwargs)
    setattr(dedup.detector.EmbeddedDetector, method, broken)

for method in ("release", "forget", "close"):
    breaks(method, method)
breaks("judge", "reserve")
breaks("insert_many", "insert")

real_read, real_forget = dedup.scrapy.page.judge.read_page, dedup.scrapy.middlewares.forget_copied

def read_page(page, *, url, **options):
    if b"UNREADABLE" in page:
        raise MemoryError("broken reader")
    return real_read(page, url=url, **options)

def forget_copied(request):
    if "UNCLEAN" in request.url:
        raise TypeError("broken meta")
    return real_forget(request)

dedup.scrapy.page.judge.read_page = read_page
dedup.scrapy.middlewares.forget_copied = forget_copied

class Broken:
    def process_item(self, item, spider=None):
        raise ValueError("the pipeline is broken")
"""
RAISE = """
def parse(self, response):
    self.note("parsed", response)
    if not response.url.endswith("/"):
        raise ValueError("the callback is broken")
    return self.links(response)
"""
BROKEN = {
    "reserve": Case(PAGES),
    "insert": Case(PAGES),
    "release": Case(PAGES, RAISE, {"DEDUP_WAIT_SECONDS": 0.1}),
    "forget": Case(PAGES | {"/": hub("/a", "/gone", "/c"), "/gone": Page(b"", status=410)}),
    "close": Case(PAGES),
    "reader": Case(
        {"/": hub("/x", "/y"), "/x": article(1), "/y": article(1, frame="UNREADABLE")},
        "def links(self, r): return super().links(r, errback=None)",
    ),
    "meta": Case(
        {"/": hub("/x", "/UNCLEAN"), "/x": article(1), "/UNCLEAN": article(2)},
        "def links(self, r): return super().links(r, meta=r.meta.copy())",
    ),
    "foreign": Case(
        PAGES,
        """
        def links(self, response):
            for request in super().links(response):
                request.meta.update(dedup="mine", dedup_namespace=["no"], redirect_urls=3)
                yield request
        """,
    ),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    return run_cases(tmp_path_factory.mktemp("broken"), BROKEN, setup=BREAK)


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("close", "forget")])
def test_promise_1_nothing_is_lost_by_a_fault(broken, name):
    """Whatever method of ours raises, every page is parsed."""
    assert broken[name].parsed == set(BROKEN[name].pages)
    assert broken[name].dropped == {}


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("reserve", {"zero_division_error": 4}),
        ("insert", {"zero_division_error": 4}),
        ("release", {"zero_division_error": 3}),
        ("close", {"zero_division_error": 1}),
        ("reader", {"memory_error": 1}),
        ("meta", {"type_error": 1}),
        ("foreign", {"type_error": 3}),
    ],
)
def test_fault_is_counted_for_each_page(broken, name, faults):
    """dedup/error/KIND counts each page that a fault touched."""
    assert broken[name].faults == faults


def test_fault_is_logged_once(broken):
    """Of the faults of a kind the first one is logged, with its traceback, and only that."""
    log = broken["reserve"].log
    assert log.count("[dedup] failed (broken judge); ") == 1
    assert "ZeroDivisionError: broken judge\n" in log


def test_fault_at_insert_says_what_it_costs(broken):
    """A page whose insert failed is said to be parsed, but not remembered."""
    assert "was parsed, but is not remembered" in broken["insert"].log
    assert broken["insert"].stat("inserted") == 0


def test_fault_at_forget_is_counted(broken):
    """A page that is gone and cannot be forgotten is a fault that ends nothing."""
    assert {"/", "/a", "/c"} == broken["forget"].parsed
    assert broken["forget"].faults["zero_division_error"] >= 1


def test_store_without_documents_is_closed_with_its_crawl(tmp_path):
    """A crawl that accepted nothing gives its store back like any other."""
    left = tmp_path / "left"
    setup = f"""
import atexit, pathlib, dedup.detector
count = lambda: pathlib.Path({str(left)!r}).write_text(str(len(dedup.detector.detector._stores)))
atexit.register(count)
"""
    body = "def parse(self, response): raise ValueError('the callback is broken')"
    crawl = run_case(tmp_path, Case(PAGES, body), setup=setup)
    assert crawl.stat("released") == 1
    assert left.read_text() == "0"


def test_meta_of_another_is_no_fault_when_an_item_fails(tmp_path):
    """What a spider itself writes to meta["dedup"] does not break the item_error signal."""
    body = """
    def parse(self, response):
        response.meta["dedup"] = "mine"
        self.note("parsed", response)
        yield {"url": response.url}
    """
    pages = {"/": article(1)}
    case = Case(pages, body, {"ITEM_PIPELINES": {"spiders.Broken": 1}})
    crawl = run_case(tmp_path, case, setup=BREAK)
    assert "the pipeline is broken" in crawl.log
    assert crawl.parsed == {"/"}
    assert not [line for line in crawl.errors if "signal handler" in line]


def test_reactor_without_asyncio_disables_the_addon(tmp_path):
    """On another reactor the add-on is off, says why, and the crawl goes on without it."""
    reactor = "twisted.internet.selectreactor.SelectReactor"
    settings = {"TWISTED_REACTOR": reactor}
    crawl = run_case(tmp_path, Case(PAGES), settings=settings)
    assert crawl.parsed == set(PAGES)
    reason = "dedup waits for pages in flight on an asyncio loop; remove TWISTED_REACTOR"
    assert crawl.log.count(reason) == 1
    assert "dedup: 0 pages judged" not in crawl.log
