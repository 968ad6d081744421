"""Figures of this machine: the cases of `dedup bench`, and one runner for them and for tests/bench."""
