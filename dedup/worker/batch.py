"""A batch: records on their way from the input to the commit, as a state machine without I/O.

    Record -> (a verdict, or an error) -> Output: the same key, value, timestamp and headers, and ours
    undecided -> decided -> acknowledged -> done
        ^          |
        +- pending-+

Invariants:
  - Key and value pass through byte for byte, and so do all headers but those whose names begin with
    "dedup.", which are ours alone. U+FFFD replaces what is not UTF-8 in a header's name.
  - A page is inserted only after its output was acknowledged, and a record counts as done only after
    that. So a page is called a near-duplicate only of one whose output is safe.
  - The batch is done, and its offsets may be committed, when all of its records are. A crash before
    that makes the next worker read it again: a page that was inserted is then a refetch, never its own
    duplicate. Outputs may repeat; none is missing.
  - Unique pages are written and inserted before any page waits for one in flight, so waiting cannot
    deadlock.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from dedup.detector import Question
from dedup.model.page import PageFingerprint, ReserveOptions, Verdict
from dedup.model.verdict_forms import to_headers
from dedup.wire.kafka.writer import error_headers

Headers = tuple[tuple[str, bytes], ...]
Way = Literal["unique", "duplicates", "dead"]

OURS = "dedup."


class Record(msgspec.Struct, frozen=True):
    """A record that was read. timestamp_ms is Unix time; None where the record has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def record_of(found: Any) -> Record:
    """Convert an aiokafka.ConsumerRecord."""
    return Record(
        found.topic,
        found.partition,
        found.offset,
        found.timestamp if found.timestamp is not None and found.timestamp >= 0 else None,
        found.key,
        found.value,
        tuple(found.headers),
    )


class Output(msgspec.Struct, frozen=True):
    """A record to be written, and which of the three topics it goes to."""

    way: Way
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


def judged(record: Record, verdict: Verdict) -> Output:
    """Return the output of a judged page; raises ValueError while its verdict is pending."""
    if verdict.status == "pending":
        raise ValueError(f"{verdict.key!r} is not decided yet")
    way: Way = "duplicates" if verdict.status == "near_duplicate" else "unique"
    return _output(record, way, to_headers(verdict).items())


def kept(record: Record, reason: str) -> Output:
    """Return the output of a page that was not judged, for a reason."""
    return _output(record, "unique", {"status": "exempt", "reason": reason}.items())


def dead_letter(record: Record, stage: str, error: Exception, left_out: int = 0) -> Output:
    """Return the dead letter of a record that could not be read or written.

    stage     where it failed: "read" or "produce"
    left_out  1: the value, 2: key and headers, too, where the topic does not take them
    """
    ours = error_headers(
        (record.topic, record.partition, record.offset),
        stage,
        error,
        value_bytes=len(record.value or b"") if left_out else None,
    )
    if left_out == 2:  # Kafka takes no record without key and value
        return Output("dead", record.timestamp_ms, None, b"", ours)
    value = None if left_out else record.value
    if record.key is None and value is None:
        value = b""
    return Output("dead", record.timestamp_ms, record.key, value, _theirs(record) + ours)


def _output(record: Record, way: Way, ours: Iterable[tuple[str, object]]) -> Output:
    made = tuple((OURS + name, str(value).encode("utf-8", "replace")) for name, value in ours)
    return Output(way, record.timestamp_ms, record.key, record.value, _theirs(record) + made)


def _theirs(record: Record) -> Headers:
    return tuple(header for header in record.headers if not header[0].startswith(OURS))


Offsets = dict[tuple[str, int], int]  # the next offset of each (topic, partition)


class Reading(msgspec.Struct, frozen=True):
    """A record with its fingerprint, a reason to keep it unjudged, or an error."""

    record: Record
    key: str = ""
    url: str = ""
    page: PageFingerprint | None = None
    exempt: str | None = None
    error: Exception | None = None


class Batch:
    """The records of one read, known by number to questions(), to_send() and to_insert()."""

    def __init__(self, readings: Sequence[Reading], *, guard: bool = False) -> None:
        """Start with readings in the order of their offsets, of any partitions.

        guard keeps pages that are another page of their site by title or canonical URL.
        """
        self._guard = guard
        self._readings = readings
        self._undecided: dict[int, None] = {}  # in order, for they are asked about again
        self._outputs: dict[int, Output] = {}  # decided, and not acknowledged
        self._verdicts: dict[int, Verdict] = {}  # that hold a token, and are not inserted
        self._acknowledged: dict[int, None] = {}  # of those
        self._left_out: dict[int, int] = {}  # of dead letters
        self.counts: dict[str, int] = {}
        for number, reading in enumerate(readings):
            if reading.error is not None:
                self._outputs[number] = dead_letter(reading.record, "read", reading.error)
                self._count("dead")
            elif reading.page is None:
                self.keep(number, reading.exempt or "error")
            else:
                self._undecided[number] = None

    def __len__(self) -> int:
        return len(self._readings)

    # ------------------------------------------------------------------------------- deciding

    def questions(self, *, in_flight: bool = False) -> dict[int, Question]:
        """Return the undecided pages by number: all at first, the pending ones afterwards.

        in_flight keeps them whatever is in flight: they have waited long enough.
        """
        exempt = "in_flight" if in_flight else None
        questions = {}
        for number in self._undecided:
            reading = self._readings[number]
            assert reading.page is not None
            questions[number] = Question(
                reading.page,
                reading.key,
                ReserveOptions(url=reading.url, exempt=exempt, guard=self._guard),
            )
        return questions

    def judge(self, number: int, verdict: Verdict) -> None:
        """Take the answer for a page."""
        if verdict.status == "pending":
            return
        del self._undecided[number]
        self._outputs[number] = judged(self._readings[number].record, verdict)
        if verdict.token is not None:
            self._verdicts[number] = verdict
        self._count(verdict.status + (f"/{verdict.reason}" if verdict.reason else ""))

    def keep(self, number: int, reason: str) -> None:
        """Keep a page that could not be judged; it is never an original."""
        self._undecided.pop(number, None)
        self._outputs[number] = kept(self._readings[number].record, reason)
        self._count(f"exempt/{reason}")

    # -------------------------------------------------------------------------------- writing

    def to_send(self) -> list[tuple[int, Output]]:
        """Return the outputs that are decided and not acknowledged, in the order of the records."""
        return sorted(self._outputs.items(), key=lambda pair: pair[0])

    def sent(self, numbers: Iterable[int]) -> None:
        """Take the acknowledgements of outputs."""
        for number in numbers:
            del self._outputs[number]
            if number in self._verdicts:
                self._acknowledged[number] = None

    def refuse(self, number: int, error: Exception, *, too_large: bool) -> Verdict | None:
        """Send a record that an output topic refuses to the dead letters, smaller if it is too large.

        Returns the verdict to be released: a page that is in no output is no original.
        """
        left_out = int(too_large)
        if self._outputs[number].way == "dead":
            left_out = self._left_out.get(number, 0) + 1
        else:
            self._count("dead")
        self._left_out[number] = left_out
        letter = dead_letter(self._readings[number].record, "produce", error, left_out)
        self._outputs[number] = msgspec.structs.replace(letter, timestamp_ms=None)
        return self._verdicts.pop(number, None)

    def can_shrink(self, number: int) -> bool:
        """Whether refuse() can make a record's dead letter smaller."""
        return self._outputs[number].way != "dead" or self._left_out.get(number, 0) < 2

    def place(self, number: int) -> tuple[str, int, int]:
        """Return the topic, partition and offset of a record."""
        record = self._readings[number].record
        return record.topic, record.partition, record.offset

    # ------------------------------------------------------------------------------ inserting

    def to_insert(self) -> list[tuple[int, Verdict]]:
        """Return the verdicts whose outputs were acknowledged, in the order of the records."""
        return [(number, self._verdicts[number]) for number in sorted(self._acknowledged)]

    def inserted(self, numbers: Iterable[int]) -> None:
        """Record that pages are in the store, or will never be."""
        for number in numbers:
            del self._acknowledged[number]
            del self._verdicts[number]

    # ---------------------------------------------------------------------------------- the end

    @property
    def bad(self) -> list[tuple[int, Exception]]:
        """The records that could not be read, by number."""
        return [(i, each.error) for i, each in enumerate(self._readings) if each.error is not None]

    @property
    def pending(self) -> int:
        """The number of pages that are not decided."""
        return len(self._undecided)

    @property
    def done(self) -> bool:
        """Whether every record has its acknowledged output and its insert."""
        return not (self._undecided or self._outputs or self._verdicts)

    def held(self) -> list[Verdict]:
        """Return the open reservations, to be released when the batch is dropped."""
        return list(self._verdicts.values())

    def offsets(self) -> Offsets:
        """Return the next offset of each partition, to be committed once the batch is done."""
        if not self.done:
            raise ValueError("the batch is not done: its offsets must not be committed")
        found: Offsets = {}
        for record in (reading.record for reading in self._readings):
            place = (record.topic, record.partition)
            found[place] = max(found.get(place, 0), record.offset + 1)
        return found

    def timestamps(self) -> dict[tuple[str, int], int]:
        """Return the timestamp of the last record of each partition, Unix time in ms."""
        found = {}
        for record in (reading.record for reading in self._readings):
            if record.timestamp_ms is not None:
                found[record.topic, record.partition] = record.timestamp_ms
        return found

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
