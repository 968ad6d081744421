"""A crawl's memory in a table service, which many crawls share.

A page waits for a service only while it is judged, at most DEDUP_TIMEOUT_SECONDS for each URL, and not at all while the
service is known to be away. A page that could not be judged is kept, and remembered as soon as the service is back: inserts,
releases and forgets are sent later (dedup/wire/client/updates.py). One that is given up is counted as a fault.

None of these errors reaches the crawl.
"""

import msgspec

from dedup.detector.remote import RemoteDetector
from dedup.model.errors import DedupError, ServiceUnavailable
from dedup.model.names import count
from dedup.model.page import USUAL, PageFingerprint, ReserveOptions, Verdict
from dedup.model.policy import Options
from dedup.scrapy.guard import Counts
from dedup.scrapy.settings import Config
from dedup.wire.client.command_codec import is_unjudged
from dedup.wire.client.services import Services, shards_of
from dedup.wire.client.updates import PendingUpdates, Update

_GIVEN_UP = {
    "insert": "{} was parsed, but is not remembered",
    "release": "{} stays in flight until its reservation expires",
    "forget": "{} stays remembered although its item failed",
}
_COUNTED = {"insert": "inserted", "release": "released"}


class ServiceMemory:
    """The namespaces of a crawl, at DEDUP_SERVICE. Made in the crawl's running loop."""

    def __init__(self, config: Config, counts: Counts) -> None:
        """Begin to connect."""
        self._config = config
        self._counts = counts
        self._addresses = shards_of(config.service, config.options.scope)
        self._services = [
            Services(each, config.options.timeout_seconds, counts.meter) for each in self._addresses
        ]
        self._namespaces: list[ServiceNamespace] = []

    def open(self, namespace: str) -> "ServiceNamespace":
        """Return a namespace; whether a service answers is found out with each page."""
        options = msgspec.structs.replace(self._config.options, namespace=namespace)
        detector = CrawlDetector(self._services, options, self._counts)
        opened = ServiceNamespace(detector, self._counts)
        self._namespaces.append(opened)
        return opened

    async def close(self) -> str:
        """Send what is still pending, for a bounded time, and close the connections."""
        where = ", ".join(str(address) for shard in self._addresses for address in shard)
        for namespace in self._namespaces:
            await namespace.updates.close()
        try:
            documents = sum([await each.detector.count() for each in self._namespaces])
            return f"{count(documents, 'document')} at {where}"
        except DedupError:
            return f"no answer from {where}"
        finally:
            for services in self._services:
                await services.close()


class CrawlDetector(RemoteDetector):
    """A detector that keeps pages that no service judged, and measures its work with a meter."""

    def __init__(self, services: list[Services], options: Options, counts: Counts) -> None:
        """Use services."""
        super().__init__(services, options)
        self._counts = counts

    async def judge(
        self, page: PageFingerprint, key: str, options: ReserveOptions = USUAL
    ) -> Verdict:
        """Judge a page; without a service it is exempt as "fault"."""
        pausing = self._counts.meter.pausing
        try:
            return await pausing(super().judge(page, key, options))
        except ServiceUnavailable as error:
            self._counts.fault(error, f"{key} is kept")
            return self.unjudged(page, key, options)


class ServiceNamespace:
    """The pages of one namespace of a service."""

    def __init__(self, detector: CrawlDetector, counts: Counts) -> None:
        """Private: ServiceMemory.open() makes it."""
        self.detector, self._counts = detector, counts
        self.updates = PendingUpdates(self._deliver, self._give_up)

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages soon."""
        for verdict in verdicts:
            self.updates.add(Update("insert", verdict.key, verdict))

    def release(self, verdict: Verdict) -> None:
        """Release a page, soon."""
        if is_unjudged(verdict):
            self._counts["released"] += 1
        else:
            self.updates.add(Update("release", verdict.key, verdict))

    def forget(self, key: str) -> None:
        """Remove a document, soon."""
        self.updates.add(Update("forget", key))

    async def _deliver(self, batch: list[Update]) -> list[Exception | None]:
        """Send updates of one kind, count what is acknowledged, and return each one's error."""
        kind, meter = batch[0].kind, self._counts.meter
        verdicts = [update.verdict for update in batch if update.verdict is not None]
        with meter:
            if kind == "forget":
                errors = [await meter.pausing(self._forget(update.key)) for update in batch]
            else:
                answers = await meter.pausing(self.detector.end_many(kind, verdicts))
                errors = [each if isinstance(each, Exception) else None for each in answers]
        acknowledged = errors.count(None)
        if acknowledged and kind in _COUNTED:
            self._counts[_COUNTED[kind]] += acknowledged
        self._counts.flush()  # no page of this time may follow
        return errors

    async def _forget(self, key: str) -> Exception | None:
        try:
            if await self.detector.forget(key):
                self._counts["released"] += 1
        except Exception as error:  # noqa: BLE001 - the result, which the caller counts
            return error
        return None

    def _give_up(self, update: Update, error: Exception) -> None:
        self._counts.fault(error, _GIVEN_UP[update.kind].format(update.key))
        if update.verdict is not None:
            self.detector.release_later(update.verdict)
