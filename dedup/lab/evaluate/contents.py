"""How alike the contents of pages are, from the texts that a person wrote down or marked.

    text -> tokens -> 3-token shingles -> sorted numbers, the rarest first -> Jaccard similarity

Invariant: the product has no part in it. A Chinese, Japanese, Korean or Thai character is a
token, of other scripts a word is.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from dedup.lab.evaluate.labels import Numbers

TWIN = 0.9  # a page this similar to an earlier, kept one should be dropped
LEAST = 5  # shingles; a smaller page is no twin of any
SHINGLE = 3

_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")

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
    tokens = np.array([hash(token) for token in _TOKEN.findall(text.lower())], np.int64)
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
