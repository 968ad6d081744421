"""What a person reads of a crawl: the summary in the log, DEDUP_DROPPED, and the report.

    page/judge.py, page/checked.py -> Report -> journal.py: examples, DEDUP_DROPPED
                                             -> summary.py: the log
                                             -> dedup/report/crawl.py: DEDUP_REPORT

Invariant: what nobody asked for costs nothing: without DEDUP_REPORT and DEDUP_DROPPED only copies are counted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy.http import Response
from scrapy.settings import BaseSettings

from dedup.core.files import replace_file
from dedup.model.page import Verdict
from dedup.model.policy import SETTINGS
from dedup.model.recipes import Recipe, recipe_of
from dedup.scrapy.evidence.difference import in_words
from dedup.scrapy.guard import Counts, guarded, logger
from dedup.scrapy.memory.state import Job
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.page.space import Space
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.report.crawl import Crawl
    from dedup.scrapy.report.journal import Journal

DIFFERENCES = 1000  # of URLs that are counted
ORIGINALS = 10_000  # of copies that the text decided about, which are counted
REPEATED = 20  # near-duplicates of one page in a row, of which a warning says so
SWALLOWED = 50  # copies of one page by their text, of which a warning says so


class JudgedPage(NamedTuple):
    """A page that was judged; of_template is how much of it is the template of its site, in words."""

    verdict: Verdict
    response: Response
    recipe: Recipe
    callback: str
    of_template: str = ""


class Report:
    """Takes notes of a crawl while it runs, and writes them at its end; journal: what somebody asked for, or None."""

    def __init__(self, config: Config, counts: Counts, journal: "Journal | None") -> None:
        """Private: new_report() makes it."""
        self._counts, self.journal, self._config = counts, journal, config
        self._differences = Counter[str]()  # of copies
        self._by_text = Counter[str]()  # copies by original
        self._warnings: list[str] = []
        self._repeated = ("", 0)  # an original, and how many near-duplicates of it in a row

    def judged(self, judged: JudgedPage, page: Page | None = None) -> None:
        """Note a judged page; page is a near-duplicate."""
        verdict = judged.verdict
        if verdict.status == "near_duplicate" and page is not None and page.pattern is not None:
            found = page.pattern.difference
            if found in self._differences or len(self._differences) < DIFFERENCES:
                self._differences[found] += 1
            if page.by_text and verdict.of is not None:
                self._swallowed(verdict.of, judged.response.url)
        if self.journal is not None:
            self.journal.judged(judged, page)

    def brought_nothing(self, original: str, url: str) -> None:
        """Warn once of a page whose near-duplicates bring nothing new, many in a row: it may be asked for on purpose."""
        self._repeated = (original, self._repeated[1] + 1 if self._repeated[0] == original else 1)
        if self._repeated[1] == REPEATED:
            text = (
                f"{REPEATED} near-duplicates of {original} in a row gave nothing new, the last is {url}; if you fetch it "
                "repeatedly on purpose (a monitor), set dont_dedup in the meta of its requests"
            )
            self._warnings.append(text)
            logger.warning("[dedup] %s", text)

    def _swallowed(self, original: str, url: str) -> None:
        """Warn once of a page that has many copies by their text alone."""
        if original not in self._by_text and len(self._by_text) >= ORIGINALS:
            return
        self._by_text[original] += 1
        if self._by_text[original] == SWALLOWED:
            text = (
                f"{SWALLOWED} pages are copies of {original} by their text, the last is {url}; if they are no copies, "
                "`dedup compare` shows what two pages have in common, and dont_dedup in their meta keeps them"
            )
            self._warnings.append(text)
            logger.warning("[dedup] %s", text)

    def close(
        self, spaces: Iterable[Space], noisy: Iterable[tuple[str, int]], remembered: str
    ) -> None:
        """Log the summary, and write the report. noisy: fields that alone differ in many near-duplicates."""
        from dedup.report.crawl import Crawl, noisy_field
        from dedup.scrapy.report.summary import summary

        crawl = Crawl(self._config.mode) if self.journal is None else self.journal.crawl
        crawl.noisy_fields = dict(noisy)
        self._fill(crawl, spaces)
        for field, pages in crawl.noisy_fields.items():
            logger.info("[dedup] %s", noisy_field(field, pages))
        logger.info("%s", summary(crawl, remembered))
        if self.journal is not None:
            self.journal.close()
        if (path := self._config.report) is not None:
            with guarded(self._counts, f"there is no report in {path}"):
                self._write(path, crawl)

    def _fill(self, crawl: "Crawl", spaces: Iterable[Space]) -> None:
        """Add to what the journal knows of a crawl what is known at its end."""
        crawler = self._counts.crawler
        assert crawler.stats is not None
        assert crawler.spider is not None
        stats, crawl.spider = crawler.stats.get_stats(), crawler.spider.name
        crawl.stats = {n[6:]: value for n, value in stats.items() if n.startswith("dedup/")}
        crawl.start_time, crawl.end_time = stats.get("start_time"), datetime.now(UTC)
        crawl.requests = stats.get("downloader/request_count", 0)
        crawl.responses = stats.get("downloader/response_count", 0)
        crawl.items = stats.get("item_scraped_count", 0)
        crawl.settings = dict(_settings(crawler.settings, crawl.recipe))
        crawl.warnings, crawl.dropped_file = self._warnings, str(self._config.dropped or "")
        crawl.differences = _in_words(self._differences)
        for space in spaces:
            for budget, number in space.budget.waiting.most_common():
                crawl.waiting[f"{budget.callback} on {budget.site}"] = number
            for pattern, found in space.patterns.known.items():
                page, original, fields = found.example
                counts = {
                    n: getattr(found, n) for n in ("dropped", "same", "new", "again", "forgotten")
                }
                example = {"fields": fields, "page": page, "original": original}
                crawl.patterns.append(pattern._asdict() | {"name": str(pattern)} | counts | example)
        crawl.patterns.sort(key=lambda each: -each["dropped"] - each["new"])

    def _write(self, path: Path, crawl: "Crawl") -> None:
        """Write the report, as JSON if the name of its file ends so. Raises OSError."""
        from dedup.report.crawl import crawl_report, json_report

        if path.suffix.lower() == ".json":
            data = json_report(crawl)
        else:
            from dedup.report.html import html_page

            data = html_page(crawl_report(crawl)).encode("utf-8", "replace")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)


def new_report(config: Config, job: Job, counts: Counts) -> Report:
    """Return the report of a crawl that begins."""
    if config.report is None and config.dropped is None:
        return Report(config, counts, None)
    from dedup.report.drops import DropsFile
    from dedup.scrapy.report.journal import Journal

    drops, path = None, config.dropped
    if path is not None:
        said = f"{path} does not list the pages dropped from now on"
        drops = DropsFile(
            path, resumes=job.resumes, on_error=lambda error: counts.fault(error, said)
        )
    return Report(config, counts, Journal(config.mode, drops))


def _in_words(differences: "Counter[str]") -> dict[str, int]:
    """Return numbers by how URLs differ, for people, the most frequent first."""
    found = Counter[str]()
    for each, n in differences.items():
        found[in_words(each)] += n
    return dict(found.most_common())


def _settings(settings: BaseSettings, recipe: str) -> Iterator[tuple[str, str]]:
    """Yield all settings as texts, without secrets and tokens."""
    usual = recipe_of(recipe or None)
    for name, setting in SETTINGS.items():
        value = settings.get(setting.key, setting.default)
        if value is None and hasattr(usual, name):
            value = f"{getattr(usual, name)} (the recipe's)"
        shown = "set" if name == "secret" and value else str(value or "none")
        yield setting.key, re.sub("//[^/@]*@", "//", shown)
