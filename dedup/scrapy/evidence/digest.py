"""The digest of the items of a page: what two pages' items are compared by, without the items.

    items of a callback -> Digester (one page) -> Digest -> bytes, kept with the page's document -> compare()

Each field of an item, and of what it nests, becomes one exact hash; a text becomes several, of its words and of its
numbers by their places. What does not count is replaced first: white space between words, the page's own whole address
(also as HTML and as a parameter write it, and in a longer text), the host of the page in other addresses, and the time
of the crawl. A part of the own address is a datum: /print/5 and /a/5 with the id "5" are equal, ?no=7 and ?no=8 with
that number are not. Where the own address is a value, the page's heading stands for it, and beside it title and numbers
(BESIDE_HEADING), which are volatile once two pages of the callback have different headings; the rows of a list are told
apart by the numbers of their page all the same.
A field of markup that holds the page stands for what was read of it: words, headings, numbers, inline data, pictures
and data attributes, but not the frame.

With DEDUP_ITEM_FIELDS the named fields alone count, as they are.

Invariants:
  - Two items that differ in a field are never equal, but for what is replaced, and for two hashes of 64 bits that agree.
  - What cannot be read, or is too much, has no digest (None): its page passes.
  - The cost of a page is bounded by BUDGET characters and VALUES values.
  - Reading an item never changes it: generators and other one-way values are not consumed.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from enum import Enum
from hashlib import blake2b
from html import escape, unescape
from numbers import Number
from pathlib import PurePath
from struct import iter_unpack, pack, unpack
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import msgspec
from scrapy import Item

from dedup.core.fingerprint import PageReading, number_runs
from dedup.model.page import PART, TEXT_HASH
from dedup.scrapy.evidence.enough import MOST

VERSION = 11
BUDGET = 4 << 20  # characters of all items of a page that are normalised
VALUES = 20_000  # values in all items of a page
DEPTH = 16  # of nested values
ITEMS = 40  # items of a page that are compared one by one; of more, only all together, by their sum
NUMBERS = 32  # numbers in a page's main text that are told apart; further ones count as one
NAMES = 2000  # of fields that messages know
FIELDS = 48  # fields of an item that are told apart; further ones count as one
MANY = 8  # texts of a list, from which on they are looked at together

PAGE_CHARACTERS = 200  # of a field that can hold a page
CLOCK_SECONDS = 60  # by which a time may differ from now to be that of the crawl

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
_NUMBER = re.compile(r"[0-9]{1,50}")
_NUMBER_IN_WORD = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9]{1,50}[A-Za-z]|[A-Za-z]{1,50}[0-9])[0-9A-Za-z]{0,50}"
)
_MARKUP = re.compile(r"<[a-zA-Z!/]")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_URL, _NOW, _HOST, _PAGE = "\0url", "\0now", "\0host", "\0page"
_PAGE_PARTS = "jsdhnb"  # of a page that a field of markup holds, beside its words
_SEQUENCES = (list, tuple)
_COLLECTIONS = (list, tuple, set, frozenset)
_NO_ITEMS = (str, list, tuple, int, float, bytes, bytearray, memoryview, date)
_SAYS_NOTHING = frozenset((_NOW, "", "\0None"))
_OTHERS = 0  # the name of all fields beyond FIELDS, and of the sum of all items beyond ITEMS
_MASK = (1 << 64) - 1
# fields of an item that has its page's address
BESIDE_HEADING = {_MASK >> 32: "title of the page", (_MASK >> 32) - 1: "numbers of the page"}
OF_LIST = (_MASK >> 32) - 2  # the same numbers, of a list: never volatile
_NONE: frozenset[int] = frozenset()
_PLACE = 40_503  # by which the second number of a run differs from the first


class TooMuch(ValueError):
    """The items of a page are larger than what is read of them."""


class Unreadable(ValueError):
    """A value that cannot be read without changing it, or has no lasting form."""


class Digest(NamedTuple):
    """The items of a page.

    number   of distinct items
    says     whether one of them says more than the page's address, a time, and truth values: its title does
    whole    whether the page's address stands inside of a longer text: known with its whole page only
    items    a 64-bit hash of each item, if there are at most ITEMS
    fields   by the 32-bit hash of a field's name, the 64-bit sum of its values' hashes over all items
    numbers  of a page that a field holds: for each number in its main text 16 bits of its place, and below 16 of its value
    holds    whether a field holds the page
    others   of such a page: PageReading.others
    holders  the fields of this page that hold it, or several values: never volatile; not kept
    """

    number: int
    says: bool = False
    whole: bool = False
    items: frozenset[int] = frozenset()
    fields: Mapping[int, int] = {}
    numbers: frozenset[int] = frozenset()
    holds: bool = False
    others: tuple[int, int, int] = (0, 0, 0)
    holders: frozenset[int] = frozenset()


class Names(dict[str, int]):
    """The hashes of fields by their names, 32 bits, never 0; and the first names by their hashes, for messages."""

    def __missing__(self, name: str) -> int:
        """Return the hash of a name that was not met before, and remember it, if it is among the first NAMES."""
        found = self.hash_of(name)
        if len(self) < NAMES:
            self[name] = found
        return found

    def hash_of(self, name: str) -> int:
        """Return the hash of a name."""
        return (_hash(name) & 0xFFFFFFFF) or 1

    def of(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Return the names of fields, or a word for one that is not known."""
        known = {number: name[:100] for name, number in reversed(self.items())}
        known |= {_OTHERS: "other fields", OF_LIST: "numbers of the page"} | BESIDE_HEADING
        return tuple(sorted({known.get(number, "a field") for number in numbers}))


# ---------------------------------------------------------------------- comparison and encoding


def differing(mine: Digest, theirs: Digest) -> frozenset[int]:
    """Return the fields that differ."""
    names = mine.fields.keys() | theirs.fields.keys()
    return frozenset(n for n in names if mine.fields.get(n) != theirs.fields.get(n))


def are_known(mine: Digest, theirs: Digest, volatile: frozenset[int]) -> bool:
    """Whether all items of a page are among those of another, but for volatile fields; not if these are all they have."""
    names = mine.fields.keys()
    if names & volatile and len(names - volatile) < 2:  # their class is one
        return False
    if mine.number == theirs.number == 1 or mine.number > ITEMS:
        return mine.number == theirs.number and not differing(mine, theirs) - volatile
    if OF_LIST in mine.fields and mine.fields[OF_LIST] != theirs.fields.get(OF_LIST):
        return False
    return bool(mine.items) and mine.items <= theirs.items


def encode(digest: Digest) -> bytes:
    """Return a digest as bytes; decode() reads them."""
    fields = [each for field in sorted(digest.fields.items()) for each in field]
    return msgspec.msgpack.encode(
        (
            VERSION,
            digest.number,
            digest.says,
            digest.whole,
            pack(f">{len(digest.items)}Q", *sorted(digest.items)),
            pack(">" + "IQ" * len(digest.fields), *fields),
            pack(f">{len(digest.numbers)}I", *sorted(digest.numbers)),
            digest.holds,
            digest.others,
        )
    )


def decode(content: bytes) -> Digest | None:
    """Return the digest that encode() wrote; None if it is of another version, or not a digest."""
    if not content:
        return None
    try:
        version, number, says, whole, items, fields, numbers, holds, others = _decoder.decode(
            content
        )
    except msgspec.MsgspecError:
        return None
    if version != VERSION or len(items) % 8 or len(fields) % 12 or len(numbers) % 4:
        return None
    return Digest(
        number,
        says,
        whole,
        frozenset(unpack(f">{len(items) // 8}Q", items)),
        dict(iter_unpack(">IQ", fields)),
        frozenset(unpack(f">{len(numbers) // 4}I", numbers)),
        holds,
        others,
    )


_decoder = msgspec.msgpack.Decoder(
    tuple[int, int, bool, bool, bytes, bytes, bytes, bool, tuple[int, int, int]]
)


def numbers_of(reading: PageReading) -> frozenset[int]:
    """Return the numbers in a page's main text, each with its place: Digest.numbers, at most NUMBERS."""
    found = {place << 16 | token & 0xFFFF for place, token in placed(reading.numbers)}
    if len(found) <= NUMBERS:
        return frozenset(found)
    first = sorted(found)
    return frozenset((*first[: NUMBERS - 1], _hash(first[NUMBERS - 1 :]) & 0xFFFF))


def held_by(digest: Digest, reading: PageReading) -> Digest:
    """Return a digest of items that hold a page."""
    return digest._replace(numbers=numbers_of(reading), holds=True, others=reading.others)


def placed(numbers: bytes) -> Iterator[tuple[int, int]]:
    """Yield each token with digits of a page, and before it 16 bits of its place: of the word beside it."""
    for beside, *run in number_runs(numbers):
        for place, each in enumerate(run):
            yield beside + place * _PLACE & 0xFFFF, each


def places(one: frozenset[int], other: frozenset[int]) -> frozenset[int]:
    """Return the places at which two pages have other numbers."""
    return frozenset(number >> 16 for number in one ^ other)


# ---------------------------------------------------------------------------------- one page


class Page(NamedTuple):
    """What a page's items are read against.

    urls     its own addresses
    text     returns its decoded body, "" if it has none
    size     bytes of its body
    reading  returns how dedup read it
    noted    meta["dedup"], which says nothing of the page
    """

    urls: tuple[str, ...]
    text: Callable[[], str]
    size: int
    reading: Callable[[], PageReading]
    noted: object = None


class Rules(NamedTuple):
    """Which fields count: names alone (DEDUP_ITEM_FIELDS), without some (DEDUP_ITEM_IGNORE), without volatile ones.

    tells  whether the fields that are not volatile tell items apart, now that one left this hash (what_is_left)
    shows  whether it is still open what the items show of their callback (keeping.py)
    """

    names: Names
    only: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    volatile: frozenset[int] = frozenset()
    tells: Callable[[int], bool] = lambda _: True
    shows: bool = True


class Shown(msgspec.Struct):
    """What an item shows of its callback.

    holds   whether a field holds the page
    text    whether such a field is a text, not markup: it may stand anywhere in the page
    says    whether a field says more than an address, a time or a truth value
    data    the fields that do, and are no title, by name, with their values
    """

    holds: bool = False
    text: bool = False
    says: bool = False
    data: dict[str, bytes] = {}


class Hashes(NamedTuple):
    """The hashes of one item.

    known   by which the crawl knows it: with the page's host
    apart   the same without what stands for the page's address beside its heading
    row     the same with the numbers of its page in any case: in a list
    digest  in Digest.items
    inside  whether the page's address stands inside of a text of it
    """

    known: bytes
    apart: bytes
    row: bytes
    digest: int
    inside: bool


class Digester:
    """Makes the digest of one page from its items, one by one."""

    def __init__(self, page: Page, rules: Rules) -> None:
        """Begin without items."""
        self._page, self._rules = page, rules
        self._volatiles = rules.volatile.difference(BESIDE_HEADING)  # fields of an item
        self.items: list[Hashes] = []
        self.shown: list[Shown] = []
        self.shows = rules.shows
        self._distinct: set[int] = set()
        self._said: list[str] = []  # by the fields of all items
        self._sum = 0
        self._fields: dict[int, int] = {}
        self._holders: set[int] = set()
        self._failed = self._says = False
        self._budget, self._values = BUDGET, VALUES
        self._now = time.time()
        scheme, _, rest = page.urls[0].partition("://")
        host = rest.partition("/")[0]
        # without its port, "" for what is no such URL; and how links to that host begin
        self._host, self._origin = host.partition(":")[0], f"{scheme}://{host}/"
        self._own: list[str] | None = (
            None  # how its addresses may be written, made once the host stands in a text
        )
        self._url = _URL  # with what stands for it, once that is known
        self._inside = self._is_own = self._holds = self._holds_page = False
        self.has_own = False  # whether BESIDE_HEADING counts in an item
        self._has_origin = False  # whether the host stands in the value that is read
        self._title: str | None = None

    def add(self, item: object) -> Hashes | None:
        """Add an item; return its hashes, or None if it cannot be read. Never raises an Exception."""
        try:
            return self._add(item)
        except Exception:  # noqa: BLE001 - whatever the fields of an item do when they are read
            self._failed = True
            return None

    def _add(self, item: object) -> Hashes:
        rules, names = self._rules, self._rules.names
        fields: dict[int, int] = {}
        wide: list[tuple[int, int]] = []
        is_wide = False  # whether fields say less
        shown = Shown(data={})
        self._inside = self._is_own = False
        for name, value, is_nested in self._leaves(item):
            number = names[name] if len(fields) < FIELDS else _OTHERS
            found, origin = self._field(value)
            is_text = isinstance(value, str) and not self._holds and " " in found
            if self._holds or isinstance(value, _COLLECTIONS):
                self._holders.add(number)
            if self._holds:
                shown.holds = self._holds_page = True
                shown.text = shown.text or not found.startswith(_PAGE)
            elif found not in _SAYS_NOTHING and found != self._url:
                shown.says = shown.says or not isinstance(value, bool)
                if rules.shows and not (isinstance(value, str) and self._is_title(found)):
                    shown.data[name] = found.encode("utf-8", "surrogatepass")[:PAGE_CHARACTERS]
            self._said.append(found)
            if is_text and number != _OTHERS and origin is None and _NUMBER.search(found):
                found, numbers = _parted(found)
                for place, held in numbers.items() if number not in rules.volatile else ():
                    key = names[f"{name} {place}"]
                    fields[key] = fields.get(key, 0) + _hash(held) & _MASK
                    wide.append((key, fields[key]))
            exact = _hash(name, found) if is_nested else _hash(found)
            wide.append((number, exact if number != _OTHERS else _hash(name, found)))
            if origin is not None:
                exact, is_wide = _hash(origin), True
            if number == _OTHERS or number in fields:  # two names with one hash
                exact, is_wide = fields.get(number, 0) + _hash(name, exact) & _MASK, True
            fields[number] = exact
        self._add_beside_heading(fields, wide)
        self._says = self._says or shown.says or shown.holds
        self.shown.append(shown)
        return self._count(type(item).__qualname__, fields, wide if is_wide else None)

    def _leaves(self, item: object) -> Iterator[tuple[str, Any, bool]]:
        """Yield the fields of an item that count: what is nested is told apart like the other fields, not as one.

        Name and value of each, and whether it is nested.
        """
        rules, noted = self._rules, self._page.noted
        for field, value in list(item.items()) if type(item) is dict else pairs_of(item):
            name = str(field)
            if name in rules.ignored or (rules.only and name not in rules.only):
                continue
            if isinstance(value, dict) and value and value == noted:
                continue
            for path, held in _nested(name, value):
                yield path, held, path is not name

    def _add_beside_heading(self, fields: dict[int, int], wide: list[tuple[int, int]]) -> None:
        """Add what stands for the page's address beside its heading, unless headings tell pages apart."""
        if not self._is_own:
            return
        self.has_own = True
        page = self._page.reading().fingerprint
        for name, part in zip(BESIDE_HEADING, (page.title, page.parts[PART["n"]]), strict=True):
            if name not in self._rules.volatile:
                fields[name] = exact = _hash(part)
                wide.append((name, exact))

    def _count(
        self, kind: str, fields: dict[int, int], wide: list[tuple[int, int]] | None
    ) -> Hashes:
        """Add an item by the hashes of its fields; wide: those by which the crawl knows it, if these are others."""
        sort = (self._rules.names[""], _hash(kind))
        volatile = self._volatile(fields, sort) if self._volatiles else _NONE
        known = digest = _hash(kind, _without(fields.items(), volatile))
        pairs = [*fields.items()] if wide is None else wide
        if wide is not None:
            known = _hash(kind, _without(pairs, volatile))
        apart = known
        if not fields.keys().isdisjoint(BESIDE_HEADING):
            rest = [pair for pair in pairs if pair[0] not in BESIDE_HEADING]
            apart = _hash(kind, _without(rest, volatile))
        if digest not in self._distinct:
            self._distinct.add(digest)
            self._sum = self._sum + digest & _MASK
            held = self._fields
            for number, exact in (*fields.items(), sort):
                if number in held or len(held) <= FIELDS + 2:
                    held[number] = held.get(number, 0) + exact & _MASK
                else:  # of other items that are too many: they count as one
                    held[_OTHERS] = held.get(_OTHERS, 0) + _hash(number, exact) & _MASK
        row = known
        if self._is_own:
            row = _hash(apart, fields.get(next(iter(BESIDE_HEADING)), 0), self._numbers())
        ways = [number.to_bytes(8, "big") for number in (known, apart, row)]
        hashes = Hashes(ways[0], ways[1], ways[2], digest, self._inside)
        self.items.append(hashes)
        return hashes

    def _volatile(self, fields: dict[int, int], sort: tuple[int, int]) -> frozenset[int]:
        """Return the volatile fields, if the others tell items apart."""
        rules = self._rules
        tells = rules.tells(what_is_left((*fields.items(), sort), rules.volatile))
        return self._volatiles if tells else _NONE

    def _field(self, value: object) -> tuple[str, str | None]:
        """Return a text that equal values share, and the same without the page's host, if that stands in it."""
        self._holds = self._has_origin = False
        if self._rules.only:
            return self._value(value, 0), None
        is_long = isinstance(value, str | bytes) and len(value) >= PAGE_CHARACTERS
        if is_long and self._is_page(cast("str | bytes", value)):
            self._holds = True
            return self._read(), None
        found = self._value(value, 0)
        if is_long and isinstance(value, str) and len(found) >= PAGE_CHARACTERS:
            words = self._page.reading().words
            self._holds = found.count(" ") + 1 >= MOST * words > 0
        if self._has_origin:
            return found, found.replace(self._origin, _HOST)
        return found, None

    def _is_page(self, value: str | bytes) -> bool:
        """Whether a long value is the markup of the page, or most of it."""
        if isinstance(value, bytes):
            return len(value) >= MOST * self._page.size
        return (
            _MARKUP.search(value[:2000]) is not None
            and len(value) >= MOST * len(self._page.text()) > 0
        )

    def _read(self) -> str:
        """Return what was read of the page, without its frame."""
        page = self._page.reading().fingerprint
        parts = "".join(page.parts[PART[letter]].hex() for letter in _PAGE_PARTS)
        return f"{_PAGE} {page.sketch[TEXT_HASH:].hex()} {parts}"

    def _is_title(self, text: str) -> bool:
        """Whether a text is what the title of the page begins with, or at least half of it: no number in it."""
        if not text:
            return False
        if self._title is None:
            found = _TITLE.search(self._page.text())
            self._title = "" if found is None else " ".join(unescape(found[1]).split())
        is_most = len(text) >= MOST * len(self._title)
        return self._title.startswith(text) or (is_most and text in self._title)

    def _value(self, value: object, depth: int) -> str:
        """Return a text that is the same for equal values; of one that is no text it begins with a zero character.

        Raises Unreadable, TooMuch.
        """
        self._values -= 1
        if depth > DEPTH or self._values < 0:
            raise TooMuch
        if isinstance(value, str):
            self._budget -= len(value)
            if self._budget < 0:
                raise TooMuch
            if self._rules.only:
                return value
            text = " ".join(value.split())
            if 19 <= len(text) <= 35 and _TIME.match(text) and self._says_now(text):
                return _NOW
            return self._addressed(text) if self._host and self._host in text else text
        if isinstance(value, Enum):
            return self._value(value.value, depth + 1)
        if isinstance(value, _COLLECTIONS):
            found = self._texts(value) or [self._value(each, depth + 1) for each in value]
            return f"\0{found if isinstance(value, _SEQUENCES) else sorted(found)}"
        if is_item(value):
            pairs = sorted((str(k), self._value(v, depth + 1)) for k, v in pairs_of(value))
            return f"\0item{pairs}"
        return self._plain(value)

    def _texts(self, value: Collection[object]) -> list[str] | None:
        """Return what _value() returns of each of many texts; None unless all are such, without a time or the own address.

        All at once: a page has hundreds of links. Raises TooMuch.
        """
        if len(value) < MANY or self._rules.only or set(map(type, value)) != {str}:
            return None
        texts = cast("Collection[str]", value)
        joined = "\n".join(texts)
        if self._host and self._host in joined:
            own = self._own_addresses()
            if any(url in joined for url in (*self._page.urls, *own)):
                return None
            self._has_origin = self._has_origin or self._origin in joined
        found = joined.split()
        if found != [*texts]:
            found = [" ".join(each.split()) for each in texts]
        if any(19 <= len(each) <= 35 and _TIME.match(each) for each in found):
            return None
        self._values -= len(texts)
        if self._values < 0:
            raise TooMuch
        self._spend(len(joined))
        return found

    def _plain(self, value: object) -> str:
        if value is None or isinstance(value, bool):
            return f"\0{value}"
        if isinstance(value, int | float):
            clock = value > 1e9 and (self._is_now(value) or self._is_now(value / 1000))
            return _NOW if clock else f"\0{value!r}"
        if isinstance(value, bytes | bytearray | memoryview):
            self._spend(len(value))
            return f"\0b{_hash(bytes(value))}"
        if isinstance(value, datetime):
            return _NOW if self._is_now(value.timestamp()) else f"\0{value.isoformat()}"
        if isinstance(value, date):
            return f"\0{value.isoformat()}"
        lasting = isinstance(value, Number | PurePath | timedelta)
        if lasting or type(value).__str__ is not object.__str__:
            text = str(value)
            self._spend(len(text))
            if f"0x{id(value):x}" not in text and not hasattr(value, "__next__"):
                return f"\0{text}"
        raise Unreadable(type(value).__name__)

    def _says_now(self, text: str) -> bool:
        try:
            return self._is_now(datetime.fromisoformat(text).timestamp())
        except ValueError:
            return False

    def _addressed(self, text: str) -> str:
        """Return a text in which the page's host stands, without the page's address."""
        own = self._own_addresses()
        if text in self._page.urls or text in own:
            self._is_own = True
            return self._url
        for url in own:
            if url in text:
                self._inside = True
                text = text.replace(url, _URL)
        if self._origin and self._origin in text:
            self._has_origin = True
        return text

    def _own_addresses(self) -> list[str]:
        """Return how the page's addresses may be written, the longest first; a site's root is looked for as a whole only."""
        if self._own is None:
            own: set[str] = set()
            for url in self._page.urls:
                if any(url.split("/", 3)[3:]):
                    own |= {url, escape(url), quote(url, safe="")}
            self._own = sorted(own, key=len, reverse=True)
            heading = self._page.reading().fingerprint.parts[PART["h"]]
            self._url = f"{_URL} {heading.hex()}"
        return self._own

    def _is_now(self, seconds: float) -> bool:
        return not self._rules.only and abs(seconds - self._now) < CLOCK_SECONDS

    def _spend(self, characters: int) -> None:
        self._budget -= characters
        if self._budget < 0:
            raise TooMuch

    def digest(self) -> Digest | None:
        """Return the digest of the items until now; None if one of them could not be read."""
        if self._failed:
            return None
        number, fields = len(self._distinct), self._fields
        items = frozenset(self._distinct if number <= ITEMS else ())
        if number > ITEMS:  # where values were swapped between items, the fields alone are the same
            fields = fields | {_OTHERS: self._sum}
        if number > 1 and self.has_own:
            fields = fields | {OF_LIST: _hash(self._numbers())}
        whole = any(item.inside for item in self.items)
        holders, holds = frozenset(self._holders), self._holds_page
        found = Digest(number, self._says, whole, items, fields, holders=holders)
        return held_by(found, self._page.reading()) if holds else found

    def _numbers(self) -> bytes:
        return self._page.reading().fingerprint.parts[PART["n"]]

    def numbers(self) -> list[str]:
        """Return the numbers in all items, each as often as it stands there, words with one among them."""
        text = " ".join(self._said)
        return [*_NUMBER.findall(text), *_NUMBER_IN_WORD.findall(text)]


def _parted(text: str) -> tuple[str, dict[str, list[str]]]:
    """Return the words of a text, and its numbers by their places: their order in a run of numbers, and the word behind it.

    So "Room 101, 3 people look" has a number that visits change, and one that they do not. A long text has one place.
    """
    if len(text) >= PAGE_CHARACTERS:
        return _NUMBER.sub("#", text), {"": _NUMBER.findall(text)}
    words: list[str] = []
    run: list[str] = []
    numbers: dict[str, list[str]] = {}
    for token in (*text.split(" "), ""):
        if _NUMBER.search(token):
            run.append(token)
            continue
        place = token or (words[-1] if words else "")
        for index, each in enumerate(run):
            numbers.setdefault(f"{index} {place}", []).append(each)
        words += ["#"] * len(run)
        words.append(token)
        run.clear()
    return " ".join(words), numbers


def _without(fields: Iterable[tuple[int, int]], volatile: frozenset[int]) -> list[tuple[int, int]]:
    """Return the fields that tell an item: those that are not volatile, or all if there is no other."""
    held = sorted(fields)
    return [pair for pair in held if pair[0] not in volatile] or held


def what_is_left(fields: Iterable[tuple[int, int]], volatile: frozenset[int]) -> int:
    """Return a hash of the fields of an item, its class among them, that are not volatile."""
    return _hash(sorted(pair for pair in fields if pair[0] not in volatile))


def _nested(name: str, value: object, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield what an item or a dict holds, each by the names on the way to it; another value by its own name."""
    found = pairs_of(value) if not isinstance(value, _COLLECTIONS) and is_item(value) else []
    if not found or depth >= DEPTH:
        yield name, value
    for each, held in found if depth < DEPTH else ():
        yield from _nested(f"{name}.{each}", held, depth + 1)


def is_item(value: object) -> bool:
    """Whether a value is an item of any class, or a dict."""
    if value is None or isinstance(value, _NO_ITEMS):
        return False
    if isinstance(value, dict | Item):
        return True
    import itemadapter  # which may import pydantic: 40 ms

    return itemadapter.is_item(value)


def pairs_of(item: object) -> list[tuple[Any, Any]]:
    """Return the fields of an item, with their values."""
    if isinstance(item, dict | Item):
        return [(name, item[name]) for name in item]  # as the exporters read it
    from itemadapter import ItemAdapter

    return list(ItemAdapter(item).items())


def _hash(*parts: object) -> int:
    """Return a 64-bit hash of the repr of some values."""
    content = repr(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")
