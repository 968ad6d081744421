"""What every crawl notes for its summary: how the URLs of copies differ from their originals', and what a person should look at.

A warning is logged when it is found, and stands in the report.
"""

import logging
from collections import Counter

from dedup.model.differences import in_words

logger = logging.getLogger("dedup")

DIFFERENCES = 1000  # of URLs that are counted
ORIGINALS = 10_000  # of copies that the text decided about, which are counted
REPEATED = 20  # near-duplicates of one page in a row, of which a warning says so
SWALLOWED = 50  # copies of one page by their text, of which a warning says so


class Notes:
    """The notes of one crawl."""

    def __init__(self) -> None:
        """Begin with none."""
        self.warnings: list[str] = []
        self._differences = Counter[str]()
        self._by_text = Counter[str]()  # copies by original
        self._repeated = ("", 0)  # an original, and how many near-duplicates of it in a row

    def dropped(self, difference: str) -> None:
        """Note how the URL of a page that is dropped differs from its original's."""
        if difference in self._differences or len(self._differences) < DIFFERENCES:
            self._differences[difference] += 1

    def dropped_by_text(self, original: str, url: str) -> None:
        """Warn once of a page that has many copies by their text alone."""
        if original not in self._by_text and len(self._by_text) >= ORIGINALS:
            return
        self._by_text[original] += 1
        if self._by_text[original] == SWALLOWED:
            self._warn(
                f"{SWALLOWED} pages are copies of {original} by their text, the last is {url}; if they are no "
                "copies, `dedup compare` shows what two pages have in common, and dont_dedup in their meta keeps them"
            )

    def brought_nothing(self, original: str, url: str) -> None:
        """Warn once of a page whose near-duplicates bring nothing new, many in a row: it may be asked for on purpose."""
        self._repeated = (original, self._repeated[1] + 1 if self._repeated[0] == original else 1)
        if self._repeated[1] == REPEATED:
            self._warn(
                f"{REPEATED} near-duplicates of {original} in a row gave nothing new, the last is {url}; if you fetch "
                "it repeatedly on purpose (a monitor), set dont_dedup in the meta of its requests"
            )

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        logger.warning("[dedup] %s", text)

    def differences(self) -> dict[str, int]:
        """Return the numbers of dropped pages by how their URLs differ, for people, the most frequent first."""
        found = Counter[str]()
        for each, n in self._differences.items():
            found[in_words(each)] += n
        return dict(found.most_common())
