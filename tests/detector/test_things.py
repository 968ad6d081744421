"""Pages of two things, by structured data or by pictures: no near-duplicates on one site, however alike."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import dedup
from dedup.model.page import PageFingerprint, are_two_things

TEXT = " ".join(f"word{i}" for i in range(120))
SITE = "https://shop.example/shirt?colour="


def page(data: str = "", body: str = "") -> PageFingerprint:
    """Return the fingerprint of a page with this JSON-LD."""
    linked = f'<script type="application/ld+json">{data}</script>' if data else ""
    return dedup.fingerprint(f"<title>Shirt</title>{linked}<h1>Shirt</h1><p>{TEXT}</p>{body}")


def status(first: PageFingerprint, second: PageFingerprint, other: str = SITE) -> str:
    """Return the status of a page after another one of the same text was inserted."""
    with TemporaryDirectory() as folder, dedup.open(folder) as detector:
        detector.insert(detector.reserve(first, f"{SITE}red"))
        return detector.reserve(second, f"{other}blue").status


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ('{"sku": "S-red"}', '{"sku": "S-blue"}', "unique"),
        ('{"sku": "S-red"}', '{"sku": "S-red"}', "near_duplicate"),
        ('{"gtin13": "0123"}', '{"gtin": 123}', "near_duplicate"),
        ('{"gtin13": "0123"}', '{"gtin": 124}', "unique"),
        ('{"sku": "S", "gtin": 1}', '{"sku": "S"}', "near_duplicate"),  # what both have is the same
        ('{"sku": "S", "gtin": 1}', '{"sku": "T"}', "unique"),
        ('{"sku": "S", "gtin": 1}', '{"sku": "S", "gtin": 2}', "unique"),
        ('{"gtin": 1}', '{"sku": "S"}', "near_duplicate"),  # nothing to compare: the text decides
        ('{"sku": "S"}', "", "near_duplicate"),
        ('{"sku": "S", "isRelatedTo": {"sku": 1}}', '{"sku": "S", "isRelatedTo": {"sku": 2}}', "near_duplicate"),
        ('[{"sku": "S"}, {"sku": 1}]', '[{"sku": "S"}, {"sku": 2}]', "near_duplicate"),
        ('{"@id": "https://shop.example/x?sid=1"}', '{"@id": "https://shop.example/x?sid=2"}', "near_duplicate"),
        ('{"@id": "urn:p:1"}', '{"@id": "urn:p:2"}', "unique"),
    ],
)  # fmt: skip
def test_two_things_of_one_site_are_two_pages(one: str, two: str, expected: str) -> None:
    """Two colours of a shirt stay, and the same one under another URL does not."""
    assert status(page(one), page(two)) == expected
    assert dedup.near_duplicate(page(one), page(two))  # of unknown sites the texts decide


def test_things_of_two_sites_are_not_compared() -> None:
    """A number means something inside its site only."""
    assert (
        status(page('{"sku": 1}'), page('{"sku": 2}'), "https://other.example/") == "near_duplicate"
    )


def test_microdata_names_things_too() -> None:
    """In an attribute and as text, and not of a thing that is a property of another one."""
    red, blue = (
        page(body=f"<div itemscope><meta itemprop=sku content={sku}></div>") for sku in ("r", "b")
    )
    text = page(body="<div itemscope><b itemprop='name sku'> r </b></div>")
    brand = page(body="<div itemscope><i itemprop=brand itemscope><b itemprop=sku>x</b></i></div>")
    assert red.thing == text.thing != blue.thing
    assert brand.thing == 0
    assert status(red, blue) == "unique"


CONTACT = " ".join(f"street{i}" for i in range(54))


def picture(
    title: str,
    *images: str,
    text: str = CONTACT,
    url: str = "",
    beside: str = "",
    heading: str = "",
) -> PageFingerprint:
    """Return the fingerprint of a page of images, their links and a contact block."""
    shown = "".join(f'<a href="/"><img src="{image}">{beside or image}</a>' for image in images)
    declared = f'<link rel="canonical" href="{url}">' if url else ""
    above = f"<h1>{heading}</h1>" if heading else ""
    return dedup.fingerprint(f"<title>{title}</title>{declared}{above}{shown}<p>{text}</p>")


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (picture("Dawn", "logo.png", "1.jpg"), picture("Dusk", "logo.png", "2.jpg"), "unique"),
        (picture("Dawn", "1.jpg"), picture("Dusk"), "unique"),
        (picture("Gallery", "1.jpg", url="/1"), picture("Gallery", "2.jpg", url="/2"), "unique"),
        (picture("Dawn", "1.jpg"), picture("Dawn", "2.jpg"), "near_duplicate"),  # an advertisement
        (
            picture("Dawn", "1.jpg", beside="Next"),
            picture("Dusk", "2.jpg", beside="Next"),
            "near_duplicate",
        ),
        (  # the heading tells, where nothing stands beside
            picture("Gallery", "1.jpg", url="/1", beside="Next", heading="Dawn"),
            picture("Gallery", "2.jpg", url="/2", beside="Next", heading="Dusk"),
            "unique",
        ),
        (picture("Dawn", "1.jpg"), picture("Dusk", "1.jpg"), "near_duplicate"),
        (
            picture("Dawn", "1.jpg", text=TEXT),
            picture("Dusk", "2.jpg", text=TEXT),
            "near_duplicate",
        ),
    ],
)
def test_beside_little_text_pictures_tell_pages_apart(
    one: PageFingerprint, two: PageFingerprint, expected: str
) -> None:
    """Where the title differs, too: by the text alone, as a scan decides, in the store and for two pages."""
    with TemporaryDirectory() as folder, dedup.open(folder) as detector:
        detector.insert(detector.reserve(one, f"{SITE}red"))
        assert detector.reserve(two, f"{SITE}blue", guard=False).status == expected
    assert dedup.near_duplicate(one, two, same_site=True) == (expected == "near_duplicate")
    assert dedup.near_duplicate(one, two)  # of unknown sites the texts decide
    unknown = replace(two, parts=b"")
    assert dedup.near_duplicate(one, unknown, same_site=True)


THINGS = st.builds(
    lambda kinds, number: kinds << 30 | number if kinds else 0,
    st.integers(0, 3),
    st.integers(0, 2**30 - 1) | st.sampled_from([0, 1, 2**15, 2**15 + 1]),
)


@given(THINGS, THINGS)
def test_things_are_compared_by_what_both_have(a: int, b: int) -> None:
    """In either order; a thing is never another than itself, and nothing is another than one that is not known."""

    def numbers(thing: int) -> dict[str, int]:
        if thing >> 30 == 3:
            return {"seller": thing & 0x7FFF, "maker": thing >> 15 & 0x7FFF}
        names = {0: (), 1: ("seller",), 2: ("maker",)}[thing >> 30]
        return dict.fromkeys(names, thing & 2**30 - 1)

    one, other = (PageFingerprint(0, b"", 0, 0, "", thing=thing) for thing in (a, b))
    shared = numbers(a).keys() & numbers(b).keys()
    bits = 2**30 - 1 if a >> 30 == b >> 30 else 0x7FFF
    expected = any((numbers(a)[name] ^ numbers(b)[name]) & bits for name in shared)
    assert are_two_things(one, other) == are_two_things(other, one) == expected
    assert not are_two_things(one, one)
