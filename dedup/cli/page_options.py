"""How the commands that fingerprint pages take them: a file or stdin, an encoding, a secret."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["page_options", "read_bytes"]

F = TypeVar("F", bound=Callable[..., Any])


def page_options(command: F) -> F:
    """Give a command the options --encoding and --secret."""
    encoding = click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of the pages. Default: what they say, or what they look like.",
    )
    secret = click.option(
        "--secret",
        metavar="TEXT",
        envvar="DEDUP_SECRET",
        show_envvar=True,
        help="Key of the recipe; in the environment it stays out of the process list.",
    )
    chosen: F = encoding(secret(command))
    return chosen


def read_bytes(path: str) -> bytes:
    """Return what a file holds; "-" is stdin. Raises OSError."""
    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    return data
