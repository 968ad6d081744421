"""The embedded store: what was accepted, on disk, in one folder to a namespace.

    lock -> records -> structure -> documents -> snapshot -> verify -> store

lock keeps it to one process; records and structure are bytes and their checks; documents is the
truth, in LMDB; snapshot is the table on disk; verify looks it all over; store joins them.
"""

from dedup.store.store import NEAR_LIMIT, Applied, Store, TooMany, agreed_recipe
from dedup.store.verify import Report, verify_store

__all__ = ["NEAR_LIMIT", "Applied", "Report", "Store", "TooMany", "agreed_recipe", "verify_store"]
