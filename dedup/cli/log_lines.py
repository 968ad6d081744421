"""The log of a long-running command on stderr: a line for each event, for people or as JSON.

    set_up_logs("json", {"aiokafka": logging.CRITICAL})
    log.info("ready", extra={"fields": {"port": 7700}})     fields: more of the JSON object

The rule kept here: times are UTC; a line of JSON is one object with time, level, logger, message,
the record's fields, and the traceback if there is one.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Literal

__all__ = ["LogForm", "set_up_logs"]

LogForm = Literal["text", "json"]


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
        return json.dumps(line, separators=(",", ":"))


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ")
        text = f"{when} {record.levelname.lower()} {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up_logs(form: LogForm, levels: Mapping[str, int]) -> None:
    """Send the log to stderr, from INFO on; levels are those of other loggers, by name."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _Json() if form == "json" else _Text()
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
