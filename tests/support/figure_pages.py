"""The tables of pages, made from the file of measurements (figures.py).

    entries -> (page, marks) -> the Markdown between them

An entry is measured (its figures are counts, and its table is made here), or recorded: measured once by
a command that takes long or other programs, and written down with its command, date, commit and machine.
A recorded entry with rows is the table of its page as it stands.

The rule kept here: nothing is measured, and the same file gives the same tables.
"""

from collections.abc import Callable
from typing import Any

from page_figures import rows

STEPS = (1, 3, 5, 6, 7, 8, 9, 10)
SIMILARITIES = (0.5, 0.7, 0.8, 0.875, 0.91, 0.95)
DISTANCES = (3, 6, 8, 10)
SETS = ("development", "second")

SOURCES = {
    "zeppelin": "Zeppelin",
    "flink": "Flink, English",
    "bookja": "the Rust book, Japanese",
    "flinkzh": "Flink, Chinese",
    "boost": "Boost",
    "kafka": "Kafka",
    "trafeval": "full texts in many languages",
    "handbook": "Debian handbook",
    "feisky": "blog, Chinese and English",
    "aeb": "news",
    "pagecmp": "home pages",
    "iguide": "installation guide",
    "readability": "readability's test pages",
}
KINDS = {
    "real": "real pages",
    "c-nav": "menus changed",
    "c-related": "other related links",
    "c-stamp": "time and counters",
    "c-comment": "comments",
    "c-ads": "advertisements",
    "c-edit": "edited text",
    "c-all": "all of these",
    "synd": "another site's shell",
    "soft404": "soft 404",
}


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def rate(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def recall(counts: Any, digits: int = 3) -> str:
    return rate(counts["found"] / counts["near_duplicates"], digits)


def both(counts: Any, total: int) -> str:
    """Return precision / recall."""
    found, wrong = counts["found"], counts["wrong"]
    return f"{rate(found / (found + wrong))} / {rate(found / total)}"


def missed(counts: Any, total: int) -> str:
    return share(total - counts["found"], total)


def right(counts: Any, suffix: str = "") -> str:
    found, wrong = counts[f"found{suffix}"], counts[f"wrong{suffix}"]
    return share(found, found + wrong)


def emphasised(cells: list[str], when: bool) -> list[str]:
    return [f"**{cell}**" for cell in cells] if when else cells


def sets(held: Any) -> list[Any]:
    return [held[f"set-{name}"]["figures"] for name in SETS]


# ------------------------------------------------------------------------------- how-to/distance.md


def distance_steps(held: Any) -> str:
    one, two = (each["all_real"] for each in sets(held))
    lines = []
    for k in STEPS:
        a, b = one["by_k"][str(k)], two["by_k"][str(k)]
        together = {n: a[n] + b[n] for n in ("found", "wrong")}
        cells = [
            f"{k}, the paper's" if k == 3 else str(k),
            missed(a, one["near_duplicates"]),
            missed(b, two["near_duplicates"]),
            right(together),
            right(a, "_alone"),
            right(b, "_alone"),
        ]
        lines.append(emphasised(cells, k == 8))
    head = ["k", "missed, development", "missed, second set", "right, both sets"]
    return rows([*head, "right alone, development", "right alone, second set"], lines)


def similarity_steps(held: Any) -> str:
    one, two = (each["all_real"] for each in sets(held))
    lines = []
    for least in SIMILARITIES:
        a, b = one["by_similarity"][str(least)], two["by_similarity"][str(least)]
        cells = [f"{least:.3g}".lstrip("0")]
        cells += [missed(a, one["near_duplicates"]), missed(b, two["near_duplicates"])]
        lines.append(emphasised([*cells, right(a), right(b)], least == 0.875))
    head = ["similarity on one site", "missed, development", "missed, second set"]
    return rows([*head, "right, development", "right, second set"], lines)


def distance_sites(held: Any) -> str:
    lines = []
    for k in DISTANCES:
        if (found := held.get(f"sites-k{k}", {}).get("figures")) is None:
            continue
        cells = [str(k), f"{found['drops']:,}", share(found["right"], found["drops"])]
        cells += [str(found["wrong"]), share(found["twins"] - found["found"], found["twins"])]
        lines.append(emphasised(cells, k == 8))
    return rows(["k", "pages dropped", "right", "wrong", "copies missed"], lines)


# --------------------------------------------------------------------------------------- quality.md


def labelled_sets(held: Any) -> str:
    lines = []
    for name in reversed(SETS):
        for part, title in (("all", "all"), ("all_real", "real")):
            now = held[f"set-{name}"]["figures"][part]
            ends = now["intervals"]
            precision = rate(now["found"] / (now["found"] + now["wrong"]), 4)
            within = {n: f" ({rate(ends[n][0])} to {rate(ends[n][1])})" for n in ends}
            if not now["wrong"]:
                within["precision"] = ""
            f1 = 2 * now["found"] / (now["found"] + now["wrong"] + now["near_duplicates"])
            lines.append(
                [
                    name if part == "all" else "",
                    title,
                    *(f"{now[n]:,}" for n in ("near_duplicates", "found")),
                    str(now["wrong"]),
                    precision + within["precision"],
                    recall(now, 4) + within["recall"],
                    rate(f1, 4),
                ]
            )
    head = ["set", "pairs", "near-duplicates", "found", "wrong", "precision", "recall", "F1"]
    return rows(head, lines)


def recall_by_source(held: Any) -> str:
    found = {}
    for each in sets(held):
        found |= each["all"]["by_source"]
    lines = [[SOURCES[s], recall(found[s]), f"{found[s]['near_duplicates']:,}"] for s in SOURCES]
    return rows(["source", "recall", "of"], lines)


def recall_by_kind(held: Any) -> str:
    one, two = (each["all"]["by_kind"] for each in sets(held))
    lines = [[title, recall(two[kind]), recall(one[kind])] for kind, title in KINDS.items()]
    return rows(["kind", "second", "development"], lines)


def quality_similarity(held: Any) -> str:
    lines = []
    for least, of_sites in held["sites-by-similarity"]["figures"].items():
        cells = [rate(float(least), 3 if least == "0.875" else 2)]
        cells.append(f"{of_sites['drops']:,}, {', '.join(_of_sites(of_sites))}")
        for each in reversed(sets(held)):
            for part in ("all", "all_real"):
                now = each[part]
                cells.append(both(now["by_similarity"][least], now["near_duplicates"]))
        lines.append(emphasised(cells, least == "0.875"))
    head = ["similarity", "sites: drops, right, wrong, recall"]
    return rows([*head, "second, P / R", "real", "development, P / R", "real"], lines)


def _of_sites(found: Any) -> list[str]:
    return [rate(found["right"]), str(found["wrong"]), rate(found["recall"])]


def quality_distance(held: Any) -> str:
    lines = []
    for k in (3, 6, 7, 8, 10):
        cells = [str(k)]
        for each in reversed(sets(held)):
            now, total = each["all"]["by_k"][str(k)], each["all"]["near_duplicates"]
            alone = {n: now[f"{n}_alone"] for n in ("found", "wrong")}
            cells += [both(now, total), both(alone, total)]
        if k == 8:
            cells = [f"**{cell}**" if i in {0, 1, 3} else cell for i, cell in enumerate(cells)]
        lines.append(cells)
    return rows(["k", "second", "simhash alone", "development", "simhash alone"], lines)


# ---------------------------------------------------------------------------------------- README.md


def readme(held: Any) -> str:
    """The table of figures; its words are here, its numbers in the file."""
    sites, small, book, pages, cpu = (
        held[n]["figures"]
        for n in ("sites-k8", "small-sites", "debian-handbook", "page-cpu", "crawl-cpu")
    )
    demos = [held[f"demo-{n}"]["figures"] for n in (1, 2)]
    labelled, real = ([each[part] for each in sets(held)] for part in ("all", "all_real"))
    precision = [
        [rate(n["found"] / (n["found"] + n["wrong"])) for n in p] for p in (labelled, real)
    ]
    found = [[recall(n) for n in p] for p in (labelled, real)]
    lines = [
        (
            f"nine whole sites, {sites['pages']:,} pages, most of them references",
            f"{sites['drops']:,} dropped: {share(sites['right'], sites['drops'])} say the same as the page "
            f"kept, {sites['wrong']} something else; {share(sites['found'], sites['twins'])} of "
            f"{sites['twins']} copies found",
            "`dedup evaluate --corpora`",
        ),
        (
            f"{small['sites']} small sites with ordinary spiders: logins, captchas, incomplete copies, albums, "
            "calendars, session ids, another day",
            f"every item that comes without the add-on comes with it; {small['traps']} traps without end take "
            f"{small['least_percent']} to {small['most_percent']} % of the fetches",
            "such sites: tests/scrapy/test_scrapy_brings.py, test_scrapy_links.py",
        ),
        (
            f"{book['pages']:,} pages of the Debian handbook, {book['copies']} of them copies with another "
            "banner, date and footer",
            f"{book['dropped']} of the {book['alike']} that share nine tenths of their text with the original "
            f"dropped, no page of other content; with a link of its own in each banner {book['with_links']} "
            "(the others are kept as `new_links`)",
            "`make test-long` prints it",
        ),
        (
            "labelled pages, all pairs of two sets",
            f"precision {' and '.join(precision[0])}, recall {' and '.join(found[0])}; real pages "
            f"{' and '.join(precision[1])}, {' and '.join(found[1])}",
            "`dedup evaluate`",
        ),
        (
            f"generated site, {demos[0]['urls']} URLs, two seeds",
            f"{demos[0]['fetched']} and {demos[1]['fetched']} fetched, "
            f"{sum(demo['wrong'] for demo in demos)} wrong drops, "
            f"{' and '.join(format(demo['found_percent'], '.1f') for demo in demos)} % of the planted copies "
            "found",
            "`dedup demo --seed N`",
        ),
        (
            f"a page of {pages['kilobytes']} KB to its fingerprint",
            f"{pages['us']} us with both cores busy; {pages['resiliparse']} and {pages['trafilatura']} times as "
            "fast as resiliparse's and trafilatura's main content with a simhash",
            "`dedup bench pages`",
        ),
        (
            "CPU that it takes",
            f"{cpu['least_percent']} to {cpu['most_percent']} % of a crawl that parses {cpu['pages']} real pages, "
            f"some {cpu['imports_ms']} ms of imports at its start included ({cpu['goal_percent']} % is the goal)",
            "`dedup bench crawl`",
        ),
    ]
    return rows(("what", "figure", "how to get it"), lines)


MADE: dict[tuple[str, str], Callable[[Any], str]] = {
    ("README.md", "figures"): readme,
    ("docs/how-to/distance.md", "distance steps"): distance_steps,
    ("docs/how-to/distance.md", "distance sites"): distance_sites,
    ("docs/how-to/distance.md", "similarity steps"): similarity_steps,
    ("docs/quality.md", "labelled sets"): labelled_sets,
    ("docs/quality.md", "recall by source"): recall_by_source,
    ("docs/quality.md", "recall by kind"): recall_by_kind,
    ("docs/quality.md", "by similarity"): quality_similarity,
    ("docs/quality.md", "by distance"): quality_distance,
}


def tables(held: Any) -> dict[tuple[str, str], str]:
    """Return every table, by its page and marks."""
    made = {place: make(held) for place, make in MADE.items()}
    recorded = {name: each for name, each in held.items() if "rows" in each["figures"]}
    for name, each in recorded.items():
        made[each["page"], name] = rows(each["figures"]["head"], each["figures"]["rows"])
    return made
