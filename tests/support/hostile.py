"""Pages made to hurt a reader: families of trouble, each of any size.

A family is a head, a piece repeated, and a tail; or a function of the size. What is known to bring
other readers down stands here: depth, attributes, walls of one character, what never ends, what
cannot be decoded, and everything that makes a table or a list as large as a page can make it.
"""

import random
from collections.abc import Callable

import numpy as np

__all__ = ["FAMILIES", "PIECES", "family"]

_Many = tuple[bytes, bytes, bytes]


def _repeated(head: str | bytes, piece: str | bytes, tail: str | bytes = b"") -> _Many:
    return tuple(
        p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p for p in (head, piece, tail)
    )


REPEATED: dict[str, _Many] = {
    # depth
    "nested blocks": _repeated("", "<div>"),
    "nested inline": _repeated("", "<b><i>x"),
    "nested tables": _repeated("", "<table><tr><td>x "),
    "nested lists": _repeated("", "<ul><li>word "),
    "nested links": _repeated("", "<a href=x>y "),
    "nested svg": _repeated("", "<svg><g><p>x"),
    "unclosed": _repeated("", "<p>a<li>b<td>c<option>d<dt>e"),
    "end tags only": _repeated("", "</p></div></a>"),
    "depth and end tags of others": _repeated("<b>" * 700 + "<nav>", "<i></b>x "),
    "opened and closed": _repeated("", "<div><nav></div></nav>"),
    "hidden in hidden": _repeated("", "<p hidden><div style=display:none>"),
    # structured data
    "nested JSON": _repeated("<script type=application/ld+json>", '{"mainEntity":[', "</script>"),
    "nested arrays of JSON": _repeated(
        '<script type=application/ld+json>{"sku":', "[", "</script>"
    ),
    "things of JSON": _repeated(
        "<script type=application/ld+json>[", '{"@id":"urn:a:b","x":"sku"},', "]</script>"
    ),
    "backslashes of JSON": _repeated(
        '<script type=application/ld+json>{"a":"', "\\\\\\", "</script>"
    ),
    "quotes of JSON": _repeated('<script type=application/ld+json>{"a":', '"\\"', "</script>"),
    "one long value of JSON": _repeated(
        '<script type=application/ld+json>{"sku":"', "\\u0041", '"}</script>'
    ),
    "scripts of JSON": _repeated("", '<script type=application/ld+json>{"gtin":"-"}</script>'),
    "microdata": _repeated("", "<b itemscope><i itemprop=sku> </i>"),
    "one long itemprop": _repeated("<b itemprop='", "gtin ", "'>" + "-" * 300),
    "data attributes": _repeated("", "<b data-a=1 data-bc>"),
    "sources": _repeated("", "<img src=/a>"),
    "numbers": _repeated("", "1&"),
    "headings of numbers": _repeated("", "<h1>1<b>2"),
    # one tag, one attribute, one reference
    "attributes on one tag": _repeated("<p ", "a=1 ", ">text"),
    "distinct attributes on one tag": _repeated("<p ", "class='reply' href=/x id=y "),
    "attributes never ended": _repeated("", "<a b='"),
    "one endless attribute": _repeated("<a href='", "x"),
    "one long target": _repeated("<a href='", "/x?sid=1&amp;", "'>y</a>"),
    "one long class": _repeated("<p class='", "commen-", "'>y</p>"),
    "one long style": _repeated("<p style='", "a:b;display:", "'>y</p>"),
    "one long tag name": _repeated("<", "x", ">y"),
    "tag names": _repeated("", "<longtagname1>"),
    "equals signs": _repeated("<a ", "=", ">y"),
    "slashes": _repeated("<a ", "/", ">y"),
    "ampersands": _repeated("", "&"),
    "almost references": _repeated("", "&CounterClockwiseContourIntegra"),
    "references": _repeated("", "&notin;&NotEqualTilde;&copy"),
    "one giant reference": _repeated("&#", "9", ";"),
    "one giant hexadecimal reference": _repeated("&#x", "f", ";"),
    "references to nothing": _repeated("", "&#0;&#xD800;&#x110000;&#999999999999;"),
    # walls
    "less-than signs": _repeated("", "<"),
    "greater-than signs": _repeated("", ">"),
    "quotes": _repeated("<a b=c>", "\"'"),
    "unended tags": _repeated("", "<p "),
    "tag openers": _repeated("", "</"),
    "one word": _repeated("", "x"),
    "one word in a spaceless script": _repeated("", "\u4e2d\u6587"),
    "marks on one letter": _repeated("a", "\u0301"),
    "spaces": _repeated("", " \t\n"),
    "zero-width spaces": _repeated("", "\u200b\u00ad\u2060"),
    "words": _repeated("", "a "),
    "words and characters": _repeated("", "a\u4e2d"),
    "blocks": _repeated("", "a<p>"),
    # what never ends
    "one comment": _repeated("<!--", "x"),
    "comment starts": _repeated("", "<!--"),
    "comment ends that are none": _repeated("<!--", "--!-"),
    "one script": _repeated("<script>", "var x = 1;"),
    "scripts that never end": _repeated("", "<script></scrip"),
    "script ends that are none": _repeated("<script>", "</scripts>"),
    "inline data": _repeated("<script type=application/json>", '{"a":"</scr"},'),
    "one text area": _repeated("<textarea>", "</textare><p>"),
    "one CDATA section": _repeated("<![CDATA[", "]]"),
    "declarations": _repeated("", "<!x"),
    "instructions": _repeated("", "<?x "),
    # bytes
    "NUL bytes": _repeated("", b"\0"),
    "NUL bytes in tags": _repeated("", b"<\0a\0 b\0=\0>\0x"),
    "invalid bytes": _repeated("", b"\xff\xfe\xc0\xaf\xf8\x88"),
    "cut sequences": _repeated("", b"\xf0\x9f\x98 \xe4\xb8 \xc3 "),
    "lone surrogates": _repeated("", "\ud800\udfff"),
    "UTF-16 bytes": _repeated(b"\xff\xfe", "<p>caf\u00e9 \u4e2d</p>".encode("utf-16-le")),
    "UTF-32 bytes": _repeated(b"\xff\xfe\0\0", "<p>\u4e2d</p>".encode("utf-32-le")),
    "ISO-2022-JP escapes": _repeated("<meta charset=iso-2022-jp>", b"\x1b$B0!\x1b(B"),
    "astral letters": _repeated("", "\U00010400\U0001d400 "),
    "a letter that grows": _repeated("", "\u0130"),
    "byte order marks": _repeated("", "\ufeff"),
    # lists
    "links": _repeated("", "<a href=/x>y</a>"),
    "links to nothing": _repeated("", "<a href>"),
    "links in a dropped place": _repeated("<nav>", "<a href=/x>y</a>"),
    "articles": _repeated("", "<article>word </article>"),
    "headings": _repeated("", "<h1>word</h1>"),
}


def _hexadecimal(count: int) -> np.ndarray:
    """Return `count` numbers as rows of 8 hexadecimal digits: (count, 8) of uint8."""
    numbers = np.arange(count, dtype=np.uint32) * np.uint32(2654435761)
    digits = numbers[:, None] >> np.arange(28, -4, -4, dtype=np.uint32) & np.uint32(15)
    return np.frombuffer(b"0123456789abcdef", np.uint8)[digits]


def _numbered(before: bytes, after: bytes) -> Callable[[int], bytes]:
    def page(size: int) -> bytes:
        count = size // (len(before) + 8 + len(after)) + 1
        rows = np.empty((count, len(before) + 8 + len(after)), np.uint8)
        rows[:, : len(before)] = np.frombuffer(before, np.uint8)
        rows[:, len(before) : len(before) + 8] = _hexadecimal(count)
        rows[:, len(before) + 8 :] = np.frombuffer(after, np.uint8)
        return rows.tobytes()[:size]

    return page


def _noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def _markup_noise(size: int) -> bytes:
    letters = np.frombuffer(b"<>/=\"'!-&#;abpx1 \xff\xe4\xb8\xad\xc3\0", np.uint8)
    return letters[np.frombuffer(_noise(size), np.uint8) % len(letters)].tobytes()


ENDS = b"'\">-->]]></script></textarea></svg></nav>"


def _mixture(size: int) -> bytes:
    """Return every repeated family's beginning, in a chance order, and what ends it."""
    numbers = random.Random(2)
    chosen = numbers.choices(list(REPEATED.values()), k=2000)
    block = b"".join(head[-40:] + piece + ENDS for head, piece, _ in chosen)
    return (block * (size // len(block) + 1))[:size]


MADE: dict[str, Callable[[int], bytes]] = {
    "distinct words": _numbered(b"", b" "),
    "distinct links": _numbered(b"<a href=/", b">"),
    "distinct attributes": _numbered(b"<p a", b"=x>"),
    "distinct tags": _numbered(b"<x", b">"),
    "distinct blocks": _numbered(b"<p>", b""),
    "noise": _noise,
    "noise of markup": _markup_noise,
    "all together": _mixture,
}

FAMILIES = [*REPEATED, *MADE]
PIECES = [head + piece * 3 + tail for head, piece, tail in REPEATED.values()]


def family(name: str, size: int) -> bytes:
    """Return the page of a family of exactly `size` bytes, more than a few hundred."""
    if name in MADE:
        return MADE[name](size)
    head, piece, tail = REPEATED[name]
    room = size - len(head) - len(tail)
    return head + (piece * (room // len(piece) + 1))[:room] + tail
