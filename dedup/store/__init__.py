"""The embedded store: the accepted documents of a namespace, on disk, in one folder.

store.py            Store: documents and index in one folder, changed together; its locking and opening
journal.py          small changes that are not in documents.mdb yet, appended
documents.py        documents.mdb: records and transactions; its pages are verified first (native/src/lmdb/pages.c)
index.py            finds documents by value (within k) and by key
segmented_table.py  one table in memory and in files, the segments, for more than memory holds
shared.py           each store is opened once in a process, and shared by its users
templates.py        what is learned of the sites: their templates
transfer.py         export and import
verify.py           verification
"""

from dedup.store.store import (
    FOR_ONE_CRAWL,
    NEAR_LIMIT,
    Applied,
    Removed,
    Store,
    TooMany,
    agreed_recipe,
    empty,
)

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
