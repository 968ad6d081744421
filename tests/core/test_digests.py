"""The set of digests on disk equals a plain set, and survives kills, full disks and damage."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest
from sizes import sized

from dedup.core import digests
from dedup.core.digests import HEADER_BYTES, DigestFolder
from dedup.model.errors import StoreDamaged, StoreLocked

MANY = sized(quick=60_000, full=400_000)


def name(number: int) -> bytes:
    return number.to_bytes(20, "big")


@pytest.mark.sized
def test_it_equals_a_plain_set_at_every_size(tmp_path, monkeypatch):
    """Through growth, the split into 256 files and a reopening: what was added is found, nothing else."""
    monkeypatch.setattr(digests, "FEW", 9_000)
    folder = DigestFolder(tmp_path)
    source, expected = random.Random(5), {}
    for _ in range(MANY):
        number, mark = source.randrange(MANY), source.choice((1, 2))
        assert folder.put(folder.digest(name(number)), mark) == expected.get(number, 0)
        expected[number] = mark
    folder.close()
    folder = DigestFolder(tmp_path)
    assert len(folder) == len(expected)
    assert len(list(tmp_path.glob("??.digests"))) == 256
    assert folder.file_bytes <= 20 * len(expected) + 256 * (HEADER_BYTES + 17 * 4096)
    for number in range(2 * MANY):
        assert folder.find(folder.digest(name(number))) == expected.get(number, 0)
    folder.clear()
    assert len(folder) == 0
    assert folder.find(folder.digest(name(1))) == 0
    folder.close()


@pytest.mark.parametrize("shares", [1, 3])
def test_the_split_into_files_loses_none_however_they_fall(tmp_path, monkeypatch, shares):
    """Digests by chance end with the same byte more often than others; here with a few bytes only."""
    monkeypatch.setattr(digests, "FEW", 1000)
    folder, count = DigestFolder(tmp_path), 6000
    names = [i.to_bytes(15, "big") + bytes([i % shares]) for i in range(count)]
    for digest in names:
        assert folder.put(digest, 1) == 0
    assert len(list(tmp_path.glob("??.digests"))) == 256
    assert [digest for digest in names if folder.find(digest) != 1] == []
    folder.close()


def test_what_was_added_survives_a_killed_process(tmp_path):
    """Every digest whose put() returned is there after kill -9, in the middle of growth, too."""
    code = f"""
import sys
from pathlib import Path
from dedup.core import digests
digests.FEW = 9_000
folder = digests.DigestFolder(Path({str(tmp_path)!r}))
for i in range(10**9):
    folder.put(folder.digest(i.to_bytes(20, "big")), 1)
    if i % 100 == 0:
        print(i, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        last = 0
        for line in run.stdout:
            last = int(line)
            if last >= 30_000:
                os.kill(run.pid, signal.SIGKILL)
                break
    folder = DigestFolder(tmp_path)
    assert all(folder.find(folder.digest(name(i))) == 1 for i in range(last))
    folder.close()


def test_a_split_that_was_cut_short_is_repeated(tmp_path, monkeypatch):
    """While the first file is there, it has all digests."""
    monkeypatch.setattr(digests, "FEW", 9_000)
    folder = DigestFolder(tmp_path)
    monkeypatch.setattr(digests.Path, "unlink", lambda *_, **__: os.kill(0, 0) or 1 / 0)
    added = []
    with pytest.raises(ZeroDivisionError):
        for i in range(20_000):
            folder.put(folder.digest(name(i)), 1)
            added.append(i)
    monkeypatch.undo()
    monkeypatch.setattr(digests, "FEW", 9_000)
    folder.close()
    folder = DigestFolder(tmp_path)
    assert all(folder.find(folder.digest(name(i))) == 1 for i in added)
    for i in range(20_000):
        folder.put(folder.digest(name(i)), 1)
    assert len(folder) == 20_000
    folder.close()


@pytest.mark.parametrize("damage", ["cut", "zeros", "noise", "count", "no key", "empty"])
def test_damage_forgets_and_never_invents(tmp_path, damage):
    """A damaged file finds no digest that was not added, and takes new ones."""
    folder = DigestFolder(tmp_path)
    for i in range(2_000):
        folder.put(folder.digest(name(i)), 1)
    folder.close()
    file = tmp_path / "all.digests"
    content = bytearray(file.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "zeros":
        content[HEADER_BYTES + 1000 : HEADER_BYTES + 9000] = bytes(8000)
    elif damage == "noise":
        content[HEADER_BYTES:] = random.Random(1).randbytes(len(content) - HEADER_BYTES)
    elif damage == "count":
        content[16:24] = b"\xff" * 8
    elif damage == "empty":
        content = bytearray()
    file.write_bytes(content)
    if damage == "no key":
        (tmp_path / "key").unlink()
    folder = DigestFolder(tmp_path)
    assert not any(folder.find(folder.digest(name(i))) for i in range(10_000, 12_000))
    for i in range(10_000, 12_000):
        folder.put(folder.digest(name(i)), 2)
    assert all(folder.find(folder.digest(name(i))) == 2 for i in range(10_000, 12_000))
    folder.close()


def test_a_later_version_is_refused(tmp_path):
    """And not changed."""
    DigestFolder(tmp_path).close()
    file = tmp_path / "all.digests"
    content = bytearray(file.read_bytes())
    content[8] = 9
    file.write_bytes(content)
    with pytest.raises(StoreDamaged, match="version 9"):
        DigestFolder(tmp_path)
    assert file.read_bytes() == content


def test_one_process_at_a_time(tmp_path):
    """A folder that is open is refused."""
    folder = DigestFolder(tmp_path)
    with pytest.raises(StoreLocked):
        DigestFolder(tmp_path)
    folder.close()
    DigestFolder(tmp_path).close()
