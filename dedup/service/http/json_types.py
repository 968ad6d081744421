"""The JSON of the HTTP port: requests, answers, and their conversion from and to the model's values.

The rule kept here: types decode and encode, and describe themselves (openapi.py): the docstrings and
descriptions here are part of /openapi.json.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dedup.model.values import (
    TRIES,
    Document,
    Identity,
    Neighbour,
    PageFingerprint,
    Status,
    Verdict,
    hex_fingerprint,
)
from dedup.model.verdict_forms import to_reply
from dedup.service.core.limits import FIELD_BYTES, REASON_PATTERN, TOKEN_PATTERN
from dedup.service.core.namespaces import Asked
from dedup.service.core.near_duplicates_seen import NearDuplicateView

__all__ = ["ENDPOINTS"]

ITEMS = 10_000  # of a batch; Limits.batch is at most that

Hex = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="A fingerprint: 16 hex digits.")]
Namespace = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
Key = Annotated[
    str, Meta(min_length=1, max_length=FIELD_BYTES["key"], description="A document key.")
]
Domain = Annotated[str, Meta(max_length=FIELD_BYTES["domain"])]
Token = Annotated[
    str, Meta(max_length=FIELD_BYTES["token"], description="The token that reserve answered.")
]
ChosenToken = Annotated[
    str,
    Meta(pattern=f"^{TOKEN_PATTERN}$", description="The reservation's token, made by the client."),
]
RecipeId = Annotated[
    str, Meta(max_length=FIELD_BYTES["recipe"], description="The recipe of the fingerprints.")
]
Whole = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Bits = Annotated[int, Meta(ge=0, le=64)]
Sketch = Annotated[str, Meta(pattern="^[0-9a-f]{74}$", description="A sketch: 74 hex digits.")]
Share = Annotated[float, Meta(ge=0, le=1, description="0 to 1: the share of word triples in both.")]


class _In(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ProbedPage(_In, frozen=True):
    """The fingerprint of a page that is only looked up."""

    value: Hex
    sketch: Sketch
    domain: Domain = ""


class ProbeRequest(_In, frozen=True):
    """Pages to look up, of one namespace and recipe."""

    ns: Namespace
    recipe: RecipeId
    pages: Annotated[list[ProbedPage], Meta(max_length=ITEMS)]
    distance: Bits | None = None
    similarity: Share | None = None
    scope: Literal["global", "site"] = "global"
    count: Annotated[int, Meta(ge=1)] | None = None


class ReservedPage(_In, frozen=True):
    """A page to be judged, and its document key."""

    key: Key
    value: Hex
    sketch: Sketch
    identity: Hex
    features: Whole
    domain: Domain = ""
    exempt: Annotated[str, Meta(pattern=f"^{REASON_PATTERN}$")] | None = None
    guard: bool = True
    kind: Annotated[str, Meta(max_length=FIELD_BYTES["kind"])] = ""
    tries: Whole = TRIES
    links: Hex | None = None
    token: ChosenToken | None = None
    home: bool = True


class ReserveRequest(_In, frozen=True):
    """Pages to be judged in this order, of one namespace and recipe."""

    ns: Namespace
    recipe: RecipeId
    pages: Annotated[list[ReservedPage], Meta(max_length=ITEMS)]
    distance: Bits | None = None
    similarity: Share | None = None
    features: Whole | None = None
    scope: Literal["global", "site"] = "global"


class Held(_In, frozen=True):
    """A reservation; paid: whether its page brought what it had to bring (insert only)."""

    key: Key
    token: Token
    paid: bool = True


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
    """A stored near-duplicate: its distance in bits, and the similarity of the texts."""

    key: str
    distance: int
    similarity: Share


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


class DocumentAnswer(msgspec.Struct, frozen=True):
    """A stored document; inserted_seconds is Unix time."""

    ns: str
    key: str
    value: Hex
    sketch: Sketch
    identity: Hex
    features: int
    recipe: str
    domain: str
    inserted_seconds: float


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


def near(neighbour: Neighbour) -> Near:
    """Return a neighbour as it is encoded."""
    return Near(neighbour.key, neighbour.distance, neighbour.similarity)


def fingerprint(page: ReservedPage, recipe: str) -> PageFingerprint:
    """Return a page's fingerprint."""
    return PageFingerprint(
        int(page.value, 16),
        bytes.fromhex(page.sketch),
        int(page.identity, 16),
        page.features,
        recipe,
        links=int(page.links or "0", 16),
    )


def judged(verdict: Verdict) -> Judged:
    """Return a verdict as it is encoded."""
    return Judged(*to_reply(verdict))


def document(namespace: str, found: Document) -> DocumentAnswer:
    """Return a document as it is encoded."""
    page = found.page
    return DocumentAnswer(
        namespace,
        found.key,
        hex_fingerprint(page.value),
        page.sketch.hex(),
        hex_fingerprint(page.identity),
        page.features,
        page.recipe,
        found.domain,
        found.inserted_seconds,
    )


ENDPOINTS: dict[str, tuple[type[_In], type[msgspec.Struct]]] = {
    "probe": (ProbeRequest, ProbeAnswer),
    "reserve": (ReserveRequest, ReserveAnswer),
    "insert": (InsertRequest, DoneAnswer),
    "release": (ReleaseRequest, DoneAnswer),
    "forget": (ForgetRequest, DoneAnswer),
}
