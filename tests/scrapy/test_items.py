"""The digest of a page's items: which items are equal, whatever kind they are, and what is not read."""

import dataclasses
import datetime as dt
import hashlib
import time
from typing import Any

import attrs
import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from scrapy.utils.request import fingerprint

from dedup.core.fingerprint import read_page
from dedup.scrapy.items import (
    ITEMS,
    Digest,
    Digester,
    Names,
    Page,
    compare,
    decode,
    encode,
)

NAMES = Names()
PROSE = " ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(400))


def page(url: str = "http://site.example/a/5", text: str = "", words: int = 0, **more: Any) -> Page:
    numbers = read_page(" ".join(more.pop("tokens", ())), numbers=True).numbers
    read = read_page(text)._replace(numbers=numbers, words=words)
    fields = {"given": lambda: "", "noted": None, "size": len(text)} | more
    return Page(urls=(url,), text=lambda: text, reading=lambda: read, **fields)


def digest(*items: object, of: Page | None = None, **options: Any) -> Digest | None:
    digester = Digester(of or page(), NAMES, **options)
    for item in items:
        digester.add(item)
    return digester.digest()


def equal(mine: object, theirs: object, one: Page | None = None, two: Page | None = None) -> bool:
    a, b = digest(mine, of=one), digest(theirs, of=two)
    assert a is not None
    assert b is not None
    return compare(a, b).equal


class Thing(scrapy.Item):
    id = scrapy.Field()
    tags = scrapy.Field()


@dataclasses.dataclass
class DataThing:
    id: str
    tags: list[str]


@attrs.define
class AttrsThing:
    id: str
    tags: list[str]


class PydanticThing(BaseModel):
    id: str
    tags: list[str]


PLAIN = {"id": "5", "tags": ["x", "y"]}


@pytest.mark.parametrize(
    "item",
    [
        Thing(PLAIN),
        DataThing(**PLAIN),
        AttrsThing(**PLAIN),
        PydanticThing(**PLAIN),
        {"id": " 5 ", "tags": ("x", "y")},
    ],
    ids=["item", "dataclass", "attrs", "pydantic", "other list and space"],
)
def test_every_kind_of_item_has_the_same_digest(item):
    """The class of an item, that of a list and white space say nothing."""
    assert equal(PLAIN, item)
    assert not equal(PLAIN | {"id": "6"}, item)


def equal_since(visit: object, mine: object, theirs: object) -> bool:
    """Whether two items are equal once a second visit of the first one's page brought another item."""
    a, b, c = digest(mine), digest(theirs), digest(visit)
    assert a is not None
    assert b is not None
    assert c is not None
    assert not compare(a, b).equal
    return compare(a, b, compare(a, c).fields).equal


def test_the_order_of_a_list_is_a_datum_until_a_visit_shows_otherwise():
    """So are its values, and how often each is there. Where the order alone is volatile, the values still count."""
    first, other, next_time = ({"r": list(order)} for order in ("acb", "cba", "bac"))
    assert not equal({"r": list("abb")}, {"r": list("aab")})
    assert equal({"r": {"a", "b"}}, {"r": frozenset("ba")})
    assert equal_since(next_time, first, other)
    assert not equal_since(next_time, first, {"r": list("cbd")})
    assert equal_since({"r": list("xab")}, first, {"r": list("cbd")})


def test_the_order_of_lists_is_volatile_in_several_items_too():
    """Each of them has a list."""
    rows, others = ([{"k": k, "r": [*f"{k}{order}"]} for k in "xy"] for order in ("acb", "bca"))
    a, b = digest(*rows), digest(*others)
    assert a is not None
    assert b is not None
    volatile = compare(a, b).fields
    found = [digest(*each, volatile=volatile) for each in (rows, others)]
    assert found[0] == found[1]
    assert found[0] != digest(rows[0], {"k": "y", "r": [*"yacd"]}, volatile=volatile)


def test_fields_beyond_the_ones_told_apart_have_names():
    """Two values swapped between them are other items."""
    item = {f"f{n}": n in (90, 95) for n in range(100)}
    assert not equal(item, item | {"f90": False, "f91": True})


def test_the_whole_own_address_is_no_datum_but_a_part_of_it_is():
    """/print/5 and /a/5 with id 5 are equal; ?no=7 and ?no=8 with that number are not."""
    one, two = page("http://s.example/a/5"), page("http://s.example/print/5")
    assert equal({"url": one.urls[0], "id": "5"}, {"url": two.urls[0], "id": "5"}, one, two)
    one, two = page("http://s.example/s?no=7"), page("http://s.example/s?no=8")
    assert not equal({"url": one.urls[0], "no": "7"}, {"url": two.urls[0], "no": "8"}, one, two)


def test_the_root_of_the_site_is_replaced_only_as_a_whole():
    """http://host/ is the beginning of every address there."""
    root, other = page("http://s.example/"), page("http://s.example/copy")
    assert equal({"url": root.urls[0]}, {"url": other.urls[0]}, root, other)
    assert not equal(
        {"img": "http://s.example/1.png"}, {"img": "http://s.example/2.png"}, root, root
    )


@pytest.mark.parametrize(
    "made",
    [
        lambda: dt.datetime.now(),
        lambda: dt.datetime.now(dt.UTC),
        lambda: dt.datetime.now(dt.timezone(dt.timedelta(hours=5, minutes=45))).replace(
            tzinfo=None
        ),
        lambda: dt.datetime.now(dt.UTC).isoformat(),
        lambda: time.time(),
        lambda: int(time.time() * 1000),
        lambda: dt.date.today(),
    ],
)
def test_the_time_of_the_crawl_is_no_datum(made):
    """A time within a minute of now, in any form and zone; not one a day away."""
    assert equal({"id": 1, "at": made()}, {"id": 1, "at": made()})
    silent = digest({"at": made()})
    assert silent is not None
    assert silent.silent


def test_other_days_are_data():
    """Events of two days are two events."""
    today = dt.date.today()
    assert not equal({"on": today}, {"on": today + dt.timedelta(days=1)})
    assert not equal({"on": today.isoformat()}, {"on": "2001-05-06"})


def test_items_that_are_among_the_originals_bring_nothing():
    """A page brings nothing if each of its items is among the original's, and something else otherwise."""
    three = digest({"id": 1}, {"id": 2}, {"id": 3})
    assert three is not None
    two, other = digest({"id": 3}, {"id": 1}), digest({"id": 1}, {"id": 4})
    assert two is not None
    assert other is not None
    assert compare(two, three).equal
    assert not compare(three, two).equal
    assert not compare(other, three).equal
    assert compare(Digest(0), three).equal


def test_swapped_values_of_two_items_are_other_items():
    """The sums of the columns are equal there, the items are not."""
    a, b = (
        digest({"id": 1, "n": 1}, {"id": 2, "n": 2}),
        digest({"id": 1, "n": 2}, {"id": 2, "n": 1}),
    )
    assert a is not None
    assert b is not None
    assert not compare(a, b).equal


def test_a_long_text_may_differ_in_some_words_but_in_no_number():
    """Once a visit showed that words change: nine in ten word triples alike and the same numbers."""
    text = f"{PROSE} it costs 20 euros"
    visit = {"text": text.replace("wab", "another")}
    assert equal_since(visit, {"text": text}, {"text": text.replace("wac", "other")})
    for other in (text.replace("20 euros", "30 euros"), " ".join(reversed(text.split()))):
        assert not equal_since(visit, {"text": text}, {"text": other})


def test_a_counter_in_a_long_text_hides_no_word():
    """Once a visit showed that numbers change, other words are still other items."""
    text = f"{PROSE} seen 20 times"
    visit = {"text": text.replace("20", "121")}
    assert equal_since(visit, {"text": text}, {"text": text.replace("20", "7")})
    other = text.replace("20", "7").replace("wac", "other")
    assert not equal_since(visit, {"text": text}, {"text": other})


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("wac", "other"),
        ("yes \u2713", "yes \u2717"),
        ("5 mg", "5 g"),
        ("in XIV", "in XV"),
        ("2 to 1", "1 to 2"),
        ("20", "30"),
    ],
)
def test_every_word_and_sign_of_a_text_is_a_datum(one, two):
    """Of a long one as of a short one."""
    assert not equal({"text": f"{PROSE} {one}"}, {"text": f"{PROSE} {two}"})
    assert not equal({"text": one}, {"text": two})


def test_short_texts_are_compared_exactly():
    """Word by word."""
    assert not equal({"text": "some words"}, {"text": "same words"})


def test_a_field_that_holds_the_page_is_compared_by_headings_and_numbers():
    """And by the words of the main text, until a visit shows that these change."""

    def html(banner: str, *tokens: str, heading: str = "Title") -> tuple[dict[str, str], Page]:
        text = f"<html><h1>{heading}</h1><div>{banner}</div><p>{PROSE}</p></html>"
        return {"html": text}, page(text=text, words=420, tokens=tokens)

    (a, one), (b, two) = html("x", "costs", "5"), html("visitor", "costs", "5")
    (c, three), (d, four) = html("x", "costs", "6"), html("x", "costs", "5", heading="Other")
    first, second = digest(a, of=one), digest(b, of=two)
    others = digest(c, of=three), digest(d, of=four)
    assert first is not None
    assert second is not None
    assert not compare(first, second).equal
    words = compare(first, second).fields
    assert compare(first, second, words).equal
    for other in others:
        assert other is not None
        assert not compare(first, other, words).equal


def test_a_volatile_number_is_known_by_its_place():
    """What two visits differ in is left out: the number after the same word."""
    text = f"<html><h1>T</h1><p>{PROSE}</p></html>"

    def seen(*tokens: str) -> Digest:
        found = digest({"html": text}, of=page(text=text, words=400, tokens=tokens))
        assert found is not None
        return found

    first, again = seen("price", "5", "visitor", "12057"), seen("price", "5", "visitor", "12099")
    found = compare(again, first)
    assert not found.equal
    assert compare(seen("price", "5", "visitor", "1"), first, places=found.places).equal
    assert not compare(seen("price", "6", "visitor", "1"), first, places=found.places).equal
    assert compare(seen("price", "5"), first, places=found.places).equal


def test_todays_date_in_a_page_is_that_of_the_visit():
    """Printed on 2026-11-4: numbers in a row that are today's date say nothing."""
    text = f"<html><h1>T</h1><p>{PROSE}</p></html>"
    today = dt.datetime.now(dt.UTC)
    with_date = page(
        text=text, words=400, tokens=("on", str(today.year), str(today.month), str(today.day))
    )
    assert equal({"html": text}, {"html": text}, with_date, page(text=text, words=400))


def test_ignored_fields_and_the_field_that_differs():
    """DEDUP_ITEM_IGNORE leaves a field out; a comparison names the fields that differ."""
    a, b = digest({"id": 1, "views": 3}), digest({"id": 1, "views": 4})
    assert a is not None
    assert b is not None
    found = compare(a, b)
    assert NAMES.of(found.fields) == ("views",)
    assert compare(a, b, ignored=found.fields).equal
    ignored = [digest({"id": 1, "views": n}, ignored=frozenset(["views"])) for n in (3, 4)]
    assert ignored[0] == ignored[1]


def test_computed_noise_is_left_out():
    """The length of the page at once, a random value once a visit showed that it is none of the page's data."""
    uuids = "0b1f9a52-43a2-4a55-9c4f-0d4f3fd3c5a1", "7d3e6e1c-b0f0-4d6b-a9b7-3f9b2a1d8a11"
    first, other, visit = ({"id": 1, "u": u} for u in (*uuids, uuids[0].replace("0", "1")))
    assert equal_since(visit, first, other)
    sized = [page(text="x" * n) for n in (1000, 1001)]
    assert equal({"a": "t", "n": 1000}, {"a": "t", "n": 1001}, *sized)


def test_hashes_of_the_page_are_left_out_and_other_ones_are_data():
    """Of its text, its address and its request; a hash may be made of data, or stand in a header."""
    of = page("http://s.example/a", text="<p>text</p>", given=lambda: "{b'Etag': [b'0B1F9A52']}")
    for algorithm, digits in {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}.items():
        for source in (of.text(), of.urls[0]):
            found = hashlib.new(algorithm, source.encode()).hexdigest()
            assert len(found) == digits
            assert digest({"id": 1, "sum": found}, of=of) == digest({"id": 1}, of=of)
        other = hashlib.new(algorithm, b"5 EUR").hexdigest()
        assert digest({"id": 1, "sum": other}, of=of) != digest({"id": 1}, of=of)
    request = fingerprint(scrapy.Request(of.urls[0])).hex()
    assert digest({"id": 1, "sum": request}, of=of) == digest({"id": 1}, of=of)


def test_a_uuid_is_a_datum_in_any_spelling():
    """Of the page, or of an interface that the callback asked: in other letters, without its hyphens."""
    shown = "0B1F9A52-43A2-4A55-9C4F-0D4F3FD3C5A1"
    of = page(text=f"<p data-id='{shown}'>")
    for spelled in (shown, shown.lower(), shown.lower().replace("-", "")):
        assert digest({"id": spelled}, of=of) != digest({}, of=of)
        assert digest({"id": spelled}) != digest({})


def test_the_class_of_an_item_counts_where_a_callback_has_several():
    """The first one says nothing; and none does where the classes of a callback are not known."""
    classes: dict[str, type] = {}
    plain, first = digest(PLAIN), digest(Thing(PLAIN), classes=classes)
    assert first == plain
    assert digest(DataThing(**PLAIN), classes=classes) != plain
    assert digest(DataThing(**PLAIN), classes=classes, callback="another") == plain


def test_a_whole_minute_in_another_time_zone_is_no_clock(monkeypatch):
    """What a timetable says, two seconds after a quarter of an hour."""
    noon = 1_800_000_000 // 86400 * 86400 + 12 * 3600
    monkeypatch.setattr(time, "time", lambda: noon + 2.0)
    assert equal({"id": 1, "at": noon + 2}, {"id": 1, "at": noon + 3602})
    assert not equal({"id": 1, "at": noon}, {"id": 1, "at": noon + 3600})


def test_more_items_than_are_compared_one_by_one_are_compared_all_together():
    """The same ones in any order are equal; not if one is missing, or two have each other's values."""
    rows = [{"id": n, "price": n % 7} for n in range(ITEMS + 10)]
    swapped = [*rows[2:], rows[0] | {"price": 1}, rows[1] | {"price": 0}]
    every, turned = digest(*rows), digest(*reversed(rows))
    assert every is not None
    assert turned is not None
    assert compare(turned, every).equal
    for others in (rows[1:], swapped):
        found = digest(*others)
        assert found is not None
        assert not compare(found, every).equal


def endless() -> Any:
    nested: list[Any] = []
    nested.append(nested)
    return nested


class Raises(dict[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise RuntimeError(name)


class Odd:
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "item",
    [
        Raises(a=1),
        {"a": endless()},
        {"a": (n for n in range(3))},
        {"a": Odd()},
        {"a": "x" * 100_000_000},
        {"a": list(range(50_000))},
        object(),
        5,
    ],
    ids=[
        "raises",
        "recursion",
        "generator",
        "no form",
        "100 MB",
        "many values",
        "no item",
        "number",
    ],
)
def test_what_cannot_be_read_has_no_digest(item):
    """It is no evidence, raises nothing, and takes bounded time."""
    begun = time.process_time()
    assert digest({"id": 1}, item) is None
    assert time.process_time() - begun < 2


def test_a_generator_is_not_consumed():
    """The pipelines still get all of it."""
    held = (n for n in range(3))
    digest({"a": held})
    assert list(held) == [0, 1, 2]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
items = st.lists(st.dictionaries(st.text(max_size=8), values, max_size=30), max_size=50)


@given(items)
def test_any_items_have_a_digest_that_survives_its_bytes(found):
    """decode(encode(d)) is d, in at most 1024 bytes, and a page's items are equal to themselves."""
    made = digest(*found)
    if made is None:
        return
    content = encode(made)
    assert len(content) <= 1024
    assert decode(content) == made
    assert compare(made, made).equal


@given(st.binary(max_size=200))
def test_any_bytes_are_a_digest_or_none(content):
    """What a store or a service holds raises nothing."""
    decode(content)


def test_a_value_of_which_the_page_has_no_word_is_unfounded():
    """A computed id is, a price is not, however it is written; nor what a request brought along."""
    text = "<p>Price 1,250 Euro</p>"
    of = page(text=text, given=lambda: "{'shelf': 'upper'}")
    digester = Digester(of, NAMES)
    digester.add(
        {
            "id": "q8-x93",
            "price": "EUR 1250",
            "cents": "1,250",
            "shelf": "Upper",
            "new": True,
            "n": 77,
        }
    )
    found = {name for name in ("id", "price", "cents", "shelf", "new", "n", "none") if
             digester.unfounded(name) is not None}  # fmt: skip
    assert found == {"id", "n"}
    digester.add({"id": "another"})
    assert digester.unfounded("id") is None
