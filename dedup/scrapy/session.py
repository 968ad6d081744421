"""One crawl's deduplication: the middlewares share it, and it ends with the spider.

The rule kept here: a fault of ours never costs a page. Whatever fails is logged once, counted as
dedup/error/KIND for every page it touches, and the page goes on.

Pages whose callbacks ended well are inserted together, at most COMMIT_SECONDS later, and at once
when another page asks for one of them: a transaction for each would cost more than all the rest.
Until then they are in flight, so nothing is dropped for their sake, and a kill forgets them.
"""

import asyncio
import logging
import re
from collections import deque
from contextlib import closing, suppress
from time import thread_time
from typing import Self
from weakref import WeakKeyDictionary, finalize

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.utils.reactor import is_asyncio_reactor_installed

import dedup.detector
from dedup.detector import Detector
from dedup.errors import RecipeMismatch, StoreLocked
from dedup.fingerprint import PageReading, read_page
from dedup.names import check_namespace, namespace_of
from dedup.scrapy.config import Config
from dedup.scrapy.journal import Journal
from dedup.scrapy.pages import exemption, explores, is_start, key_of
from dedup.scrapy.summary import summary
from dedup.values import Verdict

__all__ = ["Session"]

logger = logging.getLogger("dedup")

_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.1

COMMIT_SECONDS = 0.1  # how long a parsed page waits for others to be inserted with
COMMIT_PAGES = 16  # so many parsed pages are inserted at once

_sessions: "WeakKeyDictionary[Crawler, Session]" = WeakKeyDictionary()


class Session:
    """The detectors of a crawl, a namespace each, the pages in flight, and the counts."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        """Private: Session.of() gives a crawler's session."""
        self.crawler = crawler
        self.config = config
        self._detectors: dict[str, Detector | None] = {}
        self._failed: dict[str, str] = {}  # namespace -> kind of error that keeps it shut
        self._in_flight: dict[str, tuple[Detector, Verdict]] = {}
        self._parsed: dict[Detector, list[Verdict]] = {}  # to be inserted by commit()
        self._timer: asyncio.TimerHandle | None = None  # which calls it
        self._namespace = config.namespace
        self._counts: dict[str, int] = {}  # to be added to the stats by commit()
        self.journal = None if config.report is None else Journal()
        self._said: set[str] = set()
        self._meter = _Meter()
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

        Waits, at most DEDUP_WAIT_SECONDS, only for a near-duplicate that is in flight.
        """
        self.release_lost()
        with self._meter:
            reason = exemption(request, response, self.config)
            if reason is not None:
                self.count(f"exempt/{reason}")
                request.meta["dedup"] = {"status": "exempt", "reason": reason}
                return None
            detector = self._detector(request)
            if detector is None:
                return None
            reading = self._read(detector, response)
            self.count("probed")
            if "data_page" in self.config.exempt and reading.data_bytes > reading.text_bytes:
                self.count("exempt/data_page")
                request.meta["dedup"] = {"status": "exempt", "reason": "data_page"}
                return None
            key = key_of(request)
            start = is_start(request) and "start" in self.config.exempt
            verdict = self._reserve(detector, reading, key, response, "start" if start else None)
        if verdict.of is not None and _parsed_anew(verdict.of):
            self._commit_all()  # what the original said before, it says no more
            with self._meter:
                verdict = self._reserve(detector, reading, key, response, None)
        pause, waited = _FIRST_WAIT_SECONDS, 0.0
        while verdict.status == "pending":
            self._commit_all()
            with self._meter:
                verdict = self._reserve(detector, reading, key, response, None)
            if verdict.status != "pending" or waited >= self.config.wait_seconds:
                break
            await asyncio.sleep(pause)
            waited += pause
            pause = min(2 * pause, _LONGEST_WAIT_SECONDS)
        with self._meter:
            if verdict.status == "pending":
                verdict = self._reserve(detector, reading, key, response, "in_flight")
            self._note(detector, request, verdict)
            if self.journal is not None:
                self.journal.judged(verdict, response, detector.recipe)
        return verdict

    def _detector(self, request: Request) -> Detector | None:
        """Return the detector of the request's namespace, opened at its first page."""
        name = request.meta.get("dedup_namespace") or self._namespace
        if name is None:
            assert self.crawler.spider is not None
            name = self._namespace = namespace_of(self.crawler.spider.name)
        if name in self._failed:
            self.count(f"error/{self._failed[name]}")
            return None
        detector = self._detectors.get(name)
        if detector is None:
            try:
                detector = self._detectors[name] = self._open(name)
            except Exception as error:
                self._failed[name] = kind = kind_of(error)
                self.count(f"error/{kind}")
                logger.error(
                    "dedup is off for %r in this crawl, pages are kept: %s%s",
                    name,
                    error,
                    _advice(error),
                )
        return detector

    def _open(self, namespace: str) -> Detector:
        config = self.config
        detector = dedup.detector.open(
            config.path,
            namespace=check_namespace(namespace),
            distance=config.distance,
            total_distance=config.total_distance,
            min_features=config.min_features,
            scope=config.scope,
            secret=config.secret,
            reservation_seconds=config.reservation_seconds,
        )
        if detector.recipe.key is None:
            detector.close()
            raise RecipeMismatch(
                f"the store {config.path / namespace} was made with a secret: set DEDUP_SECRET to it"
            )
        return detector

    def _read(self, detector: Detector, response: Response) -> PageReading:
        if isinstance(response, TextResponse) and response.encoding != "utf-8":
            # the text is decoded once, and the spider finds it decoded
            return read_page(response.text, url=response.url, recipe=detector.recipe)
        return read_page(response.body, encoding="utf-8", url=response.url, recipe=detector.recipe)

    def _reserve(
        self,
        detector: Detector,
        reading: PageReading,
        key: str,
        response: Response,
        exempt: str | None,
    ) -> Verdict:
        return detector.reserve(
            reading.fingerprint,
            key,
            url=response.url,
            exempt=exempt,
            guard="new_links" in self.config.exempt,
        )

    def _note(self, detector: Detector, request: Request, verdict: Verdict) -> None:
        if verdict.token is not None:
            self._in_flight[verdict.token] = (detector, verdict)
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
            self.count(f"exempt/{verdict.reason}")
        else:
            self.count(verdict.status)
        if verdict.status == "near_duplicate":
            self.count(f"near_duplicate/distance/{verdict.distance}")
            if self.config.mode != "tag" and explores(verdict.key, self.config.explore):
                request.meta["dedup"]["explored"] = True
                self.count("explored")

    # ---------------------------------------------------------------- a page is done with

    def end(self, token: str | None, *, accepted: bool) -> None:
        """Insert, soon, or release the page in flight with this token; later calls do nothing."""
        detector, verdict = self._in_flight.pop(token or "", (None, None))
        if detector is None or verdict is None:
            return
        if accepted:
            self._parsed.setdefault(detector, []).append(verdict)
            if len(self._parsed[detector]) >= COMMIT_PAGES:
                self.commit()
            elif self._timer is None:
                self._set_timer()
            return
        try:
            with self._meter:
                detector.release(verdict)
            self.count("released")
        except Exception as error:
            self.fault(error, f"{verdict.key} stays in flight until its reservation expires")

    def release_lost(self) -> None:
        """Release the pages that were discarded after us: nobody holds their requests any more."""
        while self._lost:
            self.end(self._lost.popleft(), accepted=False)

    def _set_timer(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the loop has ended, and the crawl with it
            self.commit()
        else:
            self._timer = loop.call_later(COMMIT_SECONDS, self.commit)

    def commit(self) -> None:
        """Insert the pages that were parsed since the last time, and bring the stats up to date."""
        parsed, self._parsed = self._parsed, {}
        for detector, verdicts in parsed.items():
            self._insert(detector, verdicts)
        counts, self._counts = self._counts, {}
        stats = self.crawler.stats
        assert stats is not None
        for name, number in counts.items():
            stats.inc_value(f"dedup/{name}", number)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @staticmethod
    def _commit_all() -> None:
        """Bring every crawl of the process up to date: their spiders may share their stores."""
        for session in list(_sessions.values()):
            session.commit()
            session.release_lost()

    def _insert(self, detector: Detector, verdicts: list[Verdict]) -> None:
        try:
            with self._meter:
                late = detector.insert_many(verdicts)
        except Exception as error:
            if len(verdicts) == 1:
                self.fault(error, f"{verdicts[0].key} was parsed, but is not remembered")
                with suppress(Exception):  # or its copies would wait for it
                    detector.release(verdicts[0])
                return
            for verdict in verdicts:  # those that can be inserted are
                self._insert(detector, [verdict])
            return
        self.count("inserted", len(late))
        if any(late):
            self.count("late_duplicate", sum(late))

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
            with self._meter:
                detector = self._detector(request)
                if detector is not None and detector.forget(noted["key"]):
                    self.count("released")
        except Exception as error:
            self.fault(error, f"{noted['key']} stays remembered although its item failed")

    # ------------------------------------------------------------------------- bookkeeping

    def count(self, name: str, number: int = 1) -> None:
        """Add to a stat of ours; Scrapy's collector learns of it with the next commit()."""
        self._counts[name] = self._counts.get(name, 0) + number
        if self._timer is None:
            self._set_timer()

    def fault(self, error: Exception, consequence: str) -> None:
        """Count a fault of ours, and say it once for each kind."""
        kind = kind_of(error)
        self.count(f"error/{kind}")
        if kind not in self._said:
            self._said.add(kind)
            logger.error(
                "dedup failed (%s); %s; further ones are only counted",
                error,
                consequence,
                exc_info=error,
            )

    def close(self) -> None:
        """Close the stores and say what happened. Reservations end with the crawl."""
        for token in [*self._in_flight]:
            self.end(token, accepted=False)
        self.commit()
        documents = 0
        for detector in self._detectors.values():
            if detector is None:
                continue
            try:
                with self._meter, closing(detector):
                    documents += len(detector)
            except Exception as error:
                self.fault(error, "the store may not hold the last pages of this crawl")
        self._detectors.clear()
        self.commit()
        _sessions.pop(self.crawler, None)
        assert self.crawler.stats is not None
        self.crawler.stats.set_value("dedup/cpu_seconds", self._meter.seconds)
        try:
            logger.info("%s", summary(self.crawler.stats.get_stats(), self.config, documents))
        except Exception as error:
            self.fault(error, "there is no summary")
            self.commit()
        if self.journal is not None:
            self._report(self.journal)

    def _report(self, journal: Journal) -> None:
        path, stats = self.config.report, self.crawler.stats
        assert path is not None
        assert stats is not None
        try:
            from dedup.scrapy.report import write_report

            name = self.crawler.spider.name if self.crawler.spider is not None else ""
            write_report(path, name, stats.get_stats(), self.config, journal)
            logger.info("dedup: the report of this crawl is in %s", path)
        except Exception as error:
            self.fault(error, f"there is no report in {path}")
            self.commit()


class _Meter:
    """Adds up the CPU time of what runs inside, in seconds of its thread. Not to be nested."""

    def __init__(self) -> None:
        self.seconds = self._start = 0.0

    def __enter__(self) -> Self:
        self._start = thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += thread_time() - self._start


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


def kind_of(error: Exception) -> str:
    """Return what a fault is counted as: "store_locked" for StoreLocked."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(error).__name__).lower()


def _advice(error: Exception) -> str:
    if isinstance(error, StoreLocked) and "dedup serve" not in str(error):
        return "; several crawlers share one store through `dedup serve`"
    return ""
