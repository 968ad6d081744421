"""`dedup fingerprint`, `text` and `compare`: the fingerprints and main texts of pages; are two near-duplicates, and why.

    page -> a line with its fingerprint, or its main text, a block a line
    pages -> distance, similarity, identity -> the rule that decides -> where the main texts differ

Invariants: a file that cannot be read is reported, and the other files follow. The answer of compare is that of
near_duplicate(); titles and canonical URLs are compared and shown beside it.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from dedup.cli import terminal
from dedup.cli.common_options import (
    fetch,
    from_environment,
    is_url,
    json_option,
    read_bytes,
)
from dedup.core.encodings import plain_text
from dedup.core.fingerprint import (
    distance,
    fingerprint_text,
    main_words,
    read_page,
    similarity,
)
from dedup.core.fingerprint import fingerprint as fingerprint_html
from dedup.model.decision import decide, identity_of_pages
from dedup.model.errors import DedupError, RecipeMismatch, UsageError
from dedup.model.forms import FIELDS
from dedup.model.names import registrable_domain, running
from dedup.model.page import (
    PICTURE_FEATURES,
    Identity,
    PageFingerprint,
    are_equal,
    are_two_things,
    hex_fingerprint,
    identity_of,
)
from dedup.model.policy import Options, Policy
from dedup.model.recipes import Limits, Recipe, recipe_of
from dedup.report.texts import Hunk, alike, differences, inline
from dedup.store.templates import Share, Templates, is_partly, is_unread


@click.command(epilog="Example: curl -s https://example.com/ | dedup fingerprint")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option("--text", is_flag=True, help="The files are plain text, not HTML.")
@json_option("Print a JSON object for each page.")
def fingerprint(
    files: tuple[str, ...],
    text: bool,
    as_json: bool,
) -> None:
    """Print the fingerprint of each page, its number of features (distinct words), and its path.

    A FILE is an HTML page, in the encoding that it declares, or a guess; without any, or for "-", stdin is read. The fingerprint is 64 bits, as
    16 hex digits; DEDUP_SECRET keys it. A file that cannot be read is skipped, and the exit code is 1.
    """
    recipe = recipe_of(None, from_environment("secret"))

    def show(path: str, data: bytes) -> None:
        if text:
            page = fingerprint_text(plain_text(data, None), recipe=recipe)
        else:
            page = fingerprint_html(data, recipe=recipe)
        if as_json:
            terminal.out_json({"path": path} | page_fields(page))
        else:
            terminal.out(f"{hex_fingerprint(page.value)} {page.features} {path}")

    _for_each(files, show)


@click.command(epilog="Example: curl -s https://example.com/ | dedup text")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@json_option("Print a JSON object for each page: path, and blocks with their weights.")
def text(files: tuple[str, ...], as_json: bool) -> None:
    """Print the main content of each page, one block a line: the words that its fingerprint counts.

    A FILE is an HTML page; without any, or for "-", stdin is read. Words are in lower case and without
    punctuation. Of several files, each begins with a line "==> FILE <==". A file that cannot be read is skipped, and the exit code is 1.
    """

    def show(path: str, data: bytes) -> None:
        blocks = main_words(data)
        if as_json:
            texts = [{"weight": b.weight, "text": running(b.tokens)} for b in blocks]
            terminal.out_json({"path": path, "blocks": texts})
            return
        if len(files) > 1:
            terminal.out(f"==> {path} <==")
        for block in blocks:
            terminal.out(running(block.tokens))

    _for_each(files, show)


def _for_each(files: tuple[str, ...], show: Callable[[str, bytes], None]) -> None:
    """Show each file, or stdin; what cannot be read is reported, and the exit code is 1."""
    failed = False
    for path in files or ("-",):
        try:
            show(path, read_bytes(path))
        except (UsageError, RecipeMismatch):
            raise  # the same for every file
        except (OSError, MemoryError, DedupError) as error:
            terminal.report(error)
            failed = True
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
    del (
        fields["links"],
        fields["partly"],
        fields["least"],
    )  # which only a crawl, or a site, can say
    return fields


# ----------------------------------------------------------------------------------------- compare

HUNKS = 10  # shown in text
CONTEXT = 25  # words that the page shows before and after a difference
TITLE, CANONICAL = 2**32 - 1 << 32, 2**32 - 1  # the halves of PageFingerprint.identity

_ONLY_A, _ONLY_B = re.compile(r"\[-.*?-\]"), re.compile(r"\{\+.*?\+\}")

_PAGE_HEADERS = ("", "value", "features", "path")
_FIGURE_HEADERS = ("", "", "")
_SITES = {True: "on one site", False: "on two sites", None: "site unknown"}


class _Side(NamedTuple):
    path: str
    page: PageFingerprint
    words: list[str]
    blocks: bytes  # PageReading.blocks


class _Result(NamedTuple):
    """How a page B compares with a page A; the distance is in bits.

    same_site of one registrable domain, or of two; None: not known
    limits    the policy in force; least is the similarity required of these two
    rule      what decided: copy, unread, short, distance or similarity
    """

    a: _Side
    b: _Side
    same_site: bool | None
    distance: int
    similarity: float
    title: Identity
    canonical: Identity
    identity: Identity
    limits: Policy
    least: float
    near_duplicate: bool
    rule: str
    hunks: list[Hunk]
    alone: tuple[Share, Share]  # of A beside B, and of B beside A: what the other one does not have


@click.command(epilog="Example: dedup compare yesterday.html today.html")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("--html", "page", metavar="FILE", help="Also write the answer as an HTML page.")
@json_option("Print one JSON object instead of text, with all differences.")
def compare(a: str, b: str, page: str | None, as_json: bool) -> None:
    """Say whether the HTML pages A and B are near-duplicates, by which rule, and how they differ.

    A page is a file, a URL that is fetched, or "-" for stdin (one of them). Two URLs tell whether the pages are of one
    site; otherwise the limits of one site apply. Differences are shown in the main texts, word by word, as the
    fingerprints have them. The exit code is 0 in both cases; DEDUP_SECRET keys the fingerprints.
    """
    if a == b == "-":
        raise click.UsageError('A and B are both "-"; only one page can come from stdin.')
    recipe = recipe_of(None, from_environment("secret"))
    same_site = None
    if is_url(a) and is_url(b):
        same_site = registrable_domain(a) == registrable_domain(b)
    side_a, side_b = (_side(path, recipe) for path in (a, b))
    result = _judge(side_a, side_b, recipe, same_site)
    if page is not None:
        _write_page(page, result)
    if as_json:
        terminal.out_json(_json(result, recipe))
    else:
        _write_text(result)


def _write_text(result: _Result) -> None:
    terminal.out_lines(terminal.table(_PAGE_HEADERS, _page_rows(result)))
    for line in _lines(result):
        terminal.out(line)
    marks = ", [-in A only-] {+in B only+}:" if result.hunks else ""
    terminal.out(f"{_summary(result)}{marks}")
    for hunk in result.hunks[:HUNKS]:
        line = f"  {inline(result.a.words, result.b.words, hunk)}"
        for mark, colour in ((_ONLY_A, "red"), (_ONLY_B, "green")):
            line = mark.sub(terminal.coloured(r"\g<0>", colour), line)
        terminal.out(line)
    if (more := len(result.hunks) - HUNKS) > 0:
        terminal.out(f"  and {more:,} more; --json has them all")


def _side(path: str, recipe: Recipe) -> _Side:
    data, encoding = fetch(path) if is_url(path) else (read_bytes(path), None)
    read = read_page(data, encoding=encoding, recipe=recipe, blocks=True)
    main = main_words(data, encoding=encoding, recipe=recipe)
    words = [token for block in main for token in block.tokens]
    return _Side(path, read.fingerprint, words, read.blocks)


def _alone(page: _Side, beside: _Side, recipe: Recipe) -> Share:
    """Return how much of a page another one does not have."""
    templates, site = Templates(recipe.id), "."
    one_block = bytes(8)  # of no words: a page without any is counted, too
    templates.learned(beside.page, beside.blocks or one_block, site)
    return templates.share(page.blocks, site)


def _judge(one: _Side, other: _Side, recipe: Recipe, same_site: bool | None) -> _Result:
    a, b = one.page, other.page
    policy = Options().policy(recipe)
    bits, similar = distance(a.value, b.value), similarity(a, b)
    decision = decide(a, b, bits, similar, policy, same_site=same_site)
    return _Result(
        one,
        other,
        same_site,
        bits,
        similar,
        identity_of(a.identity & TITLE, b.identity & TITLE),
        identity_of(a.identity & CANONICAL, b.identity & CANONICAL),
        identity_of_pages(a, b, similar),
        policy,
        decision.least,
        decision.near,
        decision.rule,
        differences(one.words, other.words),
        (_alone(one, other, recipe), _alone(other, one, recipe)),
    )


def _json(result: _Result, recipe: Recipe) -> dict[str, Any]:
    a, b = result.a, result.b

    def side(s: _Side, left: int) -> dict[str, Any]:
        more = {"words": len(s.words), "not_read_alone": left}
        return {"path": s.path} | page_fields(s.page) | more

    limits = msgspec.structs.asdict(result.limits)
    return {
        "a": side(a, result.alone[0].left),
        "b": side(b, result.alone[1].left),
        "recipe": recipe.id,
        "same_site": result.same_site,
        "distance": result.distance,
        "similarity": result.similarity,
        "identity": result.identity,
        "title": result.title,
        "canonical": result.canonical,
        "limits": {name: limits[name] for name in Limits.__struct_fields__},
        "near_duplicate": result.near_duplicate,
        "rule": result.rule,
        "difference_count": len(result.hunks),
        "differences": [
            {
                "a_at": hunk.a_begin,
                "b_at": hunk.b_begin,
                "a": running(a.words[hunk.a_begin : hunk.a_end]),
                "b": running(b.words[hunk.b_begin : hunk.b_end]),
            }
            for hunk in result.hunks
        ],
    }


def _lines(result: _Result) -> Iterator[str]:
    yield ""
    for name, figure, limit in _figure_rows(result):
        yield f"{name:<20}  {figure:<7}{limit and f'  {limit}'}".rstrip()
    yield ""
    answer, why = _verdict(result)
    colour = "green" if result.near_duplicate else "yellow"
    yield f"verdict: {terminal.coloured(answer, colour, bold=True)} ({why})"
    yield from _notes(result)
    yield ""


def _page_rows(result: _Result) -> list[tuple[str | int, ...]]:
    return [
        (name, hex_fingerprint(side.page.value), side.page.features, side.path)
        for name, side in (("A", result.a), ("B", result.b))
    ]


def _figure_rows(result: _Result) -> list[tuple[str, str, str]]:
    asked = "" if result.least > 1 else f"threshold {result.least:.1%}"
    return [
        (
            "distance of value",
            terminal.count(result.distance, "bit"),
            f"compared up to {result.limits.distance}",
        ),
        (
            "similarity",
            f"{int(100 * result.similarity)} %",
            asked and f"{asked} ({_SITES[result.same_site]})",
        ),
        ("title", result.title, ""),
        ("canonical URL", result.canonical, ""),
    ]


def _verdict(result: _Result) -> tuple[str, str]:
    """Return the answer, and why."""
    answer = "near-duplicate" if result.near_duplicate else "not near-duplicate"
    sides = (("A", result.a.page), ("B", result.b.page))
    match result.rule:
        case "copy":
            why = "copies: both pages have little text, and are equal in all parts"
        case "unread":
            names = " and ".join(name for name, page in sides if page.unread)
            why = f"unread: too little of {names} was read to judge it"
        case "short":
            name, page = min(sides, key=lambda side: side[1].features)
            least = result.limits.min_features if result.same_site else result.limits.full_features
            why = f"short page: {name} has {terminal.count(page.features, 'distinct word')}, "
            why += f"pages are compared from {least} on ({_SITES[result.same_site]})"
        case "distance":
            why = f"distance: {terminal.count(result.distance, 'bit')}, more than {result.limits.distance}"
        case "thing":
            by_number = are_two_things(replace(result.a.page, parts=b""), result.b.page)
            what = "title" if result.title == "other" else "canonical URL"
            why = "two products of one site: " + (
                "their structured data has two product ids"
                if by_number
                else f"fewer than {PICTURE_FEATURES} distinct words, and another {what} and other pictures"
            )
        case _:
            under = "" if result.near_duplicate else f", fewer than {result.least:.1%}"
            why = f"{alike(result.similarity)}{under}"
    return answer, why


def _notes(result: _Result) -> Iterator[str]:
    a, b = result.a.page, result.b.page
    equal = are_equal(a, b, result.similarity)
    left = max(share.left for share in result.alone)
    if result.similarity == 1 and a.value == b.value and not equal:
        differ = (
            f"{terminal.count(left, 'word')} not read differ" if left else "the unread rest differs"
        )
        yield f"the words read are the same; {differ}: equal texts, not equal pages"
    if result.near_duplicate and result.same_site is not False and not equal:
        if is_unread(result.alone[1]):
            yield "more of B's own words were unread than read: a crawl of their site keeps B as unread"
        elif is_partly(result.alone[1]) and result.identity == "other":
            yield "many of B's own words were unread: a crawl of their site keeps B for its title or canonical URL"
    if (
        result.near_duplicate
        and "other" in (result.title, result.canonical)
        and result.same_site is not False
    ):
        what = " and ".join(
            name
            for name, said in (("titles", result.title), ("canonical URLs", result.canonical))
            if said == "other"
        )
        if result.identity != "other":
            yield f"the {what} differ, which does not count because the pages are the same"
        else:
            yield f"the {what} differ: on one site --identity keeps B, and a crawl checks B's items"


def _write_page(path: str, result: _Result) -> None:
    from dedup.report.html import html_page
    from dedup.report.parts import Part, ReportPage, TablePart, Text, Texts

    answer, why = _verdict(result)
    a, b = result.a, result.b
    parts: list[Part] = [
        *map(Text, [f"verdict: {answer} ({why})", *_notes(result), _summary(result)]),
        TablePart(_PAGE_HEADERS, _page_rows(result)),
        TablePart(_FIGURE_HEADERS, _figure_rows(result)),
        Texts(a.words, b.words, result.hunks, (a.path, b.path), CONTEXT),
    ]
    report = html_page(ReportPage(f"{a.path} and {b.path}: {answer}", parts))
    Path(path).write_text(report, "utf-8", "replace")


def _summary(result: _Result) -> str:
    a, b, hunks = result.a, result.b, result.hunks
    if not hunks:
        return f"the main texts are the same, {terminal.count(len(a.words), 'word')}"
    return (
        f"the main texts ({len(a.words):,} and {len(b.words):,} words) differ in "
        f"{terminal.count(len(hunks), 'place')}"
    )
