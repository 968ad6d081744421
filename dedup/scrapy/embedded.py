"""A crawl's memory in an embedded store, which the spiders of one process share.

Invariant: every call is complete on return, and takes microseconds; nothing waits.
"""

import time
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from dedup.detector import AsyncEmbeddedDetector, EmbeddedDetector, open_embedded
from dedup.detector.open_stores import last_documents
from dedup.model.errors import RecipeMismatch
from dedup.model.page import Document, Verdict
from dedup.report.texts import count
from dedup.scrapy.counts import Counts, logger
from dedup.scrapy.memory import begin, keep, mark
from dedup.scrapy.settings import Config

LAST = 20_000  # documents of an opened store from which URL rules are learned


class EmbeddedMemory:
    """The stores of a crawl, below DEDUP_PATH."""

    def __init__(self, config: Config, job_folder: str | None, counts: Counts) -> None:
        """Open nothing yet. job_folder is the crawl's JOBDIR."""
        self._config = config
        self._job_folder = job_folder
        self._counts = counts
        self._detectors: list[EmbeddedDetector] = []
        self._namespaces: list[str] = []

    def open(self, namespace: str) -> "EmbeddedNamespace":
        """Open a namespace's store. Raises what open_embedded() raises."""
        config, folder = self._config, self._config.path / namespace
        crawl = begin(folder, self._job_folder) if config.memory == "crawl" else None
        options = msgspec.structs.replace(config.options, namespace=namespace)
        detector = open_embedded(config.path, options)
        if detector.recipe.key is None:
            detector.close()
            raise RecipeMismatch(
                f"the store {config.path / namespace} was made with a secret: set DEDUP_SECRET to it"
            )
        self._detectors.append(detector)
        self._namespaces.append(namespace)
        if config.memory == "crawl":
            mark(folder, crawl)
        else:
            keep(folder)
        if isinstance(config.memory, int):
            pruned = detector.prune(time.time() - config.memory)
            logger.info("dedup: %r forgot %s", namespace, count(pruned, "old document"))
        return EmbeddedNamespace(detector, folder, self._counts)

    async def close(self) -> str:
        """Close the stores."""
        documents = 0
        for detector in self._detectors:
            try:
                with self._counts.meter, closing(detector):
                    documents += len(detector)
            except Exception as error:
                self._counts.fault(error, "the store may not hold the last pages of this crawl")
        only_one = len(self._namespaces) == 1
        where = self._config.path / (self._namespaces[0] if only_one else "")
        return f"{count(documents, 'document')} in {where}"


class EmbeddedNamespace:
    """The pages of one store."""

    def __init__(self, detector: EmbeddedDetector, folder: Path, counts: Counts) -> None:
        """Private: EmbeddedMemory.open() makes it."""
        self.folder = folder
        self.shared_rules = None
        self.detector = AsyncEmbeddedDetector(detector)
        self._detector = detector
        self._counts = counts

    def documents(self) -> list[Document]:
        """Return the last documents of the store, at most LAST. Raises StoreDamaged."""
        return last_documents(self.folder, LAST)

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages together; after an error one by one, as many as possible."""
        try:
            with self._counts.meter:
                late = self._detector.insert_many(verdicts)
        except Exception as error:
            if len(verdicts) == 1:
                self._counts.fault(error, f"{verdicts[0].key} was parsed, but is not remembered")
                with suppress(Exception):  # otherwise its copies would wait for it
                    self._detector.release(verdicts[0])
                return
            for verdict in verdicts:
                self.insert([verdict])
            return
        self._counts.add("inserted", len(late))
        if any(late):
            self._counts.add("late_duplicate", sum(late))

    def release(self, verdict: Verdict) -> None:
        """Release a page."""
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
