"""Reading records: what takes CPU time, in threads beside the loop.

    records -> adapters -> fingerprints, in several threads

The rule kept here: a record that cannot be read becomes an error, a page that cannot be
fingerprinted is kept; neither stops what comes with it. The native core releases the GIL.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from dedup.core.fingerprint import fingerprint_text, read_page
from dedup.model.errors import EventInvalid, UsageError
from dedup.model.recipes import Recipe
from dedup.model.values import PageFingerprint
from dedup.worker.adapters import Page
from dedup.worker.page_batch import Reading
from dedup.worker.records import Record

__all__ = ["Reader"]

CHUNK = 16  # records read by a thread at a time


class Reader:
    """Reads records in threads. A context manager."""

    def __init__(
        self,
        adapter: Callable[[bytes | None], Page],
        recipe: Recipe,
        threads: int,
        fault: Callable[[str, Exception], None],
    ) -> None:
        """Read with an adapter, fingerprint under a recipe; fault is told of faults of ours."""
        self._adapter = adapter
        self._recipe = recipe
        self._fault = fault
        self._pool = ThreadPoolExecutor(threads, "dedup-read")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    async def read(self, records: Sequence[Record]) -> list[Reading]:
        """Return a reading of each record, in order."""
        loop = asyncio.get_running_loop()
        chunks = [
            loop.run_in_executor(self._pool, self._read_chunk, records[i : i + CHUNK])
            for i in range(0, len(records), CHUNK)
        ]
        return [reading for chunk in chunks for reading in await chunk]

    def _read_chunk(self, records: Sequence[Record]) -> list[Reading]:
        return [self.read_one(record) for record in records]

    def read_one(self, record: Record) -> Reading:
        """Return the reading of a record; never raises."""
        try:
            page = self._adapter(record.value)
        except EventInvalid as error:
            return Reading(record, error=error)
        except Exception as error:  # an adapter's fault: the record becomes a dead letter
            self._fault("adapt", error)
            return Reading(record, error=error)
        if page.exempt is not None:
            return Reading(record, page.key, page.url, exempt=page.exempt)
        try:
            found = self._fingerprint(page)
        except Exception as error:  # MemoryError among them
            self._fault("fingerprint", error)
            return Reading(record, page.key, page.url, exempt="error")
        if found is None:
            return Reading(record, page.key, page.url, exempt="data_page")
        return Reading(record, page.key, page.url, found)

    def _fingerprint(self, page: Page) -> PageFingerprint | None:
        """Return the fingerprint of a page; None for one that is mostly data."""
        if page.is_text:
            assert isinstance(page.content, str)
            return fingerprint_text(page.content, recipe=self._recipe)
        try:
            reading = read_page(
                page.content, encoding=page.encoding, url=page.url, recipe=self._recipe
            )
        except UsageError:  # an unknown encoding: as the page itself declares
            reading = read_page(page.content, url=page.url, recipe=self._recipe)
        return None if reading.data_bytes > reading.text_bytes else reading.fingerprint
