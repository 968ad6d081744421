"""`dedup fingerprint`: a line for each page, with its fingerprint.

The rule kept here: a file that cannot be read is an error, but not the end; the others follow.
"""

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import json_option, page_options, read_bytes
from dedup.core.encodings import plain_text
from dedup.core.fingerprint import fingerprint as fingerprint_html
from dedup.core.fingerprint import fingerprint_text
from dedup.model.errors import DedupError, RecipeMismatch, UsageError
from dedup.model.recipes import Recipe, recipe_of
from dedup.model.values import PageFingerprint, hex_fingerprint

__all__ = ["fingerprint"]


@click.command(epilog="Example: curl -s https://example.com/ | dedup fingerprint")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@page_options
@click.option("--url", help="Where the page came from; links in its folder then count relative.")
@click.option("--text", is_flag=True, help="The files are plain text, not HTML.")
@json_option("A JSON object a line.")
def fingerprint(
    files: tuple[str, ...],
    encoding: str | None,
    secret: str | None,
    url: str | None,
    text: bool,
    as_json: bool,
) -> None:
    """Print value, check, features and path of each page.

    A FILE is an HTML page; without any, or for "-", stdin is read. Value and check are 64-bit
    fingerprints as 16 hex digits. A file that cannot be read is left out, and the exit code is 1.
    """
    if text and url is not None:
        raise click.UsageError("--url says where links lead; plain text (--text) has none.")
    recipe = recipe_of(None, secret)
    failed = False
    for path in files or ("-",):
        try:
            page = _fingerprint(read_bytes(path), encoding, url, text, recipe)
        except (UsageError, RecipeMismatch):
            raise  # the same for every file
        except (OSError, MemoryError, DedupError) as error:
            terminal.report(error)
            failed = True
            continue
        if as_json:
            numbers = {name: hex_fingerprint(getattr(page, name)) for name in _FINGERPRINTS}
            terminal.out_json({"path": path} | msgspec.structs.asdict(page) | numbers)
        else:
            value, check = hex_fingerprint(page.value), hex_fingerprint(page.check)
            terminal.out(f"{value} {check} {page.features} {path}")
    if failed:
        click.get_current_context().exit(1)


_FINGERPRINTS = ("value", "check", "links")


def _fingerprint(
    data: bytes, encoding: str | None, url: str | None, text: bool, recipe: Recipe
) -> PageFingerprint:
    if text:
        return fingerprint_text(plain_text(data, encoding), recipe=recipe)
    return fingerprint_html(data, encoding=encoding, url=url, recipe=recipe)
