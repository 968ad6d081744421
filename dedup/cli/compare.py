"""`dedup compare`: what two pages are to each other, and why.

    pages -> distances -> the rule that decides -> where the main texts differ

The rule kept here: the answer is that of near_duplicate(); the listing guard, which is the
detector's, is told beside it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.differences import Hunk, differences
from dedup.cli.pages import page_options, read_bytes
from dedup.fingerprint import distance, fingerprint, main_words, near_duplicate
from dedup.recipes import Recipe, recipe_of
from dedup.values import PageFingerprint, hex_fingerprint

__all__ = ["compare"]

HUNKS = 10  # shown without --all
WORDS = 30  # of each side of a hunk, shown without --all
CONTEXT = 6  # words shown before and after a hunk


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
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def compare(
    a: str, b: str, encoding: str | None, secret: str | None, show_all: bool, as_json: bool
) -> None:
    """Say whether the HTML pages A and B are near-duplicates, by which rule, and how they differ.

    One of them may be "-" for stdin. The differences are those of the main texts, in the words that
    the fingerprints are made of. The exit code is 0 whatever the answer.
    """
    if a == b == "-":
        raise click.UsageError('A and B are both "-"; only one page can come from stdin.')
    recipe = recipe_of(None, secret)
    side_a, side_b = (_side(path, encoding, recipe) for path in (a, b))
    result = _judge(side_a.page, side_b.page, recipe)
    hunks = differences(side_a.words, side_b.words)
    shown = hunks if show_all else hunks[:HUNKS]
    if as_json:
        terminal.out_json(_json(side_a, side_b, recipe, result, hunks, shown))
        return
    for line in _lines(side_a, side_b, recipe, result):
        terminal.out(line)
    terminal.out(_summary(side_a, side_b, hunks))
    for hunk in shown:
        terminal.out(f"  {_inline(side_a.words, side_b.words, hunk, show_all)}")
    if len(shown) < len(hunks):
        terminal.out(f"  and {len(hunks) - len(shown):,} more; --all shows them")


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
    new_links = b.link_count >= recipe.guard_links and links > recipe.guard_distance
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
                "a": _text(a.words[hunk.a_begin : hunk.a_end]),
                "b": _text(b.words[hunk.b_begin : hunk.b_end]),
            }
            for hunk in shown
        ],
    }


def _lines(a: _Side, b: _Side, recipe: Recipe, result: _Result) -> Iterator[str]:
    yield terminal.table(
        ("", "value", "check", "features", "links", "path"),
        [
            (
                name,
                hex_fingerprint(side.page.value),
                hex_fingerprint(side.page.check),
                side.page.features,
                side.page.link_count,
                side.path,
            )
            for name, side in (("A", a), ("B", b))
        ],
    )
    yield ""
    total = result.value + result.check
    yield f"distance of value  {result.value:3} bits, near-duplicates up to {recipe.distance}"
    yield f"distance of check  {result.check:3} bits"
    yield f"both together      {total:3} bits, near-duplicates up to {recipe.total_distance}"
    yield f"distance of links  {result.links:3} bits, new links above {recipe.guard_distance}"
    yield ""
    match result.rule:
        case "short":
            name, page = min((("A", a.page), ("B", b.page)), key=lambda side: side[1].features)
            why = f"short page: {name} has {terminal.count(page.features, 'feature')}, "
            why += f"judged are pages from {recipe.min_features} up"
        case "distance":
            why = f"value distance: {result.value} bits are more than {recipe.distance}"
        case "total_distance":
            why = f"total distance: {total} bits are more than {recipe.total_distance}"
        case _:
            why = f"both distances are within those of the recipe {recipe.id}"
    answer = "near-duplicate" if result.near_duplicate else "not near-duplicate"
    yield f"verdict: {answer} ({why})"
    if result.near_duplicate and result.new_links:
        links = terminal.count(b.page.link_count, "link")
        yield f"listing guard: a crawl that has seen A keeps B, whose {links} are new"
    yield ""


def _summary(a: _Side, b: _Side, hunks: list[Hunk]) -> str:
    if not hunks:
        return f"the main texts are the same, {terminal.count(len(a.words), 'word')}"
    return (
        f"the main texts ({len(a.words):,} and {len(b.words):,} words) differ in "
        f"{terminal.count(len(hunks), 'place')}, [-in A only-] {{+in B only+}}:"
    )


def _inline(a: list[str], b: list[str], hunk: Hunk, whole: bool) -> str:
    """Return a hunk as one line, with the words around it."""
    start = max(0, hunk.a_begin - CONTEXT)
    stop = hunk.a_end + CONTEXT
    parts = ["..." if start else "", _text(a[start : hunk.a_begin])]
    for words, marks in (
        (a[hunk.a_begin : hunk.a_end], ("[-", "-]")),
        (b[hunk.b_begin : hunk.b_end], ("{+", "+}")),
    ):
        if words:
            left_out = 0 if whole else max(0, len(words) - WORDS)
            more = f" ... {left_out:,} more" if left_out else ""
            parts.append(f"{marks[0]}{_text(words[: len(words) - left_out])}{more}{marks[1]}")
    parts += [_text(a[hunk.a_end : stop]), "..." if stop < len(a) else ""]
    return " ".join(filter(None, parts))


def _text(words: list[str]) -> str:
    """Return words as running text; the character pairs that Chinese comes in are joined again."""
    pieces: list[str] = []
    last = ""
    for word in words:
        if len(last) == len(word) == 2 and last[1] == word[0] and _in_pairs(word[0]):
            pieces.append(word[1])
        else:
            pieces.append(f" {word}")
        last = word
    return "".join(pieces)[1:]


def _in_pairs(character: str) -> bool:
    return character >= "\u2e80" or "\u0e00" <= character <= "\u0e7f"
