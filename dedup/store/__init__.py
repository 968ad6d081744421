"""The embedded store: what was accepted, on disk, in one folder to a namespace.

open_folder -> database (documents.mdb) -> index (values/, keys/) -> search -> store

open_folder.py  the folder: locked, checked, named
database/       documents.mdb: records as bytes, checks of its pages, transactions, documents
index.py        which documents have a value near another, and which one has a key
search.py       documents within a distance of a value
store.py        Store: the documents, and the index that finds them, change together
changes.py      changes of many documents: counted, and removed in bulk
transfer.py     export and import
verify.py       a report on a store
"""

from dedup.store.changes import (
    Applied,
    Removed,
    forget_before,
    forget_more_before,
    give_up,
    give_up_more,
)
from dedup.store.open_folder import FOR_ONE_CRAWL, agreed_recipe, empty
from dedup.store.search import NEAR_LIMIT, TooMany
from dedup.store.store import Store

__all__ = [
    "FOR_ONE_CRAWL",
    "NEAR_LIMIT",
    "Applied",
    "Removed",
    "Store",
    "TooMany",
    "agreed_recipe",
    "empty",
    "forget_before",
    "forget_more_before",
    "give_up",
    "give_up_more",
]
