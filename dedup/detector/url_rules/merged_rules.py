"""What several crawls learned of the same sites, in one: at a table service, and in each crawl that asks it.

    a crawl's records -> told() -> merged() with the service's -> news() -> what a crawl takes into its learner

Of two records of a rule the one with the greater evidence (pairs) stands, the later one if they are equal.
Adding them up would count a pair twice whenever a crawl sends again, or sends what it took from the service
before; to tell these apart each pair would have to be kept. For the same reason only what was decided goes
from crawl to crawl: a rule that holds, or fell. Half the evidence stays with the crawl that has it.

A doubt is a crawl's that saw a link which it would have missed. It goes with the record, until a crawl with
as much evidence says otherwise; no crawl takes a rule in doubt from another one. A crawl's own doubts stay
its own: its learner settles them.

Invariants: a rule that was refuted anywhere stays refuted, and what a person decided at the service overrides both.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from dedup.detector.url_rules.rule_file import MOST_RECORDS, encode_rules
from dedup.detector.url_rules.rule_set import Rule
from dedup.detector.url_rules.site_rules import (
    EXAMPLES,
    FOR,
    MOST_RULES,
    MOST_SITES,
    ORIGINALS,
    Record,
    Records,
)

RULES_BYTES = (
    1 << 19
)  # of rules that are sent at once, and of those that a service keeps of a namespace
MOST_PAIRS = 1 << 32
TOLD_PAIRS = (
    1000  # that one record may claim at a service: evidence of other crawls can outweigh it
)


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
    bare: Records = {}
    for site, rule, record in _each(records):
        fields = {name: getattr(record, name) for name in Record.__struct_fields__}
        bare.setdefault(site, {})[rule] = Record(**fields | {"examples": []})
    most = MOST_RECORDS
    while len(content := encode_rules(bare, most)) > most_bytes and most:
        most //= 2
    return content
