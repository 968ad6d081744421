"""The digest of a page's items: which items are equal, whatever kind they are, and what is not read."""

import dataclasses
import datetime as dt
import time
from typing import Any

import attrs
import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from dedup.core.fingerprint import read_page
from dedup.scrapy.items import (
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
        {"id": " 5 ", "tags": ("y", "x")},
    ],
    ids=["item", "dataclass", "attrs", "pydantic", "other order and space"],
)
def test_every_kind_of_item_has_the_same_digest(item):
    """The class of an item, the order of a list and white space say nothing."""
    assert equal(PLAIN, item)
    assert not equal(PLAIN | {"id": "6"}, item)


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
    """Nine in ten word triples alike and the same numbers; a short text is compared exactly."""
    text = f"{PROSE} it costs 20 euros"
    assert equal({"text": text}, {"text": text.replace("wac", "other")})
    assert not equal({"text": text}, {"text": text.replace("20 euros", "30 euros")})
    assert not equal({"text": text}, {"text": " ".join(reversed(text.split()))})
    assert not equal({"text": "some words"}, {"text": "same words"})


def test_a_field_that_holds_the_page_is_compared_by_headings_and_numbers():
    """Markup around it says nothing more; another number or heading does."""

    def html(banner: str, *tokens: str, heading: str = "Title") -> tuple[dict[str, str], Page]:
        text = f"<html><h1>{heading}</h1><div>{banner}</div><p>{PROSE}</p></html>"
        return {"html": text}, page(text=text, words=420, tokens=tokens)

    (a, one), (b, two) = html("x", "costs", "5"), html("visitor", "costs", "5")
    assert equal(a, b, one, two)
    (c, three), (d, four) = html("x", "costs", "6"), html("x", "costs", "5", heading="Other")
    assert not equal(a, c, one, three)
    assert not equal(a, d, one, four)


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
    """A random value that stands nowhere in the page, and the length of the page; not one that stands there."""
    uuids = "0b1f9a52-43a2-4a55-9c4f-0d4f3fd3c5a1", "7d3e6e1c-b0f0-4d6b-a9b7-3f9b2a1d8a11"
    assert equal({"id": 1, "u": uuids[0]}, {"id": 1, "u": uuids[1]})
    there = [page(text=f"<p>{u}</p>") for u in uuids]
    assert not equal({"id": 1, "u": uuids[0]}, {"id": 1, "u": uuids[1]}, *there)
    sized = [page(text="x" * n) for n in (1000, 1001)]
    assert equal({"a": "t", "n": 1000}, {"a": "t", "n": 1001}, *sized)


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
    if made.number <= 40:
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
