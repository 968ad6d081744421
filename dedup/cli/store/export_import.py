"""`dedup store export` and `dedup store import`: documents as JSON lines, out and in.

Invariants: the whole input of an import is checked before anything is written. A bad line is
reported with its number and skipped; an error of the input as a whole stops the import.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option
from dedup.cli.store.folders import Seen, check_documents, each, is_store, store_folders
from dedup.core.files import replacing
from dedup.model.errors import DedupError, RecipeMismatch
from dedup.store import Store
from dedup.store.store import DOCUMENTS


@click.command(epilog="Example: dedup store export .scrapy/dedup --output documents.jsonl")
@click.argument("path", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    help="Write the lines to a file. [default: stdout]",
)
def export(path: str, output: str) -> None:
    """Write the documents of the stores at PATH as JSON lines. Nothing is changed.

    A line is a document, with the fields of an insert event (docs/appendix/store-format.md). FILE appears
    when it is complete and on disk; if a store cannot be read, no FILE is written and an existing
    one stays. An unreadable document is reported and skipped.
    """
    from dedup.store.transfer import export_lines

    left_out = 0

    def write(folder: Path) -> Seen:
        nonlocal left_out
        file_name = check_documents(folder)
        faults, fault = _faults(f"{file_name}: document")
        for line in export_lines(folder, fault, terminal.progress(str(folder))):
            file.write(line)
        faults.close()
        left_out += faults.count
        return {}

    store_folders(path)  # no output is begun where there is no store
    with whole(output) as file:
        _, failed = each(path, write)
        if failed and output != "-":
            raise DedupError(
                f"{output} was not written, for it would not hold all stores of {path}"
            )
    if left_out or failed:
        click.get_current_context().exit(1)


@click.command("import", epilog="Example: dedup store import .scrapy/dedup --input documents.jsonl")
@click.argument("path", type=click.Path())
@click.option(
    "--input",
    "source",
    metavar="FILE",
    default="-",
    help="Read the lines from a file. [default: stdin]",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; only say what would happen.")
@json_option()
def import_(path: str, source: str, dry_run: bool, as_json: bool) -> None:
    """Insert documents from JSON lines, as `export` writes them.

    Known keys are replaced. PATH is the folder of a store, or a folder with a store for each namespace;
    missing stores are created. A new folder becomes a store itself if it has the name of the input's
    namespace. The whole input is checked first. Bad lines are reported and skipped, with exit code 1;
    lines of another recipe than the store's stop the import.
    """
    from dedup.store import transfer

    name = "stdin" if source == "-" else source
    with _seekable(source) as file, contextlib.ExitStack() as stack:
        faults, fault = _faults(f"{name}: line")
        found = transfer.survey(file, name, fault)
        faults.close()
        folders = _targets(path, name, found.first)
        for namespace, folder in folders.items():
            _check_recipe(folder, found.recipes[namespace], name)
        file.seek(0)
        if dry_run:
            counts = transfer.count_known(file, found, folders)
        else:
            stores = {
                n: stack.enter_context(Store.open(f.parent, n, recipe_id=found.recipes[n]))
                for n, f in folders.items()
            }
            counts = transfer.import_lines(file, found, stores, terminal.progress(name))
    if as_json:
        stores_seen = [
            {"path": str(f), "namespace": n, "recipe": found.recipes[n]}
            | {"imported": counts[n][0], "replaced": counts[n][1]}
            for n, f in folders.items()
        ]
        lines = {"dry_run": dry_run, "lines": found.lines, "bad_lines": found.bad}
        terminal.out_json({"path": path} | lines | {"stores": stores_seen})
    else:
        verb = "would be imported" if dry_run else "imported"
        for n, folder in folders.items():
            imported, replaced = counts[n]
            documents = terminal.count(imported, "document")
            terminal.out(f"{folder}: {documents} {verb}, {replaced:,} in place of another")
    if found.bad:
        click.get_current_context().exit(1)


def _faults(where: str) -> tuple[terminal.Faults, Callable[[int, str], None]]:
    """Return where faults are counted, and what names one by its number."""
    faults = terminal.Faults(lambda more: f"{where}: and {more:,} more left out")
    return faults, lambda number, reason: faults.add(f"{where} {number}: {reason}")


@contextlib.contextmanager
def whole(output: str) -> Iterator[IO[bytes]]:
    """Open an output that is there as a whole or not at all; stdout, pipes and devices as they are."""
    target = Path(output).resolve()  # through a link, so that the link stays
    whole = output != "-" and (target.is_file() or not target.exists())
    with replacing(target) if whole else click.open_file(output, "wb") as file:
        yield file
        file.flush()


@contextlib.contextmanager
def _seekable(source: str) -> Iterator[IO[bytes]]:
    """Open an input that is read twice; a pipe goes through a temporary file."""
    with click.open_file(source, "rb") as file, contextlib.ExitStack() as stack:
        if not file.seekable():
            copy: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield copy
        else:
            yield file


def _targets(path: str, name: str, first: dict[str, int]) -> dict[str, Path]:
    """Return the folder of each namespace's store. Raises DedupError if PATH is of another one."""
    top = Path(path).resolve()
    if not is_store(top):
        below = top.is_dir() and any(is_store(f) for f in top.iterdir())
        if below or list(first) != [top.name]:
            return {namespace: top / namespace for namespace in first}
    for namespace, line in first.items():
        if namespace != top.name:
            raise DedupError(
                f"{name}: line {line} is of the namespace {namespace!r}, but {path} is the store "
                f"of {top.name!r}; nothing was imported: give the folder that holds the namespaces"
            )
    return dict.fromkeys(first, top)


def _check_recipe(folder: Path, recipe: str, name: str) -> None:
    from dedup.store import transfer

    if (folder / DOCUMENTS).exists() and (held := transfer.held_recipe(folder)) not in {"", recipe}:
        raise RecipeMismatch(
            f"the store {folder} holds fingerprints of recipe {held!r}, {name} those of "
            f"{recipe!r}, which cannot be compared; nothing was imported: import into another "
            "folder"
        )
