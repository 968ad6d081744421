"""The embedded store: the accepted documents of a namespace, on disk, in one folder.

open_folder.py      the folder: locked, verified, named
database/           documents.mdb: records as bytes, verification of its pages, transactions
index.py            finds documents by value (within k) and by key
segmented_table.py  one table in memory and on disk, for more than memory holds
segment.py          one file of it
store.py            Store: documents and index, changed together
transfer.py         export and import
verify.py           verification
"""

from dedup.store.open_folder import FOR_ONE_CRAWL, agreed_recipe, empty
from dedup.store.store import NEAR_LIMIT, Applied, Removed, Store, TooMany

__all__ = [
    "FOR_ONE_CRAWL",
    "NEAR_LIMIT",
    "Applied",
    "Removed",
    "Store",
    "TooMany",
    "agreed_recipe",
    "empty",
]
