"""What a change of many documents came to: those of a log, counted as if applied one by one.

Pure: the changes, and the keys that were there before; counts out.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

from dedup.model.values import Document

__all__ = ["Applied", "Removed"]


class Applied(NamedTuple):
    """What applying changes came to: how many were new, known, and forgotten."""

    inserted: int
    replaced: int
    forgotten: int

    @classmethod
    def of(cls, changes: Sequence[tuple[str, Document | None]], known: set[str]) -> Self:
        """Count what changes do, one by one, where some keys are known."""
        inserted = replaced = forgotten = 0
        if not known and len({key for key, document in changes if document is not None}) == len(
            changes
        ):
            return cls(len(changes), 0, 0)  # all new, each once: as a log mostly is
        for key, document in changes:
            if document is None:
                if key in known:
                    known.remove(key)
                    forgotten += 1
            elif key in known:
                replaced += 1
            else:
                known.add(key)
                inserted += 1
        return cls(inserted, replaced, forgotten)


class Removed(NamedTuple):
    """What removing from a batch came to: the batch's last id, its size, and how many were removed."""

    last: int
    looked_at: int
    removed: int
