"""`dedup urls`: what a crawl has learned of its URLs, as rules of duplicate-url-discarder.

    DEDUP_REPORT as JSON -> patterns of near-duplicates by how their URLs differ -> rules, with how many pages prove each

A rule is made where LEAST pages or more whose URLs differ so brought nothing new, and none brought something: a
parameter of the query (queryRemoval), "www." or a slash at the end (normalizer).
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from dedup.cli import terminal
from dedup.model.differences import parameter_of
from dedup.model.errors import UsageError

LEAST = 10  # pages that prove a rule
ORDER = 100  # of all rules: they do not depend on each other
_NORMALIZED = {"slash", "host:www>", "host:>www"}


class Pattern(msgspec.Struct):
    """A pattern of near-duplicates in a report, as far as it is of use here."""

    site: str
    difference: str
    same: int
    dropped: int
    new: int


class Report(msgspec.Struct):
    """A report, as far as it is of use here."""

    patterns: list[Pattern]


@click.command(epilog="Example: dedup urls report.json > rules.json")
@click.argument("report", metavar="REPORT", type=click.Path(path_type=Path))
def urls(report: Path) -> None:
    """Print what a crawl has learned of its URLs, as rules of duplicate-url-discarder.

    REPORT is what the crawl wrote with DEDUP_REPORT = "report.json". Each rule has the number of pages that prove it; look
    at them before you use them (DUD_LOAD_RULE_PATHS).
    """
    rules = [*rules_of(read_report(report))]
    click.echo(json.dumps(rules, ensure_ascii=False, sort_keys=True, indent=2))
    if not rules:
        terminal.error(f"{report}: no difference of URLs was proven by {LEAST} pages")


def read_report(path: Path) -> list[Pattern]:
    """Return the patterns of a report. Raises OSError, and UsageError for a file that is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report).patterns
    except msgspec.DecodeError as error:
        raise UsageError(
            f'{path} is no report of a crawl as JSON (DEDUP_REPORT = "report.json"): {error}'
        ) from None


def rules_of(patterns: list[Pattern]) -> Iterator[dict[str, Any]]:
    """Yield the rules, those that most pages prove first."""
    pages: defaultdict[tuple[str, str, tuple[str, ...]], int] = defaultdict(int)
    disproved = set()
    for each in patterns:
        for processor, argument in _processors(each.difference):
            rule = each.site, processor, argument
            pages[rule] += each.same + each.dropped
            if each.new or not each.same:
                disproved.add(rule)
    for rule, number in sorted(pages.items(), key=lambda item: (-item[1], item[0])):
        site, processor, arguments = rule
        if number >= LEAST and rule not in disproved and site:
            made: dict[str, Any] = {"order": ORDER, "urlPattern": {"include": [site]}}
            made |= {"processor": processor, "pages": number}
            yield made | ({"args": list(arguments)} if arguments else {})


def _processors(difference: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the processor, and its arguments, that makes the two URLs one; none if there is none for all of it."""
    if parameter := parameter_of(difference):
        yield "queryRemoval", (parameter,)
    elif {*difference.split(" ")} <= _NORMALIZED:
        yield "normalizer", ()
