"""`dedup evaluate`: how good the fingerprints are, on labelled pages.

    set -> fingerprints -> figures -> a headline, the curve over k, slices, a plot

Invariant: everything that can be wrong with the options is said before a page is read.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import (
    distance_option,
    identity_option,
    json_option,
    similarity_option,
)
from dedup.model.policy import Options, Policy, Similarity
from dedup.model.recipes import recipe_of

if TYPE_CHECKING:
    from dedup.evaluate.score import Evaluation, Figures, View
    from dedup.evaluate.sets import FileSet

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

_NAMES = {
    "all": "all pairs",
    "all_real": "  real pages only",
    "labelled": "labelled pairs",
    "labelled_real": "  real pages only",
}


@click.command(epilog="Example: dedup evaluate --set FOLDER --plot pr.svg")
@click.option("--set", "folder", type=FOLDER, help="Folder of a labelled set.")
@click.option("--pages", type=FILE, help="Pages: JSON lines with id, url and html, also .zst.")
@click.option(
    "--pairs",
    type=FILE,
    help="Labels: page_a, page_b, label (1, 0, U) and kind, with tabs between.",
)
@click.option("--complete", is_flag=True, help="The list of --pairs has every near-duplicate.")
@click.option("--recipe", metavar="ID", help="Recipe to evaluate. [default: the newest]")
@distance_option("Greatest distance of near-duplicates, in bits. [default: the recipe's]")
@similarity_option
@identity_option
@click.option(
    "--bootstrap",
    "draws",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Number of bootstrap draws for the 95 % intervals; 0: no intervals.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of draws.")
@click.option(
    "--plot",
    "picture",
    type=click.Path(path_type=Path),
    help="Draw precision and recall to this .svg or .png file.",
)
@json_option()
def evaluate(
    folder: Path | None,
    pages: Path | None,
    pairs: Path | None,
    complete: bool,
    recipe: str | None,
    distance: int | None,
    similarity: Similarity | None,
    identity: bool,
    draws: int,
    seed: int,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Measure how many near-duplicates are found (recall), and how many of those are right (precision).

    Give either --set, or --pages with --pairs. Figures are over all pairs of pages if
    all have labels, and over the pairs that are labelled one by one; "real" pages are as their site
    gave them. A site is a registrable domain; a syndicated copy is of another.
    """
    from dedup.evaluate.score import evaluate as evaluate_set
    from dedup.evaluate.sets import measure

    if picture is not None:
        from dedup.evaluate.recall_plot import check_plot

        check_plot(picture)
    known = recipe_of(recipe)
    policy = Options(distance=distance, similarity=similarity).policy(known)
    source = _source(folder, pages, pairs, complete)
    prints = measure(source.pages(terminal.progress(f"reading {source.name}")), known)
    labels = source.labels(prints.ids)
    evaluation, _ = evaluate_set(prints, labels, policy, draws, seed, identity=identity)
    if picture is not None:
        from dedup.evaluate.recall_plot import plot

        plot(evaluation, picture)
    if as_json:
        terminal.out_json(_json(source, evaluation))
    else:
        _show(source, evaluation)


def _source(
    folder: Path | None, pages: Path | None, pairs: Path | None, complete: bool
) -> "FileSet":
    from dedup.evaluate.sets import FileSet, FolderSet

    if (folder is None) == (pages is None and pairs is None):
        raise click.UsageError("Give either --set, or --pages with --pairs.")
    if folder is not None:
        return FolderSet(folder)
    if pages is None or pairs is None:
        raise click.UsageError("--pages and --pairs need each other.")
    return FileSet(pages, pairs, complete=complete)


def _json(source: "FileSet", evaluation: "Evaluation") -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(evaluation)
    views = plain.pop("views")
    shown = {"set": source.name} | plain | _policy(evaluation.policy)
    del shown["policy"]
    for view in views:
        name, figures = view.pop("name"), view.pop("figures")
        shown[name] = figures | view
    return shown


def _policy(policy: Policy) -> dict[str, Any]:
    left_out = ("scope", "reservation_seconds")
    return {n: v for n, v in msgspec.structs.asdict(policy).items() if n not in left_out}


# ----------------------------------------------------------------------------------- for a person


def _show(source: "FileSet", evaluation: "Evaluation") -> None:
    unread = f", {evaluation.unread:,} of them unread" if evaluation.unread else ""
    terminal.out(
        f"{source.name}: {terminal.count(evaluation.pages, 'page')} in "
        f"{terminal.count(evaluation.groups, 'group')}{unread}\n"
        f"recipe {evaluation.recipe}: {_asked(evaluation.policy)}\n"
    )
    _headline(evaluation.views)
    for view in evaluation.views[:2] if evaluation.views[0].name == "all" else evaluation.views[:1]:
        _curve(view)
    _slices(evaluation.views[0])


def _asked(policy: Policy) -> str:
    return (
        f"distance {policy.distance}; similarity {policy.similarity} on one site, "
        f"{policy.similarity_across} across, {policy.similarity_short} below "
        f"{policy.full_features} features; none below {policy.min_features}"
    )


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
        p = view.paper
        rows.append(("    preset paper", p.near_duplicates, p.found, p.wrong, *_shares(p)))
    headers = ("", "near-duplicates", "found", "wrong", "precision", "recall", "F1")
    terminal.out(terminal.table(headers, rows))


def _curve(view: "View") -> None:
    terminal.out(
        f"\n{_NAMES[view.name].strip()}, by k, confirmed by similarity and by the simhash alone"
    )
    rows = [(point.k, *_shares(point.confirmed), *_shares(point.alone)) for point in view.curve]
    sorts = ("precision", "recall", "F1")
    terminal.out(terminal.table(("k", *sorts, *(f"{sort}, alone" for sort in sorts)), rows))
    terminal.out(f"\n{_NAMES[view.name].strip()}, by similarity asked of pages of one site")
    asked = [(f"{point.similarity:.3f}", *_shares(point.figures)) for point in view.thresholds]
    terminal.out(terminal.table(("similarity", *sorts), asked))


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


def _shares(figures: "Figures") -> tuple[str, str, str]:
    return _share(figures.precision), _share(figures.recall), _share(figures.f1)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.4f}"


def _interval(within: tuple[float, float] | None) -> str:
    return "" if within is None else f" ({within[0]:.3f} to {within[1]:.3f})"
