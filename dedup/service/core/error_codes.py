"""Errors as clients get them: a code, which is the first word on the wire, and a message in one line."""

from dedup.model.errors import DedupError, RecipeMismatch, StoreDamaged, StoreLocked
from dedup.store import TooMany
from dedup.wire.kafka.supervision import KafkaUnavailable

__all__ = ["Refused", "code", "message"]


class Refused(DedupError):
    """A command that is not carried out; code is the first word of the error a client gets."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def code(error: Exception) -> str:
    """Return the first word of the error that a client gets."""
    match error:
        case Refused():
            return error.code
        case RecipeMismatch():
            return "RECIPE"
        case TooMany():
            return "LIMIT"
        case StoreDamaged() | StoreLocked() | OSError() | KafkaUnavailable():
            return "STORE"
        case _:
            return "ERR"


def message(error: Exception) -> str:
    """Return an error in one line."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    text = str(error) if isinstance(error, DedupError) else f"internal error: {error!r}"
    return " ".join(text.split())
