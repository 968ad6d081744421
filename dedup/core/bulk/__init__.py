"""Bulk work: batch search, pairs out of core, table designs, segments, and compressed fingerprints."""
