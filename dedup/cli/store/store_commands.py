"""`dedup store`: inspect and maintain stores.

    PATH -> the store there, or those of the namespaces below -> info, verify, export, prune
    lines -> the store of each namespace -> import

store_folders finds the stores of a PATH; export and import are in store_transfer.

Invariants: info, verify, export and every --dry-run only read; all take the store's lock. A
store that is in use or damaged is named, and does not hide the others.
"""

import time
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import json_option
from dedup.cli.store.backup import backup
from dedup.cli.store.export_import import export, import_
from dedup.cli.store.folders import Seen, check_documents, each, index_bytes
from dedup.cli.store.site_rules_command import rules
from dedup.model.policy import age_seconds
from dedup.store import Store
from dedup.store.index import KEYS, VALUES
from dedup.store.record_format import FORMAT
from dedup.store.store import locked_documents
from dedup.store.verify import verify_store


@click.group(cls=terminal.Group, epilog="Example: dedup store info .scrapy/dedup")
def store() -> None:
    """Inspect and maintain stores.

    PATH is the folder of a store, or a folder with a store for each namespace.
    """


@store.command(epilog="Example: dedup store info .scrapy/dedup")
@click.argument("path", type=click.Path())
@json_option()
def info(path: str, as_json: bool) -> None:
    """Show recipe, documents and size of the stores at PATH. Nothing is changed."""
    stores, failed = each(path, _info)
    if as_json:
        terminal.out_json({"path": path, "stores": stores})
    elif sound := [s for s in stores if "error" not in s]:
        terminal.out(
            terminal.table(
                ("namespace", "documents", "recipe", "bytes", "not indexed on disk", "path"),
                [
                    (
                        s["namespace"],
                        s["documents"],
                        s["recipe"],
                        s["documents_file_bytes"] + s["index_file_bytes"],
                        s["tail_documents"],
                        s["path"],
                    )
                    for s in sound
                ],
            )
        )
    if failed:
        click.get_current_context().exit(1)


@store.command(epilog="Example: dedup store verify .scrapy/dedup/my-spider")
@click.argument("path", type=click.Path())
@json_option()
def verify(path: str, as_json: bool) -> None:
    """Check the stores at PATH completely. Nothing is changed; damage gives exit code 1."""
    stores, failed = each(path, _verify)
    unsound = [s for s in stores if not s.get("sound")]
    if as_json:
        terminal.out_json({"path": path, "sound": not unsound, "stores": stores})
    for s in stores:
        if "error" not in s and not as_json:
            documents = terminal.count(s["documents"], "document")
            state = "sound" if s["sound"] else terminal.count(s["problem_count"], "problem")
            terminal.out(f"{s['path']}: {documents}, {s['indexed']:,} indexed on disk: {state}")
            for problem in s["problems"]:
                terminal.out(f"  {problem}")
            if (more := s["problem_count"] - len(s["problems"])) > 0:
                terminal.out(f"  and {more:,} more")
        if s.get("problems"):
            terminal.error(
                f"{s['path']} is damaged; if only its index ({VALUES} or {KEYS}) is named, the next "
                "opening makes it again; else restore the folder from a copy, or move it away to "
                "start with an empty store"
            )
    if failed or unsound:
        click.get_current_context().exit(1)


def _age(_context: click.Context, _option: click.Parameter, text: str) -> float:
    """Return the Unix time that an age or a date stands for."""
    if (age := age_seconds(text)) is not None:
        return time.time() - age
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is neither an age (30d, 12h, 90m, or seconds) nor a date (2026-01-31, "
            "2026-01-31T12:00, in UTC unless it names a zone)."
        ) from None


@store.command(epilog="Example: dedup store prune .scrapy/dedup --older-than 30d --dry-run")
@click.argument("path", type=click.Path())
@click.option(
    "--older-than",
    "before",
    metavar="AGE|DATE",
    required=True,
    callback=_age,
    help="How old, or from before when: 30d, 12h, 90m, seconds, or an ISO date (UTC unless it "
    "names a zone).",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; only say what would happen.")
@json_option()
def prune(path: str, before: float, dry_run: bool, as_json: bool) -> None:
    """Remove old documents from the stores at PATH.

    Their pages count as new when they are fetched again. The files keep their size; the free space
    is used for later documents.
    """
    from dedup.store.transfer import count_before

    def remove(folder: Path) -> Seen:
        check_documents(folder)
        if dry_run:
            pruned, left = count_before(folder, before)
        else:
            with Store.open(folder.parent, folder.name, create=False) as opened:
                pruned = opened.forget_before(before, terminal.progress(str(folder)))
                left = len(opened)
        named = {"path": str(folder), "namespace": folder.name}
        return named | {"pruned": pruned, "documents": left}

    stores, failed = each(path, remove)
    if as_json:
        terminal.out_json({"path": path, "before": before, "dry_run": dry_run, "stores": stores})
    for s in stores if not as_json else []:
        if "error" not in s:
            verb = "would be pruned" if dry_run else "pruned"
            documents = terminal.count(s["pruned"], "document")
            terminal.out(f"{s['path']}: {documents} {verb}, {s['documents']:,} left")
    if failed:
        click.get_current_context().exit(1)


def _info(folder: Path) -> Seen:
    file = check_documents(folder)
    with locked_documents(folder) as documents:
        return {
            "path": str(folder),
            "namespace": documents.namespace,
            "recipe": documents.recipe,
            "format": FORMAT,
            "documents": len(documents),
            "documents_file_bytes": file.stat().st_size,
            "index_file_bytes": index_bytes(folder),
            "tail_documents": documents.unindexed,
        }


def _verify(folder: Path) -> Seen:
    check_documents(folder)
    report = verify_store(folder.parent, folder.name, terminal.progress(str(folder)))
    return msgspec.structs.asdict(report) | {"sound": not report.problem_count}


store.add_command(backup)
store.add_command(export)
store.add_command(rules)
store.add_command(import_)
