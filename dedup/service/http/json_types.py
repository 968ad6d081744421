"""The bodies of HTTP requests and answers: what is decoded and encoded, and what OpenAPI describes.

The fields of a page and of its options are derived from dedup.model (http_fields).
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dedup.model.forms import (
    FIELDS,
    GIVEN_AT_INSERT,
    OPTIONS,
    document_fields,
    document_struct,
    http_fields,
    options_of_http,
    page_of_http,
    to_http,
)
from dedup.model.page import Document, Identity, Neighbour, Status, Verdict
from dedup.model.verdict_forms import to_reply
from dedup.model.words import FIELD_BYTES
from dedup.service.core.namespaces import Asked
from dedup.service.core.near_duplicates_seen import NearDuplicateView

ITEMS = 10_000  # of a batch; Limits.batch is at most that

Namespace = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
Key = Annotated[
    str, Meta(min_length=1, max_length=FIELD_BYTES["key"], description="A document key.")
]
Token = Annotated[
    str, Meta(max_length=FIELD_BYTES["token"], description="The token that reserve answered.")
]
RecipeId = Annotated[
    str, Meta(max_length=FIELD_BYTES["recipe"], description="The recipe of the fingerprints.")
]
Whole = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Bits = Annotated[int, Meta(ge=0, le=64)]
Share = Annotated[float, Meta(ge=0, le=1, description="0 to 1: the share of word triples in both.")]
WithFields = Annotated[
    bool, Meta(description="Whether the answer has the stored fields of near-duplicates.")
]


class _In(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


def _item(name: str, doc: str, fields: list[Any]) -> Any:
    """Return the type of an item of a request."""
    made = msgspec.defstruct(
        name, fields, frozen=True, forbid_unknown_fields=True, kw_only=True, module=__name__
    )
    made.__doc__ = doc
    return made


_OF_PAGE = [field for field in FIELDS if field.of_page and field.name != "recipe"]
_DOMAIN = [field for field in FIELDS if field.name == "domain"]
_PROBED = [field for field in _OF_PAGE if field.name != "features"]
_NEEDED = [field for field in _PROBED if field.name in {"value", "sketch"}]
_OTHERS = [field for field in _PROBED if field not in _NEEDED]

ProbedPage: Any = _item(
    "ProbedPage",
    "The fingerprint of a page that is only looked up.",
    [*http_fields(_NEEDED), *http_fields(_DOMAIN), *http_fields(_OTHERS, optional=True)],
)
ReservedPage: Any = _item(
    "ReservedPage",
    "A page to be judged, and its document key.",
    [("key", Key), *http_fields([*_OF_PAGE, *_DOMAIN]), *http_fields(OPTIONS)],
)
Held: Any = _item(
    "Held",
    "A reservation; what is known of its document after the page was processed is for insert only.",
    [("key", Key), ("token", Token), *http_fields(GIVEN_AT_INSERT)],
)


class ProbeRequest(_In, frozen=True):
    """Pages to look up, of one namespace and recipe."""

    ns: Namespace
    recipe: RecipeId
    pages: Annotated[list[ProbedPage], Meta(max_length=ITEMS)]
    distance: Bits | None = None
    similarity: Share | None = None
    scope: Literal["global", "site"] = "global"
    count: Annotated[int, Meta(ge=1)] | None = None
    fields: WithFields = False


class ReserveRequest(_In, frozen=True):
    """Pages to be judged in this order, of one namespace and recipe."""

    ns: Namespace
    recipe: RecipeId
    pages: Annotated[list[ReservedPage], Meta(max_length=ITEMS)]
    distance: Bits | None = None
    similarity: Share | None = None
    features: Whole | None = None
    scope: Literal["global", "site"] = "global"
    fields: WithFields = False


class InsertRequest(_In, frozen=True):
    """Reservations whose pages were processed."""

    ns: Namespace
    items: Annotated[list[Held], Meta(max_length=ITEMS)]
    pin: bool = False


class ReleaseRequest(_In, frozen=True):
    """Reservations to be given back."""

    ns: Namespace
    items: Annotated[list[Held], Meta(max_length=ITEMS)]


class ForgetRequest(_In, frozen=True):
    """Documents to be forgotten."""

    ns: Namespace
    keys: Annotated[list[Key], Meta(max_length=ITEMS)]


# ------------------------------------------------------------------------------------------ answers


class Fault(msgspec.Struct, frozen=True):
    """An error: its code, as over RESP, and what happened."""

    code: str
    message: str


class Failed(msgspec.Struct, frozen=True):
    """A request, or one item of it, that was not carried out."""

    error: Fault


StoredDocument: Any = document_struct()


class Near(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored near-duplicate: its distance in bits, and the similarity of the texts."""

    key: str
    distance: int
    similarity: Share
    identity: Identity | None = None
    document: StoredDocument | None = None


class ProbeAnswer(msgspec.Struct, frozen=True):
    """For each page its stored near-duplicates, the most similar first."""

    results: list[list[Near]]


class Judged(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict, without the fields that do not apply; or an error."""

    status: Status | None = None
    token: str | None = None
    of: str | None = None
    distance: int | None = None
    similarity: Share | None = None
    reason: str | None = None
    identity: Identity | None = None
    match: StoredDocument | None = None
    error: Fault | None = None


class ReserveAnswer(msgspec.Struct, frozen=True):
    """A verdict, or an error, for each page."""

    results: list[Judged]


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether it was inserted, released or forgotten; if not, and without an error, there was nothing."""

    done: bool
    error: Fault | None = None


class DoneAnswer(msgspec.Struct, frozen=True):
    """The result of each."""

    results: list[Done]


class SeenAnswer(msgspec.Struct, frozen=True):
    """The last near-duplicates that a look-up is about, the newest first; since the process started."""

    results: list[NearDuplicateView]


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the service is ready; the reason says why not, or why answers may be stale."""

    status: Literal["ok", "not_ready", "stale"]
    reason: str = ""


def asked(request: ProbeRequest | ReserveRequest) -> Asked:
    """Return the policy that a request asks for."""
    features = request.features if isinstance(request, ReserveRequest) else None
    return Asked(request.distance, request.similarity, features, request.scope)


_to_http = to_http()
probed = page_of_http(_PROBED)
fingerprint = page_of_http(_OF_PAGE)
options = options_of_http()


def near(neighbour: Neighbour, *, fields: bool) -> Near:
    """Return a neighbour as it is encoded."""
    document = neighbour.document
    if not fields:
        return Near(document.key, neighbour.distance, neighbour.similarity)
    return Near(
        document.key,
        neighbour.distance,
        neighbour.similarity,
        neighbour.identity,
        _to_http(document),
    )


def given(held: Any) -> dict[str, Any]:
    """Return what an item of insert says of its document; defaults are left out."""
    found = {}
    for field in GIVEN_AT_INSERT:
        value = getattr(held, field.name)
        if value is not None and value != field.default:
            found[field.name] = bytes.fromhex(value) if field.form.codec == "bytes" else value
    return found


def judged(verdict: Verdict, *, fields: bool) -> Judged:
    """Return a verdict as it is encoded."""
    match = verdict.match
    if match is None or not fields:
        return Judged(*to_reply(verdict))
    return Judged(*to_reply(verdict), match=_to_http(match.document))


DocumentAnswer: Any = msgspec.defstruct(
    "DocumentAnswer",
    [("ns", Namespace), *document_fields()],
    frozen=True,
    module=__name__,
)
DocumentAnswer.__doc__ = "A stored document; inserted_seconds is Unix time."


def document(namespace: str, found: Document) -> Any:
    """Return a document as it is encoded."""
    made = _to_http(found)
    return DocumentAnswer(namespace, *(getattr(made, name) for name in made.__struct_fields__))


ENDPOINTS: dict[str, tuple[type[_In], type[msgspec.Struct]]] = {
    "probe": (ProbeRequest, ProbeAnswer),
    "reserve": (ReserveRequest, ReserveAnswer),
    "insert": (InsertRequest, DoneAnswer),
    "release": (ReleaseRequest, DoneAnswer),
    "forget": (ForgetRequest, DoneAnswer),
}
