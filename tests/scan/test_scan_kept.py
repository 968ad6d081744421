"""`dedup scan --kept`: the input once more without its near-duplicates, in its own formats."""

import gzip
import json
import random

import pyarrow as pa
import pytest
import zstandard
from command_line import call
from fastwarc.warc import ArchiveIterator
from forking import completed
from pyarrow import parquet
from scanning import mixed, records, response, write_lines, write_parquet, write_warc

from dedup.model.errors import DedupError, UsageError
from dedup.scan import ScanJob, scan
from dedup.scan import kept as kept_module

PAGES = mixed(160, 5)


def scanned(target, *inputs, **options):
    """Scan with --kept, and return the rows of the verdicts and the summary."""
    output = target.with_name(f"{target.name}.verdicts.jsonl")
    job = ScanJob(inputs=tuple(map(str, inputs)), output=str(output), kept=str(target), **options)
    summary = scan(job)
    return rows_of(output), summary


def rows_of(output):
    return [json.loads(line) for line in output.read_text().splitlines()]


def kept_pages(rows, pages=PAGES):
    assert len(rows) == len(pages)
    return [p for p, row in zip(pages, rows, strict=True) if row["status"] != "near_duplicate"]


def is_in_order(tmp_path, target, rows):
    """A scan of what was kept says of each page what the first scan said, and finds no duplicate."""
    output = tmp_path / "again.jsonl"
    scan(ScanJob(inputs=(str(target),), output=str(output)))
    assert rows_of(output) == [row for row in rows if row["status"] != "near_duplicate"]
    output.unlink()


def blocks(path):
    """Return every record of a WARC: its type, URL and block."""
    with path.open("rb") as file:
        return [
            (r.record_type, r.headers.get("WARC-Target-URI"), r.reader.read())
            for r in ArchiveIterator(file, parse_http=False)
        ]


# --------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz", ".warc.zst"])
def test_a_warc_holds_every_record_but_near_duplicates(tmp_path, suffix):
    """Each with its very block, also those that are no pages."""
    request = response("http://site.example/", b"GET / HTTP/1.1\r\n\r\n", kind="request")
    image = response("http://site.example/i.png", b"\x89PNG", headers=["Content-Type: image/png"])
    source = write_warc(tmp_path / f"in{suffix}", [request, *records(PAGES), image])
    target = tmp_path / f"out{suffix}"
    rows, _ = scanned(target, source)
    first, *pages, last = blocks(source)
    left = [p for p, row in zip(pages, rows, strict=True) if row["status"] != "near_duplicate"]
    assert blocks(target) == [first, *left, last]
    is_in_order(tmp_path, target, rows)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".ndjson.zst"])
def test_json_lines_keep_their_very_bytes(tmp_path, suffix):
    """Lines that are blank, or no JSON, stay as well."""
    source = write_lines(tmp_path / "pages.jsonl", PAGES)
    lines = source.read_bytes().splitlines(keepends=True)
    odd = [b"\n", b"no json\n", b'{"url": "http://a/", "html": 1}\n']
    pack = {"gz": gzip.compress, "zst": zstandard.compress}.get(suffix[1:].split(".")[-1], bytes)
    source = tmp_path / f"in{suffix}"
    source.write_bytes(pack(b"".join([*odd, *lines]).removesuffix(b"\n")))
    target = tmp_path / f"out{suffix}"
    rows, _ = scanned(target, source)
    data = target.read_bytes()
    if suffix.endswith(".gz"):
        data = gzip.decompress(data)
    elif suffix.endswith(".zst"):
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    left = [x for x, row in zip(lines, rows, strict=True) if row["status"] != "near_duplicate"]
    expected = b"".join([*odd, *left])
    assert data in (expected, expected.removesuffix(b"\n"))
    is_in_order(tmp_path, target, rows)


def test_parquet_keeps_all_columns_and_the_schema(tmp_path):
    """Rows that are kept are the same in every column, in order; the metadata stays."""
    table = pa.table(
        {
            "id": pa.array(range(len(PAGES)), pa.int32()),
            "url": [p.url for p in PAGES],
            "html": [p.html.encode() for p in PAGES],
            "tags": [["a", str(i)] for i in range(len(PAGES))],
        },
        metadata={b"made": b"today"},
    )
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(table, source, row_group_size=50, compression="gzip")
    rows, _ = scanned(target, source)
    mask = [row["status"] != "near_duplicate" for row in rows]
    copied = parquet.read_table(target)
    kept = parquet.read_table(source).filter(pa.array(mask))
    assert copied.equals(kept, check_metadata=True)
    assert parquet.ParquetFile(target).metadata.row_group(0).column(0).compression == "GZIP"
    is_in_order(tmp_path, target, rows)


def test_a_folder_of_html_keeps_its_paths(tmp_path):
    """Files that are kept lie where they lay, with their very bytes; the others are not there."""
    source, target = tmp_path / "in", tmp_path / "out"
    for i, p in enumerate(PAGES):
        file = source / f"d{i // 70}" / f"{i:03}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(p.html)
    rows, _ = scanned(target, source)
    kept = {row["key"] for row in rows if row["status"] != "near_duplicate"}
    found = {path.relative_to(target): path.read_bytes() for path in files(target)}
    assert found == {p.relative_to(source): p.read_bytes() for p in files(source) if str(p) in kept}


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_many_inputs_go_into_a_folder_and_are_left_as_they_were(tmp_path):
    """Each file under its path below the folder that holds them all; the input has its bytes."""
    source = tmp_path / "in"
    (source / "more").mkdir(parents=True)
    write_warc(source / "a.warc.gz", records(PAGES[:60]))
    write_lines(source / "more" / "b.jsonl.gz", PAGES[60:110])
    write_parquet(source / "more" / "c.parquet", PAGES[110:], rows=7)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files(source)}
    target = source / "kept"  # among the input, of which it is no part
    rows, summary = scanned(target, source / "a.warc.gz", source / "more")
    assert summary.pages == len(PAGES)
    names = [p.relative_to(target).as_posix() for p in files(target)]
    assert names == ["a.warc.gz", "more/b.jsonl.gz", "more/c.parquet"]
    is_in_order(tmp_path, target, rows)
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in before} == before
    assert not list(source.glob(".*"))
    scanned(tmp_path / "glob", f"{source}/**/*.gz")
    assert (tmp_path / "glob" / "a.warc.gz").exists()
    assert (tmp_path / "glob" / "more" / "b.jsonl.gz").exists()


def test_pages_of_a_store_are_left_out_as_well(tmp_path):
    """What a store knew under another key is a near-duplicate; what it knew by its key is kept."""
    first = write_lines(tmp_path / "first.jsonl", PAGES)
    scan(ScanJob(inputs=(str(first),), store=str(tmp_path / "store"), update=True))
    other = [p._replace(url=f"http://mirror.example/{i}") for i, p in enumerate(PAGES)]
    source = write_lines(tmp_path / "other.jsonl", other)
    rows, _ = scanned(tmp_path / "out.jsonl", source, store=str(tmp_path / "store"))
    left = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [p["url"] for p in left] == [p.url for p in kept_pages(rows, other)]
    alone = scan(ScanJob(inputs=(str(source),)))
    assert len(left) < len(PAGES) - alone.near_duplicate


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("inputs", "kept", "message"),
    [
        (["-"], "out.jsonl", "files, not -"),
        (["in.jsonl"], "in.jsonl", "never changed"),
        (["in.jsonl"], "out.parquet", "has the format jsonl"),
        (["in.jsonl"], "full", "has the format jsonl"),
        (["in.jsonl", "other.jsonl"], "full", "new folder"),
        (["in.jsonl", "other.jsonl"], "in.jsonl", "new folder"),
    ],
)
def test_a_wrong_target_is_refused_before_anything_is_read(
    tmp_path, monkeypatch, inputs, kept, message
):
    """It is a usage error, and leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    for name in ("in.jsonl", "other.jsonl"):
        write_lines(tmp_path / name, PAGES[:5])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=message):
        scan(ScanJob(inputs=tuple(inputs), kept=kept))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_is_given_twice_is_refused(tmp_path):
    """Its two copies would have one name."""
    source = write_lines(tmp_path / "in.jsonl", PAGES[:9])
    with pytest.raises(DedupError, match="given twice"):
        scanned(tmp_path / "out", source, tmp_path)


def test_an_input_that_changes_between_is_refused(tmp_path, monkeypatch):
    """What was judged is not there any more: no target appears, and the error says so."""
    source = write_lines(tmp_path / "in.jsonl", PAGES)
    write = kept_module.write_kept

    def changed(*args):
        write_lines(source, PAGES[:20])
        return write(*args)

    monkeypatch.setattr("dedup.scan.scanner.write_kept", changed)
    with pytest.raises(DedupError, match="has changed since it was scanned"):
        scanned(tmp_path / "out.jsonl", source)
    assert not (tmp_path / "out.jsonl").exists()


def test_the_command_writes_what_is_kept(tmp_path, monkeypatch):
    """Without --output, too; it says where, and nothing but the target is left."""
    write_lines(tmp_path / "in.jsonl", PAGES)
    monkeypatch.chdir(tmp_path)
    done = call("scan", "in.jsonl", "--kept", "out.jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "the input without its near-duplicates is in out.jsonl"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") < len(PAGES)


def test_a_part_that_cannot_be_copied_ends_with_exit_code_1(tmp_path):
    """A column that nothing but the copy reads is torn: the file and the reason are named."""
    source = tmp_path / "in.parquet"
    columns = {"url": [p.url for p in PAGES], "html": [p.html for p in PAGES]}
    columns["zz"] = [random.Random(i).randbytes(300) for i in range(len(PAGES))]
    parquet.write_table(pa.table(columns), source, compression="gzip", use_dictionary=False)
    at = parquet.ParquetFile(source).metadata.row_group(0).column(2).data_page_offset
    data = bytearray(source.read_bytes())
    data[at + 2000 : at + 4000] = bytes(2000)
    source.write_bytes(data)
    done = call("scan", source, "--kept", tmp_path / "out.parquet")
    assert done.exit_code == 1
    assert "in.parquet in the copy: after row " in done.stderr
    assert "of 1 file a part could not be copied" in done.stdout


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("in.warc.gz", "fastwarc", "warc"),
        ("in.jsonl.zst", "fastwarc", "warc"),
        ("in.parquet", "pyarrow", "parquet"),
    ],
)
def test_a_scan_without_its_extra_is_one_line_and_leaves_nothing(tmp_path, name, module, extra):
    """Before any work is begun: what to install, and no folder that --resume would ask about."""
    (tmp_path / name).write_bytes(b"x")
    code = f"import sys; sys.modules[{module!r}] = None; from dedup.cli import main; main()"
    done = completed(code, ["scan", name, "--output", "v.jsonl"], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    advice = f"run: pip install '.[{extra}]' in the checkout of crawl-dedup\n"
    assert done.stderr == f"dedup: {module} is not installed; {advice}"
    assert [p.name for p in tmp_path.iterdir()] == [name]
