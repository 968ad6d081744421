"""Errors as clients get them: a code, which is the first word on the wire, and a message in one line.

Invariant: no line of the log has a token, a key or other arguments of a command, but for those
of roles.audit().
"""

import logging

from dedup.core.say_once import SayOnce
from dedup.detector import TooManyReserved
from dedup.model.errors import DedupError, RecipeMismatch, StoreDamaged, StoreLocked
from dedup.model.words import TooLong
from dedup.store import TooMany
from dedup.wire.kafka.login import KafkaUnavailable

__all__ = ["Refused", "code", "message"]


AGAIN_SECONDS = 60.0
MESSAGE_LENGTH = 1000  # of a message, which may quote what the client sent

_once = SayOnce(again_seconds=AGAIN_SECONDS)


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
        case TooMany() | TooLong() | TooManyReserved():
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
    return " ".join(text[:MESSAGE_LENGTH].split())


def log_now_and_then(
    log: logging.Logger, kind: str, text: str, error: BaseException | None = None
) -> None:
    """Log an error, at most once a minute for each kind."""
    _once.log(log, kind, "%s", text, error=error)
