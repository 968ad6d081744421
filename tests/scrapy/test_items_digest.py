"""The digest of a page's items: which are equal, whatever kind they are, and what is not read."""

import dataclasses
import datetime as dt
import html
import time
from typing import Any, get_type_hints
from urllib.parse import quote

import attrs
import msgspec
import pytest
import scrapy
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from dedup.core.fingerprint import read_page
from dedup.model.page import Document
from dedup.scrapy.evidence import items as module
from dedup.scrapy.evidence.items import (
    DIGEST_BYTES,
    FIELDS,
    ITEMS,
    FieldNames,
    ItemPage,
    ItemReader,
    ItemRules,
    ItemsDigest,
    decode,
    differing,
    encode,
)
from dedup.scrapy.evidence.page_text import (
    BLOCKS,
    HEADINGS_BYTES,
    NUMBERS,
    OWN_BYTES,
    Names,
    PageText,
)

NAMES = FieldNames()
URL = "http://www.a.example/a/5"
PROSE = " ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(400))


def page(url: str = URL, text: str = "", noted: object = None) -> ItemPage:
    read = read_page(text, links=True)
    return ItemPage((url,), lambda: text, len(text.encode()), read, noted=noted)


def digest(*items: object, of: ItemPage | None = None, **rules: Any) -> ItemsDigest | None:
    digester = ItemReader(of or page(), ItemRules(NAMES, **rules))
    for item in items:
        digester.add(item)
    return digester.digest()


def read(*items: object, **options: Any) -> ItemsDigest:
    found = digest(*items, **options)
    assert found is not None
    return found


def equal(
    mine: object,
    other: object,
    one: ItemPage | None = None,
    two: ItemPage | None = None,
    **rules: Any,
) -> bool:
    """Whether two items are equal: as the items of two pages, and among the items of a page."""
    a, b = read(mine, of=one, **rules), read(other, of=two, **rules)
    more = read(other, {"another": "item"}, of=two, **rules)
    assert (a.items <= more.items) == (a.items == b.items), "one item is compared as several are"
    return a.items == b.items


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


# ---------------------------------------------------------------------------- any schema

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False)
    | st.text(max_size=30)
    | st.binary(max_size=30)
    | st.dates()
)
names = st.text(max_size=8)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)


def form(value: object) -> object:
    """Return what must tell two values apart: white space does not, nor the kind of a sequence; 1 is not True."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, list):
        return [form(each) for each in value]
    if isinstance(value, dict):
        return {name: form(each) for name, each in value.items()}
    return (
        None if value is None else (isinstance(value, bool), isinstance(value, bytes), str(value))
    )


@given(
    st.dictionaries(names, values, min_size=1, max_size=40),
    st.data(),
)
def test_promise_1_items_that_differ_in_a_field_are_never_equal(
    item: dict[str, object], data: Any
) -> None:
    """Whatever the schema: another value, a field less, a field more, two values swapped."""
    name = data.draw(st.sampled_from([*item]))
    value = data.draw(values)
    assume(form(value) != form(item[name]))
    assume(not _clocks(item) and not _clocks({name: value}))
    assert equal(item, dict(item))
    assert not equal(item, item | {name: value})
    assert not equal(item, {each: item[each] for each in item if each != name})
    other = data.draw(st.sampled_from([*item]))
    if form(item[other]) != form(item[name]):
        swapped = item | {name: item[other], other: item[name]}
        assert not equal(item, swapped)


def _clocks(item: object) -> bool:
    """Whether a value may pass for the time of this test."""
    if isinstance(item, dict):
        return any(map(_clocks, item.values()))
    if isinstance(item, list):
        return any(map(_clocks, item))
    now = time.time()
    return isinstance(item, int | float) and any(
        abs(item - each) < 1000 * now / 10**9 + 10**5 for each in (now, now * 1000)
    )


@given(st.lists(st.dictionaries(names, values, max_size=30), max_size=50))
def test_any_items_have_a_digest_that_survives_its_bytes(found: list[dict[str, object]]) -> None:
    """decode(encode(d)) is d, in at most DIGEST_BYTES."""
    made = digest(*found)
    if made is None:
        return
    content = encode(made)
    assert 0 < len(content) <= DIGEST_BYTES
    assert decode(content) == made


def test_the_greatest_digest_fits_into_a_document() -> None:
    """Of most items, of most fields, each with a page of most numbers, blocks and names: these are left out first."""
    names = Names("n" * OWN_BYTES, "h" * HEADINGS_BYTES)
    page = PageText(b"\xff" * 4 * NUMBERS, b"\xff" * 8 * BLOCKS, names, 2**64 - 1)
    for items, fields in ((2 * ITEMS, 0), (2, FIELDS)):
        greatest = ItemsDigest(
            2**63, True, b"\xff" * 8 * items, b"\xff" * 12 * fields, 2**64 - 1, page, 2**64 - 1
        )
        kept = decode(encode(greatest))
        assert kept is not None
        assert kept.page is not None
        assert len(kept.page.texts) == 8
        assert msgspec.structs.replace(kept, page=page) == greatest
    hints = get_type_hints(Document, include_extras=True)
    assert hints["items"].__metadata__[0].most == DIGEST_BYTES
    assert encode(msgspec.structs.replace(greatest, hashes=b"\xff" * DIGEST_BYTES)) == b""


def test_a_digest_is_bounded_however_many_names_the_fields_have() -> None:
    """Of 40 items with 30 names each, all different; a changed value still counts."""
    items = [{f"{n} {k}": k for k in range(30)} for n in range(40)]
    made = digest(*items)
    assert made is not None
    assert 0 < len(encode(made)) <= DIGEST_BYTES
    other = digest(*items[:-1], items[-1] | {"39 29": "new"})
    assert other is not None
    assert not other.items <= made.items


@given(st.binary(max_size=200))
def test_any_bytes_are_a_digest_or_none(content: bytes) -> None:
    """What a store or a service holds raises nothing, nor does an older digest."""
    decode(content)
    assert decode(encode(ItemsDigest(1))[:-1]) is None


# ------------------------------------------------------------------------------- kinds of items

PLAIN = {"id": "5", "tags": ["x", "y"]}


@pytest.mark.parametrize(
    "item",
    [Thing(PLAIN), DataThing(**PLAIN), AttrsThing(**PLAIN), PydanticThing(**PLAIN)],
    ids=["item", "dataclass", "attrs", "pydantic"],
)
def test_every_kind_of_item_is_read(item: object) -> None:
    """Its class is a datum of its own; its values are those of a dict."""
    again = type(item)(**PLAIN)
    assert equal(item, again)
    assert not equal(item, PLAIN)
    assert not equal(item, type(item)(**PLAIN | {"id": "6"}))


def test_what_tells_no_items_apart() -> None:
    """White space, the kind of a sequence, the order of a set."""
    assert equal(PLAIN, {"id": " 5\n", "tags": ("x", "y")})
    assert equal({"r": {"a", "b"}}, {"r": frozenset("ba")})
    assert not equal({"r": ["a", "b"]}, {"r": ["b", "a"]})


def test_items_among_the_originals_are_known() -> None:
    """In any order; not where values are swapped between two."""
    three = read({"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 3})
    assert read({"id": 3, "n": 3}, {"id": 1, "n": 1}).items <= three.items
    assert not read({"id": 1, "n": 2}, {"id": 2, "n": 1}).items & three.items


def test_more_items_than_are_compared_one_by_one_are_compared_all_together() -> None:
    """The same ones in any order are equal; not if one is missing, or two have each other's values."""
    rows = [{"id": n, "price": n % 7} for n in range(ITEMS + 10)]
    swapped = [*rows[2:], rows[0] | {"price": 1}, rows[1] | {"price": 0}]
    every = read(*rows)
    assert read(*reversed(rows)).items == every.items
    assert read(*rows[1:]).items != every.items
    assert read(*swapped).items != every.items


def test_the_fields_in_which_two_items_differ_have_names() -> None:
    """For the message that names a noisy one."""
    a, b = read({"id": 1, "views": 4}), read({"id": 1, "views": 5})
    assert NAMES.of(differing(a, b)) == ("views",)


# ------------------------------------------------------------------- addresses, times, the page


@pytest.mark.parametrize("length", [1, 300, 5000])
@pytest.mark.parametrize("written", [str, html.escape, lambda url: quote(url, safe="")])
def test_the_own_address_is_no_datum_however_long_or_written(length: int, written: Any) -> None:
    """As a field of its own, escaped, and inside of a text, where the item is a copy with its whole page only."""
    urls = [f"http://a.example/{kind}?x=1&y={'z' * length}" for kind in ("a", "print")]
    one, two = map(page, urls)
    for item in ("{}", "see {} for more"):
        made = [{"id": 5, "url": item.format(written(url))} for url in urls]
        assert equal(*made, one, two)
        reader = ItemReader(one, ItemRules(NAMES))
        (hashes,) = filter(None, [reader.add(made[0])])
        assert hashes.holds_inside == (item != "{}")
    assert not equal({"url": written(urls[0])}, {"url": "http://a.example/c"}, one, two)


@pytest.mark.parametrize(
    "declared",
    [
        '<link rel="canonical" href="{}">',
        '<meta property="og:url" content="{}"/>',
        "<META content='{}' name=x property='og:url'>",
    ],
)
def test_the_address_that_a_page_declares_is_no_datum(declared: str) -> None:
    """A copy under ?utm_source= that gives the declared address in an item gives the item of the page that has it."""
    plain, copy = (
        "http://www.a.example/a/5?id=1&x=2",
        "http://www.a.example/a/5?id=1&x=2&utm_source=m",
    )
    head = declared.format(html.escape(plain))
    item = {"url": plain, "price": 5}
    assert read(item, of=page(plain, head)).items == read(item, of=page(copy, head)).items
    other = page("http://www.a.example/a/6", declared.format("http://www.a.example/a/6"))
    assert read(item, of=other).items != read(item, of=page(copy, head)).items


def test_the_root_that_every_page_declares_is_a_datum() -> None:
    """A page that says it is the start page has no address of its own in that."""
    head = '<link rel="canonical" href="http://www.a.example/">'
    assert read({"site": "http://www.a.example/"}, of=page(text=head)).has_data


def test_a_part_of_the_own_address_is_a_datum() -> None:
    """/print/5 and /a/5 with the id 5 are equal; ?no=7 and ?no=8 with that number are not. A root is no part."""
    one, two = page("http://s.example/a/5"), page("http://s.example/print/5")
    assert equal({"url": one.urls[0], "id": "5"}, {"url": two.urls[0], "id": "5"}, one, two)
    assert not equal({"url": one.urls[0], "id": "7"}, {"url": two.urls[0], "id": "8"}, one, two)
    root = page("http://s.example/")
    for path in ("1.png", "2.png"):
        assert not equal(
            {"img": f"http://s.example/{path}"}, {"img": "http://s.example/"}, root, root
        )


def test_links_on_a_mirrored_host_are_equal_to_those_of_the_page() -> None:
    """Of the page's own host; another host, or another path, is a datum."""
    one, two = page("http://a.example/5"), page("http://b.example/5")

    def item(host: str, path: str = "p.png") -> dict[str, str]:
        return {"id": "5", "img": f"http://{host}/{path}"}

    assert equal(item("a.example"), item("b.example"), one, two)
    assert not equal(item("a.example"), item("b.example", "q.png"), one, two)
    assert not equal(item("c.example"), item("d.example"), one, two)


@pytest.mark.parametrize(
    "made",
    [
        dt.datetime.now,
        lambda: dt.datetime.now(dt.UTC),
        lambda: dt.datetime.now(dt.UTC).isoformat(),
        time.time,
        lambda: int(time.time() * 1000),
    ],
)
def test_the_time_of_the_crawl_is_no_datum(made: Any) -> None:
    """In any form; an item with nothing else has no data."""
    first = {"id": 1, "at": made()}
    time.sleep(0.002)
    assert equal(first, {"id": 1, "at": made()})
    assert not read({"at": made(), "url": URL, "ok": True}).has_data
    assert read(first).has_data


def recipe(
    tag: str, amount: int, word: str = "barley", footer: str = ""
) -> tuple[dict[str, str], ItemPage]:
    rows = "".join(f"<li>{n} grams of {w}</li>" for n, w in enumerate(PROSE.split()[:60]))
    rows += f"<li>{amount} grams of {word}</li>"
    text = (
        f"<html><head><title>Salad</title></head><body><main><h1>Salad</h1><p>{PROSE[:300]}</p></main>"
        f"<{tag}><ul>{rows}</ul></{tag}><footer>{footer}</footer></body></html>"
    )
    return {"html": text}, page(text=text)


@pytest.mark.parametrize("tag", ["main", "aside", "nav", "footer", "section"])
def test_promise_1_every_number_and_word_of_a_text_that_holds_the_page_is_a_datum(tag: str) -> None:
    """In what is main text, and beside it."""
    texts = [
        {
            "text": item["html"]
            .split("<ul>")[1]
            .split("</ul>")[0]
            .replace("<li>", "")
            .replace("</li>", " ")
        }
        for item, _ in (recipe(tag, 5), recipe(tag, 6), recipe(tag, 5, "rye"), recipe(tag, 5))
    ]
    pages = [of for _, of in (recipe(tag, 5), recipe(tag, 6), recipe(tag, 5, "rye"))]
    assert equal(texts[0], texts[3], pages[0], pages[0])
    assert not equal(texts[0], texts[1], pages[0], pages[1])
    assert not equal(texts[0], texts[2], pages[0], pages[2])


def test_markup_of_the_page_stands_for_what_was_read_of_it() -> None:
    """Words, headings and numbers of the main text; not the frame."""
    (a, one), (b, two) = recipe("main", 5), recipe("main", 5, footer="visitor 12")
    assert equal(a, b, one, two)
    assert read(a, of=one).beside and read(a, of=one).page
    for item, of in (recipe("main", 6), recipe("main", 5, "rye")):
        assert not equal(a, item, one, of)
    assert equal({"body": a["html"].encode()}, {"body": b["html"].encode()}, one, two)


# ---------------------------------------------------------------------------------- settings


def test_named_fields_alone_count_and_as_they_are() -> None:
    """DEDUP_ITEM_FIELDS ends all guessing: own addresses, times, white space; DEDUP_ITEM_IGNORE leaves fields out."""
    one, two = page("http://a.example/1"), page("http://a.example/2")
    only = frozenset(["sku"])
    assert equal({"sku": 1, "x": 1}, {"sku": 1, "x": 2}, one, two, only=only)
    assert not equal({"sku": one.urls[0]}, {"sku": two.urls[0]}, one, two, only=only)
    assert not equal({"sku": "a b"}, {"sku": "a  b"}, only=only)
    assert not equal({"sku": time.time()}, {"sku": time.time() + 1}, only=only)
    assert equal({"id": 1, "n": 1}, {"id": 1, "n": 2}, ignored=frozenset(["n"]))


def test_what_the_add_on_noted_is_no_datum() -> None:
    """A spider that yields response.meta["dedup"] with its item."""
    notes = [{"status": "unique", "token": t} for t in "ab"]
    one, two = (page(noted=note) for note in notes)
    assert equal({"id": 1, "dedup": notes[0]}, {"id": 1, "dedup": notes[1]}, one, two)


# -------------------------------------------------------------------------------- odd values


class Raises(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError(name)


class Odd:
    __hash__ = None  # type: ignore[assignment]


def endless() -> list[Any]:
    nested: list[Any] = []
    nested.append(nested)
    return nested


@pytest.mark.parametrize(
    "value",
    [
        *(endless(), (n for n in range(3)), Odd(), object(), lambda: 1, "x" * 100_000_000),
        *([0] * 50_000, ["a text"] * 50_000, ["x" * 10**6] * 100),
    ],
    ids="recursion generator odd object function long many texts longtexts".split(),
)
def test_what_cannot_be_read_has_no_digest(value: object) -> None:
    """It is no evidence, raises nothing, and takes bounded time."""
    begun = time.process_time()
    assert digest({"id": 1}, {"a": value}) is None
    assert time.process_time() - begun < 5
    if hasattr(value, "__next__"):
        assert list(value) == [0, 1, 2]  # type: ignore[call-overload]


@pytest.mark.parametrize("piece", ["<link canonical ", "canonical ", "<meta og:url='http"])
def test_promise_7_any_bytes_are_safe_an_address_is_looked_for_in_linear_time(piece: str) -> None:
    """In tags without an end, too: this ends."""
    of = page(text="<link " + piece * 200_000)
    assert read({"image": "http://www.a.example/b.png"}, of=of).number == 1


@pytest.mark.parametrize(
    "item", [Raises(a=1), object(), 5, None], ids=["raises", "object", "number", "none"]
)
def test_what_is_no_item_has_no_digest(item: object) -> None:
    """Nor an item whose fields raise."""
    assert digest(item) is None


def test_the_names_of_fields_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond are "a field" in messages, and told apart as well."""
    monkeypatch.setattr(module, "NAMES", 2)
    known = FieldNames()
    numbers = [known[name] for name in "abc"]
    assert len(set(numbers)) == 3
    assert known.of(numbers) == ("a", "a field", "b")


def test_a_title_is_the_page_and_a_number_in_it_is_a_datum() -> None:
    """What the title begins with, or most of it, is no datum beside the page."""
    of = page(text="<html><head><title>Red lamp 17 - Shop</title></head></html>")
    for value, is_datum in (
        ("Red lamp 17", False),
        ("lamp 17 - Shop", False),
        ("17", True),
        ("Lamp", True),
    ):
        reader = ItemReader(of, ItemRules(NAMES))
        assert reader.add({"url": URL, "value": value}) is not None
        (kinds,) = reader.items
        assert [*kinds.data] == ["value"] * is_datum
        once = ItemReader(of, ItemRules(NAMES), finds_title=False).add({"value": value})
        assert once is not None and [*once.data] == ["value"] and not once.has_title


def test_what_a_callback_is_given_is_compared_but_for_the_address() -> None:
    """Names and values, in any order; an object that cannot be read equals none; DEDUP_ITEM_IGNORE leaves names out."""

    def given(values: dict[str, object], url: str = URL, **rules: Any) -> int:
        return ItemReader(page(url), ItemRules(NAMES, **rules)).given(values)

    assert given({"price": 5, "n": 1}) == given({"n": 1, "price": 5}) != given({"price": 6, "n": 1})
    other = "http://www.a.example/b/9"
    assert given({"url": URL, "price": 5}) == given({"url": other, "price": 5}, other)
    assert given({"path": "/b/9"}, other) == given({"path": "9"}, other) == given({"path": URL})
    assert given({"path": "b"}, other) != given({"path": "9"}, other)
    assert given({"object": object()}) != given({"object": object()})
    assert given({"n": 1}, ignored=frozenset(["n"])) == 0
