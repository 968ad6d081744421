"""Records that are not done survive a kill, and their files stay small."""

from __future__ import annotations

import random

import pytest

from dedup.core import pending_records
from dedup.core.pending_records import PendingRecords


def taken(records: PendingRecords) -> list[tuple[bytes, bytes]]:
    """All that an earlier process left; it is pending in this one, too."""
    found = []
    for record in records.take():
        records.add(*record)
        found.append(record)
    return found


@pytest.mark.parametrize("newest_first", [False, True])
def test_what_is_pending_is_left_and_files_stay_small(tmp_path, monkeypatch, newest_first):
    """Through many files, in either order of ending; contents are what was added."""
    monkeypatch.setattr(pending_records, "PART_BYTES", 2000)
    source, pending = random.Random(3), {}
    records = PendingRecords(tmp_path, lambda name: name in pending)
    for number in range(5000):
        name = number.to_bytes(20, "big")
        pending[name] = source.randbytes(source.randrange(80))
        records.add(name, pending[name])
        while len(pending) > 100:
            pending.pop(next(reversed(pending) if newest_first else iter(pending)))
        if number % 100 == 0:  # 100 records of some 72 bytes are pending
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 30_000
    records.close()  # as a kill leaves it
    for _ in range(2):  # a second kill after the first one changes nothing
        again = PendingRecords(tmp_path, lambda name: name in pending)
        found = taken(again)
        assert len(found) == len(pending)
        assert dict(found) == pending
        again.close()
    last = PendingRecords(tmp_path, lambda name: name in pending)
    last.clear()
    assert not list(tmp_path.iterdir())


def test_what_was_not_taken_stays(tmp_path):
    """A process that ends in the middle leaves the file that it was reading."""
    records = PendingRecords(tmp_path, lambda _: True)
    records.add(b"a", b"one")
    records.add(b"b", b"two")
    records.close()
    again = PendingRecords(tmp_path, lambda _: True)
    assert next(again.take()) == (b"a", b"one")
    last = PendingRecords(tmp_path, lambda _: True)
    assert list(last.take()) == [(b"a", b"one"), (b"b", b"two")]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:-12],
        lambda content: content[:-3] + b"x" + content[-2:],
        lambda content: content[: len(content) // 2] + bytes(len(content) // 2),
    ],
    ids=["cut short", "cut in its head", "changed", "zeros"],
)
def test_a_damaged_record_ends_its_file(tmp_path, damage, caplog):
    """Those before it are there, and the log names the file; the files are the user's alone."""
    records = PendingRecords(tmp_path, lambda _: True)
    records.add(b"a" * 20, b"one")
    records.add(b"b" * 20, b"two")
    records.close()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(damage(file.read_bytes()))
    assert list(PendingRecords(tmp_path, lambda _: True).take()) == [(b"a" * 20, b"one")]
    assert str(file) in caplog.text
