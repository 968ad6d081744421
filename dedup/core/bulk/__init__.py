"""Bulk work: batch search, and table designs."""
