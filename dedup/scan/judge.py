"""From a result to its verdict, and what the verdicts come to.

The rule kept here: the detector decides, as it does in a crawl; every page is inserted at once, so
that the next one sees it.
"""

from collections.abc import Callable
from typing import Any

from dedup.detector import Detector
from dedup.scan.values import BROKEN_KEPT, Broken, Fault, Found, Large, Result, Row, Summary
from dedup.values import PageFingerprint, Verdict, hex_fingerprint

__all__ = ["Judge"]


class Judge:
    """Judges results in their order and counts them in a summary."""

    def __init__(
        self,
        detector: Detector,
        guard: bool,
        summary: Summary,
        fault: Callable[[Fault], None] | None = None,
    ) -> None:
        """Go on with a summary; fault is told of every broken record."""
        self.summary = summary
        self._detector, self._guard, self._fault = detector, guard, fault
        self._recipe = detector.recipe.id

    def take(self, result: Result) -> Row | None:
        """Return the verdict on a page; None for what is none. Raises what the store raises."""
        summary = self.summary
        if isinstance(result, Found):
            return self._counted(self._judged(result))
        if isinstance(result, Large):
            key = result.key
            row = Row(key, None, None, None, "exempt", "too_large", None, None, None, key)
            return self._counted(row)
        if isinstance(result, Broken):
            fault = Fault(result.path, result.place, result.reason)
            summary.broken += 1
            summary.unread_files += result.rest
            if len(summary.faults) < BROKEN_KEPT:
                summary.faults.append(fault)
            if self._fault:
                self._fault(fault)
            return None
        _add(summary.skipped, result.reason)
        return None

    def _judged(self, found: Found) -> Row:
        page = PageFingerprint(
            found.value, found.check, found.links, found.features, found.link_count, self._recipe
        )
        verdict = self._detector.reserve(page, found.key, domain=found.domain, guard=self._guard)
        if verdict.token is not None:
            self._detector.insert(verdict)
        return _row(verdict)

    def _counted(self, row: Row) -> Row:
        summary = self.summary
        summary.pages += 1
        match row.status:
            case "unique":
                summary.unique += 1
            case "refetch":
                summary.refetch += 1
            case "near_duplicate":
                assert row.distance is not None
                summary.near_duplicate += 1
                _add(summary.distances, row.distance)
            case _:
                _add(summary.exempt, row.reason)
        return row


def _row(verdict: Verdict) -> Row:
    page = verdict.page
    return Row(
        verdict.key,
        hex_fingerprint(page.value),
        hex_fingerprint(page.check),
        page.features,
        verdict.status,
        verdict.reason,
        verdict.of,
        verdict.distance,
        verdict.check_distance,
        verdict.of or verdict.key,
    )


def _add(counts: dict[Any, int], name: object) -> None:
    counts[name] = counts.get(name, 0) + 1
