"""The one reader of JSON records: fields by name and by path, and what other programs write beyond JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.model.json_records import UNSET, record_reader

read = record_reader({"url": "url", "text": "meta.text"})


@pytest.mark.parametrize(
    "line",
    [
        b'{"url":"u","meta":{"text":"t"}}',
        b'\xef\xbb\xbf{"url":"u","meta":{"text":"t"}}\r\n',
        b'{"score":NaN,"url":"u","more":Infinity,"meta":{"text":"t"}}',
        b'{"cut":"\\ud83d","url":"u","meta":{"text":"t"}}',
        b'{"url":"u","meta.text":"t","meta":{"text":"other"}}',
    ],
)
def test_a_record_is_read_as_it_was_meant(line):
    """A byte order mark, NaN, Infinity and half of a surrogate pair hide no record; a whole name comes before a path."""
    assert vars(read(line)) == {"url": "u", "text": "t"}


@pytest.mark.parametrize("line", [b"{}", b'{"meta":1}', b'{"meta":null}', b'{"meta":[{"text":1}]}'])
def test_what_is_not_there_is_unset(line):
    """Also where the path meets something else than an object."""
    assert vars(read(line)) == {"url": UNSET, "text": UNSET}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"[1]", "not a JSON object"),
        (b"", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b'{"url":"\xff"}', "not a JSON object"),
        ('\ufeff{"url":"u"}\n'.encode("utf-16-le")[:-1], "UTF-16"),
    ],
)
def test_anything_else_is_named(line, named):
    """A ValueError says what it is."""
    with pytest.raises(ValueError, match=named):
        read(line)


@given(
    st.dictionaries(
        st.sampled_from(["url", "meta", "meta.text", "more"]),
        st.one_of(st.text(), st.none(), st.dictionaries(st.text(), st.text()), st.floats()),
    )
)
def test_both_decoders_give_the_same(record):
    """What Python's own json reads of a record is what is found."""
    line = json.dumps(record).encode()
    found, plain = read(line), json.loads(line)
    assert repr(found.url) == repr(plain.get("url", UNSET))
    inner = plain.get("meta")
    nested = inner.get("text", UNSET) if isinstance(inner, dict) else UNSET
    assert repr(found.text) == repr(plain.get("meta.text", nested))
