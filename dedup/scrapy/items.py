"""The digest of the items of a page: what two pages' items are compared by, without the items.

    items of a callback -> Digester (one page) -> bytes, kept with the page's document -> compare()

Each item is reduced to a hash for every field. Values are normalised first: any item class by itemadapter,
white space, the page's own whole address (`<url>`) and the time of the crawl (`<now>`, `<today>`). A part of the
own address is a datum: /print/5 and /a/5 with the id "5" are equal, ?no=7 and ?no=8 with that number are not. Where
a callback yields items of several classes, the class is a datum, too.

Two hashes are made where a field may differ in its form alone: of its content, and of its form. If a control visit
shows that only the form changes (control.py), the content still counts.

    a list                      its values in any order | their order
    a text of LONG_WORDS, more  its numbers in their order, and word triples (ALIKE) | its words
    markup that is the page     the first headings, and the numbers of the main text, each with the word before it
                                | the words of the main text

A text that holds half of the page's words is equal in its content, too, where the page is by its headings and numbers.

Invariants:
  - What cannot be read, or is too much, has no digest (None): it is no evidence, and its page is kept.
  - The cost of a page is bounded by BUDGET characters and VALUES values.
  - Reading an item never changes it: generators and other one-way values are not consumed.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from hashlib import new as new_hash
from numbers import Number
from pathlib import PurePath
from struct import iter_unpack, pack, unpack
from typing import Any, NamedTuple

import msgspec
from scrapy import Item, Request
from scrapy.utils.request import fingerprint

from dedup.core.fingerprint import (
    PageReading,
    number_runs,
    read_excerpt,
    similarities,
    token_hash,
)
from dedup.model.page import TEXT_HASH
from dedup.model.recipes import Recipe

VERSION = 5
BUDGET = 4 << 20  # characters of all items of a page that are normalised
VALUES = 20_000  # values in all items of a page
DEPTH = 16  # of nested values
ITEMS = 40  # items of a page that are compared one by one; of more, only all together, by their sum
FIELDS = 32  # fields of an item that are told apart; further ones count as one
TEXTS = 2  # long texts of an item that are compared by their words; further ones exactly
NUMBERS = 32  # numbers in a page's main text that are told apart; further ones count as one

ANY_WORDS = (1 << 32) - 1  # more than a text has
LONG_WORDS = 60  # words of a text from which on it is compared by its numbers and word triples
ALIKE = 0.9  # least share of word triples alike
PAGE_SHARE = 0.5  # of a page's characters or words, from which on a field holds the page itself
PAGE_CHARACTERS = 200  # of a field that can hold a page
CLOCK_SECONDS = 60  # by which a time may differ from now to be that of the crawl
_ZONE_SECONDS, _QUARTER, _OFF = 54_000, 900, 5  # another time zone: whole quarters of an hour

_SKETCH_BYTES = 37
_TEXT, _HOLDS_PAGE = b"\0", b"\1"  # before the sketch of a long text
_WORD = re.compile(r"[^\W_]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
# Algorithms by the number of their hexadecimal digits.
_HASHES = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 128: "sha512"}
_HEX = re.compile(r"[0-9a-fA-F]+")
_MARKUP = re.compile(r"<[a-zA-Z!/]")
_URL, _NOW, _TODAY, _PAGE, _NOISE = "\0url", "\0now", "\0today", "\0page", "\0noise"
_STRINGS, _SEQUENCES = (str, bytes), (list, tuple)
_COLLECTIONS = (list, tuple, set, frozenset)
_NO_ITEMS = (str, list, tuple, int, float, bytes, bytearray, memoryview, date)
_SILENT = frozenset((_URL, _NOW, _TODAY))  # values that say nothing of a page
_HEADINGS = slice(12, 16)  # of PageFingerprint.parts: the hash of the headings
_WORDS = slice(TEXT_HASH, TEXT_HASH + 4)  # of PageFingerprint.sketch: the hash of the words
_PLACE = 40_503  # by which the second number of a run differs from the first
_NO_FIELD = 0  # the name of all fields beyond FIELDS, and of the sum of all items beyond ITEMS
_CLASS = "the class of the item"
_FORM = "\0form"  # after the name of a field: of the hash of its form


class TooMuch(ValueError):
    """The items of a page are larger than what is read of them."""


class Unreadable(ValueError):
    """A value that cannot be read without changing it, or has no lasting form."""


class Digest(NamedTuple):
    """The items of a page.

    number    of distinct items
    silent    whether they say nothing but the page's address and the time; without items, whether the page's
              callback asked for nothing but known pages to which it has links
    items     a 32-bit hash of each item, if there are at most ITEMS
    fields    by the 16-bit hash of a field's name, the sum of its values' hashes over all items; by another
              hash of the name, that of their forms
    texts     of one item: the sketch of each long text, by the hash of the field's name, after a byte
              that says whether it holds the page
    headings  hash of the page's headings, if a field holds the page
    numbers   of such a page: for each number in its main text a 16-bit hash of the place, and below it one
              of the value
    """

    number: int
    silent: bool = False
    items: frozenset[int] = frozenset()
    fields: Mapping[int, int] = {}
    texts: Mapping[int, bytes] = {}
    headings: int | None = None
    numbers: frozenset[int] = frozenset()

    @property
    def is_nothing(self) -> bool:
        """Whether the page brought neither items nor requests that tell what it is for."""
        return not self.number and self.silent

    @property
    def holders(self) -> frozenset[int]:
        """The fields that hold the page."""
        raw = {name for name, found in self.fields.items() if found == _PAGE_HASH}
        return frozenset(
            raw | {name for name, text in self.texts.items() if text[:1] == _HOLDS_PAGE}
        )


class Comparison(NamedTuple):
    """Whether all items of a page are among those of another, and the fields that differ."""

    equal: bool
    fields: frozenset[int] = frozenset()
    places: frozenset[int] = frozenset()  # of numbers, in fields that hold the page


class Names:
    """The names of fields by their hashes, for messages; bounded."""

    def __init__(self, most: int = 2000) -> None:
        """Know none."""
        self._names: OrderedDict[int, str] = OrderedDict()
        self._hashes: dict[str, int] = {}
        self._most = most

    def hash_of(self, name: str, of: str = "") -> int:
        """Return the hash of a field's name, or of its form, 1 to 65535, and remember the name."""
        whole = name + of
        found = self._hashes.get(whole)
        if found is None:
            found = (_hash(whole) & 0xFFFF) or 1
            if len(self._hashes) < self._most:
                self._hashes[whole] = found
                self._names.setdefault(found, name[:100])
        return found

    def of(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Return the names of fields, or a word for one that is not known."""
        return tuple(sorted(set(map(self._of, numbers))))

    def _of(self, number: int) -> str:
        return self._names.get(number, "other fields" if number == _NO_FIELD else "a field")


# ---------------------------------------------------------------------- comparison and encoding


def compare(
    mine: Digest,
    theirs: Digest,
    ignored: frozenset[int] = frozenset(),
    places: frozenset[int] = frozenset(),
) -> Comparison:
    """Compare a page's items with another's, without ignored fields and without numbers at some places."""
    if not mine.number:
        return Comparison(True)
    names = (mine.fields.keys() | theirs.fields.keys()) - ignored
    differ = {name for name in names if mine.fields.get(name) != theirs.fields.get(name)}
    odd = {number >> 16 for number in mine.numbers ^ theirs.numbers} - places
    alike = mine.headings == theirs.headings and not odd  # the pages, as far as fields hold them
    if mine.number > 1 or theirs.number > 1:
        if mine.number > ITEMS:
            among = mine.number == theirs.number and not differ
        else:
            among = bool(mine.items) and mine.items <= theirs.items
        return Comparison(among and alike, frozenset(differ), frozenset(odd))
    for name in names:
        a, b = mine.texts.get(name), theirs.texts.get(name)
        if a is None and b is None:
            if not alike and mine.fields.get(name) == _PAGE_HASH == theirs.fields.get(name):
                differ.add(name)
        elif a is None or b is None or a[:1] != b[:1] or similarities(a[1:], [b[1:]])[0] < ALIKE:
            differ.add(name)
        # a text that holds the page: its own words and numbers are equal, or those of the page
        if alike and a is not None and b is not None and a[:1] == b[:1] == _HOLDS_PAGE:
            differ.discard(name)
    return Comparison(not differ, frozenset(differ), frozenset(odd))


def encode(digest: Digest) -> bytes:
    """Return a digest as bytes; decode() reads them."""
    fields = [each for field in sorted(digest.fields.items()) for each in field]
    return msgspec.msgpack.encode(
        (
            VERSION,
            digest.number,
            int(digest.silent),
            pack(f">{len(digest.items)}I", *sorted(digest.items)),
            pack(">" + "HI" * len(digest.fields), *fields),
            b"".join(k.to_bytes(2, "big") + v for k, v in sorted(digest.texts.items())),
            b"" if digest.headings is None else digest.headings.to_bytes(4, "big"),
            pack(f">{len(digest.numbers)}I", *sorted(digest.numbers)),
        )
    )


def decode(content: bytes) -> Digest | None:
    """Return the digest that encode() wrote; None if it is of another version, or not a digest."""
    if not content:
        return None
    try:
        version, count, silent, items, fields, texts, headings, numbers = _decoder.decode(content)
    except msgspec.MsgspecError:
        return None
    step = 3 + _SKETCH_BYTES
    if (
        version != VERSION
        or len(items) % 4
        or len(fields) % 6
        or len(texts) % step
        or len(numbers) % 4
    ):
        return None
    number = int.from_bytes
    return Digest(
        count,
        bool(silent),
        frozenset(unpack(f">{len(items) // 4}I", items)),
        dict(iter_unpack(">HI", fields)),
        {
            number(texts[i : i + 2], "big"): texts[i + 2 : i + step]
            for i in range(0, len(texts), step)
        },
        number(headings, "big") if headings else None,
        frozenset(unpack(f">{len(numbers) // 4}I", numbers)),
    )


_decoder = msgspec.msgpack.Decoder(tuple[int, int, int, bytes, bytes, bytes, bytes, bytes])


# ---------------------------------------------------------------------------------- one page


class Page(NamedTuple):
    """What a page's items are read against.

    urls    its own addresses
    text    returns its decoded body, "" if it has none
    size    bytes of its body
    reading returns how dedup read it, with numbers
    given   what the request brought along (meta, cb_kwargs), where random values may come from
    noted   meta["dedup"], which says nothing of the page
    recipe  by which the numbers were read
    """

    urls: tuple[str, ...]
    text: Callable[[], str]
    size: int
    reading: Callable[[], PageReading]
    given: Callable[[], str]
    noted: object
    recipe: Recipe | None = None


class Digester:
    """Makes the digest of one page from its items, one by one."""

    def __init__(
        self,
        page: Page,
        names: Names,
        ignored: frozenset[str] = frozenset(),
        volatile: frozenset[int] = frozenset(),
        callback: str = "",
        classes: dict[str, type] | None = None,
    ) -> None:
        """Begin without items.

        ignored   names of fields that are left out
        volatile  hashes of the names of fields that tell no items of one page apart
        classes   by callback, the class of its first item; items of another one bear the name of theirs
        """
        self.callback = callback
        self._classes = classes
        self._page = page
        self._names = names
        self._ignored = ignored
        self._volatile = volatile
        self._items: set[int] = set()
        self._sum = 0  # of the items
        self._sums: dict[int, int] = {}
        self._failed = False
        self._silent = True
        self._budget, self._values = BUDGET, VALUES
        self._now = time.time()
        self._urls = [
            url for url in {*page.urls} if any(url.split("/", 3)[3:])
        ]  # none is a site's root
        self._urls.sort(key=len, reverse=True)
        self._first: tuple[dict[int, int], dict[int, bytes]] | None = None
        self._only: object = None  # the item, while there is one
        self._holds_page = False
        self._in_order = True  # whether lists are read in their order
        self._has_order = False  # whether one had another order than that of its values
        self._today = _today_at(int(self._now) // 60)
        # Of the page's addresses and its text, by algorithm.
        self._own_hashes: dict[str, set[str]] = {}

    def add(self, item: object) -> int | None:
        """Add an item; return its hash, or None if it cannot be read. Never raises an Exception."""
        try:
            return self._add(item)
        except Exception:  # whatever its fields do when they are read
            self._failed = True
            return None

    def _add(self, item: object) -> int:
        fields: dict[int, int] = {}
        texts: dict[int, bytes] = {}
        pairs = _pairs(item)
        lengths = self._lengths(pairs)
        for field, value in pairs:
            name = str(field)
            if name in self._ignored or (
                isinstance(value, dict) and value and value == self._page.noted
            ):
                continue
            number = self._names.hash_of(name) if len(fields) < FIELDS else _NO_FIELD
            found, sketch, form = self._field(value, lengths, len(texts) < TEXTS)
            if found is None:
                continue
            if number == _NO_FIELD:
                found = fields.get(number, 0) + _hash(name, found, form) & 0xFFFFFFFF
            elif form is not None:
                fields[self._names.hash_of(name, _FORM)] = form
            fields[number] = found
            if sketch is not None:
                texts[number] = sketch
        if self._is_of_another_class(item):
            fields[self._names.hash_of(_CLASS)] = _hash(type(item).__qualname__)
        told = [pair for pair in fields.items() if pair[0] not in self._volatile]
        digest = _hash(*sorted(told))
        if digest not in self._items:
            self._items.add(digest)
            self._sum = (self._sum + digest) & 0xFFFFFFFF
            for number, found in told:
                self._sums[number] = (self._sums.get(number, 0) + found) & 0xFFFFFFFF
            self._first, self._only = (
                ((fields, texts), item) if len(self._items) == 1 else (None, None)
            )
        return digest

    def _lengths(self, pairs: list[tuple[Any, Any]]) -> set[int]:
        """Return the numbers that an item may hold as the length of the page or of another field."""
        if not any(isinstance(value, int) for _, value in pairs):
            return set()
        own = self._page.urls  # of other lengths than its copies'
        lengths = {len(v) for _, v in pairs if isinstance(v, str) and v not in own}
        return lengths | {self._page.size, len(self._page.text())} if lengths else lengths

    def _is_of_another_class(self, item: object) -> bool:
        """Whether an item is of another class than the first one of its callback."""
        kind = type(item)
        return (
            self._classes is not None and self._classes.setdefault(self.callback, kind) is not kind
        )

    def unfounded(self, name: str) -> int | None:
        """Return a hash of a field's value if no word of it occurs in the page, its URLs or its request.

        None if one does, or if there are several items.
        """
        if self._only is None:
            return None
        value = dict(_pairs(self._only)).get(name)
        if value is None or isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        words = _WORD.findall(str(value).lower())
        given = " ".join((self._page.text(), *self._page.urls, self._page.given())).lower()
        if not words or any(word in given for word in words):
            return None
        return _hash(words)

    def _field(
        self, value: object, lengths: set[int], sketches: bool
    ) -> tuple[int | None, bytes | None, int | None]:
        """Return the hash of a field's value, the sketch of a long text, and the hash of the form."""
        if isinstance(value, _SEQUENCES) and (joined := _joined(value)):
            value = joined
        if isinstance(value, _STRINGS) and len(value) >= PAGE_CHARACTERS:
            return self._text_field(value, sketches)
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and value > 20
            and value in lengths
        ):
            return None, None, None  # the length of the page, or of another text
        self._has_order = False
        found = self._value(value, 0)
        if found is _NOISE:
            return None, None, None
        self._silent = self._silent and found in _SILENT
        if not self._has_order:
            return _hash(found), None, None
        self._in_order = False
        content = self._value(value, 0)
        self._in_order = True
        return _hash(content), None, _hash(found)

    def _text_field(
        self, value: str | bytes, sketches: bool
    ) -> tuple[int, bytes | None, int | None]:
        self._spend(len(value))
        page = self._page
        if isinstance(value, bytes):
            size = page.size
        else:
            size = len(page.text()) if _MARKUP.search(value[:2000]) else 0
        if len(value) >= PAGE_SHARE * size > 0:
            self._holds_page, self._silent = True, False
            return (
                _PAGE_HASH,
                None,
                int.from_bytes(page.reading().fingerprint.sketch[_WORDS], "big"),
            )
        self._silent = False
        if isinstance(value, bytes):
            return _hash(value), None, None
        text = self._own_urls(value.strip()).encode("utf-8", "surrogatepass")
        read = read_excerpt(text, LONG_WORDS if sketches else ANY_WORDS)
        if not read.sketch:
            return read.text, None, None
        holds = read.words >= PAGE_SHARE * page.reading().words > 0
        self._holds_page |= holds
        # its letters: a counter does not hide another town
        return read.numbers, (_HOLDS_PAGE if holds else _TEXT) + read.sketch, read.letters

    def _value(self, value: object, depth: int) -> str:
        """Return a text that is the same for equal values. Raises Unreadable, TooMuch."""
        self._values -= 1
        if depth > DEPTH or self._values < 0:
            raise TooMuch
        if isinstance(value, str):
            self._spend(len(value))
            return self._text(" ".join(value.split()))
        if isinstance(value, Enum):
            return self._value(value.value, depth + 1)
        if isinstance(value, _COLLECTIONS):
            found = [self._value(each, depth + 1) for each in value]
            in_order = sorted(found)
            if found != in_order and isinstance(value, _SEQUENCES):
                self._has_order = True
            return repr(found if self._in_order and isinstance(value, _SEQUENCES) else in_order)
        if is_item(value):
            return repr(sorted((str(k), self._value(v, depth + 1)) for k, v in _pairs(value)))
        return self._plain(value)

    def _plain(self, value: object) -> str:
        if value is None or isinstance(value, bool):
            return repr(value)
        if isinstance(value, int | float):
            clock = value > 1e9 and (self._is_now(value) or self._is_now(value / 1000))
            return _NOW if clock else repr(value)
        if isinstance(value, bytes | bytearray | memoryview):
            self._spend(len(value))
            return f"b{_hash(bytes(value))}"
        if isinstance(value, datetime):
            return _NOW if self._is_now(value.timestamp()) else value.isoformat()
        if isinstance(value, date):
            return self._text(value.isoformat())
        lasting = isinstance(value, Number | PurePath | timedelta)
        if lasting or type(value).__str__ is not object.__str__:
            text = str(value)
            self._spend(len(text))
            if f"0x{id(value):x}" not in text and not hasattr(value, "__next__"):
                return text
        raise Unreadable(type(value).__name__)

    def _text(self, text: str) -> str:
        if text in self._today:
            return _TODAY
        if 19 <= len(text) <= 35 and _TIME.match(text):
            try:
                if self._is_now(datetime.fromisoformat(text).timestamp()):
                    return _NOW
            except ValueError:
                pass
        if (
            len(text) in _HASHES
            and _HEX.fullmatch(text)
            and text.lower() in self._hashes(len(text))
        ):
            return _NOISE  # a hash of the page, or of its address; others may be made of data
        return self._own_urls(text)

    def _hashes(self, digits: int) -> set[str]:
        """Return the hashes of so many digits of the page's text, its addresses and its request; made once."""
        name = _HASHES.get(digits, "")
        if name and name not in self._own_hashes:
            urls, found = self._page.urls, set()
            for each in (self._page.text(), *urls):
                found.add(new_hash(name, each.encode("utf-8", "surrogatepass")).hexdigest())
            if name == "sha1":
                found |= {fingerprint(Request(url)).hex() for url in urls}
            self._own_hashes[name] = found
        return self._own_hashes.get(name, set())

    def _own_urls(self, text: str) -> str:
        if text in self._page.urls:  # the site's root is not looked for inside of texts
            return _URL
        for url in self._urls:
            if url in text:
                text = text.replace(url, _URL)
        return text

    def _is_now(self, seconds: float) -> bool:
        off = abs(seconds - self._now)
        if off < CLOCK_SECONDS:
            return True
        # a whole minute is of a timetable, and not of a clock: a crawl may begin at a quarter past
        whole = min(off % _QUARTER, _QUARTER - off % _QUARTER) < _OFF
        return off < _ZONE_SECONDS and whole and seconds % 60 != 0

    def _spend(self, characters: int) -> None:
        self._budget -= characters
        if self._budget < 0:
            raise TooMuch

    def digest(self) -> Digest | None:
        """Return the digest of the items until now; None if one of them could not be read."""
        if self._failed:
            return None
        if not self._items:
            return Digest(0)
        try:
            headings, numbers = self._main() if self._holds_page else (None, frozenset())
        except Exception:  # the page could not be read again
            return None
        items = frozenset(self._items) if len(self._items) <= ITEMS else frozenset()
        if self._first is not None:
            fields, texts = self._first
            return Digest(1, self._silent, items, fields, texts, headings, numbers)
        # where values were swapped between items, the fields alone are the same
        fields = self._sums if items else self._sums | {_NO_FIELD: self._sum}
        return Digest(len(self._items), self._silent, items, fields, {}, headings, numbers)

    def _main(self) -> tuple[int, frozenset[int]]:
        """Return what tells near-equal pages apart: the headings, and the numbers of the main text."""
        reading = self._page.reading()
        headings = int.from_bytes(reading.fingerprint.parts[_HEADINGS], "big")
        numbers: set[int] = set()
        today = _parts_of_today(self._page.recipe, int(self._now) // 60)
        for before, *run in number_runs(reading.numbers):
            if len(run) > 2 and run[0] in today and _is_today(run[:3], today):
                continue
            for place, each in enumerate(run):
                numbers.add((before + place * _PLACE & 0xFFFF) << 16 | each & 0xFFFF)
        if len(numbers) <= NUMBERS:
            return headings, frozenset(numbers)
        first = sorted(numbers)
        rest = _hash_of(pack(f">{len(first) - NUMBERS + 1}I", *first[NUMBERS - 1 :]))
        return headings, frozenset((*first[: NUMBERS - 1], rest & 0xFFFF))


def is_item(value: object) -> bool:
    """Whether a value is an item of any class, or a dict."""
    if value is None or isinstance(value, _NO_ITEMS):
        return False
    if isinstance(value, dict | Item):
        return True
    import itemadapter  # which may import pydantic: 40 ms

    return itemadapter.is_item(value)


def _pairs(item: object) -> list[tuple[Any, Any]]:
    """Return the fields of an item, with their values."""
    if type(item) is dict:
        return list(item.items())
    if isinstance(item, dict | Item):
        return [(name, item[name]) for name in item]  # as the exporters read it
    from itemadapter import ItemAdapter

    return list(ItemAdapter(item).items())


def _joined(values: list[object] | tuple[object, ...]) -> str:
    """Return the texts of a list as one, if they are a long text; else ""."""
    try:
        joined = " ".join(values)  # type: ignore[arg-type]
    except TypeError:
        return ""
    if len(joined) - len(values) + 1 < PAGE_CHARACTERS:
        return ""
    return joined if len(values) > LONG_WORDS or joined.count(" ") >= LONG_WORDS else ""


def _is_today(run: list[int], parts: Mapping[int, int]) -> bool:
    """Whether three numbers, by their hashes, are the date of a day: the page was made for this visit."""
    if not all(each in parts for each in run):
        return False
    found = sorted(parts[each] for each in run)
    return any(found == sorted((d.year, d.month, d.day)) for d in _days())


@lru_cache(maxsize=4)
def _parts_of_today(recipe: Recipe | None, minute: int) -> dict[int, int]:  # noqa: ARG001 - asked once a minute
    """Return years, months and days by their hashes, in both ways of writing."""
    parts = {part for day in _days() for part in (day.year, day.month, day.day)}
    return {token_hash(form, recipe): n for n in parts for form in (str(n), f"{n:02}")}


def _days() -> tuple[date, date]:
    now = datetime.now(UTC)
    return now.date(), now.astimezone().date()


@lru_cache(maxsize=1)
def _today_at(minute: int) -> frozenset[str]:  # noqa: ARG001 - asked once a minute
    return frozenset(day.isoformat() for day in _days())


def _hash(*parts: object) -> int:
    """Return a 32-bit hash of the repr of some values."""
    return _hash_of(repr(parts).encode("utf-8", "surrogatepass"))


def _hash_of(content: bytes) -> int:
    """Return a 32-bit hash of bytes."""
    return int.from_bytes(blake2b(content, digest_size=4).digest(), "big")


_PAGE_HASH = _hash(_PAGE)
