"""Whole sites: how many pages with content of their own a crawl of them would lose.

    pages -> fingerprints, with what is learned of their site -> a crawl in the order of the file
          -> each drop beside the page kept -> figures

    NAME.jsonl               url, html: a page a line, in the order of the crawl
    NAME.truth.jsonl[.zst]   url, text: the content of each of them, as a person marked it

Invariants: the detector judges as it does in a crawl; a drop is judged against the page that it was dropped
for, by their contents alone: the 3-token shingles of the texts that a person marked. The product has no part
in these. A Chinese, Japanese, Korean or Thai character is a token, of other scripts a word is.
"""

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from runner import Bench, Round
from site_peers import SETTINGS, extractors, signed

from dedup.detector import EmbeddedDetector
from dedup.evaluate.sets import Progress, SetPage, read_records
from dedup.model.errors import DedupError, UsageError
from dedup.model.names import document_key, registrable_domain
from dedup.model.page import ReserveOptions
from dedup.model.policy import Options, Policy
from dedup.model.recipes import Recipe, recipe_of
from dedup.scan.accepted import Layer

# ----------------------------------------------------------------------------------------- contents


TWIN = 0.9  # a page this similar to an earlier, kept one should be dropped
LEAST = 5  # shingles; a smaller page is no twin of any
SHINGLE = 3

_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")

Numbers = npt.NDArray[np.int64]
Twin = tuple[int, float]  # an earlier page, and how similar it is


def contents_of(texts: Iterable[str]) -> list[Numbers]:
    """Return the shingles of each text: numbers that rise from the rarest shingle to the commonest."""
    hashed = [_shingles(text) for text in texts]
    names, place, times = np.unique(
        np.concatenate([np.empty(0, np.uint64), *hashed]), return_inverse=True, return_counts=True
    )
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(times, kind="stable")] = np.arange(len(names))
    ends = np.cumsum([len(one) for one in hashed])
    return [np.sort(part) for part in np.split(rank[place], ends[:-1])] if hashed else []


def _shingles(text: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    tokens = np.array([hash(token) for token in tokens_of(text)], np.int64)
    words = tokens.view(np.uint64)
    if len(words) < SHINGLE:  # one shingle of all there is
        words = np.concatenate([words, np.zeros(SHINGLE - len(words), np.uint64)])
        words = words if len(tokens) else words[:0]
    ends = len(words) - SHINGLE + 1
    found = np.zeros(max(0, ends), np.uint64)
    for start in range(SHINGLE if ends > 0 else 0):
        found = (found ^ words[start : start + ends]) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return np.unique(found)


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text, in order."""
    return _TOKEN.findall(text.lower())


def similarity(a: Numbers, b: Numbers) -> float:
    """Return the Jaccard similarity of two contents; 0 where one of them is empty."""
    if not len(a) or not len(b):
        return 0.0
    both = len(np.intersect1d(a, b, assume_unique=True))
    return both / (len(a) + len(b) - both)


def twins(contents: list[Numbers]) -> list[list[Twin]]:
    """Return for each page the earlier pages of similarity TWIN and more.

    Two such sets share one of their rarest shingles (prefix filtering: Chaudhuri, Ganti and
    Kaushik, ICDE 2006), so only pages that do are compared.
    """
    holders: defaultdict[int, list[int]] = defaultdict(list)
    found: list[list[Twin]] = []
    for page, content in enumerate(contents):
        found.append([])
        if len(content) < LEAST:
            continue
        rarest = content[: len(content) - math.ceil(TWIN * len(content)) + 1].tolist()
        for other in sorted({other for shingle in rarest for other in holders[shingle]}):
            sizes = sorted((len(content), len(contents[other])))
            if sizes[0] >= TWIN * sizes[1]:
                alike = similarity(content, contents[other])
                if alike >= TWIN:
                    found[page].append((other, alike))
        for shingle in rarest:
            holders[shingle].append(page)
    return found


# ------------------------------------------------------------------------------------------- crawls


SAME = 0.8  # a drop of this content similarity and more is right
OWN = 0.5  # below it the page has content of its own, and the drop is wrong
_TRUTH = (".truth.jsonl", ".truth.jsonl.zst")


class _Truth(msgspec.Struct, frozen=True):
    url: str
    text: str


class _Record(msgspec.Struct, frozen=True):
    url: str
    html: str


class Pair(NamedTuple):
    """A page, an earlier one that was kept, and the similarity of their contents."""

    content: float
    page: int
    kept: int


class Crawl(NamedTuple):
    """What a crawl of a site came to.

    pages   their number
    drops   pages dropped, each with the page it was dropped for, the worst first
    twins   pages with an earlier, kept page of similarity TWIN and more; missed: those kept
    """

    pages: int
    drops: list[Pair]
    twins: int
    missed: list[Pair]

    def counts(self) -> dict[str, float]:
        """Return the counts: right are drops of similarity SAME and more, wrong those below OWN."""
        return {
            "pages": self.pages,
            "drops": len(self.drops),
            "right": sum(drop.content >= SAME for drop in self.drops),
            "wrong": sum(drop.content < OWN for drop in self.drops),
            "twins": self.twins,
            "found": self.twins - len(self.missed),
        }


class Corpus(NamedTuple):
    """A site whose pages and truth lie in a folder."""

    name: str
    file: Path
    truth: Path

    def pages(self, progress: Progress | None = None) -> Iterator[SetPage]:
        """Yield the pages, their URL as their id. Raises DedupError naming a line, OSError."""
        for _, record in read_records(self.file, _Record, progress):
            yield SetPage(record.url, record.html, record.url)

    def texts(self, urls: Sequence[str], *, whole: bool = True) -> Iterator[str]:
        """Yield the content of each page. Raises DedupError if they are of other pages.

        whole: the URLs are of all pages, else of the first ones.
        """
        number = 0
        for number, truth in read_records(self.truth, _Truth):
            if number > len(urls) and not whole:
                return
            if number > len(urls) or truth.url != urls[number - 1]:
                raise DedupError(f"{self.truth}: line {number}: {truth.url} is not that page's URL")
            yield truth.text
        if number != len(urls):
            raise DedupError(f"{self.truth} has {number} lines, {self.file} {len(urls)} pages")


def corpora_in(folder: Path) -> list[Corpus]:
    """Return the corpora of a folder by name. Raises UsageError if there are none."""
    found = [
        Corpus(file.name.removesuffix(ending), folder / file.name.replace(ending, ".jsonl"), file)
        for ending in _TRUTH
        for file in folder.glob(f"*{ending}")
    ]
    found = sorted(corpus for corpus in found if corpus.file.is_file())
    if not found:
        raise UsageError(f"{folder} holds no corpus: no NAME.jsonl with its NAME.truth.jsonl.zst")
    return found


@contextmanager
def open_case(
    corpora: Path | None,
    distance: int | None,
    peers: bool,
    count: int | None,
    progress: Progress | None = None,
) -> Iterator[Bench]:
    """Crawl every site of a folder, up to `count` pages of each. Raises UsageError without one."""
    if corpora is None:
        raise UsageError("--corpora FOLDER: sites with their truth are not part of the repository")
    recipe = recipe_of(None)
    policy = Options(distance=distance).policy(recipe)
    sites = corpora_in(corpora)
    others = extractors() if peers else {}

    def measure_all() -> Round:
        found: dict[str, Counter[str]] = {}
        for site in sites:
            pages = [*islice(site.pages(progress), count)]
            contents = contents_of(site.texts([page.id for page in pages], whole=count is None))
            near = twins(contents)
            judged = judge(pages, recipe, policy)
            name = "dedup" if peers else site.name
            found[name] = found.get(name, Counter()) + _counts(judged, contents, near)
            for extractor, extract in others.items():
                made = signed(pages, extract, tokens_of)
                for setting in SETTINGS:
                    dropped = made.drops(setting, judged.again)
                    one = judged._replace(dropped=dropped, seconds=made.seconds)
                    name = f"{extractor}, J >= {setting.similarity}, {setting.least} tokens"
                    found[name] = found.get(name, Counter()) + _counts(one, contents, near)
        if not peers:
            found["all"] = sum(found.values(), Counter())
        return {name: _shown(one) for name, one in found.items()}

    facts = {"recipe": recipe.id, "distance": policy.distance, "sites": len(sites)}
    yield Bench(facts, measure_all, ("resiliparse", "trafilatura", "datasketch") if peers else ())


def _counts(judged: "Judged", contents: list[Numbers], near: list[list[Twin]]) -> Counter[str]:
    return Counter(held_to_truth(judged, contents, near).counts() | {"seconds": judged.seconds})


def _shown(one: Counter[str]) -> dict[str, float]:
    shares = {"P J>=.8": ("right", "drops"), "recall J>=.9": ("found", "twins")}
    counts = ("pages", "drops", "right", "wrong", "twins", "found")
    return (
        {name: one[name] for name in counts}
        | {name: one[of] / one[all_] for name, (of, all_) in shares.items() if one[all_]}
        | {"us of CPU a page": one["seconds"] / one["pages"] * 1e6}
    )


class Judged(NamedTuple):
    """What is done with the pages of a site.

    dropped  each page dropped, with the page that it was dropped for
    again    pages whose key an earlier one has
    seconds  of CPU
    """

    pages: int
    dropped: dict[int, int]
    again: set[int]
    seconds: float


def judge(pages: Sequence[SetPage], recipe: Recipe, policy: Policy) -> Judged:
    """Judge the pages of a site in their order, each of them inserted at once."""
    begin = time.process_time()
    detector = EmbeddedDetector.over(Layer(policy.distance), recipe, policy)
    verdicts = []
    for page in pages:
        print_ = detector.fingerprint(page.html, url=page.url or None)
        domain = registrable_domain(page.url)
        options = ReserveOptions(domain=domain, guard=print_.partly)
        verdicts.append(detector.accept(print_, document_key(page.id), options))
    seconds = time.process_time() - begin
    first: dict[str, int] = {}
    for number, verdict in enumerate(verdicts):
        first.setdefault(verdict.key, number)
    dropped = {
        number: first[verdict.of]
        for number, verdict in enumerate(verdicts)
        if verdict.status == "near_duplicate" and verdict.of is not None
    }
    again = {number for number, verdict in enumerate(verdicts) if verdict.status == "refetch"}
    return Judged(len(pages), dropped, again, seconds)


def held_to_truth(judged: Judged, contents: list[Numbers], near: list[list[Twin]]) -> Crawl:
    """Compare each drop with the page that it was dropped for, and count the twins that were kept."""
    dropped = judged.dropped
    drops = [Pair(similarity(contents[p], contents[kept]), p, kept) for p, kept in dropped.items()]
    had_twin, missed = 0, []
    for number, alike in enumerate(near):
        kept = [(-content, other) for other, content in alike if other not in dropped]
        if kept and number not in judged.again:
            had_twin += 1
            if number not in dropped:
                missed.append(Pair(-min(kept)[0], number, min(kept)[1]))
    return Crawl(judged.pages, sorted(drops), had_twin, missed)
