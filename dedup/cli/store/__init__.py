"""`dedup store`: look after a store."""
