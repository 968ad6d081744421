"""dedup.fingerprint_batch: an Arrow array of pages in, their fingerprints out."""

import pyarrow as pa
import pytest

import dedup
from dedup.model.errors import UsageError

WORDS = " ".join(f"word{i}" for i in range(80))
PAGES = [
    f"<title>A</title><p>{WORDS}",
    "",
    None,
    f"<link rel=canonical href=http://a.example/x><p>{WORDS[100:]} Straße 議会星期二開会",
    "<p>short",
    *[f"<p>{WORDS[i:]} {i}" for i in range(700)],
]


def expected(pages: list) -> list:
    """What dedup.fingerprint() says of each."""
    rows = [None if page is None else dedup.fingerprint(page) for page in pages]
    return [
        row
        and {
            "value": row.value,
            "sketch": row.sketch,
            "identity": row.identity,
            "features": row.features,
        }
        for row in rows
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_says_what_fingerprint_says(kind, threads):
    """For every type of strings and bytes, nulls and slices, whatever the number of threads."""
    pages = [p if p is None or "string" in str(kind) else p.encode() for p in PAGES]
    array = pa.array(pages).cast(kind) if str(kind).startswith("dict") else pa.array(pages, kind)
    found = dedup.fingerprint_batch(array, threads=threads)
    assert isinstance(found, pa.StructArray)
    assert found.to_pylist() == expected(pages)
    assert dedup.fingerprint_batch(array[3:9]).to_pylist() == expected(pages[3:9])


def test_chunks_and_empty_arrays():
    """A ChunkedArray is one array; nothing gives nothing; an array of nulls gives nulls."""
    chunks = pa.chunked_array([PAGES[:2], PAGES[2:5], []])
    assert dedup.fingerprint_batch(chunks).to_pylist() == expected(PAGES[:5])
    assert dedup.fingerprint_batch(pa.chunked_array([], pa.string())).to_pylist() == []
    assert dedup.fingerprint_batch(pa.array([], pa.string())).to_pylist() == []
    assert dedup.fingerprint_batch(pa.nulls(2)).to_pylist() == [None, None]


@pytest.mark.parametrize("values", [pa.string_view(), pa.binary_view(), pa.large_binary()], ids=str)
def test_categories_of_any_strings(values):
    """A dictionary, what Polars calls a Categorical, may hold views, and each chunk may have its own."""

    def chunk(indices: list, pages: list) -> pa.Array:
        held = [p.encode() if "binary" in str(values) else p for p in pages]
        return pa.DictionaryArray.from_arrays(
            pa.array(indices, pa.uint32()), pa.array(held, values)
        )

    one = chunk([0, 1, None, 0], [PAGES[0], PAGES[3]])
    pages = [PAGES[0], PAGES[3], None, PAGES[0]]
    assert dedup.fingerprint_batch(one).to_pylist() == expected(pages)
    assert dedup.fingerprint_batch(one[1:3]).to_pylist() == expected(pages[1:3])
    both = pa.chunked_array([one, chunk([0], [PAGES[7]])])
    assert dedup.fingerprint_batch(both).to_pylist() == expected([*pages, PAGES[7]])


def test_bytes_in_other_encodings():
    """They are decoded as fingerprint() does it."""
    pages = [
        f"<meta charset=gb18030><p>{WORDS} 议会星期二开会".encode("gb18030"),
        f"<p>{WORDS} café".encode("latin-1"),
        b"\xef\xbb\xbf<p>" + WORDS.encode(),
        f"\ufeff<p>{WORDS}".encode("utf-16-le"),
    ]
    assert dedup.fingerprint_batch(pa.array(pages)).to_pylist() == expected(pages)


def test_plain_text():
    """With text=True no markup is looked for."""
    texts = [f"{WORDS} <title> {WORDS[200:]}", "<!-- a b c"]
    found = dedup.fingerprint_batch(pa.array(texts), text=True).to_pylist()
    assert [row["value"] for row in found] == [dedup.fingerprint_text(t).value for t in texts]


def test_a_secret_keys_a_batch():
    """A recipe with a secret gives the fingerprints of that recipe."""
    recipe = dedup.recipe_of(None, "hush")
    found = dedup.fingerprint_batch(pa.array(PAGES[:1]), recipe=recipe)[0]["value"].as_py()
    assert found == dedup.fingerprint(PAGES[0], recipe=recipe).value


@pytest.mark.parametrize(
    ("wrong", "named"),
    [(pa.array([1, 2]), "int64"), (["<p>"], "not list"), (pa.array([["<p>"]]), "list<")],
)
def test_another_type_is_named(wrong, named):
    """A UsageError says what was given, and what is needed."""
    with pytest.raises(UsageError, match=named):
        dedup.fingerprint_batch(wrong)


@pytest.mark.long
def test_polars_and_duckdb():
    """Their columns go in as they are, and the struct comes back."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    df = pl.DataFrame({"html": PAGES[:5]})
    page = pl.from_arrow(dedup.fingerprint_batch(df["html"]))
    assert page.to_list() == expected(PAGES[:5])
    kind = duckdb.struct_type(
        {"value": "UBIGINT", "sketch": "BLOB", "identity": "UBIGINT", "features": "UINTEGER"}
    )
    with duckdb.connect() as database:
        database.create_function(
            "fingerprint",
            lambda html: dedup.fingerprint_batch(html),
            ["VARCHAR"],
            kind,
            type="arrow",
        )
        rows = database.sql("SELECT fingerprint(html) FROM df").fetchall()
    assert [row for (row,) in rows] == expected(PAGES[:5])
