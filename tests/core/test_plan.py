"""The planner, against the tables themselves."""

import itertools
import json
import math
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from command_line import call
from segment_data import stats_of, write_segment

import dedup
import dedup.core.memory
from dedup.core.bulk.designs import plan
from dedup.core.memory import memory_bytes
from dedup.core.native import lib
from dedup.model.errors import UsageError
from dedup.model.recipes import NEWEST, recipe_of
from dedup.store.segmented_table import Segment

EXAMPLE = 2**34
FIELDS = {"tables", "blocks", "prefix_bits", "candidates", "bytes", "recommended"}


def ours(documents, k, preset="auto"):
    (design,) = [design for design in plan(documents, k) if design.preset == preset]
    return design


def segment_of(documents, k):
    return ours(documents, k, None)


# -------------------------------------------------------------------------- against what is built


@pytest.mark.parametrize(
    ("documents", "preset"),
    [(1000, "auto"), (30_000, "auto"), (300_000, "auto"), (300_000, "compact")],
)
def test_memory_is_that_of_the_table(documents, preset):
    """dedup.Table, made for so many, takes the planned memory, within 5 %: ids in order take hardly any."""
    table = dedup.Table(3, preset)
    assert lib.ndd_table_reserve(table._handle, documents) == lib.NDD_OK
    values = np.random.default_rng(7).integers(0, 2**64, documents, dtype=np.uint64)
    table.insert_many(values, np.arange(documents, dtype=np.uint64))
    stats, design = table.stats(), ours(documents, 3, preset)
    assert stats.bytes == pytest.approx(design.bytes, rel=0.05)
    assert (stats.blocks, stats.keys) == (design.tables, design.keys)


@pytest.mark.parametrize(("documents", "k"), [(30_000, 3), (300_000, 3), (300_000, 6)])
def test_a_planned_segment_is_the_one_that_is_written(tmp_path, documents, k):
    """Its tables and keys, and its bytes, documents aside, within 1 %."""
    values = np.random.default_rng(7).integers(0, 2**64, documents, dtype=np.uint64)
    write_segment(tmp_path / "s", values, np.arange(documents, dtype=np.uint64), k)
    segment = Segment(tmp_path / "s")
    design = segment_of(documents, k)
    assert stats_of(segment).keys == design.keys
    assert segment.bytes - 4 * documents == pytest.approx(design.bytes, rel=0.01)
    assert design.bytes < ours(documents, k).bytes


def test_a_segment_that_compares_with_all_is_no_design():
    """Of two documents there is one design: they are compared."""
    (only,) = plan(2, 3)
    assert (only.name, only.preset, only.tables, only.prefix_bits) == (
        "compare with all",
        "auto",
        1,
        (0, 0),
    )


# --------------------------------------------------------------------------------- recommendations


def test_the_recommended_design_fits():
    """The first that fits is recommended: designs of one plan take ever less memory."""
    for documents, k in itertools.product((100, 10**6, 10**8, 2**34), (0, 1, 3, 6, 12)):
        for memory in ("1M", "4G", "900G", None):
            designs = plan(documents, k, memory)
            sizes = [design.bytes for design in designs]
            assert sizes == sorted(sizes, reverse=True)
            limit = math.inf if memory is None else memory_bytes(memory)
            fitting = [design for design in designs if design.bytes <= limit]
            assert [design for design in designs if design.recommended] == fitting[:1]


@pytest.mark.parametrize(
    ("text", "size"),
    [("16G", 2**34), ("512M", 2**29), ("512mib", 2**29), ("1.5K", 1536), ("7", 7), (7, 7)],
)
def test_memory_in_words(text, size):
    """Memory is bytes, or a number with a unit of 1024s."""
    assert memory_bytes(text) == size


@pytest.mark.parametrize(
    "memory", ["", "G", "-1G", "16X", "1 2", "0", 0, -5, "0.1", "9" * 400, None]
)
def test_memory_that_is_none(memory):
    """What is no amount of memory is named."""
    with pytest.raises(UsageError, match="memory"):
        memory_bytes(memory)


@pytest.mark.parametrize(
    ("meminfo", "most", "used", "free"),
    [
        ("MemAvailable:   2048 kB\n", "max\n", "5\n", 2048 * 1024),
        ("MemAvailable:   2048 kB\n", "1000000\n", "400000\n", 600_000),
        ("MemAvailable:   2048 kB\n", "1000\n", "2000\n", 0),
        ("MemAvailable:   2048 kB\n", None, None, 2048 * 1024),
        (None, None, None, None),
    ],
)
def test_what_is_free(tmp_path, monkeypatch, meminfo, most, used, free):
    """The least of what the machine and the cgroup of this process have left."""
    monkeypatch.setattr(dedup.core.memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(dedup.core.memory, "_CGROUP", tmp_path)
    for name, text in (("meminfo", meminfo), ("memory.max", most), ("memory.current", used)):
        if text is not None:
            (tmp_path / name).write_text(text)
    assert dedup.core.memory.free_memory() == free


@pytest.mark.parametrize(
    ("documents", "k"), [(0, 3), (-1, 3), (2**64, 3), (10, -1), (10, 16), ("ten", 3), (10, "3")]
)
def test_what_cannot_be_planned(documents, k):
    """No documents, and distances outside 0 .. 15, are refused."""
    with pytest.raises(UsageError):
        plan(documents, k)


# ------------------------------------------------------------------------------------- the command


run = partial(call, "plan")


def test_the_command_prints_a_line_for_each_design():
    """`dedup plan` shows the designs, one of them recommended; --json has their fields."""
    asked = ("--documents", str(EXAMPLE), "--distance", "3")
    done, listed = run(*asked), json.loads(run(*asked, "--json").stdout)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == [each["name"] for each in listed]
    assert sum("recommended" in line for line in lines) == 1
    assert all(set(each) >= FIELDS for each in listed)
    fitting = json.loads(run(*asked, "--json", "--memory", "400G").stdout)
    assert [each["recommended"] for each in fitting] == [False, False, True]


def test_the_command_answers_for_the_products_distance():
    """Without --distance the recipe's k is planned for."""
    k = recipe_of(NEWEST).distance
    done = run("--documents", "200M")
    assert done.stdout == run("--documents", "200000000", "--distance", str(k)).stdout


def test_the_command_says_when_nothing_fits():
    """Then nothing is recommended, and the smallest is named."""
    done = run("--documents", str(EXAMPLE), "--distance", "3", "--memory", "16G")
    assert "Nothing fits in 16 GiB: the smallest takes 157 GiB" in done.stdout
    assert "recommended" not in done.stdout


def test_a_plan_reads_no_freed_memory():
    """Under an allocator that overwrites what is freed the answer is the same, and comes at once."""
    code = "import dedup; print(dedup.plan(10**6, 8) + dedup.plan(10**9, 3, '14G'))"
    poisoned = os.environ | {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "171"}
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env=env, timeout=60, check=True, capture_output=True
        ).stdout
        for env in (os.environ, poisoned)
    }
    assert len(found) == 1
