"""A verdict outside Python: each form is made, and read, here alone.

reply    [status, token, of, distance, similarity, reason, identity]: RESP; HTTP, by these names
plain    a dictionary of built-in values: request.meta["dedup"]
headers  the headers of a Kafka record, without what the verdict has not
columns  the end of a row in a table of verdicts: dedup scan and Spark
"""

from collections.abc import Sequence
from typing import Any, cast, get_args

from dedup.model.values import Identity, PageFingerprint, Status, Verdict

__all__ = ["from_reply", "to_columns", "to_headers", "to_plain", "to_reply"]

_STATUSES = frozenset(get_args(Status))

_IDENTITIES = frozenset(get_args(Identity))

Reply = tuple[Status, str | None, str | None, int | None, float | None, str | None, Identity | None]
Columns = tuple[Status, str, str | None, int | None, float | None, Identity | None, str]


def to_reply(verdict: Verdict) -> Reply:
    """Return what RESERVE answers; None where there is nothing."""
    return (
        verdict.status,
        verdict.token,
        verdict.of,
        verdict.distance,
        verdict.similarity,
        verdict.reason or None,
        verdict.identity,
    )


def from_reply(reply: Sequence[Any], page: PageFingerprint, key: str, domain: str) -> Verdict:
    """Return the verdict that an answer to RESERVE is, its texts as bytes.

    Raises ValueError, TypeError or AttributeError for anything else.
    """
    status, token, of, distance, similarity, reason, identity = reply
    text = status.decode()
    said = None if identity is None else identity.decode()
    if text not in _STATUSES or (said is not None and said not in _IDENTITIES):
        raise ValueError(text)
    return Verdict(
        cast(Status, text),
        "" if reason is None else reason.decode(),
        key,
        None if of is None else of.decode(),
        None if distance is None else int(distance),
        None if similarity is None else float(similarity),
        cast("Identity | None", said),
        page,
        None if token is None else token.decode(),
        domain,
    )


def to_plain(verdict: Verdict) -> dict[str, str | int | float | None]:
    """Return a verdict as request.meta["dedup"] shows it."""
    return {
        "status": verdict.status,
        "reason": verdict.reason,
        "key": verdict.key,
        "of": verdict.of,
        "distance": verdict.distance,
        "similarity": verdict.similarity,
        "identity": verdict.identity,
        "token": verdict.token,
    }


def to_headers(verdict: Verdict) -> dict[str, str | int | float | None]:
    """Return the headers that say why a page is where it is."""
    headers: dict[str, str | int | float | None] = {"status": verdict.status}
    if verdict.reason:
        headers["reason"] = verdict.reason
    if verdict.of is not None:
        headers |= {
            "of": verdict.of,
            "distance": verdict.distance,
            "similarity": verdict.similarity,
            "identity": verdict.identity,
        }
    return headers


def to_columns(verdict: Verdict) -> Columns:
    """Return status, reason, of, distance, similarity, identity, and the key that stands for the page.

    A page that is kept stands for itself, even if it is known which one it is like.
    """
    if verdict.status != "near_duplicate":
        return verdict.status, verdict.reason, None, None, None, None, verdict.key
    return (
        verdict.status,
        verdict.reason,
        verdict.of,
        verdict.distance,
        verdict.similarity,
        verdict.identity,
        verdict.of or verdict.key,
    )
