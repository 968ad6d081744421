"""Precision against recall while the similarity that is asked for varies, a curve for each set of pages.

    Evaluation -> a curve for all pairs and one for real pages, beside those of the simhash alone by k

Manku, Jain and Das Sarma (WWW 2007), Figure 1, draw the same while varying k.

Invariant: the drawing library is loaded only here, and the same figures give the same file.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dedup.evaluate.score import Evaluation
from dedup.model.errors import UsageError

FORMATS = (".svg", ".png")

_COLOURS = ("#1b6ca8", "#c1440e")
_NAMES = {
    "all": "all pairs",
    "all_real": "real pages",
    "labelled": "labelled pairs",
    "labelled_real": "real pages",
}

Share = float | None


def check_plot(path: Path) -> None:
    """Raise UsageError if no plot can be drawn to this file: its name, or the library missing."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a plot is {' or '.join(FORMATS)}; give a name that ends so")
    if find_spec("matplotlib") is None:
        raise UsageError(
            "a plot needs matplotlib, which is not installed; run: pip install 'crawl-dedup[eval]'"
        )


def plot(evaluation: Evaluation, path: Path) -> None:
    """Draw the main view and its real pages. The suffix of path says how: .svg or .png.

    Raises UsageError as check_plot(), and OSError.
    """
    title = f"recipe {evaluation.recipe}, {evaluation.pages:,} pages"
    first = evaluation.views[0].name
    with _panel(path, title) as panel:
        views = [view for view in evaluation.views if view.name in {first, f"{first}_real"}]
        for colour, view in zip(_COLOURS, views, strict=False):
            name = _NAMES[view.name]
            points = [(t.figures.recall, t.figures.precision) for t in view.thresholds]
            _curve(panel, points, colour, f"{name}, by similarity")
            alone = [(p.alone.recall, p.alone.precision) for p in view.curve]
            _curve(panel, alone, colour, f"{name}, simhash alone by k", "--")
            _mark(panel, view.figures.recall, view.figures.precision, colour)


@contextmanager
def drawn(path: Path, width: float, height: float) -> Iterator[Any]:
    """Give an empty figure, in inches, which is written when the block ends; the same one is the same file."""
    check_plot(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "dedup", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        dated = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, metadata=dated)


@contextmanager
def _panel(path: Path, title: str) -> Iterator[Any]:
    with drawn(path, 6.4, 4.6) as figure:
        panel = figure.subplots()
        yield panel
        panel.set_title(f"{title}\n(the ring: what the recipe asks for)", fontsize=9)
        panel.set_xlabel("recall")
        panel.set_ylabel("precision")
        panel.set_xlim(0, 1.02)
        panel.set_ylim(0, 1.02)
        panel.grid(visible=True, linewidth=0.3)
        panel.legend(loc="lower left", fontsize=8)


def _curve(
    panel: Any, points: Iterable[tuple[Share, Share]], colour: str, name: str, line: str = "-"
) -> None:
    known = [(x, y) for x, y in points if x is not None and y is not None]
    style = {
        "color": colour,
        "marker": "o",
        "markersize": 2.5,
        "linewidth": 1.4 if line == "-" else 1,
    }
    panel.plot([x for x, _ in known], [y for _, y in known], line, label=name, **style)


def _mark(panel: Any, x: Share, y: Share, colour: str) -> None:
    if x is not None and y is not None:
        panel.plot([x], [y], "o", color=colour, markersize=9, fillstyle="none")
