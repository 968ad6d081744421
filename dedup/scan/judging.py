"""From a result to its verdict, and what the verdicts come to.

The rule kept here: the detector decides, as it does in a crawl; every page is inserted at once, so
that the next one sees it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from dedup.detector import Detector
from dedup.model.policy import Policy
from dedup.model.recipes import Recipe
from dedup.model.values import PageFingerprint, Verdict, hex_fingerprint
from dedup.model.verdict_forms import to_columns
from dedup.scan.scan_values import (
    BROKEN_KEPT,
    Broken,
    Fault,
    Found,
    Job,
    Large,
    Result,
    Row,
    Skipped,
    Summary,
)

__all__ = [
    "Judge",
    "count_other",
    "count_row",
    "job_policy",
    "large_row",
    "verdict_row",
]


def job_policy(job: Job, recipe: Recipe) -> Policy:
    """Return the policy of a job: its own rule, or the recipe's."""
    policy = job.options.policy(recipe)
    never = float("inf")  # a page is inserted at once
    return msgspec.structs.replace(policy, reservation_seconds=never)


class Judge:
    """Judges results in their order and counts them in a summary."""

    def __init__(
        self,
        detector: Detector,
        identity: bool,
        summary: Summary,
        fault: Callable[[Fault], None] | None = None,
    ) -> None:
        """Go on with a summary; identity as in Job, fault is told of every broken record."""
        self.summary = summary
        self._detector, self._identity, self._fault = detector, identity, fault
        self._recipe = detector.recipe.id

    def take(self, result: Result) -> Row | None:
        """Return the verdict on a page; None for what is none. Raises what the store raises."""
        if isinstance(result, Found):
            row = self._judged(result)
        elif isinstance(result, Large):
            row = large_row(result.key)
        else:
            count_other(self.summary, result, self._fault)
            return None
        count_row(self.summary, row)
        return row

    def _judged(self, found: Found) -> Row:
        page = PageFingerprint(
            found.value, found.sketch, found.identity, found.features, self._recipe, found.unread
        )
        verdict = self._detector.reserve(page, found.key, domain=found.domain, guard=self._identity)
        if verdict.token is not None:
            self._detector.insert(verdict)
        return verdict_row(verdict)


def count_row(summary: Summary, row: Row) -> None:
    """Count a verdict."""
    summary.pages += 1
    match row.status:
        case "unique":
            summary.unique += 1
        case "refetch":
            summary.refetch += 1
        case "near_duplicate":
            assert row.distance is not None
            assert row.similarity is not None
            summary.near_duplicate += 1
            _add(summary.distances, row.distance)
            _add(summary.similarities, int(100 * row.similarity))
        case _:
            _add(summary.exempt, row.reason)


def count_other(
    summary: Summary, result: Skipped | Broken, told: Callable[[Fault], None] | None = None
) -> None:
    """Count what is no page; `told` hears of what is broken."""
    if isinstance(result, Skipped):
        _add(summary.skipped, result.reason)
        return
    fault = Fault(result.path, result.place, result.reason)
    summary.broken += 1
    summary.unread_files += result.rest
    if len(summary.faults) < BROKEN_KEPT:
        summary.faults.append(fault)
    if told:
        told(fault)


def large_row(key: str) -> Row:
    """Return the verdict on a page that was too large to be read."""
    return Row(key, None, None, None, "exempt", "too_large", None, None, None, None, key)


def verdict_row(verdict: Verdict) -> Row:
    """Return a verdict as it is written."""
    page = verdict.page
    return Row(
        verdict.key,
        hex_fingerprint(page.value),
        page.sketch.hex(),
        page.features,
        *to_columns(verdict),
    )


def _add(counts: dict[Any, int], name: object) -> None:
    counts[name] = counts.get(name, 0) + 1
