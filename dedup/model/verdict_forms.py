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


def matched(verdict: Verdict) -> Matched:
    """Return of, distance, similarity and identity of the verdict's match; None without one."""
    match = verdict.match
    if match is None:
        return _NO_MATCH
    return match.document.key, match.distance, match.similarity, match.identity


def to_reply(verdict: Verdict) -> Reply:
    """Return the answer to RESERVE; None in place of fields that it does not have."""
    of, distance, similarity, identity = matched(verdict)
    reason = verdict.reason or None
    return verdict.status, verdict.token, of, distance, similarity, reason, identity


def from_reply(reply: Sequence[Any], document: Document, found: Document | None) -> Verdict:
    """Return the verdict of an answer to RESERVE, its texts as bytes, on a document.

    found is the document that the match is about, if the answer has it; else only its key is known.
    Raises ValueError, TypeError or AttributeError for anything else.
    """
    status, token, of, distance, similarity, reason, identity = reply
    text = status.decode()
    match = None
    if of is not None:
        said = identity.decode()
        if said not in _IDENTITIES:
            raise ValueError(said)
        if found is None:
            found = Document(of.decode(), PageFingerprint(0, b"", 0, 0, document.page.recipe))
        match = Neighbour(found, int(distance), float(similarity), cast(Identity, said))
    if text not in _STATUSES:
        raise ValueError(text)
    return Verdict(
        cast(Status, text),
        "" if reason is None else reason.decode(),
        document,
        None if token is None else token.decode(),
        match,
    )


def to_plain(verdict: Verdict) -> dict[str, str | int | float | None]:
    """Return a verdict as request.meta["dedup"] shows it."""
    of, distance, similarity, identity = _NO_MATCH if verdict.match is None else matched(verdict)
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
    headers: dict[str, str | int | float | None] = {"status": verdict.status}
    if verdict.reason:
        headers["reason"] = verdict.reason
    if verdict.match is not None:
        names = ("of", "distance", "similarity", "identity")
        headers |= dict(zip(names, matched(verdict), strict=True))
    return headers


def to_columns(verdict: Verdict) -> Columns:
    """Return status, reason, of, distance, similarity, identity, and the key of the page's original.

    A page that is kept is its own original, even if its match is known.
    """
    key = verdict.document.key
    if verdict.status != "near_duplicate" or verdict.match is None:
        return verdict.status, verdict.reason, *_NO_MATCH, key
    return verdict.status, verdict.reason, *matched(verdict), verdict.match.document.key
