"""`dedup scan` on archives as crawlers leave them: WACZ, WET, dictionaries."""

import gzip
import random
import struct
import zipfile
from pathlib import Path

import pytest
import zstandard
from fastwarc.warc import ArchiveIterator, WarcRecordType
from hypothesis import given, settings
from hypothesis import strategies as st
from scanning import judged, mixed, records, scanned, verdicts, write_warc
from sizes import examples

from dedup import fingerprint_text
from dedup.model.errors import UsageError
from dedup.model.recipes import recipe_of
from dedup.scan import ScanJob, scan
from dedup.scan.values import ReadingOptions
from dedup.scan.warc import read_warc

PAGES = mixed(120, 7)
RECORDS = records(PAGES)
READING = ReadingOptions("url", "html", 1 << 20, recipe_of())


def with_dictionary(found, *, packed):
    """A .warc.zst as the IIPC proposes it: the dictionary in a skippable frame, then the records."""
    dictionary = zstandard.train_dictionary(4096, RECORDS)
    held = dictionary.as_bytes()
    held = zstandard.compress(held) if packed else held
    compress = zstandard.ZstdCompressor(dict_data=dictionary).compress
    return struct.pack("<II", 0x184D2A5D, len(held)) + held + b"".join(map(compress, found))


def write_wacz(path, members, *, compress=False):
    """A WACZ of WARCs by their names, with pages."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, warc in members.items():
            archive.writestr(f"archive/{name}", warc)
        archive.writestr("pages/pages.jsonl", b'{"format": "json-pages-1.0"}\n')
        archive.writestr("datapackage.json", b'{"profile": "x"}')
    return path


def gz(found):
    return b"".join(gzip.compress(each, mtime=0) for each in found)


def halves():
    return {"a.warc.gz": gz(RECORDS[:70]), "b.warc.gz": gz(RECORDS[70:])}


# ---------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("packed", [False, True])
def test_a_warc_with_a_dictionary_is_read_up_to_a_torn_record(tmp_path, packed):
    """The verdicts are those of the pages."""
    path, data = tmp_path / "p.warc.zst", with_dictionary(RECORDS, packed=packed)
    path.write_bytes(data)
    assert scanned(tmp_path, path) == judged(PAGES)
    every = list(read_warc(str(path), READING))
    path.write_bytes(data[: len(data) // 2] + b"torn" + data[len(data) // 2 :])
    *whole, torn = read_warc(str(path), READING)
    assert whole == every[: len(whole)]
    assert torn.rest


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
    job = ScanJob(inputs=(str(tmp_path),), output=str(tmp_path / "v.jsonl"))
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
    job = ScanJob(
        inputs=(str(path),), output=str(tmp_path / "v.jsonl"), kept=str(tmp_path / "k.wet")
    )
    summary = scan(job)
    assert (summary.unique, summary.near_duplicate, summary.broken) == (1, 1, 1)
    assert summary.skipped == {"non_html": 1}
    rows = verdicts(tmp_path / "v.jsonl")
    assert rows[0][1] == f"{fingerprint_text(text).value:016x}"
    with (tmp_path / "k.wet").open("rb") as file:
        kinds = [r.record_type for r in ArchiveIterator(file, parse_http=False)]
    assert kinds.count(WarcRecordType.conversion) == 3


def test_a_url_that_would_have_to_be_fetched_is_refused():
    with pytest.raises(UsageError, match="download"):
        scan(ScanJob(inputs=("https://a.example/x.warc.gz",)))


WHOLE = {
    "x.warc.gz": gz(RECORDS[:12]),
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
    kept = None if name == "x.wacz" else folder / f"kept-{name}"
    asked = {} if kept is None else {"kept": str(kept)}
    summary = scan(ScanJob(inputs=(str(path),), output=str(folder / "v.jsonl"), **asked))
    rows = verdicts(folder / "v.jsonl")
    assert {row[0] for row in rows} <= {row[0] for row in judged(PAGES[:12])}
    assert len(rows) == 12 or summary.broken
    if kept is not None and kept.exists() and not summary.uncopied_files:
        again = scanned(folder, kept, output="again.jsonl")
        assert [row[0] for row in again] == [row[0] for row in rows if row[2] != "near_duplicate"]


# --------------------------------------------------------------------------------------- --kept


def test_a_wacz_is_not_written(tmp_path):
    """--kept says so before anything is read, and what to do; without it the file is scanned."""
    source = write_wacz(tmp_path / "in.wacz", halves())
    for inputs in ((str(source),), (str(tmp_path),)):
        with pytest.raises(UsageError, match="unzip it, and give the WARCs in its folder archive"):
            scan(
                ScanJob(
                    inputs=inputs, kept=str(tmp_path / "kept"), output=str(tmp_path / "v.jsonl")
                )
            )
    assert [path.name for path in tmp_path.iterdir()] == ["in.wacz"]


@pytest.mark.parametrize("name", ["../../out.warc.gz", "/tmp/out.warc.gz", "x\x1b[31m.warc.gz"])
def test_the_name_of_a_member_is_shown_escaped(tmp_path, name):
    """It comes from a stranger; a message shows it without control characters."""
    source = write_wacz(tmp_path / "in.wacz", {name: gz([RECORDS[0][:-100]])})
    summary = scan(ScanJob(inputs=(str(source),)))
    assert summary.faults
    assert not any("\x1b" in f"{fault.path} {fault.place}" for fault in summary.faults)
