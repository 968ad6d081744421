"""The JSON of the HTTP interface: what comes in, what goes out, and their description (OpenAPI).

The rule kept here: the description is made from the types that decode and encode, so that it is true.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dedup.model.values import (
    Document,
    Neighbour,
    PageFingerprint,
    Status,
    Verdict,
    hex_fingerprint,
)
from dedup.model.verdict_forms import to_reply
from dedup.service.core.namespaces import Asked
from dedup.service.core.overview import Overview

__all__ = ["ENDPOINTS", "openapi"]

ITEMS = 10_000  # of a batch; Limits.batch is at most that

Hex = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="A fingerprint: 16 hex digits.")]
Namespace = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
Key = Annotated[str, Meta(min_length=1, max_length=8192, description="A document key.")]
Token = Annotated[str, Meta(max_length=256, description="What reserve answered.")]
ChosenToken = Annotated[
    str,
    Meta(pattern="^[A-Za-z0-9-]{16,64}$", description="The reservation's token, made by who asks."),
]
RecipeId = Annotated[str, Meta(max_length=64, description="The recipe of the fingerprints.")]
Whole = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Bits = Annotated[int, Meta(ge=0, le=128)]


class _In(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ProbedPage(_In, frozen=True):
    """The fingerprint of a page that is only looked up."""

    value: Hex
    check: Hex
    domain: Annotated[str, Meta(max_length=256)] = ""


class ProbeRequest(_In, frozen=True):
    """Pages to look up, of one namespace and recipe."""

    ns: Namespace
    recipe: RecipeId
    pages: Annotated[list[ProbedPage], Meta(max_length=ITEMS)]
    distance: Bits | None = None
    total: Bits | None = None
    scope: Literal["global", "site"] = "global"
    count: Annotated[int, Meta(ge=1)] | None = None


class ReservedPage(_In, frozen=True):
    """A page to be judged, and who it is."""

    key: Key
    value: Hex
    check: Hex
    links: Hex
    features: Whole
    link_count: Whole
    domain: Annotated[str, Meta(max_length=256)] = ""
    exempt: Annotated[str, Meta(pattern="^[a-z][a-z_]{0,31}$")] | None = None
    guard: bool = True
    token: ChosenToken | None = None
    home: bool = True


class ReserveRequest(_In, frozen=True):
    """Pages to be judged, of one namespace and recipe, in their order."""

    ns: Namespace
    recipe: RecipeId
    pages: Annotated[list[ReservedPage], Meta(max_length=ITEMS)]
    distance: Bits | None = None
    total: Bits | None = None
    features: Whole | None = None
    scope: Literal["global", "site"] = "global"


class Held(_In, frozen=True):
    """A reservation."""

    key: Key
    token: Token


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


class Near(msgspec.Struct, frozen=True):
    """A stored near-duplicate; distances in bits."""

    key: str
    distance: int
    check_distance: int


class ProbeAnswer(msgspec.Struct, frozen=True):
    """For each page its stored near-duplicates, nearest first."""

    results: list[list[Near]]


class Judged(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict, without the fields that it has not; or an error."""

    status: Status | None = None
    token: str | None = None
    of: str | None = None
    distance: int | None = None
    check_distance: int | None = None
    reason: str | None = None
    error: Fault | None = None


class ReserveAnswer(msgspec.Struct, frozen=True):
    """A verdict, or an error, for each page."""

    results: list[Judged]


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether it was done: inserted; released; forgotten. If not by an error, there was nothing."""

    done: bool
    error: Fault | None = None


class DoneAnswer(msgspec.Struct, frozen=True):
    """What became of each."""

    results: list[Done]


class DocumentAnswer(msgspec.Struct, frozen=True):
    """A stored document; inserted_seconds is Unix time."""

    ns: str
    key: str
    value: Hex
    check: Hex
    links: Hex
    features: int
    link_count: int
    recipe: str
    domain: str
    inserted_seconds: float


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the service does its work; if not, or not quite, why."""

    status: Literal["ok", "not_ready", "stale"]
    reason: str = ""


def asked(request: ProbeRequest | ReserveRequest) -> Asked:
    """Return what a request asks of the judgement."""
    features = request.features if isinstance(request, ReserveRequest) else None
    return Asked(request.distance, request.total, features, request.scope)


def near(neighbour: Neighbour) -> Near:
    """Return a neighbour as it goes out."""
    return Near(neighbour.key, neighbour.distance, neighbour.check_distance)


def fingerprint(page: ReservedPage, recipe: str) -> PageFingerprint:
    """Return a page's fingerprint."""
    values = int(page.value, 16), int(page.check, 16), int(page.links, 16)
    return PageFingerprint(*values, page.features, page.link_count, recipe)


def judged(verdict: Verdict) -> Judged:
    """Return a verdict as it goes out."""
    return Judged(*to_reply(verdict))


def document(namespace: str, found: Document) -> DocumentAnswer:
    """Return a document as it goes out."""
    page = found.page
    return DocumentAnswer(
        namespace,
        found.key,
        hex_fingerprint(page.value),
        hex_fingerprint(page.check),
        hex_fingerprint(page.links),
        page.features,
        page.link_count,
        page.recipe,
        found.domain,
        found.inserted_seconds,
    )


# -------------------------------------------------------------------------------------- description

ENDPOINTS: dict[str, tuple[type[_In], type[msgspec.Struct]]] = {
    "probe": (ProbeRequest, ProbeAnswer),
    "reserve": (ReserveRequest, ReserveAnswer),
    "insert": (InsertRequest, DoneAnswer),
    "release": (ReleaseRequest, DoneAnswer),
    "forget": (ForgetRequest, DoneAnswer),
}
ERRORS = {
    "400": "The request is not what this document says.",
    "401": "The token is missing or wrong.",
    "403": "The Host is not one of this service's.",
    "409": "RECIPE or DISTANCE: this namespace cannot judge such pages.",
    "413": "LIMIT: too much at once.",
    "421": "ELSEWHERE: the key belongs to a partition that is not held here.",
    "415": "The body is not JSON.",
    "503": "NOTREADY or STORE: keep the page, and ask again later.",
}


def openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the interface."""
    types = [kind for pair in ENDPOINTS.values() for kind in pair]
    types += [DocumentAnswer, Health, Failed, Overview]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    of = dict(zip(types, schemas, strict=True))

    def answer(kind: type, text: str) -> dict[str, Any]:
        return {"description": text, "content": {"application/json": {"schema": of[kind]}}}

    errors = {status: answer(Failed, text) for status, text in ERRORS.items()}
    elsewhere = errors.pop("421")  # of one item, not of a whole request
    query = [
        {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
        for name in ("ns", "key")
    ]
    open_to_all = {"403": errors["403"]}
    paths: dict[str, Any] = {
        f"/v1/{name}": {
            "post": {
                "summary": (request.__doc__ or "").strip(),
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": of[request]}},
                },
                "responses": {"200": answer(answered, (answered.__doc__ or "").strip()), **errors},
            }
        }
        for name, (request, answered) in ENDPOINTS.items()
    }
    paths["/v1/documents"] = {
        "get": {
            "summary": "A stored document.",
            "parameters": query,
            "responses": {
                "200": answer(DocumentAnswer, "The document."),
                "404": answer(Failed, "There is none."),
                **{status: errors[status] for status in ("400", "401", "403", "503")},
                "421": elsewhere,
            },
        }
    }
    paths["/v1/overview"] = {
        "get": {
            "summary": "What the dashboard shows.",
            "responses": {
                "200": answer(Overview, (Overview.__doc__ or "").strip()),
                **{status: errors[status] for status in ("401", "403")},
            },
        }
    }
    for path, text in (("/livez", "The process works."), ("/readyz", "Probes are answered.")):
        paths[path] = {
            "get": {
                "summary": text,
                "security": [],
                "responses": {
                    "200": answer(Health, text),
                    "503": answer(Health, "Not so; the reason says why."),
                    **open_to_all,
                },
            }
        }
    for path, kind, text in (
        ("/metrics", "text/plain", "Figures for Prometheus."),
        ("/openapi.json", "application/json", "This description."),
        ("/", "text/html", "The dashboard."),
        ("/dashboard.css", "text/css", "Its style."),
        ("/dashboard.js", "text/javascript", "Its script."),
    ):
        schema = {"type": "object" if kind == "application/json" else "string"}
        paths[path] = {
            "get": {
                "summary": text,
                "responses": {
                    "200": {"description": text, "content": {kind: {"schema": schema}}},
                    **open_to_all,
                },
            }
        }
    paths["/metrics"]["get"]["responses"]["401"] = errors["401"]
    for path in ("/openapi.json", "/", "/dashboard.css", "/dashboard.js"):
        paths[path]["get"]["security"] = []
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dedup table service",
            "version": version,
            "description": "Near-duplicates of web pages. docs/protocol.md tells the same in prose.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
