"""The manifest: which files make up a table of segments; replaced in one step.

    {"format": "dedup segments", "version": 1, "k": ..., "note": ..., "segments": [...]}
    16 hex digits: BLAKE2b, 8 bytes, of the line before

The rules kept here:
  - What the manifest lists is the table. Other files in the folder are left-overs of a process that
    was killed, and are deleted when the table is opened.
  - A manifest is believed only if its checksum, its version and every field are right.
"""

import os
from hashlib import blake2b
from pathlib import Path

import msgspec

from dedup.core.files import PRIVATE, replace_file
from dedup.model.errors import StoreDamaged

__all__ = ["Listed", "Manifest", "checksum_of", "is_part", "read_manifest", "write_manifest"]

NAME = "manifest.json"
FORMAT, VERSION = "dedup segments", 2  # 1 numbered its files


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the table: its name, how many pairs it holds, and its own checksum."""

    name: str
    documents: int
    checksum: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table on disk.

    k         the greatest distance that its segments are made for
    note      a number of the caller's: what the table covers
    segments  from the oldest to the newest
    removed   pairs that are in a segment and no longer in the table: a saved table, if there are any
    """

    k: int
    note: int = 0
    segments: tuple[Listed, ...] = ()
    removed: Listed | None = None
    format: str = FORMAT
    version: int = VERSION

    def files(self) -> set[str]:
        """Return the names of the files of the table."""
        return {listed.name for listed in self.listed()}

    def listed(self) -> list[Listed]:
        """Return the files of the table."""
        return [*self.segments, *([] if self.removed is None else [self.removed])]


class _Version(msgspec.Struct):
    format: str
    version: int


def is_part(path: Path) -> bool:
    """Tell whether a file is such as a table of segments writes, by its name."""
    name = path.name.removeprefix(".")
    return name.startswith(("segment-", "removed-", f"{NAME}.")) and name != NAME


def checksum_of(path: Path) -> str:
    """Return the checksum of a file that ends with its own, as hex digits."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        return file.read().hex()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a folder; raises OSError, and then the old one holds."""
    line = msgspec.json.encode(manifest)
    replace_file(folder / NAME, line + b"\n" + _checksum(line) + b"\n", PRIVATE)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, None if there is none; raises StoreDamaged, and OSError."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    line, _, rest = content.partition(b"\n")
    if rest != _checksum(line) + b"\n":
        raise StoreDamaged(f"{path}: the checksum does not match")
    try:
        stated = msgspec.json.decode(line, type=_Version)
        if stated.format != FORMAT:
            raise StoreDamaged(f"{path}: the format is {stated.format!r}, not {FORMAT!r}")
        if stated.version != VERSION:
            raise StoreDamaged(f"{path}: the format version is {stated.version}, not {VERSION}")
        manifest = msgspec.json.decode(line, type=Manifest)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"{path}: {error}") from error
    names = [listed.name for listed in manifest.listed()]
    wrong = [name for name in names if Path(name).name != name or not is_part(Path(name))]
    if wrong or len(set(names)) < len(names):
        raise StoreDamaged(f"{path}: {', '.join(wrong or names)} cannot be a list of its files")
    return manifest


def _checksum(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).hexdigest().encode()
