"""The errors this package raises, one tree.

DedupError
+-- RecipeMismatch       two fingerprints, or a fingerprint and a store, follow different recipes
+-- StoreLocked          another process holds the store
+-- StoreDamaged         a file's bytes are not those that were written
+-- ServiceUnavailable   the table service does not answer
+-- EventInvalid         a record is not an insert event
+-- UsageError           an argument, option or setting is outside what is allowed (also a ValueError)

A message says what happened, to what, and what to do next.
"""


class DedupError(Exception):
    """The base of every error raised on purpose by this package.

    code  the first word of the answer by which a table service says it
    """

    code: str = "ERR"


class RecipeMismatch(DedupError):
    """Fingerprints of different recipes were brought together; they mean different things."""

    code = "RECIPE"


class StoreLocked(DedupError):
    """Another process holds the store."""

    code = "STORE"


class StoreDamaged(DedupError):
    """A file of the store is not what was written to it; the message names it."""

    code = "STORE"


class ServiceUnavailable(DedupError):
    """The table service does not answer in time."""


class EventInvalid(DedupError):
    """A record is not an insert event of a known version."""


class UsageError(DedupError, ValueError):
    """An argument, option or setting is outside what is allowed."""
