"""The detector: what a page is to the pages before it.

interface.py     Detector and AsyncDetector: what every detector does
detector.py      EmbeddedDetector: probe, reserve, insert, release, the whole of a page's way
rules.py         which of the pages nearby count
looking.py       how many of the pages nearby are looked at
reservations.py  the pages in flight
open_stores.py   each store once in a process, shared by its detectors; pages become documents
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
