"""Disks that are full or read-only, and stores that two crawls want: real ones, no page is lost."""

import inspect

import pytest
from crawling import Case, Crawling, article, hub, run_case, serve
from mounting import can_mount

import dedup
from dedup.store.verify import verify_store

LONG = "x=" + "x" * 3000  # keys of this length fill a disk soon


def pages_of(query):
    """Two copies each of twelve pages."""
    paths = [f"/{n}/{copy}?{query}" for n in range(12) for copy in "ab"]
    pages = {path: article(i // 2 + 20, frame="ab"[i % 2]) for i, path in enumerate(paths)}
    return {"/": hub(*paths)} | pages


PAGES, SHORT = pages_of(LONG), pages_of("x=1")

# The files of the test itself stay smaller than the journal.
FULL_FILES = """
import os, resource
import dedup
from crawling import article
{spread}
def hooked(spider):
    spread({folder!r}, 50)
    size = os.stat(os.path.join({folder!r}, "only", "documents.journal")).st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
"""
LIMITED = """
def parse(self, response):
    from spiders import hooked
    if "/3/a" in response.url:
        hooked(self)
    yield from super().parse(response)
"""


def spread(folder, count):
    """Make a store, or fill one further, with documents of long keys."""
    with dedup.open(folder, namespace="only") as detector:
        for n in range(count):
            text = detector.fingerprint(article(1000 + n).body, encoding="utf-8")
            detector.insert(detector.reserve(text, f"http://example.com/{n}?{'x' * 3000}"))


def check_full(crawl, report, before):
    """Nothing is lost, faults are counted and told once, and the store holds what was accepted."""
    contents = {path.split("/")[1] for path in crawl.parsed - {"/"}}
    assert contents == {str(n) for n in range(12)}
    for path, verdict in crawl.dropped.items():
        assert verdict["of"].removeprefix(crawl.url).split("/")[1] == path.split("/")[1]
        assert verdict["of"].removeprefix(crawl.url) in crawl.parsed
    assert len(crawl.parsed) + len(crawl.dropped) == len(PAGES)
    assert set(crawl.faults) == {"oserror"}
    evidence = crawl.stat("items/equal")  # parsed, found to be copies, and not remembered
    failed = len(crawl.parsed) - evidence - crawl.stat("inserted")
    # at the end what was learned, and the journal's changes in documents.mdb, may find no space
    assert 0 <= crawl.faults["oserror"] - failed <= 2
    assert failed > 0
    assert len([line for line in crawl.errors if "[dedup] failed (" in line]) == 1
    assert "was parsed, but is not remembered" in crawl.log
    assert crawl.stats["finish_reason"] == "finished"
    assert crawl.stat("exempt/in_flight") == 0
    assert report.problems == []
    assert report.documents == before + crawl.stat("inserted")


def test_promise_1_nothing_is_lost_on_a_disk_that_runs_full(tmp_path):
    """No file may grow from the middle of the crawl on: pages are kept, copies do not wait."""
    folder = tmp_path / "dedup"
    spread(folder, 1)  # the store is not the crawl's alone
    setup = FULL_FILES.format(spread=inspect.getsource(spread), folder=str(folder))
    with serve(SHORT) as site:
        together = {"only": (site, Case(SHORT, LIMITED))}
        crawl = Crawling(tmp_path, together, setup).end()["only"]
        check_full(crawl, verify_store(folder, "only"), 50)
        again = Crawling(tmp_path, {"only": (site, Case(SHORT))}).end()["only"]
    assert again.faults == {}
    assert again.stat("refetch") == crawl.stat("inserted") - 1  # and the start page


MOUNTED = """
import atexit, mounting, shutil
mounting.small_disk({path!r}, {size!r})
atexit.register(shutil.copytree, {path!r}, {copy!r})
"""


@pytest.mark.long
@pytest.mark.skipif(not can_mount(), reason="neither root nor a user namespace: no disk to fill")
def test_promise_1_nothing_is_lost_on_a_small_disk(tmp_path):
    """A disk of 80 KiB with the store on it, no space left (ENOSPC) soon: pages are kept."""
    (tmp_path / "dedup").mkdir()
    path, copy = tmp_path / "dedup", tmp_path / "copy"
    setup = MOUNTED.format(path=str(path), size="80k", copy=str(copy))
    crawl = run_case(tmp_path, Case(PAGES, settings={"URLLENGTH_LIMIT": 0}), setup=setup)
    assert "No space left on device" in crawl.log
    check_full(crawl, verify_store(copy, "only"), 0)


READ_ONLY = """
import mounting
mounting.read_only({path!r})
"""


@pytest.mark.skipif(not can_mount(), reason="neither root nor a user namespace: no mount")
@pytest.mark.parametrize("there", [True, False], ids=["store", "no-store"])
def test_promise_1_nothing_is_lost_on_a_read_only_disk(tmp_path, there):
    """The crawl goes without, and one error names the folder; what is there stays as it is."""
    folder = tmp_path / "dedup"
    folder.mkdir()
    if there:
        spread(folder, 3)
    before = {path: path.read_bytes() for path in folder.glob("*/*")}
    pages = {"/": hub("/a", "/b"), "/a": article(1), "/b": article(1, frame="b")}
    crawl = run_case(tmp_path, Case(pages), setup=READ_ONLY.format(path=str(folder)))
    assert crawl.parsed == set(pages)
    assert crawl.faults == {"oserror": 3}
    (error,) = crawl.errors
    assert "[dedup] off for 'only' in this crawl, pages are kept: " in error
    assert str(folder / "only") in error
    assert f"[dedup] DEDUP_PATH is {folder}: set it to a folder that can be written" in crawl.log
    assert {path: path.read_bytes() for path in folder.glob("*/*")} == before
