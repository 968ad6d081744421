"""`dedup evaluate`: precision and recall on labelled pages."""

from pathlib import Path
from typing import Any

import click

from dedup.cli import terminal
from dedup.cli.common_options import json_option, similarity_option
from dedup.model.errors import UsageError
from dedup.model.policy import Options, Similarity
from dedup.model.recipes import recipe_of

PATH = click.Path(exists=True, path_type=Path)
NAMES = {"all": "all pairs", "labelled": "labelled pairs"}  # others: of real pages only
COUNTS, SHARES = ("near_duplicates", "found", "wrong"), ("precision", "recall", "f1")


@click.command(epilog="Example: dedup evaluate --pages pages.jsonl --pairs pairs.tsv")
@click.option("--set", "folder", type=PATH, help="Folder of a labelled set.")
@click.option("--pages", type=PATH, help="Pages: JSON lines with id, url and html, also .zst.")
@click.option("--pairs", type=PATH, help="Labels: page_a, page_b, label (1, 0, U), tabs between.")
@similarity_option
@json_option()
def evaluate(
    folder: Path | None,
    pages: Path | None,
    pairs: Path | None,
    similarity: Similarity | None,
    as_json: bool,
) -> None:
    """Measure how many near-duplicates are found (recall), and how many of those are right (precision).

    Give either --set, or --pages with --pairs. Figures are over all pairs of pages if all have labels, and over the
    pairs that are labelled one by one; "real" pages are as their site gave them.
    """
    from dedup.evaluate import score, sets

    if folder is not None and pages is None and pairs is None:
        pages, pairs = sets.either(folder, "pages.jsonl"), folder / "pairs.tsv"
        if not pages.is_file():
            raise UsageError(f"{folder} is no labelled set: there is no pages.jsonl or .zst in it")
    elif folder is not None or pages is None or pairs is None:
        raise click.UsageError("Give either --set, or --pages with --pairs.")
    recipe, name = recipe_of(), str(folder or pages)
    policy = Options(similarity=similarity).policy(recipe)
    measured = score.measure(sets.read_pages(pages, terminal.progress(f"reading {pages}")))
    labels = sets.read_labels(pairs, folder, [page.id for page in measured])
    views = score.evaluate(measured, labels, policy)
    if as_json:
        asked = {"distance": policy.distance, "similarity": policy.similarity}
        of = {"set": name, "pages": len(measured), "recipe": recipe.id}
        terminal.out_json(of | asked | views)
        return
    asks = f"distance {policy.distance}, similarity {policy.similarity}"
    terminal.out(f"{name}: {len(measured):,} pages; recipe {recipe.id}, {asks}")
    terminal.out("")
    rows = [
        (NAMES.get(name, "  real pages only"), *(v[c] for c in COUNTS), *_shares(v))
        for name, v in views.items()
    ]
    terminal.out_lines(terminal.table(("", "near-duplicates", *COUNTS[1:], *SHARES), rows))
    first, view = next(iter(views.items()))
    terminal.out("")
    terminal.out(f"{NAMES[first]}, by distance k, confirmed by similarity and the simhash alone")
    curve = [(p["k"], *_shares(p["confirmed"]), *_shares(p["alone"])) for p in view["curve"]]
    terminal.out_lines(terminal.table(("k", *SHARES, *(f"{s}, alone" for s in SHARES)), curve))


def _shares(figures: dict[str, Any]) -> list[str]:
    return ["-" if figures[name] is None else f"{figures[name]:.4f}" for name in SHARES]
