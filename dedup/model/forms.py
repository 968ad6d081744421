"""The forms of a page, derived at import from the structs of dedup.model.page; and those of a verdict.

    FIELDS -> source of a function, or a struct -> compiled once, where the form is used

The functions are generated as source, as dataclasses does: a loop over the fields would take several times
as long, and these run for every page.

Invariants: a field that is declared is in every form, but one that is `here` (Form) in records on disk only; a form omits
a sparse field that has its default, so that forms of older releases and of pages without it are the same bytes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, cast, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dedup.model.page import (
    Document,
    Form,
    Identity,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Status,
    Verdict,
)

COUNT = 2**32 - 1  # greatest number that a client may send
LEAST_SPAN = 0.001  # seconds that a client may ask for
PATTERNS = {"reason": "[a-z][a-z_]{0,31}", "token": "[A-Za-z0-9-]{16,64}"}


class Codec(NamedTuple):
    """The values of one codec: their type, and the sources that write and read one in JSON.

    In a source {v} is that of the value, {n} the number of hex digits of a word.
    """

    kind: Any
    to_json: str = "{v}"
    of_json: str = "{v}"


CODECS = {
    "word": Codec(int, 'f"{{{v}:0{n}x}}"', "int({v}, 16)"),
    "bytes": Codec(bytes, "{v}.hex()", "fromhex({v})"),
    "number": Codec(int),
    "text": Codec(str),
    "flag": Codec(bool),
    "seconds": Codec(float, "milliseconds", "{v} / 1000"),
    "switch": Codec(bool),
    "span": Codec(float),
    "reason": Codec(str),
    "token": Codec(str),
}


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
        """Its name in events."""
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
OPTIONS = fields_of(ReserveOptions)
GIVEN_AT_INSERT = [field for field in FIELDS if field.form.given == "insert"]

RECORD = sorted(
    (field for field in FIELDS if field.form.place is not None),
    key=lambda field: field.form.place or 0,
)
assert [field.form.place for field in RECORD] == list(range(len(RECORD)))
assert [field.form.sparse for field in RECORD] == sorted(field.form.sparse for field in RECORD)


_SCOPE: dict[str, Any] = {
    "Document": Document,
    "PageFingerprint": PageFingerprint,
    "ReserveOptions": ReserveOptions,
    "UNSET": UNSET,
    "fromhex": bytes.fromhex,
}


def compiled(source: str, name: str, **more: Any) -> Callable[..., Any]:
    """Return a function of generated source, which may use the structs of a page, and `more`."""
    names = _SCOPE | more
    exec(compile(source, f"<dedup.model.forms {name}>", "exec"), names)  # noqa: S102 - our own source
    function: Callable[..., Any] = names[name]
    return function


def built(struct: type[msgspec.Struct], values: Mapping[str, str]) -> str:
    """Return the source that builds a struct; arguments are positional, which is faster.

    values is the source of each field; what is not in it has its default.
    """
    arguments = []
    for field in msgspec.structs.fields(struct):
        if struct is Document and field.name == "page":
            arguments.append(built(PageFingerprint, values))
        else:
            arguments.append(values.get(field.name) or repr(field.default))
    return f"{struct.__name__}({', '.join(arguments)})"


def _from(field: Field) -> str:
    return f"page.{field.name}" if field.of_page else f"document.{field.name}"


# -------------------------------------------------------------------------- what can be stored


@cache
def storable() -> Callable[[PageFingerprint], bool]:
    """Return the function that says whether the fields of a fingerprint are in their ranges."""
    wrong = []
    for field in (field for field in FIELDS if field.of_page):
        value, form = f"page.{field.name}", field.form
        if form.codec == "word":
            wrong.append(f"{value} >> {form.most}")  # a negative number leaves -1
        elif form.codec == "number":
            wrong.append(f"not 0 <= {value} <= {form.most}")
        elif form.codec == "bytes" and form.sparse:
            wrong.append(f"({value} and not {form.least} <= len({value}) <= {form.most})")
        elif form.codec == "bytes":
            wrong.append(f"not {form.least} <= len({value}) <= {form.most}")
    source = f"def is_storable(page):\n    return not ({' or '.join(wrong)})\n"
    return compiled(source, "is_storable")


# -------------------------------------------------------------------- records on disk (MessagePack)


@cache
def record_struct() -> type[msgspec.Struct]:
    """Return the struct of a record: an array, in which sparse fields may be absent or nil."""
    fields: list[Any] = []
    for field in RECORD:
        form, kind = field.form, CODECS[field.form.codec].kind
        least = int(form.sparse)  # its default is not written
        if form.codec == "bytes":
            kind = Annotated[bytes, Meta(min_length=max(form.least, least), max_length=form.most)]
        elif form.sparse:
            bounds = Meta(ge=least) if kind is int else Meta(min_length=least)
            kind = kind if kind is bool else Annotated[kind, bounds]
        fields.append((field.name, kind | None, None) if form.sparse else (field.name, kind))
    return msgspec.defstruct(
        "Record", fields, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False
    )


@cache
def to_record() -> Callable[[Document], tuple[Any, ...]]:
    """Return the function that returns a document's record as a tuple."""
    fixed = [field for field in RECORD if not field.form.sparse]
    sparse = [field for field in RECORD if field.form.sparse]
    some = " or ".join(map(_from, sparse))
    lines = [
        "def to_record(document):",
        "    page = document.page",
        f"    fixed = ({', '.join(map(_from, fixed))})",
        f"    if not ({some}):",
        "        return fixed",
        f"    tail = [{', '.join(f'{_from(field)} or None' for field in sparse)}]",
        "    while tail[-1] is None:",
        "        del tail[-1]",
        "    return (*fixed, *tail)",
    ]
    return compiled("\n".join(lines), "to_record")


@cache
def of_record() -> Callable[[Any, str], Document]:
    """Return the function that makes the document of a record (record_struct()) and a recipe."""
    values = {field.name: f"r.{field.name}" for field in RECORD}
    values |= {
        field.name: f"r.{field.name} or {field.default!r}" for field in RECORD if field.form.sparse
    }
    values["recipe"] = "recipe"
    return compiled(
        f"def of_record(r, recipe):\n    return {built(Document, values)}\n", "of_record"
    )


# --------------------------------------------------------------------------------- JSON events


def json_type(field: Field, milliseconds: int = 0) -> Any:
    """Return the type of a field in JSON; Unix time as whole milliseconds if a limit is given."""
    form = field.form
    if field.is_hex:
        least, most = field.digits
        return Annotated[str, Meta(min_length=least, max_length=most)]
    if form.codec == "number":
        return Annotated[int, Meta(ge=0, le=form.most)]
    if form.codec == "seconds" and milliseconds:
        return Annotated[int, Meta(ge=-milliseconds, le=milliseconds)]
    return CODECS[form.codec].kind


def _to_json(field: Field, value: str, seconds: str = "milliseconds") -> str:
    """Return the source of a field's JSON value; seconds is that of a Unix time."""
    source = seconds if field.form.codec == "seconds" else written(field, value)
    return f"({source} if {value} else UNSET)" if field.form.sparse else source


def written(field: Field, value: str) -> str:
    """Return the source of a field's text or number."""
    return CODECS[field.form.codec].to_json.format(v=value, n=field.form.most // 4)


def _of_json(field: Field, value: str) -> str:
    """Return the source of a field's value, given its JSON value."""
    source = CODECS[field.form.codec].of_json.format(v=value)
    return f"({source} if {value} else {field.default!r})" if field.form.sparse else source


@cache
def event_struct(milliseconds: int) -> type[msgspec.Struct]:
    """Return the struct of an event's value: the fields that are always written, then the sparse ones."""
    fields: list[Any] = [("v", int), ("ns", str)]
    required = True
    for field in ALWAYS:
        kind = json_type(field, milliseconds)
        # after `ts` every field has a default: later releases added it
        if required:
            fields.append((field.event, kind))
            required = field.form.codec != "seconds"
        else:
            fields.append((field.event, kind, field.default))
    fields += [(field.event, json_type(field, milliseconds) | UnsetType, UNSET) for field in SPARSE]
    return msgspec.defstruct("Event", fields, frozen=True, forbid_unknown_fields=True, gc=False)


@cache
def to_event(limit: int) -> Callable[[int, str, Document, int], msgspec.Struct]:
    """Return the function of version, namespace, document and its milliseconds that makes an event."""
    values = ", ".join(_to_json(field, _from(field)) for field in (*ALWAYS, *SPARSE))
    source = (
        "def to_event(version, namespace, document, milliseconds):\n"
        "    page = document.page\n"
        f"    return Event(version, namespace, {values})\n"
    )
    return compiled(source, "to_event", Event=event_struct(limit))


@cache
def of_event() -> Callable[[Any], Document]:
    """Return the function that makes the document of an event, whose digits were checked."""
    values = {field.name: _of_json(field, f"r.{field.event}") for field in FIELDS}
    return compiled(f"def of_event(r):\n    return {built(Document, values)}\n", "of_event")


@cache
def hex_digits() -> Callable[[Any], str]:
    """Return the function that joins all hex digits of an event, to check them at once."""
    parts = [
        f"(r.{field.event} or '')" if field.form.sparse else f"r.{field.event}"
        for field in FIELDS
        if field.is_hex
    ]
    return compiled(f"def hex_digits(r):\n    return {' + '.join(parts)}\n", "hex_digits")


# -------------------------------------------------------------------------------- HTTP (JSON bodies)


def http_type(field: Field) -> Any:
    """Return the type of a field in the body of a request, bounded and described."""
    form, kind = field.form, CODECS[field.form.codec].kind
    bounds: dict[str, Any] = {}
    if field.is_hex:
        least, most = field.digits
        digits = f"[0-9a-f]{{{most}}}"
        if least != most:
            digits = f"([0-9a-f]{{2}}){{{form.least},{form.most}}}"
        kind, bounds = str, {"pattern": f"^{digits}$"}
    elif form.codec == "number":
        bounds = {"ge": 0, "le": min(form.most, COUNT)}
    elif form.codec == "text":
        bounds = {"max_length": form.most}
    elif form.codec in PATTERNS:
        bounds = {"pattern": f"^{PATTERNS[form.codec]}$"}
    elif form.codec == "span":
        bounds = {"ge": LEAST_SPAN}
    description = f"{form.help[:1].upper()}{form.help[1:]}."
    return Annotated[kind, Meta(description=description, **bounds)]


def http_fields(fields: Iterable[Field]) -> list[Any]:
    """Return the fields of a request's struct: None in place of a sparse one that is not given."""
    found: list[Any] = []
    for field in fields:
        kind = http_type(field)
        if field.form.sparse or field.default is None:
            found.append((field.name, kind | None, None))
        elif field.default is not msgspec.NODEFAULT:
            found.append((field.name, kind, field.default))
        else:
            found.append((field.name, kind))
    return found


def document_fields() -> list[Any]:
    """Return the fields of a stored document in an answer; sparse ones are absent at their default."""
    fields: list[Any] = [(field.name, http_type(field)) for field in ALWAYS]
    return fields + [(field.name, http_type(field) | UnsetType, UNSET) for field in SPARSE]


@cache
def document_struct() -> type[msgspec.Struct]:
    """Return the struct of a stored document in an answer."""
    made = msgspec.defstruct("StoredDocument", document_fields(), frozen=True, gc=False)
    made.__doc__ = "A stored document; inserted_seconds is Unix time."
    return made


@cache
def to_http() -> Callable[[Document], msgspec.Struct]:
    """Return the function that returns a document as document_struct()."""
    values = ", ".join(
        _to_json(field, _from(field), seconds=_from(field)) for field in (*ALWAYS, *SPARSE)
    )
    source = f"def to_http(document):\n    page = document.page\n    return Made({values})\n"
    return compiled(source, "to_http", Made=document_struct())


def options_of_http() -> Callable[[Any], ReserveOptions]:
    """Return the function that makes the options of an item of a request."""
    values = {field.name: f"item.{field.name}" for field in OPTIONS} | {"domain": "item.domain"}
    return compiled(
        f"def options_of(item):\n    return {built(ReserveOptions, values)}\n", "options_of"
    )


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
