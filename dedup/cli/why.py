"""`dedup why`: what happened to a page, and which setting would change it.

DEDUP_DROPPED's file -> the lines about a URL, or the most doubtful -> advice
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import json_option, number_option
from dedup.model.errors import UsageError
from dedup.model.names import document_key
from dedup.report.drops import Drop, advice, by_risk, read_drops
from dedup.report.texts import MARKS, alike

DROPS = "dropped.jsonl"  # looked for where no source is given

_DID = {
    "dropped": "dropped before it was parsed",
    "links_skipped": "parsed, its links not followed (DEDUP_MODE)",
    "flagged": "flagged only (DEDUP_MODE = 'tag')",
    "withheld": "checked: parsed, and its seen items or requests were withheld",
    "not_requested": "not requested: a near-duplicate has a link to it",
}
_NOT_REQUESTED = {
    "link_budget": "{} is spent: the last requests led to nothing new",
    "session": "it was {}: parameters that mean nothing tell the two apart",
}
_WOULD = {
    "drop": "; the mode 'drop' would drop it unparsed",
    "check": "; the mode 'drop' would parse it, and withhold its seen items and requests",
}


@click.command(
    epilog="Examples: dedup why 'http://example.com/item?id=7' --drops dropped.jsonl; "
    "dedup why --drops dropped.jsonl --top 20"
)
@click.argument("url", required=False)
@click.option(
    "--drops",
    metavar="FILE",
    help=f"File that a crawl wrote with DEDUP_DROPPED. [default: {DROPS}, if it is here]",
)
@number_option("--top", "List the N most doubtful drops of all pages.", least=1, metavar="N")
@json_option("Print a JSON object for each page found.")
def why(url: str | None, drops: str | None, top: int | None, as_json: bool) -> None:
    """Say what happened to the page of a URL: its verdict, its original, what differs, what to change.

    The source is the file of DEDUP_DROPPED, which lists every page dropped or withheld, and every request that was not made. With --top the drops
    that are most likely wrong are listed: those that differ in numbers only, then the least similar. The
    exit code is 1 if nothing is found.
    """
    if (url is None) == (top is None):
        raise UsageError("give a URL, or --top N for the most doubtful drops")
    listed = _read(drops)
    if top:
        found = _most_doubtful(listed, top, as_json=as_json)
    else:
        found = _explain(listed, url or "", as_json=as_json)
    if not found:
        click.get_current_context().exit(1)


def _read(drops: str | None) -> Iterator[Drop]:
    if drops is None and not Path(DROPS).exists():
        raise UsageError(
            f"there is no {DROPS} here; crawl with DEDUP_DROPPED = '{DROPS}', or give --drops"
        )
    return _of_file(Path(drops or DROPS))


def _of_file(path: Path) -> Iterator[Drop]:
    """Yield the drops in a file. Raises UsageError, at its end, for a file of something else."""
    count = 0
    for drop in read_drops(path):
        count += 1
        yield drop
    if not count and path.stat().st_size:
        raise UsageError(
            f"{path} lists no drops; give a file that a crawl wrote with DEDUP_DROPPED"
        )


def _explain(listed: Iterator[Drop], url: str, *, as_json: bool) -> bool:
    """Print what happened to a page, the last drop of each address; return whether anything is known."""
    key = document_key(url)
    found: dict[str, Drop] = {}
    copies = 0
    for drop in listed:
        if url in {drop.url, drop.key} or drop.key == key:
            found.pop(drop.url, None)
            found[drop.url] = drop
        copies += drop.of == key and drop.action != "not_requested"
    for number, drop in enumerate(found.values()):
        if as_json:
            terminal.out_json(msgspec.to_builtins(drop) | {"advice": advice(drop)})
            continue
        if number:
            terminal.out("")
        for line in _lines(drop):
            terminal.out(line)
    if copies and not as_json:
        pages = terminal.count(copies, "page")
        terminal.out(f"{url} was kept, and is the original of {pages} listed as near-duplicate")
    if not found and not copies:
        terminal.error(
            f"{url} is not listed: it was kept or not fetched, or another file has it; DEDUP_REPORT = 'report.json' says why "
            "each page was kept"
        )
    return bool(found or copies)


def _lines(drop: Drop) -> Iterator[str]:
    yield f"{drop.url} was {_DID[drop.action]}{_WOULD.get(drop.would, '')}"
    yield from _rows(_of_request(drop) if drop.action == "not_requested" else _of_page(drop))


def _of_request(drop: Drop) -> list[tuple[str, str]]:
    return [
        ("at", drop.time),
        ("linked from", drop.of),
        ("because", _NOT_REQUESTED.get(drop.reason, "{}").format(drop.rule)),
        ("callback", drop.callback),
        *(("to reach it", text) for text in advice(drop)),
    ]


def _of_page(drop: Drop) -> list[tuple[str, str]]:
    withheld = {"item": drop.items, "request": drop.requests}
    return [
        ("at", drop.time),
        ("original", drop.of),
        ("similarity", f"{alike(drop.similarity)}, {terminal.count(drop.distance, 'bit')} apart"),
        ("title, canonical", drop.identity),
        ("reason", drop.reason),
        ("proven by", drop.rule),
        ("withheld", ", ".join(terminal.count(n, what) for what, n in withheld.items() if n)),
        ("of its site", drop.template),
        ("callback", drop.callback),
        *(("differs in", text) for text in _differences(drop)),
        *(("to keep it", text) for text in advice(drop)),
    ]


def _rows(rows: list[tuple[str, str]]) -> Iterator[str]:
    last = ""
    for name, text in rows:
        if text:
            yield f"  {name if name != last else '':<16}  {text}"
        last = name


def _differences(drop: Drop) -> Iterator[str]:
    if drop.differs is None:
        yield "not known: the crawl no longer held the text of the original; try dedup compare"
    elif not drop.differs:
        yield "nothing: the main texts are equal"
    yield from map(_marked, drop.differs or ())
    if drop.numbers_only:
        yield "(numbers only: check whether these are two products)"


def _marked(sides: Sequence[str]) -> str:
    """Return a difference: what the original has, and what the page has."""
    return " ".join(text.join(mark) for text, mark in zip(sides, MARKS, strict=True) if text)


def _most_doubtful(listed: Iterator[Drop], top: int, *, as_json: bool) -> bool:
    dropped = (e for e in listed if not e.is_parsed and e.action != "not_requested")
    drops = sorted(dropped, key=by_risk)
    if as_json:
        for drop in drops[:top]:
            terminal.out_json(msgspec.to_builtins(drop))
        return bool(drops)
    rows = [
        (
            f"{int(100 * drop.similarity)} %",
            "numbers" if drop.numbers_only else "",
            " ".join(map(_marked, drop.differs or ())),
            drop.url,
            drop.of,
        )
        for drop in drops[:top]
    ]
    if terminal.columns_of_terminal() is not None:  # whose width would break the addresses
        for similar, numbers, words, url, of in rows:
            terminal.out(url)
            terminal.out(f"  = {of}  ({similar}{numbers and f', {numbers}'})  {words}".rstrip())
    elif rows:
        terminal.out_lines(
            terminal.table(("similar", "differ in", "first words", "page", "original"), rows)
        )
    if rows:
        if any(drop.numbers_only for drop in drops[:top]):
            terminal.out("numbers: check whether these are two products")
        what = "flagged page" if all(drop.action == "flagged" for drop in drops) else "drop"
        terminal.out(f"{len(rows)} of {terminal.count(len(drops), what)}, the most doubtful first")
    else:
        terminal.error("no drop is listed")
    return bool(rows)
