"""The tables of pages, made from the file of measurements (figures.py).

    entries -> (page, marks) -> the Markdown between them

An entry is measured (its figures are counts, and its table is made here), or recorded: measured once by
a command that takes long or other programs, and written down with its command, date, commit and machine.
A recorded entry with rows is the table of its page as it stands.

Invariant: nothing is measured, and the same file gives the same tables.
"""

import re
from collections.abc import Callable
from typing import Any

from page_figures import rows

STEPS = (1, 3, 5, 6, 7, 8, 9, 10)
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


WAYS = {
    "none": "without",
    "drop": "the add-on",
    "text": '`DEDUP_PROOF = "text"`',
    "hash": "hash of the text",
    "minhash": "MinHash",
}


def readme(held: Any) -> str:
    """What the add-on saves on clean real sites, for a spider that keeps the page."""
    figures = ("requests", "parsed", "left", "lost", "missed", "cpu")
    lines = _ways(held, "html", figures, ("clean",))
    return rows(("", *WAYS.values()), [[what.removeprefix("clean: "), *n] for what, *n in lines])


def real_crawls(held: Any) -> str:
    """The crawls of real sites with the add-on, of all spiders, and what they lost."""
    crawls = [row for row in held["crawls"]["figures"]["all"] if row["config"] == "drop"]
    sites = [int(row["site"].removeprefix("all ")) for row in crawls]
    lost = sum(row["lost"] for row in crawls)
    return (
        f"In {sum(sites)} crawls of {max(sites)} real sites the add-on lost {_of_contents(lost)}."
    )


def _of_contents(lost: int) -> str:
    return f"{lost} contents" if lost else "no content"


def log(held: Any) -> str:
    """The end of the tutorial's log, the long list of URLs cut."""
    found = held["tutorial"]["figures"]
    lines = [re.sub(r"(unparsed: [^)]*\)).*", r"\1, ...", line) for line in found["log"]]
    return "\n".join(["```text", *lines, "```"])


def tutorial(held: Any) -> str:
    """What came of the tutorial's two crawls."""
    found = held["tutorial"]["figures"]
    return (
        f"Without the add-on the spider yielded {found['without']} items, {found['different']} of them different. "
        f"With it, {found['fetched']} pages\nwere fetched, and {found['items']} items passed."
    )


def real_sites(held: Any) -> str:
    """The same for noisy sites and the other spiders, in short."""
    lines = []
    spiders = {"html": "page", "text": "main content", "meta": "metadata", "graph": "link graph"}
    for spider, words in spiders.items():
        variants = ("clean", "noisy") if spider != "html" else ("noisy",)
        figures = _ways(held, spider, ("left", "lost", "cpu"), variants)
        for variant, *rest in zip(figures[::3], figures[1::3], figures[2::3], strict=True):
            cells = [
                " / ".join(each) for each in zip(variant[1:], *(r[1:] for r in rest), strict=True)
            ]
            lines.append([f"{words}, {variant[0].partition(':')[0]}", *cells])
    return rows(("near-duplicates / lost / CPU time", *WAYS.values()), lines)


ROWS = {
    "requests": "requests",
    "parsed": "pages parsed",
    "left": "near-duplicates among the items",
    "lost": "contents lost",
    "missed": "pages neither asked nor listed",
    "cpu": "CPU time",
}


def _ways(
    held: Any, spider: str, figures: tuple[str, ...], variants: tuple[str, ...]
) -> list[list[str]]:
    """Return a line for each variant and figure; none for what was not crawled."""
    every = held["crawls"]["figures"]["all"]
    lines = []
    for variant in variants:
        found = {r["config"]: r for r in every if (r["variant"], r["spider"]) == (variant, spider)}
        for figure in figures if found else ():
            form = "{:,.2f}" if figure == "cpu" else "{:,}"
            cells = [form.format(found[c][figure]) if c in found else "-" for c in WAYS]
            lines.append([f"{variant}: {ROWS[figure]}", *cells])
    return lines


def best_and_worst(held: Any) -> str:
    """The sites where the add-on saves most, and those where it costs most, of the same spider."""
    sites = held["crawls"]["figures"]["sites"]
    by_gain = sorted(
        sites, key=lambda s: (s["none"]["left"] - s["drop"]["left"]) / s["none"]["items"]
    )
    by_cost = sorted(sites, key=lambda s: (s["drop"]["lost"], s["drop"]["cpu"]))
    chosen = [*by_gain[:-4:-1], *(site for site in by_cost[:-4:-1] if site not in by_gain[-3:])]
    lines = [
        (
            f"{site['site']}: {site['kind']}",
            f"{site['none']['items']:,}",
            *(f"{site['none'][n]:,} -> {site['drop'][n]:,}" for n in ("requests", "left")),
            str(site["drop"]["lost"]),
            f"{site['drop']['cpu']:.2f}",
        )
        for site in chosen
    ]
    return rows(("site", "pages", "requests", "near-duplicates", "lost", "CPU time"), lines)


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


# ---------------------------------------------------------------------------- docs/explain/quality.md


def unseen_sites(held: Any) -> str:
    """Sets of sites that no rule had been chosen on, the worst first; and of the last one the half that chose nothing since."""
    lines = []
    for name, title in UNSEEN.items():
        _, *figures = held[f"{name}-sites"]["figures"]["rows"][-1]
        lines.append((title, *figures[:5]))
    lines.sort(key=lambda line: float(line[3]))
    ours, peers = held["ninth-sites"]["figures"]["ways"]["23, never seen"]
    lines += [
        ("23 of the 44, with rules chosen on the others", *_sums(ours)),
        ("the same, MinHash on resiliparse", *_sums(peers)),
    ]
    return rows(("sites", "pages", "drops", "right", "wrong", "recall (of)"), lines)


UNSEEN = {
    "third": "23: documentation, two portals, two forums",
    "fourth": "19: documentation, articles",
    "fifth": "20: documentation, a wiki",
    "sixth": "21: documentation, a forum, blogs, shops",
    "eighth": "32: shops, forums, wikis, blogs",
    "ninth": "44: blogs, news, shops, forums, portals",
}


def _sums(each: Any) -> tuple[str, ...]:
    right, recall = each["right"] / each["drops"], each["found"] / each["twins"]
    counts = (f"{each['pages']:,}", f"{each['drops']:,}", rate(right), f"{each['wrong']:,}")
    return (*counts, f"{rate(recall)} ({each['twins']})")


MADE: dict[tuple[str, str], Callable[[Any], str]] = {
    ("README.md", "figures"): readme,
    ("README.md", "real crawls"): real_crawls,
    ("docs/start/faq.md", "real crawls"): real_crawls,
    ("README.md", "log"): log,
    ("README.md", "tutorial"): tutorial,
    ("docs/start/tutorial.md", "tutorial"): tutorial,
    ("docs/explain/performance.md", "crawl whole"): crawl_whole,
    ("docs/use/distance.md", "distance steps"): distance_steps,
    ("docs/explain/real-sites.md", "real sites"): real_sites,
    ("docs/explain/real-sites.md", "best and worst"): best_and_worst,
    ("docs/explain/quality.md", "unseen sites"): unseen_sites,
}


def tables(held: Any) -> dict[tuple[str, str], str]:
    """Return every table, by its page and marks."""
    made = {place: make(held) for place, make in MADE.items()}
    recorded = {name: each for name, each in held.items() if "page" in each}
    for name, each in recorded.items():
        made[each["page"], name] = rows(each["figures"]["head"], each["figures"]["rows"])
    return made
