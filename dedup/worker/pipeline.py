"""Drive a batch through detector and outputs, and retry what fails.

    reserve -> write, until all is acknowledged -> insert -> ask again what is pending -> done

Invariants: temporary failures (a service or a broker that is away, a full disk) are retried until they
pass or the worker is told to stop. What cannot pass ends as a dead letter (a record that no topic
takes), as a page kept unjudged (an internal error), or ends the worker before anything is committed
(a store of another recipe, or damaged). A dead letter that its topic refuses at any size is logged
with its place, and passed.

Detector and outputs are interfaces, and the clock is an argument: nothing here does I/O.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dedup.core.backoff import Backoff
from dedup.core.say_once import SayOnce
from dedup.detector import AsyncDetector, Question
from dedup.model.errors import RecipeMismatch, ServiceUnavailable, StoreDamaged
from dedup.model.page import Verdict
from dedup.wire.kafka.supervision import Refused
from dedup.worker.batch import Batch, Output

log = logging.getLogger("dedup.worker")

FIRST_WAIT_SECONDS = 0.005
LONGEST_WAIT_SECONDS = 0.1
FIRST_RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 10.0
AGAIN_SECONDS = 60.0  # between two log lines about dead letters of one kind

FATAL = (RecipeMismatch, StoreDamaged)  # nothing may be judged or committed after them
PASSING = (ServiceUnavailable, OSError)  # TimeoutError is one, too


class Outputs(Protocol):
    """The topics that are written to."""

    async def send(self, outputs: Sequence[Output]) -> list[Exception | None]:
        """Write each and wait for the acknowledgements; return None for one, else its error.

        Refused is final, everything else may be retried.
        """


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
        outputs: Outputs,
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
            results = await self._outputs.send([output for _, output in sending])
            sent, failed = [], None
            for (number, output), result in zip(sending, results, strict=True):
                if result is None:
                    sent.append(number)
                elif isinstance(result, Refused):
                    if output.way == "dead" and not result.too_large:
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
                    if output.way != "dead":
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
