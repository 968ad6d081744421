"""Encodings: a page gives the fingerprint of its UTF-8 form, however it says what it is written in."""

import codecs

import pytest
from encoded_pages import ENCODED, TEXTS, encoded, meta, page_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scrapy.http import HtmlResponse
from sizes import examples
from w3lib.encoding import html_body_declared_encoding

from dedup.core.encodings import plain_text
from dedup.core.fingerprint import fingerprint, main_words
from dedup.core.native import ffi, lib
from dedup.model.errors import UsageError


@pytest.mark.parametrize(("language", "encoding"), ENCODED)
def test_an_encoding_that_is_named_gives_the_page_of_utf_8(language: str, encoding: str) -> None:
    """By HTTP, whatever the page says of itself; by a meta tag of any form; in the manner of XHTML."""
    page = page_of(language, meta("utf-8"))
    assert fingerprint(encoded(page, encoding), encoding=encoding) == fingerprint(page)
    http = '<meta http-equiv="Content-Type" content="text/html; charset={}" />'
    for form in ('<meta charset="{}">', "<META CHARSET={}>", http):
        page = page_of(language, form.format(encoding))
        assert fingerprint(encoded(page, encoding)) == fingerprint(page)
        assert main_words(encoded(page, encoding)) == main_words(page)
    page = f"<?xml version='1.0' encoding='{encoding}'?>" + page_of(language)
    assert fingerprint(encoded(page, encoding)) == fingerprint(page)


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_shows_in_its_tags(language: str, encoding: str) -> None:
    """Nothing need say that it is UTF-16, and a meta tag inside of it changes nothing."""
    for declaration in ("", meta("windows-1251"), meta("utf-16")):
        page = page_of(language, declaration)
        assert fingerprint(page.encode(encoding)) == fingerprint(page)


@pytest.mark.parametrize(
    ("label", "codec"),
    [("utf-16", "utf-16-le"), ("UTF-16LE", "utf-16-le"), ("utf-16be", "utf-16-be")],
)
def test_utf_16_by_name_alone(label: str, codec: str) -> None:
    """UTF-16 that does not say which is little-endian, on every machine."""
    text = "слова and 言葉, without markup"
    assert fingerprint(text.encode(codec), encoding=label) == fingerprint(text)


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8-sig"]
)
def test_a_byte_order_mark_decides(encoding: str) -> None:
    """A page with a byte order mark is read by it, and the mark is no part of a word."""
    marks = {
        "utf-16-le": codecs.BOM_UTF16_LE,
        "utf-16-be": codecs.BOM_UTF16_BE,
        "utf-32-le": codecs.BOM_UTF32_LE,
        "utf-32-be": codecs.BOM_UTF32_BE,
    }
    text = "слова and words and 言葉, one two three four five"  # of fewer words the bytes count
    html = marks.get(encoding, b"") + text.encode(encoding)
    assert fingerprint(html) == fingerprint(html, encoding=encoding) == fingerprint(text)
    assert plain_text(html, "windows-1251") == text


@pytest.mark.parametrize("header", ["iso-8859-1", "utf-16", "shift_jis", "windows-1256"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_goes_before_a_header(encoding: str, header: str) -> None:
    """As in browsers and Scrapy: a page is the same in every crawl, whatever its server is set to."""
    text = page_of("russian", meta("koi8-r"))
    html = text.encode(encoding)
    headers = {"Content-Type": f"text/html; charset={header}"}
    response = HtmlResponse("http://a.example/", headers=headers, body=html)
    assert fingerprint(html, encoding=header) == fingerprint(text)
    assert fingerprint(html, encoding=response.encoding) == fingerprint(text)


@pytest.mark.parametrize("label", ["utf-8", "UTF8"])
def test_a_caller_who_says_utf_8_is_taken_at_his_word(label: str) -> None:
    """The bytes are read as they are, even behind the mark of another encoding."""
    html = codecs.BOM_UTF16_LE + page_of("russian").encode()
    assert fingerprint(html, encoding=label) == fingerprint(page_of("russian"))


LABELS = [
    ("hebrew", "iso-8859-8", ["iso-8859-8-i", "logical"]),
    ("japanese", "shift_jis", ["x-sjis", "Windows-31J", "ms932"]),
    ("japanese", "euc-jp", ["x-euc-jp"]),
    ("korean", "euc-kr", ["ks_c_5601-1987", "ks_c_5601-1989", "windows-949"]),
    ("chinese", "gbk", ["x-gbk", "gb_2312-80"]),
    ("chinese, traditional", "big5", ["x-x-big5"]),
    ("thai", "cp874", ["dos-874", "iso-8859-11"]),
    ("russian", "cp1251", ["x-cp1251"]),
    ("russian", "koi8-r", [" KOI8 "]),
    ("ukrainian", "koi8-u", ["koi8-ru"]),
    ("german", "cp1252", ["latin1"]),
]


@pytest.mark.parametrize(("language", "codec", "labels"), LABELS)
def test_labels_of_the_web_are_known(language: str, codec: str, labels: list[str]) -> None:
    """Encodings have more names on the web than in Python."""
    page = page_of(language)
    for label in labels:
        assert fingerprint(page.encode(codec), encoding=label) == fingerprint(page)


@pytest.mark.parametrize("encoding", ["nonsense", "", "utf-88", "\0"])
def test_an_unknown_encoding_is_a_usage_error(encoding: str) -> None:
    """The error names it."""
    with pytest.raises(UsageError, match="unknown encoding"):
        fingerprint(b"page", encoding=encoding)


def test_euc_kr_is_read_with_its_extension() -> None:
    """As browsers do: EUC-KR is what Windows made of it, Shift_JIS and Big5 likewise."""
    for encoding, codec, text in (
        ("euc-kr", "cp949", "똠방각하 펲시콜라"),
        ("shift_jis", "cp932", "①髙﨑"),
        ("big5", "big5hkscs", "嘅咁啲"),
    ):
        assert fingerprint(text.encode(codec), encoding=encoding) == fingerprint(text)


DECLARING = st.lists(
    st.sampled_from(
        '<meta |<?xml |<!--|-->|charset|Encoding|content|http-equiv|=|=|content-type|utf-8|UTF8|"|'
        "koi8-r|latin1|'| |\n|\x0b|\xa0|>|;|/|é|<body>".split("|")
    ),
    max_size=30,
)


@settings(max_examples=examples(300))
@given(DECLARING)
@example(["<meta ", "charset", "\x0b", "=", "koi8-r", ">"])
@example(["<meta ", "charset", "=", "utf-8", "é", ">"])
def test_the_quick_look_at_encodings_agrees_with_the_careful_one(pieces: list[str]) -> None:
    """Where the core sees nothing declared but UTF-8, w3lib finds no other encoding."""
    html = "".join(pieces).encode("latin-1")
    if lib.ndd_seems_utf8(ffi.from_buffer(html), len(html)):
        assert html_body_declared_encoding(html) in (None, "utf-8")


def test_a_declaration_does_not_change_a_page_given_as_text() -> None:
    """Text has no encoding any more."""
    assert fingerprint("<meta charset=shift_jis>é").value == fingerprint("é").value


def test_a_page_in_ascii_bytes_is_not_utf_16() -> None:
    """What declares UTF-16 in ASCII is neither: the declaration counts for UTF-8, as on the web."""
    html = "<meta charset=utf-16>one two-é".encode()
    assert fingerprint(html) == fingerprint(html, encoding="utf-8")


@settings(max_examples=examples(200))
@given(
    st.binary(max_size=200),
    st.sampled_from(
        "utf-8 utf-16 utf-32 gb18030 gbk big5 big5-hkscs shift_jis euc-jp iso-2022-jp euc-kr "
        "hz windows-1251 latin-1 ascii koi8-r cp437".split()
    ),
)
def test_promise_7_any_bytes_are_safe_in_any_encoding(data: bytes, encoding: str) -> None:
    """Bytes that do not decode give a fingerprint, declared or given."""
    declared = b"<meta charset=" + encoding.encode() + b">" + data
    for found in (fingerprint(declared), fingerprint(data, encoding=encoding)):
        assert found.recipe == "words-0-9"


@pytest.mark.parametrize("codec", "rot13 base64 hex zlib idna punycode undefined".split())
def test_promise_7_a_page_cannot_name_a_codec_that_is_no_encoding(codec: str) -> None:
    """Python's other codecs are no encodings of pages: declared they count for nothing, given they are unknown."""
    html = f"<meta charset={codec}>one two-é".encode()
    assert fingerprint(html) == fingerprint(html, encoding="utf-8")
    with pytest.raises(UsageError, match="unknown encoding"):
        fingerprint(html, encoding=codec)
