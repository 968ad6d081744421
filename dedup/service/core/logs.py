"""What the service says: a line an event (dedup/cli/log_lines.py writes them).

The rule kept here: no line has a token, a key or other arguments of a command.
"""

import logging
import time

__all__ = ["log_now_and_then"]

OFTEN_SECONDS = 10.0  # a fault that repeats is said so often

_said: dict[str, tuple[float, int]] = {}


def log_now_and_then(log: logging.Logger, what: str, text: str) -> None:
    """Log an error, at most every ten seconds for each `what`."""
    now = time.monotonic()
    said, left_out = _said.get(what, (-OFTEN_SECONDS, 0))
    if now - said < OFTEN_SECONDS:
        _said[what] = (said, left_out + 1)
        return
    _said[what] = (now, 0)
    log.error("%s%s", text, f" ({left_out} more like it)" if left_out else "")
