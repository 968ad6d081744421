"""The outbox: what it kept is there after a kill, in its order, as it was, until it is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.model.errors import StoreDamaged
from dedup.scrapy.memory.outbox import Outbox

records = st.lists(st.tuples(st.binary(max_size=50), st.none() | st.binary(max_size=50)))


def drained(outbox: Outbox) -> list[tuple[bytes, bytes | None]]:
    """Take everything out, a few at a time."""
    found = []
    while kept := outbox.first(3):
        found += [(k.key, k.value) for k in kept]
        outbox.remove(kept)
    return found


@settings(max_examples=examples(50), deadline=None)
@given(batches=st.lists(records, max_size=4))
def test_records_come_out_as_they_went_in(tmp_path_factory, batches):
    """Keys, values and tombstones, in the order of adding, also after closing and opening."""
    folder = tmp_path_factory.mktemp("outbox")
    for batch in batches:
        with Outbox.own(folder) as outbox:
            outbox.add(batch)
    with Outbox.own(folder) as outbox:
        assert len(outbox) == sum(map(len, batches))
        assert drained(outbox) == [record for batch in batches for record in batch]
        assert len(outbox) == 0


def test_what_is_not_removed_comes_again(tmp_path):
    """first() takes nothing out; removing some leaves the others."""
    with Outbox.own(tmp_path) as outbox:
        outbox.add([(b"%d" % n, None) for n in range(5)])
        assert outbox.first(2) == outbox.first(2)
        outbox.remove(outbox.first(2))
        assert [kept.key for kept in outbox.first(9)] == [b"2", b"3", b"4"]
        outbox.add([(b"5", b"")])
        assert [(kept.key, kept.value) for kept in outbox.first(9)][-1] == (b"5", b"")
        assert len(outbox) == 4


def test_each_process_has_an_outbox_of_its_own(tmp_path):
    """While one is held, another is opened; given back, it is opened again."""
    with Outbox.own(tmp_path) as first, Outbox.own(tmp_path) as second:
        assert first.folder != second.folder
        assert list(Outbox.left_over(tmp_path)) == []
    with Outbox.own(tmp_path) as again:
        assert again.folder == first.folder


def test_what_others_left_behind_is_found(tmp_path):
    """Outboxes with records that nobody holds any more; empty ones are not."""
    with Outbox.own(tmp_path) as own, Outbox.own(tmp_path) as second, Outbox.own(tmp_path) as third:
        own.add([(b"own", None)])
        third.add([(b"left", b"over")])
        place = third.folder
        assert second.folder != place
    with Outbox.own(tmp_path):
        left = [(outbox.folder, drained(outbox)) for outbox in Outbox.left_over(tmp_path)]
        assert left == [(place, [(b"left", b"over")])]
        assert list(Outbox.left_over(tmp_path)) == []


KILLED = """
import sys
from pathlib import Path
from dedup.scrapy.memory.outbox import Outbox
outbox = Outbox.own(Path(sys.argv[1]))
number = 0
while True:
    outbox.add([(b"%d" % (number + n), b"value") for n in range(7)])
    number += 7
    print(number, flush=True)
"""


def test_promise_6_what_was_kept_survives_a_kill(tmp_path):
    """Killed with -9 while it adds: everything that add() returned from is there, nothing torn."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    told = process.communicate()[0].split()
    with Outbox.own(tmp_path) as outbox:
        count = len(outbox)
        assert count % 7 == 0
        assert count >= (int(told[-1]) if told else 140)
        assert drained(outbox) == [(b"%d" % n, b"value") for n in range(count)]


def test_promise_6_a_damaged_record_is_named_and_refused(tmp_path):
    """A byte of a record that is not what was written raises StoreDamaged with the file's path."""
    with Outbox.own(tmp_path) as outbox:
        outbox.add([(b"key", b"a value that is easily found")])
        path = outbox.path
    data = path.read_bytes()
    path.write_bytes(data.replace(b"easily", b"easilY"))
    with Outbox.own(tmp_path) as outbox, pytest.raises(StoreDamaged, match=str(path)):
        outbox.first(1)


def test_promise_6_a_damaged_file_is_named_and_refused(tmp_path):
    """A file that is no outbox at all raises StoreDamaged with its path, and gives the lock back."""
    with Outbox.own(tmp_path) as outbox:
        path = outbox.path
    path.write_bytes(b"not what was written" * 1000)
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=str(path)):
            Outbox.own(tmp_path)


FULL = """
import resource, signal, sys
from pathlib import Path
from dedup.scrapy.memory.outbox import Outbox, OutboxFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Outbox.own(Path(sys.argv[1])) as outbox:
    outbox.add([(b"first", b"x")])
    resource.setrlimit(resource.RLIMIT_FSIZE, (outbox.path.stat().st_size,) * 2)
    try:
        outbox.add([(b"%d" % n, b"x" * 10000) for n in range(1000)])
    except OutboxFull as error:
        print(error)
    print(len(outbox), [kept.key for kept in outbox.first(9)])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of file sizes are POSIX's")
def test_promise_6_a_full_disk_costs_nothing_that_was_kept(tmp_path):
    """Records that have no room are refused together, by the file's name; the others stay."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    said, left = done.stdout.splitlines()
    assert str(Path(tmp_path) / "0" / "records.mdb") in said
    assert left == "1 [b'first']"
