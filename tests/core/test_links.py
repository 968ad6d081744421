"""Where pages lead, against the oracle; and the set of hashes that remembers it."""

import oracle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sizes import examples

from dedup.core.fingerprint import read_page
from dedup.core.numbers import HashSet
from dedup.model.errors import UsageError
from dedup.model.page import PICTURE_FEATURES
from dedup.model.recipes import recipe_of

HREFS = st.lists(
    st.sampled_from(
        "a b / / // /. /.. . .. ? & &amp; = x=1 y=2 sid=3 utm_a=4 # http: https: HTTP://h //h //H //g :80 ; "
        ";jsessionid=5 ;c (S(d)) (S(d)) %2F %2f % u=http://h/d/e u=http%3A%2F%2Fh%2Fd%2Fe /d/e next=/d/e "
        "next=%2Fd%2fE next=/d/ef javascript: \t &#x26; &copy \xe9".split(" ")
    ),
    max_size=7,
).map("".join)
TEXT = "<p>a b c d e f g h i j k l m n o p q r s t u v w x y z" * 4
PLACES = st.sampled_from(
    [
        "<a href='{}'>to</a>",
        "<a href='{}'> 12 </a>",
        "<nav><a href='{}'>one</a><a class='x next-page' href='{}2'>two</a><a href='{}3'>3</a></nav>",
        "<div hidden><a rel=next href='{}'>one</a><a href='{}2'>two</a></div>",
        "<form><p>a b c d e f g h i j k l m n o p q r s t u v<a href='{}'>one</a></form>",
        "<main><p>a b c d<a href='{}'>one</a></main><a href='{}2'>two</a>",
        f"<main>{TEXT}</main><a href='{{}}'>5</a>",
        "<link rel='prefetch Next' href='{}'><link rel=nextone href='{}2'>",
        "<svg><a href='{}'>one</a></svg><p>text and more text",
        "<header><a href='{}'>1</a><a href='{}2' class=NEXT>on</a></header>",
        "<title>Kilns</title><main><a href='{}'>one</a><h1>Kilns</h1></main>",
        "<h1>Kilns</h1><a href='{}'>one</a>",
    ]
)
PAGES = st.lists(st.tuples(PLACES, HREFS), max_size=6).map(
    lambda parts: "".join(place.replace("{}", href) for place, href in parts)
)
URLS = st.sampled_from(
    ["", "http://h", "http://h/", "https://h/d/e?x=1", "http://h/d/e?y=2&x=1&sid=7", "http://H/d/"]
)


def links(html: bytes, url: str, **options) -> list[int]:
    """Return where a page leads, as numbers."""
    return as_numbers(read_page(html, encoding="utf-8", url=url, links=True, **options).links)


def as_numbers(found: bytes) -> list[int]:
    return [int.from_bytes(found[at : at + 8], "little") for at in range(0, len(found), 8)]


@settings(max_examples=examples(600))
@given(PAGES, URLS)
@example("<a href='/d/./e/..'>x", "http://h/d/e?x=1")
@example("<a href='?'>x<a href='//'>y<a href='http:'>z", "http://h/d/e?x=1")
@example(f"<a href=/a>to</a><main>{TEXT}</main><a href=/b>5</a>", "")
@example(f"<title>Kilns</title><main>{TEXT}</main><h1>Kilns</h1><a href=/a>to</a>{TEXT}", "")
def test_links_equal_the_oracle(html: str, url: str) -> None:
    """Which links count, what stands for each, and their order are the oracle's."""
    page = html.encode()
    found = read_page(page, encoding="utf-8", url=url, links=True)
    every, content = oracle.read_links(page, url.encode())
    assert (as_numbers(found.links), as_numbers(found.content_links)) == (every, content)


def test_the_fingerprint_knows_nothing_of_links() -> None:
    """A page of more than little text is the same with its links asked for or not; they are given only when asked for."""
    words = " ".join(f"word{n}" for n in range(PICTURE_FEATURES))
    html = f"<p>{words} <a href=/x>and a link</a>"
    asked = read_page(html, url="http://h/", links=True)
    plain = read_page(html, url="http://h/")
    assert asked.fingerprint == plain.fingerprint
    assert len(asked.links) == len(asked.address) == 8
    assert plain.links == plain.address == b""


def test_address_is_what_a_link_to_the_page_has() -> None:
    """The hash of the page's own address is that of a link to it elsewhere."""
    there = read_page(b"<a href='/a?sid=1&b=2'>x", url="http://h/c", links=True)
    assert read_page(b"", url="http://h/a?b=2", links=True).address == there.links


def test_a_secret_keys_links() -> None:
    """Without the secret nobody knows which links collide."""
    html = b"<a href=/x>x"
    assert links(html, "", recipe=recipe_of(secret="one")) != links(html, "")


def test_links_of_a_page_in_another_encoding() -> None:
    """A page that is read twice, for its encoding was guessed, has its links once."""
    html = b"<p>" + "Größe und Länge über alles, schön".encode("latin-1") * 20 + b"<a href=/x>y"
    assert len(read_page(html, url="http://h/", links=True).links) == 8


def numbers(*hashes: int) -> bytes:
    return b"".join(one.to_bytes(8, "little") for one in hashes)


def test_a_set_as_bytes() -> None:
    """Its bytes make another set that holds the same."""
    hashes = HashSet(1000)
    hashes.add(numbers(*range(1, 400)))
    other = HashSet(1000)
    other.add(hashes.to_bytes())
    assert len(hashes.to_bytes()) == 8 * 399
    assert other.missing(numbers(*range(1, 401))) == 1


@pytest.mark.parametrize("wrong", [b"1234567", b"123456789"])
def test_a_set_takes_whole_hashes(wrong: bytes) -> None:
    """Bytes that are no hashes are refused; so is a set of none."""
    with pytest.raises(UsageError, match="each has 8"):
        HashSet(2).add(wrong)
    with pytest.raises(UsageError):
        HashSet(1)
