"""Copy a WACZ without its near-duplicates: its WARCs, and the indexes and hashes that name their parts.

    WARCs (near-duplicates become revisits) -> indexes with the new offsets -> datapackage.json with
    the new hashes

Invariants:
  - What is neither a WARC, an index nor a digest is copied byte for byte, with its time.
  - A line of an index has the offset and the length of its record in the copy; that of a revisit has
    the MIME type warc/revisit, and that of a record that was left out is gone.
  - A signature holds for the original: the copy has none.
"""

import errno
import gzip
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from dedup.scan.copies.records import Copy, Drops, Moves, PackedFile, WarcCopier
from dedup.scan.formats.wacz import TORN, is_warc, open_member

_PACKAGE, _DIGEST = "datapackage.json", "datapackage-digest.json"
_INDEXES = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
_LONGEST = 1 << 24  # bytes of a line or a block of an index
_REVISIT = "warc/revisit"


def copy_wacz(copy: Copy, drops: Drops) -> str | None:
    """Copy a WACZ; return why a part of it is missing, or None. Raises OSError."""
    with open(copy.source, "rb") as raw:  # noqa: PTH123 - a path as text
        try:
            old = zipfile.ZipFile(raw)
        except (*TORN, OSError) as error:
            return f"no ZIP archive ({error})"
        with zipfile.ZipFile(copy.target, "w") as new:
            missing = _Copier(copy, drops, raw, old, new).run()
    with copy.target.open("rb+") as written:
        os.fsync(written.fileno())
    return missing


class _Copier:
    def __init__(
        self,
        copy: Copy,
        drops: Drops,
        raw: IO[bytes],
        old: zipfile.ZipFile,
        new: zipfile.ZipFile,
    ) -> None:
        self._copy, self._drops = copy, drops
        self._raw, self._old, self._new = raw, old, new
        self._number = 0  # of the last record
        self._moves: dict[str, Moves] = {}  # by the name that an index has for the WARC
        self._written: dict[str, tuple[str, int]] = {}  # hash and size of what was written
        self._missing: str | None = None

    def run(self) -> str | None:
        infos = self._old.infolist()
        indexes = [info for info in infos if _is_index(info.filename)]
        blocks = {info.filename for info in infos if info.filename.endswith(".idx")}
        done = {_PACKAGE, _DIGEST, *blocks, *(info.filename for info in indexes)}
        for info in infos:
            if is_warc(info.filename):
                self._guarded(info, self._warc)
        for info in infos:
            if info.filename not in done and not is_warc(info.filename):
                self._guarded(info, self._plain)
        for info in indexes:
            self._guarded(info, self._index)
        for info in infos:
            if info.filename == _PACKAGE:
                self._guarded(info, self._package)
        return self._missing

    def _guarded(self, info: zipfile.ZipInfo, write: Any) -> None:
        try:
            write(info)
        except (*TORN, KeyError, TypeError, AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in {None, errno.EINVAL}:
                raise  # the disk's
            self._missing = f"{info.filename} cannot be copied ({error})"

    def _warc(self, info: zipfile.ZipInfo) -> None:
        beside = self._copy.target.with_name(f"{self._copy.target.name}.warc")
        moves = self._moves[info.filename.removeprefix("archive/")] = Moves()
        try:
            with (
                open_member(self._old, self._raw, info) as file,
                PackedFile(beside, info.filename) as out,
            ):
                copier = WarcCopier(file, info.filename, self._drops, out, self._number, moves)
                try:
                    copier.run()
                finally:
                    self._number = copier.number
            with beside.open("rb") as part:
                self._write(info, part)
        finally:
            beside.unlink(missing_ok=True)

    def _plain(self, info: zipfile.ZipInfo) -> None:
        with self._old.open(info) as part:
            self._write(info, part)

    def _write(self, info: zipfile.ZipInfo, part: IO[bytes]) -> None:
        """Write a member under the name and with the time of an old one."""
        made = zipfile.ZipInfo(info.filename, info.date_time)
        made.compress_type = zipfile.ZIP_STORED if is_warc(info.filename) else info.compress_type
        made.external_attr = info.external_attr
        digest, size = hashlib.sha256(), 0
        with self._new.open(made, "w", force_zip64=True) as out:
            while data := part.read(1 << 20):
                digest.update(data)
                size += len(data)
                out.write(data)
        self._written[info.filename] = f"sha256:{digest.hexdigest()}", size

    # ------------------------------------------------------------------------------- indexes

    def _index(self, info: zipfile.ZipInfo) -> None:
        beside = self._copy.target.with_name(f"{self._copy.target.name}.index")
        idx = info.filename.removesuffix(".gz").rpartition(".")[0] + ".idx"
        try:
            with beside.open("wb") as out:
                if not info.filename.endswith(".gz"):
                    with self._old.open(info) as lines:
                        for line in self._lines(lines):
                            out.write(line)
                elif idx in self._old.namelist():
                    self._blocks(info, self._old.getinfo(idx), out)
                else:
                    with (
                        gzip.open(self._old.open(info)) as lines,
                        gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed,
                    ):
                        for line in self._lines(lines):
                            packed.write(line)
            with beside.open("rb") as part:
                self._write(info, part)
        finally:
            beside.unlink(missing_ok=True)

    def _blocks(self, info: zipfile.ZipInfo, idx: zipfile.ZipInfo, out: IO[bytes]) -> None:
        """Write a compressed index block by block, and the index of its blocks."""
        with self._old.open(info) as file:
            packed = file.read()  # its own size is about that of a page for a thousand records
        made = io.BytesIO()
        with self._old.open(idx) as lines:
            while line := lines.readline(_LONGEST):
                head, brace, rest = line.partition(b"{")
                if line.startswith(b"!") or not brace:
                    made.write(line)
                    continue
                fields = msgspec.json.decode(brace + rest)
                begin, length = int(fields["offset"]), int(fields["length"])
                block = zlib.decompressobj(31).decompress(packed[begin : begin + length], _LONGEST)
                kept = list(self._lines(io.BytesIO(block)))
                if not kept:
                    continue
                data = gzip.compress(b"".join(kept), mtime=0)
                fields.update(offset=out.tell(), length=len(data))
                if "digest" in fields:
                    fields["digest"] = f"sha256:{hashlib.sha256(data).hexdigest()}"
                head = kept[0].partition(b"{")[0]
                made.write(head + msgspec.json.encode(fields) + b"\n")
                out.write(data)
        made.seek(0)
        self._write(idx, made)

    def _lines(self, lines: Any) -> Iterator[bytes]:
        """Yield the lines of an index as they are in the copy."""
        while line := lines.readline(_LONGEST):
            head, brace, rest = line.partition(b"{")
            if not brace or line.startswith(b"!"):
                yield line
                continue
            fields = msgspec.json.decode(brace + rest)
            moves = self._moves.get(fields.get("filename"))
            if moves is None:
                yield line
                continue
            moved = moves.of(int(fields["offset"]))
            if moved is None:
                continue
            was = type(fields["offset"])  # writers give numbers as strings, too
            fields["offset"], fields["length"] = was(moved[0]), was(moved[1])
            if moved[2]:
                fields["mime"] = _REVISIT
            fields.pop("recordDigest", None)  # of the bytes that the original has
            yield head + msgspec.json.encode(fields) + b"\n"

    # ------------------------------------------------------------------------------- digests

    def _package(self, info: zipfile.ZipInfo) -> None:
        """Write datapackage.json with the new hashes and sizes, and the digest of that."""
        package = msgspec.json.decode(self._old.read(info))
        resources = [r for r in package.get("resources", ()) if r.get("path") in self._written]
        for resource in resources:
            resource["hash"], resource["bytes"] = self._written[resource["path"]]
        if "resources" in package:
            package["resources"] = resources
        self._write(info, io.BytesIO(msgspec.json.format(msgspec.json.encode(package), indent=2)))
        if _DIGEST in self._old.namelist():
            said = {"path": _PACKAGE, "hash": self._written[_PACKAGE][0]}
            digest = io.BytesIO(msgspec.json.format(msgspec.json.encode(said), indent=2))
            self._write(self._old.getinfo(_DIGEST), digest)


def _is_index(name: str) -> bool:
    return name.startswith("indexes/") and name.endswith(_INDEXES)
