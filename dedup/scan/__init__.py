"""Scanning: a pile of files becomes a verdict on every page in it.

    inputs -> units -> (workers: records -> pages -> fingerprints) -> in input order -> verdicts

Read scanner.py first. Invariants:
  - The first page in input order wins, whatever the number of processes.
  - Memory is bounded: records are streamed, queues are bounded, accepted documents are on disk.
  - A kill at any moment loses nothing that was committed and repeats nothing: the result of a resumed
    scan is that of an unbroken one (scanner.py).
  - A broken record is named and skipped; it never ends a scan.
docs/use/scan.md is the users' page.
"""

from typing import TYPE_CHECKING, Any

from dedup.scan.values import ScanJob, ScanProgress, Summary

if TYPE_CHECKING:
    from dedup.scan.scanner import scan
else:

    def __getattr__(name: str) -> Any:
        """Import the scanner when it is used: the processes that read need no store."""
        if name != "scan":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from dedup.scan.scanner import scan

        return scan


__all__ = ["ScanJob", "ScanProgress", "Summary", "scan"]
