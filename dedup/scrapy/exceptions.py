"""What a spider's errback gets, and the signal of a dropped page."""

from scrapy.exceptions import IgnoreRequest

from dedup.model.page import Verdict

near_duplicate_dropped = object()
"""Sent after a page was dropped, with request, response, verdict and spider."""


class NearDuplicate(IgnoreRequest):
    """A near-duplicate was dropped; verdict names its original, distance and similarity."""

    def __init__(self, verdict: Verdict) -> None:
        """Keep the verdict and make a message of it."""
        self.verdict, match = verdict, verdict.match
        assert match is not None
        super().__init__(
            f"near-duplicate of {match.document.key} ({round(100 * match.similarity)} % similar, "
            f"distance {match.distance})"
        )


class KnownUrl(IgnoreRequest):
    """A request was not sent: by the site's rules it leads to a page accepted under another URL.

    of     the document key of that page
    rules  the rules that say so
    """

    def __init__(self, of: str, rules: list[str]) -> None:
        """Keep these and make a message of them."""
        self.of, self.rules = of, rules
        super().__init__(f"the same page as {of}, by {', '.join(rules)}")
