"""What the service says on stderr: a line an event, for people or as JSON.

The rule kept here: no line has a token, a key or other arguments of a command.
"""

import logging
import sys
import time
from typing import Literal

import msgspec

__all__ = ["log_now_and_then", "set_up_logs"]

OFTEN_SECONDS = 10.0  # a fault that repeats is said so often

_said: dict[str, tuple[float, int]] = {}


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ")
        text = f"{when} {record.levelname.lower()} {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up_logs(form: Literal["text", "json"]) -> None:
    """Send the log to stderr, from INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _Json() if form == "json" else _Text()
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "aiokafka"):
        logging.getLogger(name).setLevel(logging.WARNING)


def log_now_and_then(log: logging.Logger, what: str, text: str) -> None:
    """Log an error, at most every ten seconds for each `what`."""
    now = time.monotonic()
    said, left_out = _said.get(what, (-OFTEN_SECONDS, 0))
    if now - said < OFTEN_SECONDS:
        _said[what] = (said, left_out + 1)
        return
    _said[what] = (now, 0)
    log.error("%s%s", text, f" ({left_out} more like it)" if left_out else "")
