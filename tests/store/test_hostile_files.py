"""Files that are not what was written: the harnesses of fuzzing.py on chance mutations.

The chance is the same in every run; `make fuzz` looks further, guided by coverage.
"""

import random

import fuzzing
import pytest
from sizes import sized
from tools import make_corpus

COUNTS = {
    "documents": 1_000,
    "records": 20_000,
    "events": 3000,
    "lines": 1_500,
    "page": 700,
    "resp": 1_500,
    "values": 3_000,
}


@pytest.fixture(scope="module")
def seeds():
    found: dict[str, list[bytes]] = {}
    for name, data in (*fuzzing.seeds(), *make_corpus.reader_seeds(), *make_corpus.regressions()):
        found.setdefault(name, []).append(data)
    return found


@pytest.mark.sized
@pytest.mark.parametrize("name", fuzzing.HARNESSES)
def test_promise_7_any_bytes_are_safe_where_files_are_read(seeds, name):
    """What was damaged is refused by name or comes to what was stored; pages to the oracle's."""
    inputs = [data for data in seeds[name] if name != "page" or len(data) < 1500]
    rng = random.Random(f"files {name}")
    rng.shuffle(inputs)
    count = sized(quick=COUNTS[name] // 10, full=COUNTS[name])
    fuzzing.fuzz(name, inputs[: count // 2], rng, count)
