"""Which pages near a value are compared: the nearest, until enough of them are near-duplicates.

    table -> the nearest CROWD -> confirmed by text -> enough? -> four times as many -> ... -> LOOKED

A directory may have 100,000 pages near each other, and a verdict needs few of them. Those few must be
confirmed near-duplicates: pages that are near only by value, however many there are, must not hide one
that is alike.

The rule kept here: candidates are confirmed first and cut afterwards; the answer says whether some
were left out.
"""

from collections.abc import Callable
from typing import TypeVar

from dedup.core.matches import Nearest
from dedup.detector.open_stores import CROWD, OpenStore
from dedup.detector.rules import deciding_here, near_duplicates, not_other, rank
from dedup.model.page import Document, Neighbour
from dedup.model.policy import Policy
from dedup.store import NEAR_LIMIT

__all__ = ["alike_now", "answered"]

LOOKED = 8192  # greatest number of candidates that are compared with one page
GROWTH = 4  # factor by which the number of candidates grows

X = TypeVar("X")

_NONE: list[Neighbour] = []


def alike_now(
    shared: OpenStore, asked: Document, policy: Policy, now: float, *, home: bool, guard: bool
) -> tuple[list[Neighbour], list[Neighbour]]:
    """Return the near-duplicates that decide about a page: stored ones, and those in flight."""
    value, distance = asked.page.value, policy.distance
    found = shared.store.near(value, distance, CROWD)
    flying = shared.reservations.near(value, distance, now, CROWD)
    if not found and not flying and not found.cut:
        return _NONE, _NONE
    inserted = in_flight = _NONE

    def settled(alike: list[Neighbour]) -> bool:
        """Whether the verdict is known: a page that counts has paid, or CROWD pages are alike."""
        return len(alike) >= CROWD or any(
            n.document.paid for n in (not_other(alike) if guard else alike)
        )

    if found or found.cut:
        inserted = _confirmed(
            shared,
            found,
            CROWD,
            lambda limit, without: shared.store.near(value, distance, limit, without),
            lambda some: near_duplicates(asked, some, policy),
            settled,
        )
    if flying:
        in_flight = _confirmed(
            shared,
            flying,
            CROWD,
            lambda limit, without: shared.reservations.near(value, distance, now, limit, without),
            lambda some: near_duplicates(asked, deciding_here(asked.key, home, some), policy),
            settled,
        )
    return inserted, in_flight


def answered(
    shared: OpenStore, asked: Document, found: Nearest[Document], policy: Policy
) -> list[Neighbour]:
    """Return a probe's answer from the documents it found, at most the nearest NEAR_LIMIT."""
    alike = _confirmed(
        shared,
        found,
        NEAR_LIMIT,
        lambda limit, without: shared.store.near(asked.page.value, policy.distance, limit, without),
        lambda some: near_duplicates(asked, some, policy),
        lambda alike: len(alike) > NEAR_LIMIT,
    )
    if len(alike) <= NEAR_LIMIT:
        return alike
    shared.cut += 1
    return alike[:NEAR_LIMIT]


def _confirmed(
    shared: OpenStore,
    found: Nearest[X],
    limit: int,
    more: Callable[[int, int], Nearest[X]],
    confirm: Callable[[Nearest[X]], list[Neighbour]],
    enough: Callable[[list[Neighbour]], bool],
) -> list[Neighbour]:
    """Return the near-duplicates among candidates, the most similar first.

    found    the nearest `limit` candidates
    more     returns the nearest candidates up to a limit, without a number of the first
    confirm  returns the near-duplicates among some candidates, the most similar first
    enough   whether these are enough, so that no more candidates need to be compared
    """
    alike = confirm(found)
    while found.cut and not enough(alike):
        if limit >= LOOKED:
            shared.cut += 1
            break
        without, limit = limit, min(limit * GROWTH, LOOKED)
        found = more(limit, without)
        alike = sorted(alike + confirm(found), key=rank)
    return alike
