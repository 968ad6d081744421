"""Fingerprints: the native core against the slow oracle, golden values, and any bytes at all."""

import hashlib
import json
import random
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import oracle
import pytest
from both_readers import as_reading
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sizes import FULL, examples

from dedup.core.fingerprint import (
    Block,
    PageReading,
    distance,
    fingerprint,
    fingerprint_text,
    main_words,
    near_duplicate,
    number_runs,
    read_page,
    similarity,
)
from dedup.core.simhash import simhash, token_hashes
from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.page import PageFingerprint, hex_fingerprint
from dedup.model.recipes import Recipe, recipe_of

ALL = 2**64 - 1
GOLDEN: dict[str, Any] = json.loads((oracle.GOLDEN / "golden.json").read_text("utf-8"))
SECRET = GOLDEN["secrets"][0]["secret"]
KEYED = recipe_of(secret=SECRET)

UINT64 = st.integers(0, ALL)
SKETCH = st.builds(
    bytes.__add__,
    st.binary(min_size=33, max_size=33),
    st.sampled_from([bytes(4), bytes([0, 0, 0, 1]), bytes([1, 0, 0, 0]), b"\xff" * 4]),
)


def key_of(recipe: Recipe) -> oracle.Key:
    """Return the key of a recipe that has one."""
    assert recipe.key is not None
    return recipe.key


def directory(url: str | None) -> bytes:
    """Return the path of a URL up to its last "/"."""
    return b"" if url is None else b"/" + url.encode().split(b"/", 3)[3].rpartition(b"/")[0] + b"/"


def words(html: bytes | str) -> list[oracle.Block]:
    """Return a page's kept blocks as the oracle gives them."""
    return [oracle.Block(*block) for block in main_words(html, encoding="utf-8")]


# --------------------------------------------------------------------------------------- hashes


@given(st.lists(st.binary(max_size=80)))
def test_token_hashes_equal_the_oracle(tokens: list[bytes]) -> None:
    """The public hash of any bytes is that of the specification, and so is that with a secret's key."""
    key = key_of(KEYED)
    assert token_hashes(tokens).tolist() == [oracle.token_hash(token) for token in tokens]
    expected = [oracle.token_hash(token, key) for token in tokens]
    assert token_hashes(tokens, recipe=KEYED).tolist() == expected


@pytest.mark.parametrize(
    ("token", "algorithm", "seed", "expected"),
    [
        ("foobar", "fnv1a", 0, 0x85944171F73967E8),
        ("test string", "fnv1", 0, 8811532157352841348),
        ("Four score and seven years ago", "jenkins", 0, 0x17770551CE7226E6),
        ("Four score and seven years ago", "jenkins", 1, 0xE3607CAEBD371DE4),
    ],
)
def test_published_hashes_give_their_published_values(
    token: str, algorithm: Any, seed: int, expected: int
) -> None:
    """FNV-1, FNV-1a and Jenkins' lookup3 are those of everyone else."""
    assert token_hashes([token], algorithm, seed=seed).tolist() == [expected]


def test_an_unknown_hash_is_refused() -> None:
    """The error names those that are known."""
    with pytest.raises(UsageError, match="'md5'; known are recipe, fnv1, fnv1a, jenkins"):
        token_hashes(["a"], "md5")  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------- simhash


@given(st.lists(UINT64, max_size=70))
def test_simhash_equals_the_oracle(hashes: list[int]) -> None:
    """Of hashes without weights: each counts one (native/tests/test_simhash.c has many)."""
    assert simhash(np.array(hashes, dtype=np.uint64)) == oracle.simhash(hashes)


@pytest.mark.parametrize(("kind", "most"), [(np.uint32, 2**32 - 1), (np.uint8, 3)])
@given(data=st.data())
def test_weighted_simhash_equals_the_oracle(data: st.DataObject, kind: Any, most: int) -> None:
    """Integer weights count exactly, up to the greatest; ties of small ones are no exception."""
    pairs = data.draw(st.lists(st.tuples(UINT64, st.integers(0, most)), max_size=40))
    hashes, weights = [h for h, _ in pairs], [w for _, w in pairs]
    found = simhash(np.array(hashes, dtype=np.uint64), np.array(weights, dtype=kind))
    assert found == oracle.simhash(hashes, weights)


@example([(1, 1.0), (2, 0.9999999)])
@given(st.lists(st.tuples(UINT64, st.floats(0, allow_infinity=False)), min_size=1, max_size=40))
def test_float_weights_equal_the_oracle(pairs: list[tuple[int, float]]) -> None:
    """Float weights count in steps of the greatest."""
    hashes, weights = [h for h, _ in pairs], [w for _, w in pairs]
    assert simhash(np.array(hashes, dtype=np.uint64), weights) == oracle.simhash(hashes, weights)


def test_compatible_fingerprints_can_be_made() -> None:
    """FNV-1 words and simhash give what mfonda/simhash gives, where there is no tie."""
    assert simhash(token_hashes("this is a test phrase".split(), "fnv1")) == 0x8C3A5F7E9ECB3F35
    assert simhash(token_hashes("this is a test phrass".split(), "fnv1")) == 0x8C3A5F7E9ECB3F21


@pytest.mark.parametrize(
    ("hashes", "weights", "message"),
    [
        ([[1, 2]], None, "hashes must be integers"),
        (7, None, "hashes must be integers"),
        (np.array([[1, 2]]), None, r"hashes has shape \(1, 2\)"),
        (np.array([1.0]), None, "hashes is an array of float64"),
        (np.array([-1]), None, "hashes holds -1"),
        ([2**64], None, "hashes must be integers in 0"),
        ([True], None, "hashes must be integers"),
        ([1, 2], [1], r"weights has shape \(1,\), hashes \(2,\)"),
        ([1], [[1.0]], "weights must be integers"),
        ([1, 2], [[1], [2, 3]], "weights must be numbers"),
        ([1], [-1], "weights holds -1"),
        ([1], [-0.5], "weights holds a negative or non-finite"),
        ([1], [float("nan")], "weights holds a negative or non-finite"),
        ([1], [2**32], "above"),
    ],
)
def test_bad_simhash_input_is_a_usage_error(hashes: Any, weights: Any, message: str) -> None:
    """The error names the argument and what is wrong with it."""
    with pytest.raises(UsageError, match=message):
        simhash(hashes, weights)


def test_python_integers_of_any_size_are_hashes() -> None:
    """A list with small and great integers is what it says."""
    assert simhash([2**63, 5]) == oracle.simhash([2**63, 5])
    assert simhash([5, ALL, 2**63], [1, 1, 1]) == oracle.simhash([5, ALL, 2**63])


@given(UINT64, UINT64)
def test_distance_counts_differing_bits(a: int, b: int) -> None:
    """Hamming distance, the same in both directions."""
    assert distance(a, b) == distance(b, a) == sum((a >> i ^ b >> i) & 1 for i in range(64))


@pytest.mark.parametrize("wrong", [-1, 2**64, 1.5, "a", None, True])
def test_distance_is_of_64_bit_integers(wrong: Any) -> None:
    """Anything else is named and refused: a signed number has other bits."""
    with pytest.raises(UsageError, match="64"):
        distance(0, wrong)


def test_distance_of_numpys_integers_is_an_int() -> None:
    """As they come out of an array."""
    assert type(bits := distance(np.uint64(2**63), np.uint8(1))) is int
    assert bits == 2


# ----------------------------------------------------------------------------------------- text


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            "aZ _9-éßĲıİΣςжЙאعकกํあア中国한ᄀ\u00ad\u200b\u200d\u0301\ufe0f\ufeff\u3000'\n"
        ),
        st.deferred(lambda: st.sampled_from(oracle.stable())),
        st.sampled_from(["w" * 127, "é" * 64, "\U00010400" * 33, "a中", "中b", " the "]),
    ),
    max_size=60,
).map("".join)


@given(TEXTS)
@example("İ" * 200)
@example("a" * 128 + "é" + "中" * 3)
def test_fingerprints_of_text_equal_the_oracle(text: str) -> None:
    """Tokens of any script, cut, paired and hashed, give the same value, sketch and count."""
    page = oracle.read_text(text)
    assert fingerprint_text(text) == as_reading(page).fingerprint


@given(st.lists(st.lists(st.sampled_from(["a", "b7", "12", "1,5", "x", "٣", "²"])), max_size=6))
def test_numbers_come_with_a_word_beside_them(blocks: list[list[str]]) -> None:
    """The runs of tokens with digits, each with the word behind it in its block, else the token before it."""
    html = "".join(f"<p>{' '.join(block)}" for block in blocks)
    runs: list[list[int]] = []
    run: list[int] = []
    last = before = 1

    def token_hash(token: str) -> int:
        return int(token_hashes([token], recipe=KEYED)[0]) or 1

    def end(word: int) -> None:
        if run:
            runs.append([word, *run])
            run.clear()

    def has_digit(token: str) -> bool:
        return any(map(str.isdecimal, token))

    for block in main_words(html, recipe=KEYED):
        if not all(map(has_digit, block.tokens)):
            end(before)
        for token in block.tokens:
            if has_digit(token):
                before = before if run else last
                run.append(token_hash(token))
            else:
                end(token_hash(token))
            last = token_hash(token)
    end(before)
    assert list(number_runs(read_page(html, recipe=KEYED, numbers=True).numbers)) == runs


def test_every_character_has_the_class_of_the_specification() -> None:
    """All of Unicode: classes and lower case have the golden digest, whatever Python runs this."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    text = "".join(f"a{chr(code)}b " for code in codes if chr(code) not in "<&")
    tokens = iter([token for block in main_words(text, encoding="utf-8") for token in block.tokens])
    lines = []
    for code in codes:
        if chr(code) in "<&":
            continue
        first = next(tokens)
        if first == "ab":
            lines.append(f"{code:04x} ignored {code:04x}\n")
        elif len(first) == 3:
            lines.append(f"{code:04x} word {ord(first[1]):04x}\n")
        elif (second := next(tokens)) != "b":
            lines.append(f"{code:04x} spaceless {ord(second):04x}\n")
            next(tokens)
    assert len(lines) == GOLDEN["characters"]["lines"]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert digest == GOLDEN["characters"]["sha256"]


def test_markup_in_plain_text_is_text() -> None:
    """fingerprint_text() knows no tags and no references."""
    assert fingerprint_text("a<b>c &amp; d") == fingerprint_text("a b c amp d")


def test_a_lone_surrogate_separates_words() -> None:
    """Text that is not quite Unicode is read all the same."""
    assert fingerprint_text("one\ud800two") == fingerprint_text("one two")


# ---------------------------------------------------------------------------------------- pages


TAG_NAMES = [*sorted(set().union(*oracle.TAGS.values())), "b", "span", "x-y", "figurecaption2"]
COMMON = "div p a a b span ul li article section table tr td h2 header nav main dl dt dd".split()
ATTRIBUTES = """hidden|aria-hidden=true|ARIA-HIDDEN='True'|class='post-Comments x'|id=reply|role=main
role='navigation'|role=ARTICLE|style='display : none'|style="x:y;Visibility:HIDDEN !important"
type=application/json|type='application/foo+JSON'|type=application/ld+json|href=/a?b=1|href
href='x?utm_source=1&amp;c=2'|HREF="http://h/d/y;jsessionid=4"|href=/d/z?&sid=1&&q&utm_*x=1|=a
rel=canonical|rel='x Canonical'|a=b/|class|title='a > b'|data-x=">"|href=//h|href='./a&copy=1&copy;'|href=mailto:x|src='i/1.png?sid=2&x=3'|src=data:x|data-x=1|DATA-y|data-|data-nonce=5|data-csrf-token=6
itemscope|itemprop=sku|itemprop='gtin13 name'|itemprop='offers x'|itemprop=mainEntity|content='a&amp;b&#x41;'|content=/e?a
property=og:url|PROPERTY='og:URL'|open|OPEN=x|shadowrootmode=open|hidden=until-found|hidden=Until-Found
srcdoc='<p>in &amp; out &copy; <b>x'|srcdoc""".replace("\n", "|")
PIECES = [
    "foo ", "bar", "Baz ", "x_1 ", "中", "文字 ", "日本", "ก", "Привет ", "é", "one two three four ",
    "five six seven eight nine ten eleven twelve ", "&amp;", "&eacute", "&notit;", "&#x41;", "&#0;",
    "12 ", "3rd ", "٣", "x１", "<h1>", "</h1>", "<script>window.__a=1</script>", "<script type='application/ld+json'>{\"sku\": \"7\"}</script>",
    "<meta property=og:url content='/m?n'>", "<i itemprop=sku>s-1 ", "&#150;", "&#99999999999;", "&", "&;", "&#", "&#x;", "&lt;b", "&shy;", "&NotEqualTilde;", "<",
    "©", "&copy; ", "<title>", "</title>", "<link rel=canonical href='/x'>", "&nbsp;", "< ", "</", "</>", "<!-- a -->", "<!-->", "<!--->", "<!--x--!>", "<!d>", "<?p>", "<!--", "\u00ad",
    "<svg>", "<svg/>", "</svg>", "<math>", "</math>", "<foreignObject>", "</foreignObject>", "<![CDATA[", "]]>", "]", "<![cdata[x]]>",
    "<textarea>", "</textarea>", "<xmp>one <b>&amp;", "</xmp>", "<template shadowrootmode=closed>", "<pre>", '<pre>{"a": 1}</pre>',
    "\u200b", "\ufeff", "İ", "Ⱥ" * 70, "a" * 200, "\0", "\x0b", "<div ", "<a href='", "</p", "\n",
]  # fmt: skip


@st.composite
def tags(draw: st.DrawFn) -> str:
    name = draw(st.one_of(st.sampled_from(COMMON), st.sampled_from(TAG_NAMES)))
    if draw(st.integers(0, 9)) < 4:
        return f"</{name}>"
    chosen = draw(st.lists(st.sampled_from(ATTRIBUTES.split("|")), max_size=2))
    start = "".join([f"<{name}", *(f" {attribute}" for attribute in chosen)])
    return start + draw(st.sampled_from([">", ">", ">", ">", " >", "/>"]))


BEGINNINGS = """|||<?xml version='1.0'?>|\ufeff\n<?xml |<?xmlx ?>|<svg>|<math>|{|\ufeff { "|{}|[ 1|[x|\n[[|<p><pre>{ }|<pre>\n[-1|a<pre>{}"""
PAGES = st.builds(
    lambda beginning, pieces: "".join([beginning, *pieces]).encode(),
    st.sampled_from(BEGINNINGS.split("|")),
    st.lists(st.one_of(tags(), st.sampled_from(PIECES)), max_size=80),
)
URLS = st.sampled_from([None, "http://h/d/page?x", "https://h/d/e/"])


def block_list(reading: PageReading) -> list[int]:
    return [entry for (entry,) in struct.iter_unpack("<Q", reading.blocks)]


def check_page(html: bytes, url: str | None = None) -> None:
    """Hold the native core to the oracle on a page."""
    page = oracle.read_html(html, directory(url))
    assert words(html) == page.blocks
    reading = read_page(html, encoding="utf-8", url=url, blocks=True)
    found = replace(reading.fingerprint, links=0)
    beside = dict.fromkeys(("blocks", "links", "content_links", "address"), b"")
    assert reading._replace(**beside, fingerprint=found) == as_reading(page)
    assert block_list(reading) == oracle.block_list(html)


@settings(max_examples=examples(400))
@given(PAGES, URLS)
@example(b"<ul><li hidden>one<li class=reply>two<li>three", None)
@example(b"<ul><li class=reply>one<li>two<li id=comments>three", None)
@example(b"<p hidden>one<div role=main><p>two</div><p style=display:none>three<p>four", None)
@example(b"<a href=/x hidden>one<a href=/y>two", None)
@example(b"<a href=/x title='never finished>", None)
@example(b"<p>one<select><option>no</select>two", None)
@example(b"<A hidden><<a>x", None)
@example(b"<?xml version='1.0'?><title/><script/>one<nav/>two<p hidden/>three", None)
@example(b"<?xml?><nav/>one", None)
def test_pages_equal_the_oracle(html: bytes, url: str | None) -> None:
    """Words, weights, fingerprints and counts of generated pages are the oracle's."""
    check_page(html, url)


@settings(max_examples=examples(120))
@given(st.integers(0, 2**32))
@example(2971)
def test_long_pages_equal_the_oracle(seed: int) -> None:
    """So are those of pages long enough for every rule about blocks."""
    numbers = random.Random(seed)
    attributes = ATTRIBUTES.split("|")
    parts = []
    for _ in range(numbers.randrange(150)):
        name = numbers.choice(COMMON)
        few = "".join(f" {numbers.choice(attributes)}" for _ in range(numbers.random() < 0.15))
        words = numbers.choice([25, 25, 25, 60])
        text = " ".join(f"w{numbers.randrange(300)}" for _ in range(numbers.randrange(words)))
        text += numbers.choice(["", "", "", "", "", " ©"])
        parts.append(numbers.choice([f"<{name}{few}>", f"</{name}>", text, text]))
    check_page("".join(parts).encode())


NAMES = "sku SKU gtin gtin13 gtin123 isbn mpn productID identifier @id @type @graph mainEntity offers value name"
STRINGS = r"""a|A1|007-12|Product|WebPage|urn:x:1|https://h/x?y=1#z|/x;sid=1/y|x/y|#a|_:b|\u0041|\ud83d\ude00|\ud83d\u00"""
SCALARS = ["12", "0012", "1.5 ", "null", "TRUE", "1 2", "-"]
ODD = [*'{}[],:"\\ \né\0', "\\u", '"sku"', '"@id"', '"offers":', '"@graph":[', '"value":']


def json_values() -> st.SearchStrategy[str]:
    """Return JSON of things, as text."""
    string = st.sampled_from(
        [f'"{one}"' for one in [*STRINGS.split("|"), "", "x" * 300, "\\u00e9" * 90]]
    )
    name = st.sampled_from([f'"{one}"' for one in NAMES.split()])
    return st.recursive(
        st.one_of(string, st.sampled_from(SCALARS)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda found: f"[{','.join(found)}]"),
            st.lists(st.tuples(name, inner).map(" : ".join), max_size=5).map(
                lambda found: f"{{{', '.join(found)}}}"
            ),
        ),
        max_leaves=25,
    )


def linked(json_text: str, before: str = "") -> bytes:
    """Return a page with this JSON-LD."""
    return f"{before}<script type=application/ld+json>{json_text}</script>".encode()


@settings(max_examples=examples(400))
@given(
    json_values(),
    st.sampled_from(["", "<link rel=canonical href='/x'>", "<link rel=canonical href=/z>"]),
)
def test_things_of_json_equal_the_oracle(text: str, before: str) -> None:
    """Whatever a page's JSON-LD names, the thing is the oracle's."""
    check_page(linked(text, before))


@settings(max_examples=examples(400))
@given(st.lists(st.one_of(json_values(), st.sampled_from(ODD)), max_size=12).map("".join))
@example('{"sku": "a')
@example('{"sku": 12')
@example('{"sku": "a\\')
@example('"sku", 1, {"sku" 1]')
def test_things_of_broken_json_equal_the_oracle(text: str) -> None:
    """What is not JSON has a meaning, too, and the same one everywhere."""
    check_page(linked(text, "<link rel=canonical href=/x>"))


@pytest.mark.parametrize("depth", [13, 14, 15, 16, 17, 40])
@pytest.mark.parametrize("way", ['{"mainEntity":', '{"@graph":[', "[", '{"sku":[', '{"x":['])
def test_deep_things_equal_the_oracle(way: str, depth: int) -> None:
    """How deep things are looked for is what the specification says."""
    check_page(linked(way * depth + '{"sku":"deep"}' + '], "sku": "shallow"}' * depth))


OPENERS = ["<div>", "<b>", "<i><p>", "<a href=x>", "<li>", "<table><td>"]
DEPTHS = [63, 64, 65, 66, 511, 512, 513, 700]


@pytest.mark.sized
@pytest.mark.parametrize(
    ("opener", "times"),
    [
        (opener, depth)
        for i, opener in enumerate(OPENERS)
        for j, depth in enumerate(DEPTHS)
        if bool((i + j) % 4) == FULL
    ],
)
def test_deep_pages_equal_the_oracle(opener: str, times: int) -> None:
    """The depth of the stack, and how deep it is searched, are those of the specification."""
    closers = [f"</{name}>x " for name in ("b", "p", "li", "div", "table", "nav", "a")]
    rest = "<nav>menu <p>" + "".join(closers) * 20 + "<p>one<p>two</nav>three" + closers[0] * 600
    check_page((opener * times + rest + "tail").encode())


@settings(max_examples=examples(150))
@given(st.sampled_from(GOLDEN["pages"]), st.randoms())
def test_damaged_golden_pages_equal_the_oracle(
    page: dict[str, Any], numbers: random.Random
) -> None:
    """A page with bytes cut out, put in and changed is read as the oracle reads it."""
    html = bytearray((oracle.GOLDEN / page["file"]).read_bytes())
    for _ in range(numbers.randrange(1, 12)):
        at = numbers.randrange(len(html))
        html[at : at + numbers.choice([0, 1, 1, 30])] = numbers.choice(
            [b"", b"<", b">", b'"', b"&", b"/", b"\xff", b"<!--", b"</p>", b"<article>"]
        )
    check_page(bytes(html))


@pytest.mark.parametrize("page", GOLDEN["pages"], ids=lambda page: page["file"])
class TestGoldenPages:
    """The pages of the specification."""

    def reading(self, page: dict[str, Any], recipe: Recipe | None = None) -> PageReading:
        html = (oracle.GOLDEN / page["file"]).read_bytes()
        return read_page(html, encoding="utf-8", url=page["url"], recipe=recipe)

    def test_the_list_of_blocks(self, page: dict[str, Any]) -> None:
        """Its blocks are the golden ones, public and keyed."""
        html = (oracle.GOLDEN / page["file"]).read_bytes()
        for recipe, name in ((None, "block_list"), (KEYED, "keyed_block_list")):
            reading = read_page(html, encoding="utf-8", recipe=recipe, blocks=True)
            assert [hex_fingerprint(entry) for entry in block_list(reading)] == page[name]

    def test_promise_5_a_fingerprint_means_one_thing(self, page: dict[str, Any]) -> None:
        """The native core gives the golden numbers, on this machine as on every other."""
        reading = self.reading(page)
        found = reading.fingerprint
        assert found.recipe == GOLDEN["recipe"]
        assert (hex_fingerprint(found.value), found.sketch.hex()) == (page["value"], page["sketch"])
        assert (f"{found.title:08x}", f"{found.canonical:08x}") == (
            page["title"],
            page["canonical"],
        )
        assert found.features == page["features"]
        counts = ("text_bytes", "data_bytes", "words", "words_read")
        assert tuple(getattr(reading, count) for count in counts) == tuple(
            page[count] for count in counts
        )

    def test_promise_5_a_secret_means_another_thing(self, page: dict[str, Any]) -> None:
        """With a secret there are other golden numbers, under another id."""
        found = self.reading(page, KEYED).fingerprint
        assert found.recipe == GOLDEN["secrets"][0]["id"]
        assert hex_fingerprint(found.value) == page["keyed_value"]
        assert found.sketch.hex() == page["keyed_sketch"]
        assert f"{found.title:08x}" == page["keyed_title"]
        assert f"{found.canonical:08x}" == page["keyed_canonical"]

    def test_the_oracle_gives_the_golden_numbers(self, page: dict[str, Any]) -> None:
        """So does the oracle, which is written from the specification alone."""
        html = (oracle.GOLDEN / page["file"]).read_bytes()
        assert as_reading(oracle.read_html(html, directory(page["url"]))) == self.reading(page)

    def test_the_blocks_are_golden(self, page: dict[str, Any]) -> None:
        """main_words() gives the golden tokens and weights."""
        html = (oracle.GOLDEN / page["file"]).read_bytes()
        expected = [Block(weight, tokens.split(" ")) for weight, tokens in page["blocks"]]
        assert main_words(html, encoding="utf-8") == expected


TWENTY = " ".join(f"w{i}" for i in range(20))


@pytest.mark.parametrize(
    ("html", "weights"),
    [
        (f"<h2>title</h2><p>{TWENTY}", [20, 20]),
        (f"<h1>title</h1><h2>title two</h2><p>{TWENTY}", [20, 20, 20]),
        (f"<p>{TWENTY}<h2>more</h2>", [20, 2]),
        (f"<p>{TWENTY}<h2>more</h2><p><a>only a link</a></p>", [20, 2]),
        (f"<p>{TWENTY}<h2>{TWENTY} not repeated</h2><p>one two three", [20, 3, 3]),
    ],
)
def test_a_heading_weighs_what_stands_under_it(html: str, weights: list[int]) -> None:
    """As much as the next block that is no heading; 2 if that is left out, or there is none."""
    assert [block.weight for block in main_words(html)] == weights
    assert [block.weight for block in oracle.read_html(html.encode()).blocks] == weights


@pytest.mark.parametrize(
    ("html", "lengths"),
    [
        (f"<p>{TWENTY}<p>a b c d<p>a b c d<p>A, b; c d!", [20, 4]),
        (f"<p>{TWENTY}<p>a b c<p>a b c", [20, 3, 3]),
        (f"<p>{TWENTY}<p>a b c d<p>d c b a", [20, 4, 4]),
        (f"<p>{TWENTY}<nav>a b c d</nav><p>a b c d<p>a b c", [20, 4, 3]),
        (f"<p>{TWENTY}<p>{TWENTY}", [20]),
        ("<p>a b c d e f g h i j<p>a b c d e f g h i j", [10]),
    ],
)
def test_a_repeated_block_counts_once(html: str, lengths: list[int]) -> None:
    """From 4 tokens on; one that was not kept repeats nothing."""
    assert [len(block.tokens) for block in main_words(html)] == lengths
    assert [len(block.tokens) for block in oracle.read_html(html.encode()).blocks] == lengths


def entries(word: str, count: int, start: int = 0) -> str:
    """Return a list of links, two words each."""
    return "".join(f"<li><a href=/{i}>{word} {word}{i}</a>" for i in range(start, start + count))


MAIN = "<title>{} of a town</title><main><h1>{}</h1>" + f"</main><p>{' '.join(map(str, range(99)))}"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        # lists beside a text tell nothing: what is learned of a site does (tests/detector/test_templates.py)
        (f"<p>{TWENTY}{entries('a', 60)}", f"<p>{TWENTY}{entries('b', 60)}", True),
        # a list of links is told by its title
        (f"<title>One</title><p>one{entries('a', 60)}", f"<title>Other</title><p>two{entries('a', 60)}", False),
        (f"<title>One</title><p>one{entries('a', 60)}", f"<title>One</title><p>two{entries('a', 60)}", True),
        # and so is a page where what article or main says is little beside what stands outside
        (MAIN.format("Map", "Map"), MAIN.format("News", "News"), False),
        (MAIN.format("Map", "Map"), MAIN.format("Map", "News"), True),
        (MAIN.replace("main>", "div>").format("Map", "Map"), MAIN.replace("main>", "div>").format("News", "News"), True),
    ],
)  # fmt: skip
def test_what_tells_pages_of_little_text_apart(one: str, other: str, alike: bool) -> None:
    """As the oracle says, to the bit."""
    found = [fingerprint(html) for html in (one, other)]
    read = [oracle.read_html(html.encode()) for html in (one, other)]
    assert [page.sketch for page in found] == [page.sketch for page in read]
    assert (similarity(*found) > 0.9) is alike


def test_promise_5_the_specification_says_how_to_read_the_golden_numbers() -> None:
    """Every group of tests/golden/golden.json, and the recipe, stands in the specification's section about them."""
    text = oracle.SPECIFICATION.read_text("utf-8").partition("\n## Golden vectors\n")[2]
    assert [name for name in GOLDEN if f"`{name}`" not in text] == []
    assert f"`{GOLDEN['recipe']}`" in oracle.SPECIFICATION.read_text("utf-8")


def test_promise_5_fingerprints_of_two_recipes_are_not_compared() -> None:
    """near_duplicate() refuses two recipes, and two secrets."""
    public, keyed = fingerprint_text("words"), fingerprint_text("words", recipe=KEYED)
    other = fingerprint_text("words", recipe=recipe_of(secret="another"))
    for a, b in ((public, keyed), (keyed, public), (keyed, other)):
        with pytest.raises(RecipeMismatch, match="cannot be compared"):
            near_duplicate(a, b)


# ------------------------------------------------------------------------------------- identity


HREFS = st.lists(
    st.one_of(
        st.sampled_from(list("/?#;&=.:a ABé\t\n*")),
        st.sampled_from(
            "http: https: // ./ ../ /d/ sid utm_ utm_x jsessionid= PHPSESSID &amp; &copy &num; _ga "
            "aspsessionid gclid & ; ? &#32; &Tab; javascript: mailto: host".split()
        ),
    ),
    max_size=14,
).map("".join)


def canonical_of(target: bytes | None) -> int:
    """Return the number that stands for a target."""
    return 0 if target is None else oracle.upper_half(oracle.token_hash(target))


@settings(max_examples=examples(300))
@given(HREFS, st.booleans())
@example("/" + "a" * 2036 + "é&amp;b", True)
@example("a" * 2045, True)
@example("a" * 2048, True)
@example("utm_*x", False)
@example("/?utm_*x", False)
@example("/?utm_*", False)
def test_canonical_urls_equal_the_oracle(href: str, in_folder: bool) -> None:
    """A canonical URL's target, without host, session and tracking, is the oracle's."""
    page = fingerprint(
        f'<link rel=canonical href="{href}">', url="http://h/d/x" if in_folder else None
    )
    assert page.canonical == canonical_of(oracle.target_of(href.encode(), b"/d/" * in_folder))


TITLES = st.lists(
    st.sampled_from(
        [*"aB -é\t\n©中", "\u00a0", "&nbsp;", "&amp;", "&#x20;", "&bogus", "&", "x" * 500]
    ),
    max_size=12,
).map("".join)


@settings(max_examples=examples(200))
@given(TITLES)
@example("x" * 1016 + "é")
@example("x" * 1015 + "&eacute;y")
@example(" &nbsp;\u00a0 ")
def test_titles_equal_the_oracle(title: str) -> None:
    """References decoded, white space as one space, a long one by its beginning."""
    assert fingerprint(f"<title>{title}</title>").title == oracle.title_of(title.encode())


ANY_URLS = "|http://h|http://h/|page|http://h/é/x|data:,x|http://[|http://h/\ud800/x".split("|")


@pytest.mark.parametrize("url", ANY_URLS)
def test_promise_7_any_url_is_safe(url: str) -> None:
    """A complete canonical URL is what it is, whatever the page's own."""
    html = "<link rel=canonical href=/x>y"
    assert fingerprint(html, url=url) == fingerprint(html)


# ------------------------------------------------------------------------------ near-duplicates


def made(
    title: int = 0,
    canonical: int = 0,
    *,
    value: int = 0,
    sketch: bytes = b"\xff" + bytes(36),
    features: int = 100,
    unread: bool = False,
) -> PageFingerprint:
    """Return a fingerprint with these numbers."""
    return PageFingerprint(value, sketch, title << 32 | canonical, features, "words-0-9", unread)


def alike(least: float, most: float) -> bytes:
    """Return a sketch whose similarity to that of made() lies between."""
    for bits in range(256):
        ones: int = 2**bits - 1
        sketch = b"\xff" + ones.to_bytes(32, "little") + (ones % (2**32 - 5)).to_bytes(4, "little")
        if least <= oracle.similarity(made().sketch, sketch) < most:
            return sketch
    raise AssertionError((least, most))


@given(SKETCH, SKETCH)
def test_similarity_equals_the_oracle(a: bytes, b: bytes) -> None:
    """Of any two sketches, in either order; of one it is 1, and below where the ends differ."""
    found = similarity(made(sketch=a), made(sketch=b))
    assert found == oracle.similarity(a, b) == similarity(made(sketch=b), made(sketch=a))
    assert similarity(made(sketch=a), made(sketch=a)) == 1
    assert 0 <= found <= (1 if a[33:] == b[33:] else 0.9999)


def titled(title: str, words: int) -> PageFingerprint:
    """Return the fingerprint of a page of so many words."""
    text = " ".join(f"w{i}" for i in range(words))
    return fingerprint(f"<title>{title}</title><main><p>{text}</main>")


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [(10, 0, 0.9), (24, 0, 0.95), (40, 1, 1), (79, 1, 1), (80, 1, 1), (2000, 1, 1)],
)
def test_titles_tell_equal_short_texts_apart(words: int, least: float, most: float) -> None:
    """Under 27 shingles equal text may be boilerplate alone; above, it says the same under any title."""
    a, b = titled("Red rope of hemp", words), titled("Blue tin of paint", words)
    assert least <= similarity(a, b) <= most
    assert a.value == b.value
    assert a.features == b.features == words
    assert similarity(a, titled("Red rope of hemp", words)) == 1


def test_a_title_counts_beside_little_text_only() -> None:
    """Up to 79 words it is part of the sketch, from 80 on it is not."""
    assert titled("Red rope", 79).sketch != titled("Tin", 79).sketch
    assert titled("Red rope", 80).sketch == titled("Tin", 80).sketch
    assert titled("Red rope", 0).sketch[:33] == titled("Tin", 0).sketch[:33]  # nor beside none
    inside = "<p>one two <title>Red &lt; rope<b></title>three</p>"
    assert main_words(inside) == [Block(3, ["one", "two", "three"])]
    assert fingerprint(inside).sketch == oracle.read_html(inside.encode()).sketch
    long = f"<title>{'a&amp;é ' * 300}</title><p>one two three"
    assert fingerprint(long).sketch == oracle.read_html(long.encode()).sketch


def test_a_sketch_of_another_length_is_refused() -> None:
    """The core would read past its end."""
    with pytest.raises(UsageError, match="33 bytes; it must have 37"):
        similarity(made(), made(sketch=bytes(33)))


@pytest.mark.parametrize(
    ("bits", "least", "most", "same_site", "features", "expected"),
    [
        (0, 0.99, 1.1, True, 100, True),
        (8, 0.875, 0.9, True, 100, True),
        (9, 0.99, 1.1, True, 100, False),
        (0, 0.8, 0.875, True, 100, False),
        (0, 0.75, 0.8, False, 100, True),
        (0, 0.7, 0.75, False, 100, False),
        (0, 0.875, 0.9, True, 19, True),
        (0, 0.8, 0.875, True, 19, False),
        (0, 0.99, 1.1, False, 19, False),
        (0, 0.99, 1.1, True, 8, True),
        (0, 0.99, 1.1, True, 7, False),
    ],
)
def test_near_duplicates_keep_every_limit(
    bits: int, least: float, most: float, same_site: bool, features: int, expected: bool
) -> None:
    """Each limit of the rule, from both sides and in both orders."""
    other = made(value=2**bits - 1, sketch=alike(least, most), features=features)
    assert near_duplicate(made(), other, same_site=same_site) is expected
    assert near_duplicate(other, made(), same_site=same_site) is expected


def test_an_unread_page_is_a_near_duplicate_of_its_copies_only() -> None:
    """All its words decide, those of navigation and the title, and what is no text; scripts do not."""

    def listing(
        last: str = "m9", title: str = "All", image: str = "a.png", script: str = "1"
    ) -> PageFingerprint:
        menu = " ".join(f"m{i}" for i in range(90))
        html = (
            f"<title>{title}</title><header>{menu} {last}</header><p>few words</p><img src={image}>"
        )
        return fingerprint(f"{html}<script>{script}</script>")

    page = listing()
    assert page.unread and page.features == 0
    assert near_duplicate(page, listing()) and near_duplicate(page, listing(script="2"))
    for other in (listing("m8"), listing(title="None"), listing(image="b.png"), made()):
        assert not near_duplicate(page, other) and not near_duplicate(other, page)


@pytest.mark.parametrize(
    ("menu", "text", "unread"),
    [(70, 10, False), (71, 10, True), (442, 63, True), (9999, 64, False)],
)
def test_a_page_is_unread_when_less_than_an_eighth_was_read(
    menu: int, text: int, unread: bool
) -> None:
    """Of 10 words and 70 of a header an eighth was read; 64 words are enough beside any."""
    html = (
        f"<nav>not counted</nav><header>{'m ' * menu}</header><p>{' '.join(map(str, range(text)))}"
    )
    reading = read_page(html)
    assert (reading.words, reading.words_read) == (menu + text, text)
    assert reading.fingerprint.unread is unread


@pytest.mark.parametrize("html", [" ", "<p>only a few words", "<title>t</title><img src=a.png>"])
def test_pages_of_little_text_are_near_duplicates_if_their_bytes_are_equal(html: str) -> None:
    """Of any length; a byte more and they are two pages."""
    assert near_duplicate(fingerprint(html), fingerprint(html.encode()))
    assert not near_duplicate(fingerprint(html), fingerprint(html + " "))
    assert near_duplicate(fingerprint_text("a few words"), fingerprint_text("A few words"))
    assert not near_duplicate(fingerprint(""), fingerprint(""))  # what is in it came by other means


def test_other_boilerplate_is_a_near_duplicate() -> None:
    """An article in another shell, with another session, is a near-duplicate; another is not."""
    html = (oracle.GOLDEN / "english.html").read_text("utf-8")
    article = html[html.index("<article>") : html.index("</article>")]
    other_shell = (
        f"<div id=ad>Buy a clock, now cheaper</div><nav>A B</nav>{article}</article>42 hits"
    )
    other_text = (oracle.GOLDEN / "russian.html").read_text("utf-8")
    assert near_duplicate(fingerprint(html), fingerprint(other_shell))
    assert not near_duplicate(fingerprint(html), fingerprint(other_text))


# ------------------------------------------------------------------------------------ any bytes


@settings(max_examples=examples(300))
@given(st.binary(max_size=400))
def test_promise_7_any_bytes_are_safe(data: bytes) -> None:
    """Any bytes give a fingerprint, the same every time and the oracle's."""
    assert fingerprint(data) == fingerprint(data)
    assert read_page(data, encoding="utf-8") == as_reading(oracle.read_html(data))


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(list(b"<>/=\"'!-&#;abpx1 \xff\xe4\xb8\xad\xc3")), max_size=60))
def test_promise_7_any_bytes_are_safe_that_look_like_markup(data: list[int]) -> None:
    """So do bytes that are made to look like tags, references and sequences, but are none."""
    check_page(bytes(data))


@given(st.text(max_size=60))
def test_promise_7_any_text_is_safe(text: str) -> None:
    """Text is safe too, lone surrogates included."""
    assert fingerprint(text) == fingerprint(text.encode("utf-8", "surrogatepass"), encoding="utf-8")
    assert fingerprint_text(text).title == 0


HOSTILE = """<div>|<a href=x>|</p>|<p |<!--|-->|<b><i>|<li>|<table><tr><td>|<script>|<a b='|中|x|&|&#|&a
&#x1;|<|</|</a|<!|<a href=?sid=1&a&|</script |-|">|<svg/>|<svg><p>|<p hidden>|<p>©|<title>|<link rel=canonical href=x>|<select><option>|<option>
<a href="/|a |<textarea></textare|<p style='a;|<p class=\"a |<nav>|</nav>|\0|\ufeff|é""".replace(
    "\n", "|"
)


def test_promise_7_a_large_hostile_page_ends() -> None:
    """4 megabytes of nothing but trouble are read to their end; test_hostile.py counts the steps of each kind alone."""
    pieces = HOSTILE.split("|")
    numbers = random.Random(7)
    html = "".join(numbers.choices(pieces, k=2**22 // 6)).encode()[: 2**22]
    assert fingerprint(html) == fingerprint(html)


# -------------------------------------------------------------------------------------- readers


def test_threads_read_pages_at_once() -> None:
    """Four threads that fingerprint at the same time get what one gets."""
    pages = [(oracle.GOLDEN / page["file"]).read_bytes() for page in GOLDEN["pages"]]
    pages += [page * 40 for page in pages]
    expected = [(fingerprint(page), main_words(page)) for page in pages]
    start = threading.Barrier(4)

    def read(seed: int) -> bool:
        order = [*range(len(pages))] * 8
        random.Random(seed).shuffle(order)
        start.wait()
        return all(
            (fingerprint(pages[i]), main_words(pages[i]) if i % 3 == 0 else expected[i][1])
            == expected[i]
            for i in order
        )

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(4)))


def test_a_page_leaves_nothing_to_the_next() -> None:
    """A reader that read a large page reads a small one as ever."""
    small = b"<p>one two <a href=/x>three</a>"
    before = read_page(small)
    large = b"<article><p>" + b"word <a href=/y>" * 300_000
    after = [read_page(page) for page in (large, small, b"", small)]
    assert after[1] == after[3] == before
    empty = PageFingerprint(0, bytes(37), 0, 0, "words-0-9", parts=bytes(32))
    assert after[2] == PageReading(empty, 0, 0, 0, 0)


def test_a_recipe_may_be_given_by_id() -> None:
    """An id and its recipe are the same."""
    assert fingerprint("a b", recipe="words-0-9") == fingerprint("a b", recipe=recipe_of())
