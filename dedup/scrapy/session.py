"""One crawl's deduplication: the middlewares share it, and it ends with the spider.

    judge (exempt, read, reserve, note) -> in flight -> end -> parsed -> commit

The rule kept here: a fault of ours never costs a page. Whatever fails is logged once, counted as
dedup/error/KIND for every page it touches, and the page goes on.

Pages whose callbacks ended well are inserted together, at most COMMIT_SECONDS later, and at once
when another page asks for one of them: a transaction for each would cost more than all the rest.
Until then they are in flight, so nothing is dropped for their sake, and a kill forgets them.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any
from weakref import WeakKeyDictionary, finalize

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.utils.reactor import is_asyncio_reactor_installed

from dedup.core.fingerprint import PageReading, read_page
from dedup.model.errors import StoreLocked
from dedup.model.names import namespace_of
from dedup.model.recipes import Recipe
from dedup.model.values import Verdict
from dedup.scrapy.counts import Counts, kind_of, logger
from dedup.scrapy.embedded import EmbeddedMemory
from dedup.scrapy.journal import Journal
from dedup.scrapy.memory import Memory, Pages
from dedup.scrapy.responses import exemption, explores, is_start, key_of
from dedup.scrapy.settings import Config
from dedup.scrapy.summary import summary

__all__ = ["Session"]

_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.1

COMMIT_SECONDS = 0.1  # how long a parsed page waits for others to be inserted with
COMMIT_PAGES = 16  # so many parsed pages are inserted at once

_sessions: "WeakKeyDictionary[Crawler, Session]" = WeakKeyDictionary()


class Session:
    """The memory of a crawl, the pages in flight, and the counts."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        """Private: Session.of() gives a crawler's session."""
        self.crawler = crawler
        self.config = config
        self.counts = Counts(crawler, self._soon)
        self.journal = None if config.report is None else Journal()
        self._memory: Memory | None = None
        self._pages: dict[str, Pages] = {}  # by namespace
        self._failed: dict[str, str] = {}  # namespace -> kind of error that keeps it shut
        self._in_flight: dict[str, tuple[Pages, Verdict]] = {}
        self._parsed: dict[Pages, list[Verdict]] = {}  # to be inserted by commit()
        self._timer: asyncio.TimerHandle | None = None  # which calls it
        self._namespace = config.namespace
        self._lost: deque[str] = deque()  # tokens whose requests nobody holds any more

    @classmethod
    def of(cls, crawler: Crawler) -> "Session":
        """Return the crawler's session, made at the first call. Raises NotConfigured."""
        session = _sessions.get(crawler)
        if session is None:
            if not _has_asyncio():
                raise NotConfigured(
                    "dedup waits for pages in flight on an asyncio loop; remove TWISTED_REACTOR, "
                    'or set it to "twisted.internet.asyncioreactor.AsyncioSelectorReactor"'
                )
            session = _sessions[crawler] = cls(crawler, Config.from_settings(crawler.settings))
        return session

    # ------------------------------------------------------------------ a page comes in

    async def judge(self, request: Request, response: Response) -> Verdict | None:
        """Judge a page and note the verdict in request.meta["dedup"]; None when it is not judged.

        Waits for a near-duplicate that is in flight, at most DEDUP_WAIT_SECONDS, and for a table
        service, at most DEDUP_TIMEOUT_SECONDS each time it is asked.
        """
        self.release_lost()
        meter, counts = self.counts.meter, self.counts
        with meter:
            reason = exemption(request, response, self.config)
            if reason is not None:
                counts.add(f"exempt/{reason}")
                request.meta["dedup"] = {"status": "exempt", "reason": reason}
                return None
            pages = self._pages_of(request)
            if pages is None:
                return None
            reading = self._read(pages.recipe, response)
            counts.add("probed")
            if "data_page" in self.config.exempt and reading.data_bytes > reading.text_bytes:
                counts.add("exempt/data_page")
                request.meta["dedup"] = {"status": "exempt", "reason": "data_page"}
                return None
            key = key_of(request)
            start = is_start(request) and "start" in self.config.exempt
            exempt = "start" if start else None
            verdict = await self._reserve(pages, reading, key, response, exempt)
            if verdict.of is None:  # as most pages are
                self._note(pages, request, response, verdict)
                return verdict
        if _parsed_anew(verdict.of):
            self._commit_all()  # what the original said before, it says no more
            with meter:
                verdict = await self._reserve(pages, reading, key, response, None)
        pause, waited = _FIRST_WAIT_SECONDS, 0.0
        while verdict.status == "pending":
            self._commit_all()
            with meter:
                verdict = await self._reserve(pages, reading, key, response, None)
            if verdict.status != "pending" or waited >= self.config.wait_seconds:
                break
            await asyncio.sleep(pause)
            waited += pause
            pause = min(2 * pause, _LONGEST_WAIT_SECONDS)
        with meter:
            if verdict.status == "pending":
                verdict = await self._reserve(pages, reading, key, response, "in_flight")
            self._note(pages, request, response, verdict)
        return verdict

    def _pages_of(self, request: Request) -> Pages | None:
        """Return the pages of the request's namespace, opened at its first one."""
        name = request.meta.get("dedup_namespace") or self._namespace
        if name is None:
            assert self.crawler.spider is not None
            name = self._namespace = namespace_of(self.crawler.spider.name)
        if name in self._failed:
            self.counts.add(f"error/{self._failed[name]}")
            return None
        pages = self._pages.get(name)
        if pages is None:
            try:
                pages = self._pages[name] = self._open(name)
            except Exception as error:
                self._failed[name] = kind = kind_of(error)
                self.counts.add(f"error/{kind}")
                logger.error(
                    "dedup is off for %r in this crawl, pages are kept: %s%s",
                    name,
                    error,
                    _advice(error),
                )
        return pages

    def _open(self, namespace: str) -> Pages:
        if self._memory is None:
            if self.config.service:
                from dedup.scrapy.remote import ServiceMemory

                self._memory = ServiceMemory(self.config, self.counts)
            else:
                self._memory = EmbeddedMemory(self.config, self.counts)
        return self._memory.open(namespace)

    def _read(self, recipe: Recipe, response: Response) -> PageReading:
        if isinstance(response, TextResponse) and response.encoding != "utf-8":
            # the text is decoded once, and the spider finds it decoded
            return read_page(response.text, url=response.url, recipe=recipe)
        return read_page(response.body, encoding="utf-8", url=response.url, recipe=recipe)

    def _reserve(
        self,
        pages: Pages,
        reading: PageReading,
        key: str,
        response: Response,
        exempt: str | None,
    ) -> Coroutine[Any, Any, Verdict]:
        return pages.reserve(
            reading.fingerprint,
            key,
            url=response.url,
            exempt=exempt,
            guard="new_links" in self.config.exempt,
        )

    def _note(self, pages: Pages, request: Request, response: Response, verdict: Verdict) -> None:
        if verdict.token is not None:
            self._in_flight[verdict.token] = (pages, verdict)
            finalize(request, self._lost.append, verdict.token).atexit = False
        request.meta["dedup"] = {
            "status": verdict.status,
            "reason": verdict.reason,
            "key": verdict.key,
            "of": verdict.of,
            "distance": verdict.distance,
            "check_distance": verdict.check_distance,
            "token": verdict.token,
        }
        if verdict.status == "exempt":
            self.counts.add(f"exempt/{verdict.reason}")
        else:
            self.counts.add(verdict.status)
        if verdict.status == "near_duplicate":
            self.counts.add(f"near_duplicate/distance/{verdict.distance}")
            if self.config.mode != "tag" and explores(verdict.key, self.config.explore):
                request.meta["dedup"]["explored"] = True
                self.counts.add("explored")
        if self.journal is not None:
            self.journal.judged(verdict, response, pages.recipe)

    # ---------------------------------------------------------------- a page is done with

    def end(self, token: str | None, *, accepted: bool) -> None:
        """Insert, soon, or release the page in flight with this token; later calls do nothing."""
        pages, verdict = self._in_flight.pop(token or "", (None, None))
        if pages is None or verdict is None:
            return
        if not accepted:
            pages.release(verdict)
            return
        parsed = self._parsed.setdefault(pages, [])
        parsed.append(verdict)
        if len(parsed) >= COMMIT_PAGES:
            self.commit()
        else:
            self._soon()

    def release_lost(self) -> None:
        """Release the pages that were discarded after us: nobody holds their requests any more."""
        while self._lost:
            self.end(self._lost.popleft(), accepted=False)

    def forget(self, request: Request) -> None:
        """Take back a page whose item failed: it may come again under any URL."""
        noted = request.meta.get("dedup")
        if not isinstance(noted, dict) or noted.get("token") is None:
            return
        if noted["token"] in self._in_flight:
            self.end(noted["token"], accepted=False)
            return
        self.commit()
        try:
            pages = self._pages_of(request)
        except Exception as error:
            self.counts.fault(error, f"{noted['key']} stays remembered although its item failed")
            return
        if pages is not None:
            pages.forget(noted["key"])

    def _soon(self) -> None:
        """See that commit() is called soon."""
        if self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the loop has ended, and the crawl with it
            self.commit()
        else:
            self._timer = loop.call_later(COMMIT_SECONDS, self.commit)

    def commit(self) -> None:
        """Insert the pages that were parsed since the last time, and bring the stats up to date."""
        parsed, self._parsed = self._parsed, {}
        for pages, verdicts in parsed.items():
            pages.insert(verdicts)
        self.counts.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @staticmethod
    def _commit_all() -> None:
        """Bring every crawl of the process up to date: their spiders may share their stores."""
        for session in list(_sessions.values()):
            session.commit()
            session.release_lost()

    async def close(self) -> None:
        """Close the memory and say what happened. Reservations end with the crawl."""
        for token in [*self._in_flight]:
            self.end(token, accepted=False)
        self.commit()
        remembered = await self._close_memory()
        self._pages.clear()
        self.commit()
        _sessions.pop(self.crawler, None)
        stats = self.crawler.stats
        assert stats is not None
        stats.set_value("dedup/cpu_seconds", self.counts.meter.seconds)
        try:
            logger.info("%s", summary(stats.get_stats(), self.config, remembered))
        except Exception as error:
            self.counts.fault(error, "there is no summary")
            self.commit()
        if self.journal is not None:
            self._report(self.journal)

    def _report(self, journal: Journal) -> None:
        path, stats = self.config.report, self.crawler.stats
        assert path is not None
        assert stats is not None
        try:
            from dedup.scrapy.crawl_report import write_report

            name = self.crawler.spider.name if self.crawler.spider is not None else ""
            write_report(path, name, stats.get_stats(), self.config, journal)
            logger.info("dedup: the report of this crawl is in %s", path)
        except Exception as error:
            self.counts.fault(error, f"there is no report in {path}")
            self.commit()

    async def _close_memory(self) -> str:
        memory, self._memory = self._memory, None
        if memory is None:
            return "no page was judged"
        try:
            return await memory.close()
        except Exception as error:
            self.counts.fault(error, "the last pages of this crawl may not be remembered")
            return "nobody knows how many documents"


def _parsed_anew(key: str) -> bool:
    """Whether a page with this key is to be inserted at the next commit."""
    return any(
        verdict.key == key
        for session in _sessions.values()
        for verdicts in session._parsed.values()  # noqa: SLF001
        for verdict in verdicts
    )


def _has_asyncio() -> bool:
    try:
        from scrapy.utils.asyncio import is_asyncio_available
    except ImportError:  # Scrapy 2.13
        return is_asyncio_reactor_installed()
    return is_asyncio_available()


def _advice(error: Exception) -> str:
    if isinstance(error, StoreLocked) and "dedup serve" not in str(error):
        return "; several crawlers share one store through `dedup serve`"
    return ""
