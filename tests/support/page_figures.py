"""Figures in their place in a page: what stands between a pair of marks is replaced.

    <!-- NAME: begin -->  figures  <!-- NAME: end -->

Invariant: only what stands between the two marks is written; the words around it stay.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dedup.cli.bench import json_file_option, out_result
from dedup.lab.evaluate.recall_plot import check_plot
from dedup.model.errors import UsageError


def marked(page: Path, name: str) -> tuple[str, str, str]:
    """Return a page's text before, between and after its marks, the marks outside.

    Raises UsageError if it has none, OSError if it cannot be read.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    text = page.read_text(encoding="utf-8")
    if not 0 <= text.find(begin) < text.find(end):
        raise UsageError(f"{page} has no place for these figures: it needs the lines {begin}{end}")
    first, last = text.index(begin) + len(begin), text.index(end)
    return text[:first], text[first:last], text[last:]


def between(page: Path, name: str) -> str:
    """Return what stands between the marks. Raises as marked()."""
    return marked(page, name)[1]


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks. Raises as marked()."""
    before, _, after = marked(page, name)
    page.write_text(f"{before}{text}\n{after}", encoding="utf-8")


def rows(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headers, ["---"] * len(headers), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def short(number: float) -> str:
    """Return a number with about three digits: "0.26", "25.7", "4,070"."""
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def rate(number: float | None) -> str:
    """Return how many a second: "855 k", "3.41 M", or "-" for None."""
    if number is None:
        return "-"
    return f"{number / 1e6:,.2f} M" if number >= 1e6 else f"{number / 1e3:,.0f} k"


# ------------------------------------------------------------- commands that write such pages


def figure_options(*names: str, plot: bool = False) -> Callable[[click.Command], click.Command]:
    """Return what gives a command --json, --page, for figures between marks of these names, and --plot.

    Page and plot are checked before anything is measured; show() takes what they give.
    """

    def check_page(_context: object, _option: object, page: Path | None) -> Path | None:
        for name in names if page is not None else ():
            marked(page, name)
        return page

    def check_plot_file(_context: object, _option: object, path: Path | None) -> Path | None:
        if path is not None:
            check_plot(path)
        return path

    marks = " and ".join(f"`{name}`" for name in names)
    options = [json_file_option()]
    options.append(
        click.Option(
            ["--page", "page_file"],
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            callback=check_page,
            help=f"Markdown page whose figures are replaced, between the marks {marks}.",
        )
    )
    if plot:
        options.append(
            click.Option(
                ["--plot", "plot_file"],
                type=click.Path(dir_okay=False, path_type=Path),
                callback=check_plot_file,
                help="Draw the result to an .svg or .png file.",
            )
        )

    def add(command: click.Command) -> click.Command:
        command.params += options
        return command

    return add


def show(
    result: Any,
    given: Mapping[str, Any],
    text: Callable[[Any], str],
    parts: Mapping[str, Callable[[Any], str]],
    plot: Callable[[Any, Path], None] | None = None,
) -> None:
    """Write a result as the options of figure_options() say; parts are what stands between each pair of marks."""
    if plot is not None and given["plot_file"] is not None:
        plot(result, given["plot_file"])
    for name, part in parts.items() if given["page_file"] is not None else ():
        put(given["page_file"], name, part(result))
    out_result(result, lambda: text(result), given["json_file"])
