"""Where the add-on's time goes: its steps timed one by one, in a crawl of their own.

The rule kept here: the crawl whose steps are timed is not the one that is compared, for the timing
itself costs some microseconds a page.
"""

import time
from collections.abc import Callable
from typing import Any

import dedup.scrapy.crawl_session
from dedup.detector import EmbeddedDetector
from dedup.scrapy.counts import Counts
from dedup.scrapy.crawl_session import Session

__all__ = ["STEPS", "Steps"]

# In the order of a page's way: what it does, and which calls are timed.
STEPS: dict[str, tuple[tuple[Any, str], ...]] = {
    "page to fingerprint": ((Session, "_read"),),
    "document key": ((dedup.scrapy.crawl_session, "key_of"),),
    "probe and reservation": ((EmbeddedDetector, "reserve"),),
    "insert, and the stats": ((EmbeddedDetector, "insert_many"), (Counts, "flush")),
}


class Steps:
    """CPU seconds of each step in this process, from now on."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS, 0.0)
        for step, calls in STEPS.items():
            for owner, name in calls:
                setattr(owner, name, self._timed(step, getattr(owner, name)))

    def _timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[step] += time.thread_time() - start

        return timed
