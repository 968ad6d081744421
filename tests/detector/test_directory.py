"""A site's directory: thousands of pages alike but for a name and a number, each with its own title."""

import random
from collections import Counter
from pathlib import Path

from dedup.core.fingerprint import fingerprint
from dedup.detector import open_embedded
from dedup.model.page import PageFingerprint
from dedup.model.policy import Options

ENTRIES = 1_000


def entries(rng: random.Random) -> list[tuple[str, str]]:
    """Return the title and the main content of each entry: 165 words, of which 5 or 6 are its own."""
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=3)) for _ in range(3000)]
    common = " ".join(rng.choices(words, k=160))
    names = [" ".join(rng.choices(words, k=2)) for _ in range(ENTRIES)]
    return [
        (f"{name} {i}", f"<h1>{name}</h1><p>{common}</p><p>Phone {i:07}</p>")
        for i, name in enumerate(names)
    ]


def page(title: str, content: str) -> PageFingerprint:
    """Return the fingerprint of an entry."""
    return fingerprint(f"<title>{title}</title><main>{content}</main>")


def test_no_entry_of_a_directory_is_dropped_for_another(tmp_path: Path) -> None:
    """The estimated similarity of some is 1; but they are not the same word for word. A copy is."""
    pages = entries(random.Random(1))
    decided: Counter[str] = Counter()
    with open_embedded(tmp_path, Options()) as detector:
        for i, (title, content) in enumerate(pages):
            verdict = detector.reserve(page(title, content), f"http://example.com/{i}")
            decided[verdict.status] += 1
            detector.insert(verdict)
        assert decided == {"unique": 1, "exempt": ENTRIES - 1}
        for i, (_, content) in enumerate(pages[::100]):
            copy = detector.reserve(page("Another title", content), "http://example.com/copy")
            assert (copy.status, copy.of) == ("near_duplicate", f"http://example.com/{100 * i}")
            assert (copy.distance, copy.similarity, copy.identity) == (0, 1, "unknown")
