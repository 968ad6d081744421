"""A batch of records, from the input to the commit: its state machine, and what drives and retries it.

    InputRecord -> (a verdict, or an error) -> an output: the same key, value, timestamp and headers, and ours
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
from typing import Any, Literal

import msgspec

from dedup.core.faults import Backoff, SayOnce
from dedup.detector import AsyncDetector, Question
from dedup.model.errors import RecipeMismatch, ServiceUnavailable, StoreDamaged
from dedup.model.forms import to_headers
from dedup.model.names import site_of
from dedup.model.page import PageFingerprint, ReserveOptions, Verdict
from dedup.store.templates import Templates
from dedup.wire.kafka import writer
from dedup.wire.kafka.login import RecordRefused
from dedup.wire.kafka.writer import Headers, Outgoing, Writer
from dedup.worker.adapters import Topics

OURS = "dedup."


class InputRecord(msgspec.Struct, frozen=True):
    """A record that was read. timestamp_ms is Unix time; None where the record has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def record_of(found: Any) -> InputRecord:
    """Convert an aiokafka.ConsumerRecord."""
    return InputRecord(
        found.topic,
        found.partition,
        found.offset,
        found.timestamp if found.timestamp is not None and found.timestamp >= 0 else None,
        found.key,
        found.value,
        tuple(found.headers),
    )


def judged(record: InputRecord, verdict: Verdict, topics: Topics) -> Outgoing:
    """Return the output of a judged page; raises ValueError while its verdict is pending."""
    if verdict.status == "pending":
        raise ValueError(f"{verdict.key!r} is not decided yet")
    topic = topics.duplicates if verdict.status == "near_duplicate" else topics.unique
    return _output(record, topic, to_headers(verdict).items())


def kept(record: InputRecord, reason: str, topics: Topics) -> Outgoing:
    """Return the output of a page that was not judged, for a reason."""
    return _output(record, topics.unique, {"status": "exempt", "reason": reason}.items())


def dead_letter(
    record: InputRecord, stage: str, error: Exception, topics: Topics, left_out: int = 0
) -> Outgoing:
    """Return the dead letter of a record that could not be read or written, see dedup.wire.kafka.writer."""
    place = record.topic, record.partition, record.offset
    theirs = msgspec.structs.replace(record, headers=_theirs(record))
    made = writer.dead_letter(theirs, place, stage, error, left_out)
    return Outgoing(*made, topics.dead, timestamp_ms=record.timestamp_ms)


def _output(record: InputRecord, topic: str, ours: Iterable[tuple[str, object]]) -> Outgoing:
    made = tuple((OURS + name, str(value).encode("utf-8", "replace")) for name, value in ours)
    headers = _theirs(record) + made
    return Outgoing(record.key, record.value, headers, topic, timestamp_ms=record.timestamp_ms)


def _theirs(record: InputRecord) -> Headers:
    return tuple(header for header in record.headers if not header[0].startswith(OURS))


Offsets = dict[tuple[str, int], int]  # the next offset of each (topic, partition)


class ReadRecord(msgspec.Struct, frozen=True):
    """A record with its fingerprint, a reason to keep it unjudged, or an error."""

    record: InputRecord
    key: str = ""
    url: str = ""
    page: PageFingerprint | None = None
    exempt: str | None = None
    blocks: bytes = b""  # PageReading.blocks
    error: Exception | None = None


State = Literal["undecided", "decided", "acknowledged", "done"]


class Item:
    """A record of a batch on its way.

    page      its fingerprint, if it is to be judged
    output    once it is decided
    verdict   if it holds a token, until the page is inserted
    left_out  how much of its dead letter is left out
    """

    __slots__ = ("left_out", "output", "page", "reading", "state", "verdict")

    def __init__(self, reading: ReadRecord) -> None:
        self.reading = reading
        self.page = reading.page
        self.state: State = "undecided"
        self.output: Outgoing | None = None
        self.verdict: Verdict | None = None
        self.left_out = 0

    @property
    def place(self) -> tuple[str, int, int]:
        """The topic, partition and offset of the record."""
        record = self.reading.record
        return record.topic, record.partition, record.offset

    def question(self, *, exempt: str | None, guard: bool) -> Question:
        """Return what the detector is asked about the page."""
        reading = self.reading
        assert self.page is not None
        options = ReserveOptions(url=reading.url, exempt=exempt, guard=guard or self.page.partly)
        return Question(self.page, reading.key, options)

    def learn(self, templates: Templates) -> None:
        """Count the blocks of the page for its site."""
        reading = self.reading
        if self.page is not None and reading.blocks:
            site = site_of(reading.key, reading.url)
            self.page = templates.learned(self.page, reading.blocks, site)

    def acknowledge(self) -> None:
        """Note that the output is written; the page is to be inserted if it holds a token."""
        self.state = "done" if self.verdict is None else "acknowledged"

    def end(self) -> None:
        """Note that the page is in the store, or will never be."""
        self.state, self.verdict = "done", None


class Batch:
    """The records of one read, and what became of them."""

    def __init__(
        self, readings: Sequence[ReadRecord], topics: Topics, *, guard: bool = False
    ) -> None:
        """Start with readings in the order of their offsets, of any partitions.

        guard keeps pages that are another page of their site by title or canonical URL.
        """
        self.guard = guard
        self._topics = topics
        self._items = [Item(reading) for reading in readings]
        self.counts: dict[str, int] = {}
        for item in self._items:
            if item.reading.error is not None:
                letter = dead_letter(item.reading.record, "read", item.reading.error, topics)
                self._decide(item, letter, "dead")
            elif item.reading.page is None:
                self.keep(item, item.reading.exempt or "error")

    def __len__(self) -> int:
        return len(self._items)

    def of(self, state: State) -> list[Item]:
        """Return the records in a state, in their order."""
        return [item for item in self._items if item.state == state]

    def judge(self, item: Item, verdict: Verdict) -> None:
        """Take the answer for a page."""
        if verdict.status == "pending":
            return
        if verdict.token is not None:
            item.verdict = verdict
        reason = f"/{verdict.reason}" if verdict.reason else ""
        output = judged(item.reading.record, verdict, self._topics)
        self._decide(item, output, verdict.status + reason)

    def keep(self, item: Item, reason: str) -> None:
        """Keep a page that could not be judged; it is never an original."""
        self._decide(item, kept(item.reading.record, reason, self._topics), f"exempt/{reason}")

    def refuse(self, item: Item, error: RecordRefused) -> Verdict | None:
        """Send a record that an output topic refuses to the dead letters, smaller if it is too large.

        Returns the verdict to be released: a page that is in no output is no original.
        """
        if self.is_dead(item):
            item.left_out += 1
        else:
            item.left_out = int(error.too_large)
            self._count("dead")
        record = item.reading.record
        letter = dead_letter(record, "produce", error, self._topics, item.left_out)
        item.output = letter._replace(timestamp_ms=None)
        verdict, item.verdict = item.verdict, None
        return verdict

    def is_dead(self, item: Item) -> bool:
        """Whether the output of a record is a dead letter."""
        return item.output is not None and item.output.topic == self._topics.dead

    @property
    def done(self) -> bool:
        """Whether every record has its acknowledged output and its insert."""
        return all(item.state == "done" for item in self._items)

    def held(self) -> list[Verdict]:
        """Return the open reservations, to be released when the batch is dropped."""
        return [item.verdict for item in self._items if item.verdict is not None]

    def offsets(self) -> Offsets:
        """Return the next offset of each partition, to be committed once the batch is done."""
        if not self.done:
            raise ValueError("the batch is not done: its offsets must not be committed")
        found: Offsets = {}
        for topic, partition, offset in (item.place for item in self._items):
            found[topic, partition] = max(found.get((topic, partition), 0), offset + 1)
        return found

    def timestamps(self) -> dict[tuple[str, int], int]:
        """Return the timestamp of the last record of each partition, Unix time in ms."""
        records = (item.reading.record for item in self._items)
        return {
            (record.topic, record.partition): record.timestamp_ms
            for record in records
            if record.timestamp_ms is not None
        }

    def _decide(self, item: Item, output: Outgoing, count: str) -> None:
        item.output, item.state = output, "decided"
        self._count(count)

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


class Pipeline:
    """Settles batches, one after the other."""

    def __init__(
        self,
        detector: AsyncDetector,
        outputs: Writer,
        fault: Callable[[str, Exception], None],
        count: Callable[[str, int], None],
        *,
        wait_seconds: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Call fault for each fault (the step, the error), and count for each kind of event.

        wait_seconds: how long a page waits for one in flight elsewhere.
        """
        self._detector = detector
        self._outputs = outputs
        self._fault = fault
        self._count = count
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._sleep = sleep
        self._said = SayOnce(again_seconds=AGAIN_SECONDS)

    async def settle(self, batch: Batch) -> None:
        """Settle a batch. After a cancellation or an error, give_up() must follow."""
        for item in batch.of("decided"):
            if item.reading.error is not None:
                self._say_dead(item, item.reading.error)
        for item in batch.of("undecided"):
            item.learn(self._detector.templates)
        pauses = Backoff(FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
        until: float | None = None
        while True:
            await self._decide(batch, in_flight=until is not None and self._clock() >= until)
            await self._write(batch)
            await self._insert(batch)
            if not batch.of("undecided"):
                return
            if until is not None:
                await self._sleep(pauses.next())
            else:  # what it waits for may have been of this batch
                until = self._clock() + self._wait_seconds

    async def give_up(self, batch: Batch) -> None:
        """Release the reservations of a batch, which will be read again."""
        await self._release(batch.held())

    async def _decide(self, batch: Batch, *, in_flight: bool) -> None:
        """Judge the undecided pages; in_flight keeps them whatever is in flight: they have waited."""
        retry = _retry_pauses()
        exempt = "in_flight" if in_flight else None
        asked = batch.of("undecided")
        while asked:
            again: list[Item] = []
            passing: Exception | None = None
            answers = await self._reserve(
                [item.question(exempt=exempt, guard=batch.guard) for item in asked]
            )
            for item, answer in zip(asked, answers, strict=True):
                if isinstance(answer, Verdict):
                    batch.judge(item, answer)
                elif isinstance(answer, FATAL):
                    raise answer
                elif isinstance(answer, PASSING):
                    again.append(item)
                    passing = answer
                else:
                    self._fault("judge", answer)
                    batch.keep(item, "error")
            if passing is None:
                return
            self._fault("reserve", passing)
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
        except Exception as error:  # noqa: BLE001 - counted, and tried again or one by one
            self._fault("release", error)
        else:
            self._count("released", len(verdicts))

    def _say_dead(self, item: Item, error: Exception) -> None:
        """Log a dead letter, once a minute for each kind of error."""
        kind = type(error).__name__
        text = "%s, partition %d, offset %d: written to the dead letters: %s: %s"
        self._said.log(log, kind, text, *item.place, kind, error, level=logging.WARNING)

    async def _write(self, batch: Batch) -> None:
        retry = _retry_pauses()
        while sending := batch.of("decided"):
            outputs = [item.output for item in sending if item.output is not None]
            failed: Exception | None = None
            results = await self._outputs.send_each(outputs)
            for item, result in zip(sending, results, strict=True):
                if isinstance(result, RecordRefused):
                    await self._refused(batch, item, result)
                elif isinstance(result, Exception):
                    failed = result
                else:
                    item.acknowledge()
            if failed is not None:
                self._fault("write", failed)
                await self._sleep(retry.next())

    async def _refused(self, batch: Batch, item: Item, error: RecordRefused) -> None:
        """Make an output that Kafka will never take a dead letter, or a dead letter smaller."""
        is_dead = batch.is_dead(item)
        if is_dead and not error.too_large:
            raise error  # not even as a dead letter: the topic itself is wrong
        self._fault("refused", error)
        if is_dead and item.left_out == 2:
            text = "%s, partition %d, offset %d: its dead letter cannot be written: %s"
            log.error(text, *item.place, error)
            self._count("dead_lost", 1)
            item.acknowledge()
            return
        if not is_dead:
            self._say_dead(item, error)
        verdict = batch.refuse(item, error)
        if verdict is not None:
            await self._release([verdict])

    async def _insert(self, batch: Batch) -> None:
        retry = _retry_pauses()
        one_by_one = False
        while items := batch.of("acknowledged"):
            if one_by_one:
                items = items[:1]
            verdicts = [item.verdict for item in items if item.verdict is not None]
            try:
                late = sum(await self._detector.insert_many(verdicts))
            except FATAL:
                raise
            except PASSING as error:
                self._fault("insert", error)
                await self._sleep(retry.next())
                continue
            except Exception as error:  # noqa: BLE001 - counted, and tried again or one by one
                if len(verdicts) > 1:  # those that can be inserted are
                    one_by_one = True
                    continue
                # its output is written: nothing is lost when its duplicates are kept
                self._fault("insert", error)
                await self._release(verdicts)
            else:
                self._count("inserted", len(items))
                if late:
                    self._count("late_duplicate", late)
            for item in items:
                item.end()


def _retry_pauses() -> Backoff:
    return Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
