"""`dedup why`: what happened to a page, and which setting would change it.

DEDUP_DROPPED's file, a JSON report or a service -> the lines about a URL, or the most doubtful -> advice
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import json_option, number_option
from dedup.cli.store import check_service, get
from dedup.model.errors import ServiceUnavailable, UsageError
from dedup.model.names import document_key
from dedup.report.drops import Drop, advice, are_numbers, by_risk, read_drops
from dedup.report.texts import MARKS, alike

DROPS = "dropped.jsonl"  # looked for where no source is given

_DID = {
    "dropped": "dropped before it was parsed",
    "links_skipped": "parsed, its links not followed (DEDUP_MODE)",
    "flagged": "flagged only (DEDUP_MODE = 'tag')",
    "withheld": "parsed and compared, and what was known of it was withheld",
}
_WOULD = {
    "drop": "; the mode 'drop' would drop it unparsed",
    "compare": "; the mode 'drop' would parse it, and withhold what is known",
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
@click.option(
    "--report", metavar="FILE", help="Report that a crawl wrote with DEDUP_REPORT, as JSON."
)
@click.option(
    "--service", metavar="URL", help="HTTP port of a table service; its token: DEDUP_TOKEN."
)
@click.option(
    "--namespace", metavar="NAME", help="Namespace to ask the service about, if it has several."
)
@number_option("--top", "List the N most doubtful drops of all pages.", least=1, metavar="N")
@json_option("Print a JSON object for each page found.")
def why(
    url: str | None,
    drops: str | None,
    report: str | None,
    service: str | None,
    namespace: str | None,
    top: int | None,
    as_json: bool,
) -> None:
    """Say what happened to the page of a URL: its verdict, its original, what differs, what to change.

    Sources are the file of DEDUP_DROPPED (every page dropped or withheld), a crawl's JSON report
    (examples, and pages that were kept), or a service (whether the page is stored). With --top the drops
    that are most likely wrong are listed: those that differ in numbers only, then the least similar. The
    exit code is 1 if nothing is found.
    """
    if (url is None) == (top is None):
        raise UsageError("give a URL, or --top N for the most doubtful drops")
    if service is not None:
        if url is None:
            raise UsageError("--top needs --drops or --report; a service does not list drops")
        check_service(service)
        found = _ask(service, namespace or _only_namespace(service), url, as_json=as_json)
    else:
        listed = _read(drops, report)
        found = (
            _most_doubtful(listed, top, as_json=as_json)
            if top
            else _explain(listed, url or "", _kept(report), as_json=as_json)
        )
    if not found:
        click.get_current_context().exit(1)


def _read(drops: str | None, report: str | None) -> Iterator[Drop]:
    if drops is not None and report is not None:
        raise UsageError("give --drops or --report, not both")
    if report is not None:
        return _of_report(report)
    if drops is None and not Path(DROPS).exists():
        raise UsageError(
            f"there is no {DROPS} here; crawl with DEDUP_DROPPED = '{DROPS}', or give --drops, "
            "--report or --service"
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


def _json_report(path: str) -> dict[str, Any]:
    """Return a crawl's JSON report. Raises UsageError for another file."""
    try:
        read: dict[str, Any] = json.loads(Path(path).read_bytes())
        if {"near_duplicates", "mode"} <= read.keys():
            return read
    except (ValueError, AttributeError):
        pass
    raise UsageError(
        f"{path} is not a crawl's JSON report; write one with DEDUP_REPORT = 'report.json'"
    )


def _kept(report: str | None) -> dict[str, str]:
    """Return what became of the pages that were kept, by document key."""
    return {} if report is None else _json_report(report).get("pages", {})


def _of_report(path: str) -> Iterator[Drop]:
    """Yield the examples of a crawl's JSON report."""
    read = _json_report(path)
    groups, mode = read["near_duplicates"], read["mode"]
    did = {"drop": "dropped", "skip_links": "links_skipped"}.get(mode, "flagged")
    for group in groups:
        for example in group["examples"]:
            differs = [(each["of"], each["page"]) for each in example.get("differences") or ()]
            words = " ".join(text for sides in differs for text in sides).split()
            yield msgspec.convert(
                {
                    "time": read.get("end_time") or "",
                    "action": did,
                    "url": example["url"],
                    "key": document_key(example["url"]),
                    "of": group["of"],
                    "similarity": example["similarity"],
                    "distance": example["distance"],
                    "identity": "unknown",
                    "reason": "",
                    "callback": "",
                    "differs": None if example.get("differences") is None else differs,
                    "numbers_only": are_numbers(words),
                },
                Drop,
            )


def _explain(listed: Iterator[Drop], url: str, kept: Mapping[str, str], *, as_json: bool) -> bool:
    """Print what happened to a page, the last drop of each address; return whether anything is known.

    kept  what became of pages that were kept, by document key
    """
    key = document_key(url)
    found: dict[str, Drop] = {}
    copies = 0
    for drop in listed:
        if url in {drop.url, drop.key} or drop.key == key:
            found.pop(drop.url, None)
            found[drop.url] = drop
        copies += drop.of == key
    for number, drop in enumerate(found.values()):
        if as_json:
            terminal.out_json(msgspec.to_builtins(drop) | {"advice": advice(drop)})
            continue
        if number:
            terminal.out("")
        for line in _lines(drop):
            terminal.out(line)
    became = "" if found else kept.get(key, "")
    if became:
        _say_kept(url, key, became, as_json=as_json)
    if copies and not as_json:
        pages = terminal.count(copies, "page")
        terminal.out(f"{url} was kept, and is the original of {pages} listed as near-duplicate")
    if not found and not copies and not became:
        terminal.error(
            f"{url} is not listed: it was kept, exempt or not fetched, or is in another file"
        )
    return bool(found or copies or became)


def _say_kept(url: str, key: str, became: str, *, as_json: bool) -> None:
    if as_json:
        terminal.out_json({"url": url, "key": key, "kept": became})
    else:
        terminal.out(f"{url} was kept: {became}")


def _lines(drop: Drop) -> Iterator[str]:
    yield f"{drop.url} was {_DID[drop.action]}{_WOULD.get(drop.would, '')}"
    withheld = {"item": drop.items, "request": drop.requests}
    rows = [
        ("at", drop.time),
        ("original", drop.of),
        ("similarity", f"{alike(drop.similarity)}, {terminal.count(drop.distance, 'bit')} apart"),
        ("title, canonical", drop.identity),
        ("reason", drop.reason),
        ("shown by", drop.rule),
        ("withheld", ", ".join(terminal.count(n, what) for what, n in withheld.items() if n)),
        ("of its site", drop.told),
        ("callback", drop.callback),
        *(("differs in", text) for text in _differences(drop)),
        *(("to keep it", text) for text in advice(drop)),
    ]
    last = ""
    for name, text in rows:
        if text:
            yield f"  {name if name != last else '':<16}  {text}"
        last = name


def _differences(drop: Drop) -> Iterator[str]:
    if drop.differs is None:
        yield "not known: the original's text was not in memory any more; try dedup compare"
    elif not drop.differs:
        yield "nothing: the main texts are equal"
    yield from map(_marked, drop.differs or ())
    if drop.numbers_only:
        yield "(numbers only: check whether these are two things, such as two products)"


def _marked(sides: Sequence[str]) -> str:
    """Return a difference: what the original has, and what the page has."""
    return " ".join(text.join(mark) for text, mark in zip(sides, MARKS, strict=True) if text)


def _most_doubtful(listed: Iterator[Drop], top: int, *, as_json: bool) -> bool:
    drops = sorted((drop for drop in listed if not drop.is_parsed), key=by_risk)
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
            terminal.out(
                f"{url}\n  = {of}  ({similar}{numbers and f', {numbers}'})  {words}".rstrip()
            )
    elif rows:
        terminal.out(
            terminal.table(("similar", "differ in", "first words", "page", "original"), rows)
        )
    if rows:
        if any(drop.numbers_only for drop in drops[:top]):
            terminal.out("numbers: check whether these are two things, such as two products")
        what = "flagged page" if all(drop.action == "flagged" for drop in drops) else "drop"
        terminal.out(f"{len(rows)} of {terminal.count(len(drops), what)}, the most doubtful first")
    else:
        terminal.error("no drop is listed")
    return bool(rows)


def _only_namespace(service: str) -> str:
    """Return the namespace of a service that has one. Raises UsageError that lists them otherwise."""
    names = [each["name"] for each in json.loads(get(service, "/v1/overview")[0])["namespaces"]]
    if len(names) == 1:
        return str(names[0])
    raise UsageError(
        f"give --namespace; {service} has {', '.join(names)}"
        if names
        else f"{service} has no namespace yet"
    )


def _ask(service: str, namespace: str, url: str, *, as_json: bool) -> bool:
    """Print what a service knows of a page: a stored document, or a recent near-duplicate."""
    key = document_key(url)
    query = urlencode({"ns": namespace, "key": key})
    seen = json.loads(get(service, f"/v1/near-duplicates?{query}")[0])["results"]
    try:
        document = json.loads(get(service, f"/v1/documents?{query}")[0])
    except ServiceUnavailable as error:
        if (
            not isinstance(error.__cause__, HTTPError)
            or error.__cause__.code != HTTPStatus.NOT_FOUND
        ):
            raise
        document = None
    if as_json:
        terminal.out_json({"key": key, "document": document, "near_duplicates": seen})
        return bool(seen or document)
    for each in seen:
        if each["key"] == key:
            when = datetime.fromtimestamp(each["judged_seconds"], UTC).isoformat(timespec="seconds")
            likeness = (
                f"{alike(each['similarity'])}, {terminal.count(each['distance'], 'bit')} apart"
            )
            terminal.out(f"{key} was judged near-duplicate of {each['of']} at {when} ({likeness})")
    copies = sum(each["of"] == key for each in seen)
    if document is not None:
        pages = terminal.count(copies, "recent near-duplicate")
        terminal.out(f"{key} is stored in {namespace!r}: it was kept; {pages} of it")
        for name, value in document.items():
            terminal.out(f"  {name:<16}  {value}")
    elif not seen:
        terminal.error(
            f"{key} is not stored in {namespace!r}, and is none of the last near-duplicates; what the "
            "spider wrote with DEDUP_DROPPED lists all"
        )
    return bool(seen or document)
