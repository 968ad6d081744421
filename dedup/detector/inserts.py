"""The second phase: pages that were processed become documents, and their reservations end.

    verdicts -> due? -> late? -> documents, in one transaction -> reservations ended
    changes of the log -> documents, in one transaction -> their reservations ended -> late?

The rule kept here: a reservation ends after its document is in the store, never before. A page is
late when it was unique, but a near-duplicate of it was inserted since: both stay, and it is told.
Who calls holds the store's lock (dedup.detector.open_stores).
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dedup.detector.open_stores import OpenStore
from dedup.detector.rules import guarded, near_duplicates
from dedup.model.errors import UsageError
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe, same_recipe
from dedup.model.values import Document, Status, Verdict
from dedup.store import Applied

__all__ = ["Seen", "apply_changes", "count_late", "insert_verdicts"]


class Seen(NamedTuple):
    """What a page was when it was reserved, by which policy, and after how many inserts."""

    status: Status
    reason: str
    policy: Policy
    inserts: int


def insert_verdicts(
    shared: OpenStore, verdicts: Sequence[Verdict], recipe: Recipe, policy: Policy
) -> list[bool]:
    """Make pages last in their order; return for each whether it is late.

    They are one transaction, unless some of them are near each other: those must see each other in
    the store. Raises as Detector.insert() does; the first ones may be inserted then.
    """
    late: list[bool] = []
    batch: list[Verdict] = []
    for verdict in verdicts:
        if batch and _are_near(verdict, batch, policy.distance):
            _insert_batch(shared, batch)
            batch = []
        due = _is_due(shared, verdict, recipe)
        late.append(
            due and verdict.status == "unique" and _is_late(shared, verdict, recipe, policy)
        )
        if due:
            batch.append(verdict)
    _insert_batch(shared, batch)
    return late


def apply_changes(
    shared: OpenStore,
    changes: Sequence[tuple[str, Document | None]],
    offsets: Mapping[int, int],
) -> tuple[Applied, list[Document]]:
    """Apply changes of the log, and end the reservations whose inserts they are.

    Returns the store's counts, and the documents that are in the store now: of each key the last.
    """
    counts = shared.store.apply(changes, offsets)
    if len(shared.reservations):
        for key, document in changes:
            if document is not None:
                shared.reservations.end_same(key, document.page, "inserted")
    last = [document for document in dict(changes).values() if document is not None]
    shared.note_inserted([document.page.value for document in last])
    return counts, last


def count_late(
    shared: OpenStore, documents: Sequence[Document], recipe: Recipe, policy: Policy
) -> int:
    """Return how many documents have a near-duplicate of another key, and no links that are new."""
    if not documents:
        return 0
    values = np.array([document.page.value for document in documents], np.uint64)
    late = 0
    for i, found in shared.store.near_many(values, policy.distance).items():
        page, domain, key = documents[i].page, documents[i].domain, documents[i].key
        late += bool(guarded(page, near_duplicates(page, domain, key, found, policy), recipe))
    return late


def _is_due(shared: OpenStore, verdict: Verdict, recipe: Recipe) -> bool:
    """Whether there is something to insert. Raises what insert() raises before it begins."""
    token, page = verdict.token, verdict.page
    if token is None:
        raise UsageError(
            f"the verdict on {verdict.key!r} ({verdict.status}) has no token: it cannot be inserted"
        )
    if page.recipe != recipe.id:
        same_recipe(recipe.id, page.recipe)
    if (page.value | page.check | page.links) >> 64:  # a negative number leaves -1
        raise UsageError(f"{page} is not allowed: fingerprints are 0 to 2**64 - 1")
    held = shared.reservations.get(token)
    if held is not None and (held.key, held.page) != (verdict.key, page):
        raise UsageError(
            f"token {token!r} belongs to {held.key!r}, not to this page of {verdict.key!r}"
        )
    ending = shared.reservations.ending(token)
    if ending == "released":
        raise UsageError(f"{verdict.key!r} was released: reserve it again to insert it")
    return ending != "inserted"


def _are_near(verdict: Verdict, batch: list[Verdict], k: int) -> bool:
    """Whether a page must see those of a batch in the store before it can be judged."""
    value = verdict.page.value
    return any(
        (value ^ other.page.value).bit_count() <= k or verdict.token == other.token
        for other in batch
    )


def _is_late(shared: OpenStore, verdict: Verdict, recipe: Recipe, policy: Policy) -> bool:
    """Whether a near-duplicate of a page that was unique has been inserted since."""
    page = verdict.page
    held = shared.reservations.get(verdict.token or "")
    seen = None if held is None else held.judged
    if (
        isinstance(seen, Seen)
        and seen.status == "unique"
        and seen.policy is policy
        # nothing was near when the page was reserved: only what came since can be
        and not shared.near_since(seen.inserts, page.value, policy.distance)
    ):
        return False
    found = shared.store.near(page.value, policy.distance)
    alike = near_duplicates(page, verdict.domain, verdict.key, found, policy)
    return bool(guarded(page, alike, recipe))


def _insert_batch(shared: OpenStore, batch: list[Verdict]) -> None:
    if not batch:
        return
    now = time.time()
    documents = [Document(v.key, v.page, v.domain, now) for v in batch]
    if len(documents) == 1:
        shared.store.insert(documents[0])
    else:
        shared.store.insert_many(documents)
    shared.note_inserted([v.page.value for v in batch])
    for verdict in batch:
        assert verdict.token is not None
        shared.reservations.end(verdict.token, "inserted")
