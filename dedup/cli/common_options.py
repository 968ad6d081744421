"""Options that several commands share, and what they stand for: pages to read, the log.

Invariants: times of the log are UTC; a line of JSON is one object with time, level, logger, message, the
record's fields (log.info(..., extra={"fields": {...}})), and the traceback if there is one.
"""

import codecs
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import click
from msgspec.inspect import FloatType, IntType

from dedup.cli import terminal
from dedup.model.errors import DedupError, UsageError
from dedup.model.policy import PAPER_DISTANCE, SETTINGS, Setting

FETCH_SECONDS = 30.0
FETCH_BYTES = 16 << 20

F = TypeVar("F", bound=Callable[..., Any])


def json_option(text: str = "Print one JSON object instead of text.") -> Callable[[F], F]:
    """Return the option --json."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def number_option(
    flag: str,
    text: str,
    default: float | None = None,
    *,
    least: float | None = None,
    most: float | None = None,
    **more: Any,
) -> Callable[[F], F]:
    """Return a number's option with its range; where the default is a float it takes fractions."""
    form = click.FloatRange if isinstance(default, float) else click.IntRange
    kind: Any = form(least, most)  # type: ignore[arg-type]
    shown = default is not None
    return click.option(flag, type=kind, default=default, show_default=shown, help=text, **more)


def output_option(what: str) -> Callable[[F], F]:
    """Return the option -o, --output; what it writes, in words."""
    text = f"Write {what} to a file. [default: stdout]"
    return click.option("-o", "--output", metavar="FILE", default="-", help=text)


def log_option(command: F) -> F:
    """Give a command the option --log."""
    return click.option(
        "--log",
        "log_form",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="Format of the log on stderr; json: one object a line.",
    )(command)


def setting_option(name: str, *, environment: bool = False, **changed: Any) -> Callable[[F], F]:
    """Return the flag of a setting: its type, range, default and help, unless they are changed.

    environment  the flag is also read from the variable DEDUP_NAME
    """
    setting = SETTINGS[name]
    if environment:
        changed |= {"envvar": setting.key, "show_envvar": True}
    default = changed.get("default", setting.default)
    given = {"default": default, "show_default": default is not None, "help": setting.help}
    if "metavar" not in changed:
        given["type"] = _flag_type(setting)
    return click.option(setting.flag, name, **given | changed)


def _flag_type(setting: Setting) -> Any:
    """Return the type that click shows and checks; None: a text."""
    if setting.choices:
        return click.Choice(setting.choices)
    form = setting.form
    if isinstance(form, IntType):
        return click.IntRange(form.ge, form.le)
    return click.FloatRange(form.ge, form.le) if isinstance(form, FloatType) else None


def distance_option(text: str | None = None, default: int | None = None) -> Callable[[F], F]:
    """Return the option --distance; without a default it is None where it is not given."""
    return setting_option("distance", default=default, help=text or SETTINGS["distance"].help)


def from_environment(name: str) -> Any:
    """Return a setting as its variable DEDUP_NAME says, or its default. Raises UsageError."""
    setting = SETTINGS[name]
    text = os.environ.get(setting.key)
    return setting.read(text) if text else setting.default


def _similarity(value: Any) -> float | str:
    try:
        similarity: float | str = SETTINGS["similarity"].read(value)
    except UsageError:
        raise click.BadParameter(
            f"{value!r} is not allowed: use careful, paper, or a number from 0 to 1{_meant(value)}."
        ) from None
    return similarity


def _meant(value: Any) -> str:
    """Return the share that a percentage was probably meant to be."""
    try:
        number = float(str(value).removesuffix("%"))
    except ValueError:
        return ""
    return f" ({number / 100:g}?)" if 10 <= number <= 100 else ""


similarity_option = setting_option("similarity", type=_similarity, metavar="NUMBER|careful|paper")


def policy_options(command: F) -> F:
    """Give a command the options that decide when two pages are near-duplicates."""
    for option in (
        setting_option("scope"),
        similarity_option,
        distance_option(),
    ):
        command = option(command)
    return command


def warn_of_paper(similarity: Any, distance: int | None) -> None:
    """Say on stderr that the preset paper, at a greater distance than its own, compares no texts."""
    if similarity == "paper" and (distance or 0) > PAPER_DISTANCE:
        terminal.error(
            f"--similarity paper compares no texts, and --distance is {distance}: pages of other content "
            f"count as near-duplicates; leave --distance out, or set it to {PAPER_DISTANCE} or less"
        )


def identity_option(command: F) -> F:
    """Give a command the option --identity."""
    return click.option(
        "--identity",
        is_flag=True,
        help="Keep near-duplicates whose title or canonical URL says that they are other pages.",
    )(command)


def read_bytes(path: str) -> bytes:
    """Return the content of a file; "-" is stdin. Raises OSError."""
    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    return data


def is_url(path: str) -> bool:
    """Return whether an argument is the address of a page."""
    return path.startswith(("http://", "https://"))


def fetch(url: str) -> tuple[bytes, str | None]:
    """Return the body of a page and the encoding that its server names. Raises DedupError."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    request = Request(url, headers={"User-Agent": "crawl-dedup", "Accept": "text/html,*/*"})  # noqa: S310
    try:
        with urlopen(request, timeout=FETCH_SECONDS) as answer:  # noqa: S310  (http or https: checked)
            body: bytes = answer.read(FETCH_BYTES + 1)
            encoding = _known(answer.headers.get_content_charset())
    except (OSError, ValueError, HTTPException) as error:
        raise DedupError(
            f"{url}: {reason_of(error)}; check the URL, or save the page and give the file"
        ) from error
    if len(body) > FETCH_BYTES:
        raise DedupError(
            f"{url}: more than {FETCH_BYTES >> 20} MiB; save the page and give the file"
        )
    return body, encoding


def reason_of(error: Exception) -> str:
    """Return why a request failed, without what urllib wraps around it."""
    from urllib.error import HTTPError, URLError

    inner = (
        error.reason if isinstance(error, URLError) and not isinstance(error, HTTPError) else error
    )
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def _known(encoding: str | None) -> str | None:
    try:
        return encoding and codecs.lookup(encoding).name
    except LookupError:
        return None


# --------------------------------------------------------------------------------------------- log

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
        text = f"{when} {record.levelname.lower()} {terminal.escaped(record.getMessage())}"
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
