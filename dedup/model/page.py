"""A page, declared once: every field of it that is stored, sent or shown, and the reasons for which it is kept.

    page -> PageFingerprint -> reserve (ReserveOptions) -> Verdict -> insert -> Document (in a store)

A page has two forms, which dedup.model.forms makes of these structs: a record on disk, and a JSON object (insert event, line of an
export, argument of a command, answer). A new field is declared here, is
filled somewhere and is read by some rule; add it to docs/reference/events.md and to the golden vectors.

gc=False: these structs are created by the hundred thousand and cannot be part of a cycle.
"""

import secrets
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec

SKETCH_BYTES = 37
PARTS_BYTES = 32
ITEMS_BYTES = 1024

Status = Literal["unique", "refetch", "near_duplicate", "pending", "exempt"]
Identity = Literal["same", "other", "unknown"]

_HALF = 2**32 - 1


class Form(msgspec.Struct, frozen=True):
    """How a field is written.

    codec   "word": an unsigned number of `most` bits, as hex digits; "bytes": `least` to `most` bytes, as
            hex digits; "number": 0 to `most`; "text": at most `most` bytes of UTF-8; "flag": true or false;
            "seconds": Unix time
    help    what it is, for docs and OpenAPI
    place   its index in a record on disk; never change or reuse one. None: not in a record
    sparse  omitted from every form where it has its default
    event   its name in events, if that is not the attribute's
    column  its name in tables (Spark), if that is not the attribute's
    """

    codec: Literal["word", "bytes", "number", "text", "flag", "seconds"]
    help: str
    place: int | None = None
    least: int = 0
    most: int = 0
    sparse: bool = False
    event: str = ""
    column: str = ""


class Part(NamedTuple):
    """A part of a page that similar texts may differ in: its letter in the class of a pair, and its hash's place."""

    letter: str
    name: str
    place: slice


# Of the hashes in PageFingerprint.parts, in their order, 4 bytes each.
PARTS = tuple(
    Part(letter, name, slice(4 * at, 4 * at + 4))
    for at, (letter, name) in enumerate(
        (
            ("j", "inline data"),
            ("s", "images and media"),
            ("d", "data attributes"),
            ("h", "heading"),
            ("n", "numbers"),
            ("b", "text beside the main text"),
            ("a", "attributes"),
            ("f", "menu, header or footer"),
        )
    )
)
PART = {part.letter: part.place for part in PARTS}
PICTURE_FEATURES = 60  # a page with fewer is told by its pictures, too
TEXT_HASH = 33  # from this byte of a sketch on: the hash of the whole main text


class PageFingerprint(msgspec.Struct, frozen=True, gc=False):
    """The fingerprint of a page's content (docs/reference/fingerprint-spec.md).

    value     64-bit simhash of the weighted words of the main content; the one the tables hold
    sketch    37 bytes over its 3-token shingles, from which the similarity of two texts is estimated
    identity  what the page says it is: the 32-bit hash of its title, 0 without one, and below it that
              of the canonical URL that it declares, 0 for none
    features  number of distinct words behind value; 0 of an unread page
    recipe    id of the recipe that made all of them
    unread    the page is not judged by its text. Either too little of it was read: then value is a hash of all of it,
              features is 0, and only a copy equals it, or a page of its site with the same words read, or the same links.
              Or what was read does not stand for it (Detector.learned): then only a page with the same text, word for
              word, equals it. Not stored or sent
    partly    much of the page that no earlier page of its site has was not read (Detector.learned): its title and
              canonical URL count. Not stored or sent
    least     how similar to it a page of its site has to be, if the policy asks for less (Detector.learned): to a page with few
              words of its own, in much that its site has on many pages; none is to one with much that is new. Of an unread page
              (0: none): how similar one with its title and pictures has to be. Not stored or sent
    links     a 64-bit hash of where its main content leads, in any order; 0: that was not asked for
    parts     eight hashes of 4 bytes, little-endian, 0 for none, of what two pages of similar text may differ in: inline
              data, sources of images and embedded pages, data attributes, h1 headings, words with digits, text beside the main
              text, other attributes, menus; b"": not known
    thing     the product id, of the sku, gtin, ... in its structured data, 32 bits; 0 for none
    """

    value: Annotated[int, Form("word", "the fingerprint", place=3, most=64)]
    sketch: Annotated[
        bytes,
        Form(
            "bytes",
            "sketch, from which the similarity of two texts is estimated",
            place=4,
            least=SKETCH_BYTES,
            most=SKETCH_BYTES,
        ),
    ]
    identity: Annotated[
        int,
        Form(
            "word",
            "hashes of its title and of its canonical URL, 8 digits each",
            place=5,
            most=64,
            column="page_identity",
        ),
    ]
    features: Annotated[int, Form("number", "number of distinct words", place=6, most=2**63 - 1)]
    recipe: Annotated[str, Form("text", "id of the recipe that made the fingerprint", most=64)]
    unread: bool = False
    links: Annotated[
        int,
        Form(
            "word",
            "a hash of the links in its main content (`DEDUP_UNCHANGED`)",
            place=9,
            most=64,
            sparse=True,
        ),
    ] = 0
    parts: Annotated[
        bytes,
        Form(
            "bytes",
            "hashes of the signals in which pages of similar text may differ (`DEDUP_PROOF`)",
            place=10,
            least=PARTS_BYTES,
            most=PARTS_BYTES,
            sparse=True,
        ),
    ] = b""
    thing: Annotated[
        int,
        Form(
            "word",
            "the product id, by `sku`, `gtin` and the like of its structured data",
            place=12,
            most=32,
            sparse=True,
        ),
    ] = 0
    partly: bool = False
    least: float = 0.0

    @property
    def title(self) -> int:
        """The hash of the title."""
        return self.identity >> 32

    @property
    def canonical(self) -> int:
        """The hash of the declared canonical URL."""
        return self.identity & _HALF


class Document(msgspec.Struct, frozen=True, gc=False):
    """A page under its document key, as a store holds it once it was accepted.

    domain            its registrable domain, "" if it has none
    inserted_seconds  Unix time; informs only. 0 before the page is inserted
    kind              what the page was read for, "" if not given; only pages of one kind are compared
    paid              whether it brought what it was fetched for; who inserts it decides. A page that brought
                      no item (False) is the match of a page only if no page like it has paid
    items             digest of the items that the page brought, as its caller makes it; b"": not known
    """

    key: Annotated[str, Form("text", "document key", place=0, most=8192)]
    page: PageFingerprint
    domain: Annotated[
        str, Form("text", "registrable domain of the page's site, or empty", place=1, most=256)
    ] = ""
    inserted_seconds: Annotated[
        float,
        Form(
            "seconds", "when it was accepted, Unix time; for information only", place=2, event="ts"
        ),
    ] = 0.0
    kind: Annotated[
        str,
        Form(
            "text",
            "purpose of the page (Scrapy: the callback's name), or empty; only pages of one kind are "
            "compared",
            place=7,
            most=128,
        ),
    ] = ""
    paid: Annotated[
        bool,
        Form(
            "flag",
            "whether the page yielded what it was fetched for (Scrapy: an item)",
            place=8,
        ),
    ] = True
    items: Annotated[
        bytes,
        Form(
            "bytes",
            "a digest of the items that the page yielded (`DEDUP_PROOF`)",
            place=11,
            most=ITEMS_BYTES,
            sparse=True,
        ),
    ] = b""


class ReserveOptions(msgspec.Struct, frozen=True):
    """The options of reserve().

    url      the URL that gives the registrable domain; by default the key, if it is a URL
    domain   the registrable domain itself, if it is known and not ""
    exempt   a reason that keeps the page without being judged; it is reserved all the same. But "unread" and "partly" are
             the page's own fields: it is judged
    guard    whether a page is kept as exempt ("other_title") if all its near-duplicates are, by title
             or canonical URL, other pages of its site
    kind     the kind of the page, a short text: only pages of one kind are compared
    token    the reservation's token, if the caller made a unique one; repeating a call with a token that is
             held returns its verdict, and reserves nothing
    seconds  how long the page may be in flight, in place of the policy's time
    """

    url: str | None = None
    domain: str | None = None
    exempt: str | None = None
    guard: bool = True
    kind: str = ""
    token: str | None = None
    seconds: float | None = None


class ReserveKeywords(TypedDict, total=False):
    """The keywords of reserve(), for type checkers: the fields of ReserveOptions."""

    url: str | None
    domain: str | None
    exempt: str | None
    guard: bool
    kind: str
    token: str | None
    seconds: float | None


USUAL = ReserveOptions()


class Neighbour(msgspec.Struct, frozen=True, gc=False):
    """A near-duplicate of a page: a stored document, or a page in flight.

    distance    Hamming distance of value, in bits
    similarity  estimated Jaccard similarity of the two texts' 3-token shingles, 0 to 1
    identity    whether the two pages say themselves that they are the same page of their site
    """

    document: Document
    distance: int
    similarity: float
    identity: Identity

    @property
    def key(self) -> str:
        """The document's key."""
        return self.document.key

    @property
    def domain(self) -> str:
        """The document's registrable domain."""
        return self.document.domain

    @property
    def paid(self) -> bool:
        """Whether the document's page brought what it was fetched for."""
        return self.document.paid

    def __repr__(self) -> str:
        return _shown(self, ("key", "distance", "similarity", "identity"))


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The answer to reserve(): what a page is, and why.

    status    unique, refetch (this key was inserted before), near_duplicate, pending (a near-duplicate is
              in flight: ask again), or exempt
    reason    why the page is exempt; "unchanged" of a refetch, where `links` was given, when
              the stored page of this key and kind has paid, and had the same text, word for word,
              title, canonical URL and links; else ""
    document  the page that was judged, as insert() will store it
    token     what insert() and release() take to end the reservation; None when the page holds none
              (near_duplicate, pending)
    match     the most similar near-duplicate (near_duplicate, pending; and exempt as other_title, if one
              is inserted), else None; `of`, `distance`, `similarity` and `identity` are its
    """

    status: Status
    reason: str
    document: Document
    token: str | None = None
    match: Neighbour | None = None

    @property
    def key(self) -> str:
        """The page's document key."""
        return self.document.key

    @property
    def page(self) -> PageFingerprint:
        """The fingerprint that was judged."""
        return self.document.page

    @property
    def domain(self) -> str:
        """The page's registrable domain, "" if it has none."""
        return self.document.domain

    @property
    def of(self) -> str | None:
        """The key of the match, or None."""
        return None if self.match is None else self.match.document.key

    @property
    def distance(self) -> int | None:
        """The match's Hamming distance of value, in bits, or None."""
        return None if self.match is None else self.match.distance

    @property
    def similarity(self) -> float | None:
        """The match's estimated similarity of the texts, 0 to 1, or None."""
        return None if self.match is None else self.match.similarity

    @property
    def identity(self) -> Identity | None:
        """Compare by title and canonical URL: "same", "other", or "unknown"; None without a match.

        "unknown" if the two pages declare nothing, or are of two sites.
        """
        return None if self.match is None else self.match.identity

    def __repr__(self) -> str:
        names = ("status", "reason", "key", "of", "distance", "similarity", "identity", "token")
        return _shown(self, names)

    def brought(self, **fields: Any) -> "Verdict":
        """Return the verdict with fields of its document that are known after the page was processed."""
        return msgspec.structs.replace(
            self, document=msgspec.structs.replace(self.document, **fields)
        )


UNRESERVED = "fault-"  # begins the token of a page that is kept without a reservation


def unreserved(verdict: Verdict, reason: str) -> Verdict:
    """Return the verdict on a page that is kept without a reservation: insert() reserves it first, where it must."""
    token = UNRESERVED + secrets.token_hex(8)
    return msgspec.structs.replace(verdict, status="exempt", reason=reason, token=token)


def _shown(value: "Neighbour | Verdict", names: tuple[str, ...]) -> str:
    """Return what a person wants to see: the named fields that say something, without the fingerprints."""
    said = ((name, getattr(value, name)) for name in names)
    fields = ", ".join(f"{name}={field!r}" for name, field in said if field not in {None, ""})
    return f"{type(value).__name__}({fields})"


def hex_fingerprint(value: int) -> str:
    """Return a fingerprint as it is written everywhere outside Python integers: 16 hex digits."""
    return f"{value:016x}"


def identity_of(a: int, b: int) -> Identity:
    """Compare two pages of one site by their PageFingerprint.identity.

    Another title, or another canonical URL where both declare one, is another page.
    """
    if a == b:
        return "same" if a else "unknown"
    titles, canonicals = a > _HALF and b > _HALF, a & _HALF and b & _HALF  # whether both say one
    if (titles and a >> 32 != b >> 32) or (canonicals and (a ^ b) & _HALF):
        return "other"
    return "same" if titles or canonicals else "unknown"


def are_copies(a: PageFingerprint, b: PageFingerprint) -> bool:
    """Whether two pages of too little text to be judged by it are copies of each other: equal in all they have.

    The last bytes of such a page's sketch are a hash of its bytes, or of all its words
    (docs/reference/fingerprint-spec.md, "Pages
    of little text"). An empty page, whose sketch is 0, is no copy: what is in it came by other means.
    """
    return (
        any(a.sketch)
        and a.value == b.value
        and a.sketch == b.sketch
        and a.features == b.features
        and a.identity == b.identity
        and a.thing == b.thing
        and a.parts == b.parts
    )


def are_equal(a: PageFingerprint, b: PageFingerprint, similarity: float) -> bool:
    """Whether two pages say the same, word for word: not only what was read of them, but what stands beside it, too.

    similarity  the estimated one of what was read

    Of a page whose parts are not known, what was read is all there is to compare.
    """
    if similarity != 1 or a.value != b.value:
        return False
    return not (a.parts and b.parts) or a.parts[PART["b"]] == b.parts[PART["b"]]


def show_two_pictures(a: PageFingerprint, b: PageFingerprint) -> bool:
    """Whether the images and frames of two pages differ."""
    return bool(a.parts and b.parts) and a.parts[PART["s"]] != b.parts[PART["s"]]


def differing(a: PageFingerprint, b: PageFingerprint) -> list[str]:
    """Return in what two pages differ, as far as fingerprints tell: never which words.

    Parts are left out where those of one page are not known.
    """
    found = [] if a.sketch[TEXT_HASH:] == b.sketch[TEXT_HASH:] else ["words"]
    if (a.identity ^ b.identity) >> 32:
        found.append("title")
    if (a.identity ^ b.identity) & 0xFFFFFFFF:
        found.append("canonical URL")
    return found + (differing_parts(a, b) or [])


def differing_parts(a: PageFingerprint, b: PageFingerprint) -> list[str] | None:
    """Return the names of the parts (PARTS) that differ in two pages; None if those of one are not known."""
    if len(a.parts) != len(b.parts) or not a.parts:
        return None
    return [part.name for part in PARTS if a.parts[part.place] != b.parts[part.place]]


_BOTH, _SELLER, _MAKER, _HALF_NUMBER = 3 << 30, 1 << 30, 2 << 30, 2**15 - 1


def are_two_things(one: PageFingerprint, other: PageFingerprint) -> bool:
    """Whether two pages of one site are of two things, whatever their texts.

    By the numbers of these things in their structured data; or, if they have little text, if their own word and their
    pictures say so, and the heading or the words beside the text differ, too: on a page of a gallery, or a list of products,
    the text may be a contact block or a form to comment (docs/reference/fingerprint-spec.md, "Decision").
    """
    return _have_two_numbers(one.thing, other.thing) or (
        min(one.features, other.features) < PICTURE_FEATURES
        and show_two_pictures(one, other)
        and any(one.parts[PART[letter]] != other.parts[PART[letter]] for letter in "hb")
        and identity_of(one.identity, other.identity) == "other"
    )


def _have_two_numbers(a: int, b: int) -> bool:
    """Compare the things' numbers: a thing has a seller's, a maker's, or both, and two are compared by what both have."""
    if a == b or not a or not b:
        return False
    if (a ^ b) & _BOTH == 0:
        return True
    if a & _BOTH == _BOTH:
        a, b = b, a
    if b & _BOTH != _BOTH:
        return False  # one has a seller's number, the other a maker's
    shift = 0 if a & _BOTH == _SELLER else 15
    return (a ^ b >> shift) & _HALF_NUMBER != 0


# ------------------------------------------------------------------------ why a page is kept


class Reason(NamedTuple):
    """Why a page is kept without being judged, or although it was found to be a near-duplicate.

    Settings, reports and the dashboard derive theirs.

    name     in verdicts, stats (`dedup/exempt/NAME`) and DEDUP_EXEMPT
    label    for people
    judged   whether the page was compared with others
    setting  whether DEDUP_EXEMPT has it; by default all of these are in force
    """

    name: str
    label: str
    judged: bool = False
    setting: bool = True


REASONS = {
    reason.name: reason
    for reason in (
        Reason("start", "start requests"),
        Reason("non_html", "no HTML or text"),
        Reason("status", "another status than 200"),
        Reason("method", "another method than GET"),
        Reason("short", "too few distinct words to be judged", judged=True),
        Reason("too_large", "larger than the limit in bytes"),
        Reason("data_page", "made of inline data"),
        Reason("unread", "too little of the page was read", judged=True),
        Reason("no_callback", "no callback: robots.txt, media, the shell"),
        Reason("inline", "downloaded by a callback, not by the scheduler"),
        Reason(
            "checked",
            "parsed, and only its new items and requests passed",
            judged=True,
            setting=False,
        ),
        Reason(
            "other_title",
            "similar text, but another title or canonical URL",
            judged=True,
            setting=False,
        ),
        Reason("expired", "its reservation had expired", setting=False),
        Reason(
            "in_flight", "a near-duplicate was in flight for too long", judged=True, setting=False
        ),
        Reason("dont_dedup", "left out by request.meta", setting=False),
        Reason("fault", "no table service answered, or dedup failed", setting=False),
    )
}

JUDGED = tuple(reason.name for reason in REASONS.values() if reason.judged)
EXEMPTIONS = tuple(reason.name for reason in REASONS.values() if reason.setting)


def label_of(name: str) -> str:
    """Return the label of a reason."""
    return REASONS[name].label if name in REASONS else "kept"
