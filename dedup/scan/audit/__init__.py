"""Audit of another tool's deduplication: how many of the documents that it removed are no copies.

    removals.py   what was removed, and in favour of what: files -> pairs, as hashes of ids
    sample.py     some of the pairs, and their documents: one pass over the inputs of a scan
    judging.py    pairs -> exact Jaccard of their shingles, our verdict -> shares with intervals, the worst pairs

Invariants: memory grows with the number of removals (hashes of ids) and with the texts of the sample, not with the documents; every shown share has its
95 % interval (Wilson); the same removals give the same sample. docs/use/audit.md is the users' page.
"""
