"""What a person reads of a crawl: the summary in the log, DEDUP_DROPPED, and the report.

    page/judge.py, page/output.py -> Report -> journal.py: examples, DEDUP_DROPPED
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

from scrapy.settings import BaseSettings

from dedup.core.files import replace_file
from dedup.model.page import Verdict
from dedup.model.policy import SETTINGS
from dedup.model.recipes import Recipe, recipe_of
from dedup.scrapy.evidence.difference import in_words
from dedup.scrapy.guard import Counts, logger
from dedup.scrapy.memory.state import Job
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from scrapy.http import Response

    from dedup.report.crawl import Crawl
    from dedup.scrapy.page.in_flight import Page
    from dedup.scrapy.page.session import Session, Space
    from dedup.scrapy.report.journal import Journal

SHAPES = 1000  # of URL differences that are counted
ORIGINALS = 10_000  # of copies that the text decided about, which are counted
MANY = 50  # copies of one page by their text, of which a warning says so


class Seen(NamedTuple):
    """A page that was judged."""

    verdict: Verdict
    response: "Response"
    recipe: Recipe
    callback: str
    told: str = ""  # how much of it its site's memory knows


class Report:
    """Takes notes of a crawl while it runs, and writes them at its end; journal: what somebody asked for, or None."""

    def __init__(self, config: Config, counts: Counts, journal: "Journal | None") -> None:
        """Private: new_report() makes it."""
        self._counts, self.journal = counts, journal
        self._mode = config.mode
        self._shapes = Counter[str]()  # of copies
        self._by_text = Counter[str]()  # copies by original
        self._warnings: list[str] = []

    def judged(
        self,
        space: "Space",
        verdict: Verdict,
        response: "Response",
        callback: str,
        page: "Page | None" = None,
        told: str = "",
    ) -> None:
        """Note a judged page; page is one that looks like an accepted page, told what its site's memory knows of it."""
        if verdict.status == "near_duplicate" and page is not None and page.name is not None:
            shape = page.name.shape
            if shape in self._shapes or len(self._shapes) < SHAPES:
                self._shapes[shape] += 1
            if page.by_text and verdict.of is not None:
                self._swallowed(verdict.of, response.url)
        if self.journal is not None:
            self.journal.judged(Seen(verdict, response, space.recipe, callback, told), page)

    def _swallowed(self, original: str, url: str) -> None:
        """Warn once of a page that has many copies by their text alone."""
        if original not in self._by_text and len(self._by_text) >= ORIGINALS:
            return
        self._by_text[original] += 1
        if self._by_text[original] == MANY:
            text = (
                f"{MANY} pages are copies of {original} by their text, the last is {url}; if they are none: "
                "`dedup compare` shows what two pages have in common, dont_dedup in their meta keeps them"
            )
            self._warnings.append(text)
            logger.warning("[dedup] %s", text)

    def volatile(self, callback: str, key: str, names: Iterable[str]) -> None:
        """Log what a control visit found."""
        logger.info(
            "[dedup] %s: two visits of %s differ in %s, which does not count from now on",
            callback,
            key,
            ", ".join(names) or "what has no name",
        )

    def close(self, session: "Session", remembered: str) -> None:
        """Log the summary, and write the report."""
        from dedup.report.crawl import Crawl
        from dedup.scrapy.report.summary import summary

        crawl = Crawl(self._mode) if self.journal is None else self.journal.crawl
        self._fill(crawl, session)
        logger.info("%s", summary(crawl, remembered))
        if self.journal is not None:
            self.journal.close()
        path = session.config.report
        if path is not None:
            with self._counts.guard(f"there is no report in {path}"):
                self._write(path, crawl)

    def _fill(self, crawl: "Crawl", session: "Session") -> None:
        """Add to what the journal knows of a crawl what is known at its end."""
        crawler, spaces = self._counts.crawler, session.spaces.values()
        assert crawler.stats is not None
        assert crawler.spider is not None
        stats, crawl.spider = crawler.stats.get_stats(), crawler.spider.name
        crawl.stats = {n[6:]: value for n, value in stats.items() if n.startswith("dedup/")}
        crawl.start_time, crawl.end_time = stats.get("start_time"), datetime.now(UTC)
        crawl.requests = stats.get("downloader/request_count", 0)
        crawl.responses = stats.get("downloader/response_count", 0)
        crawl.items = stats.get("item_scraped_count", 0)
        crawl.settings = dict(_settings(crawler.settings, crawl.recipe))
        crawl.warnings, crawl.dropped_file = self._warnings, str(session.config.dropped or "")
        crawl.differences = _in_words(self._shapes)
        waiting = Counter[str]()
        for space in spaces:
            waiting.update({of.shape: n for of, n in space.ledger.closed.items()})
            crawl.url_rules += [rule._asdict() for rule in space.urls.rules()]
            for name, r in space.ledger.classes.items():
                page, original, fields = r.examples[-1] if r.examples else ("", "", ())
                counts = {"dropped": r.dropped, "same": r.same, "new": r.new, "again": r.again}
                example = {"fields": fields, "page": page, "original": original}
                crawl.classes.append({"name": str(name), **counts, **example})
        crawl.classes.sort(key=lambda each: -each["dropped"] - each["new"])
        crawl.waiting = _in_words(waiting)

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


def _in_words(shapes: "Counter[str]") -> dict[str, int]:
    """Return numbers by how URLs differ, for people, the most frequent first."""
    found = Counter[str]()
    for shape, n in shapes.items():
        found[in_words(shape)] += n
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
