"""The detector: whether a page is a near-duplicate of an earlier one.

interface.py     Detector and AsyncDetector: what every detector does
detector.py      EmbeddedDetector: probe, reserve, insert, release; all steps of a page
rules.py         which of the nearby pages count
looking.py       how many of the nearby pages are compared
reservations.py  the pages in flight
open_stores.py   each store is opened once in a process, and shared by its detectors
asynchronous.py  an embedded detector for an asyncio loop
remote.py        a detector whose store is a table service's; blocking.py: the same for threads
opening.py       dedup.open(): a folder or a URL
"""

from dedup.detector.detector import EmbeddedDetector
from dedup.detector.interface import AsyncDetector, Detector, Question
from dedup.detector.opening import open, open_async, open_embedded
from dedup.detector.reservations import MemoryBudget, TooManyReserved

__all__ = [
    "AsyncDetector",
    "Detector",
    "EmbeddedDetector",
    "MemoryBudget",
    "Question",
    "TooManyReserved",
    "open",
    "open_async",
    "open_embedded",
]
