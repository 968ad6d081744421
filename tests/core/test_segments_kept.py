"""A table of segments loses nothing that was flushed: damaged, killed, without room."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from forking import completed

from dedup.core.table import Match, Table
from dedup.model.errors import StoreDamaged
from dedup.store import segmented_table
from dedup.store.segmented_table import NAME, SegmentedTable, read_manifest


def opened(folder: Path) -> SegmentedTable:
    return SegmentedTable(folder, 3, threading.RLock())


def flush(table: SegmentedTable, note: int) -> None:
    table.freeze(note, Table(3))
    table.write(note)


def filled(folder: Path) -> list[Path]:
    """Make a table with two segments and a list of removed pairs; return its files."""
    table = opened(folder)
    for start in (0, 300):
        table.append(range(start, start + 300), range(300))
        flush(table, start)
    table.remove(np.array([5], np.uint64), np.array([5], np.uint64))
    flush(table, 600)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("damage", ["flip", "gone", "exchanged"])
@pytest.mark.parametrize("which", range(4))
def test_a_damaged_file_of_a_table_is_named(tmp_path, which, damage):
    """Whichever it is: the manifest, a segment, or what is removed; and nothing is deleted."""
    files = filled(tmp_path / "t")
    names = [path.name for path in files]
    assert [name.partition("-")[0] for name in names] == [NAME, "removed", "segment", "segment"]
    path = files[which]
    content = bytearray(path.read_bytes())
    if damage == "exchanged":
        other = filled(tmp_path / "other")[which].parent
        table = opened(other)
        table.append(range(700, 707), range(7))
        table.remove(np.array([8], np.uint64), np.array([8], np.uint64))
        flush(table, 601)
        newest = max(
            other.glob(f"{path.name.partition('-')[0]}*"), key=lambda p: p.stat().st_mtime_ns
        )
        content = bytearray(newest.read_bytes())
        assert content != path.read_bytes()
    elif damage == "flip":
        content[len(content) // 3] ^= 4
    path.unlink() if damage == "gone" else path.write_bytes(content)
    place = f"{tmp_path / 't'}" if which == 0 else str(path)
    if which == 0 and damage == "exchanged":
        place = "missing"  # of what it lists
    with pytest.raises(StoreDamaged, match=place):
        opened(tmp_path / "t")
    expected = names if damage != "gone" else [name for name in names if name != path.name]
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"format": "another"},
        {"k": "3"},
        {"more": 1},
        {"removed": {"name": "../removed-00000003.ndd", "documents": 1, "checksum": ""}},
        {"removed": {"name": "lock", "documents": 1, "checksum": ""}},
        {"removed": "removed-00000003.ndd"},
    ],
)
def test_a_manifest_that_is_not_one_is_refused(tmp_path, change):
    """Also when its checksum is right: another version, unknown fields, paths out of the folder."""
    filled(tmp_path / "t")
    path = tmp_path / "t" / NAME
    fields = json.loads(path.read_bytes().partition(b"\n")[0]) | change
    from hashlib import blake2b

    line = json.dumps(fields).encode()
    path.write_bytes(line + b"\n" + blake2b(line, digest_size=8).hexdigest().encode() + b"\n")
    with pytest.raises(StoreDamaged, match=NAME):
        opened(tmp_path / "t")


STEPS = [
    "store.segmented_table:write_pairs",
    "core.files:sync_folder",
    "store.segmented_table:write_checked",
    "core.files:replace_file",
    "store.segmented_table:Folder:delete",
]

KILLED = """
import importlib, os, sys, threading
from pathlib import Path
from dedup.store.segmented_table import SegmentedTable
from dedup.core.table import Table

table = SegmentedTable(Path(sys.argv[1]), 3, threading.RLock())
def flush(note):
    table.freeze(note, Table(3))
    table.write(note)
table.append(range(1000, 1300), range(300))
flush(900)
module, *names = sys.argv[2].split(":")
place = importlib.import_module("dedup." + module)
for name in names[:-1]:
    place = getattr(place, name)
kept = getattr(place, names[-1])
def before(*arguments):
    os._exit(9)
def after(*arguments):
    kept(*arguments)
    os._exit(9)
setattr(place, names[-1], before if sys.argv[3] == "before" else after)
table.merge()
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_ends_between_two_steps_of_a_merge_loses_nothing(tmp_path, step, when):
    """Before and after each step the table is the same (those of a write: test_store_index.py)."""
    filled(tmp_path / "t")
    assert completed(KILLED, [tmp_path / "t", step, when]).returncode == 9
    table = opened(tmp_path / "t")
    assert (len(table), table.note) == (899, 900)
    assert table.probe(5, 1)[0].document != 5
    assert table.probe(6, 1) == [Match(6, 6, 0)]
    left = {path.name for path in (tmp_path / "t").iterdir()} - {NAME}
    assert left == read_manifest(tmp_path / "t").files()


def test_files_that_are_made_in_mapped_files_are_the_same(tmp_path, monkeypatch):
    """Byte for byte: written, merged with removed pairs, and written again for a greater distance."""
    made = []
    for name, in_memory in (("small", segmented_table.IN_MEMORY), ("large", 0)):
        monkeypatch.setattr(segmented_table, "IN_MEMORY", in_memory)
        monkeypatch.setattr("dedup.store.segmented_table.STEP", 100)
        filled(tmp_path / name)
        table = opened(tmp_path / name)
        assert table.merge()
        assert len(table) == 599
        SegmentedTable(tmp_path / name, 5, threading.RLock())
        made.append([path.read_bytes() for path in (tmp_path / name).glob("segment-*")])
    assert len(made[0]) == 1
    assert made[0] == made[1]


MERGES = """
import resource, sys, threading
from pathlib import Path
import numpy as np
from dedup.core.table import Table
from dedup.store.segmented_table import Folder, SegmentedTable

folder, half = Path(sys.argv[1]), int(sys.argv[2]) // 2
made = Folder(folder, 8)
for start in (0, half):
    values = np.random.default_rng(start).integers(0, 2**64, half, dtype=np.uint64)
    segment = made.write(values, np.arange(start, start + half, dtype=np.uint64))
    made.commit([*made.segments, segment], (values[:0], values[:0]), start)
del values
table = SegmentedTable(folder, 8, threading.RLock())
status = Path("/proc/self/status").read_text().split()
held = int(status[status.index("VmData:") + 1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (held + (40 << 20), -1))
assert table.merge()
print(len(table), len(table._segments))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="a limit that leaves out mapped files")
def test_a_merge_takes_no_more_memory_the_more_there_is_to_merge(tmp_path):
    """Two million documents with 40 MB, where pairs and files take some hundred."""
    command = [sys.executable, "-c", MERGES, str(tmp_path / "t"), "2000000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "2000000 1\n", done.stderr
