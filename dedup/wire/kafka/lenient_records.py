"""Records of Kafka whose header names are not UTF-8, which aiokafka alone cannot read.

    the bytes of a fetch -> aiokafka's batches -> records | where a name fails: the batch again, leniently

Invariant: a header's name, which no event needs, holds no partition up. What is no UTF-8 in it
becomes U+FFFD; key, value and everything else stay as they are.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any


def read_leniently() -> None:
    """Have all consumers of this process read so from now on. Calling it twice does nothing."""
    from aiokafka.consumer import fetcher

    if fetcher.MemoryRecords is not _Records:
        fetcher.MemoryRecords = _Records


class _Records:
    """The records of a fetch, in batches, as aiokafka's MemoryRecords."""

    def __init__(self, data: bytes) -> None:
        from aiokafka.record.memory_records import MemoryRecords

        self._data = data
        self._records: Any = MemoryRecords(data)
        self._taken = 0
        self.has_next = self._records.has_next
        self.size_in_bytes = self._records.size_in_bytes

    def next_batch(self) -> "_Batch":
        batch = self._records.next_batch()
        self._taken += 1
        return _Batch(batch, self._data, self._taken - 1)


class _Batch:
    """One batch of them, the `number`th."""

    def __init__(self, batch: Any, data: bytes, number: int) -> None:
        self._batch, self._data, self._number = batch, data, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        read = 0
        try:
            for record in self._batch:
                read += 1
                yield record
        except UnicodeDecodeError:
            yield from islice(self._again(), read, None)

    def _again(self) -> Iterator[Any]:
        """Yield the records of this batch from its first one, read by aiokafka's Python code."""
        from aiokafka.record.default_records import _DefaultRecordBatchPy
        from aiokafka.record.memory_records import _MemoryRecordsPy

        records = _MemoryRecordsPy(self._data)
        for _ in range(self._number):
            records.next_batch()
        at_hand = bytes(records._next_slice or b"")  # noqa: SLF001  (aiokafka has no other way in)
        batch: Any = _DefaultRecordBatchPy(at_hand)
        batch._maybe_uncompress()  # noqa: SLF001
        batch._buffer = _Buffer(batch._buffer)  # noqa: SLF001
        yield from batch


class _Buffer(bytearray):
    """Bytes whose parts are decoded with U+FFFD for what cannot be."""

    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return part if isinstance(part, int) else _Part(part)


class _Part(bytes):
    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002
        return super().decode(encoding, "replace")
