"""A verdict outside Python: each form is made, and read, here alone.

reply    [status, token, of, distance, similarity, reason, identity]: RESP; HTTP, by these names
plain    a dictionary of built-in values: request.meta["dedup"]
headers  the headers of a Kafka record, without fields that the verdict does not have
columns  the end of a row in a table of verdicts: dedup scan and Spark
"""

from collections.abc import Sequence
from typing import Any, cast, get_args

from dedup.model.page import Document, Identity, Neighbour, PageFingerprint, Status, Verdict

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
