"""The report of a crawl (DEDUP_REPORT): what was dropped, what that saved, what to check.

    stats, journal -> funnel, reasons, savings, groups with their texts, hosts, what if, advice -> HTML

Invariants: every number is a stat or counted in the journal; estimates are called estimates.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from dedup.core.files import replace_file
from dedup.core.table import Table as FingerprintTable
from dedup.detector.rules import near_duplicates, not_other
from dedup.model.names import count
from dedup.model.page import Verdict, label_of
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe
from dedup.report.html import html_page
from dedup.report.parts import (
    Bar,
    Bars,
    Cell,
    Chart,
    Column,
    Entry,
    Figures,
    Folded,
    Kind,
    Lines,
    Link,
    Part,
    Report,
    Section,
    Table,
    Text,
    Texts,
    Warned,
    percent,
)
from dedup.report.texts import alike
from dedup.scrapy.evidence import Class, Record
from dedup.scrapy.journal import Example, Group, Journal
from dedup.scrapy.settings import Config

GROUPS_OPEN = 3  # with the differences of their first example shown
GROUPS_SHOWN = 10
GROUPS_FOLDED = 20  # more, seen when asked for
PLACES_SHOWN = 50
HOSTS_SHOWN = 50
RULES_SHOWN = 50
CLASSES_SHOWN = 30
SUSPICIOUS_SHARE = 0.6  # near-duplicates among the judged pages of a host
SUSPICIOUS_PAGES = 20  # judged, at least
CONTEXT = 12  # words around a difference

MORE = 4  # bits beyond the distance in force that are looked at
GREATEST = 15  # bits: the greatest DEDUP_DISTANCE
NEAREST = 64  # pages that one is compared with, at most

_BECAME = {
    "drop": "dropped before they were parsed",
    "skip_links": "parsed, but not followed",
    "tag": "flagged only",
}
_UNJUDGED = {  # no look was taken at the text
    "dont_dedup", "inline", "method", "no_callback", "non_html", "status", "too_large",
}  # fmt: skip
_MEANS_NOTHING = {
    "drop": "the parameter {}: it may be absent",
    "value": "the value of the parameter {}",
    "part": "{} in the path",
    "host": "which of these hosts it is",
    "scheme": "http or https",
    "case": "capitals in the path",
    "slash": "the slash at the end",
}
_OTHERWISE = {"namespace": "the spider's name"}  # of settings that are None


def write_report(
    path: Path,
    name: str,
    stats: Mapping[str, Any],
    config: Config,
    journal: Journal,
    warnings: Sequence[str] = (),
) -> None:
    """Write the report atomically, as JSON if the file's name ends so. Raises OSError with the path."""
    if path.suffix.lower() == ".json":
        data = _json(name, stats, config, journal, warnings)
    else:
        page = html_page(crawl_report(name, stats, config, journal, warnings))
        data = page.encode("utf-8", "replace")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data)


def crawl_report(
    name: str,
    stats: Mapping[str, Any],
    config: Config,
    journal: Journal,
    warnings: Sequence[str] = (),
) -> Report:
    """Return the report of a spider's crawl, from its stats, journal and warnings."""
    counts = _counts(stats)
    parts = [
        *_headline(counts, config),
        *(Warned(text) for text in (*warnings, *_warnings(counts, journal))),
        _funnel(stats, counts),
        *_reasons(counts),
        _savings(counts, config, journal),
        *_proved(counts, journal),
        *_places(config, journal),
        _groups(journal),
        _hosts(journal),
        *_urls(counts, journal),
        *what_if(
            counts,
            journal.kept,
            config.options.policy(journal.recipe),
            guard="other_title" in config.exempt,
            whole=journal.kept_all,
        ),
        Section("What to tune", [Lines(_advice(counts, config, journal, warnings))]),
        _settings_section(config, journal.recipe),
    ]
    begun = stats.get("start_time")
    when = f", {begun:%Y-%m-%d %H:%M:%S} to {_now():%Y-%m-%d %H:%M:%S} UTC" if begun else ""
    made_by = f"crawl-dedup, recipe {journal.recipe.id}; spider {name}{when}"
    return Report(f"Deduplication: crawl of “{name}”", parts, made_by)


def _json(
    name: str,
    stats: Mapping[str, Any],
    config: Config,
    journal: Journal,
    warnings: Sequence[str],
) -> bytes:
    """Return the report for a program."""
    report = {
        "spider": name,
        "start_time": stats.get("start_time"),
        "end_time": _now(),
        "recipe": journal.recipe.id,
        "mode": config.mode,
        "stats": {stat: n for stat, n in stats.items() if stat.startswith("dedup/")},
        "warnings": [*warnings, *_warnings(_counts(stats), journal)],
        "advice": list(_advice(_counts(stats), config, journal, warnings)),
        "near_duplicates": [
            {
                "of": key,
                "pages": group.count,
                "least_similarity": group.least,
                "examples": [example.plain() for example in group.examples],
            }
            for key, group in _by_risk(journal)
        ],
        "places": [
            {"callback": callback, "path": path, "near_duplicates": n}
            for (callback, path), n in journal.places.most_common()
        ],
        "hosts": [
            {"host": host, "judged": seen.judged, "near_duplicates": seen.near_duplicates}
            for host, seen in journal.hosts.items()
        ],
        "url_rules": [rule._asdict() for rule in journal.url_rules],
        "classes": [_class(*each) for each in journal.proved],
        "settings": dict(_settings(config, journal.recipe)),
    }
    return msgspec.json.format(msgspec.json.encode(report, enc_hook=str), indent=2) + b"\n"


def _class(name: Class, record: Record) -> dict[str, Any]:
    page, original, fields = record.examples[-1] if record.examples else ("", "", ())
    counts = ("dropped", "checked", "refetched", "equal", "others")
    found = {"name": str(name)} | {each: getattr(record, each) for each in counts}
    return found | {"fields": fields, "page": page, "original": original}


def _now() -> datetime:
    return datetime.now(UTC)


def _counts(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return our stats without their prefix."""
    return {stat[6:]: n for stat, n in stats.items() if stat.startswith("dedup/")}


def _headline(counts: Mapping[str, Any], config: Config) -> Iterator[Part]:
    probed, found = counts.get("probed", 0), counts.get("near_duplicate", 0)
    were, each = ("was a", "") if found == 1 else ("were", "s")
    they = "it was" if found == 1 else "they were"
    yield Text(
        f"{found:,} of {count(probed, 'judged page')} {were} near-duplicate{each} of pages "
        f"seen before; {they} {_BECAME[config.mode]}."
    )
    yield Figures(
        [
            ("judged", probed),
            ("near-duplicates", found),
            ("share", percent(found, probed)),
            ("unique", counts.get("unique", 0)),
            ("fetched again", counts.get("refetch", 0)),
            ("judged and exempt", sum(_exempt(counts, judged=True).values())),
            ("remembered", counts.get("inserted", 0)),
        ]
    )


def _warnings(counts: Mapping[str, Any], journal: Journal) -> Iterator[str]:
    errors = {kind[6:]: n for kind, n in counts.items() if kind.startswith("error/")}
    if errors:
        listed = ", ".join(f"{n:,} {kind}" for kind, n in sorted(errors.items()))
        yield f"Deduplication failed at times, and those pages were kept: {listed}. The log says why."
    suspicious = _suspicious(journal)
    if suspicious:
        more = f" and {len(suspicious) - 3:,} more" if len(suspicious) > 3 else ""
        yield (
            f"Over {SUSPICIOUS_SHARE:.0%} of the pages of {', '.join(suspicious[:3])}{more} were "
            "near-duplicates. Look at the examples: an error page under many addresses, a consent "
            "wall and a template with little text look like this."
        )


def _exempt(counts: Mapping[str, Any], *, judged: bool | None = None) -> dict[str, int]:
    """Return the exempt pages by reason: those that were judged, or those that were not."""
    found = {name[7:]: n for name, n in counts.items() if name.startswith("exempt/") and n}
    return {r: n for r, n in found.items() if judged is None or judged == (r not in _UNJUDGED)}


def _funnel(stats: Mapping[str, Any], counts: Mapping[str, Any]) -> Section:
    """Return how many requests became items; the parts of a row add up to it."""
    responses, judged = stats.get("downloader/response_count", 0), counts.get("probed", 0)
    unjudged = sum(_exempt(counts, judged=False).values())
    kept = sum(_exempt(counts, judged=True).values())
    unique, near, again = (counts.get(w, 0) for w in ("unique", "near_duplicate", "refetch"))
    steps = [
        Bar("requests", stats.get("downloader/request_count", 0)),
        Bar("responses", responses),
        *([Bar("judged", judged, "", True)] if responses != judged else []),
        Bar("exempt before they were judged", unjudged, "exempt", True),
        Bar("redirects, retries, errors", responses - judged - unjudged, "", True),
        Bar("judged", judged),
        Bar("unique", unique, "unique", True),
        Bar("near-duplicates", near, "near", True),
        Bar("fetched again", again, "refetch", True),
        Bar("judged and exempt", kept, "exempt", True),
        Bar("kept after an internal error", judged - unique - near - again - kept, "", True),
        Bar("remembered: parsed without an error", counts.get("inserted", 0)),
        Bar("released: a callback or an item failed", counts.get("released", 0)),
        Bar("items", stats.get("item_scraped_count", 0)),
    ]
    always = {"requests", "responses", "judged", "unique", "near-duplicates", "items"}
    return Section(
        "From request to item", [Bars([s for s in steps if s.number > 0 or s.name in always])]
    )


def _savings(counts: Mapping[str, Any], config: Config, journal: Journal) -> Section:
    dropped = config.mode == "drop"
    near = counts.get("near_duplicate", 0)
    # In the mode "tag" near-duplicates with items of their own are counted too; the mode "drop" keeps them.
    found = near - (counts.get("items/other", 0) if config.mode == "tag" else 0)
    each = journal.parsing_seconds / journal.parsed if journal.parsed else 0.0
    spent = float(counts.get("cpu_seconds", 0.0))
    figures: list[tuple[str, Cell]] = [
        ("pages not parsed", found),
        ("MB not parsed", journal.dropped_bytes / 1e6 * found / max(1, near)),
        *([("requests not sent", counts["url_skipped"])] if counts.get("url_skipped") else []),
        ("seconds of callbacks saved", found * each),
        ("seconds spent on it", spent),
        ("milliseconds for each page", 1000 * spent / max(1, counts.get("probed", 0))),
    ]
    parts: list[Part] = [Figures(figures)]
    if dropped and found and spent > found * each:
        parts.append(
            Text(
                "Deduplication took more CPU time than the callbacks that it saved: on this site it "
                "pays in requests, bytes and items, not in CPU time."
            )
        )
    if found < near:
        parts.append(
            Text(
                f"{count(near - found, 'near-duplicate')} with other items than their originals are left out: they "
                "would be parsed, unless a second visit shows that the difference is a counter or a date."
            )
        )
    return Section(
        "What it saved" if dropped else "What DEDUP_MODE = 'drop' would have saved",
        parts,
        "Requests that links on the dropped pages would have caused come on top. Saved CPU time is an "
        "estimate: the mean of the callbacks that ran, for each page that was not parsed.",
    )


def _by_risk(journal: Journal) -> list[tuple[str, Group]]:
    """Return the groups, first those with the near-duplicates that are least alike."""
    return sorted(journal.groups.items(), key=lambda item: (item[1].least, -item[1].count, item[0]))


def _groups(journal: Journal) -> Section:
    groups = _by_risk(journal)
    if not groups:
        return Section("Groups of near-duplicates", [Text("There are none.")])
    listed: list[Part] = [
        _group(key, group, is_open=number < GROUPS_OPEN)
        for number, (key, group) in enumerate(groups[: GROUPS_SHOWN + GROUPS_FOLDED])
    ]
    shown = listed[:GROUPS_SHOWN]
    if folds := listed[GROUPS_SHOWN:]:
        shown.append(Folded(count(len(folds), "more page"), folds))
    text = "Pages with near-duplicates and examples of these, the least similar first."
    if left_out := groups[GROUPS_SHOWN + GROUPS_FOLDED :]:
        copies = sum(group.count for _, group in left_out)
        text += (
            f" {count(len(left_out), 'more page')} with {count(copies, 'near-duplicate')} "
            f"{'is' if len(left_out) == 1 else 'are'} not shown."
        )
    return Section("Groups of near-duplicates", shown, text)


def _places(config: Config, journal: Journal) -> Iterator[Section]:
    """Yield the near-duplicates by callback and kind of path, all of them."""
    rows = [(callback, path, n) for (callback, path), n in journal.places.most_common(PLACES_SHOWN)]
    if not rows:
        return
    left_out = len(journal.places) - len(rows)
    text = f"{count(left_out, 'more kind')} of path not shown. " if left_out > 0 else ""
    if config.dropped is not None:
        text += f"Each of them is a line of {config.dropped} (DEDUP_DROPPED)."
    else:
        text += "DEDUP_DROPPED = 'dropped.jsonl' lists each of them."
    table = Table(("callback", "path, # for numbers", "near-duplicates"), rows)
    yield Section("Near-duplicates by callback and path", [table], text)


def _proved(counts: Mapping[str, Any], journal: Journal) -> Iterator[Section]:
    """Yield what the items have shown, by class: copies that were dropped, and pages with other items."""
    copies = [
        (str(name), r.dropped - r.refetched, r.equal, r.checked, r.refetched)
        for name, r in journal.proved
        if r.dropped
    ]
    others: list[tuple[Cell, ...]] = []
    for name, record in sorted(journal.proved, key=lambda each: -each[1].others):
        if record.others:
            page, original, fields = record.examples[-1] if record.examples else ("", "", ())
            cells = str(name), record.others, ", ".join(fields), Link(page), Link(original)
            others.append(cells)
    tables: list[Part] = []
    if copies:
        headers = (
            "dropped as copies",
            "pages",
            "pairs with equal items",
            "checked",
            "fetched again",
        )
        tables.append(Table(headers, copies[:CLASSES_SHOWN]))
    if others:
        headers = ("brought other items", "pairs", "differing in", "for example", "and")
        tables.append(Table(headers, others[:CLASSES_SHOWN]))
    if not tables:
        return
    left_out = sum(max(0, len(rows) - CLASSES_SHOWN) for rows in (copies, others))
    equal, other = (counts.get(f"items/{brought}", 0) for brought in ("equal", "other"))
    text = (
        f"{count(equal + other, 'parsed page')} with the text of another: "
        f"{equal:,} brought its items, {other:,} others."
    )
    if left_out:
        text += f" {count(left_out, 'more class', 'more classes')} not shown."
    yield Section("What the spider's items have shown", tables, text)


def _group(key: str, group: Group, *, is_open: bool) -> Entry:
    among = ", among them" if group.count > len(group.examples) else ""
    examples = [
        _example(example, is_open=is_open and not number)
        for number, example in enumerate(group.examples)
    ]
    return Entry(key, f"{count(group.count, 'near-duplicate')}{among}", examples, is_heading=True)


def _example(example: Example, *, is_open: bool) -> Entry:
    note = f"{alike(example.similarity)}, {count(example.distance, 'bit')} apart"
    if example.texts is None or not example.texts[2]:
        return Entry(example.url, note)
    names = ("the page that was kept", "this page")
    title = f"where the texts differ: {count(len(example.texts[2]), 'place')}"
    texts = Folded(title, [Texts(*example.texts, names, CONTEXT)], small=True, is_open=is_open)
    return Entry(example.url, note, [texts])


def _suspicious(journal: Journal) -> list[str]:
    return [
        name
        for name, host in sorted(journal.hosts.items(), key=lambda item: -item[1].near_duplicates)
        if host.judged >= SUSPICIOUS_PAGES and host.near_duplicates > SUSPICIOUS_SHARE * host.judged
    ]


def _hosts(journal: Journal) -> Section:
    suspicious = set(_suspicious(journal))
    hosts = sorted(journal.hosts.items(), key=lambda item: (-item[1].near_duplicates, item[0]))
    rows = [
        (
            name or "-",
            host.judged,
            host.near_duplicates,
            percent(host.near_duplicates, host.judged),
            *(("look at it" if name in suspicious else "",) if suspicious else ()),
        )
        for name, host in hosts[:HOSTS_SHOWN]
    ]
    left_out = len(hosts) - HOSTS_SHOWN
    more = f"{count(left_out, 'more host')} not shown." if left_out > 0 else ""
    headers = ("host", "judged", "near-duplicates", "share", *([""] if suspicious else ()))
    return Section("Hosts", [Table(headers, rows)], more)


def _urls(counts: Mapping[str, Any], journal: Journal) -> Iterator[Section]:
    if not journal.url_rules:
        return
    rows = [
        (rule.rule, _in_words(rule.rule), rule.pairs, Link(rule.copy), Link(rule.original))
        for rule in journal.url_rules[:RULES_SHOWN]
    ]
    skipped, could = counts.get("url_skipped", 0), counts.get("url_would_skip", 0)
    text = (
        f"{count(skipped, 'request')} for known pages not sent."
        if skipped
        else f"{count(could, 'request')} for known pages would not be sent with DEDUP_URLS = 'skip'."
    )
    headers = ("rule", "what means nothing", "pairs", "for example", "is the same page as")
    yield Section("Learned URL rules of this site", [Table(headers, rows)], text)


def _in_words(rule: str) -> str:
    atom = rule.partition(" ")[0]
    kind, _, name = atom.partition(":")
    return _MEANS_NOTHING[kind].format(name)


def _reasons(counts: Mapping[str, Any]) -> Iterator[Section]:
    rows = sorted(_exempt(counts).items(), key=lambda item: (-item[1], item[0]))
    if rows:
        bars = [Bar(f"{label_of(reason)} ({reason})", n, "exempt") for reason, n in rows]
        yield Section("Exempt, by reason", [Bars(bars)])


def _settings_section(config: Config, recipe: Recipe) -> Section:
    table = Table(("setting", "value"), list(_settings(config, recipe)))
    return Section("Settings in force", [Folded("All settings", [table])])


def _settings(config: Config, recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield the settings in force as texts; of a secret only that it is set."""
    fields = msgspec.structs.asdict(config)
    options, policy = msgspec.structs.asdict(fields.pop("options")), config.options.policy(recipe)
    for field in ("namespace", "recipe", "clock"):  # no settings
        del options[field]
    for field, value in ({"mode": config.mode} | options | fields).items():
        shown = "set" if field == "secret" and value else value
        if field == "kafka" and config.kafka is not None:
            shown = ", ".join(config.kafka.bootstrap)
            yield "DEDUP_TOPIC", config.kafka.topic
        elif isinstance(shown, frozenset):
            shown = ", ".join(sorted(shown)) or "none"
        elif isinstance(shown, tuple):  # in the order of preference
            shown = ", ".join(map(_without_token, shown)) or "none"
        elif shown is None and hasattr(recipe, field):
            usual, shown = getattr(recipe, field), getattr(policy, field)
            shown = (
                f"{shown} (the recipe's)" if shown == usual else f"{shown} (of DEDUP_SIMILARITY)"
            )
        elif shown is None:
            shown = _OTHERWISE.get(field, "none")
        yield f"DEDUP_{field.upper()}", str(shown)


def _without_token(url: str) -> str:
    """Return a service's URL without user and token."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _advice(
    counts: Mapping[str, Any], config: Config, journal: Journal, warnings: Sequence[str]
) -> list[str]:
    lines = []
    if _suspicious(journal) and config.mode != "tag":
        lines.append("Look at the hosts above with DEDUP_MODE = 'tag' before dropping their pages.")
    if counts.get("exempt/in_flight", 0) > 0.01 * counts.get("probed", 0):
        lines.append(
            "Pages were kept because a near-duplicate was in flight for too long: a longer "
            "DEDUP_WAIT_SECONDS lets them wait for it."
        )
    if counts.get("exempt/short", 0) > 0.5 * counts.get("probed", 0) > 0:
        lines.append("Most pages have too few words to be judged: are they made by JavaScript?")
    if counts.get("late_duplicate", 0) > 0.01 * counts.get("inserted", 0):
        lines.append(
            "Near-duplicates were accepted at the same time (late_duplicate): a longer "
            "DEDUP_RESERVATION_SECONDS covers slow callbacks."
        )
    if not lines and (warnings or any(True for _ in _warnings(counts, journal))):
        return ["See the warnings above."]
    return lines or ["Nothing stands out."]


# ------------------------------------------------------------------------------------------ what if


def _distances(counts: Mapping[str, Any]) -> dict[int, int]:
    """Return how many near-duplicates were at each distance, in bits; from 0 to the greatest."""
    found = {
        int(name.rpartition("/")[2]): n
        for name, n in counts.items()
        if name.startswith("near_duplicate/distance/")
    }
    return {bits: found.get(bits, 0) for bits in range(max(found, default=-1) + 1)}


def _beyond(kept: Sequence[Verdict], policy: Policy, *, guard: bool) -> Counter[int]:
    """Return how many unique pages have an earlier one alike beyond the policy's distance, by bits.

    kept are the pages that became originals, in their order; guard: other pages of their site by
    title or canonical URL do not count.
    """
    wider = msgspec.structs.replace(policy, distance=min(policy.distance + MORE, GREATEST))
    earlier, found = FingerprintTable(wider.distance, "compact"), Counter[int]()
    for number, verdict in enumerate(kept):
        page = verdict.page
        if verdict.status == "unique":
            near = [
                (kept[match.document].document, match.distance)
                for match in earlier.probe(page.value, NEAREST)
            ]
            alike = near_duplicates(verdict.document, near, wider)
            bits = [n.distance for n in (not_other(alike) if guard else alike)]
            if bits and min(bits) > policy.distance:
                found[min(bits)] += 1
        earlier.insert(page.value, number)
    return found


def what_if(
    counts: Mapping[str, Any], kept: Sequence[Verdict], policy: Policy, *, guard: bool, whole: bool
) -> Iterator[Section]:
    """Yield the section on other distances; whole is False where `kept` lacks some pages.

    An estimate: at a smaller distance fewer pages are dropped, and those are then originals for later
    pages; at a greater one it is the other way round.
    """
    found, probed = _distances(counts), counts.get("probed", 0)
    more = _beyond(kept, policy, guard=guard)
    if not found and not more:
        return
    now, total, rows, drawn = sum(found.values()), 0, [], []
    for bits in range(min(max([*found, policy.distance]) + MORE, GREATEST) + 1):
        here = found.get(bits, 0) + more[bits]
        total += here
        inside, name = min(total, now), count(bits, "bit")
        words = f"{name}: {count(total, 'near-duplicate')}"
        drawn.append(Column(str(bits), ((inside, "near"), (total - inside, "exempt")), words))
        named = f"{name}, in force" if bits == policy.distance else name
        change = f"{total - now:+,}" if total != now else "0"
        rows.append((named, here, total, percent(total, probed), change))
    first = "" if whole else f" Of the pages kept, the first {len(kept):,} are compared."
    legend: list[tuple[Kind, str]] = [
        ("near", "found in this crawl"),
        ("exempt", "kept now, and would be found too"),
    ]
    yield Section(
        "What if: other distances",
        [
            Chart(
                drawn,
                "Near-duplicates by DEDUP_DISTANCE",
                "DEDUP_DISTANCE, bits",
                "pages",
                legend if more else (),
            ),
            Table(("distance", "pages at it", "up to it", "share", "change"), rows),
        ],
        "Near-duplicates that this crawl would have found with another distance, all else the "
        "same: those up to it. An estimate: what is kept decides what later pages are compared with."
        + first,
    )
