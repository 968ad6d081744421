"""DEDUP_DROPPED in real crawls: every page dropped or withheld is a line, in all modes, also after a kill and a resume."""

import json
from collections import Counter

from command_line import call
from crawling import (
    TEXT,
    Case,
    Crawling,
    Page,
    article,
    hub,
    run_case,
    run_cases,
    serve,
    wait_for,
    words,
)
from picture_site import picture

from dedup.report.drops import read_drops

COPIES = 20
ROOMS = 500
PAGES = {
    "/": hub("/first", *(f"/first?copy={n}" for n in range(COPIES)), "/other"),
    "/first": article(1, text=f"{words(1)} closing word one"),
    **{f"/first?copy={n}": article(1, text=f"{words(1)} closing word {n}") for n in range(COPIES)},
    "/other": article(2),
}
BEGINS = """
def parse(self, response):
    self.note("parsed", response)
    yield {"begins": response.css("main p::text").get()[:20]}
    yield from self.links(response)
"""


def test_every_page_dropped_or_withheld_is_a_line_in_every_mode(tmp_path):
    """As many lines as copies, and as pages of which something is withheld, each with original and difference; tag mode
    says what drop mode does.
    """
    modes = {"drop": "dropped", "skip_links": "links_skipped", "tag": "flagged"}
    files = {mode: tmp_path / "made" / f"{mode}.jsonl" for mode in modes}
    cases = {
        mode: Case(PAGES, BEGINS, {"DEDUP_MODE": mode, "DEDUP_DROPPED": str(files[mode])})
        for mode in modes
    }
    became = {}
    for mode, crawl in run_cases(tmp_path, cases).items():
        assert not crawl.faults
        lines = list(read_drops(files[mode]))
        unparsed = [line for line in lines if line.rule]
        assert len(unparsed) == crawl.stat("near_duplicate") > COPIES / 2
        parsed = [line for line in lines if not line.rule]
        assert len(parsed) == sum(line.items for line in parsed) == crawl.stat("items/withheld")
        assert len(crawl.of("parsed")) == len(PAGES) - len(unparsed) * (mode == "drop")
        for line in lines:
            number = line.url.rpartition("=")[2]
            assert (line.of, line.callback) == (f"{crawl.url}/first", "parse")
            assert line.differs == [("one", number)]
            assert not line.numbers_only
            assert 0.8 < line.similarity <= 1
            assert line.time.startswith("20")
            assert line.is_parsed == (line in parsed)
            became[mode, number] = line.would or line.action
        assert {line.action for line in unparsed} == {modes[mode]}
        rule = "items: parse, parameter `copy` added (words, "
        assert all(line.rule.startswith(rule) for line in unparsed)
    for n in range(COPIES):
        would = {"dropped": "drop", "withheld": "check"}[became["drop", str(n)]]
        assert became["tag", str(n)] == would
    counted = Counter(mode for mode, _ in became)
    assert counted["drop"] == counted["tag"] == COPIES
    assert counted["skip_links"] < COPIES  # items of checked pages pass there


def test_a_copy_by_its_text_says_so(tmp_path):
    """DEDUP_PROOF = "text": the rule is the text; of fifty copies of one page the log warns, once."""
    file = tmp_path / "d.jsonl"
    paths = {f"/p?n={n}": article(1, frame=f"{n}") for n in range(55)}
    settings = TEXT | {"DEDUP_DROPPED": str(file)}
    crawl = run_case(tmp_path, Case({"/": hub(*paths)} | paths, BEGINS, settings))
    assert [line.rule for line in read_drops(file)] == ["text"] * 54
    assert crawl.log.count(f"50 pages are copies of {crawl.url}/p?n=0 by their text") == 1
    listed = call("why", "--top", 100, "--drops", file, "--json").stdout.splitlines()
    assert len(listed) == crawl.stat("near_duplicate")


def test_what_was_learned_of_the_site_is_said_of_its_pages(tmp_path):
    """DEDUP_PROOF = "text": of a page dropped, and of one kept as its site's frame, how much of it is that frame."""
    drops, report = tmp_path / "d.jsonl", tmp_path / "report.json"
    pages = {f"/{n}": Page(picture(n).encode()) for n in range(40)}
    pages |= {f"/copy?{frame}": article(1, frame=frame) for frame in "ab"}
    settings = TEXT | {"DEDUP_DROPPED": str(drops), "DEDUP_REPORT": str(report)}
    crawl = run_case(tmp_path, Case({"/": hub(*pages)} | pages, BEGINS, settings))
    said = json.loads(report.read_text())["pages"][f"{crawl.url}/30"]
    read = "read 154 words, 150 of them on 30 of the 31 pages of this site; of what was not read"
    assert said == f"unread ({read} nothing is new)"
    said = call("why", f"{crawl.url}/copy?b", "--drops", drops).stdout
    assert "of its site       read 160 words; " in said


def test_promise_1_what_only_a_near_duplicate_leads_to_is_asked_for_or_listed(tmp_path):
    """Pages of one text with links to others of them, more than the link budget pays for; why names the budget."""
    rooms = {
        f"/m/{n}": article(1, *(f"/m/{(n * 7 + k) % ROOMS}" for k in range(6)), frame=f"{n}")
        for n in range(ROOMS)
    }
    files = {proof: tmp_path / f"{proof}.jsonl" for proof in ("items", "text")}
    cases = {
        proof: Case(
            rooms | {"/": hub("/m/1")}, BEGINS, {"DEDUP_PROOF": proof, "DEDUP_DROPPED": str(file)}
        )
        for proof, file in files.items()
    }
    for proof, crawl in run_cases(tmp_path, cases).items():
        lines = [e for e in read_drops(files[proof]) if e.action == "not_requested"]
        listed = [e.url.removeprefix(crawl.url) for e in lines]
        pages = [int(path.removeprefix("/m/")) for path in crawl.requested if path != "/"]
        linked = {f"/m/{(n * 7 + k) % ROOMS}" for n in pages for k in range(6)}
        assert linked - {*crawl.requested} == {*listed}
        assert 100 < len(listed) == len({*listed})
        assert f"{len(listed)} requests wait for something new" in crawl.log
        assert crawl.stat("items/withheld") > 0
    said = call("why", f"{crawl.url}{listed[0]}", "--drops", files["text"]).stdout
    assert "was not requested: a near-duplicate has a link to it" in said
    assert f"linked from       {crawl.url}/m/" in said
    assert "because           link budget of parse on 127.0.0.1 is spent" in said


def test_what_a_near_duplicate_leads_to_is_fetched_after_what_accepted_pages_lead_to(tmp_path):
    """A request that costs the link budget has a priority one lower than its spider gave it."""
    pages = {
        "/": hub("/first"),
        "/first": article(1, "/copy"),
        "/copy": article(1, "/behind"),
        "/behind": article(2, "/last"),
        "/last": article(3),
    }
    body = """
def parse(self, response):
    self.note("parsed", response, priority=response.request.priority)
    yield {"begins": response.css("main p::text").get()[:20]}
    yield from response.follow_all(css="a", callback=self.parse, priority=5)
"""
    crawl = run_case(tmp_path, Case(pages, body))
    found = {path: crawl.event(path)["priority"] for path in crawl.parsed}
    assert found == {"/": 0, "/first": 5, "/copy": 5, "/behind": 4, "/last": 5}


def test_promise_1_a_request_that_was_seen_with_another_session_is_listed(tmp_path):
    """Each page has a new session id in its links: what is not asked for is listed once, with the address that it was seen as."""
    site = {
        f"/m/{n}?sid={s}": article(n, *(f"/m/{(n + k) % 12}?sid={s + 1}" for k in (1, 2, 3)))
        for n in range(12)
        for s in range(24)
    }
    file = tmp_path / "dropped.jsonl"
    begin = {"/": hub(*(f"/m/{n}?sid=0" for n in range(12)))}
    crawl = run_case(tmp_path, Case(site | begin, BEGINS, {"DEDUP_DROPPED": str(file)}))
    lines = [e for e in read_drops(file) if e.action == "not_requested"]
    listed = [e.url.removeprefix(crawl.url) for e in lines]
    assert listed
    assert len(listed) == len({*listed})
    assert not {*listed} & {*crawl.requested}
    assert all(e.rule == f"seen as {e.url.partition('?')[0]}" for e in lines)
    followed = {*crawl.requested} - {*crawl.dropped} - {"/"}
    linked = {
        f"/m/{(int(n) + k) % 12}?sid={int(s) + 1}"
        for n, s in (path.removeprefix("/m/").split("?sid=") for path in followed)
        for k in (1, 2, 3)
    }
    assert linked - {*crawl.requested} == {*listed}
    assert crawl.stat("requests/withheld") == len(listed)
    said = call("why", lines[0].url, "--drops", file).stdout
    assert f"because           it was seen as {crawl.url}/m/" in said


def test_promise_1_a_request_that_was_seen_with_another_session_is_made_once_that_is_none(tmp_path):
    """Twelve pages show that a parameter means nothing; after one with another item it is made where it is met again."""
    other = f"other words begin this one {words(1)}"
    pages = {
        "/p": article(1),
        "/r": article(2),
        **{f"/p?c={n}": article(1) for n in range(12)},
        "/p?c=50": article(1, "/r?c=1"),
        "/p?c=51": article(1, "/s", text=other),
        "/p?c=52": article(1, "/r?c=1"),
    }
    rest = {"/r?c=1": article(3), "/s": article(4)}
    file = tmp_path / "dropped.jsonl"
    settings = {"DEDUP_DROPPED": str(file), "CONCURRENT_REQUESTS": 1, "DEDUP_RISK": 0}
    crawl = run_case(tmp_path, Case(pages | rest | {"/": hub(*pages)}, BEGINS, settings))
    lines = [e for e in read_drops(file) if e.action == "not_requested"]
    assert [e.url.removeprefix(crawl.url) for e in lines] == ["/r?c=1"]
    order = [*crawl.requested]
    assert order.index("/p?c=50") < order.index("/p?c=51") < order.index("/r?c=1")


def test_a_new_crawl_begins_an_empty_file(tmp_path):
    """What an older crawl wrote, and a line that was cut off, is gone; with a JOBDIR it stays."""
    file = tmp_path / "dropped.jsonl"
    settings = {"DEDUP_DROPPED": str(file)}
    for job, expected in (({}, COPIES), ({"JOBDIR": str(tmp_path / "job")}, COPIES)):
        file.write_text('{"cut')
        crawl = run_case(tmp_path, Case(PAGES, BEGINS, settings | job))
        assert crawl.stat("near_duplicate") + crawl.stat("checked") == COPIES
        assert len(file.read_text().splitlines()) == expected
    with file.open("a") as more:
        more.write('{"cut')
    resumed = {"JOBDIR": str(tmp_path / "job")}
    run_case(tmp_path, Case(PAGES, BEGINS, settings | resumed))
    lines = file.read_text().splitlines()
    assert len(lines) > COPIES
    assert lines[COPIES].startswith('{"cut')
    assert all(json.loads(line) for n, line in enumerate(lines) if n != COPIES)


def test_a_kill_loses_no_line(tmp_path):
    """kill -9 in the middle of a crawl: the lines so far are whole, and the resumed crawl appends."""
    file = tmp_path / "dropped.jsonl"
    case = Case(PAGES, BEGINS, {"DEDUP_DROPPED": str(file), "JOBDIR": str(tmp_path / "job")})
    with serve(PAGES) as site:
        site.most = 15  # it is not over before it is killed
        crawling = Crawling(tmp_path, {"only": (site, case)})
        wait_for(lambda: file.exists() and file.read_bytes().count(b"\n") >= 3)
        crawling.process.kill()
        crawling.end(-9)
        site.most = None
        before = file.read_bytes()
        assert before.endswith(b"\n")
        Crawling(tmp_path, {"only": (site, case)}).end()
    assert len(file.read_bytes()) > len(before)
    assert file.read_bytes().startswith(before)
    assert all(map(json.loads, file.read_text().splitlines()))
