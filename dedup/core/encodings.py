"""The encoding of a page: its bytes become UTF-8, once, unless they are that already.

Invariants: the byte order mark, the caller's encoding and the page's own declaration decide,
in this order, as in browsers; but UTF-8 given by the caller is tried first. Only for a page that declares
nothing and is not valid UTF-8 is the encoding guessed, from a bounded sample. No page raises an error.
"""

import logging
import re
from functools import cache

from w3lib.encoding import (
    html_body_declared_encoding,
    read_bom,
    resolve_encoding,
    to_unicode,
)

from dedup.core.native import ffi, lib
from dedup.model.errors import UsageError

SAMPLE_BYTES = 65_536  # what a detector sees of a page, from its first byte beyond ASCII on
LEAD_BYTES = 16  # and this many bytes before it: the letters a word begins with
SIGNS_WITHIN = 4096  # bytes in which a page without a mark shows UTF-16 or ISO-2022-JP

# What the web takes for what has no name and is no UTF-8. Every byte is a character of its own.
_FALLBACK = "cp1252"

# Python codecs that no page is written in; some of them take more than linear time to decode.
_NO_PAGES = frozenset(("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"))

# Labels of the web that Python has under other names, or not at all.
_LABELS = {
    "cp1252": "x-cp1252 iso88591",
    "cp1251": "x-cp1251",
    "cp1250": "x-cp1250",
    "cp874": "dos-874 iso885911",
    "cp949": "windows-949 ks_c_5601-1989 ksc_5601 cseuckr csksc56011987 iso-ir-149",
    "euc_jp": "x-euc-jp cseucpkdfmtjapanese",
    "big5hkscs": "cn-big5 x-x-big5",
    "gb18030": "x-gbk csgb2312 gb_2312",
    "iso8859-6": "iso-8859-6-e iso-8859-6-i csiso88596e csiso88596i",
    "iso8859-8": "iso-8859-8-i logical csiso88598i iso-8859-8-e visual csiso88598e",
    "koi8-r": "koi koi8",
    "koi8-u": "koi8-ru",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "mac-roman": "mac csmacintosh x-mac-roman",
    "utf-8": "unicode-1-1-utf-8 x-unicode20utf8",
    "utf-16-le": "unicode csunicode ucs-2 iso-10646-ucs-2 unicodefeff",
    "utf-16-be": "unicodefffe",
}
_NAMES = {label: name for name, labels in _LABELS.items() for label in labels.split()}

_UTF_16 = re.compile(rb"(?s:..)*?(?:(?P<little><\0[!?/A-Za-z]\0)|\0<\0[!?/A-Za-z])")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


def as_utf8(html: bytes | str, encoding: str | None) -> tuple[bytes, bool]:
    """Return a page as UTF-8, and whether its encoding is certain.

    If not, nothing declares another encoding: the bytes are returned as they are, and reading them
    tells whether they are valid UTF-8. If they are not, guessed_utf8() is the next step.

    Raises UsageError for an encoding that pages are not written in.
    """
    if isinstance(html, str):
        return html.encode("utf-8", "surrogatepass"), True
    if encoding is None and lib.ndd_seems_utf8(ffi.from_buffer(html), len(html)):
        return html, False
    name = _caller_encoding(html, encoding) or _declared_encoding(html) or _encoding_by_signs(html)
    return (html, False) if name is None else (_decoded(html, name), True)


def guessed_utf8(html: bytes) -> bytes:
    """Return a page as UTF-8 whose bytes are not valid UTF-8, and which as_utf8() left open.

    The bytes are returned as they are where the page declares UTF-8, or is mostly valid UTF-8.
    """
    return _decoded(html, _declared_encoding(html) or _guessed_encoding(html))


def plain_text(data: bytes, encoding: str | None) -> str:
    """Return the text of a file that is no page. Raises UsageError as as_utf8() does."""
    return _text(data, _caller_encoding(data, encoding) or _guessed_encoding(data)).removeprefix(
        "\ufeff"
    )


def _caller_encoding(data: bytes, encoding: str | None) -> str | None:
    """Return the caller's encoding if it is UTF-8, else that of the byte order mark, else the caller's."""
    name = None if encoding is None else _page_encoding(encoding)
    if name is None and encoding is not None:
        raise UsageError(f"unknown encoding {encoding!r}; give a name that Python or the web knows")
    return name if name == "utf-8" else read_bom(data)[0] or name


def _guessed_encoding(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    replaced = text.count("\ufffd")
    valid = len(text) - len(text.encode("ascii", "ignore")) - replaced
    invalid = replaced - data.count("\ufffd".encode())
    return "utf-8" if valid >= 2 * invalid else _detected_encoding(data)


def _decoded(html: bytes, name: str) -> bytes:
    return html if name == "utf-8" else _text(html, name).encode("utf-8", "surrogatepass")


def _text(data: bytes, name: str) -> str:
    if name in ("utf-16", "utf-32") and read_bom(data)[0] is None:
        name += "-le"  # as on the web, on every machine
    return to_unicode(data, name)


def _page_encoding(label: str) -> str | None:
    """Return the codec of an encoding that pages are written in; None for any other label."""
    name = resolve_encoding(_NAMES.get(label.strip().lower(), label))
    if name is None or name in _NO_PAGES:
        return None
    try:
        return name if "".encode(name) is not None else None
    except (LookupError, UnicodeError):  # rot13, base64 and the like turn text into no bytes
        return None


def _declared_encoding(html: bytes) -> str | None:
    """Return the encoding that a page itself declares in its first 4096 bytes.

    What declares UTF-16 or UTF-32 in ASCII is neither: the web takes it for UTF-8.
    """
    label = html_body_declared_encoding(html)
    name = None if label is None else _page_encoding(label)
    return "utf-8" if name is not None and name.startswith(("utf-16", "utf-32")) else name


def _encoding_by_signs(html: bytes) -> str | None:
    """Return the encoding that the bytes give away although they would be valid UTF-8.

    UTF-16 without a mark shows in its first tag, ISO-2022-JP in how it switches to Japanese.
    """
    head = html[:SIGNS_WITHIN]
    tag = _UTF_16.match(head)
    if tag is not None:
        return "utf-16-le" if tag["little"] else "utf-16-be"
    switches = b"\x1b$B" in head or b"\x1b$@" in head
    return "iso2022_jp" if switches and html.isascii() else None


def _detected_encoding(html: bytes) -> str:
    """Return the encoding that a sample of a page looks like; no UTF-8."""
    first = _NOT_ASCII.search(html)
    try:
        from chardetng_py.detector import EncodingDetector
    except ImportError as error:  # of a dependency that was removed
        _warn(str(error))
        return _FALLBACK
    start = max(0, (first.start() if first else 0) - LEAD_BYTES)
    detector = EncodingDetector()
    detector.feed(html[start : start + SAMPLE_BYTES], last=False)
    return _page_encoding(detector.guess(tld=None, allow_utf8=False)) or _FALLBACK


@cache
def _warn(error: str) -> None:
    """Say once that pages get other fingerprints than their recipe means."""
    logging.getLogger(__name__).warning(
        "chardetng-py cannot be imported (%s): pages that declare no encoding are read as windows-1252, and do not match "
        "those that were read with it; run: pip install 'chardetng-py>=0.3.5,<0.4'",
        error,
    )
