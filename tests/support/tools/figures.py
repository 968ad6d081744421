"""Measures the figures of the documentation and puts them into its pages: make figures.

    python tests/support figures [--only NAME ...] [--pages-only]

    commands (dedup ... --json) -> docs/benchmarks/measurements.json -> the tables between marks in pages

Each measurement in the file has its command, machine, date, commit and figures. DEDUP_EVAL is the folder
of the labelled sets and whole sites (dev, second, corpora/data), which are not part of the repository;
without it their measurements stay as they are, and are named.

The rule kept here: a page's table is made from the file alone, so that the two can be compared
(tests/house/test_figures.py); a figure that was not measured is not written.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dedup.lab.bench.figures import between, put, rows
from dedup.lab.bench.samples import machine

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "benchmarks" / "measurements.json"

STEPS = (1, 3, 5, 6, 7, 8, 9, 10)
SIMILARITIES = (0.5, 0.7, 0.8, 0.875, 0.91, 0.95)
DISTANCES = (3, 6, 8, 10)


class Measurement(NamedTuple):
    """What is run, in the folder of the evaluation data if it is of one, and what is kept of its JSON."""

    arguments: tuple[str, ...]
    kept: Callable[[Any], Any]
    data: str | None = None


def of_set(found: Any) -> Any:
    real = found["all_real"]
    return {
        "recipe": found["recipe"],
        "near_duplicates": real["near_duplicates"],
        "by_k": {
            str(step["k"]): {
                "found": step["confirmed"]["found"],
                "wrong": step["confirmed"]["wrong"],
                "found_alone": step["alone"]["found"],
                "wrong_alone": step["alone"]["wrong"],
            }
            for step in real["curve"]
        },
        "by_similarity": {
            str(step["similarity"]): {name: step["figures"][name] for name in ("found", "wrong")}
            for step in real["thresholds"]
        },
    }


def of_sites(found: Any) -> Any:
    names = ("drops", "right", "wrong", "twins", "found")
    sums = {n: sum(c["figures"][n] for c in found["corpora"]) for n in names}
    pages = sum(c["pages"] for c in found["corpora"])
    return {"recipe": found["recipe"], "distance": found["distance"], "pages": pages} | sums


def of_demo(found: Any) -> Any:
    names = ("urls", "fetched", "near_duplicates", "found_percent")
    return {name: found[name] for name in names}


def evaluation(*arguments: str) -> tuple[str, ...]:
    return ("evaluate", *arguments, "--bootstrap", "0", "--json")


MEASUREMENTS = {
    "demo-1": Measurement(("demo", "--seed", "1", "--json"), of_demo),
    "demo-2": Measurement(("demo", "--seed", "2", "--json"), of_demo),
    "set-development": Measurement(evaluation("--set", "dev"), of_set, "dev"),
    "set-second": Measurement(evaluation("--set", "second"), of_set, "second"),
    **{
        f"sites-k{k}": Measurement(
            evaluation("--corpora", "corpora/data", "--distance", str(k)), of_sites, "corpora/data"
        )
        for k in DISTANCES
    },
}


# ------------------------------------------------------------------------------------------- pages


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def missed(figures: Any, total: int, name: str = "found") -> str:
    return share(total - figures[name], total)


def right(figures: Any, suffix: str = "") -> str:
    found, wrong = figures[f"found{suffix}"], figures[f"wrong{suffix}"]
    return share(found, found + wrong)


def emphasised(cells: list[str], when: bool) -> list[str]:
    return [f"**{cell}**" for cell in cells] if when else cells


def distance_steps(held: Any) -> str:
    one, two = (held[f"set-{name}"]["figures"] for name in ("development", "second"))
    lines = []
    for k in STEPS:
        a, b = one["by_k"][str(k)], two["by_k"][str(k)]
        both = {n: a[n] + b[n] for n in ("found", "wrong")}
        cells = [
            f"{k}, the paper's" if k == 3 else str(k),
            missed(a, one["near_duplicates"]),
            missed(b, two["near_duplicates"]),
            right(both),
            right(a, "_alone"),
            right(b, "_alone"),
        ]
        lines.append(emphasised(cells, k == 8))
    head = ["k", "missed, development", "missed, second set", "right, both sets"]
    return rows([*head, "right alone, development", "right alone, second set"], lines)


def similarity_steps(held: Any) -> str:
    one, two = (held[f"set-{name}"]["figures"] for name in ("development", "second"))
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


PAGES = {
    ("docs/how-to/distance.md", "distance steps"): distance_steps,
    ("docs/how-to/distance.md", "distance sites"): distance_sites,
    ("docs/how-to/distance.md", "similarity steps"): similarity_steps,
}


def stale(held: Any) -> list[str]:
    """Return the tables of pages that are not what the file says."""
    return [
        f"{page}: {name}"
        for (page, name), made in PAGES.items()
        if between(ROOT / page, name) != made(held) + "\n"
    ]


# ----------------------------------------------------------------------------------------- measuring


def measured(name: str, folder: Path | None) -> Any:
    """Run one measurement and return its entry."""
    what = MEASUREMENTS[name]
    command = [sys.executable, "-m", "dedup", *what.arguments]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    return entry(name, json.loads(done.stdout))


def entry(name: str, found: Any) -> Any:
    what = MEASUREMENTS[name]
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    return {
        "command": " ".join(("dedup", *what.arguments)),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip(),
        "machine": msgspec.to_builtins(machine()),
        "figures": what.kept(found),
    }


def main() -> None:
    """Measure, write the file, and put its figures into the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(MEASUREMENTS))
    parser.add_argument("--pages-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    held = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    data = os.environ.get("DEDUP_EVAL")
    for name in [] if options.pages_only else options.only or MEASUREMENTS:
        below = MEASUREMENTS[name].data
        if below is not None and (data is None or not Path(data, below).is_dir()):
            sys.stdout.write(f"{name}: left as it is; DEDUP_EVAL has no {below}\n")
            continue
        sys.stdout.write(f"{name} ...\n")
        sys.stdout.flush()
        held[name] = measured(name, None if below is None or data is None else Path(data))
        FILE.write_text(json.dumps(held, indent=1) + "\n", "utf-8")
    for (page, name), made in PAGES.items():
        put(ROOT / page, name, made(held))


if __name__ == "__main__":
    main()
