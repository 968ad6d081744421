"""`dedup audit`: how many of the documents that another tool removed are no copies."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, number_option
from dedup.model.errors import DedupError, UsageError

if TYPE_CHECKING:
    from dedup.scan.audit.judging import Audit, Interval
    from dedup.scan.audit.removals import RemovalFields
    from dedup.scan.values import Broken

SAMPLE = 1000
THRESHOLD = 0.8
SHOWN = 5  # of the least similar pairs


@click.command(
    epilog="Example: dedup audit removed.jsonl --documents pages.parquet --text-field text"
)
@click.argument("removals", nargs=-1, required=True, metavar="REMOVALS...")
@click.option(
    "-d",
    "--documents",
    multiple=True,
    required=True,
    metavar="INPUT",
    help="The documents before deduplication: files, folders and globs as of scan; may be repeated.",
)
@click.option("--removed-field", metavar="FIELD", help="Field of a removed document's id.")
@click.option("--kept-field", metavar="FIELD", help="Field of the kept document's id.")
@click.option(
    "--group-field", metavar="FIELD", help="Field of the group, instead of the kept document."
)
@click.option("--id-field", metavar="FIELD", help="Field of the document's id. [default: its URL]")
@click.option(
    "--positions",
    is_flag=True,
    help="A document's id is its number in all documents, from 0.",
)
@click.option("--html-field", default="html", show_default=True, help="Field of the HTML.")
@click.option("--text-field", metavar="FIELD", help="Field of plain text, in place of HTML.")
@number_option("--sample", "Number of pairs that are judged.", SAMPLE, least=1, most=1_000_000)
@number_option(
    "--threshold",
    "A pair with a smaller Jaccard similarity is no copy.",
    THRESHOLD,
    least=0,
    most=1,
)
@json_option()
def audit(
    removals: tuple[str, ...], documents: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Judge a sample of the documents that another tool removed as duplicates.

    REMOVALS are pairs or groups as JSON lines, CSV or Parquet: rows with the fields "removed" and "kept", rows with
    "id" and "group", or arrays of ids (the first was kept). A document that was kept for itself was not removed.
    Each sampled pair is compared by all 3-token shingles of its texts, and by our own verdict.
    """
    found = _audit(removals, documents, options)
    if as_json:
        import msgspec

        terminal.out_json(msgspec.to_builtins(found))
        return
    for line in _sentences(found):
        terminal.out(line)
    for pair in found.worst[:SHOWN]:
        terminal.out("")
        terminal.out(pair.removed)
        terminal.out(f"  not like {pair.kept} (Jaccard {pair.jaccard:.2f})")
        for line in pair.differs:
            terminal.out(f"  {line}")


def _audit(
    removals: tuple[str, ...], documents: tuple[str, ...], options: dict[str, Any]
) -> "Audit":
    from dedup.model.policy import SETTINGS
    from dedup.model.recipes import recipe_of
    from dedup.scan.audit.judging import judge
    from dedup.scan.audit.removals import read_removals
    from dedup.scan.audit.sample import draw, find_documents
    from dedup.scan.inputs import NotRead
    from dedup.scan.values import ReadingOptions, ScanJob

    listed = read_removals(removals, _fields(options))
    if not len(listed.removed):
        raise DedupError(f"{', '.join(removals)}: no document was removed in favour of another one")
    drawn = draw(listed, options["sample"])
    id_field = options["id_field"]
    ids = "position" if options["positions"] else "url" if id_field is None else "field"
    reading = ReadingOptions(
        "url",
        options["html_field"],
        SETTINGS["max_bytes"].default,
        recipe_of(),
        options["text_field"],
        id_field if ids == "field" else None,
        needs_url=ids == "url",
    )
    faults = terminal.Faults("broken record")

    def fault(broken: "Broken") -> None:
        faults.add(f"{broken.path} {broken.place}".rstrip(), broken.reason)

    show, not_read = terminal.progress("documents read"), NotRead()
    found, read = find_documents(
        ScanJob(inputs=documents),
        reading,
        ids,
        drawn.wanted,
        fault,
        None if show is None else lambda n: show(n, 0),
        not_read,
    )
    terminal.status.clear()
    faults.close()
    if not_read.count:
        files = terminal.count(not_read.count, "file")
        terminal.error(
            f"{files} not read, such as {not_read.example}: no format is known by that name"
        )
    result = judge(listed, drawn, found, documents=read, threshold=options["threshold"])
    if not result.judged:
        raise DedupError(
            f"none of the {terminal.count(len(drawn.wanted), 'document')} that were looked for is among the "
            f"{read:,} read; ids are {_IDS[ids]}: see --id-field and --positions"
        )
    return result


_IDS = {
    "url": "URLs",
    "field": "those of --id-field",
    "position": "positions",
}


def _fields(options: dict[str, Any]) -> "RemovalFields | None":
    from dedup.scan.audit.removals import RemovalFields

    removed, kept, group = (options.pop(f"{n}_field") for n in ("removed", "kept", "group"))
    if removed is None and kept is None and group is None:
        return None
    if removed is None or (kept is None) == (group is None):
        raise UsageError("give --removed-field together with either --kept-field or --group-field")
    return RemovalFields(removed, kept=kept, group=group)


def _sentences(found: "Audit") -> Iterator[str]:
    """Yield the result, a sentence a line."""
    yield (
        f"{terminal.count(found.removed, 'removed document')} in favour of {found.kept:,} others; "
        f"{terminal.count(found.judged, 'pair')} judged of {found.drawn:,} drawn"
    )
    if found.not_found:
        yield (
            f"{terminal.count(found.not_found, 'pair')} left out: a document of it is not in the "
            f"{terminal.count(found.documents, 'document')} read"
        )
    whole = found.whole
    yield f"no copies (Jaccard similarity under {found.threshold:g}): {_shown(whole.no_copy)}"
    yield f"no near-duplicates by the verdict of dedup scan: {_shown(whole.no_near_duplicate)}"
    if found.superseded:
        yield f"{terminal.count(found.superseded, 'removed document')} in favour of one that was removed, too"


def _shown(share: "Interval") -> str:
    return (
        f"{100 * share.share:.1f} % ({share.count:,}; 95 % interval {100 * share.low:.1f} to "
        f"{100 * share.high:.1f} %)"
    )
