"""A batch: records on their way from the input to the commit, as a state machine without I/O.

    undecided -> decided -> acknowledged -> done
        ^          |
        +- pending-+

The rules kept here:
  - A page is inserted only after its output was acknowledged, and a record counts as done only after
    that. So a page is called a near-duplicate only of one whose output is safe.
  - The batch is done, and its offsets may be committed, when all of its records are. What a crash
    leaves half way is read again: a page that was inserted is then a refetch, never its own
    duplicate. Outputs may repeat; none is missing.
  - A page waits only for others, never those for it: uniques are written and inserted before anyone
    waits for a page in flight.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dedup.detector import Question
from dedup.model.values import PageFingerprint, Verdict
from dedup.worker.records import Output, Record, dead_letter, judged, kept

__all__ = ["Batch", "Offsets", "Reading"]

Offsets = dict[tuple[str, int], int]  # the next offset of each (topic, partition)


class Reading(msgspec.Struct, frozen=True):
    """A record, and what reading it came to: a fingerprint, a reason to keep it unjudged, or an error."""

    record: Record
    key: str = ""
    url: str = ""
    page: PageFingerprint | None = None
    exempt: str | None = None
    error: Exception | None = None


class Batch:
    """The records of one read. Methods take the numbers that questions() and to_send() gave out."""

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
        """Return the pages to ask about, by number: all at first, the pending ones afterwards.

        in_flight keeps them whatever is in flight, for they waited long enough.
        """
        exempt = "in_flight" if in_flight else None
        questions = {}
        for number in self._undecided:
            reading = self._readings[number]
            assert reading.page is not None
            questions[number] = Question(
                reading.page, reading.key, reading.url, exempt=exempt, guard=self._guard
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
        """Keep a page that could not be judged; no page will be called its duplicate."""
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

    def refuse(self, number: int, error: Exception, *, whole: bool) -> Verdict | None:
        """Send a record that no output topic takes to the dead letters.

        Returns the verdict that has to be released: a page that is in no output is no original.
        """
        record = self._readings[number].record
        letter = dead_letter(record, "produce", error, whole=whole)
        self._outputs[number] = msgspec.structs.replace(letter, timestamp_ms=None)
        self._count("dead")
        return self._verdicts.pop(number, None)

    # ------------------------------------------------------------------------------ inserting

    def to_insert(self) -> list[tuple[int, Verdict]]:
        """Return the verdicts whose outputs were acknowledged, in the order of the records."""
        return [(number, self._verdicts[number]) for number in sorted(self._acknowledged)]

    def inserted(self, numbers: Iterable[int]) -> None:
        """Take note of pages that are in the store, or that the store will never take."""
        for number in numbers:
            del self._acknowledged[number]
            del self._verdicts[number]

    # ---------------------------------------------------------------------------------- the end

    @property
    def pending(self) -> int:
        """The number of pages that are not decided."""
        return len(self._undecided)

    @property
    def done(self) -> bool:
        """Whether every record has its acknowledged output and its insert."""
        return not (self._undecided or self._outputs or self._verdicts)

    def held(self) -> list[Verdict]:
        """Return the reservations that were not ended, to be released when the batch is given up."""
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
