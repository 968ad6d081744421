"""`dedup store`: inspect and maintain stores.

    PATH -> the store there, or those of the namespaces below -> info, verify, export, prune
    lines -> the store of each namespace -> import
    service -> /v1/export, some hundred documents an answer -> lines (backup)

Invariants:
  - info, verify, export and prune --dry-run only read; all take the store's lock. A store that is in use or damaged is
    named, and does not hide the others.
  - The whole input of an import is checked before anything is written. A bad line is reported with its number
    and skipped; an error of the input as a whole stops the import.
  - A backup has every document that is stored when it begins and is not forgotten meanwhile. One that is
    replaced meanwhile may be in it twice, and the later line is the one that counts.
"""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import json_option, output_option, reason_of
from dedup.core.files import PRIVATE, replacing
from dedup.model.errors import (
    DedupError,
    ServiceUnavailable,
    StoreDamaged,
    UsageError,
)
from dedup.model.policy import age_seconds
from dedup.store import Store
from dedup.store.documents import FORMAT
from dedup.store.index import KEYS, VALUES
from dedup.store.store import DOCUMENTS, locked_documents
from dedup.store.verify import verify_store

if TYPE_CHECKING:
    from dedup.wire.kafka import KafkaConfig

Seen = dict[str, Any]
PRODUCED = 1000  # records that are written at once
TIMEOUT_SECONDS = 60.0  # of a request to a service


# ------------------------------------------------------------------- the stores that a PATH means


def store_folders(path: str) -> list[Path]:
    """Return the folders of the stores at a path. Raises OSError, and DedupError if there is none."""
    top = Path(path).resolve()
    folders = [top] if is_store(top) else sorted(f for f in top.iterdir() if is_store(f))
    if not folders:
        raise DedupError(
            f"{path}: there is no store here, nor in a folder below; give the folder of a store, "
            "or the one that holds its namespaces (Scrapy's is .scrapy/dedup)"
        )
    return folders


def each(path: str, look: Callable[[Path], Seen]) -> tuple[list[Seen], bool]:
    """Look at every store at a path; return what was seen, and whether a look failed.

    Raises OSError, and DedupError if there is no store.
    """
    stores, failed = [], False
    for folder in store_folders(path):
        try:
            stores.append(look(folder))
        except (DedupError, OSError, MemoryError) as error:
            terminal.report(error)
            failed = True
            named = {"path": str(folder), "namespace": folder.name}
            stores.append(named | {"error": terminal.describe(error)})
    return stores, failed


def show_each(
    path: str,
    look: Callable[[Path], Seen],
    show: Callable[[list[Seen]], object],
    *,
    as_json: bool,
) -> None:
    """Look at every store at a path, and print it: as JSON, or by show() those that are sound.

    The exit code is 1 if a look failed.
    """
    stores, failed = each(path, look)
    if as_json:
        terminal.out_json({"path": path, "stores": stores})
    elif sound := [s for s in stores if "error" not in s]:
        show(sound)
    if failed:
        click.get_current_context().exit(1)


def is_store(folder: Path) -> bool:
    """Tell whether a folder holds a file of a store."""
    return (folder / DOCUMENTS).is_file() or (folder / VALUES).is_dir()


def index_bytes(folder: Path) -> int:
    """Return the size of the index of a store."""
    files = (file for name in (VALUES, KEYS) for file in (folder / name).glob("*"))
    return sum(file.stat().st_size for file in files)


def check_documents(folder: Path) -> Path:
    """Return the file of documents. Raises StoreDamaged if an index stands without it."""
    file = folder / DOCUMENTS
    if not file.is_file() or not file.stat().st_size:
        raise StoreDamaged(
            f"{file} is missing or empty; restore it from a copy, or move the folder away to start "
            "with an empty store"
        )
    return file


# ----------------------------------------------------------------------------------- the commands


@click.group(cls=terminal.CommandGroup, epilog="Example: dedup store info .scrapy/dedup")
def store() -> None:
    """Inspect and maintain stores.

    PATH is the folder of a store, or a folder with a store for each namespace.
    """


@store.command(epilog="Example: dedup store info .scrapy/dedup")
@click.argument("path", type=click.Path())
@json_option()
def info(path: str, as_json: bool) -> None:
    """Show recipe, documents and size of the stores at PATH. Nothing is changed."""
    headers = ("namespace", "documents", "recipe", "bytes", "read at opening", "path")

    def row(s: Seen) -> tuple[str | int, ...]:
        size = s["documents_file_bytes"] + s["index_file_bytes"]
        return s["namespace"], s["documents"], s["recipe"], size, s["tail_documents"], s["path"]

    def show(stores: list[Seen]) -> None:
        terminal.out_lines(terminal.table(headers, [*map(row, stores)]))

    show_each(path, _info, show, as_json=as_json)


@store.command(epilog="Example: dedup store verify .scrapy/dedup/my-spider")
@click.argument("path", type=click.Path())
@json_option()
def verify(path: str, as_json: bool) -> None:
    """Check the stores at PATH. Nothing is changed.

    Every document is read, and looked up in the index; damage gives exit code 1. Of a service that runs,
    `dedup store backup` reads every document.
    """
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
                f"{s['path']} is damaged; if only its index ({VALUES} or {KEYS}) is named, it is rebuilt "
                "at the next opening; else restore the folder from a copy, or move it away to "
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
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would happen.")
def prune(path: str, before: float, dry_run: bool) -> None:
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

    def show(stores: list[Seen]) -> None:
        verb = "would be pruned" if dry_run else "pruned"
        for s in stores:
            documents = terminal.count(s["pruned"], "document")
            terminal.out(f"{s['path']}: {documents} {verb}, {s['documents']:,} left")

    show_each(path, remove, show, as_json=False)


def _info(folder: Path) -> Seen:
    file = check_documents(folder)
    with locked_documents(folder) as documents:
        return {
            "path": str(folder),
            "namespace": documents.state.namespace,
            "recipe": documents.state.recipe,
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


# ------------------------------------------------------------------------------ export and import


@store.command(epilog="Example: dedup store export .scrapy/dedup --output documents.jsonl")
@click.argument("path", type=click.Path())
@output_option("the lines")
def export(path: str, output: str) -> None:
    """Write the documents of the stores at PATH as JSON lines. Nothing is changed.

    A line is a document, with the fields of an insert event. FILE appears
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
            raise DedupError(f"{output} was not written: not every store of {path} could be read")
    if left_out or failed:
        click.get_current_context().exit(1)


@store.command(
    epilog="Example: dedup store produce /var/lib/dedup --kafka kafka-1:9092 --topic dedup.inserts.2"
)
@click.argument("path", type=click.Path())
@click.option(
    "--kafka", metavar="HOST:PORT,...", required=True, help="Kafka brokers to produce to."
)
@click.option("--topic", metavar="NAME", help="Topic of insert events. [default: dedup.inserts]")
def produce(path: str, kafka: str, topic: str | None) -> None:
    """Write the documents of the stores at PATH to a Kafka topic, as insert events. The stores are not changed.

    A topic that does not exist is created. For a service that gets a new topic, or its first one. Logins are in the
    environment, see docs/use/kafka.md. An unreadable document is reported and left out, with exit code 1.
    """
    from dedup.wire.kafka import kafka_config
    from dedup.wire.kafka.login import INSERTS_TOPIC

    left_out = 0
    config = kafka_config(kafka, topic or INSERTS_TOPIC)

    def write(folder: Path) -> Seen:
        nonlocal left_out
        faults, fault = _faults(f"{check_documents(folder)}: document")
        count = asyncio.run(_produce(config, folder, fault))
        faults.close()
        left_out += faults.count
        terminal.out(f"{folder}: {terminal.count(count, 'document')} written to {config.topic}")
        return {}

    _, failed = each(path, write)
    if left_out or failed:
        click.get_current_context().exit(1)


async def _produce(config: "KafkaConfig", folder: Path, fault: Callable[[int, str], None]) -> int:
    """Write the documents of a store to a topic, in their order; return how many. Raises KafkaUnavailable."""
    from dedup.model.events import encode
    from dedup.wire.kafka import Outgoing, Writer, ensure_topic

    await ensure_topic(config)
    count = 0
    async with Writer(config) as writer:
        with locked_documents(folder) as documents:
            found = iter(documents.scan())
            while batch := list(itertools.islice(found, PRODUCED)):
                records = []
                for document_id, document in batch:
                    if isinstance(document, ValueError):
                        fault(document_id, str(document))
                    else:
                        records.append(Outgoing(*encode(documents.state.namespace, document)))
                await writer.send_many(records)
                count += len(records)
    return count


@store.command("import", epilog="Example: dedup store import .scrapy/dedup --input documents.jsonl")
@click.argument("path", type=click.Path())
@click.option(
    "--input",
    "source",
    metavar="FILE",
    default="-",
    help="Read the lines from a file. [default: stdin]",
)
def import_(path: str, source: str) -> None:
    """Insert documents from JSON lines, as `export` writes them.

    Known keys are replaced. PATH is the folder of a store, or a folder with a store for each namespace;
    missing stores are created. A new folder becomes a store itself if it has the name of the input's
    namespace. The whole input is checked first. Bad lines, and those of another recipe than their namespace's
    first one, are reported and skipped, with exit code 1.
    """
    from dedup.store import transfer

    name = "stdin" if source == "-" else source
    with _seekable(source) as file, contextlib.ExitStack() as stack:
        faults, fault = _faults(f"{name}: line")
        found = transfer.survey(file, fault, _recipe_held(path))
        faults.close()
        folders = _targets(path, name, found.first)
        file.seek(0)
        stores = {
            n: stack.enter_context(Store.open(f.parent, n, recipe_id=found.recipes[n]))
            for n, f in folders.items()
        }
        counts = transfer.import_lines(file, found, stores, terminal.progress(name))
    for n, folder in folders.items():
        imported, replaced = counts[n]
        documents = terminal.count(imported, "document")
        terminal.out(f"{folder}: {documents} imported, {replaced:,} in place of another")
    if found.bad:
        click.get_current_context().exit(1)


def _faults(where: str) -> tuple[terminal.Faults, Callable[[int, str], None]]:
    """Return where faults are counted, and what names one by its number."""
    file, _, what = where.rpartition(" ")
    faults = terminal.Faults(what, f"{file} ", alike=1)
    return faults, lambda number, reason: faults.add(f"{where} {number}", reason)


@contextlib.contextmanager
def whole(output: str) -> Iterator[IO[bytes]]:
    """Open an output that is there as a whole or not at all; stdout, pipes and devices as they are."""
    target = Path(output).resolve()  # through a link, so that the link stays
    whole = output != "-" and (target.is_file() or not target.exists())
    with replacing(target, PRIVATE) if whole else click.open_file(output, "wb") as file:
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


def _recipe_held(path: str) -> Callable[[str], str]:
    """Return what gives the recipe of a namespace's store at a path, "" without one."""
    from dedup.store import transfer

    top = Path(path).resolve()
    itself = is_store(top)

    @cache
    def held(namespace: str) -> str:
        folder = top if itself and top.name == namespace else top / namespace
        return transfer.held_recipe(folder) if (folder / DOCUMENTS).exists() else ""

    return held


# ----------------------------------------------------------------------------------------- backup


@store.command(epilog="Example: dedup store backup http://127.0.0.1:7780 --output documents.jsonl")
@click.argument("url")
@output_option("the lines")
def backup(url: str, output: str) -> None:
    """Write the documents of a running table service as JSON lines.

    URL is its HTTP port. The service continues to serve. Its token, if it has one, is read from
    DEDUP_TOKEN. FILE appears when it is complete and on disk. `dedup store import` restores it. For a
    store that no process uses, there is `dedup store export`.
    """
    check_service(url, "; a store that no process holds is written by `dedup store export`")
    counts = _documents(url)
    progress, done = terminal.progress("documents"), 0
    with whole(output) as file:
        for name in counts:
            for lines in _lines(url, name):
                file.write(lines)
                done += lines.count(b"\n")
                if progress:
                    progress(done, max(done, sum(counts.values())))
    if output != "-":
        terminal.out(f"{output}: {terminal.count(done, 'document')} of {len(counts)} namespaces")


def _documents(url: str) -> dict[str, int]:
    """Return how many documents each namespace of a service has."""
    counts = re.findall(rb'\ndedup_documents{namespace="([^"]+)"} (\S+)', get(url, "/metrics")[0])
    return {name.decode(): int(float(count)) for name, count in counts}


def _lines(url: str, namespace: str) -> Iterator[bytes]:
    first: str | None = "0"
    while first is not None:
        query = urlencode({"ns": namespace, "from": first})
        lines, first = get(url, f"/v1/export?{query}")
        yield lines


def check_service(url: str, hint: str = "") -> None:
    """Raise UsageError for what is not the address of a service's HTTP port."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise UsageError(
            f"{url!r} is not the HTTP port of a service, such as http://127.0.0.1:7780{hint}"
        )


def get(url: str, path: str) -> tuple[bytes, str | None]:
    """Return the body of an answer, and where the next documents begin. Raises ServiceUnavailable."""
    asked = Request(url.rstrip("/") + path)  # noqa: S310  (http or https: checked)
    if token := os.environ.get("DEDUP_TOKEN"):
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(asked, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return answer.read(), answer.headers.get("x-dedup-next")
    except HTTPError as error:
        said = error.read(400).decode(errors="replace")
        hint = "; put its token into DEDUP_TOKEN" if error.code == 401 else ""
        raise ServiceUnavailable(f"{url} answers {error.code}: {said}{hint}") from error
    except (OSError, HTTPException) as error:  # the latter: it ended within an answer
        raise ServiceUnavailable(f"{url} does not answer: {reason_of(error)}") from error
