"""One crawl's deduplication: the middlewares share it, and it ends with the spider.

The rule kept here: a fault of ours never costs a page. Whatever fails is logged once, counted as
dedup/error/KIND for every page it touches, and the page goes on.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
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
from dedup.scrapy.pages import exemption, is_start, key_of
from dedup.scrapy.summary import summary
from dedup.values import Verdict

__all__ = ["Session"]

logger = logging.getLogger("dedup")

_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.1

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
        self._said: set[str] = set()
        self._lost: deque[str] = deque()  # tokens whose requests nobody holds any more
        self._cpu_seconds = 0.0

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
        with self._metered():
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
        pause, waited = _FIRST_WAIT_SECONDS, 0.0
        while verdict.status == "pending" and waited < self.config.wait_seconds:
            await asyncio.sleep(pause)
            waited += pause
            pause = min(2 * pause, _LONGEST_WAIT_SECONDS)
            with self._metered():
                verdict = self._reserve(detector, reading, key, response, None)
        with self._metered():
            if verdict.status == "pending":
                verdict = self._reserve(detector, reading, key, response, "in_flight")
            self._note(detector, request, verdict)
        return verdict

    def _detector(self, request: Request) -> Detector | None:
        """Return the detector of the request's namespace, opened at its first page."""
        name = request.meta.get("dedup_namespace") or self.config.namespace
        if name is None:
            assert self.crawler.spider is not None
            name = namespace_of(self.crawler.spider.name)
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
        while self._lost:
            self.end(self._lost.popleft(), accepted=False)
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
            name: getattr(verdict, name)
            for name in ("status", "reason", "key", "of", "distance", "check_distance", "token")
        }
        if verdict.status == "exempt":
            self.count(f"exempt/{verdict.reason}")
        else:
            self.count(verdict.status)
        if verdict.status == "near_duplicate":
            self.count(f"near_duplicate/distance/{verdict.distance}")

    # ---------------------------------------------------------------- a page is done with

    def end(self, token: str | None, *, accepted: bool) -> None:
        """Insert or release the page in flight with this token; later calls do nothing."""
        detector, verdict = self._in_flight.pop(token or "", (None, None))
        if detector is None or verdict is None:
            return
        try:
            with self._metered():
                if not accepted:
                    detector.release(verdict)
                    self.count("released")
                    return
                if detector.insert(verdict):
                    self.count("late_duplicate")
                self.count("inserted")
        except Exception as error:
            self.fault(error, f"{verdict.key} was parsed, but is not remembered")
            with suppress(Exception):  # or its copies would wait for it
                detector.release(verdict)

    def forget(self, request: Request) -> None:
        """Take back a page whose item failed: it may come again under any URL."""
        noted = request.meta.get("dedup")
        if not isinstance(noted, dict) or noted.get("token") is None:
            return
        if noted["token"] in self._in_flight:
            self.end(noted["token"], accepted=False)
            return
        try:
            with self._metered():
                detector = self._detector(request)
                if detector is not None and detector.forget(noted["key"]):
                    self.count("released")
        except Exception as error:
            self.fault(error, f"{noted['key']} stays remembered although its item failed")

    # ------------------------------------------------------------------------- bookkeeping

    def count(self, name: str) -> None:
        """Add one to a stat of ours."""
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(f"dedup/{name}")

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

    @contextmanager
    def _metered(self) -> Iterator[None]:
        """Add the CPU time of what runs inside to the session's."""
        start = time.thread_time()
        try:
            yield
        finally:
            self._cpu_seconds += time.thread_time() - start

    def close(self) -> None:
        """Close the stores and say what happened. Reservations end with the crawl."""
        for token in [*self._in_flight]:
            self.end(token, accepted=False)
        documents = 0
        for detector in self._detectors.values():
            if detector is None:
                continue
            try:
                with self._metered(), closing(detector):
                    documents += len(detector)
            except Exception as error:
                self.fault(error, "the store may not hold the last pages of this crawl")
        self._detectors.clear()
        _sessions.pop(self.crawler, None)
        assert self.crawler.stats is not None
        self.crawler.stats.set_value("dedup/cpu_seconds", self._cpu_seconds)
        try:
            logger.info("%s", summary(self.crawler.stats.get_stats(), self.config, documents))
        except Exception as error:
            self.fault(error, "there is no summary")


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
