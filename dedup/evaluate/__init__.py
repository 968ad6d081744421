"""Precision and recall over labelled pages: sets.py reads them, score.py counts."""
