"""What `python tests/bench sites --peers` compares with: MinHash of the main content that an extractor finds.

    pages -> an extractor's text -> shingles of 3 tokens -> datasketch's MinHash and LSH -> a crawl, for each setting

A page is dropped for the most similar kept page at `similarity` (estimated) and more; a page of fewer tokens than
`least` is kept, and nothing is dropped for it. Signatures are made once, and every setting judges with them.

Invariant: no peer is at a disadvantage. Tokens are those of the truth (a Chinese character is one), the index finds
candidates well below the similarities that are tried, and a page that is fetched again is left out.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from dedup.evaluate.sets import SetPage
from dedup.model.errors import UsageError

SIMILARITIES = (0.7, 0.8, 0.85, 0.9, 0.95)
LEAST_TOKENS = (3, 20, 50)
SHINGLE = 3
PERMUTATIONS = 128
CANDIDATES = 0.6  # the similarity that the index is made for

Extract = Callable[[str], str]


class Setting(NamedTuple):
    """A least similarity, and tokens that a page must have to be judged."""

    similarity: float
    least: int


SETTINGS = tuple(Setting(*each) for each in product(SIMILARITIES, LEAST_TOKENS))


def extractors() -> dict[str, Extract]:
    """Return the extractors of main content. Raises UsageError if one, or datasketch, is not installed."""
    try:
        import datasketch  # noqa: F401 - asked here, before any page is read
        from resiliparse.extract.html2text import extract_plain_text
        from trafilatura import extract
    except ImportError as error:
        raise UsageError("--peers needs: pip install --group bench") from error
    return {
        "resiliparse": lambda html: extract_plain_text(html, main_content=True),
        "trafilatura": lambda html: extract(html) or "",
    }


class Signed(NamedTuple):
    """The pages of a site as MinHash sees them.

    tokens    of each page
    near      for each page the earlier ones that the index gives, with the similarity estimated
    seconds   of CPU: extraction, signatures, and the index
    """

    tokens: list[int]
    near: list[list[tuple[float, int]]]
    seconds: float

    def drops(self, setting: Setting, again: Iterable[int]) -> dict[int, int]:
        """Return each page that a crawl would drop with the page it is dropped for; `again` are no pages of it."""
        left_out = {*again, *(i for i, n in enumerate(self.tokens) if n < setting.least)}
        found: dict[int, int] = {}
        for page, near in enumerate(self.near):
            kept = [
                (-alike, other)
                for alike, other in near
                if alike >= setting.similarity and other not in found and other not in left_out
            ]
            if kept and page not in left_out:
                found[page] = min(kept)[1]
        return found


def signed(
    pages: Sequence[SetPage], extract: Extract, tokens_of: Callable[[str], list[str]]
) -> Signed:
    """Read the pages of a site in their order, and look for similar earlier ones."""
    from datasketch import MinHash, MinHashLSH

    begin = time.process_time()
    index = MinHashLSH(threshold=CANDIDATES, num_perm=PERMUTATIONS)
    signatures = np.zeros((len(pages), PERMUTATIONS), np.uint64)
    counts: list[int] = []
    near: list[list[tuple[float, int]]] = []
    for number, page in enumerate(pages):
        tokens = tokens_of(extract(page.html))
        counts.append(len(tokens))
        near.append([])
        if len(tokens) < SHINGLE:
            continue
        minhash = MinHash(num_perm=PERMUTATIONS)
        minhash.update_batch(sorted(_shingles(tokens)))
        signatures[number] = minhash.hashvalues
        others = sorted(index.query(minhash))
        alike = (signatures[others] == signatures[number]).mean(axis=1)
        near[-1] = [*zip(alike.tolist(), others, strict=True)]
        index.insert(number, minhash)
    return Signed(counts, near, time.process_time() - begin)


def _shingles(tokens: list[str]) -> Iterator[bytes]:
    for start in {*zip(*(tokens[n:] for n in range(SHINGLE)), strict=False)}:
        yield " ".join(start).encode("utf-8", "surrogatepass")
