"""A table benchmark's figures as Markdown, in their place in a page.

The rule kept here: only what stands between the two marks is written; the words around it stay.
"""

from pathlib import Path

from dedup.lab.bench.samples import Samples
from dedup.lab.bench.tables.tables_comparison import Contender, Setting, TablesBench
from dedup.model.errors import UsageError

__all__ = ["check_page", "rate", "short", "write_page"]

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def check_page(path: Path) -> None:
    """Raise UsageError if a page has no place for figures, OSError if it cannot be read."""
    text = path.read_text(encoding="utf-8")
    if not 0 <= text.find(BEGIN) < text.find(END):
        raise UsageError(f"{path} has no place for figures; it needs the lines {BEGIN} and {END}")


def write_page(result: TablesBench, path: Path) -> None:
    """Put the figures between the marks of a page. Raises as check_page()."""
    check_page(path)
    text = path.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    load = "{:.1f} at the start, {:.1f} at the end".format(*result.load)
    parts = [
        f"{result.machine.text()}. Load {load}; {result.rounds} rounds.",
        *(_setting(setting) for setting in result.settings),
    ]
    if result.missing:
        parts.append(f"Not installed, and so left out: {', '.join(result.missing)}.")
    path.write_text(before + BEGIN + "\n" + "\n\n".join(parts) + "\n" + after, encoding="utf-8")


def _setting(setting: Setting) -> str:
    lines = [
        f"### {setting.size:,} {setting.data}, k = {setting.k}",
        "",
        f"{setting.matches:,.1f} matches a probe.",
        "",
        "| | us a probe | batched | times the first (range) | bytes | build/s | insert/s | load/s | wrong |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(contender) for contender in setting.contenders),
    ]
    if setting.left_out:
        lines += ["", f"Left out: {'; '.join(setting.left_out)}."]
    return "\n".join(lines)


def _row(one: Contender) -> str:
    size = one.grown_bytes if one.grown_bytes is not None else one.own_bytes
    cells = (
        one.name,
        short(one.probe_us.median),
        short(one.batch_us.median),
        _ratio(one.batch_ratio),
        "-" if size is None else f"{size:,.0f}",
        rate(one.build_per_second),
        rate(one.insert_per_second.median if one.insert_per_second else None),
        rate(one.load_per_second),
        f"{one.mistakes} of {one.checked}",
    )
    return f"| {' | '.join(cells)} |"


def _ratio(ratio: Samples) -> str:
    return ratio.text(2 if ratio.median < 10 else 0)


def short(number: float) -> str:
    """Return a number with about three digits: "0.26", "25.7", "4,070"."""
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def rate(number: float | None) -> str:
    """Return how many a second: "855 k", "3.41 M", or "-" for None."""
    if number is None:
        return "-"
    return f"{number / 1e6:,.2f} M" if number >= 1e6 else f"{number / 1e3:,.0f} k"
