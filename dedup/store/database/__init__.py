"""documents.mdb: its records as bytes, the checks of its pages, its transactions, and the documents in it."""
