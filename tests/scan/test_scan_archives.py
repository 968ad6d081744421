"""`dedup scan` on archives as crawlers leave them: WACZ, WET, LZ4, dictionaries, lists, CDXJ."""

import gzip
import hashlib
import io
import json
import random
import struct
import zipfile
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner
from fastwarc.stream_io import Lz4Writer
from fastwarc.warc import ArchiveIterator, WarcRecordType
from hypothesis import given, settings
from hypothesis import strategies as st
from scanning import judged, mixed, page, records, scanned, verdicts, write_lines, write_warc
from sizes import examples

from dedup import fingerprint_text
from dedup.cli import main
from dedup.model.errors import DedupError, UsageError
from dedup.model.recipes import recipe_of
from dedup.scan import Job, scan
from dedup.scan.values import Broken, RawPage, Reading
from dedup.scan.warc import begins, read_warc

PAGES = mixed(120, 7)
RECORDS = records(PAGES)
READING = Reading("url", "html", 1 << 20, recipe_of())


def lz4(record):
    target = io.BytesIO()
    writer = Lz4Writer(target)
    writer.write(record)
    writer.finish()
    writer.flush()
    return target.getvalue()


def with_dictionary(found, *, packed):
    """A .warc.zst as the IIPC proposes it: the dictionary in a skippable frame, then the records."""
    dictionary = zstandard.train_dictionary(4096, RECORDS)
    held = dictionary.as_bytes()
    held = zstandard.compress(held) if packed else held
    compress = zstandard.ZstdCompressor(dict_data=dictionary).compress
    return struct.pack("<II", 0x184D2A5D, len(held)) + held + b"".join(map(compress, found))


def index_of(warc, name):
    """The lines of a CDXJ index, as pywb and py-wacz write them."""
    with io.BytesIO(warc) as file:
        found = [(r.stream_pos, r.headers["WARC-Target-URI"]) for r in ArchiveIterator(file)]
    ends = [at for at, _ in found[1:]] + [len(warc)]
    lines = []
    for number, ((begin, url), end) in enumerate(zip(found, ends, strict=True)):
        fields = {"url": url, "mime": "text/html", "status": "200", "digest": "sha256:0"}
        fields |= {"length": str(end - begin), "offset": str(begin), "filename": name}
        lines.append(f"example,{number:05})/ 20260101000000 {json.dumps(fields)}\n".encode())
    return lines


def write_wacz(path, members, *, compress=False, zipnum=False):
    """A WACZ of WARCs by their names, with index, pages and hashes."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    lines = [line for name, warc in members.items() for line in index_of(warc, name)]
    parts = {f"archive/{name}": warc for name, warc in members.items()}
    parts["pages/pages.jsonl"] = b'{"format": "json-pages-1.0"}\n'
    if zipnum:
        idx, blocks = [b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n'], b""
        for first in range(0, len(lines), 10):
            block = gzip.compress(b"".join(lines[first : first + 10]))
            said = {"offset": len(blocks), "length": len(block), "digest": digest(block)}
            head = lines[first].partition(b"{")[0]
            idx.append(head + json.dumps(said).encode() + b"\n")
            blocks += block
        parts |= {"indexes/index.cdx.gz": blocks, "indexes/index.idx": b"".join(idx)}
    else:
        parts["indexes/index.cdx"] = b"".join(lines)
    resources = [
        {"name": Path(name).name, "path": name, "hash": digest(data), "bytes": len(data)}
        for name, data in parts.items()
    ]
    parts["datapackage.json"] = json.dumps({"profile": "x", "resources": resources}).encode()
    said = {"path": "datapackage.json", "hash": digest(parts["datapackage.json"])}
    parts["datapackage-digest.json"] = json.dumps({**said, "signedData": {"key": "k"}}).encode()
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def gz(found):
    return b"".join(map(gzip.compress, found))


def halves():
    return {"a.warc.gz": gz(RECORDS[:70]), "b.warc.gz": gz(RECORDS[70:])}


# ---------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("p.warc.lz4", b"".join(map(lz4, RECORDS))),
        ("p.warc.zst", with_dictionary(RECORDS, packed=False)),
        ("p.warc.zst", with_dictionary(RECORDS, packed=True)),
    ],
    ids=["lz4", "dictionary", "packed dictionary"],
)
def test_a_warc_of_any_compression_is_read_from_any_record(tmp_path, name, data):
    """The verdicts are those of the pages, and reading goes on where a scan was broken off."""
    path = tmp_path / name
    path.write_bytes(data)
    assert scanned(tmp_path, path) == judged(PAGES)
    every = list(read_warc(str(path), READING))
    for at in (0, 1, 60, len(every) - 2):
        raw = every[at]
        assert begins(str(path), raw.offset)
        rest = list(read_warc(str(path), READING, raw.offset, raw.record))
        assert rest == every[at + bool(raw.offset) :]
    assert not begins(str(path), every[5].offset + 1)


@pytest.mark.parametrize("compress", [False, True], ids=["stored", "deflated"])
def test_a_wacz_is_its_warcs_in_their_order(tmp_path, compress):
    """Stored members are read in place; deflated ones, which WACZ does not ask for, too."""
    path = write_wacz(tmp_path / "p.wacz", halves(), compress=compress)
    assert scanned(tmp_path, path, processes=2) == judged(PAGES)


def test_a_wacz_goes_on_after_a_broken_member(tmp_path):
    """The member is named; what is no ZIP, or holds no WARC, is a file that could not be read."""
    path = write_wacz(tmp_path / "p.wacz", halves(), compress=True)
    data = bytearray(path.read_bytes())
    data[200:20000] = bytes(19800)
    path.write_bytes(data)
    (tmp_path / "torn.wacz").write_bytes(data[:-100])
    with zipfile.ZipFile(tmp_path / "void.wacz", "w") as archive:
        archive.writestr("pages/pages.jsonl", "{}")
    job = Job(inputs=(str(tmp_path),), output=str(tmp_path / "v.jsonl"))
    summary = scan(job)
    assert {Path(fault.path).name for fault in summary.faults} >= {"torn.wacz", "void.wacz"}
    assert any("a.warc.gz" in f"{fault.path} {fault.place}" for fault in summary.faults)
    assert summary.unread_files == 3
    keys = [row[0] for row in verdicts(tmp_path / "v.jsonl")]
    assert keys[-50:] == [row[0] for row in judged(PAGES)][-50:]


def test_a_wet_file_has_texts(tmp_path):
    """Its conversions are pages of plain text; other records and formats are none."""
    text = " ".join(f"word{i}" for i in range(60))
    texts = [("http://a.example/1", text), ("http://a.example/2", f"{text} <b>"), ("", "no URL")]

    def record(url, body, kind="conversion", mime="text/plain"):
        data = body.encode()
        head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:x:1>\r\n"
        head += f"WARC-Target-URI: {url}\r\n" * bool(url)
        head += f"Content-Type: {mime}\r\nContent-Length: {len(data)}\r\n\r\n"
        return head.encode() + data + b"\r\n\r\n"

    found = [record("", "software: x", "warcinfo", "application/warc-fields")]
    found += [record(*one) for one in texts]
    found += [record("http://a.example/3", text, mime="application/json"), RECORDS[0]]
    path = write_warc(tmp_path / "p.warc.wet.gz", found)
    job = Job(inputs=(str(path),), output=str(tmp_path / "v.jsonl"), kept=str(tmp_path / "k.wet"))
    summary = scan(job)
    assert (summary.unique, summary.near_duplicate, summary.broken) == (1, 1, 1)
    assert summary.skipped == {"non_html": 1}
    rows = verdicts(tmp_path / "v.jsonl")
    assert rows[0][1] == f"{fingerprint_text(text).value:016x}"
    with (tmp_path / "k.wet").open("rb") as file:
        kinds = [r.record_type for r in ArchiveIterator(file, parse_http=False)]
    assert kinds.count(WarcRecordType.revisit) == 1
    assert kinds.count(WarcRecordType.conversion) == 3


def test_an_index_selects_records(tmp_path):
    """In the order of its lines; a line that selects nothing is broken and named."""
    (tmp_path / "archive").mkdir()
    (tmp_path / "indexes").mkdir()
    name = "b.warc.zst"
    data = with_dictionary(RECORDS, packed=True)
    write_warc(tmp_path / "archive" / "a.warc.gz", RECORDS)
    (tmp_path / "archive" / name).write_bytes(data)
    first = index_of(gz(RECORDS), "a.warc.gz")
    chosen = [first[i] for i in (3, 50, 7)] + index_of(data, name)[80:90]
    wrong = [
        b"!meta 0 {}\n",
        b"no json\n",
        b'x 1 {"offset": 1, "length": 2}\n',
        b'x 1 {"filename": "../../x.warc", "offset": 0, "length": 2}\n',
        b'x 1 {"filename": "gone.warc.gz", "offset": 0, "length": 2}\n',
        first[1].replace(b'"offset": "', b'"offset": "1'),
    ]
    index = tmp_path / "indexes" / "some.cdxj.gz"
    index.write_bytes(gzip.compress(b"".join(wrong + chosen)))
    pages = [PAGES[i] for i in (3, 50, 7, *range(80, 90))]
    faults = []
    job = Job(
        inputs=(str(index),), output=str(tmp_path / "v.jsonl"), kept=str(tmp_path / "kept.cdxj")
    )
    summary = scan(job, fault=faults.append)
    assert verdicts(tmp_path / "v.jsonl") == judged(pages)
    assert [fault.place for fault in faults] == [f"line {n}" for n in range(2, 7)]
    assert summary.unread_files == 0
    rows = judged(pages)
    kept = [line for line, row in zip(chosen, rows, strict=True) if row[2] != "near_duplicate"]
    assert (tmp_path / "kept.cdxj").read_bytes() == b"".join(wrong + kept)
    assert len(kept) < len(chosen)


def test_a_folder_gives_its_archives_and_not_their_index(tmp_path):
    """Else each page would come twice."""
    write_warc(tmp_path / "a.warc.gz", RECORDS)
    (tmp_path / "index.cdxj").write_bytes(b"".join(index_of(gz(RECORDS), "a.warc.gz")))
    (tmp_path / "all.paths").write_text("a.warc.gz\n")
    assert scanned(tmp_path.parent, tmp_path, output=f"{tmp_path.name}.jsonl") == judged(PAGES)


def test_a_list_names_files(tmp_path):
    """Paths and file:// URLs; one that is not there is named, and the exit code says so."""
    folder = tmp_path / "files"
    folder.mkdir()
    write_warc(folder / "a.warc.gz", RECORDS[:50])
    odd = write_lines(folder / "odd % name.jsonl", PAGES[50:])
    listed = ["# comment", "", "files/a.warc.gz", "files/gone.warc.gz", odd.as_uri()]
    paths = tmp_path / "all.paths.gz"
    paths.write_bytes(gzip.compress("\n".join(listed).encode()))
    output = tmp_path / "v.jsonl"
    kept = tmp_path / "kept"
    done = CliRunner().invoke(main, ["scan", str(paths), "-o", str(output), "--kept", str(kept)])
    assert done.exit_code == 1
    assert "gone.warc.gz: No such file" in done.stderr
    assert verdicts(output) == judged(PAGES)
    assert sorted(path.name for path in kept.iterdir()) == ["a.warc.gz", "odd % name.jsonl"]


def test_a_list_that_cannot_be_followed_ends_the_scan(tmp_path):
    """A URL that would have to be fetched, a name of no format, a list that is torn or missing."""
    paths = tmp_path / "all.paths"
    for line in ("https://a.example/x.warc.gz", "x.bin"):
        paths.write_text(line)
        with pytest.raises(UsageError):
            scan(Job(inputs=(str(paths),)))
    with pytest.raises(UsageError, match="download"):
        scan(Job(inputs=("https://a.example/x.warc.gz",)))
    (tmp_path / "torn.paths.gz").write_bytes(gzip.compress(b"x.warc\n" * 99)[:-9])
    for name in ("torn.paths.gz", "gone.paths"):
        with pytest.raises(DedupError, match=name):
            scan(Job(inputs=(str(tmp_path / name),)))


WHOLE = {
    "x.warc.lz4": b"".join(map(lz4, RECORDS[:12])),
    "x.warc.zst": with_dictionary(RECORDS[:12], packed=False),
    "x.wacz": None,
}


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_damage_anywhere_costs_what_it_hits(tmp_path_factory, data):
    """Whatever bytes are overwritten or lost: the scan ends, pages that are read are whole ones."""
    folder = tmp_path_factory.mktemp("damage")
    name = data.draw(st.sampled_from(sorted(WHOLE)))
    path = folder / name
    if WHOLE[name] is None:
        write_wacz(path, {"a.warc.gz": gz(RECORDS[:6]), "b.warc.gz": gz(RECORDS[6:12])})
    whole = bytearray(WHOLE[name] or path.read_bytes())
    begin = data.draw(st.integers(0, len(whole) - 1))
    length = data.draw(st.integers(1, 2000))
    if data.draw(st.booleans()):
        del whole[begin : begin + length]
    else:
        whole[begin : begin + length] = random.Random(begin).randbytes(length)
    path.write_bytes(whole)
    kept = folder / f"kept-{name}"
    summary = scan(Job(inputs=(str(path),), output=str(folder / "v.jsonl"), kept=str(kept)))
    rows = verdicts(folder / "v.jsonl")
    assert {row[0] for row in rows} <= {row[0] for row in judged(PAGES[:12])}
    assert len(rows) == 12 or summary.broken
    if kept.exists() and not summary.uncopied_files:
        again = scanned(folder, kept, output="again.jsonl")
        assert [row[0] for row in again] == [row[0] for row in rows if row[2] != "near_duplicate"]


# --------------------------------------------------------------------------------------- --kept


@pytest.mark.parametrize("zipnum", [False, True], ids=["cdx", "zipnum"])
def test_a_wacz_is_written_with_revisits_and_its_index(tmp_path, zipnum):
    """Each line of the index finds its record in the copy, and every hash is right."""
    source = write_wacz(tmp_path / "in.wacz", halves(), zipnum=zipnum)
    target = tmp_path / "out.wacz"
    options = {"output": str(tmp_path / "v.jsonl"), "kept": str(target)}
    assert scan(Job(inputs=(str(source),), **options)).uncopied_files == 0
    rows = verdicts(tmp_path / "v.jsonl")
    assert rows == judged(PAGES)
    with zipfile.ZipFile(target) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
        assert archive.getinfo("archive/a.warc.gz").compress_type == zipfile.ZIP_STORED
    with zipfile.ZipFile(source) as archive:
        assert sorted(parts) == sorted(archive.namelist())
    if zipnum:
        packed, lines = parts["indexes/index.cdx.gz"], []
        for line in parts["indexes/index.idx"].splitlines()[1:]:
            said = json.loads(line[line.index(b"{") :])
            block = packed[said["offset"] : said["offset"] + said["length"]]
            assert said["digest"] == digest(block)
            lines += gzip.decompress(block).splitlines()
            assert line.partition(b"{")[0] == lines[-10].partition(b"{")[0]
    else:
        lines = parts["indexes/index.cdx"].splitlines()
    assert len(lines) == len(rows)
    for line, row, was in zip(lines, rows, PAGES, strict=True):
        said = json.loads(line[line.index(b"{") :])
        begin, length = int(said["offset"]), int(said["length"])
        warc = parts[f"archive/{said['filename']}"][begin : begin + length]
        (record,) = ArchiveIterator(io.BytesIO(warc), parse_http=False)
        is_revisit = row[2] == "near_duplicate"
        assert record.record_type == (
            WarcRecordType.revisit if is_revisit else WarcRecordType.response
        )
        assert (said["mime"] == "warc/revisit") == is_revisit
        assert said["url"] == was.url
    package = json.loads(parts["datapackage.json"])
    for resource in package["resources"]:
        data = parts[resource["path"]]
        assert (resource["hash"], resource["bytes"]) == (digest(data), len(data))
    said = {"path": "datapackage.json", "hash": digest(parts["datapackage.json"])}
    assert json.loads(parts["datapackage-digest.json"]) == said
    again = scanned(tmp_path, target, output="again.jsonl")
    assert again == [row for row in rows if row[2] != "near_duplicate"]
    before = target.read_bytes()
    scan(Job(inputs=(str(source),), **options))
    assert target.read_bytes() == before


def test_the_copy_of_an_lz4_warc(tmp_path):
    """It has a member for each record, and revisits."""
    pages = [page("http://a.example/1", 1), page("http://a.example/2", 1)]
    (tmp_path / "in.warc.lz4").write_bytes(b"".join(map(lz4, records(pages))))
    target = tmp_path / "out.warc.lz4"
    scan(Job(inputs=(str(tmp_path / "in.warc.lz4"),), kept=str(target)))
    results = list(read_warc(str(target), READING))
    assert isinstance(results[0], RawPage)
    assert [getattr(r, "reason", None) for r in results] == [None, "revisit"]
    assert target.read_bytes().count(b"\x04\x22\x4d\x18") == 2
    assert not any(isinstance(r, Broken) for r in results)
