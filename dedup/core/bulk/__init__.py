"""Bulk work: batch search, pairs out of core, and table designs."""
