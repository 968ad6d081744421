"""All pairs and clusters are those of a plain scan."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needing import linux_only
from table_oracle import neighbourhoods, scan_clusters, scan_pairs

from dedup.core.pairs import find_all, find_clusters, memory_needed


@settings(deadline=None)
@given(values=neighbourhoods(), k=st.integers(0, 15))
def test_pairs_and_clusters_of_values_chosen_to_meet(values: list[int], k: int) -> None:
    """For any values and k, pairs and clusters are those of a scan."""
    array = np.array(values, dtype=np.uint64)
    assert find_all(values, k).tolist() == scan_pairs(array, k)
    assert find_clusters(values, k).tolist() == scan_clusters(array, k)


def test_clusters_chain() -> None:
    """Two members of a cluster may lie further apart than k, when others lie between."""
    chain = [(1 << i) - 1 for i in range(0, 64, 3)]
    assert find_clusters(chain, 3).tolist() == [0] * len(chain)
    assert find_clusters(chain, 2).tolist() == list(range(len(chain)))


def test_all_pairs_do_not_change_their_input() -> None:
    """The batch given is read, not sorted in place."""
    values = np.array([9, 3, 9, 1], dtype=np.uint64)
    find_all(values, 2)
    find_clusters(values, 2)
    assert values.tolist() == [9, 3, 9, 1]


LIMITED = """
import re, resource, sys
import numpy as np
from dedup.core.pairs import find_all, find_clusters
find = dict(find_all=find_all, find_clusters=find_clusters)[sys.argv[1]]
values = np.random.default_rng(1).integers(0, 2**64, 1_500_000, dtype=np.uint64)
find(values[:1000], 3)
taken = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (taken + int(sys.argv[2]),) * 2)
try:
    find(values, 3)
except MemoryError:
    print("too little")
"""


@linux_only
@pytest.mark.parametrize("find", ["find_all", "find_clusters"])
def test_the_memory_needed_is_enough_and_half_of_it_is_not(find):
    """A process that may have memory_needed() more bytes ends; with half of them MemoryError is raised."""
    needed = memory_needed(1_500_000, clusters=find == "find_clusters")
    for size, said in ((needed + (1 << 20), ""), (needed // 2, "too little\n")):
        command = [sys.executable, "-c", LIMITED, find, str(size)]
        assert subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout == said


CHOSEN = """
import threading
import numpy as np
from dedup.core.native import check, ffi, lib
from dedup.core.numbers import pointer
values = np.concatenate([np.arange(20_000, dtype=np.uint64), np.uint64(1) << np.arange(16, 64, dtype=np.uint64)])
pairs, distinct, status = ffi.new("ndd_pairs **"), ffi.new("size_t *"), []
check(lib.ndd_pairs_open(pairs))
def sort():
    status.append(lib.ndd_distinct(pointer(values), len(values), pairs[0], distinct))
threading.stack_size(256 << 10)
thread = threading.Thread(target=sort)
thread.start()
thread.join()
print(status, distinct[0])
"""


def test_chosen_values_take_no_more_stack():
    """Values of which one splits off at each bit are sorted in a thread with a small stack."""
    done = subprocess.run(
        [sys.executable, "-c", CHOSEN], stdout=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[0] 20048\n")
