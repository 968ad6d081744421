"""The plots of pages, made from the file of measurements (figures.py), as figure_pages.py makes its tables.

Invariant: nothing is measured, and the same figures give the same file.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dedup.evaluate.recall_plot import drawn

COLOURS = ("#c1440e", "#e08a1e", "#8f2d56", "#1b6ca8", "#4f9dd9", "#7a8b99", "#3a7d44", "#8a6d3b")
MARKS = "osD^v<>PX*"

Points = Sequence[tuple[float, float]]


def tables(held: Any, path: Path) -> None:
    """Batched probes against the number stored, a panel for each data and k."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for entry, each in held.items():
        if not entry.startswith("tables-"):
            continue
        _, kind, size, k = entry.split("-")
        at = each["figures"]["head"].index("batched")
        curves = found.setdefault((kind, k.removeprefix("k")), {})
        for line in each["figures"]["rows"]:
            rate = 1e6 / float(line[at].replace(",", ""))
            curves.setdefault(line[0], []).append((float(size.removesuffix("m")) * 1e6, rate))
    kinds, distances = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    names = list(dict.fromkeys(name for curves in found.values() for name in curves))
    with drawn(path, 2 + 2.8 * len(distances), 0.8 + 3 * len(kinds)) as figure:
        panels = figure.subplots(
            len(kinds), len(distances), squeeze=False, sharex=True, sharey=True
        )
        for line, kind in zip(panels, kinds, strict=True):
            for panel, k in zip(line, distances, strict=True):
                curves = found[kind, k]
                shown = {name: curves.get(name, []) for name in names}
                _draw(panel, shown, f"{kind}, k = {k}")
                panel.set_xscale("log")
        _label(figure, panels, "fingerprints stored", "probes a second, one core")


def _draw(panel: Any, curves: Mapping[str, Points], title: str) -> None:
    for i, (name, points) in enumerate(curves.items()):
        panel.plot(
            [x for x, _ in points],
            [y for _, y in points],
            marker=MARKS[i % len(MARKS)],
            color=COLOURS[i % len(COLOURS)],
            label=name,
            linewidth=1.2,
            markersize=4,
        )
    panel.set_yscale("log")
    panel.set_title(title, fontsize=9)
    panel.grid(visible=True, which="major", linewidth=0.3)


def _label(figure: Any, panels: Any, across: str, up: str) -> None:
    for panel in panels[-1]:
        panel.set_xlabel(across)
    for panel in panels[:, 0]:
        panel.set_ylabel(up)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)


PLOTS: dict[str, Callable[[Any, Path], None]] = {
    "docs/appendix/benchmarks/tables.svg": tables,
}
