"""`dedup scan` on what is torn, hostile or far too large: it goes on, says so, and stays small."""

import gzip
import json
import random
import subprocess
import sys
import zlib
from functools import partial
from itertools import repeat

import pytest
import zstandard
from command_line import call
from needing import linux_only
from scanning import (
    judged,
    mixed,
    page,
    records,
    response,
    scanned,
    write_lines,
    write_parquet,
    write_warc,
)

from dedup.model.recipes import recipe_of
from dedup.scan import ScanJob, scan
from dedup.scan.records import read_lines
from dedup.scan.values import Broken, ReadingOptions
from dedup.scan.warc import read_warc

PAGES = mixed(30, 3)
LIMIT_MB = 256  # a bare scan takes about 60; what the bombs below hold is 400 MB and more


def faults(path, **options):
    """Scan a file; return its summary, and the faults as (place, reason)."""
    summary = scan(ScanJob(inputs=(str(path),), **options))
    return summary, [(f.place, f.reason) for f in summary.faults]


# ----------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("suffix", [".warc.gz", ".warc"])
def test_each_torn_record_costs_itself_alone(tmp_path, suffix):
    """Whatever is done to a record, the others are read, and one fault names the place."""
    found = records(PAGES)
    pack = gzip.compress if suffix == ".warc.gz" else bytes
    parts = [pack(record) for record in found]
    torn = parts[10]
    damages = {
        "a head that is none": pack(found[10].replace(b"WARC/1.0", b"WURC/1.0")),
        "no length": pack(found[10].replace(b"\r\nContent-Length: ", b"\r\nContent-Lengt: ", 1)),
        "a length that is no number": pack(found[10].replace(b"Length: ", b"Length: x", 1)),
        "no URL": pack(found[10].replace(b"Target-URI", b"Target-URX")),
        "no HTTP": pack(found[10].replace(b"HTTP/1.1 200 OK", b"\x00\xff garbage...")),
        "junk": b"junk without end\n" * 50,
        "head of a record in junk": b"junk\nWARC/1.0\r\nWARC-Type: response\r\n" + b"junk\n" * 99,
    }
    if suffix == ".warc.gz":
        middle = len(torn) // 2
        damages["zeros inside"] = torn[:middle] + bytes(40) + torn[middle + 40 :]
        damages["its second half is missing"] = torn[:middle]
        damages["a wrong checksum"] = torn[:-8] + bytes(8)
    for name, damage in damages.items():
        path = tmp_path / f"p{suffix}"
        path.write_bytes(b"".join([*parts[:10], damage, *parts[11:]]))
        summary, places = faults(path)
        assert summary.broken == len(places) == 1, (name, places)
        assert scanned(tmp_path, path) == judged(PAGES[:10] + PAGES[11:]), name
        start = sum(map(len, parts[:10]))
        before = start - len(parts[9])
        assert places[0][0] in {
            f"byte {start}",
            f"byte {start + len(b'junk ')}",
            f"after the record at byte {before}",
        }, name


def test_a_wrong_length_costs_its_record_and_no_other(tmp_path):
    """A record that claims a part of the next one: both are there, the damage is named."""
    found = records([page(f"http://a/{i}", i) for i in range(4)])
    length = int(found[1].split(b"Content-Length: ")[1].split(b"\r\n")[0])
    found[1] = found[1].replace(b"%d" % length, b"%d" % (length + 200), 1)
    summary, places = faults(write_warc(tmp_path / "p.warc.gz", found))
    assert (summary.pages, summary.broken) == (4, 1)
    assert places[0][0].startswith("after the record")


def test_bad_lines_are_named_by_their_number(tmp_path):
    """Lines that are no JSON, have no page, or no text: each is named, the others are read."""
    bad = ["{", "[]", '"x"', '{"url": "http://a/"}', '{"url": 1, "html": ""}', "null", "\\ud800"]
    bad += ['{"url": "", "html": "x"}', "[" * 10_000]
    bad += [json.dumps({"url": "http://a/" + "a" * 70_000, "html": "x"})]
    lines = [json.dumps(p._asdict()) for p in PAGES]
    for number, line in enumerate(bad):
        lines.insert(2 * number + 1, line)
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(["", *lines]))
    _, places = faults(path)
    assert [place for place, _ in places] == [f"line {2 * n + 3}" for n in range(len(bad))]
    assert scanned(tmp_path, path) == judged(PAGES)
    path.write_bytes(path.read_bytes() + b'\n{"url": "http://a/", "html": "\xff"}')
    assert faults(path)[0].broken == len(bad) + 1


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_a_torn_compression_ends_its_file(tmp_path, suffix):
    """What comes before it counts, the next file is read, and the exit is that of a failure."""
    first = write_lines(tmp_path / f"a{suffix}", [page(f"http://a/{i}", i) for i in range(1500)])
    data = first.read_bytes()
    first.write_bytes(data[: len(data) // 2])
    write_lines(tmp_path / "b.jsonl", [page("http://b/", "b")])
    summary, places = faults(tmp_path)
    assert (summary.broken, summary.unread_files) == (1, 1)
    assert 300 < summary.pages < 1200
    assert places[0][0] == f"after line {summary.pages - 1}"
    done = call("scan", tmp_path)
    assert done.exit_code == 1
    assert "compressed data is damaged" in done.stderr


def test_broken_parquet_is_named(tmp_path):
    """A file that is none, one cut, one without the columns, one with other types, null values."""
    import pyarrow as pa
    from pyarrow import parquet

    good = write_parquet(tmp_path / "p.parquet", PAGES).read_bytes()
    path = tmp_path / "q.parquet"
    for data in (b"", b"PAR1", good[:-20], good[: len(good) // 2], b"x" * 1000):
        path.write_bytes(data)
        summary, _ = faults(path)
        assert (summary.pages, summary.broken, summary.unread_files) == (0, 1, 1)
    parquet.write_table(pa.table({"url": ["a"], "text": ["b"]}), path)
    assert "has no column 'html', only url, text" in faults(path)[1][0][1]
    (lines := tmp_path / "pages.jsonl").write_text(
        '{"address": "http://a.example/", "html": "<p>"}'
    )
    assert "--url-field, --html-field" in faults(lines)[1][0][1]
    columns = {"url": ["http://a/", None, "http://c/"], "html": [b"<p>x", b"y", None]}
    parquet.write_table(pa.table(columns), path)
    summary, places = faults(path)
    assert (summary.pages, [p for p, _ in places]) == (1, ["row 2", "row 3"])
    changed = bytearray(good)
    rng = random.Random(2)
    for _ in range(15):
        at = rng.randrange(len(good))
        changed[at] ^= 255
        path.write_bytes(changed)
        faults(path)  # it ends, and raises nothing
        changed[at] ^= 255


def test_a_file_that_cannot_be_read_does_not_end_the_scan(tmp_path):
    """A file that is gone when its turn comes is named; the others are read."""
    from dedup.scan.reading import read_task
    from dedup.scan.values import Task, Unit

    reading = ReadingOptions("url", "html", 1 << 20, recipe_of())
    for kind in ("warc", "jsonl", "parquet", "html"):
        unit = Unit(kind, (bytes(tmp_path / "gone\udcff"),), 0)
        (result,) = read_task(Task(0, unit), reading)
        assert isinstance(result, Broken) and result.rest
        assert "No such file" in result.reason
        assert result.path.encode().endswith(b"gone\\xff")


MARKS = [b"WARC/1.0\r\n", b"\r\n\r\n", b"\x1f\x8b\x08", b"-1", b"\0"]


@pytest.mark.parametrize("kind", ["warc", "warc.gz", "warc.zst", "jsonl", "jsonl.gz", "jsonl.zst"])
def test_chance_mutations_are_read_to_their_end(tmp_path, kind):
    """Cut, doubled and changed bytes: every reader ends, and gives the same twice."""
    pages = [page(f"http://a/{i}", i, words=30) for i in range(6)]
    path = tmp_path / f"p.{kind}"
    reader = read_warc if "warc" in kind else read_lines
    made = write_warc(path, records(pages)) if "warc" in kind else write_lines(path, pages)
    seed = made.read_bytes()
    reading = ReadingOptions("url", "html", 2000, recipe_of())
    rng = random.Random(kind)
    for _ in range(150):
        data = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 8))):
            a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
            b = min(b, a + rng.choice((1, 4, 300)))
            change = rng.randrange(4)
            if change == 0:
                del data[a:b]
            elif change == 1:
                data[a:a] = data[a:b]
            elif change == 2:
                data[a:b] = rng.randbytes(b - a)
            else:
                data[a:b] = rng.choice(MARKS)
        path.write_bytes(data)
        assert [*reader(str(path), reading)] == [*reader(str(path), reading)]


# ------------------------------------------------------------------------------------------- bombs


def packed(kind: str, before: bytes, size: int, after: bytes = b"") -> bytes:
    """Compress so many spaces between two texts, piece by piece."""
    gzipped = partial(zlib.compressobj, 9, wbits=31)
    pack = (zstandard.ZstdCompressor().compressobj if kind == "zstd" else gzipped)()
    pieces = [before, *repeat(b" " * (1 << 20), size >> 20), after]
    return b"".join([*map(pack.compress, pieces), pack.flush()])


def record_bomb(size: int, kind: str, head: bool = False) -> bytes:
    """A compressed record with a body, or a field of its head, of so many bytes."""
    record = response("http://bomb/", b"@")
    head_part, _, tail = record.partition(b"@")
    if head:
        head_part, tail = record.split(b"WARC-Date: ")
    else:
        length = int(head_part.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        head_part = head_part.replace(b": %d\r" % length, b": %d\r" % (length - 1 + size), 1)
    return packed(kind, head_part, size, tail)


MEASURE = r"""
import json, re, sys
from pathlib import Path
from dedup.scan import ScanJob, scan
summary = scan(ScanJob(inputs=tuple(sys.argv[1:]), output=sys.argv[1] + ".out.jsonl"))
status = Path("/proc/self/status").read_text()  # rusage begins at the peak of the parent
mb = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
print(json.dumps([mb, summary.pages, summary.broken, summary.exempt]))
"""


def measured(*paths) -> list:
    """Scan in a process of its own: peak MB, pages, broken records, exempt ones."""
    command = [sys.executable, "-c", MEASURE, *map(str, paths)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


BOMBS = "body.warc.gz body.warc.zst coding.warc head.warc.gz line.jsonl.gz line.jsonl.zst"
LONG = [pytest.param(name, marks=pytest.mark.long) for name in BOMBS.split()]


@linux_only
@pytest.mark.parametrize("name", ["zstd.warc", *LONG])
def test_bombs_are_bounded(tmp_path, name):
    """A small file that unpacks to 400 MB takes a bounded memory, and the page after it is read."""
    size, after = 400 << 20, page("http://after/", 1)
    packing = "zstd" if name.endswith(".zst") else "gzip"
    path = tmp_path / name
    if "jsonl" in name:
        line = json.dumps(after._asdict()).encode()
        last = b"\n" + line
        last = zstandard.compress(last) if packing == "zstd" else gzip.compress(last)
        path.write_bytes(packed(packing, b"<html>", size) + last)
    elif name.startswith(("body", "head")):
        pack = zstandard.compress if packing == "zstd" else gzip.compress
        record = record_bomb(size, packing, head=name.startswith("head"))
        path.write_bytes(record + pack(records([after])[0]))
    else:
        coding = "gzip" if name.startswith("coding") else "zstd"
        headers = ["Content-Type: text/html", f"Content-Encoding: {coding}"]
        found = [response("http://bomb/", packed(coding, b"<html>", size), headers=headers)]
        write_warc(path, [*found, *records([after])])
    assert path.stat().st_size < 1_000_000
    mb, pages, broken, exempt = measured(path)
    assert mb < LIMIT_MB
    assert pages - exempt.get("too_large", 0) == 1
    assert broken + exempt.get("too_large", 0) == 1


@linux_only
@pytest.mark.long
def test_memory_does_not_grow_with_the_input(tmp_path):
    """Ten times the pages take hardly more memory: what grows is the table of fingerprints."""
    few = write_warc(tmp_path / "few.warc.gz", records(mixed(1500, 1)))
    many = tmp_path / "many.warc.gz"
    with many.open("wb") as file:
        for _ in range(10):
            file.write(few.read_bytes())
    assert measured(many)[0] < measured(few)[0] + 20


def test_a_scan_of_broken_records_alone_fails(tmp_path):
    """A wrong --html-field gives no page: exit code 1, which says what to look at."""
    path = tmp_path / "p.jsonl"
    path.write_text('{"url": "http://a.example/1", "html": "<p>x"}\n' * 3)
    done = call("scan", path, "--html-field", "htlm")
    assert done.exit_code == 1
    assert "every record is broken" in done.stderr
    assert "3 broken records left out" in done.stdout
