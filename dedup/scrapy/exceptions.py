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
