"""Scrapy's scheduler, for requests that a table service is asked about: SCHEDULER = "dedup.scrapy.Scheduler".

    enqueue_request -> held until the service has answered -> Scrapy's queues, or dropped as a duplicate

Scrapy asks its filter about one request at a time, and waits. This scheduler accepts a request at once, asks about all
of a turn of the loop together (shared_requests.py), and only then puts it into the queues. Requests with `dont_filter`
are not held. With a filter that asks no service it is Scrapy's own.

Invariant: a request that was accepted is in a queue in the end, unless it was made before; a spider is not idle, and
does not end, while requests are held.
"""

from typing import Any

from scrapy import Request, signals
from scrapy.core.scheduler import Scheduler as ScrapyScheduler

from dedup.scrapy.shared_requests import SharedRequests

__all__ = ["Scheduler"]


class Scheduler(ScrapyScheduler):
    """Scrapy's scheduler, which asks a shared filter first."""

    asks_shared_filter = True  # RequestFilter looks for it

    def __init__(self, dupefilter: Any, *arguments: Any, **options: Any) -> None:
        """Take what Scrapy's takes."""
        super().__init__(dupefilter, *arguments, **options)
        self._shared: SharedRequests | None = getattr(dupefilter, "shared", None)
        if self._shared is not None:
            self._shared.answered = self._answered

    def enqueue_request(self, request: Request) -> bool:
        """Accept a request; False if it was made before."""
        if self._shared is None or request.dont_filter or self._shared.passes(request):
            return super().enqueue_request(request)
        if self._shared.ask(request):
            return True
        self.df.log(request, self.spider)
        return False

    def _answered(self, request: Request, seen: bool) -> None:
        """Put a request that was held into a queue, or drop it."""
        if not seen and super().enqueue_request(request):
            return
        assert self.crawler is not None
        if seen:
            self.df.log(request, self.spider)
        self.crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self.spider
        )

    def has_pending_requests(self) -> bool:
        """Whether requests are in a queue, or held."""
        return bool(self._shared and self._shared.holding) or super().has_pending_requests()

    def close(self, reason: str) -> Any:
        """Save the queues; requests that are still held are put into them before."""
        if self._shared is not None:
            self._shared.give_up()
        return super().close(reason)
