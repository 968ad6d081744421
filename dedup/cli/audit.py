"""`dedup audit`: how many of the documents that another tool removed are no copies."""

from typing import TYPE_CHECKING, Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, number_option, setting_option
from dedup.model.errors import DedupError, UsageError

if TYPE_CHECKING:
    from dedup.scan.audit.judging import Audit
    from dedup.scan.audit.removals import RemovalFormat
    from dedup.scan.values import Broken

SAMPLE = 1000
THRESHOLD = 0.8


@click.command(
    epilog="Example: dedup audit clusters.parquet --documents pages.parquet --text-field text"
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
@click.option("--kept-field", metavar="FIELD", help="Field of the id of the one that was kept.")
@click.option("--group-field", metavar="FIELD", help="Field of the group, instead of the kept one.")
@click.option(
    "--removed-ids",
    multiple=True,
    metavar="FILE",
    help="The ids of the removed documents, where REMOVALS lists all members of groups.",
)
@click.option("--id-field", metavar="FIELD", help="Field of the document's id. [default: its URL]")
@click.option(
    "--positions",
    is_flag=True,
    help="A document's id is its number in all documents, from 0.",
)
@click.option("--url-field", default="url", show_default=True, help="Field of the URL.")
@click.option("--html-field", default="html", show_default=True, help="Field of the HTML.")
@click.option("--text-field", metavar="FIELD", help="Field of plain text, in place of HTML.")
@setting_option("max_bytes", type=click.IntRange(1, 1 << 30))
@number_option("--sample", "Number of pairs that are judged.", SAMPLE, least=1, most=1_000_000)
@number_option(
    "--threshold",
    "A pair with a smaller Jaccard similarity is no copy.",
    THRESHOLD,
    least=0,
    most=1,
)
@number_option("--seed", "Another number draws another sample.", 1, least=0)
@click.option("--report", metavar="FILE", help="Also write a report, as .html or .json.")
@json_option()
def audit(
    removals: tuple[str, ...],
    documents: tuple[str, ...],
    removed_ids: tuple[str, ...],
    as_json: bool,
    report: str | None,
    **options: Any,
) -> None:
    """Judge a sample of the documents that another tool removed as duplicates.

    REMOVALS are pairs or groups as JSON lines, CSV or Parquet: rows with the fields "removed" and "kept", rows with
    "id" and "group", arrays of ids (the first was kept), and what text-dedup, NeMo Curator, datatrove and dedup scan write.
    Each sampled pair is compared by all 3-token shingles of its texts, and by our own verdict.
    """
    from dedup.report.file import check_report, write_report

    check_report(report)
    found = _audit(removals, documents, removed_ids, options)
    from dedup.scan.audit.report import SHARE_HEADERS, rows, sentences, shown, tables

    if report is not None:
        write_report(report, found, shown(found))
    if as_json:
        import msgspec

        terminal.out_json(msgspec.to_builtins(found))
        return

    for line in sentences(found):
        terminal.out(line)
    for title, shares in tables(found):
        terminal.out("")
        terminal.out(terminal.table((title, *SHARE_HEADERS[1:]), rows(shares)))
    for chain in found.chains[:3]:
        terminal.out(
            f"\nchain of {chain.group_size:,}: {chain.first}, {chain.middle}, {chain.last}"
        )
        terminal.out(f"  {chain.near[0]:.2f} and {chain.near[1]:.2f}, the ends {chain.far:.2f}")
    for pair in found.worst[:5]:
        terminal.out(f"\n{pair.removed}\n  not like {pair.kept} (Jaccard {pair.jaccard:.2f})")
        for line in pair.differs:
            terminal.out(f"  {line}")


def _audit(
    removals: tuple[str, ...],
    documents: tuple[str, ...],
    removed_ids: tuple[str, ...],
    options: dict[str, Any],
) -> "Audit":
    from dedup.model.recipes import recipe_of
    from dedup.scan.audit.judging import judge
    from dedup.scan.audit.removals import read_removals
    from dedup.scan.audit.sample import draw, find_documents
    from dedup.scan.values import ReadingOptions, ScanJob

    listed = read_removals(removals, _form(options), removed_ids)
    if not len(listed.removed):
        raise DedupError(
            f"{', '.join(removals)}: no document was removed in favour of another one ({listed.tool})"
        )
    drawn = draw(listed, options["sample"], options["seed"])
    id_field = options["id_field"] or _ID_FIELDS.get(listed.tool)
    if options["positions"] or (listed.tool == "text-dedup" and id_field is None):
        ids = "position"
    else:
        ids = "url" if id_field is None else "field"
    job = ScanJob(
        inputs=documents, url_field=options["url_field"], html_field=options["html_field"]
    )
    reading = ReadingOptions(
        options["url_field"],
        options["html_field"],
        options["max_bytes"],
        recipe_of(),
        options["text_field"],
        id_field if ids == "field" else None,
        needs_url=ids == "url",
    )
    faults = terminal.Faults(
        lambda more: f"and {terminal.count(more, 'more broken record')} left out"
    )

    def fault(broken: "Broken") -> None:
        faults.add(f"{broken.path} {broken.place}: {broken.reason}")

    show = terminal.progress("documents read")
    found, read = find_documents(
        job, reading, ids, drawn.wanted, fault, None if show is None else lambda n: show(n, 0)
    )
    terminal.status.clear()
    faults.close()
    result = judge(
        listed,
        drawn,
        found,
        documents=read,
        threshold=options["threshold"],
        seed=options["seed"],
    )
    if not result.judged:
        raise DedupError(
            f"none of the {terminal.count(len(drawn.wanted), 'document')} that were looked for is among the "
            f"{read:,} read; ids are {_IDS[ids]}: see --id-field and --positions"
        )
    return result


_ID_FIELDS = {"NeMo Curator": "_curator_dedup_id", "datatrove": "id"}
_IDS = {
    "url": "URLs",
    "field": "those of --id-field",
    "position": "positions",
}


def _form(options: dict[str, Any]) -> "RemovalFormat | None":
    from dedup.scan.audit.removals import RemovalFormat

    removed, kept, group = (options.pop(f"{n}_field") for n in ("removed", "kept", "group"))
    if removed is None and kept is None and group is None:
        return None
    if removed is None or (kept is None) == (group is None):
        raise UsageError("give --removed-field together with either --kept-field or --group-field")
    return RemovalFormat("pairs" if kept else "groups", removed, kept=kept, group=group)
