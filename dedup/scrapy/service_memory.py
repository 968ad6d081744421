"""A crawl's memory in a table service, which many crawls share.

Invariant: a page waits for the service only while it is judged, at most
DEDUP_TIMEOUT_SECONDS for each URL, and not at all while the service is known to be away. A page that
could not be judged is kept, and remembered as soon as the service is back.

With DEDUP_KAFKA an accepted page goes to the outbox first (publisher.py), and from there to Kafka; the
service is told to hold its reservation until it reads the event.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dedup.detector.remote import RemoteDetector
from dedup.model.errors import DedupError, ServiceUnavailable
from dedup.model.events import encode, record_key
from dedup.model.page import (
    USUAL,
    Document,
    PageFingerprint,
    ReserveOptions,
    Verdict,
    accepted_document,
)
from dedup.model.policy import Options
from dedup.report.texts import count
from dedup.scrapy.counts import Counts
from dedup.scrapy.pending_updates import PendingUpdates
from dedup.scrapy.settings import Config
from dedup.scrapy.shared_rules import SharedRules
from dedup.wire.client.address import addresses_of
from dedup.wire.client.command_codec import is_unjudged
from dedup.wire.client.services import Services

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
        self._services = Services(self._addresses, config.options.timeout_seconds, counts.meter)
        self._namespaces: list[ServiceNamespace] = []

    def open(self, namespace: str) -> "ServiceNamespace":
        """Return a namespace; whether a service answers is found out with each page."""
        options = msgspec.structs.replace(self._config.options, namespace=namespace)
        detector = CrawlDetector(self._services, options, self._publisher, self._counts)
        rules = SharedRules(self._services, options.timeout_seconds, namespace)
        opened = ServiceNamespace(namespace, detector, rules, self._publisher, self._counts)
        self._namespaces.append(opened)
        return opened

    async def close(self) -> str:
        """Send what is still pending, for a bounded time, and close the connections."""
        where = ", ".join(map(str, self._addresses))
        if self._publisher is not None:
            await self._publisher.close()
        for namespace in self._namespaces:
            await namespace.updates.close()
            await namespace.shared_rules.close()
        try:
            documents = sum([await each.detector.count() for each in self._namespaces])
            return f"{count(documents, 'document')} at {where}"
        except DedupError:
            return f"no answer from {where}"
        finally:
            await self._services.close()


class CrawlDetector(RemoteDetector):
    """A detector that keeps pages that no service judged, and measures its work with a meter."""

    def __init__(
        self,
        services: Services,
        options: Options,
        publisher: "Publisher | None",
        counts: Counts,
    ) -> None:
        """Use services; pages wait until a publisher is ready."""
        super().__init__(services, options)
        self._publisher = publisher
        self._counts = counts

    async def judge(
        self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL
    ) -> Verdict:
        """Judge a page; without a service it is exempt as "fault"."""
        pausing = self._counts.meter.pausing
        if self._publisher is not None:
            await pausing(self._publisher.ready())
        try:
            return await pausing(super().judge(page, key, options))
        except ServiceUnavailable as error:
            self._counts.fault(error, f"{key} is kept")
            return self.unjudged(page, key, options)


class ServiceNamespace:
    """The pages of one namespace of a service."""

    def __init__(
        self,
        namespace: str,
        detector: CrawlDetector,
        shared_rules: SharedRules,
        publisher: "Publisher | None",
        counts: Counts,
    ) -> None:
        """Private: ServiceMemory.open() makes it."""
        self._namespace = namespace
        self._publisher = publisher
        self.detector = detector
        self.shared_rules = shared_rules
        self.updates = PendingUpdates(detector, counts)
        self._counts = counts
        self.folder: Path | None = None  # the service's store is in another process

    def documents(self) -> tuple[Document, ...]:
        """Return none: they are at the service."""
        return ()

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages soon: through the service, or through Kafka, from which the service reads them."""
        if self._publisher is not None:
            self._publish(self._publisher, verdicts)
            return
        for verdict in verdicts:
            self.updates.add("insert", verdict.key, verdict)

    def release(self, verdict: Verdict) -> None:
        """Release a page, soon."""
        if is_unjudged(verdict):
            self._counts.add("released")
            return
        self.updates.add("release", verdict.key, verdict)

    def forget(self, key: str) -> None:
        """Remove a document, soon."""
        if self._publisher is None:
            self.updates.add("forget", key)
            return
        consequence = f"{key} stays remembered although its item failed"
        try:
            tombstone = (record_key(self._namespace, key), None)
        except DedupError as error:
            self._counts.fault(error, consequence)
            return
        self._publisher.add(
            [tombstone],
            kept=lambda: self._counts.add("released"),
            failed=lambda error: self._counts.fault(error, consequence),
        )

    def _publish(self, publisher: "Publisher", verdicts: list[Verdict]) -> None:
        with self._counts.meter:
            records: list[tuple[bytes, bytes | None]] = []
            encoded: list[Verdict] = []
            for verdict in verdicts:
                document = accepted_document(verdict, time.time())
                try:
                    records.append(encode(self._namespace, document))
                    encoded.append(verdict)
                except DedupError as error:
                    self._not_kept([verdict], error)

        def kept() -> None:
            self._counts.add("inserted", len(encoded))
            for verdict in encoded:
                self.updates.add("pin", verdict.key, verdict)

        publisher.add(records, kept, lambda error: self._not_kept(encoded, error))

    def _not_kept(self, verdicts: list[Verdict], error: Exception) -> None:
        for verdict in verdicts:
            self._counts.fault(error, f"{verdict.key} was parsed, but is not remembered")
            if not is_unjudged(verdict):
                self.updates.add("release", verdict.key, verdict)
