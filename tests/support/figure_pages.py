"""The tables of pages, made from the file of measurements (figures.py).

    entries -> (page, marks) -> the Markdown between them

An entry is measured (its figures are counts, and its table is made here), or recorded: measured once by
a command that takes long or other programs, and written down with its command, date, commit and machine.
A recorded entry with rows is the table of its page as it stands.

Invariant: nothing is measured, and the same file gives the same tables.
"""

from collections.abc import Callable
from typing import Any

from page_figures import rows

STEPS = (1, 3, 5, 6, 7, 8, 9, 10)
SEEDS = (1, 2, 3)
SETS = ("development", "second")


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def rate(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def missed(counts: Any, total: int) -> str:
    return share(total - counts["found"], total)


def right(counts: Any, suffix: str = "") -> str:
    found, wrong = counts[f"found{suffix}"], counts[f"wrong{suffix}"]
    return share(found, found + wrong)


def emphasised(cells: list[str], when: bool) -> list[str]:
    return [f"**{cell}**" for cell in cells] if when else cells


def sets(held: Any) -> list[Any]:
    return [held[f"set-{name}"]["figures"] for name in SETS]


# ------------------------------------------------------------------------------- docs/use/distance.md


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


# ---------------------------------------------------------------------------------------- README.md


def between_ends(values: list[float], unit: str = "") -> str:
    least, most = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return f"{least}{unit}" if least == most else f"{least} to {most}{unit}"


def readme(held: Any) -> str:
    """What the add-on changes, by kind of crawl."""
    runs = [held[f"demo-{seed}"]["figures"] for seed in SEEDS]
    rows_of_demo = [
        (
            f"a news site, half of it copies (`dedup demo`): {what}",
            between_ends([run["without_addon"][name] for run in runs]),
            f"**{between_ends([run['with_addon'][name] for run in runs])}**",
        )
        for name, what in (
            ("requests", "pages fetched"),
            ("parsed", "pages parsed"),
            ("items", "items"),
            ("different_items", "different items"),
        )
    ]
    found = held["saved"]["figures"]
    return rows(found["head"], [*rows_of_demo, *found["rows"]])


def _ends(ends: Any) -> str:
    return f"{ends['median']:,.0f} ({ends['lowest']:,.0f} to {ends['highest']:,.0f})"


def crawl_whole(held: Any) -> str:
    """What a crawl pays, by `python tests/bench crawl`."""
    found = held["crawl-whole"]["figures"]
    titles = {
        "without": "crawl without the add-on",
        "with": "crawl with the add-on",
        "whole": "added, whole process",
        "start": "added once, at the start",
        "meter": "the add-on's own meter, `dedup/cpu_seconds`",
    }
    units = ("us of CPU a page", "%", "ms of CPU")
    lines = [
        (title, *(_ends(found[name][u]) if u in found[name] else "" for u in units))
        for name, title in titles.items()
    ]
    return rows(("", *units), lines)


# ------------------------------------------------------------------------------- docs/explain/comparison.md

SITES = ("archives", "archives-sites")  # generated pages, and those of whole sites


def archives_texts(held: Any) -> str:
    """What each finds on the same texts."""
    lines = []
    for name, words in zip(SITES, ("generated", "nine sites"), strict=True):
        found = held[name]["figures"]
        for way, cells in found["ways"].items():
            if "dropped" in cells:
                counts = (f"{cells[column]:,.0f}" for column in ("dropped", "wrong", "missed"))
                dropped, wrong, missed = counts
                share = f"{cells['right %']:.1f} %"
                cost = (f"{cells['us of CPU a page']:,.0f}", f"{cells['MB']:,.0f}")
                tool = way.removeprefix("texts: ")
                lines.append(
                    (f"{found['texts']:,} {words}", tool, *cost, dropped, share, wrong, missed)
                )
    return rows(
        ("texts", "tool", "us of CPU a text", "MB", "dropped", "right", "wrong", "missed"), lines
    )


# ---------------------------------------------------------------------------- docs/explain/quality.md


def unseen_sites(held: Any) -> str:
    """Sets of sites that no rule had been chosen on: the sums of each."""
    lines = []
    for name in ("third", "fourth", "fifth", "sixth", "eighth", "ninth"):
        _, *figures = held[f"{name}-sites"]["figures"]["rows"][-1]
        lines.append((UNSEEN[name], *figures[:5]))
    return rows(("sites", "pages", "drops", "right", "wrong", "recall (of)"), lines)


def items(held: Any) -> str:
    """What a spider loses and saves, on generated sites."""
    found = held["items"]["figures"]["ways"]
    columns = ("pages", "copies", "dropped", "compared", "copies left", "items lost")
    head = (
        "site",
        "pages",
        "copies",
        "dropped unparsed",
        "compared",
        "copies that passed",
        "wanted items lost",
    )
    return rows(
        head, [(title, *(f"{found[n][c]:,.0f}" for c in columns)) for n, title in ITEMS.items()]
    )


ITEMS = {
    "copies": "articles, each with a print copy, an AMP copy and a campaign's URL",
    "shop": "products, each with a variant of another SKU, and a copy",
    "rare": "copies, 3 % of them with another price",
    "late": "variants that come after all copies",
    "print": "documentation, partly with print copies that carry date and counter",
    "print, html": "the same, by a spider that keeps the page",
}


def peers(held: Any) -> str:
    """Ours, and of each extractor the best setting of MinHash, by F1."""
    found = held["peers-sites"]["figures"]["ways"]
    chosen = {"dedup": found["dedup"]}
    for extractor in ("resiliparse", "trafilatura"):
        best = max((n for n in found if n.startswith(extractor)), key=lambda n: _f1(found[n]))
        chosen[best] = found[best]
    lines = [
        (
            name.replace(">= ", "at least "),
            f"{each['drops']:,.0f}",
            rate(each["P J>=.8"]),
            f"{each['wrong']:,.0f}",
            f"{rate(each['recall J>=.9'])} ({each['twins']:,.0f})",
            f"{each['us of CPU a page'] / 1000:,.2f}",
        )
        for name, each in chosen.items()
    ]
    head = ("tool", "drops", "right", "wrong", "recall (of)", "ms of CPU a page")
    return rows(head, lines)


def _f1(each: Any) -> float:
    precision, recall = each["P J>=.8"], each["recall J>=.9"]
    return float(2 * precision * recall / (precision + recall))


UNSEEN = {
    "third": "23: documentation, two portals, two forums",
    "fourth": "19: documentation, articles",
    "fifth": "20: documentation, a wiki",
    "sixth": "21: documentation, a forum, blogs, shops",
    "eighth": "32: shops, forums, wikis, blogs",
    "ninth": "44: blogs, news, shops, forums, portals",
}


def new_sites(held: Any) -> str:
    """The last set by the text and by a peer; and its halves, with what was changed since."""
    lines = [
        (sites, *(_in_short(each) for each in ways))
        for sites, ways in held["ninth-sites"]["figures"]["ways"].items()
    ]
    head = ("right, wrong, recall", "text", "resiliparse")
    return rows(head, lines)


def _in_short(each: Any) -> str:
    right, recall = each["right"] / each["drops"], each["found"] / each["twins"]
    return f"{rate(right)}, {each['wrong']}, {rate(recall)}"


MADE: dict[tuple[str, str], Callable[[Any], str]] = {
    ("README.md", "figures"): readme,
    ("docs/explain/comparison.md", "archives texts"): archives_texts,
    ("docs/explain/performance.md", "crawl whole"): crawl_whole,
    ("docs/use/distance.md", "distance steps"): distance_steps,
    ("docs/explain/quality.md", "items"): items,
    ("docs/explain/quality.md", "peers-sites"): peers,
    ("docs/explain/quality.md", "unseen sites"): unseen_sites,
    ("docs/explain/quality.md", "new sites"): new_sites,
}


def tables(held: Any) -> dict[tuple[str, str], str]:
    """Return every table, by its page and marks."""
    made = {place: make(held) for place, make in MADE.items()}
    recorded = {name: each for name, each in held.items() if "page" in each}
    for name, each in recorded.items():
        made[each["page"], name] = rows(each["figures"]["head"], each["figures"]["rows"])
    return made
