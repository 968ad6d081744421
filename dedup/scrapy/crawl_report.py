"""The HTML report of a crawl (DEDUP_REPORT): what was dropped, saved, and to check.

    stats, journal -> funnel, reasons, savings, groups with their texts, hosts, what if, advice

The rule kept here: every number is a stat or counted in the journal; the one estimated number is
marked as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from dedup.core.files import replace_file
from dedup.model.recipes import Recipe
from dedup.model.report.html import (
    Bar,
    bars,
    facts,
    folded,
    link,
    page,
    percent,
    section,
    table,
    two_texts,
    warning,
)  # fmt: skip
from dedup.model.report.texts import alike, count
from dedup.scrapy.journal import Example, Group, Journal
from dedup.scrapy.settings import Config
from dedup.scrapy.what_if import what_if

__all__ = ["crawl_report", "write_report"]

GROUPS_SHOWN = 10
GROUPS_FOLDED = 20  # more, seen when asked for
HOSTS_SHOWN = 50
RULES_SHOWN = 50
SUSPICIOUS_SHARE = 0.6  # near-duplicates among the judged pages of a host
SUSPICIOUS_PAGES = 20  # judged, at least
CONTEXT = 12  # words around a difference

_BECAME = {
    "drop": "dropped before they were parsed",
    "skip_links": "parsed, but not followed",
    "tag": "marked only",
}
_REASONS = {
    "start": "start requests, always kept",
    "non_html": "no HTML or text",
    "status": "another status than 200",
    "method": "another method than GET",
    "short": "too few distinct words to be judged",
    "too_large": "larger than DEDUP_MAX_BYTES",
    "data_page": "made of inline data",
    "new_links": "alike text, but a link that no page had before",
    "other_title": "alike text, but another page by its title or canonical URL",
    "unread": "too little of the page was read",
    "no_callback": "robots.txt, media, the shell",
    "inline": "downloaded by a callback, not by the scheduler",
    "barren": "alike text, but pages like it brought no item yet",
    "expired": "its reservation had expired",
    "in_flight": "a near-duplicate was in flight for too long",
    "dont_dedup": "left out by request.meta",
    "fault": "no table service answered",
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
_OTHERWISE = {  # settings that are None
    "namespace": "the spider's name",
    "kafka": "none",
    "report": "none",
    "secret": "none",
}


def write_report(
    path: Path,
    name: str,
    stats: Mapping[str, Any],
    config: Config,
    journal: Journal,
    warnings: Sequence[str] = (),
) -> None:
    """Write the report, whole or not at all. Raises OSError with the path."""
    text = crawl_report(name, stats, config, journal, warnings)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, memoryview(text.encode("utf-8", "replace")))


def crawl_report(
    name: str,
    stats: Mapping[str, Any],
    config: Config,
    journal: Journal,
    warnings: Sequence[str] = (),
) -> str:
    """Return the report of a spider's crawl, from its stats, journal and warnings."""
    counts = {stat[6:]: n for stat, n in stats.items() if stat.startswith("dedup/")}
    parts = [
        _headline(counts, config),
        *(warning(text) for text in (*warnings, *_warnings(counts, journal))),
        _funnel(stats, counts),
        _reasons(counts),
        _savings(counts, config, journal),
        _groups(journal),
        _hosts(journal),
        _urls(counts, journal),
        what_if(
            counts,
            journal.kept,
            config.options.policy(journal.recipe),
            guard="other_title" in config.exempt,
            whole=journal.kept_all,
        ),
        _advice(counts, config, journal),
        _settings(config, journal.recipe),
    ]
    begun = stats.get("start_time")
    when = (
        f", {begun:%Y-%m-%d %H:%M:%S} to {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC" if begun else ""
    )
    made = f"crawl-dedup, recipe {journal.recipe.id}; spider {name}{when}"
    return page(f"Deduplication: crawl of “{name}”", parts, made)


def _headline(counts: Mapping[str, Any], config: Config) -> str:
    probed, found = counts.get("probed", 0), counts.get("near_duplicate", 0)
    were, each = ("was a", "") if found == 1 else ("were", "s")
    they = "it was" if found == 1 else "they were"
    explored = counts.get("explored", 0)
    but = f", but for {explored:,} parsed all the same (DEDUP_EXPLORE)" if explored else ""
    return "\n".join(
        (
            f"<p>{found:,} of {count(probed, 'judged page')} {were} near-duplicate{each} of pages "
            f"seen before; {they} {_BECAME[config.mode]}{but}.</p>",
            facts(
                [
                    ("judged", probed),
                    ("near-duplicates", found),
                    ("share", f"{percent(found, probed)}"),
                    ("unique", counts.get("unique", 0)),
                    ("fetched again", counts.get("refetch", 0)),
                    ("kept all the same", sum(_exempt(counts, judged=True).values())),
                    ("remembered", counts.get("inserted", 0)),
                ]
            ),
        )
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
    """Return the pages that were kept, by reason: those that were judged, or those that were not."""
    found = {name[7:]: n for name, n in counts.items() if name.startswith("exempt/") and n}
    return {r: n for r, n in found.items() if judged is None or judged == (r not in _UNJUDGED)}


def _funnel(stats: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    """Return the way of the pages: the parts of a row, indented below it, add up to it."""
    responses, judged = stats.get("downloader/response_count", 0), counts.get("probed", 0)
    unjudged = sum(_exempt(counts, judged=False).values())
    kept = sum(_exempt(counts, judged=True).values())
    unique, near, again = (counts.get(w, 0) for w in ("unique", "near_duplicate", "refetch"))
    steps: list[Bar] = [
        ("requests", stats.get("downloader/request_count", 0)),
        ("responses", responses),
        *([(" judged", judged)] if responses != judged else []),
        (" kept without being judged", unjudged, "exempt"),
        (" redirects, retries, errors", responses - judged - unjudged),
        ("judged", judged),
        (" unique", unique, "unique"),
        (" near-duplicates", near, "near"),
        (" fetched again", again, "refetch"),
        (" kept all the same", kept, "exempt"),
        (" a fault of ours, kept", judged - unique - near - again - kept),
        ("remembered: parsed to the end", counts.get("inserted", 0)),
        ("given back: a callback or an item failed", counts.get("released", 0)),
        ("items", stats.get("item_scraped_count", 0)),
    ]
    always = ("requests", "responses", "judged", " unique", " near-duplicates", "items")
    shown = [step for step in steps if step[1] > 0 or step[0] in always]
    return section("From request to item", bars(shown))


def _savings(counts: Mapping[str, Any], config: Config, journal: Journal) -> str:
    found = counts.get("near_duplicate", 0) - counts.get("explored", 0)
    each = journal.parsing_seconds / journal.parsed if journal.parsed else 0.0
    rows: list[tuple[str, str | int | float]] = [
        ("pages not parsed", found if config.mode == "drop" else 0),
        ("MB not parsed", journal.dropped_bytes / 1e6 if config.mode == "drop" else 0.0),
        ("seconds of callbacks saved", found * each if config.mode == "drop" else 0.0),
        ("seconds spent on it", spent := float(counts.get("cpu_seconds", 0.0))),
        ("milliseconds for each page", 1000 * spent / max(1, counts.get("probed", 0))),
    ]
    return section(
        "What it saved",
        facts(rows),
        text="Saved CPU time is estimated: the mean of the callbacks that "
        "ran, for each page that was not parsed; what lies behind their links comes on top.",
    )


def _groups(journal: Journal) -> str:
    groups = sorted(journal.groups.items(), key=lambda item: (-item[1].count, item[0]))
    shown = [_group(key, group) for key, group in groups[: GROUPS_SHOWN + GROUPS_FOLDED]]
    if folds := shown[GROUPS_SHOWN:]:
        shown[GROUPS_SHOWN:] = [folded(count(len(folds), "more page"), *folds)]
    if not groups:
        return section("Groups of near-duplicates", "<p>There are none.</p>")
    text = "The pages with the most near-duplicates, with examples of them."
    if left_out := groups[GROUPS_SHOWN + GROUPS_FOLDED :]:
        copies = sum(group.count for _, group in left_out)
        text += (
            f" {count(len(left_out), 'more page')} with {count(copies, 'near-duplicate')} "
            f"{'is' if len(left_out) == 1 else 'are'} not shown."
        )
    return section("Groups of near-duplicates", *shown, text=text)


def _group(key: str, group: Group) -> str:
    among = ", among them" if group.count > len(group.examples) else ""
    title = f"<h3>{link(key)}</h3><p>{count(group.count, 'near-duplicate')}{among}</p>"
    return title + "\n".join(_example(example) for example in group.examples)


def _example(example: Example) -> str:
    bits = count(example.distance, "bit")
    name = f'<p class="pair">{link(example.url)} ({alike(example.similarity)}, {bits} apart)</p>'
    if example.texts is None or not example.texts[2]:
        return name
    shown = two_texts(*example.texts, CONTEXT, names=("the page that was kept", "this page"))
    differ = f"where the texts differ: {count(len(example.texts[2]), 'place')}"
    return f'{name}<details class="pair"><summary>{differ}</summary>{shown}</details>'


def _suspicious(journal: Journal) -> list[str]:
    return [
        name
        for name, host in sorted(journal.hosts.items(), key=lambda item: -item[1].near_duplicates)
        if host.judged >= SUSPICIOUS_PAGES and host.near_duplicates > SUSPICIOUS_SHARE * host.judged
    ]


def _hosts(journal: Journal) -> str:
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
    return section("Hosts", table(headers, rows), text=more)


def _urls(counts: Mapping[str, Any], journal: Journal) -> str:
    if not journal.url_rules:
        return ""
    rows = [
        (rule.rule, _in_words(rule.rule), rule.pairs, rule.copy, rule.original)
        for rule in journal.url_rules[:RULES_SHOWN]
    ]
    skipped, could = counts.get("url_skipped", 0), counts.get("url_would_skip", 0)
    text = (
        f"{count(skipped, 'request')} for known pages not sent."
        if skipped
        else f"{count(could, 'request')} for known pages would not be sent with DEDUP_URLS = 'skip'."
    )
    headers = ("rule", "what means nothing", "pairs", "for example", "is the same page as")
    return section("What this site does with its URLs", table(headers, rows), text=text)


def _in_words(rule: str) -> str:
    atom = rule.partition(" ")[0]
    kind, _, name = atom.partition(":")
    return _MEANS_NOTHING[kind].format(name)


def _reasons(counts: Mapping[str, Any]) -> str:
    rows = sorted(_exempt(counts).items(), key=lambda item: (-item[1], item[0]))
    named = [(f"{_REASONS.get(reason, 'kept')} ({reason})", n, "exempt") for reason, n in rows]
    return section("Kept without being judged, or all the same", bars(named)) if named else ""


def _settings(config: Config, recipe: Recipe) -> str:
    rows = []
    fields = msgspec.structs.asdict(config)
    options, policy = msgspec.structs.asdict(fields.pop("options")), config.options.policy(recipe)
    for field in ("namespace", "recipe", "clock"):  # no settings
        del options[field]
    for field, value in ({"mode": config.mode} | options | fields).items():
        told = "set" if field == "secret" and value else value
        if field == "kafka" and config.kafka is not None:
            told = ", ".join(config.kafka.bootstrap)
            rows.append(("DEDUP_TOPIC", config.kafka.topic))
        elif isinstance(told, frozenset):
            told = ", ".join(sorted(told)) or "none"
        elif isinstance(told, tuple):  # in the order of preference
            told = ", ".join(map(_without_token, told)) or "none"
        elif told is None and field in _OTHERWISE:
            told = _OTHERWISE[field]
        elif told is None:
            usual, told = getattr(recipe, field), getattr(policy, field)
            told = f"{told} (the recipe's)" if told == usual else f"{told} (of DEDUP_SIMILARITY)"
        rows.append((f"DEDUP_{field.upper()}", str(told)))
    return section("Settings in force", folded("All settings", table(("setting", "value"), rows)))


def _without_token(url: str) -> str:
    """Return a service's URL without user and token."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _advice(counts: Mapping[str, Any], config: Config, journal: Journal) -> str:
    lines = []
    if _suspicious(journal):
        lines.append("Look at the hosts above with DEDUP_MODE = 'tag' before dropping their pages.")
    if config.mode == "drop" and not config.explore and counts.get("near_duplicate", 0) >= 100:
        lines.append(
            "DEDUP_EXPLORE = 0.05 parses one near-duplicate in twenty: so you keep seeing "
            "what you would miss."
        )
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
    if not lines:
        lines.append("Nothing stands out.")
    return section("What to tune", "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>")
