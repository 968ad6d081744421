"""What is known of rules, outside the crawl that learned it: on disk, at a service, and for a plugin.

    urls.json, beside the documents (docs/appendix/store-format.md):
        {"v": 1, "digest": BLAKE2b of the rest, "sites": {site: [{"rule", "pairs", ...}]}}
    a person's file (DEDUP_URL_RULES) -> read_said() -> what holds, or never does, whatever the evidence

Rules have a file of their own: lost rules are learned again, and a damaged file must not make the documents
unreadable. What a person said stands in no other file than the person's: a line that is taken out of it is forgotten.

plugin_rules() returns them as the Scrapy plugin duplicate-url-discarder reads them: a file for
DUD_LOAD_RULE_PATHS. The plugin removes parameters, a leading "www." and slashes at the end. So it can be told of
parameters that may be absent (drop:NAME), and of a "www." host and a slash that both mean nothing, but not of
the others: that the value of a parameter means nothing does not say that it may be absent. What the plugin
would apply more widely than it was learned is left out, and named. Its patterns match a host with and without
"www.".

Invariants: a file is complete, or it is named and refused; it is replaced atomically. A rule that was refuted stays
refuted; what a person said overrides the evidence.
"""

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict, replace

from dedup.core.files import PRIVATE, replace_file
from dedup.detector.url_rules.rule_set import Rule, rule_of
from dedup.model.errors import DedupError, StoreDamaged, UsageError
from dedup.model.names import registrable_domain

FOR = 10  # pairs that speak for a rule, from which on it holds
ORIGINALS = 3  # pages that these are copies of, at least
EXAMPLES = 3
MOST_RULES = 512  # of a site, those that fell among them
MOST_SITES = 1000

FILE = "urls.json"
VERSION = 1
MOST_RECORDS = 10_000  # that are written: what holds or fell first, then what is nearest to it

_DIGEST_BYTES = 16

Said = Literal["", "pin", "forbid"]


class Record(msgspec.Struct, omit_defaults=True):
    """What is known of a rule.

    pairs      that speak for it
    originals  pages that these are copies of, by a hash; ORIGINALS at most
    examples   of such pairs: the copy, the original
    against    two pages of other texts that it would map together: it is dead
    said       "pin" or "forbid" where a person decided; not in the file
    doubts     copies that were kept for links that were met nowhere else yet
    """

    pairs: int = 0
    originals: list[int] = []
    examples: list[tuple[str, str]] = []
    against: tuple[str, str] | None = None
    said: Said = ""
    holds: bool = False
    doubts: int = 0


Records = dict[str, dict[Rule, Record]]  # by site
SaidRules = dict[str, dict[Rule, Said]]  # by site


# ------------------------------------------------------------------------------------- on disk


class _Line(Record, omit_defaults=True):
    """A rule in the file."""

    rule: str = ""


class _Content(msgspec.Struct):
    v: int
    digest: str
    sites: dict[str, list[_Line]]


def encode_rules(records: Records, most: int = MOST_RECORDS) -> bytes:
    """Return the file that holds the evidence on these rules, the first ones at most."""
    learned = [
        (site, rule, replace(record, said="", holds=False) if record.said else record)
        for site, known in records.items()
        for rule, record in known.items()
    ]
    found = [
        (not (record.holds or record.against), -record.pairs, site, rule, record)
        for site, rule, record in learned
        if record != Record()
    ]
    sites: dict[str, list[_Line]] = {}
    for *_, site, rule, record in sorted(found, key=lambda each: each[:4])[:most]:
        sites.setdefault(site, []).append(_Line(**asdict(record), rule=str(rule)))
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
            fields = asdict(line)
            try:
                rule = rule_of(fields.pop("rule"))
                known[rule] = Record(**fields | {"said": ""})
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
    """Leave only what keeps pages: the store's documents are gone.

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
            rule: Record(against=record.against) for rule, record in known.items() if record.against
        }
        for site, known in records.items()
    }
    save_rules(folder, encode_rules(kept))


# ------------------------------------------------------------------------- what a person says


def read_said(path: Path) -> SaidRules:
    """Return what a file of a person says (DEDUP_URL_RULES): a line each, `pin RULE` or `forbid RULE`.

    Empty lines, and those that begin with #, say nothing. Raises UsageError, naming the file and the line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    said: SaidRules = {}
    for number, line in enumerate(lines, 1):
        word, _, text = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word not in {"pin", "forbid"}:
            raise UsageError(
                f"{path}, line {number}: {line[:100]!r}; a line is `pin RULE` or `forbid RULE`"
            )
        try:
            rule = rule_of(text.strip())
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
        host = rule.scope.partition("/")[0] or rule.atom.name.partition("=")[2]
        site = registrable_domain(f"http://{host}/")
        said.setdefault(site, {})[rule] = "pin" if word == "pin" else "forbid"
    return said


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
