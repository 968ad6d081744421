"""Compare what is read of pages with what a person marked: reading.py WCXB.jsonl.zst [--others] [--pages N].

Main content: mean F1, precision and recall of words (with their repetitions) against the marked text, for this
package and, with --others, for trafilatura, resiliparse and readability-lxml (pip install them).

Stability: one block of 5 to 60 words (a notice, outside of article and main) is put in front of the page, or at its
end. Its own words explain how far the similarity falls; reported is how often it falls by more than .05 beyond that.

The pages are {"url", "html", "text"} lines, as in the Web Content eXtraction Benchmark; they are not in the repository.
"""

import argparse
import importlib
import random
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import mean

import msgspec

from dedup.core.fingerprint import fingerprint, main_words, similarity
from dedup.evaluate.sets import read_records

NOTICE = (
    "an order of rope was added to your cart please check it before the shop closes tonight".split()
)


class Marked(msgspec.Struct):
    """A page, and the text of it that a person marked."""

    url: str
    html: str
    text: str


def marked_pages(description: str, *flags: str) -> tuple[argparse.Namespace, list[Marked]]:
    """Return the options of the command line, and the first pages of the file that it names."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("pages", type=Path)
    parser.add_argument("--limit", type=int)
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    records = islice(read_records(options.pages, Marked), options.limit)
    return options, [page for _, page in records]


def words_of(text: str) -> Counter[str]:
    """Return the tokens of a plain text: the whole of it is one block, so it is all read."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return Counter(word for block in main_words(f"<p>{escaped}") for word in block.tokens)


def read_words(html: str) -> Counter[str]:
    return Counter(word for block in main_words(html) for word in block.tokens)


def extractors() -> dict[str, Callable[[str], Counter[str]]]:
    """Return the other packages' readers by name."""
    trafilatura = importlib.import_module("trafilatura")
    resiliparse = importlib.import_module("resiliparse.extract.html2text")
    readability = importlib.import_module("readability")
    lxml_html = importlib.import_module("lxml.html")

    def by_readability(html: str) -> str:
        summary = readability.Document(html).summary()
        return " ".join(lxml_html.fromstring(summary).itertext())

    texts: dict[str, Callable[[str], str | None]] = {
        "trafilatura": lambda html: trafilatura.extract(html, include_comments=False),
        "resiliparse": lambda html: resiliparse.extract_plain_text(html, main_content=True),
        "readability": by_readability,
    }
    return {name: _counting(read) for name, read in texts.items()}


def _counting(read: Callable[[str], str | None]) -> Callable[[str], Counter[str]]:
    def words(html: str) -> Counter[str]:
        try:
            return words_of(read(html) or "")
        except Exception:  # an extractor that fails on a page reads nothing of it
            return Counter()

    return words


def f1(read: Counter[str], marked: Counter[str]) -> tuple[float, float, float]:
    """Return F1, precision and recall."""
    common = (read & marked).total()
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / read.total(), common / marked.total()
    return 2 * precision * recall / (precision + recall), precision, recall


def with_block(html: str, words: list[str], at_end: bool) -> str:
    """Return the page with one block more, at the beginning or the end of its body."""
    block = f"<div><p>{' '.join(words)}</p></div>"
    lower = html.lower()
    if at_end:
        place = lower.rfind("</body")
        place = len(html) if place < 0 else place
    else:
        body = lower.find("<body")
        place = lower.find(">", body) + 1 if body >= 0 else 0
    return html[:place] + block + html[place:]


def stability(pages: list[tuple[str, Counter[str]]]) -> tuple[int, int]:
    """Return how many pages with a block more fell too far, of how many."""
    chance = random.Random(1)
    fell = seen = 0
    for html, _ in pages:
        before = fingerprint(html)
        if before.unread or before.features < 20:
            continue
        length = chance.randint(5, 60)
        words = [chance.choice(NOTICE) + str(i) for i in range(length)]
        after = fingerprint(with_block(html, words, chance.random() < 0.5))
        kept = sum(len(block.tokens) for block in main_words(html))
        seen += 1
        fell += similarity(before, after) < kept / (kept + length + 2) - 0.05
    return fell, seen


def main() -> None:
    options, found = marked_pages(__doc__, "--others")
    pages = [(page.html, words_of(page.text)) for page in found]
    readers = {"dedup": read_words} | (extractors() if options.others else {})
    for name, read in readers.items():
        begin = time.process_time()
        every = [read(html) for html, _ in pages]
        seconds = time.process_time() - begin
        scores = [f1(words, marked) for words, (_, marked) in zip(every, pages, strict=True)]
        means = (mean(score[i] for score in scores) for i in range(3))
        line = " ".join(
            f"{label} {value:.3f}" for label, value in zip(("F1", "P", "R"), means, strict=True)
        )
        low = sum(score[0] < 0.5 for score in scores)
        print(
            f"{name}: {line}, {low} of {len(pages)} pages under .5, {1000 * seconds / len(pages):.2f} ms"
        )
    fell, seen = stability(pages)
    print(f"a block added: {fell} of {seen} pages fell by more than .05 beyond its own words")


if __name__ == "__main__":
    main()
