"""`dedup serve --keep`: what is older than an age is pruned, a little at a time, while others are answered."""

import asyncio
import time
from collections import Counter

import msgspec
import pytest
from command_line import call
from commands import insert, spread
from services import Serving
from stores import document

from dedup.service.core.namespaces import Namespaces, Pruning, pause_seconds
from dedup.store import Store
from dedup.store.documents import Documents
from dedup.store.store import locked_documents

DAY = 86400
OLD, NEW, MANY = 1_700_000_000.0, 1_800_000_000.0, 400


def fill(path, namespace: str, *ages: tuple[str, int, float]) -> None:
    """Store documents whose keys begin with a word, as an import does: with the times they had."""
    with Store.open(path, namespace) as store:
        store.insert_many(
            [
                msgspec.structs.replace(
                    document(f"{word}/{i}", spread(i + len(word))), inserted_seconds=seconds
                )
                for word, count, seconds in ages
                for i in range(count)
            ]
        )


def keys(path, name: str) -> Counter[str]:
    """How many documents there are, by the word that their keys begin with."""
    with locked_documents(path / name) as documents:
        return Counter(each.key.split("/")[0] for _, each in documents.batch(0, 10_000))


def count(client) -> int:
    return int(client.execute_command("DEDUP.INFO", "d").split("documents:")[1].split()[0])


class Moved:
    """A clock that a test moves."""

    now = NEW

    def __call__(self) -> float:
        return self.now


def pruned(path, keep_seconds: float, clock: Moved) -> Counter[str]:
    """Have one round over the stores of a folder."""
    counts: Counter[str] = Counter()
    namespaces = Namespaces(path)
    namespaces.open_all()
    asyncio.run(Pruning(namespaces, keep_seconds, counts, clock).round())
    namespaces.close()
    return counts


def test_a_round_prunes_what_is_older_and_nothing_else(tmp_path):
    """Of every namespace; to the second, whatever the order in which documents came."""
    clock = Moved()
    fill(tmp_path, "a", ("new", 200, NEW - 99), ("old", MANY, NEW - 101), ("newer", 3, NEW))
    fill(tmp_path, "b", ("old", 5, OLD))
    fill(tmp_path, "c", ("new", 5, NEW))
    assert pruned(tmp_path, 100, clock) == {"pruned": MANY + 5}
    assert keys(tmp_path, "a") == {"new": 200, "newer": 3}
    assert keys(tmp_path, "b") == {}
    assert keys(tmp_path, "c") == {"new": 5}


async def test_a_command_waits_for_one_small_batch(tmp_path, monkeypatch):
    """No more than 128 documents are looked at in one transaction, and others run in between."""
    fill(tmp_path, "a", ("old", MANY, OLD))
    looked_at: list[int] = []
    turns: list[int] = []
    batch = Documents.batch

    def watched(self, first, most):
        looked_at.append(most)
        return batch(self, first, most)

    monkeypatch.setattr(Documents, "batch", watched)

    async def others() -> None:
        while True:
            turns.append(len(looked_at))
            await asyncio.sleep(0)

    namespaces = Namespaces(tmp_path)
    namespaces.open_all()
    beside = asyncio.create_task(others())
    await Pruning(namespaces, 100, Counter(), Moved()).round()
    beside.cancel()
    namespaces.close()
    assert looked_at == [128] * 5  # the last one finds nothing
    assert set(turns) >= {1, 2, 3, 4}


def test_a_store_that_fails_costs_the_others_nothing(tmp_path, monkeypatch, caplog):
    """It is named, and the next namespace is pruned."""
    fill(tmp_path, "a", ("old", 5, OLD))
    fill(tmp_path, "b", ("old", 5, OLD))
    forget_more_before = Store.forget_more_before

    def full(self, *arguments):
        if self.namespace == "a":
            raise OSError(28, "No space left on device")
        return forget_more_before(self, *arguments)

    monkeypatch.setattr(Store, "forget_more_before", full)
    assert pruned(tmp_path, 100, Moved()) == {"pruned": 5}
    assert "a is not pruned, until the next round: [Errno 28]" in caplog.text


def test_pause_is_an_hour_or_a_share_of_the_age():
    assert [pause_seconds(seconds) for seconds in (30 * DAY, 10 * 3600, 600)] == [3600, 3600, 60]


def test_service_prunes_again(tmp_path):
    """What is inserted goes once it is old enough, without a restart; it stops in the middle."""
    with (
        Serving(tmp_path, "--keep", "1s") as service,
        service.client(decode_responses=True) as client,
    ):
        for word in ("first", "second"):
            insert(client, "d", word)
            while count(client):
                time.sleep(0.05)


@pytest.mark.parametrize("age", ["soon", "0", "-1d", ""])
def test_wrong_age(age):
    """It names itself and what is allowed."""
    told = call("serve", "--path", "x", "--keep", age)
    assert told.exit_code == 2
    assert f"{age!r} is not an age: 30d, 12h, 90m, or seconds" in told.output


def test_what_a_wrong_clock_dated_far_ahead_is_pruned(tmp_path):
    """It would never grow old; a clock that is hours ahead is no wrong one."""
    fill(
        tmp_path,
        "a",
        ("ahead", 3, NEW + DAY / 2),
        ("far", 5, NEW + 10 * 365 * DAY),
        ("new", 2, NEW),
    )
    assert pruned(tmp_path, 100, Moved()) == {"pruned": 5}
    assert keys(tmp_path, "a") == {"ahead": 3, "new": 2}
