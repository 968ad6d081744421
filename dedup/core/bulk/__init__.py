"""Bulk work: batch search, pairs out of core, segments, and compressed fingerprints."""
