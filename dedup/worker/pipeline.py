"""A batch of records, from the input to the commit: its state machine, and what drives and retries it.

    Record -> (a verdict, or an error) -> an output: the same key, value, timestamp and headers, and ours
    undecided -> decided -> acknowledged -> done
        ^          |
        +- pending-+
    reserve -> write, until all is acknowledged -> insert -> ask again what is pending -> done

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
  - Temporary failures (a service or a broker that is away, a full disk) are retried until they pass or
    the worker is told to stop. What cannot pass ends as a dead letter (a record that no topic takes),
    as a page kept unjudged (an internal error), or ends the worker before anything is committed (a
    store of another recipe, or damaged). A dead letter that its topic refuses at any size is logged.

Detector and writer do the I/O, and the clock is an argument.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dedup.core.backoff import Backoff
from dedup.core.say_once import SayOnce
from dedup.detector import AsyncDetector, Question
from dedup.model.errors import RecipeMismatch, ServiceUnavailable, StoreDamaged
from dedup.model.page import PageFingerprint, ReserveOptions, Verdict
from dedup.model.verdict_forms import to_headers
from dedup.wire.kafka import writer
from dedup.wire.kafka.login import Refused
from dedup.wire.kafka.writer import Headers, Outgoing, Writer
from dedup.worker.adapters import Topics

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


def judged(record: Record, verdict: Verdict, topics: Topics) -> Outgoing:
    """Return the output of a judged page; raises ValueError while its verdict is pending."""
    if verdict.status == "pending":
        raise ValueError(f"{verdict.key!r} is not decided yet")
    topic = topics.duplicates if verdict.status == "near_duplicate" else topics.unique
    return _output(record, topic, to_headers(verdict).items())


def kept(record: Record, reason: str, topics: Topics) -> Outgoing:
    """Return the output of a page that was not judged, for a reason."""
    return _output(record, topics.unique, {"status": "exempt", "reason": reason}.items())


def dead_letter(
    record: Record, stage: str, error: Exception, topics: Topics, left_out: int = 0
) -> Outgoing:
    """Return the dead letter of a record that could not be read or written, see dedup.wire.kafka.writer."""
    place = record.topic, record.partition, record.offset
    theirs = msgspec.structs.replace(record, headers=_theirs(record))
    made = writer.dead_letter(theirs, place, stage, error, left_out)
    return Outgoing(*made, topics.dead, timestamp_ms=record.timestamp_ms)


def _output(record: Record, topic: str, ours: Iterable[tuple[str, object]]) -> Outgoing:
    made = tuple((OURS + name, str(value).encode("utf-8", "replace")) for name, value in ours)
    headers = _theirs(record) + made
    return Outgoing(record.key, record.value, headers, topic, timestamp_ms=record.timestamp_ms)


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

    def __init__(self, readings: Sequence[Reading], topics: Topics, *, guard: bool = False) -> None:
        """Start with readings in the order of their offsets, of any partitions.

        guard keeps pages that are another page of their site by title or canonical URL.
        """
        self._guard = guard
        self._topics = topics
        self._readings = readings
        self._undecided: dict[int, None] = {}  # in order, for they are asked about again
        self._outputs: dict[int, Outgoing] = {}  # decided, and not acknowledged
        self._verdicts: dict[int, Verdict] = {}  # that hold a token, and are not inserted
        self._acknowledged: dict[int, None] = {}  # of those
        self._left_out: dict[int, int] = {}  # of dead letters
        self.counts: dict[str, int] = {}
        for number, reading in enumerate(readings):
            if reading.error is not None:
                self._outputs[number] = dead_letter(reading.record, "read", reading.error, topics)
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
        self._outputs[number] = judged(self._readings[number].record, verdict, self._topics)
        if verdict.token is not None:
            self._verdicts[number] = verdict
        self._count(verdict.status + (f"/{verdict.reason}" if verdict.reason else ""))

    def keep(self, number: int, reason: str) -> None:
        """Keep a page that could not be judged; it is never an original."""
        self._undecided.pop(number, None)
        self._outputs[number] = kept(self._readings[number].record, reason, self._topics)
        self._count(f"exempt/{reason}")

    # -------------------------------------------------------------------------------- writing

    def to_send(self) -> list[tuple[int, Outgoing]]:
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
        if self.is_dead(number):
            left_out = self._left_out.get(number, 0) + 1
        else:
            self._count("dead")
        self._left_out[number] = left_out
        record = self._readings[number].record
        letter = dead_letter(record, "produce", error, self._topics, left_out)
        self._outputs[number] = letter._replace(timestamp_ms=None)
        return self._verdicts.pop(number, None)

    def is_dead(self, number: int) -> bool:
        """Whether the output of a record is a dead letter."""
        return self._outputs[number].topic == self._topics.dead

    def can_shrink(self, number: int) -> bool:
        """Whether refuse() can make a record's dead letter smaller."""
        return not self.is_dead(number) or self._left_out.get(number, 0) < 2

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


log = logging.getLogger("dedup.worker")

FIRST_WAIT_SECONDS = 0.005
LONGEST_WAIT_SECONDS = 0.1
FIRST_RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 10.0
AGAIN_SECONDS = 60.0  # between two log lines about dead letters of one kind

FATAL = (RecipeMismatch, StoreDamaged)  # nothing may be judged or committed after them
PASSING = (ServiceUnavailable, OSError)  # TimeoutError is one, too


@dataclass(frozen=True, slots=True)
class Events:
    """Callbacks of the pipeline: a fault (the step, the error), and counts of events."""

    fault: Callable[[str, Exception], None]
    count: Callable[[str, int], None]


class Pipeline:
    """Settles batches, one after the other."""

    def __init__(
        self,
        detector: AsyncDetector,
        outputs: Writer,
        events: Events,
        *,
        wait_seconds: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """wait_seconds: how long a page waits for one in flight elsewhere."""
        self._detector = detector
        self._outputs = outputs
        self._events = events
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._sleep = sleep
        self._said = SayOnce(again_seconds=AGAIN_SECONDS)

    async def settle(self, batch: Batch) -> None:
        """Settle a batch. After a cancellation or an error, give_up() must follow."""
        for number, error in batch.bad:
            self._say_dead(batch.place(number), error)
        pauses = Backoff(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
        until: float | None = None
        while True:
            await self._decide(batch, in_flight=until is not None and self._clock() >= until)
            await self._write(batch)
            await self._insert(batch)
            if not batch.pending:
                return
            if until is not None:
                await self._sleep(pauses.next())
            else:  # what it waits for may have been of this batch
                until = self._clock() + self._wait_seconds

    async def give_up(self, batch: Batch) -> None:
        """Release the reservations of a batch, which will be read again."""
        await self._release(batch.held())

    async def _decide(self, batch: Batch, *, in_flight: bool) -> None:
        retry = _retry_pauses()
        asked = batch.questions(in_flight=in_flight)
        while asked:
            again: dict[int, Question] = {}
            passing: Exception | None = None
            answers = await self._reserve([*asked.values()])
            for (number, question), answer in zip(asked.items(), answers, strict=True):
                if isinstance(answer, Verdict):
                    batch.judge(number, answer)
                elif isinstance(answer, FATAL):
                    raise answer
                elif isinstance(answer, PASSING):
                    again[number] = question
                    passing = answer
                else:
                    self._events.fault("judge", answer)
                    batch.keep(number, "error")
            if passing is None:
                return
            self._events.fault("reserve", passing)
            asked = again
            await self._sleep(retry.next())

    async def _reserve(self, questions: Sequence[Question]) -> list[Verdict | Exception]:
        """Reserve pages; when cancelled, wait for the answer and release what was reserved."""
        asking = asyncio.ensure_future(self._detector.reserve_many(questions))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            await self._release([a for a in await asking if isinstance(a, Verdict) and a.token])
            raise

    async def _release(self, verdicts: Sequence[Verdict]) -> None:
        if not verdicts:
            return
        try:
            await self._detector.release_many(verdicts)
        except Exception as error:  # they expire
            self._events.fault("release", error)
        else:
            self._events.count("released", len(verdicts))

    def _say_dead(self, place: tuple[str, int, int], error: Exception) -> None:
        """Log a dead letter, once a minute for each kind of error."""
        self._said.log(
            log,
            type(error).__name__,
            "%s, partition %d, offset %d: written to the dead letters: %s: %s",
            *place,
            type(error).__name__,
            error,
            level=logging.WARNING,
        )

    async def _write(self, batch: Batch) -> None:
        retry = _retry_pauses()
        while sending := batch.to_send():
            results = await self._outputs.send_each([output for _, output in sending])
            sent: list[int] = []
            failed: Exception | None = None
            for (number, _), result in zip(sending, results, strict=True):
                if not isinstance(result, Exception):
                    sent.append(number)
                elif isinstance(result, Refused):
                    is_dead = batch.is_dead(number)
                    if is_dead and not result.too_large:
                        raise result  # not even as a dead letter: the topic itself is wrong
                    self._events.fault("refused", result)
                    if not batch.can_shrink(number):
                        log.error(
                            "%s, partition %d, offset %d: its dead letter cannot be written: %s",
                            *batch.place(number),
                            result,
                        )
                        self._events.count("dead_lost", 1)
                        sent.append(number)
                        continue
                    if not is_dead:
                        self._say_dead(batch.place(number), result)
                    verdict = batch.refuse(number, result, too_large=result.too_large)
                    if verdict is not None:
                        await self._release([verdict])
                else:
                    failed = result
            batch.sent(sent)
            if failed is not None:
                self._events.fault("write", failed)
                await self._sleep(retry.next())

    async def _insert(self, batch: Batch) -> None:
        retry = _retry_pauses()
        one_by_one = False
        while inserting := batch.to_insert():
            if one_by_one:
                inserting = inserting[:1]
            numbers, verdicts = zip(*inserting, strict=True)
            try:
                late = sum(await self._detector.insert_many(verdicts))
            except FATAL:
                raise
            except PASSING as error:
                self._events.fault("insert", error)
                await self._sleep(retry.next())
            except Exception as error:
                if len(verdicts) > 1:  # those that can be inserted are
                    one_by_one = True
                    continue
                # its output is written: nothing is lost when its duplicates are kept
                self._events.fault("insert", error)
                await self._release(verdicts)
                batch.inserted(numbers)
            else:
                batch.inserted(numbers)
                self._events.count("inserted", len(numbers))
                if late:
                    self._events.count("late_duplicate", late)


def _retry_pauses() -> Backoff:
    return Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
