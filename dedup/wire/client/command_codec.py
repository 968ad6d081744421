"""Commands of a detector for a table service, its replies, and the verdict that follows from one. No I/O.

    judge(page, key) -> DEDUP.RESERVE ns key page ... -> [status, token, ...] -> Verdict

Invariants: a detector's namespace and options are in every command, so that the service keeps no state of a
connection. Only what the caller chose is sent; the rest is the service's default.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from dedup.model.errors import (
    DedupError,
    EventInvalid,
    RecipeMismatch,
    ServiceUnavailable,
    UsageError,
)
from dedup.model.events import decode_value
from dedup.model.forms import ANY_FEATURES, encode_page, from_reply
from dedup.model.page import (
    SKETCH_BYTES,
    UNRESERVED,
    Document,
    Identity,
    Neighbour,
    PageFingerprint,
    ReserveOptions,
    Verdict,
)
from dedup.model.policy import RESERVATION_SECONDS, Options
from dedup.model.recipes import Recipe, same_recipe

_KEPT = frozenset(("unique", "refetch", "exempt"))  # verdicts with a token
_IDENTITIES: dict[str, Identity] = {name: name for name in get_args(Identity)}

Command = tuple[bytes | str | int, ...]
Kind = Literal["insert", "release"]

FIELDS_OF_REPLY = 8  # of an answer to RESERVE that has the document of the match
PROBE_COUNT = 1000  # neighbours at most, as the embedded store gives


class NoToken(DedupError):
    """The service does not know a token: it was restarted, or the reservation expired."""


class Commands:
    """The commands of one detector."""

    def __init__(self, options: Options, recipe: Recipe) -> None:
        self.namespace = options.namespace
        self._encoded_namespace = options.namespace.encode()
        self._recipe_id = recipe.id
        self._policy = options.policy(recipe)
        asked: Command = ()
        if options.distance is not None or options.similarity == "paper":
            asked += (b"DISTANCE", self._policy.distance)
        if options.similarity not in {None, "careful"}:  # which a service takes for itself
            asked += (b"SIMILARITY", f"{self._policy.similarity}")
        if options.scope == "site":
            asked += (b"SCOPE", b"site")
        if options.min_features is not None:
            asked += (b"FEATURES", int(options.min_features))
        self._probe_options = (*asked, b"COUNT", PROBE_COUNT, b"FIELDS", b"on")
        self._reserve_options = (*asked, b"FIELDS", b"on")
        self._seconds = (
            options.reservation_seconds
            if options.reservation_seconds != RESERVATION_SECONDS
            else None
        )

    def probe(self, page: PageFingerprint, domain: str) -> Command | None:
        """Return the command, or None when it is known that nothing is near."""
        same_recipe(self._recipe_id, page.recipe)
        if page.features < self._policy.min_features:
            return None
        asked = encode_page(Document("", page, domain))
        return (b"DEDUP.PROBE", self._encoded_namespace, asked, *self._probe_options)

    def reserve(self, asked: Document, options: ReserveOptions, token: str) -> Command:
        """Return the command that judges a page, and takes it under a token."""
        same_recipe(self._recipe_id, asked.page.recipe)
        command: Command = (
            b"DEDUP.RESERVE",
            self._encoded_namespace,
            _encoded(asked.key),
            encode_page(asked),
            b"TOKEN",
            token,
            *self._reserve_options,
        )
        page = asked.page  # JSON does not say what was learned of its site
        exempt = options.exempt or ("unread" if page.unread else "partly" if page.partly else None)
        if exempt is not None:
            command += (b"EXEMPT", exempt)
        if page.least:
            command += (b"LEAST", f"{page.least:.2f}")
        if not options.guard:
            command += (b"GUARD", b"off")
        if seconds := options.seconds or self._seconds:
            command += (b"SECONDS", f"{seconds:.3f}")
        return command

    def end(self, kind: Kind, document: Document, token: str | None) -> Command:
        """Return the command that ends a reservation."""
        if kind == "release":
            return self.release(document.key, token)
        assert token is not None
        key = _encoded(document.key)
        command: Command = (b"DEDUP.INSERT", self._encoded_namespace, key, token)
        if not document.paid:
            command += (b"PAID", b"0")
        return (*command, b"ITEMS", document.items.hex()) if document.items else command

    def release(self, key: str, token: str | None) -> Command:
        """Return the command that releases a page."""
        assert token is not None
        return (b"DEDUP.RELEASE", self._encoded_namespace, _encoded(key), token)

    def forget(self, key: str) -> Command:
        """Return the command that removes a document."""
        return (b"DEDUP.FORGET", self._encoded_namespace, _encoded(key))

    def check(self) -> Command:
        """Return a probe that only asks whether probes can be made."""
        none = PageFingerprint(0, bytes(SKETCH_BYTES), 0, ANY_FEATURES, self._recipe_id)
        return (
            b"DEDUP.PROBE",
            self._encoded_namespace,
            encode_page(Document("", none)),
            *self._probe_options,
        )

    def info(self) -> Command:
        """Return the command that asks what the namespace holds."""
        return (b"DEDUP.INFO", self._encoded_namespace)

    def check_insertable(self, verdict: Verdict) -> None:
        """Raise UsageError or RecipeMismatch for a verdict that cannot be inserted."""
        if verdict.token is None:
            raise UsageError(
                f"the verdict on {verdict.key!r} ({verdict.status}) has no token: it cannot be "
                "inserted"
            )
        same_recipe(self._recipe_id, verdict.page.recipe)


def is_unjudged(verdict: Verdict) -> bool:
    """Whether no service holds a reservation for a verdict: it has no token, or none was asked."""
    return verdict.token is None or verdict.token.startswith(UNRESERVED)


def verdict_of(reply: Any, asked: Document, exempt: str | None = None) -> Verdict:
    """Return the verdict on a page in the answer to RESERVE. Raises ServiceUnavailable for anything else.

    exempt  what the page was reserved with: then it is kept, and no answer tells to ask again
    """
    try:
        found = None
        if len(reply) == FIELDS_OF_REPLY:
            *reply, document = reply
            found = None if document is None else decode_value(document)[1]
        verdict = from_reply(reply, asked, found)
        match, is_kept = verdict.match, verdict.status in _KEPT
        if (
            is_kept != (verdict.token is not None)
            or not (is_kept or match)
            or (match and (match.key == asked.key or not 0 <= match.similarity <= 1))
            or (exempt not in {None, "unread"} and not is_kept)
        ):
            raise ValueError(reply)
    except (AttributeError, TypeError, ValueError, EventInvalid) as error:
        raise unreadable(reply) from error
    return verdict


def neighbours_of(reply: Any) -> list[Neighbour]:
    """Return the neighbours in the answer to PROBE. Raises ServiceUnavailable for anything else."""
    try:
        return [
            Neighbour(
                decode_value(document)[1],
                int(distance),
                float(similarity),
                _IDENTITIES[identity.decode()],
            )
            for _, distance, similarity, identity, document in reply
        ]
    except (AttributeError, KeyError, TypeError, ValueError, EventInvalid) as error:
        raise unreadable(reply) from error


def facts_of(reply: Any) -> dict[str, Any]:
    """Return the key:value lines of the answer to INFO; whole numbers and numbers as such."""
    try:
        pairs = (line.partition(":") for line in reply.decode().splitlines() if ":" in line)
        return {key: _number(value) for key, _, value in pairs}
    except AttributeError as error:
        raise unreadable(reply) from error


def error_of(message: str) -> DedupError:
    """Return the error that an answer "-CODE message" stands for.

    What says nothing about the command (not ready, no token, an unknown code) is
    ServiceUnavailable: another service may answer it.
    """
    code, _, text = message.partition(" ")
    if code == "NOTOKEN":
        return NoToken(message)
    if code == "RECIPE":
        return RecipeMismatch(f"the table service says: {text}")
    if code == "ERR" and ("unknown option" in text or "unknown command" in text):
        return UsageError(
            f"the table service says: {text}; it may be an older release than this client: upgrade "
            "services before clients"
        )
    if code in {"ERR", "DISTANCE", "NOPERM"} or "is too long" in text:
        return UsageError(f"the table service says: {text}")
    if code in {"NOAUTH", "WRONGPASS"}:
        return ServiceUnavailable(
            f"it refuses the token ({message}); give the right one in the URL: redis://:TOKEN@host:port"
        )
    return ServiceUnavailable(f"it answers {message}")


def _encoded(key: str) -> bytes:
    try:
        return key.encode()
    except (UnicodeEncodeError, AttributeError) as error:
        raise UsageError(f"document key {key!r} is not valid Unicode text: {error}") from None


def _number(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def unreadable(reply: Any) -> ServiceUnavailable:
    """Return the error of a reply that no table service gives."""
    return ServiceUnavailable(f"not the answer of a table service: {str(reply)[:200]}")


SUMMED = frozenset(
    (
        "documents",
        "in_flight",
        "table_bytes",
        "documents_file_bytes",
        "index_file_bytes",
        "tail_documents",
    )
)  # fmt: skip  (of what INFO says of a namespace)


def facts_of_all(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what several shards say of a namespace: sums, and of other facts the first one's."""
    facts = {name: value for answer in reversed(answers) for name, value in answer.items()}
    return facts | {
        name: sum(each.get(name, 0) for each in answers) for name in SUMMED & facts.keys()
    }
