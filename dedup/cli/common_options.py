"""Options that several commands share, and how these read a page."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

__all__ = [
    "check_html",
    "distance_option",
    "html_option",
    "identity_option",
    "json_option",
    "log_option",
    "page_options",
    "policy_options",
    "quick_option",
    "read_bytes",
    "rounds_option",
    "secret_option",
    "similarity_option",
]

F = TypeVar("F", bound=Callable[..., Any])


class Option(Protocol):
    """Gives a command an option."""

    def __call__(self, command: F, /) -> F:
        """Return the command with it."""


PRESETS = ("careful", "paper")  # also in dedup.model.policy
MAX_DISTANCE = 15  # bits; also in dedup.core.integers, which --help must not import


def json_option(text: str = "Print one JSON object instead of text.") -> Option:
    """Return the option --json."""
    return click.option("--json", "as_json", is_flag=True, help=text)


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


def distance_option(
    text: str = "Greatest distance of near-duplicates, in bits. [default: the recipe's]",
    default: int | None = None,
) -> Option:
    """Return the option --distance; without a default it is None where it is not given."""
    return click.option(
        "--distance",
        type=click.IntRange(0, MAX_DISTANCE),
        default=default,
        show_default=default is not None,
        help=text,
    )


def html_option(command: F) -> F:
    """Give a command the option --html, which check_html() checks."""
    return click.option(
        "--html",
        "page",
        metavar="FILE",
        help="Also write the result as one HTML page; - for stdout.",
    )(command)


def check_html(page: str | None, as_json: bool) -> None:
    """Raise UsageError if --html and --json would both write to stdout."""
    if page == "-" and as_json:
        raise click.UsageError("--json and --html - both go to stdout; give --html a file.")


def secret_option(command: F) -> F:
    """Give a command the option --secret."""
    return click.option(
        "--secret",
        metavar="TEXT",
        envvar="DEDUP_SECRET",
        show_envvar=True,
        help="Secret key of the fingerprints; safer in the environment than on the command line.",
    )(command)


def page_options(command: F) -> F:
    """Give a command the options --encoding and --secret."""
    encoding = click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of the pages. [default: what they declare, or a guess]",
    )
    return encoding(secret_option(command))


def policy_options(command: F) -> F:
    """Give a command the options that decide when two pages are near-duplicates."""
    scope = click.option(
        "--scope",
        type=click.Choice(("global", "site")),
        default="global",
        show_default=True,
        help="Compare all pages, or only pages of one registrable domain.",
    )
    features = click.option(
        "--min-features",
        type=click.IntRange(0, 2**32 - 1),
        help="Keep pages with fewer distinct words unjudged. [default: the recipe's]",
    )
    return distance_option()(similarity_option(features(scope(command))))


if TYPE_CHECKING:
    _Parameter = click.ParamType[float | str]
else:  # click 8.1 has it without a parameter
    _Parameter = click.ParamType


class _Similarity(_Parameter):
    name = "similarity"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002  (click's signature)
        ctx: click.Context | None,  # noqa: ARG002
    ) -> float | str:
        if value in PRESETS:
            return str(value)
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            self.fail(f"{value!r} is none of {', '.join(PRESETS)} and no number from 0 to 1.")
        return number


def similarity_option(command: F) -> F:
    """Give a command the option --similarity."""
    return click.option(
        "--similarity",
        type=_Similarity(),
        metavar="NUMBER|careful|paper",
        help="Least similarity of near-duplicates, 0 to 1. careful: the recipe's; paper: distance 3, "
        "without comparing texts. [default: careful]",
    )(command)


def identity_option(command: F) -> F:
    """Give a command the option --identity."""
    return click.option(
        "--identity",
        is_flag=True,
        help="Keep near-duplicates whose title or canonical URL says that they are other pages.",
    )(command)


def rounds_option(default: int, text: str = "Number of measurements of each.") -> Option:
    """Return the option --rounds of a benchmark."""
    return click.option(
        "--rounds", type=click.IntRange(1), default=default, show_default=True, help=text
    )


def quick_option(text: str) -> Option:
    """Return the option --quick of a benchmark."""
    return click.option("--quick", is_flag=True, help=f"A first look: {text}.")


def read_bytes(path: str) -> bytes:
    """Return what a file holds; "-" is stdin. Raises OSError."""
    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    return data
