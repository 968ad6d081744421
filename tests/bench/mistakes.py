"""The pairs that were judged wrongly, with both texts, to be looked at, also side by side in a page.

    python tests/bench mistakes --set FOLDER [--html FILE]
    python tests/bench mistakes --corpora FOLDER

    judged pairs -> wrong and missed ones, of every kind in turn -> the pages again -> their words

Invariant: which mistakes are shown is not chance. Kinds take turns, so that the commonest
does not hide the others; within a kind the worst come first (for wrong ones the most alike, for missed ones the least).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

import click
import msgspec
import numpy as np
from whole_sites import SAME, contents_of, corpora_in, held_to_truth, judge, twins

from dedup.cli import terminal
from dedup.core.fingerprint import distance, main_words, similarity
from dedup.evaluate.score import JudgedPairs, Pairs, evaluate
from dedup.evaluate.sets import FolderSet, Numbers, Pages, Prints, SetPage, measure
from dedup.model.names import count, running
from dedup.model.policy import Options, Policy
from dedup.model.recipes import Recipe, recipe_of
from dedup.report.html import html_page
from dedup.report.parts import ListEntry, Part, ReportPage, Section, Text, Texts
from dedup.report.texts import alike, differences, inline

HUNKS = 5  # differences shown of a mistake
TEXT_WORDS = 40  # of each text of a mistake
CONTEXT = 25  # words that the page shows before and after a difference


class MistakenPage(msgspec.Struct, frozen=True):
    """A page of a mistake; words are those the reader kept, in order."""

    id: str
    url: str
    kind: str
    features: int
    words: list[str]


class Mistake(msgspec.Struct, frozen=True):
    """A pair judged wrongly; the distance is in bits.

    what        "wrong": called near-duplicates and are not; "missed": are and were not called so
    kind        the pair's, as in the slices; of whole sites the site
    similarity  estimated, of what was read
    content     that of the reference texts; None where the set does not tell
    """

    what: Literal["wrong", "missed"]
    kind: str
    distance: int
    similarity: float
    content: float | None
    a: MistakenPage
    b: MistakenPage


class Chosen(NamedTuple):
    """A mistake to be shown: what and kind as in Mistake, and the numbers of the pages."""

    what: Literal["wrong", "missed"]
    kind: str
    a: int
    b: int
    content: float | None = None


FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(epilog="Example: python tests/bench mistakes --set FOLDER --html wrong.html")
@click.option("--set", "folder", type=FOLDER, help="Labelled set, as for `dedup evaluate`.")
@click.option("--corpora", type=FOLDER, help="Folder of whole sites, as for tests/bench sites.")
@click.option("--count", "most", default=10, show_default=True, help="Mistakes of each sort.")
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write them to an HTML page.")
def mistakes(folder: Path | None, corpora: Path | None, most: int, page: Path | None) -> None:
    """Show pairs that were judged wrongly, with both texts."""
    recipe = recipe_of(None)
    policy = Options().policy(recipe)
    if (folder is None) == (corpora is None):
        raise click.UsageError("Give one of --set and --corpora.")
    if folder is not None:
        source = FolderSet(folder)
        prints = measure(source.pages(terminal.progress("reading")), recipe)
        labels = source.labels(prints.ids)
        _, judged = evaluate(prints, labels, policy, 0, 1)
        found = mistakes_of(prints, labels.pages, judged, source.pages(), most)
    else:
        assert corpora is not None
        found = [*of_sites(corpora, recipe, policy, most)]
    for one in found:
        _show(one)
    if page is not None:
        name = str(folder or corpora)
        page.write_text(mistakes_page(name, found), "utf-8", "replace")


def of_sites(folder: Path, recipe: Recipe, policy: Policy, most: int) -> Iterator[Mistake]:
    """Yield the worst drops of each site that are not right, and missed twins."""
    for site in corpora_in(folder):
        pages = [*site.pages()]
        judged, prints = judge(pages, recipe, policy), measure(pages, recipe)
        contents = contents_of(site.texts(prints.ids))
        done = held_to_truth(judged, contents, twins(contents))
        wrong = [drop for drop in done.drops if drop.content < SAME][:most]
        missed = done.missed[:: max(1, len(done.missed) // most)][:most]
        chosen = [Chosen("wrong", site.name, d.kept, d.page, d.content) for d in wrong]
        chosen += [Chosen("missed", site.name, m.kept, m.page, m.content) for m in missed]
        yield from read_mistakes(prints, pages, chosen)


def _show(one: Mistake) -> None:
    terminal.out(f"\n{described(one)}")
    for name, page in (("A", one.a), ("B", one.b)):
        terminal.out(f"  {name} {page.id} {page.url}".rstrip())
        left_out = len(page.words) - TEXT_WORDS
        more = f" ... {left_out:,} more" if left_out > 0 else ""
        features = terminal.count(page.features, "feature")
        terminal.out(f"    {features}: {running(page.words[:TEXT_WORDS])}{more}")
    hunks = differences(one.a.words, one.b.words)
    for hunk in hunks[:HUNKS]:
        terminal.out(f"  * {inline(one.a.words, one.b.words, hunk)}")
    if len(hunks) > HUNKS:
        terminal.out(f"  * and {len(hunks) - HUNKS:,} more differences")


def mistakes_of(
    prints: Prints, facts: Pages, judged: JudgedPairs, pages: Iterable[SetPage], most: int
) -> list[Mistake]:
    """Return up to `most` wrong pairs and as many missed ones.

    pages is the set once more: the few that are needed are read from it.
    """
    pairs, found = judged
    wrong = np.flatnonzero((pairs.label == 0) & found)
    missed = np.flatnonzero((pairs.label == 1) & ~found)
    worst = wrong[np.argsort(-pairs.similarity[wrong], kind="stable")]
    least = missed[np.argsort(pairs.similarity[missed], kind="stable")]
    sorts: tuple[tuple[Literal["wrong", "missed"], Numbers], ...]
    sorts = ("wrong", worst), ("missed", least)
    chosen = [
        Chosen(what, _kind(pairs, facts, i), int(pairs.a[i]), int(pairs.b[i]))
        for what, places in sorts
        for i in _in_turn(pairs, facts, places, most)
    ]
    return read_mistakes(prints, pages, chosen, facts)


def _in_turn(pairs: Pairs, facts: Pages, places: Numbers, count: int) -> list[int]:
    """Return some places, one of each kind after the other."""
    by_kind: dict[str, list[int]] = {}
    for i in places.tolist():
        of_kind = by_kind.setdefault(_kind(pairs, facts, i), [])
        if len(of_kind) < count:
            of_kind.append(i)
    turns: Iterator[int | None] = chain.from_iterable(zip_longest(*by_kind.values()))
    return [i for i in turns if i is not None][:count]


def _kind(pairs: Pairs, facts: Pages, i: int) -> str:
    if pairs.kind is not None:
        return pairs.kind[i]
    if facts.kinds is None:
        return ""
    return " and ".join(sorted({facts.kinds[pairs.a[i]], facts.kinds[pairs.b[i]]}))


def read_mistakes(
    prints: Prints, pages: Iterable[SetPage], chosen: Sequence[Chosen], facts: Pages | None = None
) -> list[Mistake]:
    """Return mistakes with the words of both their pages, which are read from the set once more."""
    wanted = {number for one in chosen for number in (one.a, one.b)}
    read: dict[int, MistakenPage] = {}
    for number, given in enumerate(pages) if wanted else ():
        if number in wanted:
            blocks = main_words(given.html, recipe=prints.recipe)
            words = [token for block in blocks for token in block.tokens]
            kind = facts.kinds[number] if facts and facts.kinds else ""
            features = int(prints.features[number])
            read[number] = MistakenPage(given.id, given.url, kind, features, words)
            if len(read) == len(wanted):
                break
    found = []
    for one in chosen:
        a, b = prints.pages[one.a], prints.pages[one.b]
        bits, estimated = distance(a.value, b.value), similarity(a, b)
        sides = read[one.a], read[one.b]
        found.append(Mistake(one.what, one.kind, bits, estimated, one.content, *sides))
    return found


def mistakes_page(name: str, found: Sequence[Mistake]) -> str:
    """Return a page that shows mistakes one below the other, their texts side by side."""
    parts: list[Part] = [Text(f"{count(len(found), 'pair')}. The texts are what the reader kept.")]
    for number, one in enumerate(found, 1):
        a, b = one.a, one.b
        hunks = differences(a.words, b.words)
        shown: list[Part] = [ListEntry(side.url or side.id, "") for side in (a, b)]
        shown.append(Texts(a.words, b.words, hunks, ("A", "B"), CONTEXT))
        parts.append(Section(f"{number}. {described(one)}", shown))
    return html_page(ReportPage(f"Mistakes in {name}", parts, "tests/bench mistakes"))


def described(one: Mistake) -> str:
    """Return what went wrong with a pair, in a line."""
    verb = "called near-duplicates and are not" if one.what == "wrong" else "missed near-duplicates"
    content = "" if one.content is None else f", content {one.content:.2f}"
    kind = f" ({one.kind})" if one.kind else ""
    return f"{verb}{kind}: {alike(one.similarity)}, distance {one.distance}{content}"
