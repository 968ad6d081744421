"""Scrapy's queue on disk, cut by a kill, is mended before Scrapy opens it: one line, no traceback, the crawl goes on."""

import pickle
import signal

import pytest
from crawling import Case, Crawling, article, hub, serve, wait_for
from queuelib import LifoDiskQueue
from scrapy import Spider
from scrapy.utils.test import get_crawler

from dedup.scrapy.memory.queue import mend_queue

pytestmark = pytest.mark.usefixtures("reactor")

REQUESTS = [b"one", b"2", b"three" * 9, b"four"]
PAGES = {"/": hub(*(f"/{i}" for i in range(8)))} | {
    f"/{i}": article(i, *(f"/{8 * i + j}" for j in range(8) if 8 * i + j < 40)) for i in range(40)
}


def mend(job):
    crawler = get_crawler(Spider, {"JOBDIR": str(job)})
    crawler.crawling = True
    mend_queue(crawler)


def content_of(file, requests):
    """Return the bytes of a queue that Scrapy closed."""
    queue = LifoDiskQueue(file)
    for request in requests:
        queue.push(request)
    queue.close()
    return file.read_bytes()


def popped(file):
    """Return what Scrapy's queue finds in a file, the last first; the file may be away."""
    queue = LifoDiskQueue(file)
    found = [queue.pop() for _ in range(len(queue))]
    queue.close()
    return found


def test_every_cut_of_a_queue_leaves_the_requests_that_are_complete(tmp_path, caplog):
    """Wherever the file ends Scrapy pops each complete request and nothing else, and a whole file is left alone."""
    file = tmp_path / "requests.queue" / "example.com-1" / "-3"
    file.parent.mkdir(parents=True)
    whole = content_of(file, REQUESTS)
    ends = [len(content_of(tmp_path / f"{n}", REQUESTS[:n])) for n in range(1, 5)]
    for size in range(len(whole) + 1):
        file.write_bytes(whole[:size])
        caplog.clear()
        mend(tmp_path)
        complete = sum(end <= size for end in ends)
        assert popped(file) == REQUESTS[:complete][::-1], size
        said = [record.getMessage() for record in caplog.records if record.name == "dedup"]
        assert len(said) == (size < len(whole))
        assert all("1 files of Scrapy's queue" in line for line in said)


def test_a_queue_that_scrapy_closed_is_not_looked_into(tmp_path):
    """Files that are no newer than active.json are as Scrapy left them; one whose count is 0 Scrapy begins anew."""
    folder = tmp_path / "requests.queue"
    folder.mkdir()
    content_of(folder / "0", REQUESTS)
    (folder / "0").write_bytes(cut := (folder / "0").read_bytes()[:-1])
    (folder / "active.json").write_text("[0]")
    mend(tmp_path)
    assert (folder / "0").read_bytes() == cut
    (folder / "1").write_bytes(bytes(4) + cut)
    mend(tmp_path)
    assert (folder / "1").read_bytes() == bytes(4) + cut


def test_a_crawl_resumes_with_the_rest_of_a_queue_that_was_cut(tmp_path):
    """Killed after a stop, and its files cut: the next run says one line, and parses what the queue still holds."""
    case = Case(PAGES, settings={"JOBDIR": str(tmp_path / "job")})

    def crawling(most):
        site.most = most
        found = Crawling(tmp_path, {"only": (site, case)})
        wait_for(lambda: most is None or len(site.requested) > most)
        return found

    with serve(PAGES) as site:
        stopped = crawling(9)
        stopped.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "SIGTERM" in (tmp_path / "log").read_text())
        site.most = None
        first = stopped.end()["only"]
        killed = crawling(2)
        killed.process.kill()
        second = killed.end(-signal.SIGKILL)["only"]
        files = [f for f in (tmp_path / "job" / "requests.queue").rglob("*") if f.name.isdigit()]
        fullest, empty = sorted(files, key=lambda f: f.stat().st_size)[:-3:-1]
        held = fullest.read_bytes().count(pickle.dumps({}, 4)[:3])
        fullest.write_bytes(fullest.read_bytes()[:-20])
        empty.write_bytes(b"\0")
        third = crawling(None).end()["only"]
    lines = [line for line in third.log.splitlines() if "of Scrapy's queue" in line]
    assert len(lines) == 1
    assert "Traceback" not in third.log
    assert third.stats["finish_reason"] == "finished"
    assert len(third.parsed - first.parsed - second.parsed) >= held - 1
