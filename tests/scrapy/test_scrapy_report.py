"""DEDUP_REPORT in real crawls: the page says what happened, with numbers that are those of the stats."""

import json
import re
from datetime import UTC, datetime
from html import unescape

import pytest
from crawling import Case, article, hub, run_case, run_cases, words
from detecting import verdict_on

from dedup.core.fingerprint import fingerprint
from dedup.model.recipes import recipe_of
from dedup.report import journal as journals
from dedup.report.crawl import Crawl, crawl_report, json_report
from dedup.report.html import html_page
from dedup.report.journal import Journal, JudgedPage
from dedup.report.parts import Link, ListEntry, ReportPage, TablePart
from dedup.scrapy.report import words_of

COPIES = 60
PAGES = {
    "/": hub("/first", *(f"/first?copy={n}" for n in range(COPIES)), "/other", "/short"),
    "/first": article(1, "/behind", text=f"{words(1)} closing word one"),
    **{
        f"/first?copy={n}": article(1, "/behind", text=f"{words(1)} closing word &lt;script&gt;{n}")
        for n in range(COPIES)
    },
    "/other": article(2),
    "/short": article(3, count=5),
    "/behind": article(4),
}
TITLES = """
    def parse(self, response):
        sum(range(100_000))
        self.note("parsed", response)
        yield {"begins": response.css("main p::text").get()[:20]}
        yield from self.links(response)
"""


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    settings = {"DEDUP_REPORT": str(folder / "made" / "report.html"), "DEDUP_SECRET": "hush hush"}
    crawl = run_case(folder, Case(PAGES, TITLES, settings))
    assert not crawl.faults
    return crawl, (folder / "made" / "report.html").read_text()


def shown(*parts) -> str:
    return html_page(ReportPage("", parts))


def fact(page: str, name: str) -> str:
    (found,) = re.findall(rf"<dt>{name}</dt><dd>([^<]*)</dd>", page)
    return found


def test_the_figures_are_those_of_the_stats(crawl):
    """What was dropped, checked, unique and remembered is what the stats say; a host of copies is warned about."""
    crawl, page = crawl
    assert fact(page, "copies") == fact(page, "pages not parsed")
    for name, stat in (
        ("copies", "near_duplicate"),
        ("checked", "checked"),
        ("unique", "unique"),
    ):
        assert fact(page, name) == f"{crawl.stat(stat)}"
    assert fact(page, "remembered") == f"{crawl.stat('inserted')}"
    assert fact(page, "items withheld") == f"{crawl.stat('items/withheld')}"
    assert crawl.stat("near_duplicate") + crawl.stat("checked") == COPIES
    assert crawl.stat("near_duplicate") > COPIES / 2
    short = re.search(r"\(short\)</td><td class=\"number\">(\d+)", page)
    assert short[1] == f"{crawl.stat('exempt/short')}" == "1"
    assert re.search(r'class="warning"[^>]*>Over 60% of the pages of 127\.0\.0\.1', page)


def test_the_group_is_shown_with_its_differences(crawl):
    """The original is named, with examples of its copies, how alike they are, and what differs; what near-duplicates brought."""
    crawl, page = crawl
    copies = crawl.stat("near_duplicate")
    assert f"{crawl.url}/first</a></h3><p>{copies} copies, among them" in page
    assert re.search(rf"{crawl.url}/first\?copy=\d+</a> \(\d+ % similar, \d bits? apart\)", page)
    assert "<summary>where the texts differ: 1 place</summary>" in page
    summaries = re.findall(r"<summary>(.*?)</summary>", page, re.DOTALL)
    assert summaries
    assert not any("<a " in summary for summary in summaries)  # a click does one thing
    assert "<b>A</b> the page that was kept" in page
    assert "<del>one</del>" in page
    # the pattern of the copies: how its URLs differ, how many were dropped, and brought nothing new
    section = unescape(
        page.partition("What near-duplicates gave</h2>")[2].partition("</section>")[0]
    )
    (row,) = re.findall(r"<tr><td>parse, parameter <code>copy</code> added .*</tr>", section)
    numbers = re.findall(r'number">(\d+)', row)
    expected = [crawl.stat("near_duplicate"), crawl.stat("items/equal"), 0, 0]
    assert [int(n) for n in numbers] == expected


def test_nothing_of_a_page_is_markup(crawl):
    """What pages hold is escaped; the report has no script and nothing from elsewhere, and links to
    pages of the crawl alone.
    """
    page = crawl[1]
    assert "<script" not in page
    assert not re.findall(r"""\s(?:src|action|on[a-z]+)=["']""", page)
    links = re.findall(r'<a href="([^"]*)" rel="noreferrer noopener">', page)
    assert len(links) == page.count("href=")
    assert set(links) > {f"{crawl[0].url}/first"}
    assert all(link.startswith(f"{crawl[0].url}/") for link in links)


ESCAPED = "https://a.test/?b=1&amp;c=&#39;&#34;"
SHOWN = {
    "https://a.test/?b=1&c='\"": f'<a href="{ESCAPED}" rel="noreferrer noopener">{ESCAPED}</a>',
    "javascript:alert(1)": "javascript:alert(1)",
    "<script>alert(1)</script>": "&lt;script&gt;alert(1)&lt;/script&gt;",
}


def test_only_addresses_of_the_web_become_links():
    """Whatever else a document key is, it is text: as a heading, as a line, and in a table."""
    for address, shown in SHOWN.items():
        parts = [
            ListEntry(address, "", is_heading=True),
            ListEntry(address, ""),
            TablePart(("a", "b"), [(Link(address), "text")]),
        ]
        page = html_page(ReportPage(address, parts))
        for begin, end in (("<h3>", "</h3>"), ('<p class="pair">', "</p>"), ("<td>", "</td>")):
            assert f"{begin}{shown}{end}" in page
        assert "<script" not in page


def rows(html: str) -> list[tuple[bool, int]]:
    """Return of each row whether it is a part of the one above, and its number."""
    found = re.findall(r'<tr><td( class="part")?>[^<]*</td><td class="number">([\d,]+)', html)
    return [(bool(part), int(number.replace(",", ""))) for part, number in found]


def test_the_sums_add_up(crawl):
    """The parts of a row add up to it: responses to pages or none, and these to what became of them."""
    funnels = [crawl[1].partition("From request to item")[2].partition("</section>")[0]]
    counts = {"probed": 100, "unique": 60, "near_duplicate": 20, "refetch": 5, "inserted": 70}
    counts |= {"checked": 7, "exempt/short": 3, "exempt/data_page": 1, "exempt/non_html": 9}
    made_up = shown(*crawl_report(Crawl("drop", stats=counts, responses=130)).parts)
    funnels.append(made_up.partition("From request to item")[2].partition("</section>")[0])
    for html in funnels:
        of, sums = [], []
        for part, number in rows(html):
            if not part:
                of.append(number)
                sums.append([])
            else:
                sums[-1].append(number)
        added = [(whole, sum(parts)) for whole, parts in zip(of, sums, strict=True) if parts]
        assert added
        assert all(whole == parts for whole, parts in added), added


def test_the_secret_stays_one(crawl):
    """The settings in force are listed; the secret is said to be set, and not shown."""
    page = unescape(crawl[1])
    assert "hush" not in page
    assert "<code>DEDUP_SECRET</code></td><td>set</td>" in page
    assert "<code>DEDUP_MODE</code></td><td>drop</td>" in page
    assert "<code>DEDUP_DISTANCE</code></td><td>8 (the recipe's)</td>" in page


def test_a_report_for_programs(tmp_path):
    """A report whose name ends in .json holds the stats, the groups with differences, the settings, and what became of
    each page.
    """
    report = tmp_path / "r.json"
    settings = {"DEDUP_REPORT": str(report), "DEDUP_SECRET": "hush hush"}
    crawl = run_case(tmp_path, Case(PAGES, TITLES, settings))
    found = json.loads(report.read_text())
    copies = crawl.stat("near_duplicate")
    assert found["stats"]["dedup/near_duplicate"] == copies
    (group,) = found["near_duplicates"]
    assert (group["of"], group["pages"]) == (f"{crawl.url}/first", copies)
    for example in group["examples"]:
        assert example["similarity"] >= group["least_similarity"]
        assert example["distance"] <= 8
    assert group["examples"][0]["differences"][0]["of"] == "one"
    assert found["hosts"][0]["near_duplicates"] == copies
    assert found["patterns"][0]["dropped"] == copies
    assert found["settings"]["DEDUP_SECRET"] == "set"
    assert "hush" not in report.read_text()
    assert found["pages"][f"{crawl.url}/first"] == "unique"
    assert found["pages"][f"{crawl.url}/short"] == "short"
    said = found["pages"][f"{crawl.url}/first?copy=0"]
    assert said == f"checked against {crawl.url}/first: nothing new; withheld: 1 item"


def test_a_report_says_why_all_of_a_checked_page_passed(tmp_path):
    """It yielded more than is held back, or asked for something."""
    report = tmp_path / "r.json"
    pages = {f"/{name}": article(1, frame=name) for name in ("first", "many", "asks")}
    body = """
def parse(self, response):
    yield {"title": response.css("title::text").get()}
    if "/many" in response.url:
        yield from ({"row": n} for n in range(1001))
    if "/asks" in response.url:
        yield response.follow("/login", self.parse, dont_filter=True)
    yield from self.links(response)
"""
    settings = {"DEDUP_REPORT": str(report), "CONCURRENT_REQUESTS": 1}
    crawl = run_case(tmp_path, Case({"/": hub(*pages)} | pages, body, settings))
    said = {at: json.loads(report.read_text())["pages"][crawl.url + at] for at in pages}
    against = f"checked against {crawl.url}/first: "
    assert said == {
        "/first": "unique",
        "/many": f"{against}over 1,000 objects, all pass",
        "/asks": f"{against}no content: dont_filter, a form, or a URL that was redirected to it",
    }


@pytest.mark.parametrize(
    ("stats", "advised"),
    [
        ({"unique": 10}, "Nothing stands out."),
        ({"unique": 10, "error/fault": 1}, "See the warnings above."),
        ({"unique": 50, "exempt/in_flight": 1}, "a longer DEDUP_WAIT_SECONDS"),
        ({"unique": 5, "checked": 5, "items/equal": 4}, "4 of 5 checked pages gave nothing new"),
    ],
)
def test_advice(stats, advised):
    """A reason that keeps many pages for nothing is said, in one line; a warning is not contradicted."""
    made = json.loads(json_report(Crawl("drop", stats=stats, end_time=datetime.now(UTC))))
    (line,) = made["advice"]
    assert advised in line


def test_the_riskiest_groups_come_first():
    """Groups are ordered by the least similarity of their copies, not by their size."""
    journal = Journal("drop", None, words_of)
    for key, similarities in (("a", (0.99, 0.98, 1.0)), ("b", (1.0, 0.89)), ("c", (0.95,))):
        judge(journal, of := f"http://a.test/{key}", None, b"<p>word")
        for number, similarity in enumerate(similarities):
            judge(journal, f"{of}/{number}", of, b"<p>word", similarity)
    page = html_page(crawl_report(journal.crawl))
    assert re.findall(r"<h3><a [^>]*>http://a.test/(.)<", page) == ["b", "c", "a"]


def test_modes_faults_and_asynchronous_callbacks(tmp_path):
    """In tag mode it says what dropping would do; a callback may be asynchronous; a report that cannot be written is
    a fault that is counted, and nothing else.
    """
    later = TITLES.replace("def parse", "async def parse").replace(
        "yield from self.links(response)", "for each in self.links(response): yield each"
    )
    (tmp_path / "file").touch()
    cases = {
        "tag": Case(PAGES, TITLES, {"DEDUP_MODE": "tag", "DEDUP_REPORT": str(tmp_path / "t.html")}),
        "slow": Case(PAGES, later, {"DEDUP_REPORT": str(tmp_path / "s.html")}),
        "nowhere": Case(PAGES, TITLES, {"DEDUP_REPORT": str(tmp_path / "file" / "r.html")}),
    }
    crawls = run_cases(tmp_path, cases)
    tagged, tag, drop = (tmp_path / "t.html").read_text(), crawls["tag"], crawls["nowhere"]
    assert "would have done</h2>" in tagged and "What dedup did" not in tagged
    assert fact(tagged, "copies") == f"{drop.stat('near_duplicate')}"
    assert len(tag.parsed) == len(PAGES)  # it changes nothing
    for stat in ("near_duplicate", "checked", "items/withheld", "items/equal"):
        assert tag.stat(stat) == drop.stat(stat), stat
    slow = (tmp_path / "s.html").read_text()
    assert fact(slow, "copies") == fact(tagged, "copies")
    assert drop.faults == {"file_exists_error": 1}
    assert drop.parsed == crawls["slow"].parsed
    assert not list(tmp_path.glob(".*.tmp"))


# ---------------------------------------------------------------------------------- the journal


def judge(journal: Journal, key: str, of: str | None, body: bytes, similarity: float = 1.0) -> None:
    page = fingerprint(body)
    status = "unique" if of is None else "near_duplicate"
    alike = (None, None, None) if of is None else (0, similarity, "same")
    token = "token" if of is None else None
    verdict = verdict_on(status, "", key, of, *alike, page, token)
    journal.judged(JudgedPage(verdict, key, body, "utf-8", recipe_of(None), "parse"))


def test_the_journal_is_bounded(monkeypatch):
    """Whatever is crawled: so many groups, hosts, examples, texts, pages and bytes of bodies, no more."""
    bounds = {"GROUPS": 5, "HOSTS": 4, "TEXTS": 3, "SAMPLE_BYTES": 1000, "PAGES": 6}
    for name, most in bounds.items():
        monkeypatch.setattr(journals, name, most)
    journal = Journal("drop", None, words_of)
    for n in range(20):
        judge(journal, f"http://host{n}.test/", None, b"<p>" + b"word " * 100)
        for copy in range(5):
            judge(journal, f"http://host{n}.test/{copy}", f"http://host{n}.test/", b"<p>word")
    crawl = journal.crawl
    groups = crawl.near_duplicates.values()
    assert len(groups) == 5
    assert set(crawl.hosts) == {"(others)", *(f"host{n}.test" for n in range(4))}
    assert sum(host.judged for host in crawl.hosts.values()) == 120
    assert sum(host.near_duplicates for host in crawl.hosts.values()) == 100
    examples = [example for group in groups for example in group.examples]
    assert len(examples) == 5 * journals.EXAMPLES
    assert sum(example.texts is not None for example in examples) == 3
    assert [*crawl.pages] == [f"http://host{n}.test/" for n in range(6)]
    assert sum(map(len, journal._bodies.values())) <= 1000


def test_figures_are_the_difference_to_the_crawl_without_dedup(tmp_path):
    """Pages that are not parsed, items and requests that are withheld: what the crawl without it made, and this one did not."""
    pages = {f"/{n}": article(n, "/shared") for n in range(5)} | {"/shared": article(9)}
    pages |= {f"/{n}?ref={k}": article(n, "/shared", f"/{n}") for n in range(5) for k in range(8)}
    pages = {"/": hub(*pages)} | pages
    report = tmp_path / "report.json"
    cases = {
        "without": Case(pages, TITLES, {"DEDUP_ENABLED": False}),
        "with": Case(pages, TITLES, {"DEDUP_REPORT": str(report)}),
    }
    crawls = run_cases(tmp_path, cases)
    before, after = crawls["without"], crawls["with"]
    found = json.loads(report.read_text())["stats"]
    dropped = found["dedup/near_duplicate"]
    assert dropped and dropped == len(before.parsed) - len(after.parsed)
    items = before.stats["item_scraped_count"] - after.stats["item_scraped_count"]
    assert (
        found["dedup/items/withheld"] == items - dropped
    )  # those of dropped pages were never made
    requests = before.stats["downloader/request_count"] - after.stats["downloader/request_count"]
    assert found.get("dedup/requests/withheld", 0) == requests == 0


def test_what_a_reader_stumbles_over():
    """Code in a sentence is code, paths are plain, a host has a name, and copies with the same text are one row."""
    crawl = Crawl("drop", settings={"DEDUP_PATH": "/home/../data/store", "DEDUP_REPORT": "r.html"})
    crawl.dropped_file = "/home/one/../dropped.jsonl"
    crawl.noisy_fields = {"views": 40}
    crawl.hosts = {"": journals.Host(3, 1)}
    crawl.near_duplicates = {
        f"http://a.test/{n}": journals.CopyGroup(
            2, 1.0, [journals.CopyExample(f"http://a.test/{n}?p=1", 0, 1.0)]
        )
        for n in range(300)
    }
    page = html_page(crawl_report(crawl))
    assert "`" not in page.partition("</style>")[2]
    assert "<code>views</code> alone" in page
    assert "/../" not in page
    assert "<td>(no host)</td>" in page
    assert "300 pages with 600 copies whose main text is the same." in page
    assert "http://a.test/7" not in page


PRICES = TITLES.replace("[:20]}", '[:20], "price": response.css("b::text").get()}')


def test_a_checked_page_says_why_it_was_kept(tmp_path):
    """The field that differs from its match's; and it is a match whose text is at hand when a copy of it is dropped."""
    price = {f"/{n}": article(1, text=f"{words(1)} <b>{n}</b>") for n in (7, 8)}
    copies = {f"/{n}?ref={k}": price[f"/{n}"] for n in (7, 8) for k in range(20)}
    pages = {"/": hub("/7", "/8", *copies), **price, **copies}
    report, drops = tmp_path / "r.json", tmp_path / "drops.jsonl"
    settings = {"DEDUP_REPORT": str(report), "DEDUP_DROPPED": str(drops)}
    crawl = run_case(tmp_path, Case(pages, PRICES, settings))
    found = json.loads(report.read_text())["pages"]
    assert found[f"{crawl.url}/8"] == f"checked against {crawl.url}/7: `price` differs"
    lines = [json.loads(line) for line in drops.read_text().splitlines()]
    assert {line["of"] for line in lines} == {f"{crawl.url}/7", f"{crawl.url}/8"}
    assert None not in [line["differs"] for line in lines]
