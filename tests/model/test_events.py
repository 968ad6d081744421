"""The record on the log: its bytes, its limits, and what is no record."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.model.errors import EventInvalid, UsageError
from dedup.model.events import RECORD_BYTES, Event, EventNewer, decode, encode, record_key
from dedup.model.forms import FIELDS, Field
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST

PAGE = PageFingerprint(0x0123456789ABCDEF, bytes(range(37)), 0xFEDCBA9876543210, 321, NEWEST)
DOCUMENT = Document("http://example.com/ü?a=1", PAGE, "example.com", 1700000000.123, "parse", False)
GOLDEN_KEY = "news\0http://example.com/ü?a=1".encode()
GOLDEN_VALUE = (
    '{"v":1,"ns":"news","key":"http://example.com/ü?a=1","value":"0123456789abcdef",'
    '"sketch":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324",'
    '"identity":"fedcba9876543210","features":321,'
    '"recipe":"words-0-9","domain":"example.com","ts":1700000000123,'
    '"kind":"parse","paid":false}'
).encode()

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMESPACE = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", fullmatch=True)
MILLISECONDS = st.integers(-(10**15), 10**15).map(lambda ms: ms / 1000)


def values(field: Field) -> st.SearchStrategy[Any]:
    """Any values of a field; its default and the greatest ones are frequent."""
    form, most = field.form, field.form.most
    drawn: st.SearchStrategy[Any]
    match form.codec:
        case "word":
            drawn = st.integers(0, 2**most - 1) | st.just(2**most - 1)
        case "number":
            drawn = st.integers(0, most) | st.just(most)
        case "bytes":
            drawn = st.binary(min_size=form.least, max_size=most) | st.just(b"\xff" * most)
        case "text":
            drawn = TEXT.filter(lambda text: len(text.encode()) <= most) | st.just(
                "é" * (most // 2)
            )
        case "flag":
            drawn = st.booleans()
        case _:
            drawn = MILLISECONDS
    return drawn if field.default is msgspec.NODEFAULT else st.just(field.default) | drawn


PAGES = st.builds(PageFingerprint, **{f.name: values(f) for f in FIELDS if f.of_page})
DOCUMENTS = st.builds(Document, page=PAGES, **{f.name: values(f) for f in FIELDS if not f.of_page})


def changed(**fields: object) -> bytes:
    """The golden value with some fields others, or (None) left out."""
    value = json.loads(GOLDEN_VALUE) | fields
    return json.dumps({k: v for k, v in value.items() if v is not None}).encode()


def test_the_golden_record_is_written_and_read_to_the_byte() -> None:
    assert encode("news", DOCUMENT) == (GOLDEN_KEY, GOLDEN_VALUE)
    assert decode(GOLDEN_KEY, GOLDEN_VALUE) == Event("news", DOCUMENT.key, DOCUMENT)


def test_the_links_of_a_page_are_written_where_they_are_known() -> None:
    document = msgspec.structs.replace(DOCUMENT, page=msgspec.structs.replace(PAGE, links=0xAB))
    value = GOLDEN_VALUE[:-1] + b',"links":"00000000000000ab"}'
    assert encode("news", document) == (GOLDEN_KEY, value)
    assert decode(GOLDEN_KEY, value).document == document


def test_a_null_value_forgets_the_keys_document() -> None:
    assert record_key("news", DOCUMENT.key) == GOLDEN_KEY
    assert decode(GOLDEN_KEY, None) == Event("news", DOCUMENT.key, None)


@given(NAMESPACE, DOCUMENTS)
def test_every_document_comes_back_from_its_record(namespace: str, document: Document) -> None:
    assert decode(*encode(namespace, document)) == Event(namespace, document.key, document)


@given(NAMESPACE, TEXT)
def test_every_key_comes_back_from_its_tombstone(namespace: str, key: str) -> None:
    """A document key may hold anything, the separator too: a namespace cannot."""
    assert decode(record_key(namespace, key), None) == Event(namespace, key, None)


def test_other_spellings_of_the_same_json_are_read() -> None:
    """White space, the order of fields and escapes are the writer's own affair."""
    value = json.dumps(dict(reversed(json.loads(GOLDEN_VALUE).items())), indent=2).encode()
    assert decode(GOLDEN_KEY, value).document == DOCUMENT


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"value": "0123456789ABCDEF"}, "$.value"),
        ({"identity": "٣" * 16}, "$.identity"),
        ({"sketch": "g" * 74}, "$.sketch"),
        ({"sketch": "0" * 73}, "$.sketch"),
        ({"sketch": "0" * 76}, "$.sketch"),
        ({"value": 5}, "$.value"),
        ({"links": "0" * 15}, "$.links"),
        ({"features": -1}, "$.features"),
        ({"features": 2**63}, "$.features"),
        ({"ts": 10**15 + 1}, "$.ts"),
        ({"ts": "now"}, "$.ts"),
        ({"v": 0}, "$.v"),
        ({"ns": ".hidden"}, "'.hidden'"),
        ({"ns": "a/b"}, "'a/b'"),
        ({"key": None}, "`key`"),
        ({"sketch": None}, "`sketch`"),
        ({"unread": False}, "`unread`"),
        ({"more": 1}, "`more`"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], where: str) -> None:
    with pytest.raises(EventInvalid) as raised:
        decode(GOLDEN_KEY, changed(**fields))
    assert where in str(raised.value)
    assert not isinstance(raised.value, EventNewer)


@pytest.mark.parametrize("fields", [{"v": 2}, {"v": 99, "ns": None, "more": {"v": 1}}])
def test_a_newer_version_is_told_from_a_wrong_record(fields: dict[str, object]) -> None:
    """Whatever else it holds: its fields are not ours to judge."""
    with pytest.raises(EventNewer, match="upgrade crawl-dedup"):
        decode(GOLDEN_KEY, changed(**fields))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, GOLDEN_VALUE),
        (None, None),
        (b"news", None),
        (b"\0key", None),
        (b"ne/ws\0key", None),
        (b"news\0\xff", None),
        (b"n\xffews\0key", None),
        (GOLDEN_KEY, b"null"),
        (GOLDEN_KEY, b"[" * 100_000),
        (GOLDEN_KEY, GOLDEN_VALUE + b"x"),
        (GOLDEN_KEY, GOLDEN_VALUE.replace("ü".encode(), b"\xff")),
        (GOLDEN_KEY, GOLDEN_VALUE.replace("ü".encode(), b"\\ud800")),
        (b"other\0" + DOCUMENT.key.encode(), GOLDEN_VALUE),
        (b"news\0another", GOLDEN_VALUE),
    ],
)
def test_what_is_no_event_is_refused(key: bytes | None, value: bytes | None) -> None:
    """Also a record whose key is not its value's: compaction would keep the wrong one."""
    with pytest.raises(EventInvalid) as raised:
        decode(key, value)
    assert len(str(raised.value)) < 1500


def test_a_record_has_a_million_bytes_at_most() -> None:
    """No document is as long; a tombstone, and white space in a value, may be."""
    value = GOLDEN_VALUE + b" " * (RECORD_BYTES - len(GOLDEN_KEY) - len(GOLDEN_VALUE))
    assert decode(GOLDEN_KEY, value).document == DOCUMENT
    for refused in (
        lambda: record_key("n", "k" * RECORD_BYTES),
        lambda: decode(b"n\0" + b"k" * RECORD_BYTES, None),
        lambda: decode(GOLDEN_KEY, value + b" "),
    ):
        with pytest.raises(EventInvalid, match="1,000,000 are allowed"):
            refused()


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        ("key", {"value": 2**64}),
        ("key", {"sketch": bytes(36)}),
        ("key", {"identity": -1}),
        ("key", {"features": 2**63}),
        ("key", {"recipe": "\ud800"}),
        ("\udc80", {}),
    ],
)
def test_what_no_record_can_say_is_not_written(key: str, fields: dict[str, Any]) -> None:
    with pytest.raises(EventInvalid):
        encode("news", Document(key, msgspec.structs.replace(PAGE, **fields), "", 0.0))


def test_a_wrong_namespace_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError):
        encode("a/b", DOCUMENT)
