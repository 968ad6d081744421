"""The plot of a table benchmark: batched probes against the size, a panel for each data and k.

Invariant: the same figures give the same file.
"""

from pathlib import Path
from typing import Any

from tables_comparison import Setting, TablesBench

from dedup.lab.evaluate.recall_plot import drawn

__all__ = ["plot"]

_COLOURS = ("#c1440e", "#e08a1e", "#8f2d56", "#1b6ca8", "#4f9dd9", "#7a8b99", "#3a7d44", "#8a6d3b")
_MARKS = "osD^v<>PX*"


def plot(result: TablesBench, path: Path) -> None:
    """Draw it; the suffix of path says how: .svg or .png. Raises OSError if it cannot be written."""
    kinds = list(dict.fromkeys(setting.data for setting in result.settings))
    distances = list(dict.fromkeys(setting.k for setting in result.settings))
    names = list(
        dict.fromkeys(one.name for setting in result.settings for one in setting.contenders)
    )
    with drawn(path, 2 + 2.8 * len(distances), 0.8 + 3 * len(kinds)) as figure:
        panels = figure.subplots(
            len(kinds), len(distances), squeeze=False, sharex=True, sharey=True
        )
        for row, kind in zip(panels, kinds, strict=True):
            for panel, k in zip(row, distances, strict=True):
                shown = [one for one in result.settings if (one.data, one.k) == (kind, k)]
                _draw(panel, shown, names)
                panel.set_title(f"{kind}, k = {k}", fontsize=9)
            row[0].set_ylabel("probes a second, one core")
        for panel in panels[-1]:
            panel.set_xlabel("fingerprints stored")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)


def _draw(panel: Any, settings: list[Setting], names: list[str]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    for i, name in enumerate(names):
        points = sorted(
            (setting.size, 1e6 / one.batch_us.median)
            for setting in settings
            for one in setting.contenders
            if one.name == name
        )
        panel.plot(
            [size for size, _ in points],
            [rate for _, rate in points],
            marker=_MARKS[i % len(_MARKS)],
            color=_COLOURS[i % len(_COLOURS)],
            label=name,
            linewidth=1.2,
            markersize=4,
        )
    panel.grid(visible=True, which="major", linewidth=0.3)
