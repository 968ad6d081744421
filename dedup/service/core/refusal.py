"""How a command is refused: an exception -> code (the first word on the wire) and message (in one line)."""

import logging

from dedup.core.faults import SayOnce
from dedup.model.errors import DedupError

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
    if isinstance(error, DedupError):
        return error.code
    return "STORE" if isinstance(error, OSError) else "ERR"


def message(error: Exception) -> str:
    """Return an error in one line."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    text = str(error) if isinstance(error, DedupError) else f"internal error: {error!r}"
    return " ".join(text[:MESSAGE_LENGTH].split())


def log_rate_limited(
    log: logging.Logger, kind: str, text: str, error: BaseException | None = None
) -> None:
    """Log an error, at most once a minute for each kind."""
    _once.log(log, kind, "%s", text, error=error)
