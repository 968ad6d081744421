"""The embedded store: what was accepted, on disk, in one folder to a namespace.

open_folder -> database (documents.mdb) -> snapshot (table.ndd) -> store -> search, removal

open_folder.py  the folder: locked, checked, named
database/       documents.mdb: records as bytes, checks of its pages, transactions, documents
flusher.py      what was committed is flushed to the disk within a second
snapshot.py     table.ndd, the table on disk
given_up.py     documents of partitions that the store does not hold any more
search.py       documents within a distance of a value
store.py        Store: the documents, and the table that finds them, change together
removal.py      removal in bulk
transfer.py     export and import; verify.py and spread.py report on a store
"""

from dedup.store.applied import Applied
from dedup.store.open_folder import agreed_recipe
from dedup.store.removal import forget_before, give_up, give_up_more
from dedup.store.search import NEAR_LIMIT, TooMany
from dedup.store.store import Store
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
