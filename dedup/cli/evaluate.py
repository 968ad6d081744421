"""`dedup evaluate`: how good the fingerprints are, on labelled pages.

    set -> fingerprints -> figures -> a headline, the curve over k, slices, mistakes, a plot
    corpora -> fingerprints -> a crawl of each -> a line each, mistakes, a plot

Invariant: everything that can be wrong with the options is said before a page is read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from dedup.cli import terminal
from dedup.cli.common_options import (
    check_html,
    distance_option,
    html_option,
    identity_option,
    json_option,
    similarity_option,
)
from dedup.model.policy import Options, Policy, Similarity
from dedup.model.recipes import Recipe, recipe_of
from dedup.report.texts import differences, inline, running

if TYPE_CHECKING:
    from dedup.lab.evaluate.corpora import CorpusFigures, CorpusPoint
    from dedup.lab.evaluate.mistakes import Mistake
    from dedup.lab.evaluate.score import Evaluation, Figures, View
    from dedup.lab.evaluate.sets import Source


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


class _Asked(NamedTuple):
    """What is evaluated and how it is shown; errors is the number of mistakes of each kind."""

    recipe: Recipe
    policy: Policy
    identity: bool
    errors: int
    picture: Path | None
    as_json: bool


@click.command(
    epilog="Examples: dedup evaluate --generated; dedup evaluate --set FOLDER --plot pr.svg; "
    "dedup evaluate --corpora FOLDER --errors 10 --html wrong.html"
)
@click.option(
    "--set", "folder", type=FOLDER, help="Folder of a labelled set (docs/appendix/reading.md)."
)
@click.option(
    "--corpora", type=FOLDER, help="Folder of whole sites: NAME.jsonl and NAME.truth.jsonl.zst."
)
@click.option("--pages", type=FILE, help="Pages: JSON lines with id, url and html, also .zst.")
@click.option(
    "--pairs",
    type=FILE,
    help="Labels: page_a, page_b, label (1, 0, U) and kind, with tabs between.",
)
@click.option("--complete", is_flag=True, help="The list of --pairs has every near-duplicate.")
@click.option(
    "--generated",
    metavar="[PAGES]",
    type=int,
    is_flag=False,
    flag_value=GENERATED,
    help=f"Evaluate on the generated site of `dedup demo`. [default: {GENERATED} pages]",
)
@click.option("--recipe", metavar="ID", help="Recipe to evaluate. [default: the newest]")
@distance_option("Greatest distance of near-duplicates, in bits. [default: the recipe's]")
@similarity_option
@identity_option
@click.option(
    "--errors",
    "count",
    type=click.IntRange(0),
    default=0,
    help="Number of mistakes of each kind to show.",
)
@click.option(
    "--bootstrap",
    "draws",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Number of bootstrap draws for the 95 % intervals; 0: no intervals.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of draws and generated site.")
@click.option(
    "--plot",
    "picture",
    type=click.Path(path_type=Path),
    help="Draw precision and recall to this .svg or .png file.",
)
@html_option
@json_option()
def evaluate(
    folder: Path | None,
    corpora: Path | None,
    pages: Path | None,
    pairs: Path | None,
    complete: bool,
    generated: int | None,
    recipe: str | None,
    distance: int | None,
    similarity: Similarity | None,
    identity: bool,
    count: int,
    draws: int,
    seed: int,
    picture: Path | None,
    page: str | None,
    as_json: bool,
) -> None:
    """Measure how many near-duplicates are found (recall), and how many of those are right (precision).

    Needs --set, --corpora, --pages and --pairs, or --generated. Figures are over all pairs of pages if
    all have labels, and over the pairs that are labelled one by one; "real" pages are as their site
    gave them. A site is a registrable domain; a syndicated copy is of another. A corpus is crawled in
    its order, and each drop is compared with the page it was dropped for. --html shows the errors.
    """
    check_html(page, as_json)
    if page is not None and not count:
        raise click.UsageError("--html shows errors: say how many, --errors N.")
    if picture is not None:
        from dedup.lab.evaluate.recall_plot import check_plot

        check_plot(picture)
    known = recipe_of(recipe)
    policy = Options(distance=distance, similarity=similarity).policy(known)
    asked = _Asked(known, policy, identity, count, picture, as_json)
    if corpora is not None:
        if (folder, pages, pairs, generated) != (None,) * 4:
            raise click.UsageError("Give one of --set, --corpora, --pages, and --generated.")
        shown = _corpora(corpora, asked)
        name = str(corpora)
    else:
        source = _source(folder, pages, pairs, complete, generated, seed)
        shown = _set(source, asked, draws, seed)
        name = source.name
    if page is not None:
        from dedup.lab.evaluate.mistakes import mistakes_page

        with click.open_file(page, "wb") as file:
            file.write(mistakes_page(name, shown).encode("utf-8", "replace"))


def _set(source: "Source", asked: _Asked, draws: int, seed: int) -> list["Mistake"]:
    from dedup.lab.evaluate.mistakes import mistakes
    from dedup.lab.evaluate.score import evaluate as evaluate_set
    from dedup.lab.evaluate.sets import measure

    prints = measure(source.pages(terminal.progress(f"reading {source.name}")), asked.recipe)
    labels = source.labels(prints.ids)
    evaluation, judged = evaluate_set(
        prints, labels, asked.policy, draws, seed, identity=asked.identity
    )
    found = (
        mistakes(prints, labels.pages, judged, source.pages(), asked.errors) if asked.errors else []
    )
    if asked.picture is not None:
        from dedup.lab.evaluate.recall_plot import plot

        plot(evaluation, asked.picture)
    if asked.as_json:
        terminal.out_json(_json(source, evaluation, found))
    else:
        _show(source, evaluation, found)
    return found


def _corpora(folder: Path, asked: _Asked) -> list["Mistake"]:
    from dedup.lab.evaluate.corpora import all_figures, corpora_in, evaluate_corpus

    figures, found = [], []
    for corpus in corpora_in(folder):
        progress = terminal.progress(f"reading {corpus.name}")
        one, wrong = evaluate_corpus(
            corpus,
            asked.recipe,
            asked.policy,
            identity=asked.identity,
            errors=asked.errors,
            progress=progress,
        )
        figures.append(one)
        found += wrong
    if asked.picture is not None:
        from dedup.lab.evaluate.recall_plot import plot_corpora

        plot_corpora(figures, asked.picture)
    total = all_figures(figures)
    if asked.as_json:
        shown = {"recipe": asked.recipe.id} | _policy(asked.policy) | {"identity": asked.identity}
        shown |= msgspec.to_builtins({"corpora": figures, "all": total})
        terminal.out_json(shown | ({"errors": [_mistake(one) for one in found]} if found else {}))
    else:
        terminal.out(f"recipe {asked.recipe.id}: {_asked(asked.policy)}\n")
        terminal.out(_corpora_table(figures, total))
        for mistake in found:
            _show_mistake(mistake)
    return found


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
        raise click.UsageError(
            "Give one of --set, --corpora, --pages with --pairs, and --generated."
        )
    if folder is not None:
        return FolderSet(folder)
    if generated is not None:
        from dedup.lab.evaluate.sets import GeneratedSet

        return GeneratedSet(generated, seed)
    if pages is None or pairs is None:
        raise click.UsageError("--pages and --pairs need each other.")
    return FileSet(pages, pairs, complete=complete)


def _json(source: "Source", evaluation: "Evaluation", found: list["Mistake"]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(evaluation)
    views = plain.pop("views")
    shown = {"set": source.name} | plain | _policy(evaluation.policy)
    del shown["policy"]
    for view in views:
        name, figures = view.pop("name"), view.pop("figures")
        shown[name] = figures | view
    if found:
        shown["errors"] = [_mistake(one) for one in found]
    return shown


def _policy(policy: Policy) -> dict[str, Any]:
    left_out = ("scope", "reservation_seconds")
    return {n: v for n, v in msgspec.structs.asdict(policy).items() if n not in left_out}


def _mistake(one: "Mistake") -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    a, b = one.a.words, one.b.words
    for side, words in (("a", a), ("b", b)):
        plain[side] |= {"words": len(words), "text": running(words)}
    plain["differences"] = [
        {"a": running(a[h.a_begin : h.a_end]), "b": running(b[h.b_begin : h.b_end])}
        for h in differences(a, b)
    ]
    return plain


# ----------------------------------------------------------------------------------- for a person


def _show(source: "Source", evaluation: "Evaluation", found: list["Mistake"]) -> None:
    from dedup.lab.evaluate.sets import GeneratedSet

    unread = f", {evaluation.unread:,} of them unread" if evaluation.unread else ""
    terminal.out(
        f"{source.name}: {terminal.count(evaluation.pages, 'page')} in "
        f"{terminal.count(evaluation.groups, 'group')}{unread}\n"
        f"recipe {evaluation.recipe}: {_asked(evaluation.policy)}\n"
    )
    _headline(evaluation.views)
    if isinstance(source, GeneratedSet):
        terminal.out(
            "\nOn generated pages the preset paper finds more than the default, on labelled sets of real "
            "pages it finds less (docs/quality.md)."
        )
    for view in evaluation.views[:2] if evaluation.views[0].name == "all" else evaluation.views[:1]:
        _curve(view)
    _slices(evaluation.views[0])
    for one in found:
        _show_mistake(one)


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


def _show_mistake(one: "Mistake") -> None:
    from dedup.lab.evaluate.mistakes import described

    terminal.out(f"\n{described(one)}")
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


# ----------------------------------------------------------------------------------- whole sites


def _corpora_table(corpora: Sequence["CorpusFigures"], total: "CorpusPoint") -> str:
    """Return the table, and below it what all of them come to."""
    headers = (
        "corpus",
        "pages",
        "drops",
        "P J>=.8",
        "wrong J<.5",
        "recall J>=.9 (of)",
        "exempt (twins)",
    )
    rows: list[tuple[str, ...]] = [
        (
            one.corpus,
            f"{one.pages:,}",
            f"{one.figures.drops:,}",
            *_of_corpus(one.figures),
            ", ".join(f"{reason} {n:,} ({had})" for reason, (n, had) in one.exempt.items()),
        )
        for one in corpora
    ]
    pages = sum(one.pages for one in corpora)
    rows.append(("all", f"{pages:,}", f"{total.drops:,}", *_of_corpus(total), ""))
    return terminal.table(headers, rows)


def _of_corpus(point: "CorpusPoint") -> tuple[str, str, str]:
    return (
        _rounded(point.precision),
        f"{point.wrong:,}",
        f"{_rounded(point.recall)} ({point.twins:,})",
    )


def _rounded(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"
