"""The rules of a store's sites on disk: urls.json, beside the documents (docs/appendix/store-format.md).

    {"v": 1, "digest": BLAKE2b of the rest, "sites": {site: [{"rule", "pairs", ...}]}}

They stand in a file of their own. Rules are learned again where they are lost, and a damaged one must not
shut out the documents; and what a person said of them outlives a crawl whose documents do not.

The rule kept here: a file is whole, or it is named and refused; it is replaced in one step.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from dedup.core.files import PRIVATE, replace_file
from dedup.detector.url_rules.learner import Records
from dedup.detector.url_rules.rule_set import Rule, rule_of
from dedup.detector.url_rules.site_rules import Record
from dedup.model.errors import DedupError, StoreDamaged, UsageError

__all__ = ["FILE", "begin_again", "decode_rules", "encode_rules", "load_rules", "save_rules"]

FILE = "urls.json"
VERSION = 1
MOST_RECORDS = (
    10_000  # that are written: what holds, fell or was said first, then what is nearest to it
)

_DIGEST_BYTES = 16


class _Line(Record, omit_defaults=True):
    """A rule in the file."""

    rule: str = ""


class _Content(msgspec.Struct):
    v: int
    digest: str
    sites: dict[str, list[_Line]]


def encode_rules(records: Records, most: int = MOST_RECORDS) -> bytes:
    """Return the file that holds these rules, the first ones at most."""
    found = [
        (not (record.holds or record.against or record.said), -record.pairs, site, rule, record)
        for site, known in records.items()
        for rule, record in known.items()
    ]
    sites: dict[str, list[_Line]] = {}
    for *_, site, rule, record in sorted(found, key=lambda each: each[:4])[:most]:
        fields = {name: getattr(record, name) for name in Record.__struct_fields__}
        sites.setdefault(site, []).append(_Line(**fields, rule=str(rule)))
    content = {"v": VERSION, "digest": _digest(sites), "sites": sites}
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def decode_rules(content: bytes) -> Records:
    """Return the rules that a file holds. Raises ValueError saying what is wrong."""
    try:
        version = msgspec.json.decode(content, type=dict[str, Any]).get("v")
        if version != VERSION:
            raise ValueError(f"its version is {version!r}, this release reads {VERSION}")
        read = msgspec.json.decode(content, type=_Content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if _digest(read.sites) != read.digest:
        raise ValueError("its digest does not fit what it holds")
    records: Records = {}
    for site, lines in read.sites.items():
        known: dict[Rule, Record] = records.setdefault(site, {})
        for line in lines:
            fields = {name: getattr(line, name) for name in Record.__struct_fields__}
            try:
                known[rule_of(line.rule)] = Record(**fields)
            except UsageError as error:
                raise ValueError(str(error)) from error
    return records


def _digest(sites: dict[str, list[_Line]]) -> str:
    return blake2b(msgspec.json.encode(sites), digest_size=_DIGEST_BYTES).hexdigest()


def load_rules(folder: Path) -> Records:
    """Return the rules of a store, none if it has no file. Raises StoreDamaged and OSError."""
    path = folder / FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        return decode_rules(content)
    except ValueError as error:
        raise StoreDamaged(
            f"{path} cannot be used: {error}; remove it, and what it said of URLs is learned again"
        ) from error


def save_rules(folder: Path, content: bytes) -> None:
    """Write what encode_rules() made. Raises OSError."""
    replace_file(folder / FILE, content, PRIVATE)


def begin_again(folder: Path) -> None:
    """Leave only what keeps pages, and what a person said: the store's documents are gone.

    What was learned of pages that are forgotten skips nothing. Raises OSError; a file that cannot be
    read is left as it is.
    """
    try:
        records = load_rules(folder)
    except DedupError:
        return
    if not records:
        return
    kept = {
        site: {
            rule: Record(against=record.against, said=record.said, holds=record.said == "pin")
            for rule, record in known.items()
            if record.against or record.said
        }
        for site, known in records.items()
    }
    save_rules(folder, encode_rules(kept))
