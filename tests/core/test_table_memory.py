"""How much memory a table takes."""

import subprocess
import sys

import pytest

GROWS = """
import re, sys
import numpy as np
from dedup import Table

def peak_bytes():  # not that of rusage, which begins at the peak of the process before
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", file.read())[1]) * 1024

values = np.random.default_rng(1).integers(0, 2**64, 300_000, dtype=np.uint64)
table, most = Table(3, sys.argv[1]), 0.0
table.insert_many(values[:1000], np.arange(1000, dtype=np.uint64))
before = peak_bytes()
for start in range(1000, len(values), 1000):
    part = values[start : start + 1000]
    table.insert_many(part, np.arange(start, start + 1000, dtype=np.uint64))
    if start > 50_000:
        most = max(most, table.stats().bytes / (start + 1000))
peak = peak_bytes() - before
print(most, peak / table.stats().bytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
@pytest.mark.parametrize(("preset", "most_bytes"), [("auto", 200), ("compact", 90)])
def test_a_table_that_grows_takes_little_more_memory_than_it_needs(preset, most_bytes):
    """At any size a value takes a bounded number of bytes, and growing never holds two indexes."""
    command = [sys.executable, "-c", GROWS, preset]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    most, peak_share = map(float, done.stdout.split())
    assert most < most_bytes
    assert peak_share < 1.35
