"""The guard between Scrapy and us, and what a crawl counts: pages, faults, CPU time.

Invariant: no exception of ours leaves the guard, also where it is itself what fails. Every fault is counted as
dedup/error/KIND for each page that it affected, and logged once for each kind; what the spider made passes.
"""

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any, Generic, Self, TypeVar, cast

from scrapy.crawler import Crawler

from dedup.core.faults import SayOnce
from dedup.model.errors import DedupError

logger = logging.getLogger("dedup")

# What is a fault of ours; cancelled is what a connection that breaks down leaves to who waits for it.
FAULTS = (Exception, asyncio.CancelledError)


_Result = TypeVar("_Result")


class Counts(defaultdict[str, int]):
    """What the stats dedup/NAME of one crawl lack until the next flush(), by NAME; and a meter of CPU time.

    Scrapy's stats are updated in batches, since updating them one by one would cost more than counting.
    """

    def __init__(self, crawler: Crawler) -> None:
        """Count for a crawler."""
        super().__init__(int)
        self.crawler, self.meter, self._once = crawler, Meter(), SayOnce()

    def fault(self, error: BaseException, consequence: str, number: int = 1) -> None:
        """Count an internal error for each page that it affected, and log it once for each kind."""
        kind = kind_of(error)
        self[f"error/{kind}"] += number
        text = "[dedup] failed (%s); %s; further ones are only counted"
        # our own errors say what happened and what to do: no traceback adds to that
        traced = None if isinstance(error, DedupError) else error
        self._once.log(logger, kind, text, error, consequence, error=traced)

    def flush(self) -> None:
        """Bring Scrapy's stats up to date."""
        stats = self.crawler.stats
        assert stats is not None
        while self:
            name, number = self.popitem()
            stats.inc_value(f"dedup/{name}", number)


@contextmanager
def guarded(counts: Counts, consequence: str) -> Iterator[None]:
    """Count a fault inside the block, and end the block there: the guard around each call by Scrapy."""
    try:
        yield
    except FAULTS as error:
        count_fault(counts, error, consequence)


def run_guarded(counts: Counts, work: Callable[[], object], consequence: str) -> None:
    """Do what the event loop calls; count a fault."""
    with guarded(counts, consequence):
        work()


def count_fault(counts: Counts, error: BaseException, consequence: str) -> None:
    """Count a fault, without what may be broken itself."""
    try:
        counts.fault(error, consequence)
    except FAULTS:
        logger.error("[dedup] failed (%r); %s", error, consequence)
        if counts.crawler.stats is not None:
            counts.crawler.stats.inc_value(f"dedup/error/{kind_of(error)}")


class Meter:
    """Adds up the CPU time of the code inside it, in seconds of its thread. Must not be nested."""

    def __init__(self) -> None:
        self.seconds = self._start = 0.0

    def __enter__(self) -> Self:
        self._start = thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += thread_time() - self._start

    def pausing(self, awaitable: Awaitable[_Result]) -> "_Pausing[_Result]":
        """Await inside the meter, which stops while the awaitable waits."""
        return _Pausing(self, awaitable)


class _Pausing(Generic[_Result]):
    def __init__(self, meter: Meter, awaitable: Awaitable[_Result]) -> None:
        self._meter = meter
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, _Result]:
        steps = self._awaitable.__await__()
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            try:
                waits_for = step(value)
            except StopIteration as end:
                return cast(_Result, end.value)
            self._meter.__exit__()
            try:
                value = yield waits_for
            except BaseException as error:  # noqa: BLE001 - thrown into the awaitable, which may handle it
                step, value = steps.throw, error
            else:
                step = steps.send
            finally:
                self._meter.__enter__()


def kind_of(error: BaseException) -> str:
    """Return the stat name of a fault: "store_locked" for StoreLocked."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(error).__name__).lower()
