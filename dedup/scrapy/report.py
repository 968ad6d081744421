"""What a person reads of a crawl: the summary in the log, DEDUP_DROPPED, and the report.

    page/judge.py, page/output.py  -> Report -> dedup/report/journal.py: examples, DEDUP_DROPPED
                                             -> dedup/report/notes.py, summary.py: the log
                                             -> dedup/report/crawl.py: DEDUP_REPORT

Invariant: what nobody asked for costs nothing: without DEDUP_REPORT and DEDUP_DROPPED only copies are counted.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import Response, TextResponse
from scrapy.settings import BaseSettings

from dedup.core.files import replace_file
from dedup.core.fingerprint import main_words
from dedup.model.page import Verdict
from dedup.model.policy import SETTINGS
from dedup.model.recipes import Recipe, recipe_of
from dedup.report.notes import Notes
from dedup.scrapy.evidence.link_budget import Budget
from dedup.scrapy.guard import Counts, guarded, logger
from dedup.scrapy.memory import Space
from dedup.scrapy.memory.state import Job
from dedup.scrapy.page.in_flight import Page
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.report.crawl import Crawl
    from dedup.report.journal import Journal, JudgedPage


class Report:
    """Takes notes of a crawl while it runs, and writes them at its end; journal: what somebody asked for, or None."""

    def __init__(self, config: Config, job: Job, counts: Counts) -> None:
        """Begin with nothing."""
        self._counts, self._config, self.notes = counts, config, Notes()
        self.journal = _journal(config, job, counts)

    def judged(
        self,
        page: Page | None,
        verdict: Verdict,
        response: Response,
        recipe: Recipe,
        called: str,
        template: str,
    ) -> None:
        """Note a page that its callback, called, gets, unless it is dropped. page: a near-duplicate."""
        is_copy = verdict.status == "near_duplicate" and page is not None
        if is_copy and page is not None and page.pattern is not None:
            self.notes.dropped(page.pattern.difference)
            if page.by_text:
                self.notes.dropped_by_text(verdict.of or "", response.url)
        if self.journal is not None:
            judged = _judged(verdict, response, recipe, called)
            rule = "" if page is None else "text" if page.by_text else f"items: {page.pattern}"
            self.journal.judged(judged._replace(rule=rule, of_template=template))

    def checked(self, page: Page, response: Response, items: int, requests: int, gave: str) -> None:
        """Note a checked page: how many items and requests are withheld of it, and what it gave."""
        if self.journal is not None:
            judged = _judged(page.verdict, response, page.space.recipe, page.callback)
            self.journal.checked(judged, items, requests, gave)

    def not_requested(self, request: Request, callback: str, *, reason: str, rule: str) -> None:
        """List a request that is not made."""
        if self.journal is not None:
            page = (request.headers.get("Referer") or b"").decode("latin-1")
            self.journal.not_requested(request.url, page, callback, reason=reason, rule=rule)

    def waits(self, request: Request, budget: Budget) -> None:
        """List a request that waits for a link budget, and is not made."""
        self.not_requested(request, budget.callback, reason="link_budget", rule=str(budget))

    def close(
        self,
        spaces: Iterable[Space],
        noisy: Iterable[tuple[str, int]],
        remembered: str,
        *,
        resumes: bool,
    ) -> None:
        """Log the summary, and write the report.

        noisy: fields that alone differ in many near-duplicates. resumes: whether another run sends the requests that wait.
        """
        from dedup.report.crawl import Crawl, noisy_field
        from dedup.report.summary import summary

        crawl = Crawl(self._config.mode) if self.journal is None else self.journal.crawl
        spaces, crawl.noisy_fields = [*spaces], dict(noisy)
        self._fill(crawl, spaces)
        for field, pages in crawl.noisy_fields.items():
            logger.info("[dedup] %s", noisy_field(field, pages))
        logger.info("%s", summary(crawl, remembered))
        if self.journal is not None:
            for space in () if resumes else spaces:
                for budget, request in space.budget.held():
                    self.waits(request, budget)
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
        crawl.warnings, crawl.dropped_file = self.notes.warnings, str(self._config.dropped or "")
        crawl.differences = self.notes.differences()
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


def _journal(config: Config, job: Job, counts: Counts) -> "Journal | None":
    if config.report is None and config.dropped is None:
        return None
    from dedup.report.drops import DropsFile
    from dedup.report.journal import Journal

    drops, path = None, config.dropped
    if path is not None:
        lost = f"{path} does not list the pages dropped from now on"
        fails = partial(counts.fault, consequence=lost)
        drops = DropsFile(path, resumes=job.resumes, on_error=fails)
    return Journal(config.mode, drops, words_of)


def _judged(verdict: Verdict, response: Response, recipe: Recipe, called: str) -> "JudgedPage":
    from dedup.report.journal import JudgedPage

    encoding = response.encoding if isinstance(response, TextResponse) else None
    return JudgedPage(verdict, response.url, response.body, encoding, recipe, called)


def words_of(body: bytes, encoding: str | None, recipe: Recipe) -> Iterator[str]:
    """Yield the words of a page's main text."""
    for block in main_words(body, encoding=encoding, recipe=recipe):
        yield from block.tokens


def _settings(settings: BaseSettings, recipe: str) -> Iterator[tuple[str, str]]:
    """Yield all settings as texts, without secrets and tokens."""
    usual = recipe_of(recipe or None)
    for name, setting in SETTINGS.items():
        value = settings.get(setting.key, setting.default)
        if value is None and hasattr(usual, name):
            value = f"{getattr(usual, name)} (the recipe's)"
        shown = "set" if name == "secret" and value else str(value or "none")
        yield setting.key, re.sub("//[^/@]*@", "//", shown)
