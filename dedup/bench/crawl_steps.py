"""Where the add-on's time goes: its steps timed one by one, in a crawl of their own.

The rule kept here: the crawl whose steps are timed is not the one that is compared, for the timing
itself costs some microseconds a page.
"""

import time
from collections.abc import Callable
from typing import Any

import dedup.scrapy.session
from dedup.scrapy.session import Session

__all__ = ["STEPS", "Steps"]

# In the order of a page's way: what is timed, and what it does.
STEPS = {
    "_read": "page to fingerprint",
    "key_of": "document key",
    "_reserve": "probe and reservation",
    "commit": "insert, and the stats",
}


class Steps:
    """CPU seconds of each step in this process, from now on."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS.values(), 0.0)
        for name in STEPS:
            where = dedup.scrapy.session if name == "key_of" else Session
            setattr(where, name, self._timed(name, getattr(where, name)))

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[STEPS[name]] += time.thread_time() - start

        return timed
