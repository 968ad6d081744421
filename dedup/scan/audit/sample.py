"""Some of the removals, drawn evenly, and the documents of their pairs: one pass over the inputs of a scan.

    Removals -> Draw: pairs, the hashes of their documents -> Sampled, by hash

Invariants: every pair is drawn with the same chance; of the documents only those of the draw are kept.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from dedup.core.encodings import plain_text
from dedup.core.fingerprint import (
    distance,
    fingerprint,
    fingerprint_text,
    main_words,
    near_duplicate,
    similarity,
    text_words,
)
from dedup.model.errors import UsageError
from dedup.model.names import document_key, registrable_domain
from dedup.model.page import PageFingerprint
from dedup.scan.audit.removals import Removals, hash_of
from dedup.scan.inputs import NotRead, list_units
from dedup.scan.reading import raw_records
from dedup.scan.values import Broken, RawPage, ReadingOptions, ScanJob

Ids = str  # how a list names documents: "url", "field", "position"


class Draw(NamedTuple):
    """Pairs by their places in the removals, and the hashes of their documents."""

    pairs: list[int]
    wanted: set[int]


class Sampled(NamedTuple):
    """A document of the draw: its id, URL and fingerprint, and the tokens of its main text, joined."""

    id: str
    url: str
    page: PageFingerprint
    text: str

    @property
    def tokens(self) -> list[str]:
        """The tokens of its main text."""
        return self.text.split(" ") if self.text else []


def draw(removals: Removals, size: int, seed: int = 1) -> Draw:
    """Draw so many pairs, or all of them if there are fewer."""
    total = len(removals.removed)
    pairs = np.sort(np.random.default_rng(seed).choice(total, min(size, total), replace=False))
    wanted = {*removals.removed[pairs].tolist(), *removals.kept[pairs].tolist()}
    return Draw(pairs.tolist(), wanted)


def find_documents(
    job: ScanJob,
    reading: ReadingOptions,
    ids: Ids,
    wanted: set[int],
    fault: Callable[[Broken], None],
    progress: Callable[[int], None] | None = None,
    not_read: NotRead | None = None,
) -> tuple[dict[int, Sampled], int]:
    """Return the documents with these hashes, and how many documents were read.

    ids: "url" (as it was given, or its document key), "field" (reading.id_field), "position" (from 0, over
    all inputs). Calls fault for what cannot be read, and counts files that are none in not_read. Raises what list_units() raises, and OSError.
    """
    found: dict[int, Sampled] = {}
    position = 0
    for unit in list_units(job, not_read):
        for raw in raw_records(unit, reading):
            if isinstance(raw, Broken):
                fault(raw)
            if isinstance(raw, RawPage):
                for name in _names(raw, ids, position):
                    if (at := hash_of(name)) in wanted and at not in found:
                        found[at] = _sampled(name, raw, reading)
            position += 1
            if progress is not None and position % 1000 == 0:
                progress(position)
    return found, position


def _names(raw: RawPage, ids: Ids, position: int) -> Iterator[str]:
    """Yield what a list may call a document."""
    if ids == "position":
        yield str(position)
    elif raw.key is not None:
        yield raw.key
    else:
        yield raw.url
        try:
            yield document_key(raw.url)
        except ValueError:
            return


def _sampled(name: str, raw: RawPage, reading: ReadingOptions) -> Sampled:
    html = raw.html if isinstance(raw.html, bytes) else raw.html.encode("utf-8", "surrogatepass")
    html = html[: reading.max_bytes]
    encoding = raw.encoding if isinstance(raw.html, bytes) else "utf-8"
    if raw.is_text:
        text = plain_text(html, encoding or "utf-8")
        page, tokens = fingerprint_text(text, recipe=reading.recipe), text_words(text)
    else:
        try:
            page = fingerprint(html, encoding=encoding, url=raw.url or None, recipe=reading.recipe)
        except UsageError:  # the header names an unknown encoding
            encoding = None
            page = fingerprint(html, url=raw.url or None, recipe=reading.recipe)
        tokens = [t for block in main_words(html, encoding=encoding) for t in block.tokens]
    return Sampled(name, raw.url, page, " ".join(tokens))


def compare(a: Sampled, b: Sampled) -> tuple[float, int, float, bool]:
    """Return the exact Jaccard similarity of two documents' 3-token shingles, and what a scan would say of them.

    That is their distance and estimated similarity, and whether they are near-duplicates.
    """
    same_site = None
    if a.url and b.url:
        same_site = registrable_domain(a.url) == registrable_domain(b.url)
    is_near = near_duplicate(a.page, b.page, same_site=same_site)
    exact = jaccard(a.tokens, b.tokens)
    return exact, distance(a.page.value, b.page.value), similarity(a.page, b.page), is_near


def jaccard(a: list[str], b: list[str]) -> float:
    """Return the share of the 3-token shingles of both that are in both; of shorter texts the text is one."""
    one, other = _shingles(a), _shingles(b)
    return len(one & other) / len(one | other) if one or other else 1.0


def _shingles(tokens: list[str]) -> set[tuple[str, ...]]:
    if len(tokens) < 3:
        return {tuple(tokens)} if tokens else set()
    return set(zip(tokens, tokens[1:], tokens[2:], strict=False))
