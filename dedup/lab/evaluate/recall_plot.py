"""Precision and recall against k, as the paper's Figure 1 shows them.

Manku, Jain and Das Sarma (WWW 2007), Figure 1: "Precision vs recall while varying k".

The rule kept here: the drawing library is loaded only here, and the same figures give the same file.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dedup.lab.evaluate.evaluation import Evaluation, View
from dedup.model.errors import UsageError

__all__ = ["FORMATS", "check_plot", "plot"]

FORMATS = (".svg", ".png")

_SHARES = (("precision", "#1b6ca8", "o"), ("recall", "#c1440e", "s"))
_NAMES = {
    "all": "all pairs",
    "all_real": "all pairs of real pages",
    "labelled": "labelled pairs",
    "labelled_real": "labelled pairs of real pages",
}


def check_plot(path: Path) -> None:
    """Raise UsageError if no plot can be drawn to this file: its name, or the library missing."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a plot is {' or '.join(FORMATS)}; give a name that ends so")
    if find_spec("matplotlib") is None:
        raise UsageError(
            "a plot needs matplotlib, which is not installed; run: pip install 'crawl-dedup[eval]'"
        )


def plot(evaluation: Evaluation, path: Path) -> None:
    """Draw precision and recall, with the check fingerprint and without, against k.

    One panel shows the main view, a second its real pages. The suffix of path says how: .svg or .png. Raises UsageError as check_plot(), and OSError.
    """
    check_plot(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = evaluation.views[0].name
    views = [view for view in evaluation.views if view.name in {first, f"{first}_real"}]
    with rc_context({"svg.hashsalt": "dedup", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(4.6 * len(views), 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(views), squeeze=False)[0]
        for panel, view in zip(panels, views, strict=True):
            _draw(panel, view, evaluation.rule.distance)
        panels[0].set_ylabel("share")
        panels[0].legend(loc="lower left", fontsize=8)
        total = evaluation.rule.total_distance
        figure.suptitle(
            f"recipe {evaluation.recipe}, {evaluation.pages:,} pages, total distance {total}"
        )
        dated = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, metadata=dated)


def _draw(panel: Any, view: View, distance: int) -> None:
    ks = [point.k for point in view.curve]
    for checked, line in ((True, "-"), (False, "--")):
        for share, colour, marker in _SHARES:
            points = [p.with_check if checked else p.without_check for p in view.curve]
            heights = [getattr(p, share) for p in points]
            panel.plot(
                ks,
                [float("nan") if height is None else height for height in heights],
                line,
                color=colour,
                marker=marker,
                markersize=4 if checked else 2.5,
                linewidth=1.6 if checked else 1,
                label=f"{share}, {'with' if checked else 'without'} check",
            )
    panel.axvline(distance, color="#888888", linewidth=0.8, linestyle=":")
    panel.set_title(_NAMES[view.name], fontsize=9)
    panel.set_xlabel("k, Hamming distance in bits")
    panel.set_xticks(ks)
    panel.set_ylim(0, 1.02)
    panel.grid(visible=True, linewidth=0.3)
