"""A crawl's memory in a store of its own, which the spiders of one process share.

The rule kept here: what is done is done on return, and takes microseconds; nothing waits.
"""

from contextlib import closing, suppress

import dedup.detector.detector
from dedup.detector import Detector
from dedup.model.errors import RecipeMismatch
from dedup.model.names import check_namespace
from dedup.model.recipes import Recipe
from dedup.model.report.texts import count
from dedup.model.values import PageFingerprint, Verdict
from dedup.scrapy.counts import Counts
from dedup.scrapy.settings import Config

__all__ = ["EmbeddedMemory"]


class EmbeddedMemory:
    """The stores of a crawl, below DEDUP_PATH."""

    def __init__(self, config: Config, counts: Counts) -> None:
        """Open nothing yet."""
        self._config = config
        self._counts = counts
        self._detectors: list[Detector] = []

    def open(self, namespace: str) -> "EmbeddedPages":
        """Open a namespace's store. Raises what dedup.detector.detector.open() raises."""
        config = self._config
        detector = dedup.detector.detector.open(
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
        self._detectors.append(detector)
        return EmbeddedPages(detector, self._counts)

    async def close(self) -> str:
        """Close the stores."""
        documents = 0
        for detector in self._detectors:
            try:
                with self._counts.meter, closing(detector):
                    documents += len(detector)
            except Exception as error:
                self._counts.fault(error, "the store may not hold the last pages of this crawl")
        return f"{count(documents, 'document')} in {self._config.path}"


class EmbeddedPages:
    """The pages of one store."""

    def __init__(self, detector: Detector, counts: Counts) -> None:
        """Private: EmbeddedMemory.open() makes it."""
        self.recipe: Recipe = detector.recipe
        self._detector = detector
        self._counts = counts

    async def reserve(
        self, page: PageFingerprint, key: str, *, url: str, exempt: str | None, guard: bool
    ) -> Verdict:
        """Judge a page."""
        return self._detector.reserve(page, key, url=url, exempt=exempt, guard=guard)

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages together, or those that can be, one by one."""
        try:
            with self._counts.meter:
                late = self._detector.insert_many(verdicts)
        except Exception as error:
            if len(verdicts) == 1:
                self._counts.fault(error, f"{verdicts[0].key} was parsed, but is not remembered")
                with suppress(Exception):  # or its copies would wait for it
                    self._detector.release(verdicts[0])
                return
            for verdict in verdicts:
                self.insert([verdict])
            return
        self._counts.add("inserted", len(late))
        if any(late):
            self._counts.add("late_duplicate", sum(late))

    def release(self, verdict: Verdict) -> None:
        """Give a page back."""
        try:
            with self._counts.meter:
                self._detector.release(verdict)
            self._counts.add("released")
        except Exception as error:
            self._counts.fault(
                error, f"{verdict.key} stays in flight until its reservation expires"
            )

    def forget(self, key: str) -> None:
        """Remove a document."""
        try:
            with self._counts.meter:
                forgotten = self._detector.forget(key)
            if forgotten:
                self._counts.add("released")
        except Exception as error:
            self._counts.fault(error, f"{key} stays remembered although its item failed")
