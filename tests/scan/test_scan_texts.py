"""`dedup scan` of plain text, of fields by path, and of JSON lines as other programs write them."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet
from scanning import WORDS

from dedup.scan import ScanJob, scan
from dedup.scan.records import column_path

MARKS = ("<title>", "<!--", "<textarea>", "<script", "<b>", "an arrow ->")


def texts(mark: str) -> list[dict[str, object]]:
    """Four texts about markup that begin alike and go on otherwise."""
    common = " ".join(WORDS[:45])
    return [
        {
            "meta": {"url": f"http://d{i}.example/"},
            "text": f"{common} the sign {mark} begins {' '.join(WORDS[100 * i + 50 : 100 * i + 180])}",
        }
        for i in range(4)
    ]


def statuses(path, **options):
    """The statuses of a scan's verdicts."""
    output = path.parent / "verdicts.jsonl"
    scan(ScanJob(inputs=(str(path),), output=str(output), **options))
    return [json.loads(line)["status"] for line in output.read_bytes().splitlines()]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_no_markup_is_looked_for_in_text(tmp_path, mark, kind):
    """With text_field, what looks like a tag hides nothing behind it: four texts are unique."""
    rows, path = texts(mark), tmp_path / f"texts.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    assert statuses(path, url_field="meta.url", text_field="text") == ["unique"] * 4


@pytest.mark.parametrize("mark", MARKS)
def test_a_field_of_html_may_hold_text(tmp_path, mark):
    """What begins with no tag, and has no end tag, is text, whatever the option says; what begins with one is HTML."""
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in texts(mark)))
    assert statuses(path, url_field="meta.url", html_field="text") == ["unique"] * 4
    rows = [row | {"text": f"<p>{row['text']}"} for row in texts(mark)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = statuses(path, url_field="meta.url", html_field="text")
    assert (found == ["unique"] * 4) == (mark in ("<b>", "an arrow ->", "<textarea>"))


COLUMNS = {
    "binary": pa.binary(),
    "view": pa.string_view(),
    "binary view": pa.binary_view(),
    "category": pa.dictionary(pa.int32(), pa.string()),
    "large": pa.large_string(),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_strings_of_every_type_are_read_and_copied(tmp_path, kind):
    """URLs and pages in whatever type of Arrow's: the same verdicts, and a copy with the rows that stay, in the same types."""
    words = " ".join(WORDS[:80])
    urls = [f"http://a.example/{i}" for i in range(5)]
    pages = [
        f"<p>{words}",
        f"<p>{' '.join(WORDS[100:180])}",
        f"<p>{words}",
        f"<p>{words}",
        "<p>short",
    ]
    more = pa.array([[url] for url in urls], pa.list_(pa.string_view()))
    columns = {"url": pa.array(urls), "html": pa.array(pages)}
    typed = {
        name: column.cast(pa.binary()) if "binary" in kind else column
        for name, column in columns.items()
    }
    table = pa.table(
        {name: column.cast(COLUMNS[kind]) for name, column in typed.items()} | {"more": more}
    )
    path, kept = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(table, path)
    found = statuses(path, kept=str(kept))
    assert found == ["unique", "unique", "near_duplicate", "near_duplicate", "exempt"]
    copied = parquet.ParquetFile(kept)
    assert copied.schema_arrow.equals(parquet.ParquetFile(path).schema_arrow)
    assert copied.read().to_pylist() == [table.to_pylist()[i] for i in (0, 1, 4)]


def test_two_columns_of_a_name_are_named(tmp_path):
    """A join writes them. If they are asked for, the file is named and the others are read; if not, they are copied."""
    (tmp_path / "in").mkdir()
    texts_of = pa.array([f"<p>{' '.join(WORDS[i : i + 80])}" for i in (0, 100)])
    urls = pa.array(["http://a.example/1", "http://a.example/2"])
    twice = pa.Table.from_arrays([urls, texts_of, texts_of], names=["url", "html", "html"])
    parquet.write_table(twice, tmp_path / "in" / "a.parquet")
    others = pa.Table.from_arrays([urls, texts_of, urls, urls], names=["url", "html", "x", "x"])
    parquet.write_table(others, tmp_path / "in" / "b.parquet")
    summary = scan(ScanJob(inputs=(str(tmp_path / "in"),), kept=str(tmp_path / "out")))
    assert (summary.pages, summary.unread_files, summary.uncopied_files) == (2, 1, 0)
    assert [(f.place, f.reason) for f in summary.faults] == [
        ("", "has 2 columns 'html'; rename one")
    ]
    for name, rows in (("a.parquet", 2), ("b.parquet", 2)):
        assert parquet.ParquetFile(tmp_path / "out" / name).metadata.num_rows == rows


def test_a_url_that_is_no_text_is_a_broken_row(tmp_path):
    """Bytes that are not UTF-8 are named; the other rows are read."""
    path = tmp_path / "in.parquet"
    page = f"<p>{' '.join(WORDS[:80])}"
    parquet.write_table(
        pa.table({"url": [b"http://a.example/\xff", b"http://a.example/"], "html": [page, page]}),
        path,
    )
    summary = scan(ScanJob(inputs=(str(path),)))
    assert (summary.pages, summary.broken) == (1, 1)
    assert "not UTF-8" in summary.faults[0].reason


def test_a_null_struct_is_a_broken_row(tmp_path):
    """The row is named, and the others are read."""
    rows = [*texts("<b>"), {"meta": None, "text": "words"}]
    path = tmp_path / "texts.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    summary = scan(ScanJob(inputs=(str(path),), url_field="meta.url", text_field="text"))
    assert summary.unique == 4
    assert [(f.place, f.reason) for f in summary.faults] == [
        (
            "row 5",
            "the field 'meta.url' holds null (other names: --url-field, --html-field, --text-field)",
        )
    ]


def test_a_path_that_is_not_there_is_named(tmp_path):
    """As a column that is not there."""
    path = tmp_path / "texts.parquet"
    parquet.write_table(pa.Table.from_pylist(texts("<b>")), path)
    summary = scan(ScanJob(inputs=(str(path),), url_field="meta.link", text_field="text"))
    assert "has no column 'meta.link', only meta, text" in summary.faults[0].reason
    assert column_path(pa.schema([("a.b", pa.string())]), "a.b") == ["a.b"]
