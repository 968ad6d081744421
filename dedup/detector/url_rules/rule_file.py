"""The rules of a store's sites on disk: urls.json, beside the documents (docs/appendix/store-format.md).

    {"v": 1, "digest": BLAKE2b of the rest, "sites": {site: [{"rule", "pairs", ...}]}}

They have a file of their own: lost rules are learned again, a damaged file must not make the documents
unreadable, and what a person decided outlives a crawl whose documents are deleted.

plugin_rules() returns them as the Scrapy plugin duplicate-url-discarder reads them: a file for
DUD_LOAD_RULE_PATHS. The plugin removes parameters, a leading "www." and slashes at the end. So it can be told of
parameters that may be absent (drop:NAME), and of a "www." host and a slash that both mean nothing, but not of
the others: that the value of a parameter means nothing does not say that it may be absent. What the plugin
would apply more widely than it was learned is left out, and named. Its patterns match a host with and without
"www.".

Invariant: a file is complete, or it is named and refused; it is replaced atomically.
"""

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from dedup.core.files import PRIVATE, replace_file
from dedup.detector.url_rules.rule_set import Rule, rule_of
from dedup.detector.url_rules.site_rules import Record, Records
from dedup.model.errors import DedupError, StoreDamaged, UsageError

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
        raise ValueError("its digest does not match its content")
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


# -------------------------------------------------------------------- for duplicate-url-discarder


_ORDER = 100


def plugin_rules(rules: Iterable[Rule]) -> tuple[list[dict[str, Any]], list[Rule]]:
    """Return the plugin's rules for those that hold, and those that it has no words for."""
    by_scope: dict[str, list[str]] = {}
    left_out: list[Rule] = []
    known = sorted(rules)
    slashes = {rule.scope: rule for rule in known if rule.atom.kind == "slash"}
    hosts = {rule.atom.name: rule for rule in known if rule.atom.kind == "host"}
    both = {host for host in slashes if f"www.{host}={host}" in hosts}
    for rule in known:
        if rule.atom.kind == "drop" and not rule.atom.name.startswith((";", "(")):
            by_scope.setdefault(rule.scope, []).append(rule.atom.name)
        elif (rule.atom.kind == "slash" and rule.scope in both) or (
            rule.atom.kind == "host" and rule.atom.name.partition("=")[2] in both
        ):
            pass
        else:
            left_out.append(rule)
    written = [_written(scope, "queryRemoval", names) for scope, names in by_scope.items()]
    return written + [_written(host, "normalizer", []) for host in sorted(both)], left_out


def _written(scope: str, processor: str, args: list[str]) -> dict[str, Any]:
    host, slash, path = scope.partition("/")
    ends = (f"/{path}|", f"/{path}/") if slash else ("/",)
    include = [f"{scheme}://{host}{end}" for scheme in ("http", "https") for end in ends]
    rule = {"order": _ORDER, "processor": processor, "urlPattern": {"include": include}}
    return rule | {"args": args} if args else rule
