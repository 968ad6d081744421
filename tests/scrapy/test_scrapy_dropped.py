"""DEDUP_DROPPED in real crawls: every drop and flag is a line, in all modes, also after a kill and a resume."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from crawling import Case, Page, article, hub, run_case, run_cases, serve, words

import dedup
from dedup.report.drops import read_drops
from dedup.scrapy.report.journal import MARK
from dedup.scrapy.proof import JOB_FOLDER
from dedup.scrapy.summary import Swallowing

COPIES = 12
PAGES = {
    "/": hub("/first", *(f"/copy/{n}" for n in range(COPIES)), "/other"),
    "/first": article(1, text=f"{words(1)} closing word one"),
    **{f"/copy/{n}": article(1, text=f"{words(1)} closing word {n}") for n in range(COPIES)},
    "/other": article(2),
}


TITLES = """
def parse(self, response):
    yield {"title": response.css("title::text").get(), "price": response.css("script::text").get()}
    yield from self.links(response)
"""


def priced(price):
    """Return a page of the same text for every price, which JSON-LD alone tells."""
    page = article(1)
    data = f'<script type="application/ld+json">{{"price": {price}}}</script>'.encode()
    return Page(page.body.replace(b"</main>", data + b"</main>"))


def test_every_drop_is_a_line_in_every_mode(tmp_path):
    """Drop, skip_links and tag: as many lines as near-duplicates, each with original and difference."""
    modes = {"drop": "dropped", "skip_links": "links_skipped", "tag": "flagged"}
    files = {mode: tmp_path / "made" / f"{mode}.jsonl" for mode in modes}
    cases = {
        mode: Case(PAGES, settings={"DEDUP_MODE": mode, "DEDUP_DROPPED": str(files[mode])})
        for mode in modes
    }
    for mode, crawl in run_cases(tmp_path, cases).items():
        assert not crawl.faults
        lines = list(read_drops(files[mode]))
        assert len(lines) == crawl.stat("near_duplicate") == COPIES
        assert {line.url for line in lines} == {f"{crawl.url}/copy/{n}" for n in range(COPIES)}
        for line in lines:
            assert (line.action, line.of, line.callback) == (
                modes[mode],
                f"{crawl.url}/first",
                "parse",
            )
            assert line.differs == [("one", line.url.rpartition("/")[2])]
            assert not line.numbers_only
            assert 0.8 < line.similarity <= 1
            assert line.time.startswith("20")


def test_a_job_folder_holds_the_file_s_mark_and_the_pages_to_send_again(tmp_path):
    """With DEDUP_DROPPED and JOBDIR what a class dropped is saved, so that it can be sent again, without a fault."""
    settings = {"DEDUP_DROPPED": str(tmp_path / "d.jsonl"), "JOBDIR": str(tmp_path / "job")}
    crawl = run_case(tmp_path, Case(PAGES, TITLES, settings))
    assert not crawl.faults
    assert (tmp_path / "job" / MARK).is_file()
    assert [*(tmp_path / "job" / JOB_FOLDER).iterdir()]


@pytest.mark.long
def test_a_new_crawl_begins_an_empty_file(tmp_path):
    """What an older crawl wrote, and a line that was cut off, is gone; with a JOBDIR it stays."""
    file = tmp_path / "dropped.jsonl"
    settings = {"DEDUP_DROPPED": str(file)}
    for job, expected in (({}, COPIES), ({"JOBDIR": str(tmp_path / "job")}, COPIES)):
        file.write_text('{"cut')
        crawl = run_case(tmp_path, Case(PAGES, settings=settings | job))
        assert crawl.stat("near_duplicate") == COPIES
        assert len(file.read_text().splitlines()) == expected
    with file.open("a") as more:
        more.write('{"cut')
    resumed = {"JOBDIR": str(tmp_path / "job")}
    crawl = run_case(tmp_path, Case(PAGES, settings=settings | resumed))
    lines = file.read_text().splitlines()
    assert len(lines) > COPIES
    assert lines[COPIES].startswith('{"cut')
    assert all(json.loads(line) for n, line in enumerate(lines) if n != COPIES)


def test_a_file_that_cannot_be_written_costs_no_page(tmp_path):
    """It is a fault that is counted once, and the crawl is as without the setting."""
    (tmp_path / "file").touch()
    cases = {
        "nowhere": Case(PAGES, settings={"DEDUP_DROPPED": str(tmp_path / "file" / "d.jsonl")}),
        "without": Case(PAGES),
    }
    crawls = run_cases(tmp_path, cases)
    assert sum(crawls["nowhere"].faults.values()) == 1
    assert crawls["nowhere"].parsed == crawls["without"].parsed


SPIDER = """
import sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Spider(scrapy.Spider):
    name = "killed"
    start_urls = [sys.argv[1] + "/"]
    custom_settings = {
        "ADDONS": {"dedup.scrapy.Addon": 500}, "DEDUP_DROPPED": sys.argv[2], "JOBDIR": sys.argv[3],
        "DEDUP_PATH": sys.argv[4], "DOWNLOAD_DELAY": 0.05, "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False, "HTTPPROXY_ENABLED": False,
    }
    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")

process = CrawlerProcess()
process.crawl(Spider)
process.start()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_kill_loses_no_line(tmp_path):
    """kill -9 in the middle of a crawl: the lines so far are whole, and the resumed crawl appends."""
    file = tmp_path / "dropped.jsonl"
    with serve(PAGES) as site:
        command = [
            sys.executable,
            "-c",
            SPIDER,
            site.url,
            file,
            tmp_path / "job",
            tmp_path / "store",
        ]
        process = subprocess.Popen([*map(str, command)], env=os.environ, start_new_session=True)
        until = time.monotonic() + 120
        while not file.exists() or file.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before = file.read_bytes()
        assert before.endswith(b"\n")
        subprocess.run([*map(str, command)], check=True, timeout=300)
    assert file.read_bytes().startswith(before)
    assert all(map(json.loads, file.read_text().splitlines()))


@pytest.mark.parametrize("differs", ["price", "words"])
def test_near_duplicates_with_other_numbers_are_said(tmp_path, differs):
    """From 20 on, nine in ten of a callback: a line, unless the items show it. Other words are no such sign."""
    swallowing = Swallowing()
    with dedup.open(tmp_path) as detector:
        for n in range(21):
            said = f"{n} EUR" if differs == "price" else "abcdefghijklmnopqrstuvwxyz"[n]
            page = dedup.fingerprint(f"<title>shirt</title><main><p>{words(1)} {said}</p></main>")
            verdict = detector.reserve(page, f"http://shop.example/{n}")
            if verdict.token is not None:
                detector.insert(verdict)
                continue
            assert swallowing.lines == []
            swallowing.compared(verdict, "item")
    if differs == "words":
        assert swallowing.lines == []
        return
    (line,) = swallowing.lines
    assert line.startswith("20 of 20 near-duplicates of item have other numbers in their text")
    assert "another number in the path" in line
    swallowing.counters = {"item"}  # two visits of one page have other numbers: they say nothing
    assert swallowing.lines == []
    swallowing.counters = ()
    swallowing.items_differ["item", "/0:#>#", "numbers"] = 15
    assert swallowing.lines == []


@pytest.mark.parametrize("differs", ["data", "nothing"])
def test_equal_texts_with_other_inline_data_are_said(tmp_path, differs):
    """DEDUP_PROOF = "text": prices in JSON-LD alone are dropped, and the summary says so; of true copies it does not."""
    paths = {f"/p/{n}": priced(n if differs == "data" else 0) for n in range(25)}
    pages = {"/": hub(*paths)} | paths
    crawl = run_case(tmp_path, Case(pages, settings={"DEDUP_PROOF": "text"}))
    assert crawl.stat("near_duplicate") == 24
    said = "24 of 24 near-duplicates of parse have word for word the text of their originals, and other inline data"
    assert (said in crawl.log) == (differs == "data")


def test_what_drop_would_save_leaves_pages_with_other_items_out(tmp_path):
    """The mode "tag": pages that the mode "drop" would parse, since their items differ, are no savings, and it says so."""
    report = tmp_path / "r.html"
    paths = {f"/p/{n}": priced(n) for n in range(6)} | {
        f"/p/0?from={n}": priced(0) for n in range(5)
    }
    settings = {"DEDUP_MODE": "tag", "DEDUP_REPORT": str(report)}
    crawl = run_case(tmp_path, Case({"/": hub(*paths)} | paths, TITLES, settings))
    assert crawl.stat("near_duplicate") == 10
    html = report.read_text()
    assert re.search(r"pages not parsed\D*5\b", re.sub("<[^>]*>", " ", html))
    assert "5 near-duplicates with other items than their originals are left out" in html
    assert (
        "5 pages with the text of another would be parsed, because their items differ, at least until"
        in crawl.log
    )
