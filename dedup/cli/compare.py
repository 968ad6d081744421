"""`dedup compare`: what two pages are to each other, and why.

    pages -> distances -> the rule that decides -> where the main texts differ

The rule kept here: the answer is that of near_duplicate(); the listing guard, which is the
detector's, is told beside it.
"""

import shutil
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import check_html, html_option, json_option, page_options, read_bytes
from dedup.core.fingerprint import distance, fingerprint, main_words, near_duplicate
from dedup.model.recipes import Recipe, recipe_of
from dedup.model.report.differences import Hunk, differences
from dedup.model.report.texts import inline, running, side_by_side
from dedup.model.values import PageFingerprint, hex_fingerprint

__all__ = ["compare"]

HUNKS = 10  # shown without --all
CONTEXT = 25  # words that the page shows before and after a difference
WIDE = 100  # columns of a terminal from which on texts are shown side by side by default


_PAGE_HEADERS = ("", "value", "check", "features", "links", "path")
_DISTANCE_HEADERS = ("", "bits", "")


class _Side(NamedTuple):
    path: str
    page: PageFingerprint
    words: list[str]


class _Result(NamedTuple):
    """What a page B is to a page A; distances are in bits.

    rule       what speaks against a near-duplicate: short, distance, total_distance, or None
    new_links  the listing guard keeps B where A was seen before
    """

    value: int
    check: int
    links: int
    near_duplicate: bool
    rule: str | None
    new_links: bool


@click.command(epilog="Example: dedup compare yesterday.html today.html")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@page_options
@click.option("--all", "show_all", is_flag=True, help=f"All differences, not the first {HUNKS}.")
@click.option(
    "--side-by-side/--inline",
    "columns",
    default=None,
    help=f"Differences in two columns, or in lines. Default: two in a terminal of {WIDE} columns.",
)
@html_option
@json_option()
def compare(
    a: str,
    b: str,
    encoding: str | None,
    secret: str | None,
    show_all: bool,
    columns: bool | None,
    page: str | None,
    as_json: bool,
) -> None:
    """Say whether the HTML pages A and B are near-duplicates, by which rule, and how they differ.

    One of them may be "-" for stdin. The differences are those of the main texts, in the words that
    the fingerprints are made of. The exit code is 0 whatever the answer.
    """
    check_html(page, as_json)
    if a == b == "-":
        raise click.UsageError('A and B are both "-"; only one page can come from stdin.')
    recipe = recipe_of(None, secret)
    side_a, side_b = (_side(path, encoding, recipe) for path in (a, b))
    result = _judge(side_a.page, side_b.page, recipe)
    hunks = differences(side_a.words, side_b.words)
    shown = hunks if show_all else hunks[:HUNKS]
    if page is not None:
        _write_page(page, side_a, side_b, recipe, result, hunks)
    if as_json:
        terminal.out_json(_json(side_a, side_b, recipe, result, hunks, shown))
    if as_json or page == "-":
        return
    for line in _lines(side_a, side_b, recipe, result):
        terminal.out(line)
    marks = ", [-in A only-] {+in B only+}:" if hunks else ""
    terminal.out(f"{_summary(side_a, side_b, hunks)}{marks}")
    for line in _differences(side_a.words, side_b.words, shown, columns, whole=show_all):
        terminal.out(line)
    if len(shown) < len(hunks):
        terminal.out(f"  and {len(hunks) - len(shown):,} more; --all shows them")


def _differences(
    a: list[str], b: list[str], hunks: list[Hunk], columns: bool | None, *, whole: bool
) -> Iterator[str]:
    """Yield the lines that show where two texts differ; columns: in two, None: if there is room."""
    width = shutil.get_terminal_size((WIDE, 24)).columns
    if columns is None:
        columns = width >= WIDE and sys.stdout.isatty()
    if columns and hunks:
        yield from side_by_side(a, b, hunks, width, whole=whole)
    else:
        yield from (f"  {inline(a, b, hunk, whole=whole)}" for hunk in hunks)


def _side(path: str, encoding: str | None, recipe: Recipe) -> _Side:
    data = read_bytes(path)
    page = fingerprint(data, encoding=encoding, recipe=recipe)
    blocks = main_words(data, encoding=encoding, recipe=recipe)
    return _Side(path, page, [token for block in blocks for token in block.tokens])


def _judge(a: PageFingerprint, b: PageFingerprint, recipe: Recipe) -> _Result:
    value, check = distance(a.value, b.value), distance(a.check, b.check)
    links = distance(a.links, b.links)
    rule = None
    if min(a.features, b.features) < recipe.min_features:
        rule = "short"
    elif value > recipe.distance:
        rule = "distance"
    elif value + check > recipe.total_distance:
        rule = "total_distance"
    new_links = recipe.guarded(b.features, b.link_count) and links > recipe.guard_distance
    return _Result(value, check, links, near_duplicate(a, b), rule, new_links)


def _json(
    a: _Side, b: _Side, recipe: Recipe, result: _Result, hunks: list[Hunk], shown: list[Hunk]
) -> dict[str, Any]:
    def side(s: _Side) -> dict[str, Any]:
        numbers = {n: hex_fingerprint(getattr(s.page, n)) for n in ("value", "check", "links")}
        return {"path": s.path} | msgspec.structs.asdict(s.page) | numbers | {"words": len(s.words)}

    return {
        "a": side(a),
        "b": side(b),
        "recipe": recipe.id,
        "distance": result.value,
        "check_distance": result.check,
        "total_distance": result.value + result.check,
        "links_distance": result.links,
        "limits": {
            "distance": recipe.distance,
            "total_distance": recipe.total_distance,
            "min_features": recipe.min_features,
            "guard_links": recipe.guard_links,
            "guard_features": recipe.guard_features,
            "guard_distance": recipe.guard_distance,
        },
        "near_duplicate": result.near_duplicate,
        "rule": result.rule,
        "new_links": result.new_links,
        "difference_count": len(hunks),
        "differences": [
            {
                "a_at": hunk.a_begin,
                "b_at": hunk.b_begin,
                "a": running(a.words[hunk.a_begin : hunk.a_end]),
                "b": running(b.words[hunk.b_begin : hunk.b_end]),
            }
            for hunk in shown
        ],
    }


def _lines(a: _Side, b: _Side, recipe: Recipe, result: _Result) -> Iterator[str]:
    yield terminal.table(_PAGE_HEADERS, _page_rows(a, b))
    yield ""
    for name, bits, limit in _distance_rows(recipe, result):
        yield f"{name:<17}  {bits:>3} {'bit ' if bits == 1 else 'bits'}{limit and f'  {limit}'}".rstrip()
    yield ""
    answer, why = _verdict(a, b, recipe, result)
    yield f"verdict: {answer} ({why})"
    yield from _notes(b, result)
    yield ""


def _page_rows(a: _Side, b: _Side) -> list[tuple[str | int, ...]]:
    rows: list[tuple[str | int, ...]] = []
    for name, side in (("A", a), ("B", b)):
        page = side.page
        value, check = hex_fingerprint(page.value), hex_fingerprint(page.check)
        rows.append((name, value, check, page.features, page.link_count, side.path))
    return rows


def _distance_rows(recipe: Recipe, result: _Result) -> list[tuple[str, int, str]]:
    total = result.value + result.check
    return [
        ("distance of value", result.value, f"near-duplicates up to {recipe.distance}"),
        ("distance of check", result.check, ""),
        ("both together", total, f"near-duplicates up to {recipe.total_distance}"),
        ("distance of links", result.links, f"new links above {recipe.guard_distance}"),
    ]


def _verdict(a: _Side, b: _Side, recipe: Recipe, result: _Result) -> tuple[str, str]:
    """Return the answer, and why."""
    match result.rule:
        case "short":
            name, page = min((("A", a.page), ("B", b.page)), key=lambda side: side[1].features)
            why = f"short page: {name} has {terminal.count(page.features, 'feature')}, "
            why += f"judged are pages from {recipe.min_features} up"
        case "distance":
            why = f"value distance: {result.value} bits, more than {recipe.distance}"
        case "total_distance":
            total = result.value + result.check
            why = f"total distance: {total} bits, more than {recipe.total_distance}"
        case _:
            why = f"both distances are within those of the recipe {recipe.id}"
    answer = "near-duplicate" if result.near_duplicate else "not near-duplicate"
    return answer, why


def _notes(b: _Side, result: _Result) -> Iterator[str]:
    if result.near_duplicate and result.new_links:
        links = terminal.count(b.page.link_count, "link")
        yield f"listing guard: a crawl that has seen A keeps B, whose {links} are new"


def _write_page(
    path: str, a: _Side, b: _Side, recipe: Recipe, result: _Result, hunks: list[Hunk]
) -> None:
    from dedup.model.report.html import beside, line, page, table, two_texts

    answer, why = _verdict(a, b, recipe, result)
    head, *rows = zip(_PAGE_HEADERS, *_page_rows(a, b), strict=True)
    text = page(
        f"{a.path} and {b.path}: {answer}",
        [
            *map(line, [*_notes(b, result), _summary(a, b, hunks)]),
            beside(
                table([str(name) for name in head], rows),
                table(_DISTANCE_HEADERS, _distance_rows(recipe, result)),
            ),
            two_texts(a.words, b.words, hunks, CONTEXT, names=(a.path, b.path), whole=True),
        ],
        head=(f"verdict: {answer}", f"({why})"),
    )
    with click.open_file(path, "wb") as file:
        file.write(text.encode("utf-8", "replace"))


def _summary(a: _Side, b: _Side, hunks: list[Hunk]) -> str:
    if not hunks:
        return f"the main texts are the same, {terminal.count(len(a.words), 'word')}"
    return (
        f"the main texts ({len(a.words):,} and {len(b.words):,} words) differ in "
        f"{terminal.count(len(hunks), 'place')}"
    )
