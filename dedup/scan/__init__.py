"""Scanning: a pile of files becomes a verdict on every page in it.

    inputs -> units -> (workers: records -> pages -> fingerprints) -> in input order -> verdicts

Read scanner.py first. Invariants:
  - The first page in input order wins, whatever the number of processes.
  - Memory is bounded: records are streamed, queues are bounded, accepted documents are on disk.
  - A kill at any moment loses nothing that was committed and repeats nothing: the result of a resumed
    scan is that of an unbroken one (work_folder.py).
  - A broken record is named and skipped; it never ends a scan.
docs/scan.md is the users' page.
"""

from dedup.scan.scanner import scan
from dedup.scan.values import Job, Progress, Summary

__all__ = ["Job", "Progress", "Summary", "scan"]
