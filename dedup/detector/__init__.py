"""The detector: what a page is to the pages before it.

detector.py      probe, reserve, insert, release: the whole of a page's way
rules.py         which of the pages nearby count
reservations.py  the pages in flight
inserts.py       the second phase: pages that were processed become documents
open_stores.py   each store once in a process, shared by its detectors
opening.py       dedup.open(): a folder or a URL
"""

from dedup.detector.detector import Detector, open

__all__ = ["Detector", "open"]
