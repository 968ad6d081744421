"""Warns when drops look wrong: one page swallows many others, or drops have other titles.

Invariants: a warning is logged at once, one for each page, with examples and advice; the summary has
the counts of the end. Drops that the spider's items have proven are not doubted. Memory is bounded whatever
is crawled.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

from dedup.model.page import Verdict
from dedup.scrapy.counts import logger

if TYPE_CHECKING:
    from dedup.model.settings import Mode

__all__ = ["Swallowing"]

MANY = 50  # drops for one page
FEW = 20  # the same, if they are this share of the crawl:
SHARE = 0.2
EXAMPLES = 3
ORIGINALS = 10_000  # originals that are counted; the oldest are forgotten
SAID = 20  # warnings at most in one crawl

ADVICE = (
    "if they are not copies: give them meta dont_dedup or a dedup_kind of their own{tag}; `dedup compare` shows "
    "what two pages have in common"
)
TAG = ", or look at the whole crawl with DEDUP_MODE = 'tag'"


class _Swallowed:
    __slots__ = ("count", "examples", "said")

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[str] = []
        self.said = False


class Swallowing:
    """The originals of a crawl's drops."""

    def __init__(self, mode: "Mode" = "drop") -> None:
        """Begin without drops."""
        self._advice = ADVICE.format(tag="" if mode == "tag" else TAG)
        self._said: list[str | tuple[str, _Swallowed]] = []
        self._originals: OrderedDict[str, _Swallowed] = OrderedDict()
        self._other: list[str] = []  # URLs of the first drops with titles of their own
        self.judged = 0  # pages

    @property
    def lines(self) -> list[str]:
        """The warnings as they are now, for the summary and the report."""
        return [each if isinstance(each, str) else self._many(*each) for each in self._said]

    def dropped(self, verdict: Verdict, url: str) -> None:
        """Note a near-duplicate of which no items have shown that it is a copy."""
        if verdict.of is None:
            return
        if verdict.identity == "other":
            self._titles_differ(verdict.of, url)
        swallowed = self._originals.get(verdict.of)
        if swallowed is None:
            swallowed = self._originals[verdict.of] = _Swallowed()
            if len(self._originals) > ORIGINALS:
                self._originals.popitem(last=False)
        swallowed.count += 1
        if len(swallowed.examples) < EXAMPLES:
            swallowed.examples.append(url)
        share = swallowed.count / self.judged
        if not swallowed.said and (
            swallowed.count >= MANY or (swallowed.count >= FEW and share >= SHARE)
        ):
            swallowed.said = True
            self._say((verdict.of, swallowed))

    def _many(self, original: str, swallowed: _Swallowed) -> str:
        share = swallowed.count / self.judged
        return (
            f"{swallowed.count} pages ({share:.0%} of those judged) are near-duplicates of {original}: "
            f"{', '.join(swallowed.examples)}, ..."
        )

    def _titles_differ(self, original: str, url: str) -> None:
        """Note a drop with another title than its original; warn at the third one."""
        if len(self._other) < EXAMPLES:
            self._other.append(url)
            if len(self._other) == EXAMPLES:
                self._say(
                    "pages count as near-duplicates although their titles differ from that of the page "
                    f"they are like ({original}), since those before them brought nothing: "
                    f"{', '.join(self._other)}, ..."
                )

    def _say(self, line: str | tuple[str, _Swallowed]) -> None:
        if len(self._said) < SAID:
            self._said.append(line)
            logger.warning("dedup: %s; %s", self.lines[-1], self._advice)
