"""Tables of segments: against a plain set of pairs, damaged, killed, without room, from many threads."""

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import mounting
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sizes import examples

import dedup.core.bulk.segments.folder as folder_of_files
from dedup.core.bulk.segments import Segment, SegmentedTable, write_segment
from dedup.core.bulk.segments.segment_manifest import NAME, read_manifest
from dedup.core.bulk.segments.value_pairs import held
from dedup.core.table import Match, Table
from dedup.model.errors import StoreDamaged, StoreLocked, UsageError

ALL = 2**64 - 1


def spread(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def numbered(values: np.ndarray, first: int = 0) -> np.ndarray:
    return np.arange(first, first + len(values), dtype=np.uint64)


def scan(pairs: set[tuple[int, int]], value: int, k: int) -> list[Match]:
    """Return what a probe must return, by comparing with every pair."""
    rows = sorted(((v ^ value).bit_count(), d, v) for v, d in pairs if (v ^ value).bit_count() <= k)
    return [Match(document, found, distance) for distance, document, found in rows]


# -------------------------------------------------------------------------------------- one segment


def test_the_bytes_are_those_of_the_specification(tmp_path):
    """The example of docs/segment-format.md is what is written, on every machine."""
    page = Path(__file__).parents[2] / "docs" / "segment-format.md"
    hexadecimal = page.read_text(encoding="utf-8").split("```text")[1].split("```")[0]
    write_segment(tmp_path / "s", [ALL, 1, 1], [0, 9, 7], 3, note=5)
    assert (tmp_path / "s").read_bytes() == bytes.fromhex(hexadecimal)


@pytest.mark.parametrize("k", [0, 3, 6, 15])
def test_a_segment_answers_as_the_table_of_its_pairs(tmp_path, k):
    """find() and probe() give what dedup.Table gives, for its k and smaller ones, with limits."""
    values = spread(20_000)
    values[::2] = values[0] ^ (np.uint64(1) << (values[::2] % np.uint64(64)))
    documents = numbered(values) % np.uint64(7_000)
    assert write_segment(tmp_path / "s", values, documents, k, note=5) == len(
        set(zip(values.tolist(), documents.tolist(), strict=True))
    )
    segment = Segment(tmp_path / "s")
    assert (segment.k, segment.note) == (k, 5)
    assert segment.values == len(np.unique(values))
    queries = np.concatenate([values[:50], values[50:100] ^ np.uint64(5), spread(50, 2)])
    for smaller in {k, k // 2, 0}:
        table = Table(smaller)
        table.insert_many(values, documents)
        for limit in (0, 1, 10):
            found, expected = segment.find(queries, smaller, limit), table.find(queries, limit)
            assert np.array_equal(found.offsets, expected.offsets)
            assert np.array_equal(found.matches, expected.matches)
            assert np.array_equal(found.cut, expected.cut)
        assert segment.probe(int(values[0]), smaller) == table.probe(int(values[0]))


def test_a_segment_tells_its_pairs(tmp_path):
    """pairs() has each pair once, and has() tells these from others."""
    values = spread(3000) % np.uint64(1000)
    documents = spread(3000, 2) % np.uint64(50)
    write_segment(tmp_path / "s", values, documents)
    segment = Segment(tmp_path / "s")
    pairs = set(zip(*(part.tolist() for part in segment.pairs()), strict=True))
    assert pairs == set(zip(values.tolist(), documents.tolist(), strict=True))
    assert len(segment) == len(pairs)
    others = np.repeat(np.arange(1000, dtype=np.uint64), 50), np.tile(numbered(np.empty(50)), 1000)
    expected = [pair in pairs for pair in zip(*(o.tolist() for o in others), strict=True)]
    assert segment.has(*others).tolist() == expected


def test_a_static_segment_takes_at_most_13_bytes_a_fingerprint(tmp_path):
    """A million evenly spread fingerprints, for k = 3; documents aside."""
    values = spread(1_000_000)
    write_segment(tmp_path / "s", values, numbered(values), 3)
    assert (tmp_path / "s").stat().st_size - 8 * len(values) <= 13 * len(values)


def test_a_distance_beyond_a_segments_design_is_refused(tmp_path):
    """The error names both distances."""
    write_segment(tmp_path / "s", [1], [1], 3)
    with pytest.raises(UsageError, match="k is 4; .* up to 3"):
        Segment(tmp_path / "s").find([1], 4)


@pytest.mark.parametrize(
    ("values", "documents", "k"),
    [
        ([1], [1, 2], 3),
        ([1], [1], 16),
        ([1], [1], -1),
        ([-1], [1], 3),
        ([2**64], [1], 3),
        ([1.5], [1], 3),
        (np.zeros((2, 2), np.uint64), [1], 3),
        (np.zeros(1), [1], 3),
        ("1", [1], 3),
    ],
)
def test_what_cannot_be_written(tmp_path, values, documents, k):
    """Wrong shapes, types and distances are refused, and there is no file."""
    with pytest.raises(UsageError):
        write_segment(tmp_path / "s", values, documents, k)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "longer", "version", "other"])
def test_a_damaged_segment_is_named_and_refused(tmp_path, damage):
    """The error has the path."""
    path = tmp_path / "s"
    values = spread(1000)
    write_segment(path, values, numbered(values))
    content = bytearray(path.read_bytes())
    match damage:
        case "flip":
            content[len(content) // 2] ^= 1
        case "cut":
            del content[len(content) // 2 :]
        case "empty":
            content.clear()
        case "longer":
            content += b"\0"
        case "version":
            content[8] = 2
        case _:
            content[:8] = b"NDDTABLE"
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=str(path)):
        Segment(path)


# -------------------------------------------------------------------------------- the logical table


class Pairs(RuleBasedStateMachine):
    """A table of segments does what a set of pairs does, flushed, merged and opened again anywhere."""

    folder: Path

    @initialize(k=st.sampled_from([0, 3, 6]))
    def begin(self, k):
        self.k = k
        shutil.rmtree(self.folder, ignore_errors=True)
        self.table = SegmentedTable(self.folder, k, segment_documents=30)
        self.pairs: set[tuple[int, int]] = set()

    values = st.one_of(
        st.integers(0, 63).map(lambda bit: 1 << bit),
        st.integers(0, 63).map(lambda bit: ALL ^ 1 << bit),
        st.sampled_from([0, ALL, 0xFEED]),
    )
    documents = st.integers(0, 3)

    @rule(pairs=st.lists(st.tuples(values, documents), max_size=20))
    def insert(self, pairs):
        new = set(pairs) - self.pairs
        values, documents = [v for v, _ in pairs], [d for _, d in pairs]
        assert self.table.insert_many(values, documents) == len(new)
        self.pairs |= new

    @rule(value=values, document=documents)
    def remove(self, value, document):
        assert self.table.remove(value, document) == ((value, document) in self.pairs)
        self.pairs.discard((value, document))

    @rule(share=st.integers(0, 99))
    def remove_one_that_is_there(self, share):
        if self.pairs:
            pair = sorted(self.pairs)[share * len(self.pairs) // 100]
            assert self.table.remove(*pair)
            self.pairs.discard(pair)

    @rule(note=st.one_of(st.none(), st.integers(0, ALL)))
    def flush(self, note):
        self.table.flush(note)
        assert note is None or self.table.note == note

    @rule()
    def merge(self):
        self.table.merge()

    @rule()
    def open_again(self):
        self.table.close()
        self.table = SegmentedTable(self.folder, segment_documents=30)
        assert self.table.k == self.k

    @rule(value=values, limit=st.one_of(st.none(), st.integers(1, 5)))
    def probe(self, value, limit):
        expected = scan(self.pairs, value, self.k)
        for found in (self.table.probe(value, limit), self.many(value, limit)):
            assert found == expected[:limit]
        cut = limit is not None and len(expected) > limit
        assert self.table.probe(value, limit).cut == cut
        assert self.table.probe_many([0, value], limit).cut.tolist()[1] == cut

    def many(self, value, limit):
        offsets, documents, distances = self.table.probe_many([ALL, value], limit)
        expected = scan(self.pairs, value, self.k)[:limit]
        part = slice(int(offsets[1]), int(offsets[2]))
        rows = zip(documents[part].tolist(), distances[part].tolist(), strict=True)
        assert list(rows) == [(match.document, match.distance) for match in expected]
        return expected

    @invariant()
    def counts(self):
        if hasattr(self, "table"):
            assert len(self.table) == len(self.pairs)

    def teardown(self):
        if hasattr(self, "table"):
            self.table.close()


def test_a_table_of_segments_is_a_set_of_pairs(tmp_path):
    """Any sequence of inserts, removals, flushes, merges and openings, against a plain set."""
    from hypothesis.stateful import run_state_machine_as_test

    Pairs.folder = tmp_path / "t"
    run_state_machine_as_test(
        Pairs, settings=settings(max_examples=examples(25), stateful_step_count=40, deadline=None)
    )


def test_many_inserts_become_few_segments(tmp_path):
    """What fills the memory is written and merged behind the caller, and everything is found."""
    values = spread(100_000)
    with SegmentedTable(tmp_path / "t", 3, segment_documents=5_000) as table:
        for start in range(0, len(values), 2_000):
            part = slice(start, start + 2_000)
            assert table.insert_many(values[part], numbered(values[part], start)) == 2_000
        table.flush()
        stats = table.stats()
        assert stats.documents == len(values)
        assert 1 <= stats.segments <= 8
        offsets, documents, _ = table.probe_many(values[:5_000] ^ np.uint64(9))
        assert np.array_equal(np.sort(documents), numbered(values[:5_000]))
        assert len(offsets) == 5_001


def test_what_came_back_while_it_was_merged_away_is_there(tmp_path, monkeypatch):
    """A pair removed before a flush, and inserted again while a merge drops it, stays inserted."""
    table = SegmentedTable(tmp_path / "t", 3)
    table.insert_many([1, 2], [1, 2])
    table.flush()
    table.insert(3, 3)
    assert table.remove(1, 1)
    table.flush()
    written = folder_of_files.write_segment

    def meanwhile(*arguments):
        assert table.insert(1, 1)
        return written(*arguments)

    monkeypatch.setattr(folder_of_files, "write_segment", meanwhile)
    table.merge()
    monkeypatch.undo()
    assert table.probe(1, 1) == [Match(1, 1, 0)]
    assert (table.stats().segments, table.stats().removed, len(table)) == (1, 0, 3)
    table.close()
    with SegmentedTable(tmp_path / "t") as again:
        assert len(again) == 3
        assert [match.document for match in again.probe(1)] == [1, 3, 2]


def test_a_folder_belongs_to_one_table(tmp_path):
    """A second opening is refused until the first is closed."""
    with SegmentedTable(tmp_path / "t"), pytest.raises(StoreLocked):
        SegmentedTable(tmp_path / "t")
    SegmentedTable(tmp_path / "t").close()


def test_a_table_is_opened_for_its_distance_or_a_smaller_one(tmp_path):
    """A larger one is refused, and says what to do."""
    with SegmentedTable(tmp_path / "t", 4) as table:
        table.insert_many([0b1111, 0b11], [1, 2])
    with SegmentedTable(tmp_path / "t", 2) as table:
        assert [match.document for match in table.probe(0)] == [2]
        table.insert(1, 3)
    with pytest.raises(UsageError, match="k is 5; .* up to 4"):
        SegmentedTable(tmp_path / "t", 5)
    with SegmentedTable(tmp_path / "t") as table:
        assert [match.document for match in table.probe(0)] == [3, 2, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t.insert(-1, 0),
        lambda t: t.insert_many([1], [1, 2]),
        lambda t: t.insert_many(np.zeros((1, 1), np.uint64), [1]),
        lambda t: t.insert_many(np.zeros(1), [1]),
        lambda t: t.probe(2**64),
        lambda t: t.probe(1, limit=0),
        lambda t: t.probe_many([True]),
        lambda t: t.remove(1.5, 1),
        lambda t: t.flush(note=-1),
        lambda t: SegmentedTable("unused", -1),
        lambda t: SegmentedTable("unused", 16),
        lambda t: SegmentedTable("unused", segment_documents=0),
    ],
)
def test_wrong_arguments_change_nothing(tmp_path, monkeypatch, wrong):
    """Each is a UsageError."""
    monkeypatch.chdir(tmp_path)
    with SegmentedTable(tmp_path / "t") as table:
        table.insert(1, 1)
        with pytest.raises(UsageError):
            wrong(table)
        assert len(table) == 1
    assert not Path("unused").exists()


def test_a_closed_table_says_so(tmp_path):
    """Inserts, removals, flushes and merges are refused; closing again does nothing."""
    table = SegmentedTable(tmp_path / "t")
    table.close()
    table.close()
    for call in (lambda: table.insert(1, 1), lambda: table.remove(1, 1), table.flush, table.merge):
        with pytest.raises(UsageError, match="is closed"):
            call()


# ------------------------------------------------------------------------------------------- damage


def filled(folder: Path) -> list[Path]:
    """Make a table with two segments and a list of removed pairs; return its files."""
    with SegmentedTable(folder) as table:
        for start in (0, 300):
            table.insert_many(range(start, start + 300), range(300))
            table.flush()
        table.remove(5, 5)
    return sorted(path for path in folder.iterdir() if path.name != "lock")


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "exchanged"])
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
        with SegmentedTable(other) as table:
            table.insert(7, 7)
            table.merge()
            table.remove(8, 8)
        content = bytearray(max(other.glob(path.name.partition("-")[0] + "*")).read_bytes())
    elif damage == "flip":
        content[len(content) // 3] ^= 4
    elif damage == "cut":
        del content[-9:]
    path.unlink() if damage == "gone" else path.write_bytes(content)
    place = f"{tmp_path / 't'}" if which == 0 else str(path)
    with pytest.raises(StoreDamaged, match=place):
        SegmentedTable(tmp_path / "t")
    expected = names if damage != "gone" else [name for name in names if name != path.name]
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == sorted([*expected, "lock"])


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
        SegmentedTable(tmp_path / "t")


# --------------------------------------------------------------------------------- kills, full disks

WRITER = """
import sys
import numpy as np
from dedup.core.bulk.segments import SegmentedTable

table = SegmentedTable(sys.argv[1], 3, segment_documents=300)
rng = np.random.default_rng(int(sys.argv[2]))
step = table.note
while True:
    start = step * 100
    values = np.arange(start, start + 100, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    table.insert_many(values, np.arange(start, start + 100, dtype=np.uint64))
    for document in range(start, start + 100, 10):  # each tenth goes again
        table.remove(int(values[document - start]), document)
    step += 1
    if rng.integers(3) == 0:
        table.flush(step)
        print(step, flush=True)
    if rng.integers(10) == 0:
        table.merge()
"""


def test_a_kill_at_any_moment_loses_nothing_that_was_flushed(tmp_path):
    """Killed -9 five times while it writes and merges, a table has what flush() returned for.

    What it has beyond that is whole steps' inserts in their order, as the background wrote them.
    """
    folder, seeds = tmp_path / "t", random.Random(3)
    acknowledged = 0
    for seed in range(5):
        command = [sys.executable, "-c", WRITER, str(folder), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(seeds.randrange(1, 12)):
                acknowledged = int(process.stdout.readline())
            timer = threading.Timer(seeds.random() * 0.05, process.kill)
            timer.start()
            rest = process.stdout.read().split("\n")
            acknowledged = max([acknowledged, *map(int, filter(None, rest[:-1]))])
        assert process.returncode == -signal.SIGKILL
        with SegmentedTable(folder) as table:
            assert table.note >= acknowledged
            acknowledged = table.note
            documents = np.arange(acknowledged * 100, dtype=np.uint64)
            documents = documents[documents % np.uint64(10) > 0]
            values = documents * np.uint64(0x9E3779B97F4A7C15)
            assert np.all(held(table._segments, values, documents))
            assert all(len(table.probe(int(value))) >= 1 for value in values[-200:])
            gone = np.arange(0, acknowledged * 100, 10, dtype=np.uint64)
            alive = {
                m.document
                for d in gone[-30:]
                for m in table.probe(int(d) * 0x9E3779B97F4A7C15 % 2**64)
            }
            assert not alive & set(gone[-30:].tolist())
            left = {path.name for path in folder.iterdir()} - {"lock", NAME}
            assert left == read_manifest(folder).files()


STEPS = [
    "core.bulk.segments.folder.write_segment",
    "core.bulk.segments.segment.replace_file",
    "core.bulk.segments.folder.write_manifest",
    "core.bulk.segments.segment_manifest.replace_file",
    "core.bulk.segments.folder.Folder.delete",
]

KILLED = """
import importlib, os, sys
from dedup.core.bulk.segments import SegmentedTable

table = SegmentedTable(sys.argv[1])
table.insert_many(range(1000, 1300), range(300))
if sys.argv[3] == "merge":
    table.flush()
module, *names = sys.argv[2].rsplit(".", 1) if "Folder." not in sys.argv[2] else (
    "core.bulk.segments.folder", "Folder", "delete")
place = importlib.import_module("dedup." + module)
for name in names[:-1]:
    place = getattr(place, name)
kept = getattr(place, names[-1])
def before(*arguments):
    os._exit(9)
def after(*arguments):
    kept(*arguments)
    os._exit(9)
setattr(place, names[-1], before if sys.argv[4] == "before" else after)
table.merge() if sys.argv[3] == "merge" else table.flush()
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["flush", "merge"])
@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_ends_between_two_steps_loses_nothing(tmp_path, step, what, when):
    """Before and after each step of a flush and of a merge, the table is the old or the new one."""
    filled(tmp_path / "t")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "t"), step, what, when]
    assert subprocess.run(command, check=False).returncode == 9
    with SegmentedTable(tmp_path / "t") as table:
        assert len(table) in ({599, 899} if what == "flush" else {899})
        assert table.probe(5, 1)[0].document != 5
        assert table.probe(6, 1) == [Match(6, 6, 0)]
        left = {path.name for path in (tmp_path / "t").iterdir()} - {"lock", NAME}
        assert left == read_manifest(tmp_path / "t").files()


FULL = """
import sys
import mounting
mounting.small_disk(sys.argv[1], "300k")
import numpy as np
from pathlib import Path
from dedup.core.bulk.segments import SegmentedTable

table = SegmentedTable(sys.argv[1] + "/t", 3, segment_documents=2000)
values = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
stored, refused = 0, None
while refused is None:
    part = slice(stored, stored + 500)
    try:
        table.insert_many(values[part], np.arange(stored, stored + 500, dtype=np.uint64))
        stored += 500
    except OSError as error:
        refused = error
assert refused.errno == 28, refused
assert 4000 < stored < 100_000
for call in (table.flush, table.merge):
    try:
        call()
    except OSError as error:
        assert error.errno == 28
assert len(table) == stored
found = table.probe_many(values[:stored])[1]
assert np.array_equal(np.sort(found), np.arange(stored)), "something is lost in memory"
on_disk = sum(len(segment) for segment in table._segments)
try:
    table.close()
except OSError:
    pass
with open(sys.argv[1] + "/t/manifest.json") as file:
    assert file.readline().startswith("{")
again = SegmentedTable(sys.argv[1] + "/t")
assert len(again) >= on_disk > 0
count = len(again)
assert np.array_equal(np.sort(again.probe_many(values[:count])[1]), np.arange(count))
print(count)
import os
os._exit(0)
"""


@pytest.mark.skipif(not mounting.can_mount(), reason="needs mounts of its own")
def test_a_full_disk_loses_nothing(tmp_path):
    """On a disk of 300 KB inserts are refused in the end; what was stored is found, what was written, too."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        cwd=Path(__file__).parents[1] / "support",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    assert "what is not on disk stays in memory" in done.stderr


# ------------------------------------------------------------------------------------------ threads


def test_probes_go_on_while_it_is_written_and_merged(tmp_path):
    """Two threads probe what was inserted before, while one inserts, removes, flushes and merges."""
    values = spread(60_000)
    table = SegmentedTable(tmp_path / "t", 3, segment_documents=3_000)
    table.insert_many(values[:1_000], numbered(values[:1_000]))
    done, wrong = threading.Event(), []

    def probe():
        rng = random.Random(threading.get_ident())
        while not done.is_set():
            i = rng.randrange(1_000)
            found = table.probe_many(values[i : i + 1] ^ np.uint64(5))[1].tolist()
            if found != [i] or [m.document for m in table.probe(int(values[i]))] != [i]:
                wrong.append((i, found))

    threads = [threading.Thread(target=probe) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for start in range(1_000, len(values), 1_000):
            part = values[start : start + 1_000]
            table.insert_many(part, numbered(part, start))
            assert table.remove(int(part[0]), start)
            assert table.insert(int(part[0]), start)
            assert table.remove(int(part[1]), start + 1)
            if start % 5_000 == 0:
                table.flush(start)
            if start % 20_000 == 0:
                table.merge()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(table) == len(values) - 59
    table.close()
