"""What a page calls itself: a copy's name adds or lacks, and a list may have two."""

import pytest

from dedup.core.fingerprint import PageReading, read_page
from dedup.model.page import PICTURE_FEATURES
from dedup.scrapy.evidence.callbacks import FEW, CallbackEvidence
from dedup.scrapy.evidence.items import ReadItem
from dedup.scrapy.evidence.page_text import (
    BLOCKS,
    HEADINGS,
    HEADINGS_BYTES,
    OWN_BYTES,
    Names,
    PageText,
    content_hashes,
    leads_the_same,
    text_of,
    title_of,
)
from dedup.scrapy.evidence.patterns import Pattern

HOLDS = ReadItem(holds_page=True)
WITH_TITLE = ReadItem(holds_page=True, has_title=True)
PROSE = "<p>" + " ".join(f"word{chr(97 + n % 26)} of the text {n % 7}" for n in range(60)) + "</p>"
ENTRY = "<h2><a href='/post/1'>Water leak</a></h2>"


def page(title: str, heading: str, main: str) -> str:
    return f"<title>{title}</title><main><h1>{heading}</h1>{main}</main>"


def is_copy(
    mine: str,
    theirs: str,
    signals: str,
    before: int | list[list[str]] = 0,
    kind: ReadItem = HOLDS,
    differences: tuple[str, ...] = ("/1:w>w",),
) -> bool:
    """Whether a page is a copy of another one, after some pages like it, or others and their matches.

    differences: of the URLs of those, in turns; the page's own is the first.
    """
    evidence = CallbackEvidence()
    patterns = [Pattern("parse", "a.example", signals, each) for each in differences]
    for _ in range(FEW):
        evidence.note_items("parse", [kind])

    def read(html: str, other: str) -> tuple[PageReading, PageText, PageText]:
        one, two = (
            read_page(each, url="http://a.example/x", links=True, numbers=True)
            for each in (html, other)
        )
        return one, text_of(one, html), text_of(two, other)

    for n, each in enumerate([[mine, theirs]] * before if isinstance(before, int) else before):
        evidence.note_other(patterns[(n + 1) % len(patterns)], *read(*each))
    return evidence.are_copies(patterns[0], *read(mine, theirs))


@pytest.mark.parametrize(
    ("mine", "theirs", "says"),
    [
        ("<title>March 2016 | Blog</title><h2>Water leak</h2>", "<title>Water leak | Blog</title>", True),
        ("<title>Blog</title><h2>Water leak</h2>", "<title>Blog</title><h1>Water</h1>", True),
        ("<title>Forum</title>", "<title>Forum: log in</title>", False),
        ("<title>Open in Leeds</title>", "<title>Open in York</title>", False),
        ("<title>Open</title><h2>Leeds</h2>", "<title>Open</title><h1>York</h1>", False),
        ("<title></title>", "<title></title>", False),
        (f"<title>{'far too long ' + ' '.join(map(str, range(OWN_BYTES)))}</title>", "<title>Blog</title>", False),
    ],
)  # fmt: skip
def test_names_add_or_lack(mine: str, theirs: str, says: bool) -> None:
    """One page says, in a heading, all that the other calls itself; whichever comes first."""
    assert Names.of(mine).add_or_lack(Names.of(theirs)) == says
    assert Names.of(theirs).add_or_lack(Names.of(mine)) == says


def test_names_are_bounded() -> None:
    """In bytes, whatever is written; what is cut off is not said."""
    found = Names.of("<h2>" + "é" * 3 * HEADINGS_BYTES + "</h2>")
    assert 0 < len(found.headings.encode()) <= HEADINGS_BYTES


def test_a_list_of_one_article_is_a_copy_of_the_article() -> None:
    """The month has a title of its own, and the article's in a heading. Not where items have the title."""
    month, article = page("March | Blog", "", ENTRY + PROSE), page("Water leak | Blog", "", PROSE)
    assert is_copy(month, article, "th")
    assert is_copy(article, month, "th")
    assert not is_copy(month, article, "th", kind=WITH_TITLE)
    aside = f"</main><div>{PROSE.replace('text', 'rest')}</div><div>{PROSE.replace('text', 'end')}</div><main>"
    assert not is_copy(month + aside, article + aside, "th")  # most of it was not read
    assert not is_copy(page("Leeds", "Leeds", PROSE), page("York", "York", PROSE), "th")


def test_a_list_under_two_names_is_a_copy_as_others_of_its_pattern_are() -> None:
    """The same entries, which lead to the same pages, under two tags: from the fourth on."""
    one, other = (page(f"{tag} | Blog", f"Tag {tag}", ENTRY + PROSE) for tag in ("git", "hub"))
    assert not is_copy(one, other, "thw", FEW - 1)
    assert is_copy(one, other, "thw", FEW)
    aside = (
        f"</main>{''.join(f'<div>{PROSE}</div>'.replace('text', e) for e in ('rest', 'end'))}<main>"
    )
    assert is_copy(one + aside, other + aside, "thw", FEW)  # what was read is the list
    elsewhere = page("hub | Blog", "Tag hub", ENTRY.replace("/1", "/2") + PROSE)
    assert not is_copy(one, elsewhere, "thw", FEW)
    text = page("hub | Blog", "Tag hub", ENTRY + PROSE.replace("wordb", "else"))
    assert not is_copy(one, text, "thw", FEW)
    assert not is_copy(*(page(f"{town}", town, PROSE) for town in ("Leeds", "York")), "thw", FEW)


def test_what_lists_of_a_callback_show_counts_however_their_urls_differ() -> None:
    """Tags, categories and authors. Not where menus differ, or what stands beside little text: it may be another language, or more."""
    one, other = (page(f"{tag} | Blog", f"Tag {tag}", ENTRY + PROSE) for tag in ("git", "hub"))
    urls = ("/1:w>w", "longer", "/0:w>w")
    assert is_copy(one, other, "thw", FEW, differences=urls)
    assert not is_copy(one, other, "thw", FEW - 1, differences=urls)
    assert not is_copy(one, other, "thwf", FEW, differences=urls)
    assert not is_copy(one, other, "thwb", FEW, differences=urls)
    words = " ".join(chr(ord("a") + n % 26) * (n + 2) for n in range(PICTURE_FEATURES))
    long = [each.replace("</main>", f"<p>{words}</main>") for each in (one, other)]
    assert is_copy(*long, "thwb", FEW, differences=urls)
    more = page("git | Blog", "Tag git", "<p>An advertisement.</p>" + ENTRY + PROSE)
    assert is_copy(one, more, "w", FEW, differences=urls)
    dated, plain = (page("Blog", "Blog", f"<p>On day{n}</p>{PROSE}") for n in (" 9", ""))
    assert not is_copy(dated, plain, "n", FEW, differences=urls)
    assert is_copy(dated, plain, "n", FEW)


def test_a_list_of_one_article_may_say_its_name_beside_it() -> None:
    """The same blocks beside the name as on three others, each with an article and a name of its own."""

    def month(name: str, main: str) -> str:
        here = f"<p>You are here: {name}</p><p>Archive for {name}</p>"
        return page(f"{name} | Blog", "Blog", here + main)

    march, april = (ENTRY + PROSE, ENTRY.replace("Water", "Gas") + PROSE.replace("wordb", "else"))
    article = page("Water leak | Blog", "Water leak", PROSE)
    assert not is_copy(month("March", march), article, "thw", FEW - 1)
    assert is_copy(month("March", march), article, "thw", FEW)
    other = [month("April", april), page("Gas leak | Blog", "", PROSE.replace("wordb", "else"))]
    assert is_copy(month("March", march), article, "thw", before=[other] * FEW)
    assert is_copy(article, month("March", march), "thw", before=[other] * FEW)
    assert not is_copy(month("March", march + "<p>And more"), article, "thw", before=[other] * FEW)
    assert not is_copy(month("March", april), article, "thw", FEW)  # a word of the text is replaced
    aside = f"</main><div>{PROSE.replace('text', 'rest')}</div><main>"
    assert not is_copy(month("March", march + aside), article + aside, "thw", FEW)


def test_a_number_in_the_heading_is_of_the_name() -> None:
    """A list by size, which leads to the same pages; not one whose text has other numbers."""
    one, other = (page("Shop", f"Size {size}", ENTRY + PROSE) for size in (36, 38))
    assert is_copy(one, other, "hnw", FEW)
    assert not is_copy(one, other, "hnw", FEW - 1)
    one, other = (
        page("Shop", f"Size {size}", f"{ENTRY}<p>Size: {size}{PROSE}") for size in (36, 38)
    )
    assert not is_copy(one, other, "hnw", FEW)
    one, other = (page("Shop", "Size", f"{ENTRY}<h2>{size}</h2>{PROSE}") for size in (36, 38))
    assert not is_copy(one, other, "nw", FEW)


def test_a_word_of_a_title_that_both_have_counts() -> None:
    """It tells them apart where it stands in the text."""
    one, other = (
        page("Small or large", "Shirt", f"{ENTRY}<p>Size: {size}</p>{PROSE}")
        for size in ("small", "large")
    )
    assert not is_copy(one, other, "w", FEW)


def test_a_slogan_above_the_headline_is_of_the_site() -> None:
    """Another one on each page, under a first heading that has the site's name; below the headline a word counts."""

    def text(slogan: str, main: str) -> str:
        return page("Water leak | Blog", "Blog", f"<p>{slogan}</p><h2>Water leak</h2>{main}")

    one, other = (text(f"all about {what}", PROSE) for what in ("gas", "water pipes"))
    assert not is_copy(one, other, "w", FEW - 1)
    assert is_copy(one, other, "w", FEW)
    one, other = (text("all", f"<p>all about {what}</p>{PROSE}") for what in ("gas", "water pipes"))
    assert not is_copy(one, other, "w", FEW)


def test_a_list_may_have_a_link_to_its_other_name() -> None:
    """A page has none to itself; where the two lead elsewhere, too, they are two lists."""
    links = "".join(f"<a href='/{name}'>x</a>" for name in ("git", "hub", "else"))

    def text(own: str, links: str) -> tuple[PageReading, PageText]:
        html = page(f"{own} | Blog", f"Tag {own}", ENTRY + PROSE + links)
        reading = read_page(html, url=f"http://a.example/{own}", links=True, numbers=True)
        return reading, text_of(reading)

    (one, _), (_, other) = text("git", links), text("hub", links)
    assert leads_the_same(one, other)
    assert leads_the_same(one, text("hub", links.replace("/git", "/hub"))[1])
    assert not leads_the_same(one, text("hub", links.replace("/else", "/more"))[1])
    assert not leads_the_same(text("git", "")[0], text_of(read_page("")))


@pytest.mark.parametrize("times", [1, BLOCKS], ids=["few blocks", "many"])
def test_what_a_text_adds(times: int) -> None:
    """The same sum either way; None where something is replaced. Of many blocks it is known whether all are the same."""

    def added(one: PageText, other: PageText) -> int | None:
        found = {one.added(other, named=named) for named in (True, False)}
        assert len(found) == 1
        return found.pop()

    texts = [f"<p>{chr(97 + n % 26)} {chr(97 + n // 26)} and more" for n in range(times)]
    rest, words = "".join(texts), ("one", "another")
    none, one, other = (
        text_of(read_page(f"<main>{rest}{more}</main>", numbers=True))
        for more in ("", *(f"<p>{each} banner" for each in words))
    )
    back = text_of(read_page(f"<main>{''.join(texts[::-1])}<p>one banner</main>", numbers=True))
    assert added(one, back) == added(none, none) == 0
    assert added(one, other) is None
    if times == 1:
        assert added(one, none) == -(added(none, one) or 0) != added(other, none)
    else:
        assert added(one, none) is None
        assert added(one._replace(texts=back.texts), one) == 0


def test_title_and_headings_are_read_in_any_case() -> None:
    """Their words, once each, without markup."""
    page = "<TITLE lang=en>Opening hours &amp; prices</Title><h1 class=a>Leeds <b>hours</b></h1><h2>Monday</h2>"
    assert Names.of(page) == Names("opening hours prices leeds", "monday")
    assert title_of("<p>no title") == ""


def hashes(html: str, callback: str = "parse") -> set[bytes]:
    found = content_hashes(callback, read_page(html, numbers=True), html)
    return {found[at : at + 8] for at in range(0, len(found), 8)}


def test_content_is_new_by_a_word_a_block_or_a_picture_and_not_by_a_number() -> None:
    """Of one callback; a picture is another one by its address, numbers in it included."""
    one = hashes(page("Lake 17", "Lake 17", "<p>Seen in 2026</p><img src=/17.jpg>"))
    assert hashes(page("Lake 18", "Lake 18", "<p>Seen in 2027</p><img src=/17.jpg>")) == one
    assert hashes(page("Hill 17", "Hill 17", "<p>Seen in 2026</p><img src=/17.jpg>")) - one
    assert hashes(page("Lake 17", "Lake 17", "<p>Seen at night</p><img src=/17.jpg>")) - one
    assert (
        len(hashes(page("Lake 17", "Lake 17", "<p>Seen in 2026</p><img src='/18.jpg'>")) - one) == 1
    )
    assert not hashes(page("Lake 17", "Lake 17", ""), "other") & one


@pytest.mark.parametrize("piece", ["<img", "<img ", "<img src", "<img src=", " src= "])
def test_promise_7_any_bytes_are_safe_pictures_are_looked_for_in_linear_time(piece: str) -> None:
    """In tags without an end, too: this ends."""
    nothing = read_page("", numbers=True)
    assert len(content_hashes("parse", nothing, "<img " + piece * 200_000)) <= 8


@pytest.mark.parametrize("piece", ["<h1>", "<h1", "<h1 <", "<title>", "<title", "<h2><", "<"])
def test_promise_7_any_bytes_are_safe_a_page_of_unfinished_tags_is_read(piece: str) -> None:
    """In linear time: this ends; the headings after the first are not read."""
    found = Names.of(piece * 500_000)
    assert not found.own
    assert found == Names.of(piece * (HEADINGS + 1000))
