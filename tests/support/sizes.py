"""How much a test does: a share in `make test`, all of it in `make test-long`.

    @pytest.mark.sized
    ... range(sized(quick=50, full=1000))

`make test-long` sets DEDUP_TEST_SIZE=full and runs the tests with this marker once more, and those of
Hypothesis, with all examples.
"""

import os

FULL = os.environ.get("DEDUP_TEST_SIZE") == "full"


def sized(*, quick: int, full: int) -> int:
    """Return the size for this run."""
    return full if FULL else quick


def examples(full: int) -> int:
    """Return how many examples Hypothesis draws: a tenth in `make test`."""
    return sized(quick=max(5, full // 10), full=full)
