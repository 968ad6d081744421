"""How a drop is told: an exception to the request's errback, and a signal to everyone else."""

from scrapy.exceptions import IgnoreRequest

from dedup.model.values import Verdict

__all__ = ["NearDuplicate", "near_duplicate_dropped"]

near_duplicate_dropped = object()
"""Sent after a page was dropped, with request, response, verdict and spider."""


class NearDuplicate(IgnoreRequest):
    """A near-duplicate page was dropped; verdict says of which page, and at what distances."""

    def __init__(self, verdict: Verdict) -> None:
        """Keep the verdict and put it into words."""
        self.verdict = verdict
        super().__init__(
            f"near-duplicate of {verdict.of} "
            f"(distance {verdict.distance}, check {verdict.check_distance})"
        )
