"""A power cut: of what was written since the last flush, any part reached the disk, in any order."""

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest
from seeds import seed_of
from sizes import sized
from stores import document, spread

from dedup.model.errors import StoreDamaged
from dedup.store import Store
from dedup.store import documents as documents_file
from dedup.store.journal import ASIDE, JOURNAL, Journal
from dedup.store.store import locked_documents
from dedup.store.verify import verify_store

SECTOR = 512
FILES = ("documents.mdb", JOURNAL, ASIDE)


def key(i: int) -> str:
    return f"http://example.com/{i}"


class Disk:
    """What the files of a store were at any time, and what of it is on disk for certain.

    names     at each time: {name: inode}
    versions  of each inode: its contents since it was last flushed, that first
    fails     whether documents.mdb cannot be flushed
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fails = False
        self.names: list[dict[str, int]] = []
        self.versions: dict[int, list[bytes]] = {}
        self.held: list[
            BinaryIO
        ] = []  # a removed file's inode is not another one's while it is open

    def look(self) -> None:
        """Note what the files are now."""
        there = {name: self.folder / name for name in FILES if (self.folder / name).exists()}
        self.names.append({name: path.stat().st_ino for name, path in there.items()})
        for name, inode in self.names[-1].items():
            content = there[name].read_bytes()
            if inode not in self.versions:
                self.held.append(there[name].open("rb"))
            versions = self.versions.setdefault(inode, [b""])
            if content != versions[-1]:
                versions.append(content)

    def flushed(self, inode: int) -> None:
        """Note that a file, or the folder, is on disk."""
        self.look()
        if inode == self.folder.stat().st_ino:
            self.names = self.names[-1:]
        elif inode in self.versions:
            self.versions[inode] = self.versions[inode][-1:]

    def cut(self, chance: random.Random, to: Path) -> None:
        """Make the folder that a power cut leaves."""
        self.look()
        to.mkdir(parents=True)
        for name, inode in chance.choice(self.names).items():
            (to / name).write_bytes(self._left(chance, self.versions[inode]))

    def _left(self, chance: random.Random, versions: list[bytes]) -> bytes:
        last = versions[-1]
        kind = chance.choice(["any", "any", "all but one", "first pages", "all but a write"])
        if kind == "all but a write":
            at = chance.randrange(len(versions))
            before, after = versions[max(0, at - 1)], versions[at]
            return last[: len(before)] + bytes(len(after) - len(before)) + last[len(after) :]
        size = len(chance.choice(versions))
        one = chance.randrange(0, size or 1, SECTOR)
        left = bytearray()
        for at in range(0, size, SECTOR):
            version = chance.choice(versions)
            if kind == "all but one" and at != one:
                version = last
            elif kind == "first pages":
                version = last if at < 2 * 4096 else versions[0]
            left += version[at : at + SECTOR].ljust(SECTOR, b"\0")
        return bytes(left[:size])


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """The disk under the store at tmp_path / "live"; what the store flushes is noted."""
    made = Disk(tmp_path / "live" / "default")
    fsync, opened, set_aside = os.fsync, documents_file.lmdb.open, Journal.set_aside

    class Environment:
        def __init__(self, *given, **named):
            self._env = opened(*given, **named)

        def __getattr__(self, name):
            return getattr(self._env, name)

        def sync(self, force):
            if made.fails:
                raise documents_file.lmdb.DiskError("no")
            made.flushed((made.folder / "documents.mdb").stat().st_ino)
            self._env.sync(force)

    def flushed(fd):
        made.flushed(os.fstat(fd).st_ino)
        fsync(fd)

    def aside(journal):
        made.look()
        set_aside(journal)

    Store.open(tmp_path / "live").close()
    made.look()
    monkeypatch.setattr(
        documents_file.Flusher, "_run", lambda _: None
    )  # flushed when the test says so
    monkeypatch.setattr(documents_file, "FOLD_CHANGES", 12)
    monkeypatch.setattr(documents_file.lmdb, "open", Environment)
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Journal, "set_aside", aside)
    made.flushed(made.folder.stat().st_ino)
    made.flushed((made.folder / "documents.mdb").stat().st_ino)
    yield made
    for file in made.held:
        file.close()


@pytest.mark.sized
@pytest.mark.parametrize("number", range(sized(quick=12, full=200)))
def test_promise_6_writes_that_reach_the_disk_in_any_order_cost_what_was_not_flushed(
    tmp_path, disk, number, monkeypatch
):
    """Inserts, removals, batches, folds and index writes: whatever lies on the disk opens, and is a state that was."""
    chance = random.Random(f"{seed_of('POWER')} {number}")
    states, flushed = [({}, {})], 0
    with Store.open(tmp_path / "live") as store:
        for step in range(chance.randrange(20, 200)):
            held, offsets = dict(states[-1][0]), dict(states[-1][1])
            match chance.choices(
                ["insert", "batch", "forget", "index", "flush", "fault"], [20, 2, 4, 1, 3, 1]
            )[0]:
                case "insert":
                    one = document(key(chance.randrange(60)), spread(step))
                    held[one.key] = one
                    store.insert(one)
                case "batch":
                    many = {key(i): document(key(i), spread(step + i)) for i in range(step % 40)}
                    held |= many
                    offsets[step % 3] = step
                    store.apply([*many.items()], {step % 3: step})
                case "forget":
                    name = key(chance.randrange(60))
                    held.pop(name, None)
                    store.forget(name)
                case "index":
                    store._index.write()
                case "flush":
                    store.sync()
                    flushed = len(states) - 1
                case "fault":
                    disk.fails = True
                    with suppress(OSError):
                        store.sync()
                    disk.fails = False
            states.append((held, offsets))
            disk.look()
        cuts = [(tmp_path / f"cut {i}", states[flushed:]) for i in range(4)]
        for path, _ in cuts:
            disk.cut(chance, path / "default")
    closed = [(tmp_path / f"closed {i}", states[-1:]) for i in range(3)]
    for path, _ in closed:
        disk.cut(chance, path / "default")
    monkeypatch.undo()
    for path, expected in cuts + closed:
        for _ in range(2):
            with locked_documents(path / "default") as documents:
                found = {each.key: each for _, each in documents.scan()}, documents.offsets()
            assert found in expected
        with Store.open(path) as store:
            store.insert(document("after", 1))
            assert len(store) == len(found[0]) + 1
        assert verify_store(path).problems == []
        shutil.rmtree(path)


def test_a_newer_state_that_is_damaged_is_refused_where_the_journal_does_not_go_on(tmp_path):
    """The store was closed, so the state before its last one is an older one: it is not taken."""
    with Store.open(tmp_path) as store:
        for i in range(40):
            store.insert(document(key(i), spread(i)))
    old = (tmp_path / "default" / "documents.mdb").read_bytes()
    with Store.open(tmp_path) as store:
        store.insert(document("last", 1))
    file = tmp_path / "default" / "documents.mdb"
    new = file.read_bytes()
    file.write_bytes(new[:8192] + old[8192:])
    with pytest.raises(StoreDamaged, match=r"documents\.mdb"):
        Store.open(tmp_path)
