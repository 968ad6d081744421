"""The forms of a page, and those of a verdict.

    record   an array on disk (MessagePack); sparse fields at their default are left out at its end, or nil
    event    a JSON object: the value of a record of the log (events.py), a line of an export, a document in an answer
    page     the same object, of a page that is asked about: its fingerprint, domain and kind

The structs that are decoded are derived from the table of dedup.model.page, the functions are written out: a loop over
the fields would take several times as long. tests/model/test_forms.py holds that every form has every field.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, cast, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dedup.model.errors import UsageError
from dedup.model.page import (
    ITEMS_BYTES,
    PARTS_BYTES,
    SKETCH_BYTES,
    Document,
    Form,
    Identity,
    Neighbour,
    PageFingerprint,
    Status,
    Verdict,
)

TIME_LIMIT = 10**15  # milliseconds; up to there seconds and milliseconds turn into each other
ANY_FEATURES = 2**32 - 1  # of a page that does not say how many: enough for any policy


class Field(NamedTuple):
    """A field of a stored document.

    name      its attribute
    of_page   whether it is PageFingerprint's, else Document's
    form      how it is written
    default   its default, msgspec.NODEFAULT without one
    """

    name: str
    of_page: bool
    form: Form
    default: Any

    @property
    def event(self) -> str:
        """Its name in JSON."""
        return self.form.event or self.name

    @property
    def column(self) -> str:
        """Its name in tables."""
        return self.form.column or self.name

    @property
    def digits(self) -> tuple[int, int]:
        """The least and greatest number of hex digits of a word, or of bytes."""
        form = self.form
        return (form.most // 4,) * 2 if form.codec == "word" else (2 * form.least, 2 * form.most)

    @property
    def is_hex(self) -> bool:
        """Whether it is written as hex digits."""
        return self.form.codec in {"word", "bytes"}


def fields_of(struct: type[msgspec.Struct], *, of_page: bool = False) -> list[Field]:
    """Return the fields of a struct that have a Form, in their order; a page's in its place."""
    hints = get_type_hints(struct, include_extras=True)
    found: list[Field] = []
    for field in msgspec.structs.fields(struct):
        if hints[field.name] is PageFingerprint:
            found += fields_of(PageFingerprint, of_page=True)
        for form in get_args(hints[field.name]):
            if isinstance(form, Form):
                found.append(Field(field.name, of_page, form, field.default))
    return found


FIELDS = fields_of(Document)
ALWAYS = [field for field in FIELDS if not field.form.sparse]
SPARSE = [field for field in FIELDS if field.form.sparse]
RECORD = sorted(
    (field for field in FIELDS if field.form.place is not None),
    key=lambda field: field.form.place or 0,
)
assert [field.form.place for field in RECORD] == list(range(len(RECORD)))
assert [field.form.sparse for field in RECORD] == sorted(field.form.sparse for field in RECORD)


# ------------------------------------------------------------------------------------- bounds

FIELD_BYTES = {field.name: field.form.most for field in FIELDS if field.form.codec == "text"} | {
    "namespace": 64,
    "token": 64,
}


class TooLong(UsageError):
    """A field of a command has more bytes than it may have."""

    code = "LIMIT"


def check_field(name: str, text: str) -> str:
    """Return a text that a client sends. Raises TooLong if its UTF-8 is beyond FIELD_BYTES."""
    most = FIELD_BYTES[name]
    # a character has up to four bytes: most fields need not be encoded
    if 4 * len(text) > most and len(text if text.isascii() else text.encode()) > most:
        raise TooLong(f"{name} {text[:40]!r}... is too long: {most} bytes are allowed")
    return text


_TEXTS = ("key", "domain", "kind")


def _texts_fit(document: Document) -> bool:
    texts = [(name, getattr(document, name)) for name in _TEXTS]
    return all(
        len(text.encode("utf-8", "surrogatepass")) <= FIELD_BYTES[name]
        for name, text in (*texts, ("recipe", document.page.recipe))
    )


def check_storable(document: Document) -> None:
    """Raise UsageError unless the fields of a document are within their bounds: what a store takes can be read again."""
    page = document.page
    is_short = (  # whatever its characters are
        len(document.key) <= FIELD_BYTES["key"] // 4
        and len(document.domain) <= FIELD_BYTES["domain"] // 4
        and len(document.kind) <= FIELD_BYTES["kind"] // 4
        and len(page.recipe) <= FIELD_BYTES["recipe"] // 4
    )
    if (
        page.value >> 64  # a negative number leaves -1
        or page.identity >> 64
        or page.links >> 64
        or page.thing >> 32
        or len(page.sketch) != SKETCH_BYTES
        or not 0 <= page.features < 2**63
        or (page.parts and len(page.parts) != PARTS_BYTES)
        or len(document.items) > ITEMS_BYTES
        or not (is_short or _texts_fit(document))
    ):
        raise UsageError(
            f"the page {document.key[:200]!r} cannot be stored: value, identity and links are 0 to 2**64 - 1, thing to 2**32 - 1, "
            f"features to 2**63 - 1; a sketch has {SKETCH_BYTES} bytes, parts none or {PARTS_BYTES}, items up to "
            f"{ITEMS_BYTES:,}; texts have up to {', '.join(f'{FIELD_BYTES[name]:,} ({name})' for name in _TEXTS)} bytes. "
            f"Its sketch has {len(page.sketch)}, its parts {len(page.parts)}, its items {len(document.items):,}"
        )


# -------------------------------------------------------------------- records on disk (MessagePack)

_KINDS: dict[str, Any] = {
    "word": int,
    "bytes": bytes,
    "number": int,
    "text": str,
    "flag": bool,
    "seconds": float,
}


def _recorded(field: Field) -> tuple[Any, ...]:
    form, kind = field.form, _KINDS[field.form.codec]
    least = int(form.sparse)  # its default is not written
    if form.codec == "bytes":
        kind = Annotated[bytes, Meta(min_length=max(form.least, least), max_length=form.most)]
    elif form.sparse:
        kind = Annotated[kind, Meta(ge=least) if kind is int else Meta(min_length=least)]
    return (field.name, kind | None, None) if form.sparse else (field.name, kind)


Record: Any = msgspec.defstruct(
    "Record",
    list(map(_recorded, RECORD)),
    frozen=True,
    array_like=True,
    forbid_unknown_fields=True,
    gc=False,
)


def to_record(document: Document) -> tuple[Any, ...]:
    """Return a document's record."""
    page = document.page
    fixed = (
        document.key,
        document.domain,
        document.inserted_seconds,
        page.value,
        page.sketch,
        page.identity,
        page.features,
        document.kind,
        document.paid,
    )
    if not (page.links or page.parts or document.items or page.thing):
        return fixed
    tail = [page.links or None, page.parts or None, document.items or None, page.thing or None]
    while tail[-1] is None:
        del tail[-1]
    return (*fixed, *tail)


def of_record(r: Any, recipe: str) -> Document:
    """Return the document of a record (Record) and a recipe."""
    page = PageFingerprint(
        r.value,
        r.sketch,
        r.identity,
        r.features,
        recipe,
        unread=False,
        links=r.links or 0,
        parts=r.parts or b"",
        thing=r.thing or 0,
    )
    return Document(r.key, page, r.domain, r.inserted_seconds, r.kind, r.paid, r.items or b"")


# ---------------------------------------------------------------------------------------- JSON


def _json_type(field: Field) -> Any:
    form = field.form
    bounds: dict[str, Any] = {}
    kind = _KINDS[form.codec]
    if field.is_hex:
        kind, (least, most) = str, field.digits
        bounds = {"min_length": least, "max_length": most}
    elif form.codec == "number":
        bounds = {"ge": 0, "le": form.most}
    elif form.codec == "seconds":
        kind, bounds = int, {"ge": -TIME_LIMIT, "le": TIME_LIMIT}
    description = (
        f"{form.help[:1].upper()}{form.help[1:]}{', as hex digits' if field.is_hex else ''}."
    )
    return Annotated[kind, Meta(description=description, **bounds)]


def _event_fields() -> list[Any]:
    fields: list[Any] = [("v", int), ("ns", str)]
    required = True
    for field in ALWAYS:
        # after `ts` every field has a default: later releases added it
        default = () if required else (field.default,)
        fields.append((field.event, _json_type(field), *default))
        required = required and field.form.codec != "seconds"
    return fields + [(field.event, _json_type(field) | UnsetType, UNSET) for field in SPARSE]


_MISSING = {
    "v": 1,
    "ns": "",
    "key": "",
    "identity": "0" * 16,
    "features": ANY_FEATURES,
    "domain": "",
    "ts": 0,
}


def _page_fields() -> list[Any]:
    """Return the fields of an event, of which a page that is asked about needs three; those come first."""
    types = {name: (kind, *default) for name, kind, *default in _event_fields()}
    needed: list[Any] = [(name, *types.pop(name)) for name in ("value", "sketch", "recipe")]
    return needed + [
        (name, kind, *(default or (_MISSING[name],))) for name, (kind, *default) in types.items()
    ]


Event: Any = msgspec.defstruct(
    "Event", _event_fields(), frozen=True, forbid_unknown_fields=True, gc=False, module=__name__
)
Event.__doc__ = "A stored document, as its insert event has it; ts is Unix time in milliseconds."
PageForm: Any = msgspec.defstruct(
    "PageForm",
    _page_fields(),
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
)
_hex_digits = re.compile("[0-9a-f]*").fullmatch
_fromhex = bytes.fromhex


def to_event(version: int, namespace: str, document: Document, milliseconds: int) -> Any:
    """Return the event of a document."""
    page = document.page
    return Event(
        version,
        namespace,
        document.key,
        f"{page.value:016x}",
        page.sketch.hex(),
        f"{page.identity:016x}",
        page.features,
        page.recipe,
        document.domain,
        milliseconds,
        document.kind,
        document.paid,
        f"{page.links:016x}" if page.links else UNSET,
        page.parts.hex() if page.parts else UNSET,
        f"{page.thing:08x}" if page.thing else UNSET,
        document.items.hex() if document.items else UNSET,
    )


def of_event(r: Any) -> Document:
    """Return the document of an event or page. Raises ValueError for digits that are no lower-case hex."""
    value, sketch, identity = r.value, r.sketch, r.identity
    links, parts, thing, items = r.links or "", r.parts or "", r.thing or "", r.items or ""
    # int() takes signs, spaces, underscores and capitals too; only one spelling is allowed
    if not _hex_digits(f"{value}{sketch}{identity}{links}{parts}{thing}{items}"):
        raise _wrong_hex(r)
    page = PageFingerprint(
        int(value, 16),
        _fromhex(sketch),
        int(identity, 16),
        r.features,
        r.recipe,
        unread=False,
        links=int(links, 16) if links else 0,
        parts=_fromhex(parts) if parts else b"",
        thing=int(thing, 16) if thing else 0,
    )
    return Document(r.key, page, r.domain, r.ts / 1000, r.kind, r.paid, _fromhex(items))


def _wrong_hex(r: Any) -> ValueError:
    wrong = {f.event: getattr(r, f.event) or "" for f in FIELDS if f.is_hex}
    name, text = next((name, text) for name, text in wrong.items() if not _hex_digits(str(text)))
    return ValueError(f"{text!r} is not lower-case hex digits - at `$.{name}`")


_encode = msgspec.json.Encoder().encode
_decode_page = msgspec.json.Decoder(PageForm).decode


def encode_page(document: Document) -> bytes:
    """Return a page that is asked about as JSON: its fingerprint, domain and kind."""
    page = document.page
    return _encode(
        PageForm(
            f"{page.value:016x}",
            page.sketch.hex(),
            page.recipe,
            1,
            "",
            "",
            f"{page.identity:016x}",
            page.features,
            document.domain,
            0,
            document.kind,
            True,
            f"{page.links:016x}" if page.links else UNSET,
            page.parts.hex() if page.parts else UNSET,
            f"{page.thing:08x}" if page.thing else UNSET,
        )
    )


SHORT = 16  # characters that no bound in bytes forbids


def decode_page(data: bytes) -> Document:
    """Return a page that is asked about, without a key. An event is a page, too. Raises UsageError, and TooLong."""
    try:
        found = of_event(_decode_page(data))
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise UsageError(f"the page is not allowed: {error}") from error
    if len(found.domain) > SHORT or len(found.kind) > SHORT or len(found.page.recipe) > SHORT:
        for name in ("domain", "kind"):
            check_field(name, getattr(found, name))
        check_field("recipe", found.page.recipe)
    return msgspec.structs.replace(found, key="") if found.key else found


# ------------------------------------------------------------------------------------------ verdicts

# reply    [status, token, of, distance, similarity, reason, identity]: RESP; HTTP, by these names
# plain    a dictionary of built-in values: request.meta["dedup"]
# headers  the headers of a Kafka record, without fields that the verdict does not have
# columns  the end of a row in a table of verdicts: dedup scan and Spark

_STATUSES = frozenset(get_args(Status))
_IDENTITIES = frozenset(get_args(Identity))

Reply = tuple[Status, str | None, str | None, int | None, float | None, str | None, Identity | None]
Columns = tuple[Status, str, str | None, int | None, float | None, Identity | None, str]

Matched = tuple[str | None, int | None, float | None, Identity | None]

_NO_MATCH: Matched = (None, None, None, None)


def matched(match: Neighbour | None) -> Matched:
    """Return of, distance, similarity and identity of a verdict's match; None without one."""
    if match is None:
        return _NO_MATCH
    return match.document.key, match.distance, match.similarity, match.identity


def to_reply(verdict: Verdict) -> Reply:
    """Return the answer to RESERVE; None in place of fields that it does not have."""
    of, distance, similarity, identity = matched(verdict.match)
    reason = verdict.reason or None
    return verdict.status, verdict.token, of, distance, similarity, reason, identity


def from_reply(reply: Sequence[Any], document: Document, found: Document | None) -> Verdict:
    """Return the verdict of an answer to RESERVE, its texts as bytes, on a document.

    found is the document that the match is about, if the answer has it; else only its key is known.
    Raises ValueError, TypeError or AttributeError for anything else.
    """
    status, token, of, distance, similarity, reason, identity = reply
    match = None
    if of is not None:
        if found is None:
            found = Document(of.decode(), PageFingerprint(0, b"", 0, 0, document.page.recipe))
        said = cast("Identity", _one_of(_IDENTITIES, identity))
        match = Neighbour(found, int(distance), float(similarity), said)
    return Verdict(
        cast("Status", _one_of(_STATUSES, status)),
        "" if reason is None else reason.decode(),
        document,
        None if token is None else token.decode(),
        match,
    )


def _one_of(known: frozenset[str], word: bytes) -> str:
    if (text := word.decode()) not in known:
        raise ValueError(text)
    return text


def to_plain(verdict: Verdict) -> dict[str, str | int | float | None]:
    """Return a verdict as request.meta["dedup"] shows it."""
    of, distance, similarity, identity = matched(verdict.match)
    return {
        "status": verdict.status,
        "reason": verdict.reason,
        "key": verdict.document.key,
        "of": of,
        "distance": distance,
        "similarity": similarity,
        "identity": identity,
        "token": verdict.token,
    }


def to_headers(verdict: Verdict) -> dict[str, str | int | float | None]:
    """Return the headers that explain the verdict on a page."""
    shown = to_plain(verdict)
    names = ("status", "reason", "of", "distance", "similarity", "identity")
    return {name: shown[name] for name in names if shown[name] not in {None, ""}}


def to_columns(verdict: Verdict) -> Columns:
    """Return status, reason, of, distance, similarity, identity, and the key of the page's original.

    A page that is kept is its own original, even if its match is known.
    """
    match = verdict.match if verdict.status == "near_duplicate" else None
    original = verdict.document if match is None else match.document
    return verdict.status, verdict.reason, *matched(match), original.key
