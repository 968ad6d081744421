"""`dedup evaluate`: how good the fingerprints are, on labelled pages.

    set -> fingerprints -> figures -> a headline, the curve over k, slices, mistakes, a plot

The rule kept here: everything that can be wrong with the options is said before a page is read.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import distance_option, json_option
from dedup.model.recipes import recipe_of
from dedup.model.report.differences import differences
from dedup.model.report.texts import inline, running

if TYPE_CHECKING:
    from dedup.lab.evaluate.evaluation import Evaluation, View
    from dedup.lab.evaluate.mistakes import Mistake, MistakenPage
    from dedup.lab.evaluate.score import Figures
    from dedup.lab.evaluate.sets import Source

__all__ = ["evaluate"]

HUNKS = 5  # differences shown of a mistake
TEXT_WORDS = 40  # of each text of a mistake
GENERATED = 500  # pages of the generated set, unless a number is given
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

_NAMES = {
    "all": "all pairs",
    "all_real": "  real pages only",
    "labelled": "labelled pairs",
    "labelled_real": "  real pages only",
}


@click.command(
    epilog="Examples: dedup evaluate --generated; dedup evaluate --set FOLDER --plot pr.svg"
)
@click.option("--set", "folder", type=FOLDER, help="A labelled set: docs/quality.md says how.")
@click.option("--pages", type=FILE, help="JSON lines with id, url and html; .zst: compressed.")
@click.option("--pairs", type=FILE, help="Lines page_a, page_b, label (1, 0 or U) and kind; tabs.")
@click.option("--complete", is_flag=True, help="No other pair than those of --pairs is near.")
@click.option(
    "--generated",
    metavar="[PAGES]",
    type=int,
    is_flag=False,
    flag_value=GENERATED,
    help=f"The generated site of `dedup demo`, its labels known; {GENERATED} pages.",
)
@click.option("--recipe", metavar="ID", help="Default: the newest.")
@distance_option("k in bits; the recipe's by default.")
@click.option("--total", type=click.IntRange(0, 128), help="With the check; the recipe's.")
@click.option("--guard", is_flag=True, help="Keep pages with new links, as the detector does.")
@click.option(
    "--errors", "count", type=click.IntRange(0), default=0, help="How many of each to show."
)
@click.option(
    "--bootstrap",
    "draws",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Draws behind the 95 % intervals; 0: none.",
)
@click.option("--seed", default=1, show_default=True, help="Of the draws, and the generated set.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Draw to an .svg or .png.")
@json_option()
def evaluate(
    folder: Path | None,
    pages: Path | None,
    pairs: Path | None,
    complete: bool,
    generated: int | None,
    recipe: str | None,
    distance: int | None,
    total: int | None,
    guard: bool,
    count: int,
    draws: int,
    seed: int,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Measure how many of the near-duplicates are found, and how many of those found are right.

    Takes --set, or --pages and --pairs, or --generated. Figures are over all pairs of pages where
    all have labels, and over the pairs that are labelled one by one; "real" are pages as their site
    gave them. A short page is never a near-duplicate, as in a crawl.
    """
    from dedup.lab.evaluate.evaluation import evaluate as evaluate_set
    from dedup.lab.evaluate.evaluation import rule_of
    from dedup.lab.evaluate.mistakes import mistakes
    from dedup.lab.evaluate.page_files import measure

    if picture is not None:
        from dedup.lab.evaluate.recall_plot import check_plot

        check_plot(picture)
    known = recipe_of(recipe)
    source = _source(folder, pages, pairs, complete, generated, seed)
    prints = measure(source.pages(terminal.progress(f"reading {source.name}")), known)
    labels = source.labels(prints.ids)
    rule = rule_of(prints, distance, total, guard=guard)
    evaluation, judged = evaluate_set(prints, labels, rule, draws, seed)
    found = mistakes(prints, labels.pages, judged, source.pages(), count) if count else []
    if picture is not None:
        from dedup.lab.evaluate.recall_plot import plot

        plot(evaluation, picture)
    if as_json:
        terminal.out_json(_json(source, evaluation, found))
    else:
        _show(source, evaluation, found)


def _source(
    folder: Path | None,
    pages: Path | None,
    pairs: Path | None,
    complete: bool,
    generated: int | None,
    seed: int,
) -> "Source":
    from dedup.lab.evaluate.sets import FileSet, FolderSet

    given = [folder is not None, pages is not None or pairs is not None, generated is not None]
    if sum(given) != 1:
        raise click.UsageError("Give one of --set, --pages with --pairs, and --generated.")
    if folder is not None:
        return FolderSet(folder)
    if generated is not None:
        from dedup.lab.evaluate.generated import GeneratedSet

        return GeneratedSet(generated, seed)
    if pages is None or pairs is None:
        raise click.UsageError("--pages and --pairs need each other.")
    return FileSet(pages, pairs, complete=complete)


def _json(source: "Source", evaluation: "Evaluation", found: list["Mistake"]) -> dict[str, Any]:
    rule = evaluation.rule
    shown = {
        "set": source.name,
        "pages": evaluation.pages,
        "groups": evaluation.groups,
        "recipe": evaluation.recipe,
        "distance": rule.distance,
        "total_distance": rule.total_distance,
        "min_features": rule.min_features,
        "guard": rule.guard,
        "kept_by_guard": evaluation.kept_by_guard,
    }
    for view in evaluation.views:
        shown[view.name] = msgspec.to_builtins(view.figures) | {
            "intervals": msgspec.to_builtins(view.intervals),
            "curve": msgspec.to_builtins(view.curve),
            "slices": msgspec.to_builtins(view.slices),
        }
    if found:
        shown["errors"] = [_mistake(one) for one in found]
    return shown


def _mistake(one: "Mistake") -> dict[str, Any]:
    a, b = one.a.words, one.b.words
    numbers = {"what": one.what, "kind": one.kind, "distance": one.distance}
    return (
        numbers
        | {"check_distance": one.check_distance, "a": _page(one.a), "b": _page(one.b)}
        | {
            "differences": [
                {"a": running(a[h.a_begin : h.a_end]), "b": running(b[h.b_begin : h.b_end])}
                for h in differences(a, b)
            ]
        }
    )


def _page(page: "MistakenPage") -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(page)
    return shown | {"words": len(page.words), "text": running(page.words)}


# ----------------------------------------------------------------------------------- for a person


def _show(source: "Source", evaluation: "Evaluation", found: list["Mistake"]) -> None:
    rule = evaluation.rule
    terminal.out(
        f"{source.name}: {terminal.count(evaluation.pages, 'page')} in "
        f"{terminal.count(evaluation.groups, 'group')}\n"
        f"recipe {evaluation.recipe}: distance {rule.distance}, total distance "
        f"{rule.total_distance}, pages from {rule.min_features} features up"
    )
    if evaluation.kept_by_guard is not None:
        terminal.out(f"listing guard: {terminal.count(evaluation.kept_by_guard, 'page')} kept")
    terminal.out("")
    _headline(evaluation.views)
    for view in evaluation.views[:2] if evaluation.views[0].name == "all" else evaluation.views[:1]:
        _curve(view)
    _slices(evaluation.views[0])
    for one in found:
        _show_mistake(one)


def _headline(views: list["View"]) -> None:
    rows = []
    for view in views:
        f, within = view.figures, view.intervals
        rows.append(
            (
                _NAMES[view.name],
                f.near_duplicates,
                f.found,
                f.wrong,
                _share(f.precision) + _interval(within.precision if within else None),
                _share(f.recall) + _interval(within.recall if within else None),
                _share(f.f1) + _interval(within.f1 if within else None),
            )
        )
    headers = ("", "near-duplicates", "found", "wrong", "precision", "recall", "F1")
    terminal.out(terminal.table(headers, rows))


def _curve(view: "View") -> None:
    terminal.out(
        f"\n{_NAMES[view.name].strip()}, by k, with the check (total distance) and without"
    )
    rows = [
        (point.k, *_shares(point.with_check), *_shares(point.without_check)) for point in view.curve
    ]
    sorts = ("precision", "recall", "F1")
    terminal.out(terminal.table(("k", *sorts, *(f"{sort}, none" for sort in sorts)), rows))


def _slices(view: "View") -> None:
    for sort, named in view.slices.items():
        terminal.out(f"\n{_NAMES[view.name].strip()}, by {_SORTS[sort]}")
        rows = [
            (name or "-", f.near_duplicates, f.found, f.wrong, *_shares(f))
            for name, f in named.items()
        ]
        headers = (sort, "near-duplicates", "found", "wrong", "precision", "recall", "F1")
        terminal.out(terminal.table(headers, rows))


_SORTS = {
    "kind": "kind",
    "language": "language",
    "words": "words of the shorter page's reference text",
    "features": "features of the shorter page",
    "source": "source",
}


def _show_mistake(one: "Mistake") -> None:
    verb = "called near-duplicates and are not" if one.what == "wrong" else "missed near-duplicates"
    total = one.distance + one.check_distance
    terminal.out(
        f"\n{verb}{one.kind and f' ({one.kind})'}: distance {one.distance}, with the check {total}"
    )
    for name, page in (("A", one.a), ("B", one.b)):
        terminal.out(f"  {name} {page.id} {page.url}".rstrip())
        left_out = len(page.words) - TEXT_WORDS
        more = f" ... {left_out:,} more" if left_out > 0 else ""
        features = terminal.count(page.features, "feature")
        terminal.out(f"    {features}: {running(page.words[:TEXT_WORDS])}{more}")
    hunks = differences(one.a.words, one.b.words)
    for hunk in hunks[:HUNKS]:
        terminal.out(f"  * {inline(one.a.words, one.b.words, hunk, whole=False)}")
    if len(hunks) > HUNKS:
        terminal.out(f"  * and {len(hunks) - HUNKS:,} more differences")


def _shares(figures: "Figures") -> tuple[str, str, str]:
    return _share(figures.precision), _share(figures.recall), _share(figures.f1)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.4f}"


def _interval(within: tuple[float, float] | None) -> str:
    return "" if within is None else f" ({within[0]:.3f} to {within[1]:.3f})"
