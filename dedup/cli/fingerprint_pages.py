"""`dedup fingerprint`: a line for each page, with its fingerprint.

Invariants: a file that cannot be read is reported, and the other files follow.
"""

from typing import Any

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import json_option, page_options, read_bytes
from dedup.core.encodings import plain_text
from dedup.core.fingerprint import fingerprint as fingerprint_html
from dedup.core.fingerprint import fingerprint_text
from dedup.model.errors import DedupError, RecipeMismatch, UsageError
from dedup.model.forms import FIELDS
from dedup.model.page import PageFingerprint, hex_fingerprint
from dedup.model.recipes import Recipe, recipe_of


@click.command(epilog="Example: curl -s https://example.com/ | dedup fingerprint")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@page_options
@click.option("--url", help="URL of the page, to resolve a relative canonical URL.")
@click.option("--text", is_flag=True, help="The files are plain text, not HTML.")
@json_option("Print a JSON object for each page.")
def fingerprint(
    files: tuple[str, ...],
    encoding: str | None,
    secret: str | None,
    url: str | None,
    text: bool,
    as_json: bool,
) -> None:
    """Print the fingerprint of each page, its number of features (distinct words), and its path.

    A FILE is an HTML page; without any, or for "-", stdin is read. The fingerprint is 64 bits, as
    16 hex digits. A file that cannot be read is skipped, and the exit code is 1.
    """
    if text and url is not None:
        raise click.UsageError("--url completes a canonical URL; plain text (--text) has none.")
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
            terminal.out_json({"path": path} | page_fields(page))
        else:
            terminal.out(f"{hex_fingerprint(page.value)} {page.features} {path}")
    if failed:
        click.get_current_context().exit(1)


def page_fields(page: PageFingerprint) -> dict[str, Any]:
    """Return a fingerprint's fields as they are written: words and bytes in hex digits."""
    fields = msgspec.structs.asdict(page)
    for field in FIELDS:
        if field.of_page and field.is_hex:
            value = fields[field.name]
            digits = value.hex() if isinstance(value, bytes) else f"{value:0{field.digits[0]}x}"
            fields[field.name] = digits
    del fields["links"]  # which only a crawl asks for
    return fields


def _fingerprint(
    data: bytes, encoding: str | None, url: str | None, text: bool, recipe: Recipe
) -> PageFingerprint:
    if text:
        return fingerprint_text(plain_text(data, encoding), recipe=recipe)
    return fingerprint_html(data, encoding=encoding, url=url, recipe=recipe)
