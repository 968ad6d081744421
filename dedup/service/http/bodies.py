"""The bodies of requests and answers over HTTP, and their description in OpenAPI.

A document is the JSON object that its insert event has (dedup/model/forms.py).
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from dedup.model.events import event_of
from dedup.model.forms import FIELD_BYTES, Event, to_reply
from dedup.model.page import ITEMS_BYTES, Identity, ReserveOptions, Status, Verdict
from dedup.service.core.command_table import COMMANDS, LEAST_SPAN, REASON, TOKEN
from dedup.service.core.refusal import code, message

ITEMS = 10_000  # of a batch; Limits.batch is at most that

Namespace = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
Key = Annotated[
    str, Meta(min_length=1, max_length=FIELD_BYTES["key"], description="A document key.")
]
Token = Annotated[
    str, Meta(max_length=FIELD_BYTES["token"], description="The token that reserve answered.")
]
Whole = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Bits = Annotated[int, Meta(ge=0, le=64)]
Share = Annotated[float, Meta(ge=0, le=1, description="0 to 1: the share of word triples in both.")]
WithFields = Annotated[
    bool, Meta(description="Whether the answer has the stored fields of near-duplicates.")
]


def _text(pattern: str, description: str) -> Any:
    return Annotated[str, Meta(pattern=pattern, description=description)]


Digest = Annotated[
    str,
    Meta(
        pattern=rf"^([0-9a-f]{{2}}){{1,{ITEMS_BYTES}}}$",
        description="A digest of the items that the page yielded.",
    ),
]


class _In(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


def item(name: str, doc: str, fields: list[Any]) -> Any:
    """Return the type of an item of a request."""
    made = msgspec.defstruct(
        name, fields, frozen=True, forbid_unknown_fields=True, kw_only=True, module=__name__
    )
    made.__doc__ = doc
    return made


Held: Any = item(
    "Held",
    "A reservation. The fields about the processed page are for insert only.",
    [
        ("key", Key),
        ("token", Token),
        (
            "paid",
            Annotated[bool, Meta(description="Whether the page yielded what it was fetched for.")],
            True,
        ),
        ("items", Digest | None, None),
    ],
)
OPTIONS: list[Any] = [
    ("exempt", _text(f"^{REASON.pattern}$", "Keeps the page unjudged.") | None, None),
    (
        "guard",
        Annotated[
            bool, Meta(description="Whether a page with another title or canonical URL is kept.")
        ],
        True,
    ),
    (
        "kind",
        Annotated[str, Meta(max_length=FIELD_BYTES["kind"], description="Purpose of the page.")],
        "",
    ),
    ("token", _text(f"^{TOKEN.pattern}$", "The token, made by the client.") | None, None),
    (
        "seconds",
        Annotated[float, Meta(ge=LEAST_SPAN, description="How long the page may be in flight.")]
        | None,
        None,
    ),
]  # of reserve


def options_of(page: Any) -> ReserveOptions:
    """Return the OPTIONS of a page."""
    return ReserveOptions(None, None, page.exempt, page.guard, page.kind, page.token, page.seconds)


class ReleaseRequest(_In, frozen=True):
    """Reservations to be given back."""

    ns: Namespace
    items: Annotated[list[Held], Meta(max_length=ITEMS)]


class InsertRequest(ReleaseRequest, frozen=True):
    """Reservations whose pages were processed."""


class ForgetRequest(_In, frozen=True):
    """Documents to be forgotten."""

    ns: Namespace
    keys: Annotated[list[Key], Meta(max_length=ITEMS)]


class Rows(_In, frozen=True, rename={"rows": "items"}):
    """A request as it is decoded: each of its rows by itself, so that a wrong one has an error in its place."""

    ns: Namespace
    rows: Annotated[list[msgspec.Raw], Meta(max_length=ITEMS)]


class KeyRows(_In, frozen=True, rename={"rows": "keys"}):
    """The same of ForgetRequest."""

    ns: Namespace
    rows: Annotated[list[msgspec.Raw], Meta(max_length=ITEMS)]


ROWS: dict[str, tuple[Any, Any]] = {
    "insert": (Rows, Held),
    "release": (Rows, Held),
    "forget": (KeyRows, Key),
}


# ------------------------------------------------------------------------------------------ answers


class Fault(msgspec.Struct, frozen=True):
    """An error: its code, as over RESP, and what happened."""

    code: str
    message: str


class Failed(msgspec.Struct, frozen=True):
    """A request, or one item of it, that was not carried out."""

    error: Fault


class Judged(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict, without the fields that do not apply; or an error."""

    status: Status | None = None
    token: str | None = None
    of: str | None = None
    distance: int | None = None
    similarity: Share | None = None
    reason: str | None = None
    identity: Identity | None = None
    match: Event | None = None
    error: Fault | None = None


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether it was inserted, released or forgotten; if not, and without an error, there was nothing."""

    done: bool
    error: Fault | None = None


class DoneAnswer(msgspec.Struct, frozen=True):
    """The result of each."""

    results: list[Done]


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the service is ready; the reason says why not, why answers may be stale, or which namespaces are refused."""

    status: Literal["ok", "not_ready", "stale", "partial"]
    reason: str = ""


def fault(error: Exception) -> Fault:
    """Return an error as it is encoded."""
    return Fault(code(error), message(error))


def given(held: Any) -> dict[str, Any]:
    """Return what an item of insert says of its document; defaults are left out."""
    paid = {} if held.paid else {"paid": False}
    return paid | ({"items": bytes.fromhex(held.items)} if held.items else {})


def judged(namespace: str, verdict: Verdict, *, fields: bool) -> Judged:
    """Return a verdict as it is encoded."""
    match = verdict.match
    if match is None or not fields:
        return Judged(*to_reply(verdict))
    return Judged(*to_reply(verdict), match=event_of(namespace, match.document))


ENDPOINTS: dict[str, tuple[type[_In], type[msgspec.Struct]]] = {
    "insert": (InsertRequest, DoneAnswer),
    "release": (ReleaseRequest, DoneAnswer),
    "forget": (ForgetRequest, DoneAnswer),
}


class Get(NamedTuple):
    """A path that is read: what routes, roles and the description need to know of it.

    answer  its type, or its media type
    role    that a token needs; "": any token; None: none is asked for
    query   its parameters, those in brackets may be left out
    errors  statuses of them
    """

    path: str
    summary: str
    answer: Any
    role: str | None = None
    query: str = ""
    errors: str = "403"


GETS = (
    Get("/v1/documents", "A stored document.", Event, "read", "ns key", "400 401 403 404 503"),
    Get(
        "/v1/export",
        "Documents of a namespace, one a line, from an id on, as `dedup store import` takes them.",
        "application/x-ndjson", "admin", "ns [from]", "400 401 403 404 503",
    ),
    Get("/metrics", "Figures for Prometheus.", "text/plain", "read", "", "401 403"),
    Get("/livez", "The process works.", Health),
    Get("/readyz", "Probes are answered.", Health),
    Get("/openapi.json", "This description.", "application/json"),
    Get("/", "A page that draws what /metrics counts.", "text/html"),
)  # fmt: skip
PATH_ROLES: dict[str, str | None] = (
    {command.path: command.role for command in COMMANDS.values()}
    | {get.path: get.role for get in GETS}
    | {"/v1/judge": "crawl"}
)  # of other paths any token's

ERRORS = {
    "400": "The request does not match this document.",
    "401": "The token is missing or wrong.",
    "403": "The Host is not one of this service's, or the token's role may not do this (NOPERM).",
    "404": "There is no such document, or no such namespace.",
    "409": "RECIPE or DISTANCE: this namespace cannot judge such pages.",
    "413": "LIMIT: too much at once.",
    "415": "The body is not JSON.",
    "503": "NOTREADY or STORE: keep the page, and ask again later.",
}


def openapi(
    version: str, judge: tuple[type[_In], type[msgspec.Struct]], html_types: Iterable[str]
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the interface; judge has the types of /v1/judge (judge.py)."""
    endpoints = ENDPOINTS | {"judge": judge}
    types = [kind for pair in endpoints.values() for kind in pair]
    types += [get.answer for get in GETS if not isinstance(get.answer, str)] + [Failed]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    of = dict(zip(types, schemas, strict=True))

    def answer(kind: Any, text: str) -> dict[str, Any]:
        if isinstance(kind, str):
            schema = {"type": "object" if kind == "application/json" else "string"}
            return {"description": text, "content": {kind: {"schema": schema}}}
        return {"description": text, "content": {"application/json": {"schema": of[kind]}}}

    errors = {status: answer(Failed, text) for status, text in ERRORS.items()}
    of_post = {status: each for status, each in errors.items() if status != "404"}
    paths: dict[str, Any] = {
        f"/v1/{name}": {
            "post": {
                "summary": (request.__doc__ or "").strip(),
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": of[request]}},
                },
                "responses": {"200": answer(answered, (answered.__doc__ or "").strip()), **of_post},
            }
        }
        for name, (request, answered) in endpoints.items()
    }
    page = {kind: {"schema": {"type": "string"}} for kind in html_types}
    paths["/v1/judge"]["post"]["requestBody"]["content"] |= page
    for get in GETS:
        responses = {"200": answer(get.answer, get.summary)}
        responses |= {status: errors[status] for status in get.errors.split()}
        if get.answer is Health:
            responses["503"] = answer(Health, "It was not done; the reason says why.")
        described: dict[str, Any] = {"summary": get.summary, "responses": responses}
        if get.query:
            described["parameters"] = [_parameter(name) for name in get.query.split()]
        if get.role is None:
            described["security"] = []
        paths[get.path] = {"get": described}
    text = "The id to go on from; absent at the end."
    headers = {"x-dedup-next": {"description": text, "schema": {"type": "integer"}}}
    paths["/v1/export"]["get"]["responses"]["200"]["headers"] = headers
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dedup table service",
            "version": version,
            "description": "Near-duplicates of web pages. docs/reference/protocol.md says the same in prose.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _parameter(text: str) -> dict[str, Any]:
    name = text.strip("[]")
    schema = {"type": "integer", "default": 0} if name == "from" else {"type": "string"}
    return {"name": name, "in": "query", "required": name == text, "schema": schema}
