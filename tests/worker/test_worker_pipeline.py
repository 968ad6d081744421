"""The pipeline, with a real store and outputs that fail: nothing is lost, whatever happens when."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pagestream
import pytest
from picture_site import SITE, learned_late, picture
from sizes import FULL

import dedup
from dedup.detector import AsyncEmbeddedDetector
from dedup.model.errors import RecipeMismatch, ServiceUnavailable
from dedup.wire.kafka import RecordRefused, kafka_config
from dedup.wire.kafka.writer import Outgoing, Sent
from dedup.worker.adapters import FORMATS, WorkerConfig, adapter
from dedup.worker.adapters import Topics as Names
from dedup.worker.pipeline import Batch, InputRecord, Pipeline
from dedup.worker.worker import PageReader, WorkerHealth, WorkerMetrics
from dedup.worker.worker import Worker as KafkaWorker

SEEDS = range(45, 120) if FULL else range(45)


class Crash(BaseException):
    """The process ends here."""


class Chance:
    """Faults and crashes at moments that a seed chooses."""

    def __init__(self, seed: int, faults: float = 0.0, crashes: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.faults, self.crashes = faults, crashes

    def strike(self, error: type[Exception] = OSError) -> None:
        if self.random.random() < self.crashes:
            raise Crash
        if self.random.random() < self.faults:
            raise error("by chance")


NAMES = Names("pages", "unique", "duplicates", "dead")


class Topics:
    """The outputs: a list of what was written, in order."""

    def __init__(self, chance: Chance) -> None:
        self.written: list[Outgoing] = []
        self.refused: dict[bytes, bool] = {}  # key -> too_large
        self.chance = chance

    async def send_each(self, outputs: Sequence[Outgoing]) -> list[Sent | Exception]:
        assert outputs
        results: list[Sent | Exception] = []
        for output in outputs:
            too_large = self.refused.get(output.key or b"")
            if too_large is not None and (output.topic != "dead" or (too_large and output.value)):
                results.append(RecordRefused("refused", too_large=too_large))
                continue
            try:
                self.chance.strike()
                self.written.append(output)
                self.chance.strike()  # written, but nobody was told
            except OSError as error:
                results.append(error)
            else:
                results.append((0, len(self.written)))
        return results

    def of(self, way: str) -> list[Outgoing]:
        return [output for output in self.written if output.topic == way]


class FailingDetector(AsyncEmbeddedDetector):
    """A detector whose calls fail by chance, before and after they did their work."""

    chance: Chance

    async def reserve_many(self, questions):
        answers = await super().reserve_many(questions)
        for i, answer in enumerate(answers):
            try:
                self.chance.strike(ServiceUnavailable)
            except ServiceUnavailable as error:
                if isinstance(answer, dedup.Verdict):
                    await super().release_many([answer])
                answers[i] = error
        return answers

    async def insert_many(self, verdicts):
        self.chance.strike()
        late = await super().insert_many(verdicts)
        self.chance.strike()
        return late


class Worker:
    """One life of a worker: a store, reader and pipeline; told events are kept."""

    def __init__(self, folder: Path, topics: Topics, chance: Chance) -> None:
        self.faults: list[tuple[str, str]] = []
        self.counts: dict[str, int] = {}
        self.now = 0.0
        self.detector = FailingDetector(dedup.open(folder))
        self.detector.chance = chance
        self.reader = PageReader(adapter(FORMATS["json"]), self.detector.recipe, self.fault)
        self.pipeline = Pipeline(
            self.detector, topics, self.fault, self.count,
            wait_seconds=1.0, clock=lambda: self.now, sleep=self.sleep,
        )  # fmt: skip

    def fault(self, step: str, error: Exception) -> None:
        self.faults.append((step, type(error).__name__))

    def count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    async def settle(self, records: Sequence[InputRecord], *, guard: bool = False) -> Batch:
        batch = Batch(await self.reader.read(records), NAMES, guard=guard)
        await self.pipeline.settle(batch)
        for name, number in batch.counts.items():
            self.count(name, number)
        return batch


@contextmanager
def working(folder: Path, topics: Topics | None = None, chance: Chance | None = None) -> Iterator:
    chance = chance or Chance(0)
    worker = Worker(folder, topics or Topics(chance), chance)
    with worker.reader:
        try:
            yield worker
        finally:
            asyncio.run(worker.detector.__aexit__())


@pytest.fixture
def topics() -> Topics:
    """Outputs that never fail."""
    return Topics(Chance(0))


def header(output: Outgoing, name: str) -> str:
    (found,) = [value for key, value in output.headers if key == name]
    return found.decode()


def log(contents: int, copies: int, seed: int) -> list[InputRecord]:
    pages = pagestream.stream(contents, copies, seed)
    return [pagestream.record(i, *page) for i, page in enumerate(pages)]


def test_a_worker_learns_the_frames_of_sites(tmp_path, topics):
    """A page that is its site's template and nearly nothing else is kept, in whatever batches the pages come."""
    pages = [{"url": f"{SITE}/{i}", "html": picture(i)} for i in range(60)]
    records = [
        InputRecord("p", 0, i, 1, None, json.dumps(page).encode()) for i, page in enumerate(pages)
    ]
    with working(tmp_path, topics) as worker:
        for first in range(0, 60, 7):
            asyncio.run(worker.settle(records[first : first + 7]))
    found = {}
    for output in topics.written:
        names = dict(output.headers)
        said = names["dedup.status"].decode()
        reason = names.get("dedup.reason", b"").decode()
        found[json.loads(output.value)["url"]] = f"{said} {reason}".strip()
    assert learned_late([found[page["url"]] for page in pages])


def test_our_headers_of_an_earlier_worker_are_replaced(tmp_path, topics):
    """A record that went through a worker before carries one verdict, the last one."""
    record = pagestream.record(0, 1)
    old = (("dedup.status", b"near_duplicate"), ("dedup.of", b"x"), ("other", b"y"))
    with working(tmp_path, topics) as worker:
        asyncio.run(worker.settle([InputRecord("p", 0, 0, 1, b"k", record.value, old)]))
    assert topics.written[0].headers == (("other", b"y"), ("dedup.status", b"unique"))


def test_what_cannot_be_judged_says_why(tmp_path, topics):
    """Short pages, data pages and such of our own faults are kept with their reason."""
    data = f'<script type="application/json">{{"text": "{pagestream.story(1)}"}}</script>'
    values = [
        b'{"url": "http://a/s", "html": "short"}',
        json.dumps({"url": "http://a/d", "html": data}).encode(),
    ]
    records = [InputRecord("p", 0, i, 1, None, value) for i, value in enumerate(values)]
    with working(tmp_path, topics) as worker:
        asyncio.run(worker.settle(records))
    assert [(header(o, "dedup.status"), header(o, "dedup.reason")) for o in topics.written] == [
        ("exempt", "short"),
        ("exempt", "data_page"),
    ]


@pytest.mark.parametrize("guard", [False, True])
def test_another_page_by_its_title_is_kept_where_asked(tmp_path, topics, guard):
    """Alike texts under two titles: without --identity a near-duplicate that says so, else kept."""
    pages = [("first", "one"), ("second", "two")]
    records = [
        InputRecord("p", 0, i, 1, None, json.dumps(
            {"url": f"http://a.example/{i}",
             "html": f"<title>The {title}</title><p>{pagestream.story(1)} {word}</p>"}
        ).encode())
        for i, (title, word) in enumerate(pages)
    ]  # fmt: skip
    with working(tmp_path, topics) as worker:
        asyncio.run(worker.settle(records, guard=guard))
    first, second = topics.written
    assert header(first, "dedup.status") == "unique"
    if guard:
        assert (header(second, "dedup.status"), second.topic) == ("exempt", "unique")
        assert header(second, "dedup.reason") == "other_title"
    else:
        assert (header(second, "dedup.status"), second.topic) == ("near_duplicate", "duplicates")
        assert header(second, "dedup.identity") == "other"


def test_a_page_in_flight_elsewhere_is_waited_for_then_kept(tmp_path, topics):
    """A near-duplicate of a page that somebody else holds is kept as in_flight after the wait."""
    with working(tmp_path, topics) as worker, dedup.open(tmp_path) as other:
        page = other.fingerprint(pagestream.html(1))
        held = other.reserve(page, "http://example.com/elsewhere")
        asyncio.run(worker.settle([pagestream.record(0, 1, 5)]))
        assert worker.now >= 1.0
        assert header(topics.written[0], "dedup.reason") == "in_flight"
        assert other.insert(held)  # a late duplicate: both stay


def test_a_page_in_flight_elsewhere_that_is_inserted_is_the_original(tmp_path, topics):
    """A pending page becomes a near-duplicate once the page it waits for is inserted."""
    with working(tmp_path, topics) as worker, dedup.open(tmp_path) as other:
        page = other.fingerprint(pagestream.html(1))
        held = other.reserve(page, "http://example.com/elsewhere")
        pause = worker.sleep

        async def sleep(seconds: float) -> None:
            await pause(seconds)
            other.insert(held)

        worker.pipeline._sleep = sleep
        asyncio.run(worker.settle([pagestream.record(0, 1, 5)]))
    assert header(topics.written[0], "dedup.of") == "http://example.com/elsewhere"


async def cancelled(
    worker: Worker, reached: asyncio.Event, go_on: asyncio.Event | None = None
) -> Batch:
    """Cancel a batch when it has come to a step, then let that go on."""
    batch = Batch(await worker.reader.read(log(5, 1, seed=3)), NAMES)
    task = asyncio.create_task(worker.pipeline.settle(batch))
    await reached.wait()
    task.cancel()
    if go_on is not None:
        await asyncio.sleep(0)
        go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await worker.pipeline.give_up(batch)
    return batch


def test_a_batch_given_up_releases_its_pages(tmp_path, topics):
    """Cancelled in the middle, a batch gives its reservations back; its offsets are not to be had."""
    started = asyncio.Event()

    async def never(_: object) -> list:
        started.set()
        await asyncio.Event().wait()
        return []

    topics.send_each = never
    with working(tmp_path, topics) as worker:
        batch = asyncio.run(cancelled(worker, started))
        assert worker.detector.embedded.info()["in_flight"] == 0
    assert worker.counts == {"released": 5}
    with pytest.raises(ValueError, match="must not be committed"):
        batch.offsets()


def test_cancelled_while_it_asks_a_batch_holds_nothing(tmp_path):
    """A reservation that is taken while the worker gives up is given back too."""
    asked, go_on = asyncio.Event(), asyncio.Event()
    with working(tmp_path) as worker:
        reserve = worker.detector.reserve_many

        async def slow(questions):
            answers = await reserve(questions)
            asked.set()
            await go_on.wait()
            return answers

        worker.detector.reserve_many = slow
        asyncio.run(cancelled(worker, asked, go_on))
        assert worker.detector.embedded.info()["in_flight"] == 0


@pytest.mark.parametrize("too_large", [False, True])
def test_a_record_that_no_topic_takes_is_a_dead_letter_and_no_original(tmp_path, topics, too_large):
    """It goes to the dead letters, without its value if that is why; its copy is the unique page."""
    first, copy = pagestream.record(0, 1, 0), pagestream.record(1, 1, 1)
    topics.refused[first.key] = too_large
    with working(tmp_path, topics) as worker:
        asyncio.run(worker.settle([first, copy]))
    (dead,) = topics.of("dead")
    assert (dead.key, dead.value) == (first.key, None if too_large else first.value)
    assert header(dead, "dedup.error.stage") == "produce"
    assert header(dead, "dedup.error.offset") == "0"
    assert [output.key for output in topics.of("unique")] == [copy.key]
    assert not topics.of("duplicates")


def test_a_page_that_breaks_the_detector_is_kept(tmp_path, topics):
    """An unexpected error for one page keeps it as exempt/error; the others are judged."""
    with working(tmp_path, topics) as worker:
        judge = worker.detector.embedded.judge

        def broken(page, key, *options):
            if key == pagestream.url(1, 0):
                raise RuntimeError("a bug")
            return judge(page, key, *options)

        worker.detector.embedded.judge = broken
        asyncio.run(worker.settle([pagestream.record(i, i) for i in range(3)]))
    assert worker.counts == {"unique": 2, "exempt/error": 1, "inserted": 2}
    assert worker.faults == [("judge", "RuntimeError")]


def test_an_insert_that_never_works_costs_one_page_its_memory(tmp_path, topics):
    """An unexpected error at insert is confined to its page; the batch goes on to its end."""
    with working(tmp_path, topics) as worker:
        insert = worker.detector.embedded.insert_many

        def broken(verdicts):
            if any(v.key == pagestream.url(1, 0) for v in verdicts):
                raise RuntimeError("a bug")
            return insert(verdicts)

        worker.detector.embedded.insert_many = broken
        batch = asyncio.run(worker.settle([pagestream.record(i, i) for i in range(3)]))
    assert batch.done
    assert worker.counts == {"unique": 3, "inserted": 2, "released": 1}


def test_another_recipe_ends_the_worker(tmp_path, topics):
    """A store of another recipe is an error that ends the worker, with nothing written."""
    with working(tmp_path, topics) as worker:

        def broken(*_, **__):
            raise RecipeMismatch("other")

        worker.detector.embedded.judge = broken
        with pytest.raises(RecipeMismatch):
            asyncio.run(worker.settle([pagestream.record(0, 0)]))
    assert not topics.written


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_dead_letter_that_is_too_large_is_smaller_or_passed(tmp_path, caplog, most):
    """Without its value, then without key and headers; refused at any size it stops nothing."""

    class Small(Topics):
        async def send_each(self, outputs: Sequence[Outgoing]) -> list[Sent | Exception]:
            results = await super().send_each(outputs)
            for i, output in enumerate(outputs):
                size = bool(output.key) + bool(output.value)
                if output.topic == "dead" and size >= most:
                    self.written.remove(output)
                    results[i] = RecordRefused("too large", too_large=True)
            return results

    topics = Small(Chance(0))
    bad = InputRecord("pages", 3, 17, 0, b"key", b"no page", (("own", b"1"),))
    with working(tmp_path, topics) as worker:
        batch = asyncio.run(worker.settle([bad, pagestream.record(1, 1)]))
    assert batch.done
    assert worker.counts["unique"] == 1
    if not most:
        assert topics.of("dead") == []
        assert worker.counts["dead_lost"] == 1
        assert "pages, partition 3, offset 17: its dead letter cannot be written" in caplog.text
        return
    (letter,) = topics.of("dead")
    assert (letter.key, letter.value) == ((b"key", None) if most == 2 else (None, b""))
    assert dict(letter.headers)["dedup.error.offset"] == b"17"
    assert ("own" in dict(letter.headers)) == (most == 2)


@pytest.mark.sized
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_nothing_is_lost(tmp_path, seed):
    """Crashes and faults at chance moments: every record is in an output, every drop explained.

    Of each content one page at least is unique; a page is dropped only after the page it names was
    written; none is dropped as its own duplicate, nor after it was inserted.
    """
    chance = Chance(seed, faults=(seed % 3) * 0.05, crashes=(seed % 5) * 0.01)
    topics = Topics(chance)
    records = log(10, 3, seed)
    committed, lives = 0, 0
    while committed < len(records):
        lives += 1
        with working(tmp_path, topics, chance) as worker:
            try:
                while committed < len(records):
                    size = chance.random.randrange(1, 12)
                    batch = asyncio.run(worker.settle(records[committed : committed + size]))
                    chance.strike(Crash)  # done, and not committed
                    committed = batch.offsets()["pages", 0]
            except Crash:
                pass
    by_key = {record.key: page for record, page in zip(records, pagestream.stream(10, 3, seed))}  # noqa: B905
    accepted: set[str] = set()
    seen: set[bytes] = set()
    for output in topics.written:
        assert output.key is not None
        content, copy = by_key[output.key]
        seen.add(output.key)
        if output.topic == "unique":
            accepted.add(pagestream.url(content, copy))
            continue
        assert output.topic == "duplicates"
        of = header(output, "dedup.of")
        assert of in accepted
        assert of != pagestream.url(content, copy)
        assert pagestream.content_of(of) == content
    assert seen == set(by_key)
    assert {pagestream.content_of(url) for url in accepted} == set(range(10))
    if chance.crashes == chance.faults == 0:
        assert len(accepted) == 10 == len(topics.of("unique"))


def test_a_rebalance_as_a_batch_ends_does_not_end_the_worker(tmp_path: Path) -> None:
    """Partitions are taken away in the very moment in which a batch is done: the next one is settled."""
    config = WorkerConfig(
        kafka_config("localhost"), NAMES, FORMATS["json"], "group", path=tmp_path / "store"
    )

    async def settled_twice() -> int:
        worker = KafkaWorker(config, WorkerMetrics(), WorkerHealth())
        worker._member = member = SimpleNamespace(epoch=1)
        done: list[asyncio.Task[None]] = []
        both = asyncio.Event()

        async def take(*_: object) -> None:
            done.append(asyncio.create_task(worker._revoked()))
            if len(done) == 2:
                both.set()

        worker._take = take
        settling = asyncio.create_task(worker._settle())
        for _ in range(2):
            await worker._queue.put((member.epoch, []))
        await asyncio.wait(
            {settling, asyncio.ensure_future(both.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        settling.cancel()
        await asyncio.wait({settling, *done})
        return len(done)

    assert asyncio.run(settled_twice()) == 2
