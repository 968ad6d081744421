"""A page becomes a fingerprint: the first face of the native core.

Bytes are passed to the native core unchanged wherever that is right. A page is decoded only when it is not
UTF-8, and then once (dedup.core.encodings). numpy is not needed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, NamedTuple

from msgspec.structs import replace

from dedup.core.native import check, ffi, lib
from dedup.core.numbers import little_endian, number
from dedup.model.decision import decide
from dedup.model.errors import RecipeMismatch, UsageError
from dedup.model.names import folder_of, running
from dedup.model.page import PICTURE_FEATURES, SKETCH_BYTES, PageFingerprint
from dedup.model.policy import Options, Policy
from dedup.model.recipes import Recipe, recipe_of, same_recipe

IN_HEADING: int = lib.NDD_IN_HEADING


class PageReading(NamedTuple):
    """A page's fingerprint, and how much of the page was what.

    text_bytes counts the bytes of visible words, boilerplate included; data_bytes those of inline
    JSON; words the visible words, without those of navigation, and words_read those of them that are
    behind the fingerprint. links, if asked for, are the distinct hashes of where it leads on its site, wherever the link
    stands, but for hidden ones, 8 bytes for each, little-endian: without session and tracking parameters, and
    none to the page itself (native/src/reader/links.c); address is the hash that such a link would have. content_links are
    those of its main content and its pagination, to other sites, too.
    They are no part of the fingerprint. numbers, if asked for, is what number_runs() reads, and texts are the blocks of
    the main text but its first headings, by two hashes of 32 bits of their other words, little-endian: without what names
    the page (0: nothing is left), and of all; blocks, if asked for, the list of its blocks
    (docs/reference/fingerprint-spec.md), 8 bytes for each, little-endian.
    """

    fingerprint: PageFingerprint
    text_bytes: int
    data_bytes: int
    words: int
    words_read: int
    links: bytes = b""
    content_links: bytes = b""
    address: bytes = b""
    numbers: bytes = b""
    texts: bytes = b""
    blocks: bytes = b""


class Block(NamedTuple):
    """A block of main content as the fingerprint saw it: its tokens, in lower case, and the weight of each."""

    weight: int
    tokens: list[str]


def fingerprint(
    html: bytes | str,
    *,
    encoding: str | None = None,
    url: str | None = None,
    recipe: Recipe | str | None = None,
    links: bool = False,
) -> PageFingerprint:
    """Return the fingerprint of an HTML page.

    html      the page; bytes are decoded by byte order mark, or else as encoding says, by meta
              charset, or as UTF-8; if they are not UTF-8 and nothing was said, their encoding is
              guessed from the text. Bytes that do not decode separate words
    encoding  its encoding, as the HTTP header gives it
    url       where it came from: completes a canonical URL that is relative
    recipe    a recipe, or the id of one; default the newest
    links     whether to hash where its main content leads, too: then a refetch can be `unchanged`

    Reading takes time linear in the page's size and no more memory than about 14 times it. Raises
    UsageError for an unknown encoding, RecipeMismatch for an unknown recipe.
    """
    reading = read_page(html, encoding=encoding, url=url, recipe=recipe, links=links)
    page = reading.fingerprint
    return replace(page, links=hash_of_links(reading.content_links)) if links else page


def read_page(
    html: bytes | str,
    *,
    encoding: str | None = None,
    url: str | None = None,
    recipe: Recipe | str | None = None,
    links: bool = False,
    numbers: bool = False,
    blocks: bool = False,
) -> PageReading:
    """Do what fingerprint() does, and also tell how much text and inline JSON the page held.

    links says whether to gather where it leads, too, numbers whether to gather those of its main text, and
    blocks whether to list its blocks, and to gather links. Then, and of little text wherever links are gathered, the
    fingerprint has the page's links: where it leads may tell what it is a copy of.
    """
    known = keyed_recipe(recipe)
    reader = _borrowed()
    try:
        _read(reader, html, encoding, url, known, links or blocks)
        little = PICTURE_FEATURES if links else 0
        return _reading(
            reader, known, links=links or blocks, numbers=numbers, blocks=blocks, little=little
        )
    finally:
        _idle.append(reader)


def number_runs(numbers: bytes) -> Iterator[list[int]]:
    """Yield the tokens with digits in a page's main text (PageReading.numbers), by their hashes.

    A list for each run of them: the word behind it in its block, else the token before (1: none), and those of the
    run; in a first heading IN_HEADING is the word. Hashes are keyed by the page's recipe, and 64 bits, never 0.
    """
    each, start = memoryview(numbers).cast("Q").tolist(), 0
    for _ in range(each.count(0)):
        end = each.index(0, start)
        yield each[start:end]
        start = end + 1


def hash_of_links(links: bytes) -> int:
    """Return a hash of a page's set of links (PageReading.content_links), 64 bits, never 0."""
    each = sorted(each_link(links))
    return int.from_bytes(blake2b(b"".join(each), digest_size=8).digest(), "big") or 1


def each_link(links: bytes) -> Iterator[bytes]:
    """Yield each hash of PageReading.links."""
    return (links[at : at + 8] for at in range(0, len(links), 8))


def holds_link(links: bytes, link: bytes) -> bool:
    """Whether PageReading.links has a hash."""
    at = links.find(link)
    while at >= 0 and at % 8:
        at = links.find(link, at + 1)
    return at >= 0


def fingerprint_text(text: bytes | str, *, recipe: Recipe | str | None = None) -> PageFingerprint:
    """Return the fingerprint of plain text, which is one block; bytes are UTF-8."""
    known = keyed_recipe(recipe)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    reader = _borrowed()
    try:
        page = reader.page
        check(lib.ndd_read_text(reader.native, ffi.from_buffer(data), len(data), known.key, page))
        return _reading(reader, known).fingerprint
    finally:
        _idle.append(reader)


def main_words(
    html: bytes | str, *, encoding: str | None = None, recipe: Recipe | str | None = None
) -> list[Block]:
    """Return what the fingerprint of a page is made of: its main content, block by block.

    Without navigation and other boilerplate; two versions of a page differ in the blocks that changed.
    """
    known = keyed_recipe(recipe)
    return _kept_words(lambda reader: _read(reader, html, encoding, None, known))


def text_words(text: bytes | str) -> list[str]:
    """Return the tokens of plain text; bytes are UTF-8."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")

    def read(reader: _NativeReader) -> None:
        native = ffi.from_buffer(data)
        check(lib.ndd_read_text(reader.native, native, len(data), _NEWEST.key, reader.page))

    return [token for block in _kept_words(read) for token in block.tokens]


def _kept_words(read: Callable[["_NativeReader"], object]) -> list[Block]:
    """Return the words of what a function reads, block by block."""
    reader = _borrowed()
    lib.ndd_reader_keep_words(reader.native, 1)
    try:
        read(reader)
        words, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
        check(lib.ndd_reader_words(reader.native, words, size))
        lines = bytes(ffi.buffer(words[0], size[0])).decode() if size[0] else ""
    finally:
        lib.ndd_reader_keep_words(reader.native, 0)
        _idle.append(reader)
    split = (line.split("\t", 1) for line in lines.split("\n") if line)
    return [Block(int(weight), tokens.split(" ")) for weight, tokens in split]


def main_text(
    html: bytes | str, *, encoding: str | None = None, recipe: Recipe | str | None = None
) -> str:
    """Return what the reader takes as a page's main content, in order, one block a line.

    The words are those that the fingerprint counts (main_words), in lower case and without punctuation; the
    character pairs of scripts without spaces are joined again. Empty for a page without main content.
    """
    return "\n".join(
        running(block.tokens) for block in main_words(html, encoding=encoding, recipe=recipe)
    )


def near_duplicate(
    a: PageFingerprint,
    b: PageFingerprint,
    *,
    same_site: bool | None = None,
    policy: Policy | None = None,
) -> bool:
    """Whether two pages' texts are near-duplicates by a policy, or by their recipe's own.

    same_site says whether both are of one registrable domain; None: it is not known. Raises
    RecipeMismatch when the fingerprints follow different recipes, UsageError for a sketch of another
    length.
    """
    same_recipe(a.recipe, b.recipe)
    policy = policy or Options().policy(recipe_of(a.recipe))
    bits = distance(a.value, b.value)
    if bits > policy.distance and not (a.unread or b.unread):
        return False
    return decide(a, b, bits, similarity(a, b), policy, same_site=same_site).near


def similarity(a: PageFingerprint, b: PageFingerprint) -> float:
    """Return how alike two pages' texts are: the estimated share of their word triples in both.

    0 to 1, in steps of 1 / 10000; 1 only if they are the same word for word (by a hash of 32 bits,
    so that two other texts are taken for the same once in 4 thousand millions). The estimate has a
    standard deviation of .02 at .88 and .01 at .95 (odd sketch: Mitzenmacher, Pagh, Pham, WWW 2014).
    Raises RecipeMismatch when the fingerprints follow different recipes, UsageError for a sketch of
    another length.
    """
    same_recipe(a.recipe, b.recipe)
    return similarities(a.sketch, [b.sketch])[0]


def similarities(sketch: bytes, others: Sequence[bytes]) -> list[float]:
    """Return the similarity() of a sketch with each of others.

    Raises UsageError for a sketch of another length than SKETCH_BYTES.
    """
    if not others:
        return []
    joined = b"".join(others)
    if len(sketch) != SKETCH_BYTES or len(joined) != SKETCH_BYTES * len(others):
        wrong = next(len(each) for each in (sketch, *others) if len(each) != SKETCH_BYTES)
        raise UsageError(f"a sketch has {wrong} bytes; it must have {SKETCH_BYTES}")
    found = ffi.new("double[]", len(others))
    lib.ndd_similarities(sketch, joined, len(others), found)
    return list(found)


def distance(a: int, b: int) -> int:
    """Return the Hamming distance of two fingerprints in bits, 0 to 64.

    Raises UsageError for what is no integer from 0 to 2**64 - 1.
    """
    return (number(a, "a") ^ number(b, "b")).bit_count()


class _NativeReader:
    """A native reader, which keeps its scratch memory, and the places of its answers."""

    __slots__ = ("address", "hashes", "led", "n", "native", "page", "parts", "sketch")

    def __init__(self) -> None:
        made = ffi.new("ndd_reader **")
        check(lib.ndd_reader_open(made))
        self.native = ffi.gc(made[0], lib.ndd_reader_close)
        self.page = ffi.new("ndd_page *")
        self.sketch, self.parts = ffi.buffer(self.page.sketch), ffi.buffer(self.page.parts)
        self.hashes, self.n = ffi.new("uint64_t const **"), ffi.new("size_t *")
        self.address, self.led = ffi.new("uint64_t *"), ffi.new("size_t[3]")


_idle: list[_NativeReader] = []  # taking from a list and adding to it are atomic


def _borrowed() -> _NativeReader:
    """Return an idle reader, which the caller gives back to _idle."""
    try:
        return _idle.pop()
    except IndexError:
        return _NativeReader()


@contextmanager
def borrowed_reader() -> Iterator[Any]:
    """Lend a native reader, which one thread may use at a time."""
    reader = _borrowed()
    try:
        yield reader.native
    finally:
        _idle.append(reader)


_NEWEST = recipe_of()


def keyed_recipe(recipe: Recipe | str | None) -> Recipe:
    """Return a recipe that fingerprints can be made with."""
    if recipe is None:
        return _NEWEST
    known = recipe if isinstance(recipe, Recipe) else recipe_of(recipe)
    if known.key is None:
        raise RecipeMismatch(f"recipe {known.id!r} needs its secret; see recipe_of(id, secret)")
    return known


def _read(
    reader: _NativeReader,
    html: bytes | str,
    encoding: str | None,
    url: str | None,
    recipe: Recipe,
    links: bool = False,
) -> None:
    """Read a page in whatever encoding; twice, where nothing says which and it is not UTF-8."""
    if encoding == "utf-8" and isinstance(html, bytes):  # as a crawl knows of most pages
        data, settled = html, True
    else:
        from dedup.core.encodings import as_utf8, guessed_utf8  # which most crawls never need

        data, settled = as_utf8(html, encoding)
    directory = folder_of(url).encode("utf-8", "surrogatepass") if url else b""
    page = reader.page
    if links:
        address = (url or "").encode("utf-8", "surrogatepass")
        native_address = ffi.from_buffer(address)  # stays until the page was read
        lib.ndd_reader_keep_links(reader.native, native_address, len(address))
    status = lib.ndd_read_html(
        reader.native, ffi.from_buffer(data), len(data), directory, len(directory), recipe.key, page
    )
    if status != lib.NDD_OK:
        check(status, f"a page of {len(data)} bytes")
    if not settled and page.invalid_bytes and (guess := guessed_utf8(data)) is not data:
        _read(reader, guess, "utf-8", url, recipe, links)


def _reading(
    reader: _NativeReader,
    recipe: Recipe,
    *,
    links: bool = False,
    numbers: bool = False,
    blocks: bool = False,
    little: int = 0,
) -> PageReading:
    """Return what a reader found on its last page; some of it only if asked for.

    little  the fingerprint of a page of fewer features, or of which too little was read, has its links
    """
    page, hashes, n = reader.page, reader.hashes, reader.n
    led_to, content, address, numbered, texts, listed = b"", b"", b"", b"", b"", b""
    if links:
        lib.ndd_reader_links(reader.native, hashes, led := reader.led, reader.address)
        if led[0]:
            every = little_endian(bytes(ffi.buffer(hashes[0], 8 * led[0])))
            content, led_to = every[: 8 * led[1]], every[8 * led[2] :]
        address = reader.address[0].to_bytes(8, "little")
    if numbers:
        status = lib.ndd_reader_numbers(reader.native, hashes, n)
        if status != lib.NDD_OK:
            check(status)
        numbered = bytes(ffi.buffer(hashes[0], 8 * n[0])) if n[0] else b""
        status = lib.ndd_reader_texts(reader.native, hashes, n)
        if status != lib.NDD_OK:
            check(status)
        texts = little_endian(bytes(ffi.buffer(hashes[0], 8 * n[0]))) if n[0] else b""
    if blocks:
        status = lib.ndd_reader_blocks(reader.native, hashes, n)
        if status != lib.NDD_OK:
            check(status)
        listed = little_endian(bytes(ffi.buffer(hashes[0], 8 * n[0]))) if n[0] else b""
    found = PageFingerprint(
        page.value,
        reader.sketch[:],
        page.title << 32 | page.canonical,
        page.features,
        recipe.id,
        bool(page.unread),
        # where a page of little text leads may tell what it is a copy of
        links=hash_of_links(content) if content and (page.unread or page.features < little) else 0,
        parts=reader.parts[:],
        thing=page.thing,
    )
    counts = page.text_bytes, page.data_bytes, page.words, page.words_read
    return PageReading(found, *counts, led_to, content, address, numbered, texts, listed)
