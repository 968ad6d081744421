"""Scanning: a pile of files becomes a verdict on every page in it.

    inputs -> units -> (workers: records -> pages -> fingerprints) -> in input order -> verdicts

Read run.py first. The rules kept here:
  - The first page in input order wins, whatever the number of processes.
  - Nothing is held whole: records are streamed, queues are bounded, what was accepted lies on disk.
  - A kill at any moment loses nothing that was committed and repeats nothing: the result of a resumed
    scan is that of an unbroken one (work.py).
  - A broken record is named and left out; it never ends a scan.
docs/scan.md is for who uses it.
"""

from dedup.scan.scan_values import Job, Progress, Summary
from dedup.scan.scanner import scan

__all__ = ["Job", "Progress", "Summary", "scan"]
