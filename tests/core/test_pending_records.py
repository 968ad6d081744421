"""Records that are not done survive a kill, and their files stay small."""

from __future__ import annotations

import random

import pytest

from dedup.core import pending_records
from dedup.core.pending_records import PendingRecords


def drained(records: PendingRecords, most: int = 7) -> list[bytes]:
    """Every name that is left, taken out in batches that are kept again."""
    names, more = [], True
    while more:
        found, more = records.left(most, 10_000, 50)
        records.add(found)
        names += [name for name, _ in found]
    return names


@pytest.mark.parametrize("newest_first", [False, True])
def test_what_is_pending_is_left_and_files_stay_small(tmp_path, monkeypatch, newest_first):
    """Through many parts, in either order of ending; contents are what was added."""
    monkeypatch.setattr(pending_records, "PART_BYTES", 2000)
    monkeypatch.setattr(pending_records, "SLACK", 50)
    source, pending = random.Random(3), {}
    records = PendingRecords(tmp_path, lambda name: name in pending)
    for number in range(5000):
        name = number.to_bytes(20, "big")
        pending[name] = source.randbytes(source.randrange(80))
        records.add([(name, pending[name])])
        while len(pending) > 100:
            pending.pop(next(reversed(pending) if newest_first else iter(pending)))
            records.done()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 60_000
    records.close()  # as a kill leaves it
    again = PendingRecords(tmp_path, lambda name: name in pending)
    found = []
    while True:
        batch, more = again.left(1000, 1 << 20, 10_000)
        again.add(batch)
        found += batch
        if not more:
            break
    assert dict(found) == pending
    again.close()
    last = PendingRecords(tmp_path, lambda name: name in pending)
    assert set(drained(last)) == set(pending)
    last.discard()
    assert not list(tmp_path.iterdir())


def test_a_record_that_a_kill_cut_short_ends_its_file(tmp_path):
    """Those before it are there."""
    records = PendingRecords(tmp_path, lambda _: True)
    records.add([(b"a" * 20, b"one"), (b"b" * 20, b"two")])
    records.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    found, _ = PendingRecords(tmp_path, lambda _: True).left(10, 1000, 10)
    assert found == [(b"a" * 20, b"one")]
