"""What is known of rules, outside the crawl that learned it: on disk, at a service, and for a plugin.

    urls.json, beside the documents (docs/appendix/store-format.md):
        {"v": 1, "digest": BLAKE2b of the rest, "sites": {site: [{"rule", "pairs", ...}]}}
    a crawl's records -> told() -> merged() with the service's -> news() -> what a crawl takes into its learner

Rules have a file of their own: lost rules are learned again, a damaged file must not make the documents
unreadable, and what a person decided outlives a crawl whose documents are deleted.

Of two records of a rule the one with the greater evidence (pairs) stands, the later one if they are equal.
Adding them up would count a pair twice whenever a crawl sends again, or sends what it took from the service
before; to tell these apart each pair would have to be kept. For the same reason only what was decided goes
from crawl to crawl: a rule that holds, or fell. Half the evidence stays with the crawl that has it.

A doubt is a crawl's that saw a link which it would have missed. It goes with the record, until a crawl with
as much evidence says otherwise; no crawl takes a rule in doubt from another one. A crawl's own doubts stay
its own: its learner settles them.

plugin_rules() returns them as the Scrapy plugin duplicate-url-discarder reads them: a file for
DUD_LOAD_RULE_PATHS. The plugin removes parameters, a leading "www." and slashes at the end. So it can be told of
parameters that may be absent (drop:NAME), and of a "www." host and a slash that both mean nothing, but not of
the others: that the value of a parameter means nothing does not say that it may be absent. What the plugin
would apply more widely than it was learned is left out, and named. Its patterns match a host with and without
"www.".

Invariants: a file is complete, or it is named and refused; it is replaced atomically. A rule that was refuted
anywhere stays refuted, and what a person decided at the service overrides both.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict, replace

from dedup.core.files import PRIVATE, replace_file
from dedup.detector.url_rules.rule_set import Rule, rule_of
from dedup.model.errors import DedupError, StoreDamaged, UsageError

FOR = 10  # pairs that speak for a rule, from which on it holds
ORIGINALS = 3  # pages that these are copies of, at least
EXAMPLES = 3
MOST_RULES = 512  # of a site, those that fell among them
MOST_SITES = 1000

FILE = "urls.json"
VERSION = 1
MOST_RECORDS = (
    10_000  # that are written: what holds, fell or was said first, then what is nearest to it
)
RULES_BYTES = 1 << 19  # that are sent at once, and that a service keeps of a namespace
MOST_PAIRS = 1 << 32
TOLD_PAIRS = (
    1000  # that one record may claim at a service: evidence of other crawls can outweigh it
)

_DIGEST_BYTES = 16

Said = Literal["", "pin", "forbid"]


class Record(msgspec.Struct, omit_defaults=True):
    """What is known of a rule.

    pairs      that speak for it
    originals  pages that these are copies of, by a hash; ORIGINALS at most
    examples   of such pairs: the copy, the original
    against    two pages of other texts that it would map together: it is dead
    said       "pin" or "forbid" where a person decided
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


# ------------------------------------------------------------------------------------- on disk


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
                known[rule] = Record(**fields)
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


# ------------------------------------------------------------------------- between crawls


def bounded(theirs: Records, *, by_admin: bool) -> Records:
    """Return the records that a client sends to a service, as far as they are believed.

    A record claims up to TOLD_PAIRS pairs, and that its rule holds only with enough of them (FOR).
    What a person said is taken from an administrator only.
    """
    return {
        site: {rule: _bounded(record, by_admin) for rule, record in known.items()}
        for site, known in theirs.items()
    }


def _bounded(record: Record, by_admin: bool) -> Record:
    said = record.said if by_admin else ""
    pairs = min(max(record.pairs, 0), TOLD_PAIRS)
    holds = said == "pin" or (record.holds and pairs >= FOR and not record.said)
    return replace(record, pairs=pairs, said=said, holds=holds)


def merged(mine: Records, theirs: Records) -> Records:
    """Return a service's records after a crawl's came: up to MOST_SITES sites, of MOST_RULES rules each.

    Those that the service has are never displaced; more than that are not added.
    """
    found = {site: dict(known) for site, known in mine.items()}
    for site, known in theirs.items():
        if site not in found and len(found) >= MOST_SITES:
            continue
        of_site = found.setdefault(site, {})
        for rule, record in known.items():
            if rule in of_site or len(of_site) < MOST_RULES or record.said:
                of_site[rule] = _merged(of_site.get(rule, Record()), record)
    return found


def _merged(mine: Record, theirs: Record) -> Record:
    later = theirs.pairs >= mine.pairs
    stands = theirs if later else mine
    said = mine.said or theirs.said
    against = mine.against or theirs.against
    return Record(
        pairs=min(max(stands.pairs, 0), MOST_PAIRS),
        originals=stands.originals[:ORIGINALS],
        examples=(stands.examples or mine.examples)[:EXAMPLES],
        against=against,
        said=said,
        holds=said == "pin" or (stands.holds and not said and not against),
        doubts=max(theirs.doubts if later else max(mine.doubts, theirs.doubts), 0),
    )


def told(own: Records) -> Records:
    """Return the records that a crawl tells a service: what it found to hold, or to have fallen."""
    found: Records = {}
    for site, rule, record in _each(own):
        if (record.holds or record.against) and not record.said:  # which is the service's already
            found.setdefault(site, {})[rule] = record
    return found


def news(own: Records, shared: Records) -> Records:
    """Return the records that a crawl takes from a service: what holds or fell there, and not here."""
    found: Records = {}
    for site, rule, record in _each(shared):
        if not (record.against or record.said or (record.holds and not record.doubts)):
            continue
        mine = own.get(site, {}).get(rule, Record())
        taken = _merged(record, mine)
        taken.doubts = mine.doubts
        if _decided(taken) != _decided(mine):
            found.setdefault(site, {})[rule] = taken
    return found


def _decided(record: Record) -> tuple[bool, str, bool]:
    return record.holds, record.said, record.against is None


def _each(records: Records) -> Iterator[tuple[str, Rule, Record]]:
    return (
        (site, rule, record) for site, known in records.items() for rule, record in known.items()
    )


def encode_within(records: Records, most_bytes: int = RULES_BYTES) -> bytes:
    """Return the file that holds these rules, or the first of them (encode_rules), in some bytes."""
    content = encode_rules(records)
    if len(content) <= most_bytes:
        return content
    bare = {
        site: {rule: replace(record, examples=[]) for rule, record in known.items()}
        for site, known in records.items()
    }
    most = MOST_RECORDS
    while len(content := encode_rules(bare, most)) > most_bytes and most:
        most //= 2
    return content


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
