"""The embedded store: what was accepted, on disk, in one folder to a namespace.

    lock -> records -> structure -> documents -> flusher -> snapshot -> verify -> leaving -> store
    -> removal

lock keeps it to one process; records and structure are bytes and their checks; documents is the
truth, in LMDB; flusher has it on the disk within a second; snapshot is the table on disk; verify
looks it all over; leaving is what a store has given up; store joins them all; removal is of
documents by the thousand.
"""

from dedup.store.applied import Applied
from dedup.store.removal import forget_before, give_up, give_up_more
from dedup.store.search import NEAR_LIMIT, TooMany
from dedup.store.store import Store, agreed_recipe
from dedup.store.verify import Report, verify_store

__all__ = [
    "NEAR_LIMIT",
    "Applied",
    "Report",
    "Store",
    "TooMany",
    "agreed_recipe",
    "forget_before",
    "give_up",
    "give_up_more",
    "verify_store",
]
