"""The adapters: what the values of each format mean, and what happens to all other bytes."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pagestream import html

from dedup.model.errors import EventInvalid, UsageError
from dedup.model.names import document_key
from dedup.worker.adapters import FORMATS, URL_BYTES, RecordPage, adapter, format_of

READ = {name: adapter(form) for name, form in FORMATS.items()}

FIREHOSE = {
    "appid": "testapp",
    "url": "http://example.com/b?b=2&a=1#top",
    "response_url": "http://www.example.com/b?session=7",
    "status_code": 200,
    "response_headers": {"Content-Type": ["text/html; charset=utf-8"], "Server": ["x"]},
    "body": "<p>Grüße</p>",
    "links": [{"url": "http://example.com/c", "text": "c"}],
    "attrs": None,
    "encoding": "utf-8",
    "timestamp": "2026-01-01T00:00:00",
}


def firehose(**changes: object) -> bytes:
    return json.dumps(FIREHOSE | changes).encode()


def test_plain_json_is_a_url_and_html():
    """The format json reads `url` and `html`; the key is the canonical URL."""
    found = READ["json"](b'{"html": "<p>x", "url": "http://Example.com/?b=2&a=1#top", "z": [1]}')
    expected = "http://Example.com/?b=2&a=1#top"
    assert found == RecordPage(document_key(expected), expected, "<p>x")
    assert found.key == "http://example.com/?a=1&b=2"


def test_scrapy_cluster_is_keyed_by_the_requested_url():
    """The key comes from `url`, domain and canonical URL by `response_url`; the body is text."""
    found = READ["scrapy-cluster"](firehose())
    assert found == RecordPage(
        "http://example.com/b?a=1&b=2", "http://www.example.com/b?session=7", "<p>Grüße</p>"
    )


def test_scrapy_cluster_with_base64_holds_bytes_in_their_encoding():
    """With body_encoding base64 the body is bytes, and `encoding` is their label."""
    read = adapter(format_of("scrapy-cluster", body_encoding="base64"))
    raw = "<p>Grüße</p>".encode("latin-1")
    body = base64.b64encode(raw).decode()
    found = read(firehose(body=body, encoding="latin-1"))
    assert (found.content, found.encoding) == (raw, "latin-1")


def test_base64_in_lines_is_read():
    """Base64 broken into lines of 76 characters, as MIME has it, is read too."""
    raw = html(1).encode()
    read = adapter(format_of("json", body_encoding="base64"))
    lines = base64.encodebytes(raw).decode()
    assert read(json.dumps({"url": "http://a/", "html": lines}).encode()).content == raw


def test_nutch_values_are_arrays():
    """The first text of each array counts; `content` is plain text."""
    found = READ["nutch"](
        b'{"url":["http://example.com/n"],"content":["plain text"],"title":["t","u"],"tstamp":["x"]}'
    )
    assert found == RecordPage("http://example.com/n", "http://example.com/n", "plain text", True)


def test_fields_can_be_named():
    """url, body and text fields are the ones that were named."""
    read = adapter(format_of("json", url="uri", text="words"))
    found = read(b'{"uri": "http://a/", "words": "some", "html": 3}')
    assert (found.key, found.content, found.is_text) == ("http://a/", "some", True)
    read = adapter(format_of("nutch", body="raw.html"))
    assert not read(b'{"url": "http://a/", "raw.html": "<p>"}').is_text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status_code": 404}, "status"),
        ({"response_headers": {"content-type": "application/pdf"}}, "non_html"),
        ({"response_headers": {"CONTENT-TYPE": ["image/png"]}}, "non_html"),
        ({"response_headers": {"Content-Type": "application/xhtml+xml"}}, None),
        ({"response_headers": {"Content-Type": [7]}}, None),
        ({"response_headers": {}}, None),
        ({"response_headers": "lost", "status_code": None}, None),
    ],
)
def test_pages_that_are_not_judged_say_why(change, reason):
    """Another status than 200 and another type than HTML exempt a page, as in the Scrapy add-on."""
    assert READ["scrapy-cluster"](firehose(**change)).exempt == reason


def test_a_page_over_the_bound_is_exempt():
    """A greater page than max_bytes is too_large, in base64 without being decoded."""
    small = adapter(FORMATS["json"], max_bytes=10)
    assert small(b'{"url": "http://a/", "html": "0123456789"}').exempt is None
    assert small(b'{"url": "http://a/", "html": "0123456789a"}').exempt == "too_large"
    packed = adapter(format_of("json", body_encoding="base64"), max_bytes=10)
    assert packed(b'{"url": "http://a/", "html": "%s"}' % (b"=" * 100)).exempt == "too_large"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "no value"),
        (b"", "not a JSON object"),
        (b"json failed to parse", "failed dump"),
        (b'{"url": "http://a/"', "not a JSON object"),
        (b'{"url": "http://a/"}', "'html' is missing"),
        (b'{"html": "x"}', "'url' is missing"),
        (b'{"url": "", "html": "x"}', "'url' is empty"),
        (b'{"url": 7, "html": "x"}', "'url' holds int"),
        (b'{"url": "http://a/", "html": {"a": 1}}', "'html' holds dict"),
        (b'{"url": "http://[::1/", "html": "x"}', "no URL"),
        (b'{"url": "%s", "html": "x"}' % (b"a" * (URL_BYTES + 1)), "longer than"),
        (b"[" * 100_000, "not a JSON object"),
        (b'{"deep": ' + b'{"a":' * 100_000, "not a JSON object"),
        (b'{"url": "http://a/\xff", "html": "x"}', "not a JSON object"),
    ],
)
def test_what_is_no_page_is_named(value, said):
    """Any other value raises EventInvalid, which says what is wrong with it."""
    with pytest.raises(EventInvalid, match=said):
        READ["json"](value)


def test_base64_that_is_none_is_named():
    """A text body under body_encoding base64 is a dead letter that asks about the setting."""
    read = adapter(format_of("json", body_encoding="base64"))
    with pytest.raises(EventInvalid, match="is its body encoding text"):
        read(b'{"url": "http://a/", "html": "<p>no base64</p>"}')
    with pytest.raises(EventInvalid, match="is its body encoding text"):
        read('{"url": "http://a/", "html": "ä"}'.encode())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "warc"}, "'warc' is not known"),
        ({"name": "json", "url": "html"}, "'html' was named twice"),
        ({"name": "json", "url": ""}, "empty"),
        ({"name": "json", "body": "a", "text": "b"}, "one of them"),
        ({"name": "json", "body_encoding": "hex"}, "'hex' is not allowed"),
        ({"name": "nutch", "body_encoding": "base64"}, "without a body"),
    ],
)
def test_wrong_formats_are_named(given, said):
    """A format that cannot be is a UsageError that names its fault."""
    with pytest.raises(UsageError, match=said):
        format_of(given.pop("name"), **given)


texts = st.text(st.characters(exclude_categories=()), max_size=200)
others = st.recursive(st.none() | st.booleans() | st.floats() | texts, st.lists, max_leaves=8)


@given(texts, st.dictionaries(texts.filter(lambda name: name not in ("url", "html")), others))
def test_a_page_comes_through_json_as_it_was(body, extra):
    """Whatever text a page is, and whatever fields stand beside it, the adapter returns the page."""
    data = json.dumps({**extra, "url": "http://example.com/", "html": body}).encode()
    assert READ["json"](data).content == body


@given(st.binary(max_size=300))
def test_base64_comes_through_as_it_was(body):
    """Whatever bytes a page is, base64 brings them through."""
    read = adapter(format_of("json", body_encoding="base64"))
    data = json.dumps({"url": "http://a/", "html": base64.b64encode(body).decode()}).encode()
    assert read(data).content == body


@given(st.dictionaries(st.sampled_from([*FIREHOSE, "html", "content"]), others))
def test_any_object_is_a_page_or_a_named_fault(fields):
    """Whatever the fields of an object hold, each format reads a page or raises EventInvalid."""
    data = json.dumps(fields).encode()
    for read in READ.values():
        try:
            assert isinstance(read(data), RecordPage)
        except EventInvalid as error:
            assert str(error)
