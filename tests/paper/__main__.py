"""The reproduction of Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling" (WWW 2007).

python tests/paper [--values N] [--set FOLDER]      make paper [PAPER_FLAGS="..."]

    Example 3.1   its four designs for k = 3, planned, built and probed: tables, prefixes, candidates
    section 3.2   what its code makes of a sorted table as dense as its 2^34 fingerprints
    figure 1      precision and recall of the simhash alone, k = 1 to 10, over labelled pairs
    figure 2      in how many bits two pages' fingerprints differ, and how they fill 128 buckets

The paper's own values stand beside ours. Its pages are not published: ours are those of the generated site, or of
a labelled set (docs/use/evaluate.md), so that figures 1 and 2 may be compared in their form and not by number.
"""

import argparse
import math
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path += [str(Path(__file__).parents[1] / each) for each in ("support", "bench")]

import numpy as np
from compressed import compress
from demo_set import write_demo_set
from designs import paper_designs
from fingerprint_values import bit_counts
from permuted import PermutedTables

from dedup.cli.terminal import size_text, table
from dedup.core.numbers import Array
from dedup.core.table import Table
from dedup.evaluate.score import MeasuredPage, evaluate, measure
from dedup.evaluate.sets import either, read_labels, read_pages
from dedup.model.policy import Options
from dedup.model.recipes import recipe_of

PAGES = 2**34  # fingerprints in Example 3.1
K = 3
PROBES = 100_000
SAID = {20: ("31 to 33", 8), 16: ("28", 64), 10: ("25 to 26", 512), 4: ("16", 2**18)}  # the paper
GENERATED = 500
BUCKETS = 128
BAR = 50  # characters of the longest


def example_3_1(values: Array, queries: Array, near: Array) -> str:
    """Build the four designs and probe them by chance, then near a value: that answer must be dedup.Table's."""
    exact = Table(K)
    exact.insert_many(values, np.arange(len(values), dtype=np.uint64))
    expected = exact.probe_many(near)
    rows = []
    for levels in (design.levels for design in paper_designs(PAGES, K)):
        tables = PermutedTables(values, K, levels)
        begun = time.process_time()
        tables.probe_many(queries)
        seconds = time.process_time() - begun
        candidates_read = tables.candidates
        found = tables.probe_many(near)
        assert all(map(np.array_equal, found, expected)), f"{levels} does not find what Table does"
        least, most = tables.prefix_bits
        prefix, candidates = SAID[len(tables.prefixes)]
        mean = np.mean(PAGES / 2.0 ** bit_counts(np.array(tables.prefixes, np.uint64)))
        measured = candidates_read / len(queries) / len(tables.prefixes) * PAGES / len(values)
        rows.append(
            (
                ", then ".join(f"{blocks} choose {blocks - K}" for blocks in levels),
                len(tables.prefixes),
                prefix,
                f"{least}" if least == most else f"{least} to {most}",
                f"{candidates:,}",
                f"{mean:,.1f}",
                f"{measured:,.1f}",
                size_text(tables.bytes / len(values) * PAGES),
                f"{seconds / len(queries) * 1e6:.3g} us",
            )
        )
    headers = (
        "design",
        "tables, and probes",
        "prefix: paper",
        "built",
        "candidates a table: paper, at most",
        "expected",
        "measured",
        "memory",
        f"a query of {len(values):,}",
    )
    return table(headers, rows)


def section_3_2(n: int) -> str:
    """Compress n of the fingerprints that a sorted table of the paper's has side by side."""
    span = 2**64 // PAGES * n
    values = np.sort(np.random.default_rng(2).integers(0, span, n, dtype=np.uint64))
    bits = math.log2(2**64 / PAGES) + math.log2(math.e)  # log2 of the binomial, a fingerprint
    rows = [("entropy bound", f"{bits / 8:.3f}", f"{bits / 64:.1%}")]
    for codec in ("huffman", "elias-fano"):
        each = len(compress(values, codec).bytes) / n
        name = "the paper's code (huffman)" if codec == "huffman" else codec
        rows.append((name, f"{each:.3f}", f"{each / 8:.1%}"))
    rows.append(("the paper says", "", "about half"))
    return table(("", "bytes a fingerprint", "of 8 bytes"), rows)


def figure_1(pages: list[MeasuredPage], folder: Path) -> str:
    """Precision and recall by the distance alone."""
    labels = read_labels(folder / "pairs.tsv", folder, [page.id for page in pages])
    policy = Options(similarity="paper").policy(recipe_of())
    views = evaluate(pages, labels, policy)
    curve = (views.get("labelled") or views["all"])["curve"]
    rows = [
        (
            point["k"],
            *(_share(point["alone"][share]) for share in ("precision", "recall")),
            _of_paper(point["k"]),
        )
        for point in curve
    ]
    return table(("k", "precision", "recall", "the paper"), rows)


def _of_paper(k: int) -> str:
    return "both near 0.75" if k == K else ""


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def figure_2(values: Array) -> str:
    """Histograms: the differences of all pairs of pages, and the fingerprints by their first 7 bits."""
    counts = np.zeros(65, np.int64)
    for i in range(len(values) - 1):
        counts += np.bincount(bit_counts(values[i] ^ values[i + 1 :]), minlength=65)
    lines = ["(a) pairs of pages that differ in so many bits, and the share by chance", ""]
    total = counts.sum()
    for low in range(0, 64, 4):
        share = counts[low : low + 4].sum() / total
        chance = _chance(range(low, low + 4))
        bar = "#" * round(share * BAR)
        lines.append(f"{low:>3} to {low + 3:<3} {share:9.5%} {chance:9.5%}  {bar}")
    right, left = counts[32:].sum() / total, counts[:16].sum() / total
    lines += [
        "",
        f"32 and more: {right:.1%} of the pairs (by chance {_chance(range(32, 65)):.1%}); "
        f"below 16: {left:.4%} (by chance {_chance(range(16)):.4%}).",
        "The paper: the right half is the familiar bell curve, the left does not fade: there are near-duplicates.",
        "",
        f"(b) fingerprints in {BUCKETS} buckets by their leading 7 bits",
        "",
    ]
    held = np.sort(np.bincount((values >> np.uint64(57)).astype(np.intp), minlength=BUCKETS))
    even = len(values) / BUCKETS
    spikes = int((held > even + 4 * math.sqrt(even)).sum())
    lines += [
        f"{even:.1f} a bucket on average; least {held[0]}, median {held[BUCKETS // 2]}, most {held[-1]}; "
        f"{spikes} spikes (over 4 standard deviations of an even distribution).",
        "The paper: spread evenly, but for spikes of empty pages, error pages and one program's log-in pages.",
    ]
    return "\n".join(lines)


def _chance(distances: range) -> float:
    return sum(math.comb(64, distance) for distance in distances) / 2**64


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(prog="python tests/paper", description=__doc__.split("\n")[0])
    parser.add_argument("--values", type=int, default=1_000_000, help="fingerprints of a table")
    parser.add_argument("--set", type=Path, help="folder of a labelled set; else generated pages")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**64, options.values, dtype=np.uint64)
    queries = rng.integers(0, 2**64, PROBES, dtype=np.uint64)
    near = values[:PROBES] ^ (
        np.uint64(1) << rng.integers(0, 64, min(PROBES, len(values)), np.uint64)
    )
    print(f"Example 3.1: k = {K}; candidates and memory of 2^34 fingerprints\n")
    print(example_3_1(values, queries, near))
    print("\nSection 3.2: a sorted table of 2^34 fingerprints, compressed\n")
    print(section_3_2(options.values))
    if options.set is not None:
        print_figures(options.set, str(options.set))
        return
    with TemporaryDirectory() as folder:
        made = write_demo_set(Path(folder), GENERATED)
        print_figures(made, f"generated site, {GENERATED} pages")


def print_figures(folder: Path, name: str) -> None:
    """Print those that a set of pages gives."""
    pages = measure(read_pages(either(folder, "pages.jsonl")))
    print(f"\nFigure 1: {name}, {len(pages):,} pages, the simhash alone\n")
    print(figure_1(pages, folder))
    print(f"\nFigure 2: {name}\n")
    print(figure_2(np.array([page.print.value for page in pages], np.uint64)))


if __name__ == "__main__":
    main()
