"""The digest of the items of a page: what two pages' items are compared by, without the items.

    items of a callback -> ItemReader (one page) -> ItemsDigest -> bytes, kept with the page's document

Each field becomes one exact hash. Replaced first: white space between words, the time of the crawl, the page's own whole
address (also as HTML and as a parameter write it, and the one that the page declares), and, for the comparison with one
page, the host of the page in other addresses. Where the own address is a value, heading, title and numbers of the page
stand for it; for the comparison with one page its heading alone, where headings tell the pages of the callback apart. A
field of markup that holds the page stands for what was read of it. A part of the own address is a datum. With
DEDUP_ITEM_FIELDS the named fields alone count, as they are.

Invariants:
  - Two items that differ in a field are never equal, but for what is replaced, and for two hashes of 64 bits that agree.
  - What cannot be read, or is too much, has no digest (None): its page passes. BUDGET and VALUES bound the cost, and
    DIGEST_BYTES a digest: a document takes no more.
  - Reading an item never changes it: generators and other one-way values are not consumed.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from html import escape, unescape
from struct import iter_unpack, pack, unpack
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from scrapy import Item

from dedup.core.fingerprint import PageReading, main_text
from dedup.model.page import PART, TEXT_HASH
from dedup.scrapy.evidence.enough import MOST, Bounded
from dedup.scrapy.evidence.page_text import PageText, text_of, title_of

VERSION = 17
BUDGET = 4 << 20  # characters of all items of a page that are normalised
VALUES = 20_000  # values in all items of a page
DEPTH = 16  # of nested values
ITEMS = 40  # items of a page that are compared one by one; of more, only all together, by their sum
NAMES = 2000  # of fields that messages know
DIGEST_BYTES = 1024
FIELDS = 48  # fields of an item that are told apart, for messages

PAGE_CHARACTERS = 200  # of a field that can hold a page
MAIN_WORDS = 5  # of the main text, by which a text that has it is known
CLOCK_SECONDS = 60  # by which a time may differ from now to be that of the crawl

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
_MARKUP = re.compile(r"<[a-zA-Z!/]")
_HEAD_TAG = re.compile(r"<(?:link|meta)\b[^<>]*>", re.IGNORECASE)
_DECLARES = re.compile(r"\b(?:canonical|og:url)\b", re.IGNORECASE)
_URL, _NOW, _HOST, _PAGE = "\0url", "\0now", "\0host", "\0page"
_PAGE_PARTS = "jsdhnb"  # of a page that a field of markup holds, beside its words
_COLLECTIONS = (list, tuple, set, frozenset)
_NO_ITEMS = (str, list, tuple, int, float, bytes, bytearray, memoryview, date)
_NO_DATA = frozenset((_URL, _NOW, "", "\0None"))
_MASK = (1 << 64) - 1


class TooMuch(ValueError):
    """The items of a page are larger than what is read of them."""


class Unreadable(ValueError):
    """A value that cannot be read without changing it, or has no lasting form."""


class ItemsDigest(msgspec.Struct, frozen=True, array_like=True):
    """The items of a page.

    number    of distinct items
    has_data  whether one of them has more than the page's address, a time, and truth values
    hashes    two 64-bit hashes of each (ItemHashes.loose, by_heading), big-endian; of more than ITEMS their sum
    fields    of a single item, the hash of each field's name and that of its value: for messages
    beside    of a single item that holds the page in markup, the hash of its other fields
    page      of items that hold the page: what was read of it
    given     the hash of what the callback was given beside the response; 0: nothing
    """

    number: int
    has_data: bool = False
    hashes: bytes = b""
    fields: bytes = b""
    beside: int = 0
    page: PageText | None = None
    given: int = 0
    version: int = VERSION

    @property
    def items(self) -> frozenset[int]:
        """The hashes of the items."""
        return frozenset(unpack(f">{len(self.hashes) // 8}Q", self.hashes))


class FieldNames(Bounded[str, int]):
    """The hashes of fields by their names, 32 bits; and the first names by their hashes, for messages."""

    def __init__(self) -> None:
        """Know none."""
        super().__init__(NAMES, lambda name: _hash(name) & 0xFFFFFFFF)

    def of(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Return the names of fields, or a word for one that is not known."""
        known = {number: name[:100] for name, number in self.items()}
        return tuple(sorted({known.get(number, "a field") for number in numbers}))


def differing(mine: ItemsDigest, theirs: ItemsDigest) -> frozenset[int]:
    """Return the fields in which two single items differ."""
    one, other = (dict(iter_unpack(">IQ", each.fields)) for each in (mine, theirs))
    return frozenset(n for n in one.keys() | other.keys() if one.get(n) != other.get(n))


def encode(digest: ItemsDigest) -> bytes:
    """Return a digest as bytes, nothing for one that is too long; decode() reads them.

    Of a page that takes too much its names are left out, then its single blocks.
    """
    for page in (None,) if digest.page is None else digest.page.shorter():
        content = msgspec.msgpack.encode(msgspec.structs.replace(digest, page=page))
        if len(content) <= DIGEST_BYTES:
            return content
    return b""


def decode(content: bytes) -> ItemsDigest | None:
    """Return the digest that encode() wrote; None if it is of another version, or not a digest."""
    try:
        found = _decoder.decode(content)
        return found if found.version == VERSION and found.items is not None else None
    except Exception:  # noqa: BLE001 - whatever was kept there
        return None


_decoder = msgspec.msgpack.Decoder(ItemsDigest)


class ItemPage(NamedTuple):
    """What a page's items are read against.

    urls      its own addresses
    text      returns its decoded body, "" if it has none
    size      bytes of its body
    reading   how dedup read it
    callback  the name of its callback
    noted     meta["dedup"], which is no datum of the page
    """

    urls: tuple[str, ...]
    text: Callable[[], str]
    size: int
    reading: PageReading
    callback: str = ""
    noted: object = None


class ItemRules(NamedTuple):
    """Which fields count: names alone (DEDUP_ITEM_FIELDS), without some (DEDUP_ITEM_IGNORE)."""

    names: FieldNames
    only: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()


class ReadItem(NamedTuple):
    """What was read of one item.

    exact         its hash, with its callback's: by that the crawl knows it
    loose         its hash without the page's host, in ItemsDigest.hashes
    by_heading    the same, where the page's heading alone stands for its address
    beside        the hash of the fields that do not hold the page, if another one of markup does
    fields        all, without that host, each with a text that equal values share
    data          how those begin that have more than an address, a time or a truth value, and are no title
    holds_page    whether a field holds the page
    is_text       whether such a field is a text, not markup: it may stand anywhere in the page
    has_title     whether a field is the title
    holds_inside  whether the page's address stands inside of a text of it
    holds_own     whether it is a value
    """

    exact: bytes = b""
    loose: int = 0
    by_heading: int = 0
    beside: int = 0
    fields: Sequence[tuple[str, str]] = ()
    data: Mapping[str, str] = {}
    holds_page: bool = False
    is_text: bool = False
    has_title: bool = False
    holds_inside: bool = False
    holds_own: bool = False


class ItemReader:
    """Makes the digest of one page from its items, one by one."""

    def __init__(self, page: ItemPage, rules: ItemRules, *, finds_title: bool = True) -> None:
        """Begin without items. finds_title: else a title counts as a datum."""
        self._page, self._rules, self._finds_title = page, rules, finds_title
        self.items: list[ReadItem] = []
        self._failed = self._has_data = False
        self._budget, self._values = BUDGET, VALUES
        self._now = time.time()
        scheme, _, rest = page.urls[0].partition("://")
        host = rest.partition("/")[0]
        self._host, self._origin = host.partition(":")[0], f"{scheme}://{host}/"
        self._inside = self._is_own = False

    def add(self, item: object) -> ReadItem | None:
        """Add an item; return what was read of it, or None if it cannot be. Never raises an Exception."""
        try:
            return self._add(item)
        except Exception:  # noqa: BLE001 - whatever the fields of an item do when they are read
            self._failed = True
            return None

    def _add(self, item: object) -> ReadItem:
        rules, page = self._rules, self._page
        self._inside = self._is_own = holds_page = is_text = has_title = False
        known: list[tuple[str, str]] = []
        data: dict[str, str] = {}
        for field, value in pairs_of(item):
            name = str(field)
            if name in rules.ignored or (rules.only and name not in rules.only):
                continue
            if isinstance(value, dict) and value and value == page.noted:
                continue
            holds, found = self._field(value)
            known.append((name, found))
            if holds:
                holds_page, is_text = True, is_text or not found.startswith(_PAGE)
            elif found not in _NO_DATA:
                self._has_data = self._has_data or not isinstance(value, bool)
                if self._finds_title and isinstance(value, str) and self._is_title(found):
                    has_title = True
                else:
                    data[name] = found[:PAGE_CHARACTERS]
        self._has_data = self._has_data or holds_page
        known.sort()
        fields = [(name, found.replace(self._origin, _HOST)) for name, found in known]
        kind, own = type(item).__qualname__, b""
        by_heading = loose = _hash(kind, fields)
        if self._is_own:
            read = page.reading.fingerprint
            heading, numbers = read.parts[PART["h"]], read.parts[PART["n"]]
            own = b"%b %d %b" % (heading, read.title, numbers)
            loose, by_heading = _hash(kind, fields, own), _hash(kind, fields, heading)
        whole = loose if fields == known else _hash(kind, known, own)
        exact = _hash(page.callback, whole).to_bytes(8, "big")
        beside = 0
        if holds_page:
            others = [each for each in fields if not each[1].startswith(_PAGE)]
            beside = _hash(kind, others) if len(others) < len(fields) else 0
        kinds = (holds_page, is_text, has_title, self._inside, self._is_own)
        self.items.append(ReadItem(exact, loose, by_heading, beside, fields, data, *kinds))
        return self.items[-1]

    def _field(self, value: object) -> tuple[bool, str]:
        """Return whether a value holds the page, and a text that equal values share."""
        if self._rules.only:
            return False, self._value(value, 0)
        is_long = isinstance(value, str | bytes) and len(value) >= PAGE_CHARACTERS
        if is_long and self._is_page(value):
            return True, self._page_parts()
        found = self._value(value, 0)
        if is_long and isinstance(value, str) and len(found) >= PAGE_CHARACTERS:
            words, mine = self._page.reading.words, found.count(" ") + 1
            is_most = mine >= MOST * words > 0
            return is_most and (mine <= words or self._has_main_text(found)), found
        return False, found

    def _has_main_text(self, text: str) -> bool:
        """Whether a text that has words of menus or footers, too, has the longest words of the longest main block.

        Else it stands there alone: what differs of it was not read.
        """
        block = max(main_text(self._page.text()).split("\n"), key=len)
        text = text.lower()
        return all(word in text for word in sorted(set(block.split()), key=len)[-MAIN_WORDS:])

    def _is_page(self, value: Any) -> bool:
        """Whether a long value is the markup of the page, or most of it."""
        if isinstance(value, bytes):
            return len(value) >= MOST * self._page.size
        is_markup = _MARKUP.search(value[:2000]) is not None
        return is_markup and len(value) >= MOST * len(self._page.text()) > 0

    def _page_parts(self) -> str:
        """Return what was read of the page, without its template."""
        page = self._page.reading.fingerprint
        parts = "".join(page.parts[PART[letter]].hex() for letter in _PAGE_PARTS)
        return f"{_PAGE} {page.sketch[TEXT_HASH:].hex()} {parts}"

    @cached_property
    def _title(self) -> str:
        return title_of(self._page.text())

    def _is_title(self, text: str) -> bool:
        """Whether a text is what the title of the page begins with, or at least half of it."""
        is_most = len(text) >= MOST * len(self._title)
        return bool(text) and (self._title.startswith(text) or (is_most and text in self._title))

    def _value(self, value: object, depth: int) -> str:
        """Return a text that is the same for equal values; of one that is no text it begins with a zero character.

        Raises Unreadable, TooMuch.
        """
        self._values -= 1
        if isinstance(value, str | bytes | bytearray):
            self._budget -= len(value)
        if depth > DEPTH or self._values < 0 or self._budget < 0:
            raise TooMuch
        if isinstance(value, str):
            if self._rules.only:
                return value
            text = " ".join(value.split())
            if 19 <= len(text) <= 35 and _TIME.match(text) and self._is_time_of_crawl(text):
                return _NOW
            return self._addressed(text) if self._host and self._host in text else text
        if isinstance(value, Enum):
            return self._value(value.value, depth + 1)
        if isinstance(value, _COLLECTIONS):
            found = [self._value(each, depth + 1) for each in value]
            return f"\0{found if isinstance(value, list | tuple) else sorted(found)}"
        if is_item(value):
            pairs = sorted((str(k), self._value(v, depth + 1)) for k, v in pairs_of(value))
            return f"\0item{pairs}"
        return self._plain(value)

    def _plain(self, value: object) -> str:
        if value is None or isinstance(value, bool):
            return f"\0{value}"
        if isinstance(value, int | float):
            clock = value > 1e9 and (self._is_now(value) or self._is_now(value / 1000))
            return _NOW if clock else f"\0{value!r}"
        if isinstance(value, bytes | bytearray):
            return f"\0b{_hash(bytes(value))}"
        if isinstance(value, date):  # or a datetime
            now = isinstance(value, datetime) and self._is_now(value.timestamp())
            return _NOW if now else f"\0{value.isoformat()}"
        if type(value).__str__ is not object.__str__:
            text = str(value)
            self._budget -= len(text)
            if f"0x{id(value):x}" not in text and not hasattr(value, "__next__"):
                return f"\0{text}"
        raise Unreadable(type(value).__name__)

    def _is_time_of_crawl(self, text: str) -> bool:
        try:
            return self._is_now(datetime.fromisoformat(text).timestamp())
        except ValueError:
            return False

    def _is_now(self, seconds: float) -> bool:
        return not self._rules.only and abs(seconds - self._now) < CLOCK_SECONDS

    @cached_property
    def _own(self) -> list[str]:
        """How the page's addresses may be written, the longest first; without a site's root."""
        own = {u for u in self._page.urls if any(u.split("/", 3)[3:])}
        ways = {way for u in own for way in (u, escape(u), quote(u, safe=""))}
        return sorted(ways, key=len, reverse=True)

    def _addressed(self, text: str) -> str:
        """Return a text in which the page's host stands, without the page's address."""
        if text in self._page.urls or text in self._own or text in self._declared:
            self._is_own = True
            return _URL
        for url in self._own:
            if url in text:
                self._inside = True
                text = text.replace(url, _URL)
        return text

    @cached_property
    def _declared(self) -> set[str]:
        """The addresses that the page says it has, without a site's root."""
        # two expressions, since one would take quadratic time over a tag without an end
        tags = " ".join(filter(_DECLARES.search, _HEAD_TAG.findall(self._page.text())))
        urls = (unescape(each).strip() for each in re.findall("[\"'](http[^\"']*)", tags))
        return {url for url in urls if any(url.split("/", 3)[3:])}

    def _is_address(self, value: object) -> bool:
        """Whether a value is the page's own address, its path, or the last parts of that."""
        if not isinstance(value, str) or not (text := value.strip("/")):
            return False
        wholes = {w.rstrip("/") for url in self._page.urls for w in (url, url.partition("?")[0])}
        return any(whole == text or whole.endswith(f"/{text}") for whole in wholes)

    def digest(self, given: int = 0) -> ItemsDigest | None:
        """Return the digest of the items until now; None if one of them could not be read. given: ItemsDigest.given."""
        if self._failed:
            return None
        items = {item.loose: item for item in self.items}
        found = sorted({each for item in self.items for each in (item.loose, item.by_heading)})
        if len(items) > ITEMS:
            found = [sum(found) & _MASK]
        fields, beside, held = b"", 0, None
        if len(items) == 1:
            names, item = self._rules.names, self.items[0]
            pairs = sorted((names[name], _hash(value)) for name, value in item.fields[:FIELDS])
            fields, beside = b"".join(pack(">IQ", *each) for each in pairs), item.beside
        if any(each.holds_page for each in self.items):
            is_named = any(each.has_title or each.data for each in self.items)
            held = text_of(self._page.reading, "" if is_named else self._page.text())
        hashes = pack(f">{len(found)}Q", *found)
        return ItemsDigest(len(items), self._has_data, hashes, fields, beside, held, given)

    def given(self, values: Mapping[str, object]) -> int:
        """Return a hash of what a callback is given beside the response, but for the page's own address.

        Never raises; what cannot be read equals nothing.
        """
        try:
            found = [
                (n, _URL if self._is_address(v) else self._value(v, 0))
                for n, v in values.items()
                if n not in self._rules.ignored
            ]
        except Exception:  # noqa: BLE001 - whatever the objects do when they are read
            return _hash(id(values), time.time())
        return _hash(sorted(found)) if found else 0


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
