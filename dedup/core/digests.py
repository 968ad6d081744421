"""A set of 16-byte digests on disk: exact, 18 to 20 bytes each, mapped into memory.

    text -> keyed digest -> one of 1 or 256 files, by its last byte -> slots (native/src/hash/digest_slots.c)

A file has a header of 64 bytes (magic, version, count) and slots of 17: a digest and its mark. It is mapped
shared, so what was added survives a killed process without a log. After a power cut digests may be missing.
A file grows by a ninth when 95 % of its slots are taken (a small one by half): it is copied, then replaced.

Invariants: a digest that was added is found until clear() or the end of the machine; damage in a file makes it
forget digests, never find one that was not added.
"""

import contextlib
import mmap
import os
import secrets
import shutil
import struct
import sys
import time
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

from dedup.core.files import PRIVATE, PRIVATE_FOLDER, FolderLock, replace_file
from dedup.core.native import ffi, lib
from dedup.model.errors import StoreDamaged

_HEADER = struct.Struct("<8sIIQ")  # magic, version, zero, count; zeros up to HEADER_BYTES
_COUNT, _COUNT_AT = struct.Struct("<Q"), 16
HEADER_BYTES = 64
MAGIC, VERSION = b"NDDDIGST", 1
SLOT: int = lib.NDD_DIGEST_SLOT
FEW = 1 << 14  # digests from which they are spread over FILES files
FILES = 256
AGE_PARTS = 8  # a remembered time is forgotten in this many parts
LEAST_SLOTS = 4096
LEAST_OF_PART = 64  # slots of each of FILES
FULL, GROWTH = 0.95, 10 / 9
SMALL, SMALL_GROWTH = 1 << 15, 3 / 2  # slots of a file whose growth costs more than its room


class DigestFolder:
    """The digests of a folder, which this process holds until close(). One thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, or make it. A file that is not one of this format is begun again.

        Raises StoreLocked if another process holds it, StoreDamaged for a later version, and OSError.
        """
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        self.folder = folder
        self._lock = FolderLock(folder / "lock")
        self._files: list[_SlotFile] = []
        try:
            self._key = self._read_key()
            self._open_files()
        except BaseException:
            self.close()
            raise

    def _read_key(self) -> bytes:
        """Return the key of the digests, made with the folder; without it the files mean nothing."""
        path = self.folder / "key"
        with contextlib.suppress(FileNotFoundError):
            if len(key := path.read_bytes()) == 32:
                return key
        self._remove_files()
        replace_file(path, key := secrets.token_bytes(32), PRIVATE)
        return key

    def _open_files(self) -> None:
        # the first file is removed after a split: while it is there, it has all digests
        spread = any(self.folder.glob("[0-9a-f][0-9a-f].*")) and not any(self.folder.glob("all.*"))
        count = FILES if spread else 1
        if count > 1:
            _allow_files(count)
        self._files = [_SlotFile(self._path(i, count)) for i in range(count)]

    def _path(self, number: int, count: int) -> Path:
        return self.folder / ("all.digests" if count == 1 else f"{number:02x}.digests")

    def digest(self, name: bytes) -> bytes:
        """Return the digest of a name, under the folder's key."""
        return blake2b(name, digest_size=16, key=self._key).digest()

    def find(self, digest: bytes) -> int:
        """Return the mark of a digest, 0 if it is not in the set."""
        return self._file_of(digest).find(digest)

    def put(self, digest: bytes, mark: int) -> int:
        """Add a digest with a mark of 1 to 255, or change its mark; return the one before, 0 if new.

        Raises OSError if the disk is full; the set is then as before.
        """
        file = self._file_of(digest)
        if file.is_full:
            if len(self._files) == 1 and file.count >= FEW:
                self._split()
                file = self._file_of(digest)
            else:
                file.grow()
        return file.put(digest, mark)

    def _file_of(self, digest: bytes) -> "_SlotFile":
        return self._files[digest[15] if len(self._files) > 1 else 0]

    def _split(self) -> None:
        """Spread the digests of the first file over 256. A kill before its end leaves the first file."""
        whole = self._files[0]
        counts = whole.counts_by_last_byte()
        for i in range(FILES):
            whole.copy(self._path(i, FILES), max(LEAST_OF_PART, counts[i] * 3 // 2), i)
        whole.close()
        whole.path.unlink()
        self._open_files()

    def clear(self) -> None:
        """Remove all digests."""
        self._close_files()
        self._remove_files()
        self._open_files()

    def _remove_files(self) -> None:
        for pattern in ("all.*", "*.digests", "*.new"):  # the first file first: it has all digests
            for path in self.folder.glob(pattern):
                path.unlink()

    def __len__(self) -> int:
        return sum(file.count for file in self._files)

    @property
    def file_bytes(self) -> int:
        """The size of all files, in bytes; what of it is in memory is the system's page cache."""
        return sum(file.size for file in self._files)

    def close(self) -> None:
        """Unmap the files, and let other processes open the folder."""
        self._close_files()
        self._lock.close()

    def _close_files(self) -> None:
        for file in self._files:
            file.close()
        self._files = []


class DigestSets:
    """Sets of digests in folders, the one that takes new digests first. One thread at a time."""

    def __init__(self, folders: list[DigestFolder]) -> None:
        """Take open folders, at least one; close() closes them."""
        self.folders = folders

    @classmethod
    def by_age(
        cls, folder: Path, keep_seconds: int | None, now: float | None = None
    ) -> "DigestSets":
        """Open the sets of a folder, each named by when it began; forget those that are older.

        The time is forgotten in AGE_PARTS parts. keep_seconds None: one set, for ever. Raises as DigestFolder.
        """
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        now = time.time() if now is None else now
        begun = sorted((int(p.name) for p in folder.iterdir() if p.name.isdecimal()), reverse=True)
        if keep_seconds is not None:
            for old in (each for each in begun if each < now - keep_seconds):
                shutil.rmtree(folder / str(old), ignore_errors=True)
            begun = [each for each in begun if each >= now - keep_seconds]
        if not begun or (keep_seconds is not None and begun[0] < now - keep_seconds / AGE_PARTS):
            begun.insert(0, int(now))
        opened = cls([])
        try:
            for each in begun:
                opened.folders.append(DigestFolder(folder / str(each)))
        except BaseException:
            opened.close()
            raise
        return opened

    def find(self, name: bytes) -> int:
        """Return the mark of a name, 0 if no set has it."""
        for folder in self.folders:
            if mark := folder.find(folder.digest(name)):
                return mark
        return 0

    def put(self, name: bytes, mark: int) -> None:
        """Mark a name, in the set that has it, or in the first. Raises OSError if the disk is full."""
        for folder in self.folders[1:]:
            if folder.find(digest := folder.digest(name)):
                folder.put(digest, mark)
                return
        first = self.folders[0]
        first.put(first.digest(name), mark)

    def __len__(self) -> int:
        return sum(map(len, self.folders))

    @property
    def file_bytes(self) -> int:
        """The size of all files, in bytes."""
        return sum(folder.file_bytes for folder in self.folders)

    def clear(self) -> None:
        """Remove all digests."""
        for folder in self.folders:
            folder.clear()

    def close(self) -> None:
        """Close the folders."""
        while self.folders:
            self.folders.pop().close()


class _SlotFile:
    """One mapped file of slots."""

    def __init__(self, path: Path) -> None:
        self.path = path
        beside = path.with_suffix(".new")
        if not path.exists() and beside.exists():  # a kill in grow(), after the copy was complete
            beside.replace(path)
        beside.unlink(missing_ok=True)
        if not _is_readable(path):
            _write(path, bytearray(HEADER_BYTES + LEAST_SLOTS * SLOT), 0)
        self._map()

    def _map(self) -> None:
        with self.path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0, **_UNTRACKED)
        self.size = len(self._memory)
        self._slots = (self.size - HEADER_BYTES) // SLOT
        self._bytes: Any = ffi.from_buffer("uint8_t[]", self._memory, require_writable=True)
        self._first = self._bytes + HEADER_BYTES
        self.count = min(_HEADER.unpack_from(self._memory)[3], self._slots)
        self._most = int(self._slots * FULL)

    @property
    def is_full(self) -> bool:
        """Whether it has to grow before another digest is added."""
        return bool(self.count >= self._most)

    def find(self, digest: bytes) -> int:
        """Return the mark of a digest, 0 without one."""
        found: int = lib.ndd_digest_find(self._first, self._slots, digest)
        return found

    def put(self, digest: bytes, mark: int) -> int:
        """Set the mark of a digest; return the one before."""
        before: int = lib.ndd_digest_put(self._first, self._slots, digest, mark)
        if before == 0:
            self.count += 1
            _COUNT.pack_into(self._memory, _COUNT_AT, self.count)
        elif before < 0:  # the count was damaged: there is no room
            self.count = self._slots
            self.grow()
            return self.put(digest, mark)
        return before

    def counts_by_last_byte(self) -> "Counter[int]":
        """Return how many digests end with each byte."""
        last, marks = (self._memory[HEADER_BYTES + at :: SLOT] for at in (SLOT - 2, SLOT - 1))
        return Counter(byte for byte, mark in zip(last, marks, strict=False) if mark)

    def grow(self) -> None:
        """Move the digests to a larger file, which takes this one's place. Raises OSError."""
        beside = self.path.with_suffix(".new")
        growth = GROWTH if self._slots > SMALL else SMALL_GROWTH
        self.copy(beside, int(self._slots * growth) + 1, -1)
        self.close()  # Windows replaces no mapped file
        self.path.unlink()  # to replace it would write the new one to the disk at once
        beside.replace(self.path)
        self._map()

    def copy(self, path: Path, slots: int, last_byte: int) -> None:
        """Write the digests that end with a byte, or all (-1), to a new file with that many slots.

        There must be more slots than these digests. Raises OSError if the disk is full; there is no file then.
        """
        content = bytearray(HEADER_BYTES + slots * SLOT)
        with ffi.from_buffer("uint8_t[]", content, require_writable=True) as to:
            count = lib.ndd_digest_copy(
                self._first, self._slots, to + HEADER_BYTES, slots, last_byte
            )
        _write(path, content, count)

    def close(self) -> None:
        """Unmap the file."""
        if self._bytes is not None:
            self._first = None
            ffi.release(self._bytes)
            self._bytes = None
            self._memory.close()


# a mapping needs no open file; before Python 3.13 it keeps one all the same
_UNTRACKED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


def _allow_files(more: int) -> None:
    """Raise the soft limit on open files by what mappings keep open, as far as the system allows."""
    if _UNTRACKED:
        return
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = soft + more if hard == resource.RLIM_INFINITY else min(soft + more, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _is_readable(path: Path) -> bool:
    """Whether there is a file of this format. Raises StoreDamaged for one of a later version."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
    except FileNotFoundError:
        return False
    if len(head) < _HEADER.size:
        return False
    magic, version, _, _ = _HEADER.unpack(head)
    if magic == MAGIC and version > VERSION:
        raise StoreDamaged(
            f"{path} has version {version}, this release reads {VERSION}: upgrade crawl-dedup, or "
            "remove the folder to begin with no requests seen"
        )
    return bool(magic == MAGIC and path.stat().st_size >= HEADER_BYTES + SLOT)


def _write(path: Path, content: bytearray, count: int) -> None:
    """Write a file. All of its space is taken: a full disk raises OSError here, not a signal later.

    Its header comes last: what a kill cut short is not a file of this format.
    """
    try:
        with open(path, "wb", buffering=0, opener=_private) as file:
            written = 0
            while written < len(content):  # the header is still zeros
                written += file.write(memoryview(content)[written:])
            file.seek(0)
            file.write(_HEADER.pack(MAGIC, VERSION, 0, count))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)
