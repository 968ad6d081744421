"""What a person reads of a crawl in the log: its summary at the end, and warnings when drops look wrong.

Invariants: a warning (one page swallows many others, or drops have other titles) is logged at once, one for each page,
with examples and advice; the summary has the counts of the end. Drops that the spider's items have proven are not
doubted. Memory is bounded whatever is crawled.
"""

from collections import Counter, OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dedup.model.names import count
from dedup.model.page import TEXT_HASH, Verdict, differing_parts
from dedup.scrapy.counts import logger
from dedup.scrapy.evidence import shape, shape_text
from dedup.scrapy.settings import Config

if TYPE_CHECKING:
    from dedup.model.policy import Mode
    from dedup.scrapy.proof import Proof
    from dedup.scrapy.urls import HeldRule

RULES_NAMED = 5

_WHAT_BECAME = {
    "drop": "dropped before parsing",
    "skip_links": "parsed, their links not followed",
    "tag": "flagged only",
}


def summary(
    stats: Mapping[str, Any],
    config: Config,
    remembered: str,
    warnings: Sequence[str] = (),
    rules: "Sequence[HeldRule]" = (),
    proved: Sequence[str] = (),
) -> str:
    """Return the summary of a crawl from its stats; remembered says what is stored, and where.

    rules  the rules about its URLs that hold
    """
    counts = {name[6:]: value for name, value in stats.items() if name.startswith("dedup/")}
    probed, found = counts.get("probed", 0), counts.get("near_duplicate", 0)
    share = f" ({100 * found / probed:.0f} %)" if probed else ""
    lines = [
        f"dedup: {count(probed, 'page')} judged: {counts.get('unique', 0):,} unique, "
        f"{count(found, 'near-duplicate')}"
        f"{share} {_WHAT_BECAME[config.mode]}, {_fetched_again(counts)}",
        f"  kept, by reason: {_listed(counts, 'exempt/')}",
        f"  distances of near-duplicates: {_distances(counts)}",
        f"  faults of dedup: {_listed(counts, 'error/')}",
        f"  remembered {counts.get('inserted', 0):,}, released {counts.get('released', 0):,}; "
        f"{remembered}",
    ]
    if rules:
        named = ", ".join(rule.rule for rule in rules[:RULES_NAMED])
        more = ", ..." if len(rules) > RULES_NAMED else ""
        lines.append(f"  URLs: {_saved(counts)} by {count(len(rules), 'rule')}: {named}{more}")
    lines += [f"dedup: {line}." for line in proved]
    if probed:
        lines.append(f"  CPU: {1e6 * counts.get('cpu_seconds', 0.0) / probed:.0f} us a page")
    lines += [f"  look at this: {warning}" for warning in warnings]
    by_text = found - counts.get("items/dropped", 0)  # the others are proven by items
    if probed >= 100 and by_text > 0.6 * probed:
        how = "" if config.mode == "tag" else " (DEDUP_MODE = 'tag')"
        lines.append(f"  over 60 % are near-duplicates: look at some{how} before trusting it")
    return "\n".join(lines)


def _saved(counts: Mapping[str, Any]) -> str:
    if "url_skipped" in counts:
        return f"{count(counts['url_skipped'], 'request')} not sent"
    saved = counts.get("url_would_skip", 0)
    return f"{count(saved, 'request')} could be saved (DEDUP_URLS = 'skip')"


def _fetched_again(counts: Mapping[str, Any]) -> str:
    again = f"{counts.get('refetch', 0):,} fetched again"
    if not counts.get("unchanged"):
        return again
    items = count(counts.get("unchanged_items", 0), "item")
    return f"{again}, {counts['unchanged']:,} of them unchanged ({items} not brought again)"


def _listed(counts: Mapping[str, Any], prefix: str) -> str:
    found = sorted(
        (name[len(prefix) :], value) for name, value in counts.items() if name.startswith(prefix)
    )
    return ", ".join(f"{name} ({value:,})" for name, value in found) or "none"


def _distances(counts: Mapping[str, Any]) -> str:
    begin = "near_duplicate/distance/"
    found = sorted(
        (int(name[len(begin) :]), n) for name, n in counts.items() if name.startswith(begin)
    )
    return ", ".join(f"{n:,} at {bits}" for bits, n in found) + " bits" if found else "none"


# ---------------------------------------------------------------------------- what the items have shown


SHAPES = 5  # of classes that are named
NOISE = 10  # pairs that differed in one field alone, in values of which no page has a word


def shown_by_items(proof: "Proof", stats: Mapping[str, Any], mode: "Mode") -> Iterator[str]:
    """Yield what the spider's items have shown: copies dropped, pages that differ, noise, classes that fell."""
    classes, differing = proof.classes(), proof.differing
    if dropped := sum(record.dropped - record.refetched for _, record in classes):
        shapes = Counter[str]()
        for name, record in classes:
            shapes[shape_text(name.shape)] += record.dropped - record.refetched
        equal, checked = (stats.get(f"dedup/items/{name}", 0) for name in ("equal", "checked"))
        yield (
            f"{count(dropped, 'copy', 'copies')} dropped: {_most(shapes)}. Proven by "
            f"{count(equal, 'page')} whose items were equal, checked on {checked:,}"
        )
    if differing:
        shapes = Counter[str]()
        for (name, fields), n in differing.items():
            within = f" (in {', '.join(fields)})" if fields else ""
            shapes[f"{name.callback}, {shape_text(name.shape)}{within}"] += n
        # What a counter makes differ is found by visits that this mode does not make.
        kept = "would be parsed" if mode == "tag" else "were parsed"
        at_first = ", at least until counters are told from data" if mode == "tag" else ""
        yield (
            f"{count(differing.total(), 'page')} with the text of another {kept}, "
            f"because their items differ{at_first}: {_most(shapes, '; ')}"
        )
    for field, values in sorted(proof.noise.items(), key=lambda each: -len(each[1]))[:3]:
        if len(values) >= NOISE:
            yield (
                f"{count(len(values), 'copy', 'copies')} in all but `{field}` were parsed: "
                f'DEDUP_ITEM_IGNORE = ["{field}"] would drop them'
            )
    for name, record in classes:
        if record.refetched:
            yield (
                f"{shape_text(name.shape)} was taken for a copy and proved otherwise after "
                f"{count(record.dropped, 'page')}; {record.refetched:,} were fetched again"
            )


def _most(shapes: "Counter[str]", between: str = ", ") -> str:
    named = [f"{shape} ({n:,})" for shape, n in shapes.most_common(SHAPES) if n]
    return between.join(named) + (f"{between}and others" if len(shapes) > SHAPES else "")


# ---------------------------------------------------------------------------------------- warnings


MANY = 50  # drops for one page
FEW = 20  # the same, if they are this share of the crawl:
SHARE = 0.2
VALUES = 0.9  # of the near-duplicates of one kind have other numbers, or other data, than their originals
KINDS = 500  # of near-duplicates that are counted
EXAMPLES = 3
ORIGINALS = 10_000  # originals that are counted; the oldest are forgotten
SAID = 20  # warnings at most in one crawl

ADVICE = (
    "if they are not copies: give them meta dont_dedup or a dedup_kind of their own{tag}; `dedup compare` shows "
    "what two pages have in common"
)
TAG = ", or look at the whole crawl with DEDUP_MODE = 'tag'"


class _Values(msgspec.Struct):
    """The near-duplicates of one kind: all, those with other numbers, and of the rest those with other data.

    These have word for word the text of their original.
    """

    found: int = 0
    numbers: int = 0
    data: int = 0


class _Swallowed(msgspec.Struct):
    count: int = 0
    examples: list[str] = []
    said: bool = False


def _other_values(callback: str, kinds: Sequence[tuple[str, _Values]]) -> str:
    """Say that near-duplicates of a callback have other values than their originals; kinds by shape."""
    found, numbers, data = (
        sum(getattr(values, name) for _, values in kinds) for name in ("found", "numbers", "data")
    )
    of = f"of {count(found, 'near-duplicate')} of {callback or 'the spider'} have"
    said = []
    if numbers:
        said.append(f"{numbers:,} {of} other numbers in their text than their originals")
    if data:
        said.append(
            f"{data:,} {of} word for word the text of their originals, and other inline data (JSON-LD)"
        )
    shapes = Counter[str]()
    for name, values in kinds:
        shapes[shape_text(name)] += values.found
    return (
        f"{'; '.join(said)} (their URLs: {_most(shapes)}). Prices or article numbers? Then yield them, see "
        "docs/how-to/variants.md; `dedup why --top 20` lists the pages (DEDUP_DROPPED)"
    )


class Swallowing:
    """The originals of a crawl's drops."""

    def __init__(self, mode: "Mode" = "drop") -> None:
        """Begin without drops."""
        self._advice = ADVICE.format(tag="" if mode == "tag" else TAG)
        self._said: list[str | tuple[str, _Swallowed]] = []
        self._originals: OrderedDict[str, _Swallowed] = OrderedDict()
        self._other: list[str] = []  # URLs of the first drops with titles of their own
        self.judged = 0  # pages
        # by callback, shape of the URLs' difference, and what differs, numbers or data: pages whose items differ
        self.items_differ = Counter[tuple[str, str, str]]()
        self._values: dict[tuple[str, str], _Values] = {}
        self.counters: Container[str] = ()  # callbacks whose pages have other numbers at each visit

    @property
    def lines(self) -> list[str]:
        """The warnings as they are now, for the summary and the report."""
        said = [each if isinstance(each, str) else self._many(*each) for each in self._said]
        kinds: dict[str, list[tuple[str, _Values]]] = {}  # by callback
        for of, values in self._values.items():
            unshown = self._unshown(of, values)
            with_other = unshown.numbers + unshown.data
            if values.found >= FEW and with_other >= max(1, VALUES * unshown.found):
                kinds.setdefault(of[0], []).append((of[1], unshown))
        return said + [_other_values(callback, found) for callback, found in kinds.items()]

    def _unshown(self, of: tuple[str, str], values: _Values) -> _Values:
        """Return near-duplicates of one kind without those whose values items show, or that each visit changes."""
        found, numbers, data = values.found, values.numbers, values.data
        if 2 * self.items_differ[(*of, "numbers")] >= numbers:
            found, numbers = found - numbers, 0
        if 2 * self.items_differ[(*of, "data")] >= data:
            found, data = found - data, 0
        return _Values(found, 0 if of[0] in self.counters else numbers, data)

    def compared(self, verdict: Verdict, callback: str) -> None:
        """Note whether a near-duplicate has other numbers or data than its original, proven by items or not."""
        if verdict.match is None:
            return
        page, original = verdict.page, verdict.match.document.page
        parts = differing_parts(page, original)
        if parts is None:
            return
        of = callback, shape(verdict.match.key, verdict.key)
        values = self._values.get(of)
        if values is None:
            if len(self._values) >= KINDS:
                return
            values = self._values[of] = _Values()
        values.found += 1
        if "numbers" in parts:
            values.numbers += 1
        elif "inline data" in parts and page.sketch[TEXT_HASH:] == original.sketch[TEXT_HASH:]:
            values.data += 1

    def dropped(self, verdict: Verdict, url: str) -> None:
        """Note a near-duplicate of which no items have shown that it is a copy."""
        if verdict.of is None:
            return
        if verdict.identity == "other":
            self._titles_differ(verdict.of, url)
        swallowed = self._originals.get(verdict.of)
        if swallowed is None:
            swallowed = self._originals[verdict.of] = _Swallowed()
            if len(self._originals) > ORIGINALS:
                self._originals.popitem(last=False)
        swallowed.count += 1
        if len(swallowed.examples) < EXAMPLES:
            swallowed.examples.append(url)
        share = swallowed.count / self.judged
        if not swallowed.said and (
            swallowed.count >= MANY or (swallowed.count >= FEW and share >= SHARE)
        ):
            swallowed.said = True
            self._say((verdict.of, swallowed))

    def _many(self, original: str, swallowed: _Swallowed) -> str:
        share = swallowed.count / self.judged
        return (
            f"{swallowed.count} pages ({share:.0%} of those judged) are near-duplicates of {original}: "
            f"{', '.join(swallowed.examples)}, ..."
        )

    def _titles_differ(self, original: str, url: str) -> None:
        """Note a drop with another title than its original; warn at the third one."""
        if len(self._other) < EXAMPLES:
            self._other.append(url)
            if len(self._other) == EXAMPLES:
                self._say(
                    "pages count as near-duplicates although their titles differ from that of the page "
                    f"they are like ({original}), since those before them brought nothing: "
                    f"{', '.join(self._other)}, ..."
                )

    def _say(self, line: str | tuple[str, _Swallowed]) -> None:
        if len(self._said) < SAID:
            self._said.append(line)
            logger.warning("dedup: %s; %s", self.lines[-1], self._advice)
