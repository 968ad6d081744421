"""The report of a crawl: what was dropped or withheld, what was checked, what to look at.

    Crawl (plain values) -> crawl_report() -> parts -> HTML
                         -> json_report()  -> JSON, for programs and `dedup why`

Invariants: every number is a stat or was counted while the crawl ran; an estimate is called one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from os.path import normpath
from typing import Any

import msgspec

from dedup.model.names import count, running
from dedup.model.page import label_of
from dedup.model.policy import Mode
from dedup.report.parts import (
    Bar,
    Bars,
    Cell,
    FigureRow,
    Folded,
    Lines,
    Link,
    ListEntry,
    Part,
    ReportPage,
    Section,
    TablePart,
    Text,
    Texts,
    Warned,
    percent,
)
from dedup.report.texts import Hunk, alike

GROUPS_OPEN = 3  # with the differences of their first example shown
GROUPS_SHOWN = 10
GROUPS_FOLDED = 20  # more, seen when asked for
ROWS = 50  # of a table
CONTEXT = 12  # words around a difference
DIFFERENCES = 10  # of an example, in the JSON form
SUSPICIOUS_SHARE = 0.6  # copies among the judged pages of a host
SUSPICIOUS_PAGES = 20  # judged, at least
MUCH = 1 / 3  # of the pages, that one reason keeps

_BECAME = {
    "drop": "dropped unparsed",
    "skip_links": "parsed, and not followed",
    "tag": "flagged: the mode “drop” would drop them unparsed",
}
_ADVICE = {  # by the reason that keeps many pages
    "short": "have too few words to be judged: are they made by JavaScript?",
    "unread": "were read only in part, or have only the template of their site: dedup can do little here",
    "in_flight": "were kept since a near-duplicate was in flight for too long: a longer DEDUP_WAIT_SECONDS lets them "
    "wait for it",
    "start": "are start requests, which are kept: DEDUP_EXEMPT = '-start' judges them like others",
}


class CopyExample(msgspec.Struct):
    """A copy: its URL, how far it is from its original, and both texts if they were in memory."""

    url: str
    distance: int
    similarity: float
    texts: tuple[list[str], list[str], list[Hunk]] | None = None

    def plain(self) -> dict[str, Any]:
        """Return the example for JSON, with its differences if both texts were in memory."""
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in ("url", "distance", "similarity")
        }
        if self.texts is not None:
            a, b, hunks = self.texts
            fields["differences"] = [
                {"of": running(a[h.a_begin : h.a_end]), "page": running(b[h.b_begin : h.b_end])}
                for h in hunks[:DIFFERENCES]
            ]
        return fields


class CopyGroup(msgspec.Struct):
    """The copies of one page; least is the least similarity of them."""

    count: int = 0
    least: float = 1.0
    examples: list[CopyExample] = []


class Host(msgspec.Struct):
    """The pages of one host: how many were judged, how many were copies."""

    judged: int = 0
    near_duplicates: int = 0


class Crawl(msgspec.Struct):
    """What is known of a crawl, collected while it runs.

    stats            of the add-on, without their prefix; requests, responses, items: Scrapy's
    near_duplicates  groups of copies, by the document key of their original
    differences      copies, by how their URLs differ from their originals'
    patterns         of near-duplicates: name, site, difference of URLs, signals that differ, what they brought (dropped, same,
                     new, again, forgotten), and an example of something new (page, original, fields)
    noisy_fields     fields that alone differed in the items of many near-duplicates, and in how many
    waiting          requests that wait for something new, by callback and site
    pages            what became of pages that were kept, by document key
    dropped_bytes    of copies; dropped_file: where each of them is a line
    """

    mode: Mode
    spider: str = ""
    recipe: str = ""
    start_time: datetime | None = None
    end_time: datetime | None = None
    stats: dict[str, Any] = {}
    requests: int = 0
    responses: int = 0
    items: int = 0
    near_duplicates: dict[str, CopyGroup] = {}
    hosts: dict[str, Host] = {}
    differences: dict[str, int] = {}
    patterns: list[dict[str, Any]] = []
    noisy_fields: dict[str, int] = {}
    waiting: dict[str, int] = {}
    pages: dict[str, str] = {}
    settings: dict[str, str] = {}
    warnings: Sequence[str] = ()
    dropped_bytes: int = 0
    dropped_file: str = ""

    def stat(self, name: str) -> int:
        """Return a stat, 0 if nothing was counted."""
        return int(self.stats.get(name, 0))

    @property
    def exempt(self) -> dict[str, int]:
        """The pages that were kept for a reason."""
        found = {name[7:]: n for name, n in self.stats.items() if name.startswith("exempt/") and n}
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    @property
    def decided(self) -> int:
        """The pages of which something was decided: those of the statuses, and the exempt ones."""
        statuses = ("unique", "checked", "near_duplicate", "refetch")
        return sum(map(self.stat, statuses)) + sum(self.exempt.values())


def crawl_report(crawl: Crawl) -> ReportPage:
    """Return the report of a crawl."""
    settings = [(name, _path(value)) for name, value in crawl.settings.items()]
    parts = [
        *_headline(crawl),
        *(Warned(text) for text in _warnings(crawl)),
        _funnel(crawl),
        _work(crawl),
        *_patterns(crawl),
        *_waiting(crawl),
        _groups(crawl),
        _hosts(crawl),
        Section("What to tune", [Lines(_advice(crawl))]),
        Section(
            "Settings in force",
            [Folded("All settings", [TablePart(("setting", "value"), settings)])],
        ),
    ]
    when = ""
    if crawl.start_time is not None and crawl.end_time is not None:
        when = f", {crawl.start_time:%Y-%m-%d %H:%M:%S} to {crawl.end_time:%Y-%m-%d %H:%M:%S} UTC"
    made_by = f"crawl-dedup, recipe {crawl.recipe}; spider {crawl.spider}{when}"
    return ReportPage(f"Deduplication: crawl of “{crawl.spider}”", parts, made_by)


def json_report(crawl: Crawl) -> bytes:
    """Return the report for a program."""
    found = msgspec.structs.asdict(crawl) | {
        "stats": {f"dedup/{name}": n for name, n in crawl.stats.items()},
        "warnings": [*_warnings(crawl)],
        "advice": [*_advice(crawl)],
        "near_duplicates": [
            {
                "of": key,
                "pages": group.count,
                "least_similarity": group.least,
                "examples": [example.plain() for example in group.examples],
            }
            for key, group in _by_risk(crawl)
        ],
        "hosts": [
            {"host": host, "judged": counts.judged, "near_duplicates": counts.near_duplicates}
            for host, counts in crawl.hosts.items()
        ],
    }
    return msgspec.json.format(msgspec.json.encode(found, enc_hook=str), indent=2) + b"\n"


def _headline(crawl: Crawl) -> Iterator[Part]:
    found, checked = crawl.stat("near_duplicate"), crawl.stat("checked")
    yield Text(
        f"{count(found, 'page')} of {crawl.decided:,} {'was a copy' if found == 1 else 'were copies'} of pages fetched "
        f"earlier, and {'was' if found == 1 else 'were'} {_BECAME[crawl.mode]}. {count(checked, 'near-duplicate')} "
        f"{'was' if checked == 1 else 'were'} checked: parsed, and only new items and links passed."
    )
    yield FigureRow(
        [
            ("pages", crawl.decided),
            ("copies", found),
            ("share", percent(found, crawl.decided)),
            ("checked", checked),
            ("unique", crawl.stat("unique")),
            ("remembered", crawl.stat("inserted")),
        ]
    )


def _warnings(crawl: Crawl) -> Iterator[str]:
    yield from crawl.warnings
    errors = {name[6:]: n for name, n in crawl.stats.items() if name.startswith("error/")}
    if errors:
        listed = ", ".join(f"{n:,} {kind}" for kind, n in sorted(errors.items()))
        yield f"Deduplication failed at times, and those pages were kept: {listed}. The log says why."
    for field, pages in crawl.noisy_fields.items():
        yield noisy_field(field, pages)
    if suspicious := _suspicious(crawl):
        more = f" and {len(suspicious) - 3:,} more" if len(suspicious) > 3 else ""
        yield (
            f"Over {SUSPICIOUS_SHARE:.0%} of the pages of {', '.join(suspicious[:3])}{more} were copies. Look at the "
            "examples: this may be an error page under many addresses, a consent wall or a template with little text."
        )


def _funnel(crawl: Crawl) -> Section:
    """Return how many requests became items; the parts of a row add up to it."""
    steps = [
        Bar("requests", crawl.requests),
        Bar("responses", crawl.responses),
        Bar("pages", crawl.decided, "", True),
        Bar("redirects, retries, faults", crawl.responses - crawl.decided, "", True),
        Bar("pages", crawl.decided),
        Bar("unique", crawl.stat("unique"), "unique", True),
        Bar("copies", crawl.stat("near_duplicate"), "near", True),
        Bar("checked", crawl.stat("checked"), "near", True),
        Bar("seen URLs fetched again", crawl.stat("refetch"), "refetch", True),
        *(Bar(f"{label_of(r)} ({r})", n, "exempt", True) for r, n in crawl.exempt.items()),
        Bar("remembered", crawl.stat("inserted")),
        Bar("not remembered: nothing new, failed, or gone", crawl.stat("released")),
        Bar("items", crawl.items),
    ]
    always = {"requests", "responses", "pages", "unique", "copies", "items"}
    return Section(
        "From request to item", [Bars([s for s in steps if s.number > 0 or s.name in always])]
    )


def noisy_field(field: str, pages: int) -> str:
    """Return what a person may do about a field that alone differs in many near-duplicates."""
    return (
        f"items of {count(pages, 'near-duplicate')} differ from their original's in `{field}` alone: if it changes "
        f"with every fetch, set DEDUP_ITEM_IGNORE = ['{field}']"
    )


def _work(crawl: Crawl) -> Section:
    """Return what the crawl without dedup would have done, and this one did not; and what that cost."""
    spent = float(crawl.stats.get("cpu_seconds", 0.0))
    figures: list[tuple[str, Cell]] = [
        ("pages not parsed", crawl.stat("near_duplicate")),
        ("items withheld", crawl.stat("items/withheld") + crawl.stat("unchanged_items")),
        ("requests withheld", crawl.stat("requests/withheld")),
        ("milliseconds a page", 1000 * spent / max(1, crawl.stat("probed"))),
    ]
    return Section(
        "What dedup did" if crawl.mode == "drop" else "What DEDUP_MODE = 'drop' would have done",
        [FigureRow(figures)],
        "Without dedup these pages would have been parsed, these items yielded, and these requests sent. Requests that "
        "Scrapy's own filter drops are not counted. The time is CPU time of dedup.",
    )


def _patterns(crawl: Crawl) -> Iterator[Section]:
    """Yield what the near-duplicates brought, by pattern."""
    counts = ("dropped", "same", "new", "again")
    rows = [(p["name"], *map(p.get, counts)) for p in crawl.patterns]
    others = [
        (p["name"], ", ".join(p["fields"]) or "other items", Link(p["page"]), Link(p["original"]))
        for p in crawl.patterns
        if p["page"]
    ]
    headers = ("pattern", "dropped", "nothing new", "something new", "fetched again")
    new = ("gave something new", "differing in", "for example", "beside")
    tables = [TablePart(names, r[:ROWS]) for names, r in ((headers, rows), (new, others)) if r]
    text = (
        "A pattern drops near-duplicates unparsed once enough of its pages gave items, and all of these were seen before. "
        "After a page that gave something new, its near-duplicates are checked again."
    )
    if tables:
        yield Section("What near-duplicates gave", tables, text)


def _waiting(crawl: Crawl) -> Iterator[Section]:
    if crawl.waiting:
        table = TablePart(("near-duplicates of", "requests"), [*crawl.waiting.items()])
        text = (
            "The link budget of these near-duplicates is spent: their last requests led to nothing new. The requests are "
            "sent once something new comes."
        )
        yield Section("Requests that wait", [table], text)


def _by_risk(crawl: Crawl) -> list[tuple[str, CopyGroup]]:
    """Return the groups, first those with the copies that are least alike."""
    groups = crawl.near_duplicates.items()
    return sorted(groups, key=lambda item: (item[1].least, -item[1].count, item[0]))


def _groups(crawl: Crawl) -> Section:
    groups = _by_risk(crawl)
    if not groups:
        return Section("Groups of copies", [Text("There are none.")])
    differing = [each for each in groups if each[1].least < 1]
    listed: list[Part] = [
        _group(key, group, is_open=number < GROUPS_OPEN)
        for number, (key, group) in enumerate(differing[: GROUPS_SHOWN + GROUPS_FOLDED])
    ]
    shown = listed[:GROUPS_SHOWN]
    if folds := listed[GROUPS_SHOWN:]:
        shown.append(Folded(count(len(folds), "more page"), folds))
    if same := [group for _, group in groups[len(differing) :]]:
        copies = count(sum(group.count for group in same), "copy", "copies")
        shown.append(Text(f"{count(len(same), 'page')} with {copies} whose main text is the same."))
    text = "Pages with examples of their copies, the least similar first. "
    text += f"{_path(crawl.dropped_file) or 'DEDUP_DROPPED = “dropped.jsonl”'} lists all copies."
    if left_out := len(differing) - len(listed):
        text += f" {count(left_out, 'more page')} not shown."
    return Section("Groups of copies", shown, text)


def _path(value: str) -> str:
    """Return a path without "/../"; any other value as it is."""
    return normpath(value) if "/../" in value and "://" not in value else value


def _group(key: str, group: CopyGroup, *, is_open: bool) -> ListEntry:
    among = ", among them" if group.count > len(group.examples) else ""
    examples = [
        _example(example, is_open=is_open and not number)
        for number, example in enumerate(group.examples)
    ]
    return ListEntry(
        key, f"{count(group.count, 'copy', 'copies')}{among}", examples, is_heading=True
    )


def _example(example: CopyExample, *, is_open: bool) -> ListEntry:
    note = f"{alike(example.similarity)}, {count(example.distance, 'bit')} apart"
    if example.texts is None or not example.texts[2]:
        return ListEntry(example.url, note)
    names = ("the page that was kept", "this page")
    title = f"where the texts differ: {count(len(example.texts[2]), 'place')}"
    texts = Folded(title, [Texts(*example.texts, names, CONTEXT)], small=True, is_open=is_open)
    return ListEntry(example.url, note, [texts])


def _suspicious(crawl: Crawl) -> list[str]:
    return [
        name
        for name, host in sorted(crawl.hosts.items(), key=lambda item: -item[1].near_duplicates)
        if host.judged >= SUSPICIOUS_PAGES and host.near_duplicates > SUSPICIOUS_SHARE * host.judged
    ]


def _hosts(crawl: Crawl) -> Section:
    hosts = sorted(crawl.hosts.items(), key=lambda item: (-item[1].near_duplicates, item[0]))
    rows = [
        (
            name or "(no host)",
            host.judged,
            host.near_duplicates,
            percent(host.near_duplicates, host.judged),
        )
        for name, host in hosts[:ROWS]
    ]
    more = f"{count(len(hosts) - ROWS, 'more host')} not shown." if len(hosts) > ROWS else ""
    return Section("Hosts", [TablePart(("host", "judged", "copies", "share"), rows)], more)


def _advice(crawl: Crawl) -> list[str]:
    lines = [
        f"{n:,} of {count(crawl.decided, 'page')} {_ADVICE[reason]}."
        for reason, n in crawl.exempt.items()
        if reason in _ADVICE and n > (0.01 if reason == "in_flight" else MUCH) * crawl.decided
    ]
    checked, same = crawl.stat("checked"), crawl.stat("items/equal")
    if same > MUCH * crawl.decided:
        lines.append(
            f"{same:,} of {count(checked, 'checked page')} gave nothing new, and were parsed in vain. If pages with the "
            "same text are always copies, DEDUP_PROOF = 'text' drops them at once; a higher DEDUP_RISK drops more."
        )
    if _suspicious(crawl) and crawl.mode != "tag":
        lines.append("Look at the hosts above with DEDUP_MODE = 'tag' before dropping their pages.")
    if crawl.stat("late_duplicate") > 0.01 * crawl.stat("inserted"):
        lines.append(
            "Near-duplicates were accepted at the same time (late_duplicate): for slow callbacks set a longer "
            "DEDUP_RESERVATION_SECONDS."
        )
    if not lines:
        return ["See the warnings above." if any(_warnings(crawl)) else "Nothing stands out."]
    return lines
