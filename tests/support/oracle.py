"""The fingerprint of a page in slow, plain Python: docs/reference/fingerprint-spec.md and nothing else.

Written from the specification, with the tables read out of it, and shaped differently from the
native core: text is a list of pieces before it is tokens, contexts are sets of names, simhash counts
bit by bit. The tests hold the native core to it.

Invariant: clear before fast. Unicode properties are those of the running Python; the
specification's are of version 15.1.0, so compare on characters that are older than both (STABLE).
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from html.entities import html5
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

SPECIFICATION = Path(__file__).parents[2] / "docs" / "reference" / "fingerprint-spec.md"
GOLDEN = Path(__file__).parents[1] / "golden"

Key = tuple[int, int]
Context = frozenset[str]

# ------------------------------------------------------------------- the specification's tables


def section(title: str) -> str:
    """Return the text under a heading of the specification, up to the next one."""
    found = re.search(
        rf"^#+ {title}$(.*?)(?=^#|\Z)", SPECIFICATION.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None, title
    return found[1]


def words_of(line: str) -> list[str]:
    """Return what stands in back quotes."""
    return re.findall(r"`([^`]+)`", line)


def rows_of(title: str) -> dict[str, list[str]]:
    """Return the rows of a section's tables: first cell -> the words of the second."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]*) \|$", section(title), re.MULTILINE)
    return {head: words_of(words) for head, words in rows}


def rows_of_three(title: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yield a property of a thing, whose number it gives (0 seller, 1 maker), its rank, that in an offer."""
    row = r"^\| `(\w+)`[^|]*\| (seller|maker) \| (\d*) \| ?(\d*) ?\|$"
    for name, whose, rank, offered in re.findall(row, section(title), re.MULTILINE):
        yield name.lower(), (whose == "maker", int(rank), int(offered or 0))


TAGS = {group: set(names) for group, names in rows_of("Tags").items()}
WORDS = rows_of("Attributes")
EVERY = " ".join(TAGS)
VOLATILE = words_of(section("Identity").split("ends in `*` here:")[1].split("A target may")[0])
OTHER_TYPES = tuple(
    word.encode()
    for word in words_of(section("Thing").split("with one of these:")[1].split(". Things")[0])
)
PROPERTIES = dict(rows_of_three("Thing"))
VOLATILE_DATA = words_of(
    section("Parts").split("Volatile names, behind `data-`")[1].split("Names that")[0]
)
SAID = words_of(section("Parts").split("Names that say something:")[1].split("Of a tag")[0])
SPACELESS = [
    range(int(first, 16), int(last, 16) + 1)
    for first, last in re.findall(r"`([0-9A-F]{4,5})-([0-9A-F]{4,5})`", section("Tokens"))
]

# ------------------------------------------------------------------------------------------ hashes

ALL = 2**64 - 1
C0, C1 = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


def mix(x: int) -> int:
    """Return x with every bit of it spread over all bits."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor & ALL
    return x ^ x >> 33


def fold(a: int, b: int) -> int:
    """Return both halves of the product, folded."""
    return a * b & ALL ^ a * b >> 64


def token_hash(data: bytes, key: Key = (0, 0)) -> int:
    """Return the recipe's hash of a token."""
    s, t = key[0] ^ C0, key[1] ^ C1
    for at in range(0, len(data), 16):
        part = data[at : at + 16].ljust(16, b"\0")
        s = fold(int.from_bytes(part[:8], "little") ^ s, int.from_bytes(part[8:], "little") ^ t)
    return mix(s ^ len(data))


def shingle_hash(a: int, b: int, c: int) -> int:
    """Return the hash of three neighbouring tokens."""
    return mix(fold(fold(a ^ C0, b ^ C1) ^ C0, c ^ C1))


def simhash(hashes: Sequence[int], weights: Sequence[float] | None = None) -> int:
    """Return the simhash, by a counter for each bit."""
    exact = [1] * len(hashes) if weights is None else whole_weights(weights)
    value = 0
    for bit in range(64):
        ones = sum(weight for hash_, weight in zip(hashes, exact, strict=True) if hash_ >> bit & 1)
        value |= (2 * ones > sum(exact)) << bit
    return value


def whole_weights(weights: Sequence[float]) -> list[int]:
    """Return weights as they count: floats in steps of the greatest."""
    if all(isinstance(weight, int) for weight in weights):
        return [int(weight) for weight in weights]
    most = max(weights)
    return [round(weight / most * (2**32 - 1)) if most else 0 for weight in weights]


# ------------------------------------------------------------------------------------------- tokens


def character_class(character: str) -> str:
    """Return "ignored", "spaceless", "word" or "separator"."""
    code, category = ord(character), unicodedata.category(character)
    if category == "Cf" and code != 0x200B:
        return "ignored"
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return "ignored"
    if category[0] in "LMN":
        return "spaceless" if any(code in span for span in SPACELESS) else "word"
    return "word" if character == "_" else "separator"


class Token(NamedTuple):
    """A token and the context it stands in."""

    data: bytes
    context: Context


class Piece(NamedTuple):
    """A character of visible text, or, with another text, an end: of a "word", of a "block"."""

    text: str
    context: Context = frozenset()


END_WORD, END_BLOCK = Piece("end of word"), Piece("end of block")


def cut(run: list[Piece]) -> Iterator[Token]:
    """Yield a word's pieces of at most 128 bytes."""
    data, context = b"", run[0].context
    for character in run:
        more = character.text.lower()[0].encode()
        if len(data) + len(more) > 128:
            yield Token(data, context)
            data, context = b"", character.context
        data += more
    yield Token(data, context)


def pairs(run: list[Piece]) -> Iterator[Token]:
    """Yield neighbours of a spaceless script."""
    if len(run) == 1:
        yield Token(run[0].text.encode(), run[0].context)
    for first, second in pairwise(run):
        yield Token((first.text + second.text).encode(), second.context)


def blocks_of(pieces: Iterable[Piece]) -> list[list[Token]]:
    """Return the blocks of a page, each with its tokens; none is empty."""
    blocks: list[list[Token]] = [[]]
    notice = False
    run: list[Piece] = []
    kind = "separator"
    for piece in [*pieces, END_BLOCK]:
        now = character_class(piece.text) if len(piece.text) == 1 else "separator"
        if now == "ignored":
            continue
        if now != kind and run:
            blocks[-1] += cut(run) if kind == "word" else pairs(run)
            run = []
        kind = now
        if now != "separator":
            run.append(piece)
        notice |= piece.text == "\N{COPYRIGHT SIGN}"
        if piece == END_BLOCK:
            if notice and blocks[-1]:
                first = blocks[-1][0]
                blocks[-1][0] = first._replace(context=first.context | {"notice"})
            blocks.append([])
            notice = False
    return [block for block in blocks if block]


# -------------------------------------------------------------------------------------- references

SPACE = "\t\n\f\r "
REFERENCE = re.compile(r"&(?:#[xX]([0-9a-fA-F]+);?|#([0-9]+);?|([0-9A-Za-z]{1,33};?))")


def reference(text: str, at: int, in_attribute: bool) -> tuple[str, int]:
    """Return what the reference at an "&" stands for, and its end; ("", at) if it is none."""
    found = REFERENCE.match(text, at)
    if found is None:
        return "", at
    hexadecimal, decimal, run = found.groups()
    if run is None:
        digits = (hexadecimal or decimal).lstrip("0")
        code = int(digits or "0", 16 if hexadecimal else 10) if len(digits) < 9 else 0
        if 128 <= code < 160:
            one = bytes([code]).decode("cp1252", "ignore") or chr(code)
        else:
            bad = code in (0, *range(0xD800, 0xE000)) or code > 0x10FFFF
            one = "\ufffd" if bad else chr(code)
        return one, found.end()
    names = (run[:length] for length in range(len(run), 0, -1))
    name = next((name for name in names if name in html5), "")
    end = at + 1 + len(name)
    if in_attribute and name[-1:] != ";" and re.match("[=0-9A-Za-z]", text[end : end + 1]):
        name = ""
    return (html5[name], end) if name else ("", at)


# --------------------------------------------------------------------------------------- identity


def volatile(parameter: bytes) -> bool:
    """Whether a parameter is one of a session or a campaign."""
    name = parameter.split(b"=")[0].lower()
    return any(
        name.startswith(word[:-1].encode()) if word[-1] == "*" else name == word.encode()
        for word in VOLATILE
    )


def upper_half(hash_: int) -> int:
    """Return 32 bits of a hash that are not 0."""
    return hash_ >> 32 or 1


def title_of(content: bytes, key: Key = (0, 0)) -> int:
    """Return the hash of a title, 0 if it has no text."""
    title, at = b"", 0
    text = content.decode("latin-1")
    while at < len(text) and len(title) <= 1016:
        stands_for, end = reference(text, at, False) if text[at] == "&" else ("", at)
        if not stands_for:
            end = at + (2 if content.startswith(b"\xc2\xa0", at) else 1)
        parts = [one.encode() for one in stands_for] or [content[at:end]]
        for part in parts:
            white = part == b"\xc2\xa0" or (len(part) == 1 and part <= b" ")
            title += part if not white else b" " if title and title[-1:] != b" " else b""
        at = end
    title = title.removesuffix(b" ")
    return upper_half(token_hash(title, key)) if title else 0


def href_of(href: bytes) -> bytes:
    """Return the URL that an attribute holds, without its fragment."""
    text, data, at = href.decode("latin-1"), b"", 0  # a character for each byte
    while at < len(text) and len(data) <= 2040:
        stands_for, end = reference(text, at, True) if text[at] == "&" else ("", at)
        if stands_for:
            data, at = data + stands_for.encode(), end
        else:
            data, at = data + href[at : at + 1].strip(b"\t\n\r"), at + 1
    return data.strip(bytes(range(33))).split(b"#")[0]


def target_of(href: bytes, directory: bytes = b"") -> bytes | None:
    """Return what stands for a URL's target, None if it has none."""
    data = href_of(href)
    if not data:
        return None
    scheme = re.match(rb"[A-Za-z][A-Za-z0-9+.-]*:", data)
    if scheme is not None:
        if scheme[0].lower() not in (b"http:", b"https:"):
            return None
        data = data[scheme.end() :]
    relative = scheme is None and not data.startswith(b"//")
    data = re.sub(rb"\A//[^/?]*", b"", data)
    data = re.sub(rb"\A(\./)+", b"", data)
    if relative and data[:1] not in (b"/", b"?") and len(directory) + len(data) <= 2048:
        data = directory + data
    path, _, query = data.partition(b"?")
    path = re.sub(rb";[^;/]*", lambda part: b"" if volatile(part[0][1:]) else part[0], path)
    kept = [part for part in query.split(b"&") if part and not volatile(part)]
    return path + b"".join((b"&" if i else b"?") + part for i, part in enumerate(kept))


# ------------------------------------------------------------------------------------------- things


class Things:
    """The numbers of one thing: for the seller and the maker the rank and 30 bits, or None."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.numbers: list[tuple[int, int] | None] = [None, None]
        self.offers: list[Things] = []
        self.other = False
        self.id: tuple[int, bool] | None = None

    def rank(self, whose: int) -> int:
        found = self.numbers[whose]
        return found[0] if found else 0

    def add(self, name: str, value: bytes, *, offered: bool = False) -> None:
        name = re.sub(r"\Agtin\d{0,2}\Z", "gtin", name)
        whose, *ranks = PROPERTIES.get(name, (0, 0, 0))
        if name in ("gtin", "isbn"):
            value = re.sub(rb"[^0-9a-z]", b"", value.lower()).lstrip(b"0")
        value = value.strip(bytes(range(33)))
        if value and ranks[offered] > self.rank(whose):
            self.numbers[whose] = ranks[offered], token_hash(value, self.key) >> 34

    def whole(self) -> "Things":
        """Return this thing with what its only offer says."""
        if len(self.offers) == 1:
            for whose in (0, 1):
                if self.offers[0].rank(whose) > self.rank(whose):
                    self.numbers[whose] = self.offers[0].numbers[whose]
        return self

    @property
    def numbered(self) -> bool:
        return self.rank(1) > 0 or self.rank(0) > 1

    def thing(self) -> int:
        seller, maker = (found[1] if found else None for found in self.numbers)
        if maker is None or seller is None:
            return 2**30 + seller if seller is not None else 2**31 + (maker or 0)
        return 2**31 + 2**30 + (maker & 0x7FFF) * 2**15 + (seller & 0x7FFF)


JSON_PIECE = re.compile(rb'"((?:[^"\\]|\\.)*\\?)(?:"|\Z)|[{}\[\],:]|[^"{}\[\],:]+', re.DOTALL)


@dataclass
class Json:
    """An object, or an array: then its elements are the values of "" (all of one member)."""

    is_object: bool
    members: list[tuple[str, list["bytes | Json"]]] = field(default_factory=list)
    named: bool = False

    def add(self, value: "bytes | Json") -> None:
        if self.is_object and not self.named:
            return
        if not self.members:
            self.members.append(("", []))
        self.members[-1][1].append(value)


def parse(content: bytes) -> list[Json]:
    """Return what stands at the top of JSON, or of what only looks like it."""
    top: list[Json] = []
    stack: list[Json] = []
    scalar = b""
    for piece in JSON_PIECE.finditer(content):
        text = piece[0]
        if text in b"}]," and stack:
            scalar = scalar.strip(bytes(range(33)))
            if scalar and scalar.lower() not in (b"null", b"true", b"false"):
                stack[-1].add(b"\0" + scalar[:256])
        if text in (b"{", b"["):
            opened = Json(text == b"{")
            (stack[-1].add if stack else top.append)(opened)
            stack.append(opened)
        elif text in (b"}", b"]"):
            del stack[-1:]
        elif text == b"," and stack:
            stack[-1].named = False
        elif text[:1] == b'"' and stack:
            if stack[-1].is_object and not stack[-1].named:
                stack[-1].named = True
                stack[-1].members.append((piece[1].lower().decode("latin-1"), []))
            else:
                stack[-1].add(piece[1])
        scalar = (
            text if piece.end() - piece.start() and not re.match(rb'["{}\[\],:]', text) else b""
        )
    return top


def decoded(value: bytes) -> bytes:
    """Return the bytes of a string of JSON (a scalar has a 0 before it)."""
    if value[:1] == b"\0":
        return value[1:]
    data, at = b"", 0
    while at < len(value) and len(data) <= 248:
        escape = re.compile(rb"\\(.)", re.DOTALL).match(value, at)
        if not escape:
            data, at = data + value[at : at + 1], at + 1
            continue
        at = escape.end()
        four = re.compile(rb"[0-9a-fA-F]{4}")
        if escape[1] == b"u" and (first := four.match(value, at)):
            code, at = int(first[0], 16), first.end()
            if 0xD800 <= code < 0xE000:
                second = four.match(value, at + 2) if value[at : at + 2] == b"\\u" else None
                low = int(second[0], 16) if second else 0
                if code < 0xDC00 and 0xDC00 <= low < 0xE000:
                    code, at = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00, at + 6
                else:
                    code = 0xFFFD
            data += chr(code).encode()
        else:
            data += b" " if escape[1] in b"bfnrt" else escape[1]
    return data


def elements(values: "Iterable[bytes | Json]", depth: int) -> "Iterator[tuple[bytes | Json, int]]":
    """Yield values, the elements of arrays for these, with the depth that each stands at."""
    for value in values:
        if isinstance(value, Json) and not value.is_object:
            if depth < 16:
                yield from elements((one for _, some in value.members for one in some), depth + 1)
        else:
            yield value, depth


def path_of(href: bytes) -> bytes | None:
    target = target_of(href)
    return None if target is None else target.split(b"?")[0]


def id_of(value: bytes, key: Key) -> tuple[int, bool] | None:
    """Return the hash of an @id, and whether it is a URL."""
    value = value.strip(bytes(range(33)))
    if value.startswith(b"_:"):
        return None
    has_scheme = b":" in value.split(b"/")[0]
    if b"/" in value and (not has_scheme or value[:4].lower() == b"http"):
        path = path_of(value)
        return None if path is None else (token_hash(path, key), True)
    value = re.split(rb"[?#]", value)[0]
    return (token_hash(value, key), False) if value else None


def things_of(content: bytes, key: Key) -> Iterator[Things]:
    """Yield the things of JSON-LD in the order in which they end."""
    for value, depth in elements(parse(content), 0):
        if isinstance(value, Json) and depth < 16:
            yield from things_in(value, depth + 1, key)


def things_in(found: Json, depth: int, key: Key) -> Iterator[Things]:
    thing = Things(key)
    for name, values in found.members:
        for value, at in elements(values, depth):
            if isinstance(value, bytes):
                value = decoded(value)
                thing.other |= name == "@type" and value.lower().endswith(OTHER_TYPES)
                if name == "@id" and thing.id is None:
                    thing.id = id_of(value, key)
                thing.add(name, value)
            elif at == 16:
                continue
            elif name in ("@graph", "mainentity"):
                yield from things_in(value, at + 1, key)
            elif name in ("offers", "identifier"):
                inside = Things(key)
                thing.offers += [inside] if name == "offers" else []
                for other, more in value.members:
                    for one, _ in elements(more, at + 1):
                        if not isinstance(one, bytes):
                            continue
                        if name == "offers":
                            inside.add(other, decoded(one), offered=True)
                        elif other == "value":
                            thing.add("identifier", decoded(one))
    yield thing.whole()


def text_of(markup: bytes, in_attribute: bool) -> bytes:
    """Return the value that microdata give."""
    text, data, at = markup.decode("latin-1"), b"", 0
    while at < len(text) and len(data) <= 248:
        stands_for, end = reference(text, at, in_attribute) if text[at] == "&" else ("", at)
        data += stands_for.encode() if stands_for else markup[at : at + 1]
        at = end if stands_for else at + 1
    return data


def number_of_sequence(hashes: Iterable[int]) -> int:
    """Return the number of a sequence (specification, "Parts")."""
    s = 0
    for hash_ in hashes:
        s = (s * C0 + hash_) & ALL
    return upper_half(mix(s)) if s else 0


def has_digit(token: bytes) -> bool:
    zeros = (0x30, 0x660, 0x6F0, 0x966, 0x9E6, 0xFF10)
    return any(ord(one) - zero in range(10) for one in token.decode() for zero in zeros)


# ------------------------------------------------------------------------------------------- links
# Not in the specification: native/src/reader/links.c says what a link's hash stands for.


@dataclass
class Address:
    """A URL: its host (b"" if it names none), path and parameters; None as scheme: it names none."""

    absolute: bool
    host: bytes
    path: bytes
    query: bytes | None

    @classmethod
    def of(cls, href: bytes) -> "Address | None":
        data = href_of(href)
        if not data:
            return None
        scheme = re.match(rb"[A-Za-z][A-Za-z0-9+.-]*:", data)
        if scheme is not None:
            if scheme[0].lower() not in (b"http:", b"https:"):
                return None
            data = data[scheme.end() :]
        host = re.match(rb"//([^/?]*)", data)
        if host is not None:
            data = data[host.end() :]
        path, mark, query = data.partition(b"?")
        named = host[1] if host is not None else b""
        return cls(bool(scheme or host), named, path, query if mark else None)

    @classmethod
    def of_page(cls, url: bytes) -> "Address":
        page = cls.of(url)
        if page is None:
            return cls(True, b"", b"/", None)
        if not page.path.startswith(b"/"):
            page.path, page.query = b"/", None
        return page


def tidy(path: bytes) -> bytes:
    """Return a path without dots, sessions and volatile parameters."""
    kept: list[bytes] = []
    segments = path.split(b"/")[1:]
    for i, segment in enumerate(segments):
        session = re.fullmatch(rb"(?s)\([A-Za-z]\(.*\)\)", segment)
        if segment in (b".", b"..") or session:
            if segment == b"..":
                del kept[-1:]
            if i == len(segments) - 1:
                kept.append(b"")
            continue
        pieces = re.findall(rb"(?s)\A[^;]+|;[^;]*", segment)
        pieces = [one for one in pieces if not (one[:1] == b";" and volatile(one[1:]))]
        kept.append(b"".join(pieces))
    return b"".join(b"/" + segment for segment in kept) or b"/"


def hands_on(parameter: bytes, page: Address) -> bool:
    """Whether a parameter's value is the page's own address."""
    _, mark, value = parameter.partition(b"=")
    value = unquote_to_bytes(value).lower()
    host = re.match(rb"https?://" + re.escape(page.host.lower()), value)
    if host is not None:
        value = value[host.end() :]
        if not value:
            return page.path == b"/"
    path = page.path.lower()
    rest = value[len(path) :]
    return bool(mark) and value.startswith(path) and rest[:1] in (b"", b"?", b"#", b"&")


def link_hash(link: Address, page: Address, key: Key = (0, 0)) -> int:
    """Return the hash of a link's target."""
    path = link.path
    if not link.absolute and not path:
        path = page.path
    elif not link.absolute and path[:1] != b"/":
        path = page.path[: page.path.rindex(b"/") + 1] + path
    elif path[:1] != b"/":
        path = b"/" + path
    parameters = [
        part
        for part in (link.query or b"").split(b"&")
        if part and not volatile(part) and not hands_on(part, page)
    ]
    query = sum(token_hash(part, key) for part in parameters) & ALL
    other = link.host and link.host.lower() != page.host.lower()
    host = token_hash(link.host.lower()[:256], key) if other else 0
    return shingle_hash(host, token_hash(tidy(path), key), query)


# ----------------------------------------------------------------------------------------- markup


JSON_BEGINS = re.compile(f'[{SPACE}]*(?:{{[{SPACE}]*["}}]|\\[[{SPACE}]*[{{\\["\\]0-9-])')


def is_json(text: str) -> bool:
    """Whether JSON begins there: an object, or an array of something."""
    return JSON_BEGINS.match(text) is not None


class Cut(Exception):
    """The page ends inside of a tag or a comment."""


def find(pattern: str, text: str, at: int) -> re.Match[str]:
    """Return the first match from there on."""
    found = re.compile(pattern, re.DOTALL).search(text, at)
    if found is None:
        raise Cut
    return found


def here(pattern: str, text: str, at: int) -> re.Match[str]:
    """Return the match that begins there."""
    found = re.compile(pattern, re.DOTALL).match(text, at)
    if found is None:
        raise Cut
    return found


def lower(text: str) -> str:
    """Return text with ASCII letters in lower case, and those alone."""
    return raw(text).lower().decode("utf-8", "surrogateescape")


def raw(text: str) -> bytes:
    """Return the page's own bytes of a piece of it."""
    return text.encode("utf-8", "surrogateescape")


@dataclass
class StartTag:
    """A start tag, and where it ends."""

    name: str
    attributes: list[tuple[str, str]]
    written: list[tuple[str, str]]
    closed: bool
    end: int

    def has(self, group: str) -> bool:
        return self.name in TAGS[group]

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.attributes if name in names]

    def says(self, words: str, *names: str) -> bool:
        runs = re.findall("[0-9a-z]+", lower(" ".join(self.values(*names))))
        return any(word in WORDS[words] for word in runs)

    def called(self, words: str) -> bool:
        """Whether a class or id has one of the words, but for those in the name of a category or a tag."""
        for value in map(raw, self.values("class", "id")):
            for run in re.finditer(b"[0-9a-z]+", value.lower()):
                name = re.split(f"[{SPACE}]".encode(), value[: run.start()][-64:].lower())[-1]
                subject = name.startswith((b"tag-", b"category-"))
                if run[0].decode() in WORDS[words] and not subject:
                    return True
        return False

    def is_hidden(self) -> bool:
        return any(lower(value) != "until-found" for value in self.values("hidden"))

    def hidden(self) -> bool:
        styles = (lower(re.sub(f"[{SPACE}]", "", style)) for style in self.values("style"))
        return (
            self.is_hidden()
            or "true" in map(lower, self.values("aria-hidden"))
            or any(
                piece.startswith(("display:none", "visibility:hidden"))
                for style in styles
                for piece in style.split(";")
            )
        )

    def canonical(self) -> bool:
        return any("canonical" in re.split(f"[{SPACE}]", lower(rel)) for rel in self.values("rel"))

    def next(self) -> bool:
        return any("next" in re.split(f"[{SPACE}]", lower(rel)) for rel in self.values("rel"))

    def linked(self) -> bool:
        return "application/ld+json" in map(lower, self.values("type"))

    def first(self, name: str) -> bytes | None:
        return next((raw(value) for value in self.values(name)), None)

    def properties(self) -> list[str] | None:
        """Return the words of the first itemprop."""
        found = self.first("itemprop")
        return None if found is None else lower(found.decode("latin-1")).split()

    def json(self) -> bool:
        return any(
            kind == "application/json"
            or (len(raw(kind)) > 5 and kind.endswith("+json") and kind != "application/ld+json")
            for kind in map(lower, self.values("type"))
        )


def start_tag(text: str, at: int) -> StartTag:
    """Read the start tag at a "<"."""
    name = here(f"[^{SPACE}/>]*", text, at + 1)
    attributes: list[tuple[str, str]] = []
    written_names: list[tuple[str, str]] = []
    at = name.end()
    while True:
        at = here(f"[{SPACE}/]*", text, at).end()
        if here(".", text, at)[0] == ">":
            return StartTag(lower(name[0]), attributes, written_names, text[at - 1] == "/", at + 1)
        attribute = here(f".[^{SPACE}=>/]*", text, at)
        value = quote = ""
        at = here(f"[{SPACE}]*", text, attribute.end()).end()
        if text.startswith("=", at):
            at = here(f"=[{SPACE}]*", text, at).end()
            written = here(f"\"[^\"]*\"|'[^']*'|(?![\"'])[^{SPACE}>]*", text, at)
            value, at = written[0], written.end()
            quote = value[:1] if value.startswith(("'", '"')) else ""
            if value.startswith(("'", '"')):
                value = value[1:-1]
        attributes.append((lower(attribute[0]), value))
        whole = text[attribute.start() : at].removesuffix(quote) if value else ""
        written_names.append((attribute[0], whole))


def in_any(name: str, groups: str) -> bool:
    """Whether a tag is in one of these groups."""
    return any(name in TAGS[group] for group in groups.split())


class Element(NamedTuple):
    """An open element."""

    name: str
    context: Context


IMPLIED = {
    "ITEM": "LIST CELL TABLE SKIP",
    "TERM": "TERMS CELL TABLE SKIP",
    "CELL": "ROW TABLE SKIP",
    "ROW": "TABLE SKIP",
    "GROUP": "TABLE SKIP",
    "LINK": "BLOCK SKIP",
    "OPTION": "BLOCK SKIP",
}


def barrier(name: str) -> str:
    """Return the groups that an end tag does not reach past."""
    if in_any(name, "SKIP"):
        return ""
    if not in_any(name, "BLOCK ASIDE"):
        return "BLOCK"
    if in_any(name, "TABLE"):
        return ""
    if in_any(name, "CELL ROW GROUP"):
        return "TABLE"
    return "LIST CELL TABLE" if in_any(name, "ITEM") else "CELL TABLE"


@dataclass
class Page:
    """A page on its way through the scan."""

    text: str
    pieces: list[Piece] = field(default_factory=list)
    directory: bytes = b""
    key: Key = (0, 0)
    title: int = 0
    title_tokens: list[str] = field(default_factory=list)
    canonical: int = 0
    data_bytes: int = 0
    open_graph: tuple[int, bytes] | None = None
    canonical_path: bytes | None = None
    linked: list[Things] = field(default_factory=list)
    marked: list[Things] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    data_attributes: list[int] = field(default_factory=list)
    said: list[int] = field(default_factory=list)
    passed: list[tuple[int, int]] = field(default_factory=list)
    meta: list[int] = field(default_factory=list)
    links: list[tuple[str, Context]] = field(default_factory=list)
    stack: list[Element] = field(default_factory=list)
    without_room: int = 0
    mains: int = 0

    @property
    def context(self) -> Context:
        return self.stack[-1].context if self.stack else frozenset()

    def close(self, sought: Callable[[str], bool], barrier: str) -> None:
        """Close the nearest element that is sought, unless another stands before it."""
        for depth in range(len(self.stack) - 1, max(-1, len(self.stack) - 65), -1):
            name = self.stack[depth].name
            if sought(name):
                self.close_to(depth)
                return
            if in_any(name, barrier):
                return

    def close_to(self, depth: int) -> None:
        """Take the elements from a depth on off the stack; a drawing may end there."""
        drawn = "drawn" in self.context
        del self.stack[depth:]
        self.without_room = 0
        if drawn and "drawn" not in self.context:
            self.end_unless(drawn=False)

    def end_unless(self, *, drawn: bool) -> None:
        """End the word, and the block if its tokens are of a drawing or, with drawn, if they are not."""
        self.pieces.append(END_WORD)
        block = blocks_of(self.pieces[self.block_begin() :])
        if block and ("drawn" in block[0][0].context) != drawn:
            self.pieces.append(END_BLOCK)

    def block_begin(self) -> int:
        """Return where the pieces of the block begin that is open."""
        ends = (i for i in range(len(self.pieces), 0, -1) if self.pieces[i - 1] is END_BLOCK)
        return next(ends, 0)

    def is_xml(self) -> bool:
        return re.match(f"\ufeff?[{SPACE}]*<\\?xml[{SPACE}]", self.text) is not None

    def scan(self) -> None:
        """Read the page."""
        at = 0
        if is_json(self.text.removeprefix("\ufeff")):
            self.data_bytes = len(raw(self.text))
            self.data.append(token_hash(raw(self.text), self.key))
            return
        try:
            while at < len(self.text):
                if self.text[at] == "<":
                    at = self.markup(at)
                elif "skipped" in self.context:
                    end = self.text.find("<", at) % (len(self.text) + 1)
                    self.pass_by(raw(self.text[at:end]))
                    at = end
                else:
                    at = self.character(at)
        except Cut:
            pass
        self.pieces.append(END_BLOCK)

    def pass_by(self, text: bytes) -> None:
        """Note text that is no piece (specification, "List of blocks")."""
        text = text.strip(SPACE.encode())
        if text and len(self.passed) < 4096:
            number = upper_half(token_hash(text, self.key))
            self.passed.append((-(-len(text) // 6), number))

    def character(self, at: int) -> int:
        stands_for, end = reference(self.text, at, False) if self.text[at] == "&" else ("", at)
        if not stands_for:
            stands_for, end = self.text[at], at + 1
        self.pieces += [Piece(one, self.context) for one in stands_for]
        return end

    def markup(self, at: int) -> int:
        after = self.text[at + 1 : at + 4]
        if not after:
            raise Cut
        if re.match("[A-Za-z]", after):
            return self.start(start_tag(self.text, at))
        if re.match("/[A-Za-z]", after):
            name = here(f"[^{SPACE}/>]*", self.text, at + 2)
            self.end(lower(name[0]))
            return find(">", self.text, name.end()).end()
        if after == "!--":
            return here("<!--(?:>|->|.*?--!?>)", self.text, at).end()
        if self.text.startswith("<![CDATA[", at) and (self.is_xml() or "foreign" in self.context):
            end = self.text.find("]]>", at + 9)
            if "skipped" not in self.context:
                content = self.text[at + 9 : end if end >= 0 else len(self.text)]
                self.pieces += [Piece(one, self.context) for one in content]
            return end + 3 if end >= 0 else len(self.text)
        if after[0] in "!?" or (after[0] == "/" and len(after) > 1):
            return find(">", self.text, at + 2).end()
        self.pieces.append(END_WORD)
        return at + 1

    def ends(self, name: str) -> None:
        if in_any(name, "BLOCK"):
            self.pieces.append(END_BLOCK)
        elif in_any(name, "BREAK"):
            self.pieces.append(END_WORD)

    def start(self, tag: StartTag) -> int:
        if tag.name == "input" and "skipped" not in self.context:
            self.field_text(tag)
        if "drawn" in self.context:
            self.pieces.append(END_WORD)
        self.ends(tag.name)
        self.parts_of(tag)
        if tag.name == "pre" and is_json(self.text[tag.end :]) and not blocks_of(self.pieces):
            content, after = self.raw_content(tag)
            if len(raw(self.text[after:])) <= 64:
                self.data_bytes += len(content)
                self.data.append(token_hash(content, self.key))
                return after
        if tag.has("BLOCK") and not tag.has("FOREIGN"):
            depth = len(self.stack)
            while depth and "foreign" in self.stack[depth - 1].context:
                depth -= 1
            if depth < len(self.stack):
                self.close_to(depth)
        if tag.has("RAW") and "foreign" not in self.context:
            self.pieces.append(END_WORD)
            if tag.closed and self.is_xml():
                return tag.end
            content, after = self.raw_content(tag)
            if tag.has("SCRIPT") and tag.json():
                self.data_bytes += len(content)
            if tag.has("SCRIPT") and tag.linked():
                self.linked += things_of(content, self.key)
            state = content.lstrip(SPACE.encode()).startswith((b"window.__", b"self.__"))
            if tag.has("SCRIPT") and (tag.json() or tag.linked() or state):
                self.data.append(token_hash(content, self.key))
            if tag.has("TITLE") and not self.title and "skipped" not in self.context:
                self.title = title_of(content, self.key)
                self.title_tokens = title_tokens(content)
            if not tag.has("SCRIPT") and not tag.has("TITLE") and "skipped" not in self.context:
                self.raw_text(tag, content)
            return after
        href = tag.values("href")
        if tag.has("REL") and tag.canonical() and href and not self.canonical:
            target = target_of(raw(href[0]), self.directory)
            if target is not None and "skipped" not in self.context:
                self.canonical = upper_half(token_hash(target, self.key))
                self.canonical_path = path_of(raw(href[0]))
        if tag.has("REL") and href and tag.next() and "skipped" not in self.context:
            self.links.append((href[0], frozenset({"paging"})))
        if tag.has("VOID") or (
            tag.closed
            and (self.is_xml() or self.context & {"skipped", "foreign"} or tag.has("SKIP"))
        ):
            return tag.end
        named = tag.has("BLOCK") and "dropped" not in self.context
        if tag.has("BLOCK"):
            self.close(lambda name: in_any(name, "PARAGRAPH"), "BLOCK SKIP")
        if tag.has("BLOCK") or tag.has("LINK"):
            group = next((group for group in IMPLIED if tag.has(group)), None)
            if group is not None:
                self.close(lambda name: in_any(name, group), IMPLIED[group])
        if tag.has("TOP") and not self.context & {"skipped", "dropped"}:
            hints = {"comments", "inner comments", "beside"}
            self.stack = [Element(name, context - hints) for name, context in self.stack]
        outside = {"main"} - self.context or not in_content(self.context)
        context = self.unveiled(tag) | self.marks(tag, named=named)
        if {"drawn", "skipped"} <= self.context and (
            tag.name == "text" or (tag.has("FOREIGN") and tag.has("BLOCK"))
        ):
            self.end_unless(drawn=True)
            context = context - {"skipped"} | {"aside"}
        if tag.has("LINK") and href and "skipped" not in context:
            number = re.compile(rf"[{SPACE}]*[0-9]{{1,5}}[{SPACE}]*<").match(self.text, tag.end)
            says_next = "next" in re.findall("[0-9a-z]+", lower(" ".join(tag.values("class"))))
            paging = tag.next() or (outside and (number or says_next))
            self.links.append((href[0], context | {"paging"} if paging else context))
        if self.leaves_no_mark(tag.name, context):
            return tag.end
        if len(self.stack) == 512:
            self.without_room += 1
        else:
            if "main" in context - self.context:
                self.mains += tag.has("BLOCK")
                context |= {f"main {self.mains}"}
            self.stack.append(Element(tag.name, context))
        return tag.end

    def raw_content(self, tag: StartTag) -> tuple[bytes, int]:
        """Return the content of an element that is no markup, and where reading goes on."""
        try:
            close = find(f"</(?i:{tag.name})(?=[{SPACE}/>]|\\Z)", self.text, tag.end)
        except Cut:
            return raw(self.text[tag.end :]), len(self.text)
        try:
            after = find(">", self.text, close.end()).end()
        except Cut:
            after = len(self.text)
        return raw(self.text[tag.end : close.start()]), after

    def raw_text(self, tag: StartTag, content: bytes) -> None:
        """Take what is seen of an element whose content is no markup."""
        page = tag.first("srcdoc")
        if tag.hidden() or (page is None and tag.name not in ("textarea", "xmp")):
            return
        self.text_block(content if page is None else page, self.context - {"form"})

    def field_text(self, tag: StartTag) -> None:
        """Take what is seen of a field that a visitor cannot change."""
        types = {lower(value) for value in tag.values("type")} - {""}
        value = tag.first("value")
        fixed = tag.values("readonly", "disabled") and not types - set(WORDS["text types"])
        if value is not None and fixed and not tag.hidden():
            self.text_block(value, self.context - {"form"} | {"aside"})

    def text_block(self, content: bytes, context: Context) -> None:
        """Take text that is no markup, as a block of its own."""
        text, at = content.decode("utf-8", "surrogateescape"), 0
        self.pieces.append(END_BLOCK)
        while at < len(text):
            one, end = reference(text, at, False) if text[at] == "&" else ("", at)
            if not one:
                one, end = text[at], at + 1
            self.pieces += [Piece(each, context) for each in one]
            at = end
        self.pieces.append(END_BLOCK)

    def parts_of(self, tag: StartTag) -> None:
        """Take what a tag says beside what steers the scan."""
        skipped, dropped = "skipped" in self.context, "dropped" in self.context
        source, content = tag.first("src"), tag.first("content")
        if tag.has("SOURCE") and source and not dropped and source[:5].lower() != b"data:":
            self.sources.append(token_hash(source, self.key))
        void = tag.has("VOID") and not tag.has("SOURCE")
        read = not skipped or tag.has("BLOCK") or tag.has("LINK")
        if read and not dropped and not void and not tag.has("SCRIPT") and not tag.has("META"):
            for name, value in tag.written:
                behind = name[5:] if lower(name[:5]) == "data-" else ""
                if behind and behind not in VOLATILE_DATA:
                    self.data_attributes.append(token_hash(raw(value or name), self.key))
            for (name, said), (_, value) in zip(tag.attributes, tag.written, strict=True):
                if name == "alt":
                    self.pass_by(raw(said))
                if name in SAID and value and not (tag.has("VOID") and len(name) in (4, 5)):
                    self.said.append(token_hash(raw(value), self.key))
        if skipped:
            return
        named = "og:url" in map(lower, tag.values("property"))
        if tag.has("META") and content and not named:
            self.meta.append(token_hash(content, self.key))
        if tag.has("META") and named and content is not None and not self.open_graph:
            target = target_of(content, self.directory)
            if target is not None:
                path = path_of(content)
                assert path is not None
                self.open_graph = upper_half(token_hash(target, self.key)), path
        if not dropped and not tag.has("RAW") and not (void and not in_any(tag.name, "META REL")):
            self.microdata(tag, content)

    def microdata(self, tag: StartTag, content: bytes | None) -> None:
        properties = tag.properties()
        if tag.values("itemscope"):
            if properties is None or "mainentity" in properties:
                self.marked.append(Things(self.key))
            return
        if "property" in self.context or (tag.has("VOID") and content is None):
            return
        if content is None:
            end = self.text.find("<", tag.end)
            value = text_of(raw(self.text[tag.end : end if end >= 0 else len(self.text)]), False)
        else:
            value = text_of(content, True)
        for name in properties or ():
            if not self.marked:
                self.marked.append(Things(self.key))
            self.marked[-1].add(name, value)

    def thing(self) -> int:
        """Return the number of the thing that the page is about."""
        linked = [thing for thing in self.linked if thing.numbered or not thing.other]
        for numbered in (True, False):
            for things in (linked, self.marked):
                for thing in things:
                    if thing.numbered if numbered else thing.rank(0) == 1 and not thing.numbered:
                        return thing.thing()
        first = next((thing.id for thing in self.linked if thing.id and not thing.other), None)
        if first is None:
            return 0
        path = self.canonical_path
        if first[1] and (path is None or token_hash(path, self.key) == first[0]):
            return 0
        return 2**30 + (first[0] >> 34)

    def leaves_no_mark(self, name: str, context: Context) -> bool:
        """Whether an element is not put on the stack."""
        if context != self.context or self.without_room or in_any(name, EVERY):
            return False
        return all(in_any(element.name, EVERY) for element in self.stack)

    def unveiled(self, tag: StartTag) -> Context:
        """Return what an element takes of the current context."""
        if tag.has("FOREIGN") and tag.has("BLOCK"):
            return self.outer(tag) - {"foreign"}
        return self.outer(tag)

    def outer(self, tag: StartTag) -> Context:
        if "veiled" not in self.context or not (tag.has("BLOCK") or tag.has("SKIP")):
            return self.context
        if tag.has("BLOCK"):
            return self.context - {"veiled", "skipped"} | {"hidden"}
        return self.context - {"veiled"}

    def marks(self, tag: StartTag, *, named: bool) -> set[str]:
        """Return the marks that an element gets; named: its class and id count."""
        groups = {"skipped": "SKIP", "dropped": "DROP"}
        groups |= {mark: mark.upper() for mark in "main header heading link form aside".split()}
        groups["top"] = "TOP"
        marks = {mark for mark, group in groups.items() if tag.has(group)}
        if tag.values("open"):
            marks.discard("dropped")
        if tag.values("shadowrootmode") and not tag.has("BLOCK") and not tag.has("FOREIGN"):
            marks.discard("skipped")
        if tag.has("FOREIGN") and not tag.has("BLOCK"):
            marks.add("foreign")
        if tag.has("FOREIGN") and tag.has("SKIP") and "skipped" not in self.context:
            marks |= set() if tag.hidden() else {"drawn"}
        if tag.has("VEIL"):
            marks |= {"unscripted"} if "skipped" in self.context else {"unscripted", "veiled"}
        if "skipped" in self.context and not (tag.has("BLOCK") or tag.has("LINK")):
            return marks
        properties = tag.properties()
        if tag.values("itemscope") and properties is not None:
            marks |= set() if {"offers", "mainentity"} & set(properties) else {"property"}
        if not tag.has("ROOT"):
            if tag.hidden() and tag.has("BLOCK"):
                marks.add("hidden")
            elif tag.hidden() and "skipped" not in self.context | marks:
                marks |= {"skipped", "veiled"}
            if tag.says("dropped roles", "role"):
                marks.add("dropped")
            if tag.says("aside roles", "role"):
                marks.add("aside")
            if named and tag.called("beside words"):
                marks.add("beside")
            if named and tag.called("comment words"):
                marks.add("inner comments" if "comments" in self.context else "comments")
            if tag.says("main roles", "role"):
                marks.add("main")
        return marks

    def end(self, name: str) -> None:
        self.ends(name)
        if in_any(name, "ROOT VOID"):
            return
        if self.without_room:
            self.without_room -= 1
            return
        self.close(lambda other: other == name, barrier(name))


# ------------------------------------------------------------------------------------ fingerprints


class Block(NamedTuple):
    """A kept block: its tokens, and the weight of each."""

    weight: int
    tokens: list[str]


class Reading(NamedTuple):
    """What a page comes to."""

    value: int
    sketch: bytes
    title: int
    canonical: int
    features: int
    words: int
    words_read: int
    text_bytes: int
    data_bytes: int
    blocks: list[Block]
    thing: int
    parts: bytes
    unread: bool = False


Blocks = list[list[Token]]


def is_content(block: list[Token], void: AbstractSet[str] = frozenset()) -> bool:
    """Whether a block stands in content, where the void hints do not count."""
    return in_content(without(block[0].context, void))


def without(context: Context, void: AbstractSet[str]) -> Context:
    """Leave out the hints that do not count."""
    return context - void - ({"aside"} if "form" in context and "buttons" in void else set())


def in_content(context: Context) -> bool:
    """Whether a place is content."""
    if context & {"dropped", "form", "aside", "beside", "comments", "inner comments"}:
        return False
    return "main" in context or "header" not in context


def is_text(block: list[Token]) -> bool:
    return 2 * sum("link" in token.context for token in block) <= len(block)


def count(blocks: Iterable[list[Token]]) -> int:
    return sum(map(len, blocks))


def all_shown(blocks: Blocks) -> bool:
    """Whether what is hidden counts (specification, "Hidden content")."""
    content = [block for block in blocks if is_content(block)]
    seen = [block for block in content if "hidden" not in block[0].context]
    text = count(block for block in seen if is_text(block))
    hidden = count(filter(is_text, content)) - text
    unscripted = count(
        b for b in content if is_text(b) and {"hidden", "unscripted"} <= b[0].context
    )
    hidden -= unscripted if unscripted < 80 else 0
    return hidden > 2 * text and hidden > count(seen) - text


def visible(blocks: Blocks) -> Blocks:
    """Return what counts as visible."""
    if all_shown(blocks):
        return blocks
    return [block for block in blocks if "hidden" not in block[0].context]


def hints_without_meaning(blocks: Blocks) -> set[str]:
    """Return the hints that do not count (specification, "Wrappers")."""
    void: set[str] = set()
    both = {"comments", "inner comments"}
    ways = [{"form"}, {"comments"}, both, {"form", "comments"}, {"form"} | both]
    most = {"aside", "form"} | both
    for hints in [*ways, {"form", "buttons"}, {"aside"}, most, {"beside"}, most | {"beside"}]:
        now = count(block for block in blocks if is_text(block) and is_content(block, void))
        more = count(
            block for block in blocks if is_text(block) and is_content(block, void | hints)
        )
        box = bool(hints & {"aside", "beside"})
        if more - now > (2 + box) * now and (now == 0 or more >= 160 or not box):
            void |= hints
    return void


def without_labels(blocks: Blocks, kept: set[int]) -> set[int]:
    """Return those kept, by their numbers, less what is a label between lists of links."""
    return {
        i
        for i in kept
        if len(blocks[i]) > 16
        or "heading" in blocks[i][0].context
        or i - 1 in kept
        or i + 1 in kept
    }


def without_notice(blocks: Blocks, kept: set[int]) -> set[int]:
    """Return those kept less what stands from the last copyright sign on."""
    signs = [i for i in kept if "notice" in blocks[i][0].context]
    if not signs:
        return kept
    behind = {i for i in kept if i >= max(signs)}
    tokens = count(blocks[i] for i in behind)
    headed = any("heading" in blocks[i][0].context for i in behind)
    text_behind = any(len(blocks[i]) >= 36 and "notice" not in blocks[i][0].context for i in behind)
    if tokens > 100 or text_behind or (headed and 2 * tokens > count(blocks[i] for i in kept)):
        return kept
    return kept - behind


def main_alone(blocks: Blocks, texts: Iterable[int]) -> bool:
    """Whether what stands outside of main is left out."""
    inside = [blocks[i] for i in sorted(texts) if "main" in blocks[i][0].context]
    each: dict[str, int] = {}
    for block in inside:
        number = next(mark for mark in block[0].context if mark.startswith("main "))
        each[number] = each.get(number, 0) + len(block)
    return max(each.values(), default=0) >= 80 and 100 * count(inside) >= 15 * count(blocks)


def shared_run(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Return the length of the longest run that two sequences share."""
    runs = {tuple(other[i:j]) for i in range(len(other)) for j in range(i + 1, len(other) + 1)}
    lengths = range(len(one), 0, -1)
    return next(
        (n for n in lengths if any(tuple(one[i : i + n]) in runs for i in range(len(one) - n + 1))),
        0,
    )


def above_headline(blocks: Blocks, texts: AbstractSet[int], title: Sequence[bytes]) -> int:
    """Return how many blocks stand above the page's own text (specification, "Headline")."""
    tops = [
        (i, [token.data for token in block])
        for i, block in enumerate(blocks)
        if "top" in block[0].context and "dropped" not in block[0].context and len(block) <= 32
    ]
    runs = [(shared_run(title[:64], tokens), i, tokens) for i, tokens in tops[:64]]
    fitting = [(run, -i) for run, i, tokens in runs if run and 2 * run >= len(tokens)]
    headline = -max(fitting, default=(0, 0))[1]
    above = count(blocks[i] for i in texts if i < headline)
    below = count(blocks[i] for i in texts if i >= headline)
    return 0 if above > 80 and above > below else headline


def own_content(blocks: Blocks, void: AbstractSet[str], title: Sequence[str]) -> set[int]:
    """Return the blocks that are content, by their numbers, from the headline on."""
    content = {i for i, block in enumerate(blocks) if is_content(block, void)}
    texts = {i for i in content if is_text(blocks[i])}
    first = above_headline(blocks, texts, [token.encode() for token in title])
    return {i for i in content if i >= first}


class Judged(NamedTuple):
    """The kept blocks with their weights, and how many tokens of them are own."""

    kept: list[tuple[int, list[Token]]]
    own: int


def judge(blocks: Blocks, title: Sequence[str]) -> Judged:
    """Return what is kept of a page's blocks, and what is not of its content."""
    void = hints_without_meaning(blocks)
    content = own_content(blocks, void, title)
    has_main = any("main" in blocks[i][0].context for i in content)
    texts = {i for i in content if is_text(blocks[i])}
    if main_alone(blocks, texts):
        content = {i for i in content if "main" in blocks[i][0].context}
    kept = without_labels(blocks, texts & content)
    tokens = count(blocks[i] for i in kept)
    entries = sum(min(len(blocks[i]), 30) for i in content - kept)
    main = {i for i in content if "main" in blocks[i][0].context}
    listed = tokens < 20
    if listed:
        kept = content
    elif 100 * tokens < 30 * (tokens + entries) and count(blocks[i] for i in main) >= 20:
        kept = main
    kept = without_notice(blocks, kept)
    judged: list[tuple[int, list[Token]]] = []
    said: set[tuple[bytes, ...]] = set()
    for i in sorted(kept):
        words = tuple(token.data for token in blocks[i])
        if len(words) >= 4 and words in said:
            continue
        weighed: int | None = i
        if "heading" in blocks[i][0].context:
            bodies = (j for j in range(i, len(blocks)) if "heading" not in blocks[j][0].context)
            weighed = next(bodies, None)
        length = len(blocks[weighed]) if weighed in kept else 0
        judged.append((min(max(length, 2), 30), blocks[i]))
        said.add(words)
    own = [block for _, block in judged if not has_main or "main" in block[0].context]
    if listed and count(block for _, block in judged) >= 80:
        own = []
    return Judged(judged, count(own))


def sketch_of(shingles: Iterable[int], beside: Iterable[int] = ()) -> bytes:
    """Return the sketch of shingle hashes (specification, "Sketch")."""
    least: dict[int, int] = {}
    sequence = 0
    text = list(shingles)
    for shingle in text:
        sequence = (sequence * C0 + shingle) & ALL
    for shingle in (*text, *beside):
        place, low = (shingle >> 32) * 255 >> 32, shingle & (2**32 - 1)
        if low != 2**32 - 1:
            least[place] = min(low, least.get(place, low))
    bits = 0
    for low in least.values():
        bits ^= 1 << low % 256
    whole = mix(sequence) & (2**32 - 1)
    return bytes([len(least)]) + bits.to_bytes(32, "little") + whole.to_bytes(4, "little")


def similarity(a: bytes, b: bytes) -> float:
    """Return the similarity that two sketches tell (specification, "Similarity")."""
    if a[33:] != b[33:]:
        return min(estimate(a, b), 0.9999)
    return 1.0 if min(a[0], b[0]) >= 27 else estimate(a, b)


def estimate(a: bytes, b: bytes) -> float:
    """Return the similarity of two sketches without the hash of all shingles."""
    if not a[0] or not b[0]:
        return float(a[0] == b[0])
    differ = (int.from_bytes(a[1:33], "little") ^ int.from_bytes(b[1:33], "little")).bit_count()
    alone = max(-128 * math.log(1 - min(2 * differ / 256, 0.97)), abs(a[0] - b[0]))
    common = (a[0] + b[0] - alone) / 2
    load = sum(math.log(255 / max(255 - sketch[0], 0.5)) for sketch in (a, b))
    found = 1.0
    for _ in range(5):
        found = min(1, common / (255 * (1 - math.exp(-load / (1 + found)))))
    return math.floor(found * 10000 + 0.5) / 10000 if common > 0 else 0.0


def title_tokens(content: bytes) -> list[str]:
    """Return the tokens of a title's first 1024 bytes."""
    text = Page(content[:1024].decode("utf-8", "surrogateescape").replace("<", " "))
    text.scan()
    return [token.data.decode() for block in blocks_of(text.pieces) for token in block]


def runs_of_three(hashes: Sequence[int]) -> list[int]:
    """Return the shingle hashes of a sequence of token hashes."""
    if 0 < len(hashes) < 3:
        hashes = [*hashes, 0, 0][:3]
    return [shingle_hash(*three) for three in zip(hashes, hashes[1:], hashes[2:], strict=False)]


def sum_of(hashes: Iterable[int]) -> int:
    """Return the digits of hashes as one number."""
    whole = 0
    for hash_ in hashes:
        whole = (whole * C0 + hash_) & ALL
    return whole


def fingerprint_blocks(
    blocks: Iterable[tuple[int, Sequence[str]]],
    key: Key = (0, 0),
    title: Sequence[str] = (),
    own: int | None = None,
) -> tuple[int, bytes, int]:
    """Return value, sketch and features of blocks (weight, tokens), and the title's tokens.

    own: how many of the tokens are own ones; None: all of them.
    """
    weights: dict[int, int] = {}
    sequence = []
    for weight, tokens in blocks:
        for token in tokens:
            hash_ = token_hash(token.encode(), key)
            weights[hash_] = min(480, weights.get(hash_, 0) + weight)
            sequence.append(hash_)
    value = simhash(list(weights), list(weights.values()))
    kept = len(sequence)
    own = kept if own is None else own
    of_title = []
    if title and kept > 0 and own < 80:
        beside = [token_hash(token.encode(), key) for token in title]
        times = 1 + min((kept - own) // 8, 16)
        of_title = runs_of_three(beside)
        of_title += [shingle_hash(sum_of(beside), i, 1) for i in range(times)]
    sketch = sketch_of(runs_of_three(sequence), of_title)
    return value, sketch, len(weights)


def hashes_of(page: Page, blocks: Iterable[list[Token]]) -> list[int]:
    """Return the hashes of all tokens of some blocks."""
    return [token_hash(token.data, page.key) for block in blocks for token in block]


def finish(page: Page) -> Reading:
    blocks_before = blocks_of(page.pieces)
    blocks = visible(blocks_before)
    judged = judge(blocks, page.title_tokens)
    kept = [
        Block(weight, [token.data.decode() for token in block]) for weight, block in judged.kept
    ]
    if not page.canonical and page.open_graph:
        page.canonical, page.canonical_path = page.open_graph
    kept_blocks = {id(block) for _, block in judged.kept}
    seen = {id(block) for block in blocks}
    left = [block for block in blocks if id(block) not in kept_blocks]
    hidden = [block for block in blocks_before if id(block) not in seen]
    frame = [block for block in left if "dropped" in block[0].context]
    beside = [*hidden, *(block for block in left if "dropped" not in block[0].context)]
    headings = (token for block in blocks if "top" in block[0].context for token in block)
    numbers = (token for _, block in judged.kept for token in block if has_digit(token.data))
    sequences = [
        *(page.data, page.sources, page.data_attributes),
        *([token_hash(token.data, page.key) for token in tokens] for tokens in (headings, numbers)),
        hashes_of(page, beside),
        page.said,
        [*page.meta, *hashes_of(page, frame)],
    ]
    value, sketch, features = fingerprint_blocks(kept, page.key, page.title_tokens, judged.own)
    return Reading(
        value,
        sketch,
        page.title,
        page.canonical,
        features,
        count(block for block in blocks if "dropped" not in block[0].context),
        sum(len(block.tokens) for block in kept),
        sum(len(token.data) for block in blocks for token in block),
        page.data_bytes,
        kept,
        page.thing(),
        b"".join(number_of_sequence(one).to_bytes(4, "little") for one in sequences),
    )


def block_list(html: bytes, key: Key = (0, 0)) -> list[int]:
    """Return the list of a page's blocks (specification, "List of blocks")."""
    page = Page(html.decode("utf-8", "surrogateescape"), key=key)
    page.scan()
    before = blocks_of(page.pieces)
    blocks = visible(before)
    seen = {id(block) for block in blocks}
    hidden = [block for block in before if id(block) not in seen]
    kept = {id(block) for _, block in judge(blocks, page.title_tokens).kept}
    listed: dict[int, int] = {}

    def add(read: bool, tokens: int, number: int) -> None:
        listed.setdefault(number, read << 63 | tokens << 32 | number)

    def described(block: list[Token]) -> tuple[bool, int, int]:
        long = len(block) >= 3 or sum(len(token.data) for token in block) >= 20
        return long, len(block), number_of_sequence(hashes_of(page, [block]))

    for block in blocks:
        long, *entry = described(block)
        if long and id(block) in kept:
            add(True, *entry)
    others = [described(block) for block in [*blocks, *hidden] if id(block) not in kept]
    others += [(tokens >= 3, tokens, number) for tokens, number in page.passed]
    run: list[list[int]] = []  # of what is short
    for long, *entry in [*others, (True, 0, 0)]:
        run += [] if long else [entry]
        if run and (long or entry[1] % 8 == 0):
            add(False, sum(tokens for tokens, _ in run), number_of_sequence(n for _, n in run))
            run = []
        if long and entry[0]:
            add(False, *entry)
    return list(listed.values())[:400]


def read_html(html: bytes, directory: bytes = b"", key: Key = (0, 0)) -> Reading:
    """Return what a page of UTF-8 bytes comes to; directory as the specification's Identity says."""
    page = Page(html.decode("utf-8", "surrogateescape"), directory=directory, key=key)
    page.scan()
    return whole(finish(page), page, html)


def whole(reading: Reading, page: Page, html: bytes) -> Reading:
    """Return the reading of a page that is not judged by its text as it counts (Pages of little text)."""
    unread = reading.words_read < 64 and 8 * reading.words_read < reading.words
    if not html or (not unread and reading.features >= 8):
        return reading
    hash_ = token_hash(html, page.key)
    if unread and reading.words >= 64:
        sequence = 0
        for token in (token for block in blocks_of(page.pieces) for token in block):
            sequence = (sequence * C0 + token_hash(token.data, page.key)) & ALL
        hash_ = mix((sequence * C0 + token_hash(reading.parts[:20], page.key)) & ALL)
    mark = (hash_ & (2**32 - 1)).to_bytes(4, "little")
    marked = reading._replace(sketch=reading.sketch[:33] + mark)
    return marked._replace(value=hash_, features=0, unread=True) if unread else marked


def read_links(html: bytes, url: bytes = b"", key: Key = (0, 0)) -> tuple[list[int], list[int]]:
    """Return the distinct hashes of where a page leads on its site, and those of its main content, each in their order."""
    page = Page(html.decode("utf-8", "surrogateescape"))
    page.scan()
    every = blocks_of(page.pieces)
    blocks = visible(every)
    void = hints_without_meaning(blocks)
    shown = {"hidden"} if all_shown(every) else set()
    content = own_content(blocks, void, page.title_tokens)
    texts = {i for i in content if is_text(blocks[i])}
    needed = {"main"} if main_alone(blocks, texts) else set()
    own = Address.of_page(url)
    found: list[list[int]] = [
        [],
        [],
        [],
    ]  # of the content off the site, and on it; from elsewhere on it
    for href, marks in page.links:
        context = without(marks, void) - shown
        main = "hidden" not in context and in_content(context) and needed <= context
        link = Address.of(raw(href))
        if link is None or ("hidden" in context and "paging" not in marks):
            continue
        same = not link.host or site(link.host) == site(own.host)
        if main or "paging" in marks:
            found[same].append(link_hash(link, own, key))
        elif same:
            found[2].append(link_hash(link, own, key))
    own.absolute = True
    seen = {link_hash(own, own, key)}
    for each in found:
        each[:] = [one for one in dict.fromkeys(each) if one not in seen]
        seen |= {*each}
    off, on, elsewhere = found
    return on + elsewhere, off + on


def site(host: bytes) -> bytes:
    """Return the last two labels of a host."""
    return b".".join(host.lower().split(b".")[-2:])


def read_text(text: str, key: Key = (0, 0)) -> Reading:
    """Return what plain text comes to."""
    return finish(Page("", [Piece(one) for one in text], key=key))


def stable() -> str:
    """Return the characters whose properties no Unicode version since 3.2 was to change."""
    old = unicodedata.ucd_3_2_0
    return "".join(c for c in map(chr, range(0x110000)) if old.category(c) not in ("Cn", "Cs"))
