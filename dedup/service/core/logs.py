"""Faults that may come with every command: logged now and then (dedup/cli/log_lines.py writes the lines).

The rule kept here: no line has a token, a key or other arguments of a command.
"""

import logging
import time
from collections import Counter

from dedup.core.say_once import SayOnce

__all__ = ["log_now_and_then"]

AGAIN_SECONDS = 10.0

_once = SayOnce(again_seconds=AGAIN_SECONDS)
_left_out: Counter[str] = Counter()


def log_now_and_then(log: logging.Logger, kind: str, text: str) -> None:
    """Log an error, at most every ten seconds for each kind; the next line counts those left out."""
    if not _once.is_new(kind, time.monotonic()):
        _left_out[kind] += 1
        return
    more = _left_out.pop(kind, 0)
    log.error("%s%s", text, f" ({more} more like it)" if more else "")
