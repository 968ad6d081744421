"""Learned blocks beside the reader's rules: block_model.py PAGES.jsonl.zst (needs lightgbm, scikit-learn and lxml).

    pages that a person marked -> blocks with what one pass sees of them -> a model of those that are content -> F1 of words

A site is never judged by a model that has seen it: the sites are parted into five folds, and each fold is read by a model of the other
four, with the threshold that was best on those four. All ways are compared on the same pages, word by word, as reading.py does.

The data is the development part of the Web Content eXtraction Benchmark (WCXB, CC BY 4.0, Murrough Foley): {"url", "html", "text"} a
line, 943 pages of 784 sites. It is not in the repository, and neither is a model: docs/appendix/reading.md has the figures.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import mean
from typing import Any, NamedTuple

import lightgbm
import lxml.html
import numpy as np
from reading import f1, marked_pages, read_words, words_of
from sklearn.model_selection import GroupKFold

from dedup.model.names import registrable_domain

FOLDS = 5
THRESHOLDS = np.linspace(0.2, 0.7, 11)
SKIPPED = {
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "head",
    "select",
    "iframe",
    "textarea",
    "object",
}
BLOCKS = set(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 "
    "h5 h6 header hr li main nav ol p pre section table tbody td tfoot th thead tr ul button label".split()
)
MARKS = (
    "nav",
    "footer",
    "header",
    "aside",
    "form",
    "main",
    "article",
    "table",
    "li",
    "blockquote",
    "pre",
)
HINTS = {  # words of class and id, in groups
    "comment": r"comment|disqus|repl(y|ies)|respond",
    "outside": r"nav|menu|breadcrumb|footer|header|masthead|topbar|banner",
    "beside": r"sidebar|aside|widget|related|recommend|teaser|promo",
    "advertising": r"\bads?\b|advert|sponsor|cookie|consent|popup|modal|newsletter|subscribe",
    "sharing": r"share|social|follow|tags?\b|meta|byline|author|date",
    "content": r"content|article|post|entry|story|body|text|main",
    "hidden": r"hidden|collapse|sr-only|screen-reader",
}
HINT_PATTERNS = {name: re.compile(words) for name, words in HINTS.items()}


class Block(NamedTuple):
    """A block: its words, and what is known of it when it ends."""

    words: Counter[str]
    tokens: int
    in_links: int
    facts: list[float]
    path: str


def blocks_of(html: str) -> list[Block]:
    """Return the blocks of a page, in their order."""
    found: list[Block] = []
    pending: list[tuple[str, bool]] = []
    state: dict[str, Any] = {}

    def end() -> None:
        text = "".join(piece for piece, _ in pending)
        words = words_of(text)
        tokens = words.total()
        if tokens:
            linked = words_of(" ".join(piece for piece, link in pending if link)).total()
            found.append(
                Block(
                    words,
                    tokens,
                    min(linked, tokens),
                    [*state["facts"], *_of_text(text)],
                    state["path"],
                )
            )
        pending.clear()

    def add(text: str | None, context: dict[str, Any]) -> None:
        if text:
            if not pending:
                state.update(context)
            pending.append((text, context["link"]))

    def walk(element: Any, above: dict[str, Any]) -> None:
        tag = element.tag if isinstance(element.tag, str) else ""
        if not tag or tag in SKIPPED or above["depth"] > 200:
            return
        context = _below(element, tag, above)
        if tag in BLOCKS or tag == "br":
            end()
        add(element.text, context)
        for child in element:
            walk(child, context)
            add(child.tail, context)
        if tag in BLOCKS:
            end()

    try:
        root = lxml.html.document_fromstring(
            html.encode("utf-8", "replace"), parser=lxml.html.HTMLParser(encoding="utf-8")
        )
    except lxml.etree.ParserError:
        return []
    nothing = {
        "depth": 0,
        "link": False,
        "marks": (0,) * len(MARKS),
        "hints": (0,) * len(HINTS),
        "tag": "",
        "path": "",
        "facts": [],
    }
    walk(root, nothing)
    end()
    return found


def _below(element: Any, tag: str, above: dict[str, Any]) -> dict[str, Any]:
    named = f"{element.get('class') or ''} {element.get('id') or ''} {element.get('role') or ''}".lower()
    own = (
        tuple(int(bool(pattern.search(named))) for pattern in HINT_PATTERNS.values())
        if len(named) > 2
        else (0,) * len(HINTS)
    )
    hints = tuple(map(max, above["hints"], own))
    marks = tuple(old | (tag == mark) for old, mark in zip(above["marks"], MARKS, strict=True))
    block = tag if tag in BLOCKS else above["tag"]
    depth = above["depth"] + 1
    heading = float(block[:1] == "h" and block[1:].isdigit())
    facts = [
        depth,
        heading,
        float(block == "p"),
        float(block in ("td", "th")),
        float(block in ("div", "section")),
        *marks,
        *own,
        *hints,
    ]
    link, path = above["link"] or tag == "a", f"{above['path'][-60:]}/{tag}.{named[:20]}"
    return {
        "depth": depth,
        "link": link,
        "marks": marks,
        "hints": hints,
        "tag": block,
        "path": path,
        "facts": facts,
    }


def _of_text(text: str) -> list[float]:
    size = max(1, len(text))
    return [
        sum(map(text.count, ".!?。")),
        text.count(",") / size,
        sum(c.isdigit() for c in text) / size,
        float("©" in text),
    ]


def rows_of(blocks: list[Block]) -> np.ndarray:
    """Return the facts of blocks: their own, their neighbours', and their places among all."""
    tokens = np.array([block.tokens for block in blocks], float)
    linked = np.array([block.in_links for block in blocks], float)
    share = linked / tokens
    text = tokens * (share <= 0.5)
    alike = Counter(block.path for block in blocks)
    sums: Counter[str] = Counter()
    for block, words in zip(blocks, text, strict=True):
        sums[block.path] += words
    n, total = len(blocks), text.sum() + 1
    before = np.cumsum(text) - text
    padded, shares = np.pad(np.log1p(tokens), 2), np.pad(share, 2)
    columns = [
        np.log1p(tokens),
        np.log1p(linked),
        share,
        np.arange(n) / n,
        before / total,
        np.full(n, np.log1p(n)),
        np.full(n, np.log1p(total)),
    ]
    columns += [padded[i : i + n] for i in (0, 1, 3, 4)] + [shares[i : i + n] for i in (0, 1, 3, 4)]
    columns += [
        np.array([alike[block.path] for block in blocks]) / n,
        np.array([sums[block.path] for block in blocks]) / total,
    ]
    columns += [np.convolve(text, np.ones(9), "same")[:n] / total]
    return np.column_stack([*columns, np.array([block.facts for block in blocks])])


def targets_of(blocks: list[Block], marked: Counter[str], text: str) -> np.ndarray:
    """Return 1 for the blocks most of whose words are marked: long ones by the words, short ones also by their place in the text."""
    said = " ".join(words_in_order(text))
    good = []
    for block in blocks:
        share = (block.words & marked).total() / block.tokens
        good.append(share > 0.8 and (block.tokens > 8 or all(word in said for word in block.words)))
    return np.array(good, int)


def words_in_order(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def scores(
    kept: list[np.ndarray], pages: list[list[Block]], marked: list[Counter[str]]
) -> list[tuple[float, float, float]]:
    """Return F1, precision and recall of the kept blocks of each page."""
    found = []
    for keep, blocks, words in zip(kept, pages, marked, strict=True):
        read: Counter[str] = Counter()
        for block in (blocks[i] for i in np.flatnonzero(keep)):
            read.update(block.words)
        found.append(f1(read, words))
    return found


def judged(model: Callable[[], Any], rows: list[np.ndarray], targets: list[np.ndarray], pages: list[list[Block]],
           marked: list[Counter[str]], sites: list[str]) -> Iterator[tuple[int, tuple[float, float, float]]]:  # fmt: skip
    """Yield each page's number and scores, by a model that has not seen its site."""
    numbers = np.arange(len(rows))
    for seen, unseen in GroupKFold(FOLDS).split(numbers, groups=sites):
        fitted = model()
        weight = np.concatenate([[block.tokens for block in pages[i]] for i in seen])
        fitted.fit(
            np.concatenate([rows[i] for i in seen]),
            np.concatenate([targets[i] for i in seen]),
            sample_weight=np.sqrt(weight),
        )
        chances = {i: fitted.predict_proba(rows[i])[:, 1] for i in numbers}

        def read(
            some: Any, least: float, chances: dict[int, np.ndarray] = chances
        ) -> list[tuple[float, float, float]]:
            return scores(
                [chances[i] >= least for i in some],
                [pages[i] for i in some],
                [marked[i] for i in some],
            )

        best = max(THRESHOLDS, key=lambda least: mean(score[0] for score in read(seen[::3], least)))
        yield from zip(unseen, read(unseen, best), strict=True)


def main() -> None:
    _, found = marked_pages(__doc__)
    read = [(page, blocks) for page in found if (blocks := blocks_of(page.html))]
    pages, marked = [blocks for _, blocks in read], [words_of(page.text) for page, _ in read]
    rows = [rows_of(blocks) for blocks in pages]
    targets = [
        targets_of(blocks, words, page.text)
        for (page, blocks), words in zip(read, marked, strict=True)
    ]
    sites = [registrable_domain(page.url) or page.url for page, _ in read]
    facts = rows[0].shape[1]
    print(
        f"{len(read)} pages of {len(set(sites))} sites, {sum(map(len, pages))} blocks with {facts} facts"
    )

    def trees(leaves: int, count: int) -> Callable[[], Any]:
        return lambda: lightgbm.LGBMClassifier(
            num_leaves=leaves, n_estimators=count, learning_rate=0.12, min_child_samples=40, subsample=0.8, subsample_freq=1,
            colsample_bytree=0.6, random_state=1, n_jobs=1, verbose=-1)  # fmt: skip

    def show(name: str, every: list[tuple[float, float, float]]) -> None:
        means = " ".join(
            f"{label} {mean(score[i] for score in every):.3f}"
            for i, label in enumerate(("F1", "P", "R"))
        )
        print(
            f"{name}: {means}, {sum(score[0] < 0.5 for score in every)} pages under .5", flush=True
        )

    show(
        "rules of this recipe",
        [f1(read_words(page.html), words) for (page, _), words in zip(read, marked, strict=True)],
    )
    for name, model in (
        ("additive model (stumps)", trees(2, 250)),
        ("trees of 15 leaves", trees(15, 120)),
    ):
        show(name, [score for _, score in judged(model, rows, targets, pages, marked, sites)])
    show(
        "the best choice of these blocks",
        scores([target == 1 for target in targets], pages, marked),
    )


if __name__ == "__main__":
    main()
