"""Measures the figures of the documentation and puts them into its pages: make figures [ONLY="NAME ..."].

    commands (dedup ... --json) -> docs/explain/measurements.json -> figure_pages.py -> pages

Each entry of the file has its command, machine, date, commit and figures. DEDUP_EVAL is the folder of the
labelled sets and whole sites (dev, second, corpora/data), which are not part of the repository; without it
their entries stay as they are, and are named. Entries that no command here measures are recorded: whoever
runs their command writes the figures into the file.

Invariant: a page's table is made from the file alone, so that the two can be compared
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

from figure_pages import tables
from page_figures import between, put
from runner import machine

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "explain" / "measurements.json"


class Measurement(NamedTuple):
    """What is run, in the folder of the evaluation data if it is of one, and what is kept of its JSON.

    program  dedup, or the folder of programs it is one of
    """

    arguments: tuple[str, ...]
    kept: Callable[[Any], Any]
    data: str | None = None
    program: str = "dedup"

    @property
    def command(self) -> str:
        """The command as a page names it."""
        program = self.program if self.program == "dedup" else f"python {self.program}"
        return " ".join((program, *self.arguments))


COUNTS = ("near_duplicates", "found", "wrong")


def of_set(found: Any) -> Any:
    parts = {part: _of_pairs(found[part]) for part in ("all", "all_real")}
    return {"recipe": found["recipe"], "pages": found["pages"]} | parts


def _of_pairs(found: Any) -> Any:
    return {n: found[n] for n in COUNTS} | {
        "by_k": {
            str(step["k"]): {
                "found": step["confirmed"]["found"],
                "wrong": step["confirmed"]["wrong"],
                "found_alone": step["alone"]["found"],
                "wrong_alone": step["alone"]["wrong"],
            }
            for step in found["curve"]
        }
    }


def of_crawl(found: Any) -> Any:
    rows, facts = found["rows"], found["facts"]
    names = {
        "without": "crawl without the add-on",
        "with": "crawl with the add-on",
        "whole": "added, whole process",
        "start": "added once, at the start",
        "meter": "the add-on's own meter",
    }
    kept = {
        name: {unit: _ends(ends) for unit, ends in rows[row].items()} for name, row in names.items()
    }
    return {
        "pages": facts["pages"],
        "page_bytes": facts["page_bytes"],
        "rounds": found["rounds"],
    } | kept


def of_crawls(found: Any) -> Any:
    """Keep the sums, and of each site what a spider that keeps the page gave."""
    sums = ("variant", "spider", "config", "site", "pages", "requests", "parsed", "items", "left", "lost", "missed", "cpu")  # fmt: skip
    sites: dict[str, Any] = {}
    for row in found["rows"]:
        if (row["variant"], row["spider"]) == ("clean", "html"):
            site = sites.setdefault(row["site"], {n: row[n] for n in ("site", "kind", "half")})
            site[row["config"]] = {n: round(row[n], 2) for n in sums[5:]}
    every = [
        {n: round(v, 2) if isinstance(v := row[n], float) else v for n in sums}
        for row in found["all"]
    ]
    return {"all": every, "sites": list(sites.values())}


def _ends(found: Any) -> Any:
    return {name: round(found[name], 1) for name in ("lowest", "median", "highest")}


def evaluation(*arguments: str) -> tuple[str, ...]:
    return ("evaluate", *arguments, "--json")


MEASUREMENTS = {
    "crawls": Measurement(("crawls", "--json"), of_crawls, program="tests/bench"),
    "crawl-whole": Measurement(
        ("crawl", "--count", "300", "--rounds", "7", "--json"), of_crawl, program="tests/bench"
    ),
    "tutorial": Measurement(("tutorial",), lambda found: found, program="tests/support"),
    "set-development": Measurement(evaluation("--set", "dev"), of_set, "dev"),
    "set-second": Measurement(evaluation("--set", "second"), of_set, "second"),
}


def stale(held: Any) -> list[str]:
    """Return the tables of pages that are not what the file says."""
    return [
        f"{page}: {name}"
        for (page, name), table in tables(held).items()
        if between(ROOT / page, name) != table + "\n"
    ]


# ----------------------------------------------------------------------------------------- measuring


def measured(name: str, folder: Path | None) -> Any:
    """Run one measurement and return its entry."""
    what = MEASUREMENTS[name]
    command = [sys.executable, "-m", "dedup", *what.arguments]
    if what.program != "dedup":
        command = [sys.executable, str(ROOT / what.program), *what.arguments]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    return entry(name, json.loads(done.stdout))


def entry(name: str, found: Any) -> Any:
    what = MEASUREMENTS[name]
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    return {
        "command": what.command,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip(),
        "machine": machine(),
        "figures": what.kept(found),
    }


def main() -> None:
    """Measure, write the file, and put its figures into the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", metavar="NAME", help="entries of the file; none: all")
    parser.add_argument("--pages-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    held = json.loads(FILE.read_text("utf-8"))
    data = os.environ.get("DEDUP_EVAL")
    for name in [] if options.pages_only else options.only or MEASUREMENTS:
        if name not in MEASUREMENTS:
            if name not in held:
                parser.error(f"{FILE.name} has no {name}; it has {', '.join(held)}")
            command = held[name]["command"]
            sys.stdout.write(f"{name}: recorded; run {command}, and edit {FILE.name}\n")
            continue
        below = MEASUREMENTS[name].data
        if below is not None and (data is None or not Path(data, below).is_dir()):
            sys.stdout.write(f"{name}: left as it is; DEDUP_EVAL has no {below}\n")
            continue
        sys.stdout.write(f"{name} ...\n")
        sys.stdout.flush()
        held[name] = measured(name, None if below is None or data is None else Path(data))
        FILE.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for (page, name), table in tables(held).items():
        put(ROOT / page, name, table)


if __name__ == "__main__":
    main()
