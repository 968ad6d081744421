"""Bulk work: batch search, pairs out of core, planning, segments, and the paper's own tables."""
