"""What the spider's own items have shown: which near-duplicates bring nothing new.

    a page and a near-duplicate of it -> their class -> proven? -> the page is dropped, but for checks
    a page that was parsed -> equal items, or others -> the evidence on its classes

A class is the callback, the site, which parts of the two pages differ, and how their URLs differ (without the
values). The near-duplicates of a class reach the callback until PROVE of them in a row brought only items of
their original. Then they are dropped; a share that shrinks to one in EVERY is checked, and so is each page that is
less like its original than any that proved the class: it may differ in more. A pair with other items takes
the proof away: REPROVE equal pairs in a row, twice as many after each further one, bring it back. A class of several
differences is also proven if each of them is proven alone (?+utm_source ?+utm_medium); one whose pages differ in fewer
parts, if a class with the same URLs is proven whose pages differ in these parts and others.

Invariants:
  - A class whose last pair had other items is not proven.
  - Memory is bounded: CLASSES classes, REMEMBERED dropped pages of each and ALL_REMEMBERED in all. What is
    forgotten is not proven.
No I/O, no clock, no Scrapy.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec

from dedup.model.page import PART_NAMES

PROVE = 3  # equal pairs in a row, none other before, from which on copies are dropped
REPROVE = 30  # the same after a pair with other items; doubled by each further one, up to
MOST_REPROVE = 2000
EMPTY = 0.25  # of an equal pair: the page brought no item, its original did
SOON, GROWTH, EVERY = 3, 3, 30  # checks: after 3 drops, then ever more seldom, at least one in 30

LESS_ALIKE = 1.25  # times as much as any page that proved the class differs from its original: such a page is checked

CLASSES = 10_000  # some 300 bytes each; the ones unused for longest go
REMEMBERED = (
    200  # dropped pages of a class that are sent again if it proves otherwise, the last ones
)
ALL_REMEMBERED = 5000
EXAMPLES = 3
SHAPE_CHARACTERS = 200
MOST_PARAMETERS = 100
MOST_WORDS = 2  # parts of a path that one URL has and the other has not, which a shape names

# What two near-duplicates may differ in: the letters of a class. First those of PageFingerprint.parts, in its order.
PARTS = dict(zip("jsdhnbaf", PART_NAMES, strict=True)) | {
    "w": "words",
    "t": "title",
    "0": "no items in the original",
    "r": "requests of its own in the original",
}

_NO_PART = frozenset("0?r")  # letters that say something else than where two pages differ

_DIGITS = re.compile(r"[\d.,_-]*\d[\d.,_-]*")

_SIGN = re.compile(r"\?[+~-]")
_PATH_PART = re.compile("^/[0-9]+:([#xw])>([#xw])$")

R = TypeVar("R")


class Class(NamedTuple):
    """A class of near-duplicates."""

    callback: str
    site: str
    parts: str
    shape: str

    def __str__(self) -> str:
        """Return the form for people: "parse_item, ?+utm_source (images and media)"."""
        differ = ", ".join(name for letter, name in PARTS.items() if letter in self.parts)
        return f"{self.callback}, {shape_text(self.shape)}{f' ({differ})' if differ else ''}"

    def single(self) -> "Iterator[Class]":
        """Yield the classes of each single difference of the URLs, if there are several."""
        found = self.shape.split(" ")
        if len(found) > 1:
            for each in found:
                yield self._replace(shape=each)


class Record(msgspec.Struct):
    """The evidence on one class.

    equal, others  pairs with the original's items, and with other ones
    run            equal pairs in a row
    least          similarity of the least alike of the equal pairs
    used, due      pages that it decided about since it was proven, and at which of them the next is parsed
    dropped, checked, refetched
                   pages of this crawl that were dropped, parsed as checks, and sent again
    examples       of the last pairs with other items: the page, its original, the fields that differ
    """

    equal: int = 0
    others: int = 0
    run: float = 0.0
    least: float = 1.0
    used: int = 0
    due: float = SOON
    dropped: int = 0
    checked: int = 0
    refetched: int = 0
    examples: list[tuple[str, str, tuple[str, ...]]] = []

    @property
    def is_proven(self) -> bool:
        """Whether pages of the class are copies."""
        return self.run >= self.needed

    @property
    def needed(self) -> float:
        """The number of equal pairs in a row that prove the class."""
        return PROVE if not self.others else min(REPROVE << min(self.others - 1, 20), MOST_REPROVE)

    def checked_at(self, use: int) -> None:
        """Set the page that is the next check, as one has been checked."""
        self.due = max(self.due, min(use * GROWTH + 1, use + EVERY))


class Evidence(Generic[R]):
    """The evidence on the classes of one namespace; R is what is remembered of a dropped page."""

    def __init__(self) -> None:
        """Begin without evidence."""
        self._records: OrderedDict[Class, Record] = OrderedDict()
        self._parts: dict[Class, set[str]] = {}  # of the classes that differ in their parts alone
        self._remembered: OrderedDict[Class, deque[R]] = OrderedDict()
        self._count = 0
        self.changed = False  # since that was last set to False

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self._records)

    def record(self, name: Class) -> Record | None:
        """Return the evidence on a class."""
        return self._records.get(name)

    def records(self) -> Mapping[Class, Record]:
        """Return the evidence on all classes."""
        return self._records

    def is_proven(self, name: Class) -> bool:
        """Whether pages of a class are copies."""
        record = self._records.get(name)
        if record is not None and (record.others or record.is_proven):
            return record.is_proven
        return self._by_singles(name) or any(
            self._records[each].is_proven for each in self._wider(name)
        )

    def _by_singles(self, name: Class) -> bool:
        singles = [self._records.get(each) for each in name.single()]
        return bool(singles) and all(each is not None and each.is_proven for each in singles)

    def _wider(self, name: Class) -> "Iterator[Class]":
        """Yield the classes with the same URLs whose pages differ in the same parts, and in others."""
        mine = set(name.parts)
        for parts in self._parts.get(name._replace(parts=""), ()):
            if mine < set(parts) and not (set(parts) - mine) & _NO_PART:
                yield name._replace(parts=parts)

    def may_prove(self, name: Class, pairs: int) -> bool:
        """Whether a number of further equal pairs prove a class that had no other items."""
        record = self._records.get(name)
        if record is None:
            return pairs >= PROVE
        return pairs > 0 and not record.others and record.run + pairs >= PROVE

    def decide(self, name: Class, back: Class, *, must: bool = False) -> bool:
        """Use a proven class for a page: whether the page is parsed, to check the class.

        back  the class of the two pages the other way round, which shares the checks if it is proven
        must  whether it is parsed in any case
        """
        found = [self._of(name)]
        other = self._records.get(back)
        if other is not None and other is not found[0] and other.is_proven:
            found.append(other)
        for record in found:
            record.used += 1
        self.changed = True
        if found[0].used < found[0].due and not must:
            return False
        for record in found:
            record.checked_at(record.used)
        found[0].checked += 1
        return True

    def used(self, name: Class) -> int:
        """Return how many pages a class has decided about since it was proven."""
        record = self._records.get(name)
        return 0 if record is None else record.used

    def drop(self, name: Class, page: R) -> None:
        """Remember a page that was dropped."""
        self._of(name).dropped += 1
        held = self._remembered.setdefault(name, deque())
        held.append(page)
        self._count += 1
        if len(held) > REMEMBERED:
            held.popleft()
            self._count -= 1
        while self._count > ALL_REMEMBERED:
            longest = max(self._remembered.values(), key=len)
            longest.popleft()
            self._count -= 1

    def is_less_alike(self, name: Class, similarity: float) -> bool:
        """Whether two pages are less alike than all that showed what a class is."""
        record = self._records.get(name)
        if record is None or not record.equal:
            return False
        return 1 - similarity > LESS_ALIKE * (1 - record.least)

    def agree(
        self, name: Class, weight: float = 1.0, use: int = 0, similarity: float = 1.0
    ) -> None:
        """Note a pair with equal items.

        use  used(name) when its page was judged: the pair is as good as a check there, not of what was dropped since
        """
        for each in (name, *name.single()):
            record = self._of(each)
            if each is name and record.is_proven and use <= record.used:
                record.checked_at(use)
            record.equal += 1
            record.run += weight
            record.least = min(record.least, similarity)
        self.changed = True

    def differ(self, name: Class, example: tuple[str, str, tuple[str, ...]]) -> list[R]:
        """Note a pair with other items; return the dropped pages of the class, to be sent again.

        A class that was proven by its single differences takes these down, too; and with it fall those that it proved.
        """
        found: list[R] = []
        record = self._records.get(name)
        was_proven = self.is_proven(name)
        by_singles = (record is None or not record.is_proven) and self._by_singles(name)
        for each in (name, *(name.single() if by_singles else ())):
            record = self._of(each)
            record.others += 1
            record.run, record.used, record.due, record.least = 0.0, 0, SOON, 1.0
            record.examples = [*record.examples, example][-EXAMPLES:]
            pages = self._remembered.pop(each, ())
            record.refetched += len(pages)
            self._count -= len(pages)
            found += pages
        proved = [each for each in self._remembered if was_proven and not self.is_proven(each)]
        for each in proved:
            pages = self._remembered.pop(each)
            self._of(each).refetched += len(pages)
            self._count -= len(pages)
            found += pages
        self.changed = True
        return found

    def forgive(self, callback: str) -> None:
        """Begin again with the unproven classes of a callback: what differed in them is volatile."""
        for name, record in self._records.items():
            if name.callback == callback and record.others:
                record.others, record.run = 0, 0.0
        self.changed = True

    def _of(self, name: Class) -> Record:
        record = self._records.get(name)
        if record is None:
            record = self._add(name, Record())
            if len(self._records) > CLASSES:
                oldest, _ = self._records.popitem(last=False)
                self._count -= len(self._remembered.pop(oldest, ()))
                any_parts = oldest._replace(parts="")
                self._parts[any_parts].discard(oldest.parts)
                if not self._parts[any_parts]:
                    del self._parts[any_parts]
        else:
            self._records.move_to_end(name)
        return record

    def _add(self, name: Class, record: Record) -> Record:
        self._records[name] = record
        self._parts.setdefault(name._replace(parts=""), set()).add(name.parts)
        return record

    # -------------------------------------------------------------------- from crawl to crawl

    def remembered(self) -> Iterator[tuple[Class, R]]:
        """Yield the dropped pages that are remembered, with their classes."""
        for name, pages in self._remembered.items():
            for page in pages:
                yield name, page

    def take(self, records: Mapping[Class, Record], pages: Iterable[tuple[Class, R]] = ()) -> None:
        """Go on with what an earlier crawl found."""
        for name, record in records.items():
            if len(self._records) < CLASSES:
                record.dropped = record.checked = record.refetched = 0  # of this crawl
                self._add(name, record)
        for name, page in pages:
            if name in self._records:
                self._remembered.setdefault(name, deque()).append(page)
                self._count += 1


class _Line(Record, omit_defaults=True):
    of: Class = Class("", "", "", "")


class _Content(msgspec.Struct):
    classes: list[_Line]
    volatile: dict[str, tuple[list[int], list[int]]] = {}


def encode_evidence(
    records: Mapping[Class, Record], volatile: Mapping[str, tuple[Iterable[int], Iterable[int]]]
) -> bytes:
    """Return what decode_evidence() reads. volatile: by callback, fields and places of numbers."""
    lines = [_Line(**msgspec.structs.asdict(record), of=name) for name, record in records.items()]
    found = {name: (sorted(fields), sorted(places)) for name, (fields, places) in volatile.items()}
    return msgspec.json.encode(_Content(lines, found))


def decode_evidence(
    content: bytes,
) -> tuple[dict[Class, Record], dict[str, tuple[list[int], list[int]]]]:
    """Return the evidence that encode_evidence() wrote. Raises ValueError (msgspec's)."""
    read = msgspec.json.decode(content, type=_Content)
    fields = Record.__struct_fields__
    return {
        line.of: Record(**{name: getattr(line, name) for name in fields}) for line in read.classes
    }, read.volatile


# ------------------------------------------------------------------------- the class of a pair


def class_of(
    callback: str,
    site: str,
    letters: str,
    original: str,
    page: str,
    *,
    empty: bool = False,
    led: bool = False,
) -> Class:
    """Return the class of a page (by its document key) and a near-duplicate that was accepted before.

    letters  which parts of the two differ (PARTS)
    empty    whether the original brought no item
    led      whether it was like others, too, and asked for pages without a link to them, which none had asked for
    """
    return Class(callback, site, letters + "0" * empty + "r" * led, shape(original, page))


def account_of(callback: str, site: str, original: str, page: str) -> Class:
    """Return the class whose credit a page uses: whichever parts differ, and whichever way round."""
    return Class(callback, site, "", _SIGN.sub("?", shape(original, page)))


def shape(original: str, page: str) -> str:
    """Return how one URL differs from another, without the values; "=" if it does not."""
    try:
        a, b = urlsplit(original), urlsplit(page)
        one, two = a.hostname or "", b.hostname or ""
    except ValueError:  # unbalanced brackets, and the like
        return "?"
    found = []
    if a.scheme != b.scheme:
        found.append(f"{a.scheme}:>{b.scheme}:")
    if a.netloc != b.netloc:
        found.append(_host_shape(one, two))
    if a.path != b.path:
        found += _path_shape(a.path.strip("/").split("/"), b.path.strip("/").split("/"))
        if a.path.endswith("/") != b.path.endswith("/"):
            found.append("slash")
    if a.query != b.query:
        found += _query_shape(a.query, b.query)
    return " ".join(found)[:SHAPE_CHARACTERS] or "="


def shape_text(shape: str) -> str:
    """Return a shape for people: what differs in the path in words, "?+sid" as it is."""
    return " ".join(dict.fromkeys(_PATH_PART.sub(_part_text, each) for each in shape.split(" ")))


def _part_text(found: re.Match[str]) -> str:
    kind = {"##": "number", "ww": "word"}.get(found[1] + found[2], "part")
    return f"another {kind} in the path"


def _host_shape(one: str, two: str) -> str:
    a, b = one.split("."), two.split(".")
    shared = 0
    while a and b and a[-1] == b[-1]:
        a.pop()
        b.pop()
        shared += 1
    return f"host:{'.'.join(a)}>{'.'.join(b)}" if shared > 1 else "host"


def _path_shape(a: list[str], b: list[str]) -> list[str]:
    if len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return [f"/{i}:{_form(u)}>{_form(v)}" for i, (u, v) in pairs if u != v]
    start, end = 0, 0
    least = min(len(a), len(b))
    while start < least and a[start] == b[start]:
        start += 1
    while end < least - start and a[-1 - end] == b[-1 - end]:
        end += 1
    gone, new = a[start : len(a) - end], b[start : len(b) - end]
    if len(gone) > MOST_WORDS or len(new) > MOST_WORDS:
        return ["longer" if len(b) > len(a) else "shorter"]
    return [f"{'/'.join(map(_literal, gone))}>{'/'.join(map(_literal, new))}"]


def _form(segment: str) -> str:
    """Return what a segment of a path is: "#" a number, "x" with digits, "w" without."""
    if _DIGITS.fullmatch(segment):
        return "#"
    return "x" if any(map(str.isdigit, segment)) else "w"


def _literal(segment: str) -> str:
    form = _form(segment)
    return segment.replace(" ", "") if form == "w" else form


def _query_shape(a: str, b: str) -> list[str]:
    one, two = _values(a), _values(b)
    return [
        f"?{'+' if name not in one else '-' if name not in two else '~'}{name.replace(' ', '')}"
        for name in sorted(one.keys() | two.keys())
        if one.get(name) != two.get(name)
    ]


def _values(query: str) -> dict[str, list[str]]:
    found: dict[str, list[Any]] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return {"": [query]}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found
