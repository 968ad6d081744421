"""A crawl's memory in a table service, which many crawls share.

The rule kept here: a page waits for the service only while it is judged, at most
DEDUP_TIMEOUT_SECONDS for each URL, and not at all while the service is known to be away. A page that
could not be judged is kept, and remembered all the same as soon as the service is back.

With DEDUP_KAFKA an accepted page goes to the outbox first (publisher.py), and from there to Kafka; the
service is told to hold its reservation until it reads the event.
"""

import time
from typing import TYPE_CHECKING

from dedup.model.errors import DedupError, ServiceUnavailable
from dedup.model.events import encode, record_key
from dedup.model.names import site_of
from dedup.model.recipes import Recipe
from dedup.model.report.texts import count
from dedup.model.values import Document, PageFingerprint, Verdict
from dedup.scrapy.counts import Counts
from dedup.scrapy.endings import Endings
from dedup.scrapy.settings import Config
from dedup.wire.client import AsyncServiceDetector
from dedup.wire.client.address import addresses_of
from dedup.wire.client.commands import is_fault
from dedup.wire.client.opening import asked_of
from dedup.wire.client.service import Service

if TYPE_CHECKING:
    from dedup.scrapy.publisher import Publisher

__all__ = ["ServiceMemory"]


class ServiceMemory:
    """The namespaces of a crawl, at DEDUP_SERVICE. Made in the crawl's running loop."""

    def __init__(self, config: Config, counts: Counts) -> None:
        """Begin to connect."""
        self._config = config
        self._counts = counts
        self._addresses = addresses_of(config.service)
        self._publisher: Publisher | None = None
        if config.kafka is not None:
            from dedup.scrapy import publisher

            self._publisher = publisher.Publisher(config.path, config.kafka)
        self._service = Service(self._addresses, config.timeout_seconds, counts.meter)
        self._pages: list[ServicePages] = []

    def open(self, namespace: str) -> "ServicePages":
        """Return the pages of a namespace; whether a service is there shows with each page."""
        config = self._config
        asked = asked_of(
            namespace=namespace,
            distance=config.distance,
            total_distance=config.total_distance,
            min_features=config.min_features,
            scope=config.scope,
            secret=config.secret,
            reservation_seconds=config.reservation_seconds,
        )
        detector = AsyncServiceDetector(self._service, asked.commands, asked.recipe, asked.policy)
        pages = ServicePages(namespace, detector, self._publisher, self._counts)
        self._pages.append(pages)
        return pages

    async def close(self) -> str:
        """Send what is still to be told, for a bounded time, and close the connections."""
        where = ", ".join(map(str, self._addresses))
        if self._publisher is not None:
            await self._publisher.close()
        for pages in self._pages:
            await pages.endings.close()
        try:
            documents = sum([await pages.detector.count() for pages in self._pages])
            return f"{count(documents, 'document')} at {where}"
        except DedupError:
            return f"no word from {where}"
        finally:
            await self._service.close()


class ServicePages:
    """The pages of one namespace of a service."""

    def __init__(
        self,
        namespace: str,
        detector: AsyncServiceDetector,
        publisher: "Publisher | None",
        counts: Counts,
    ) -> None:
        """Private: ServiceMemory.open() makes it."""
        self.recipe: Recipe = detector.recipe
        self._namespace = namespace
        self._publisher = publisher
        self.detector = detector
        self.endings = Endings(detector, counts)
        self._counts = counts

    async def reserve(
        self, page: PageFingerprint, key: str, *, url: str, exempt: str | None, guard: bool
    ) -> Verdict:
        """Judge a page; without a service it is exempt as "fault"."""
        if self._publisher is not None:
            await self._counts.meter.pausing(self._publisher.ready())
        domain = site_of(key, url)
        asked = self.detector.reserve(page, key, domain=domain, exempt=exempt, guard=guard)
        try:
            return await self._counts.meter.pausing(asked)
        except ServiceUnavailable as error:
            self._counts.fault(error, f"{key} is kept")
            return self.detector.unjudged(page, key, domain=domain)

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages, soon: through the service, or through Kafka, which tells the service."""
        if self._publisher is not None:
            self._publish(self._publisher, verdicts)
            return
        for verdict in verdicts:
            self.endings.add("insert", verdict.key, verdict)

    def release(self, verdict: Verdict) -> None:
        """Give a page back, soon."""
        if is_fault(verdict):
            self._counts.add("released")
            return
        self.endings.add("release", verdict.key, verdict)

    def forget(self, key: str) -> None:
        """Remove a document, soon."""
        if self._publisher is None:
            self.endings.add("forget", key)
            return
        try:
            tombstone = (record_key(self._namespace, key), None)
        except DedupError as error:
            self._counts.fault(error, f"{key} stays remembered although its item failed")
            return
        self._publisher.add(
            [tombstone],
            kept=lambda: self._counts.add("released"),
            failed=lambda error: self._counts.fault(
                error, f"{key} stays remembered although its item failed"
            ),
        )

    def _publish(self, publisher: "Publisher", verdicts: list[Verdict]) -> None:
        with self._counts.meter:
            records: list[tuple[bytes, bytes | None]] = []
            sound: list[Verdict] = []
            for verdict in verdicts:
                document = Document(verdict.key, verdict.page, verdict.domain, time.time())
                try:
                    records.append(encode(self._namespace, document))
                    sound.append(verdict)
                except DedupError as error:
                    self._not_kept([verdict], error)

        def kept() -> None:
            self._counts.add("inserted", len(sound))
            for verdict in sound:
                self.endings.add("pin", verdict.key, verdict)

        publisher.add(records, kept, lambda error: self._not_kept(sound, error))

    def _not_kept(self, verdicts: list[Verdict], error: Exception) -> None:
        for verdict in verdicts:
            self._counts.fault(error, f"{verdict.key} was parsed, but is not remembered")
            if not is_fault(verdict):
                self.endings.add("release", verdict.key, verdict)
