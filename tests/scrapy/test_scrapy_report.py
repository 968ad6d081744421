"""DEDUP_REPORT in real crawls: the page says what happened, with numbers that are those of the stats."""

import json
import re
from html import unescape
from types import SimpleNamespace

import msgspec
import pytest
from crawling import Case, article, hub, run_case, run_cases, words
from detecting import verdict_on
from scrapy.settings import Settings

from dedup.core.fingerprint import fingerprint
from dedup.model.recipes import recipe_of
from dedup.report.html import html_page
from dedup.report.parts import Entry, Link, Report, Table
from dedup.scrapy import journal as journals
from dedup.scrapy.crawl_report import _advice, _funnel, _groups, what_if
from dedup.scrapy.report.journal import Journal
from dedup.scrapy.settings import Config

EVIL = "<script>alert(1)</script>"
COPIES = 30
PAGES = {
    "/": hub("/first", *(f"/copy/{n}" for n in range(COPIES)), "/other", "/short"),
    "/first": article(1, "/behind", text=f"{words(1)} closing word one"),
    **{
        f"/copy/{n}": article(1, "/behind", text=f"{words(1)} closing word &lt;script&gt;{n}")
        for n in range(COPIES)
    },
    "/other": article(2),
    "/short": article(3, count=5),
    "/behind": article(4),
}
SLOW = """
    def parse(self, response):
        sum(range(300_000))
        yield from super().parse(response)
"""
SLOW_ASYNC = """
    async def parse(self, response):
        import asyncio
        for found in super().parse(response):
            await asyncio.sleep(0)
            sum(range(100_000))
            yield found
"""


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    settings = {"DEDUP_REPORT": str(folder / "made" / "report.html"), "DEDUP_SECRET": "hush hush"}
    crawl = run_case(folder, Case(PAGES, SLOW, settings))
    assert not crawl.faults
    return crawl, (folder / "made" / "report.html").read_text()


def shown(*parts) -> str:
    return html_page(Report("", parts))


def fact(page: str, name: str) -> str:
    (found,) = re.findall(rf"<dt>{name}</dt><dd>([^<]*)</dd>", page)
    return found


def test_the_figures_are_those_of_the_stats(crawl):
    """What was judged, dropped, unique and remembered is what the stats say."""
    crawl, page = crawl
    assert fact(page, "judged") == f"{crawl.stat('probed')}"
    assert fact(page, "near-duplicates") == f"{crawl.stat('near_duplicate')}" == f"{COPIES}"
    assert fact(page, "unique") == f"{crawl.stat('unique')}"
    assert fact(page, "remembered") == f"{crawl.stat('inserted')}"
    assert fact(page, "pages not parsed") == f"{COPIES}"
    short = re.search(r"\(short\)</td><td class=\"number\">(\d+)", page)
    assert short[1] == f"{crawl.stat('exempt/short')}"


def test_the_group_is_shown_with_its_differences(crawl):
    """The original is named, with examples of its copies, how alike they are, and what differs."""
    crawl, page = crawl
    assert f"{crawl.url}/first</a></h3><p>{COPIES} near-duplicates, among them" in page
    assert re.search(rf"{crawl.url}/copy/0</a> \(\d+ % similar, \d bits? apart\)", page)
    assert "<summary>where the texts differ: 1 place</summary>" in page
    summaries = re.findall(r"<summary>(.*?)</summary>", page, re.DOTALL)
    assert summaries
    assert not any("<a " in summary for summary in summaries)  # a click does one thing
    assert "<b>A</b> the page that was kept" in page
    assert "<del>one</del>" in page


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


def test_only_addresses_of_the_web_become_links():
    """Whatever else a document key is, it is text: as a heading, as a line, and in a table."""
    escaped = "https://a.test/?b=1&amp;c=&#39;&#34;"
    for address, shown in (
        (
            "https://a.test/?b=1&c='\"",
            f'<a href="{escaped}" rel="noreferrer noopener">{escaped}</a>',
        ),
        ("javascript:alert(1)", "javascript:alert(1)"),
        (EVIL, "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ):
        parts = [
            Entry(address, "", is_heading=True),
            Entry(address, ""),
            Table(("a", "b"), [(Link(address), "text")]),
        ]
        page = html_page(Report(address, parts))
        for begin, end in (("<h3>", "</h3>"), ('<p class="pair">', "</p>"), ("<td>", "</td>")):
            assert f"{begin}{shown}{end}" in page
        assert "<script" not in page


def rows(html: str) -> list[tuple[bool, int]]:
    """Return of each row whether it is a part of the one above, and its number."""
    found = re.findall(r'<tr><td( class="part")?>[^<]*</td><td class="number">([\d,]+)', html)
    return [(bool(part), int(number.replace(",", ""))) for part, number in found]


def test_the_time_of_the_crawl_is_said(crawl):
    """From its start to the report."""
    assert re.search(
        r"<footer><p>.*, (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) to \d{4}-.* UTC</p>", crawl[1]
    )


def test_the_sums_add_up(crawl):
    """The parts of a row add up to it: responses to what was judged or not, and that to verdicts."""
    funnels = [crawl[1].partition("From request to item")[2].partition("</section>")[0]]
    counts = {"probed": 100, "unique": 60, "near_duplicate": 20, "refetch": 5, "inserted": 70}
    counts |= {"exempt/other_title": 7, "exempt/short": 3, "exempt/data_page": 1}
    counts |= {"exempt/non_html": 9, "exempt/status": 2, "exempt/no_callback": 1}
    funnels.append(shown(_funnel({"downloader/response_count": 130}, counts)))
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
    assert fact(crawl[1], "judged and exempt") == "2"  # the start request, and the short page


def test_what_if_the_distance_were_another(crawl):
    """How many would be found at each: at a smaller one fewer, at a larger one kept pages, too."""
    section = crawl[1].partition("What if: other distances")[2].partition("</section>")[0]
    assert f'8 bits, in force</td><td class="number">0</td><td class="number">{COPIES}' in section
    policy = Config.from_settings(Settings()).options.policy(recipe_of())
    page = fingerprint(f"<p>{words(1)}".encode())
    values = (0, 0x3FF, 0xFFFFF00000000000)  # ten bits apart, and far away
    kept = [
        verdict_on(
            "unique", "", f"http://a/{i}", None, None, None, None,
            msgspec.structs.replace(page, value=value), "token", "a",
        )
        for i, value in enumerate(values)
    ]  # fmt: skip
    counts = {"probed": 50, "near_duplicate/distance/0": 10, "near_duplicate/distance/3": 5}
    table = shown(*what_if(counts, kept, policy, guard=False, whole=True)).partition("<tbody>")[2]
    found = [
        tuple(map(unescape, re.findall(r"<td[^>]*>([^<]*)</td>", row)))
        for row in table.partition("</tbody>")[0].splitlines()
    ]
    assert [row[0] for row in found] == [
        f"{n} bit{'s' * (n != 1)}{', in force' * (n == 8)}" for n in range(13)
    ]
    assert found[0] == ("0 bits", "10", "10", "20.0 %", "-5")
    assert found[8] == ("8 bits, in force", "0", "15", "30.0 %", "0")
    assert found[10] == ("10 bits", "1", "16", "32.0 %", "+1")
    assert found[12][2] == "16"
    alone = shown(*what_if({"probed": 3}, kept, policy, guard=False, whole=False))
    assert "10 bits: 1 near-duplicate" in alone and "the first 3 are compared" in alone
    assert not list(what_if({"probed": 3}, kept[:1], policy, guard=False, whole=True))


def test_a_host_of_copies_is_warned_about(crawl):
    """A host with over 60 % near-duplicates is named in a warning."""
    assert re.search(r'class="warning"[^>]*>Over 60% of the pages of 127\.0\.0\.1', crawl[1])


def test_the_secret_stays_one(crawl):
    """The settings in force are listed; the secret is said to be set, and not shown."""
    page = unescape(crawl[1])
    assert "hush" not in page
    assert "<code>DEDUP_SECRET</code></td><td>set</td>" in page
    assert "<code>DEDUP_MODE</code></td><td>drop</td>" in page
    assert "<code>DEDUP_DISTANCE</code></td><td>8 (the recipe's)</td>" in page
    assert "<code>DEDUP_KAFKA</code></td><td>none</td>" in page


def test_callback_time(crawl):
    """Saved CPU time is the mean of the callbacks that ran, for each page that was not parsed."""
    assert float(fact(crawl[1], "seconds of callbacks saved")) > 0


def test_a_report_for_programs(tmp_path):
    """A report whose name ends in .json holds the stats, the groups with differences, and the settings."""
    report = tmp_path / "r.json"
    crawl = run_case(
        tmp_path, Case(PAGES, settings={"DEDUP_REPORT": str(report), "DEDUP_SECRET": "hush hush"})
    )
    found = json.loads(report.read_text())
    assert found["stats"]["dedup/near_duplicate"] == crawl.stat("near_duplicate") == COPIES
    (group,) = found["near_duplicates"]
    assert (group["of"], group["pages"]) == (f"{crawl.url}/first", COPIES)
    for example in group["examples"]:
        assert example["similarity"] >= group["least_similarity"]
        assert example["distance"] <= 8
    assert group["examples"][0]["differences"][0]["of"] == "one"
    assert found["hosts"][0]["near_duplicates"] == COPIES
    assert found["settings"]["DEDUP_MODE"] == "drop"
    assert "hush" not in report.read_text()


def test_advice_does_not_contradict_a_warning():
    """With a warning the report does not end with "Nothing stands out."."""
    config, journal = Config.from_settings(Settings()), Journal(recipe_of())
    assert _advice({}, config, journal, ()) == ["Nothing stands out."]
    for counts, warnings in (({}, ("20 pages are near-duplicates",)), ({"error/fault": 1}, ())):
        assert _advice(counts, config, journal, warnings) == ["See the warnings above."]


def test_the_riskiest_groups_come_first():
    """Groups are ordered by the least similarity of their near-duplicates, not by their size."""
    journal = Journal()
    for key, similarities in (("a", (0.99, 0.98, 1.0)), ("b", (1.0, 0.89)), ("c", (0.95,))):
        judge(journal, f"http://a.test/{key}", None, b"<p>word")
        for number, similarity in enumerate(similarities):
            of = f"http://a.test/{key}"
            judge(journal, f"{of}/{number}", of, b"<p>word", similarity)
    page = shown(_groups(journal))
    assert re.findall(r"<h3><a [^>]*>http://a.test/(.)<", page) == ["b", "c", "a"]


@pytest.mark.long
def test_modes_faults_and_asynchronous_callbacks(tmp_path):
    """Of tagged pages it says what dropping them would save; an asynchronous callback is timed; a report that cannot be
    written is a fault that is counted, and nothing else.
    """
    (tmp_path / "file").touch()
    cases = {
        "tag": Case(
            PAGES, settings={"DEDUP_MODE": "tag", "DEDUP_REPORT": str(tmp_path / "t.html")}
        ),
        "slow": Case(PAGES, SLOW_ASYNC, {"DEDUP_REPORT": str(tmp_path / "s.html")}),
        "nowhere": Case(PAGES, settings={"DEDUP_REPORT": str(tmp_path / "file" / "r.html")}),
    }
    crawls = run_cases(tmp_path, cases)
    tagged = (tmp_path / "t.html").read_text()
    assert fact(tagged, "pages not parsed") == f"{COPIES}"
    assert "would have saved</h2>" in tagged and "What it saved" not in tagged
    assert fact(tagged, "near-duplicates") == f"{COPIES}"
    assert float(fact((tmp_path / "s.html").read_text(), "seconds of callbacks saved")) > 0
    assert crawls["nowhere"].faults == {"file_exists_error": 1}
    assert crawls["nowhere"].parsed == crawls["slow"].parsed
    assert not list(tmp_path.glob(".*.tmp"))


# ---------------------------------------------------------------------------------- the journal


def judge(journal: Journal, key: str, of: str | None, body: bytes, similarity: float = 1.0) -> None:
    page = fingerprint(body)
    status = "unique" if of is None else "near_duplicate"
    alike = (None, None, None) if of is None else (0, similarity, "same")
    token = "token" if of is None else None
    verdict = verdict_on(status, "", key, of, *alike, page, token)
    journal.judged(verdict, SimpleNamespace(url=key, body=body, encoding="utf-8"), recipe_of(None))


def test_the_journal_is_bounded(monkeypatch):
    """Whatever is crawled: so many groups, hosts, examples, texts and bytes of bodies, no more."""
    bounds = {"GROUPS": 5, "HOSTS": 4, "TEXTS": 3, "SAMPLE_BYTES": 1000, "KEPT": 6}
    for name, most in bounds.items():
        monkeypatch.setattr(journals, name, most)
    journal = Journal()
    for n in range(20):
        judge(journal, f"http://host{n}.test/", None, b"<p>" + b"word " * 100)
        for copy in range(5):
            judge(journal, f"http://host{n}.test/{copy}", f"http://host{n}.test/", b"<p>word")
    assert len(journal.groups) == 5
    assert set(journal.hosts) == {
        "host0.test",
        "host1.test",
        "host2.test",
        "host3.test",
        "(others)",
    }
    assert sum(host.judged for host in journal.hosts.values()) == 120
    assert sum(host.near_duplicates for host in journal.hosts.values()) == 100
    examples = [example for group in journal.groups.values() for example in group.examples]
    assert len(examples) == 5 * journals.EXAMPLES
    assert sum(example.texts is not None for example in examples) == 3
    assert [verdict.key for verdict in journal.kept] == [f"http://host{n}.test/" for n in range(6)]
    assert not journal.kept_all
    assert sum(map(len, journal._bodies.values())) <= 1000
