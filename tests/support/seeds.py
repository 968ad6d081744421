"""The seeds of tests that do things in an order, or at moments, that chance decides.

A run of the tests takes the same ones each time, so that it finds what it found before. Others are
for looking further: NAME_SEED in the environment sets one, and `make soak` draws its own.
"""

import os


def seed_of(name: str) -> int:
    """Return NAME_SEED, or 1."""
    return int(os.environ.get(f"{name}_SEED") or 1)
