"""The planner, against the paper's Example 3.1, the tables themselves, and a slow search."""

import itertools
import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from segment_data import stats_of, write_segment

import dedup
import dedup.core.memory
from dedup.cli.plan import store_size
from dedup.cli.terminal import size_text
from dedup.core.bulk.designs import plan
from dedup.core.memory import memory_bytes
from dedup.core.native import lib
from dedup.model.errors import UsageError
from dedup.model.recipes import NEWEST, recipe_of
from dedup.store.segmented_table import Segment

EXAMPLE = 2**34


def paper(documents, k):
    return [design for design in plan(documents, k) if design.kind == "paper"]


def ours(documents, k, preset="auto"):
    (design,) = [design for design in plan(documents, k) if design.preset == preset]
    return design


# ----------------------------------------------------------------------------------- Example 3.1


def test_example_3_1():
    """For 2^34 fingerprints and k = 3 the plan has the paper's four designs and no others."""
    found = [(d.tables, d.blocks, d.levels, d.prefix_bits, d.candidates) for d in paper(EXAMPLE, 3)]
    assert found == [
        (20, 6, (6,), (31, 33), 8),
        (16, 4, (4, 4), (28, 28), 64),
        (10, 5, (5,), (25, 26), 512),
        (4, 4, (4,), (16, 16), 262144),
    ]


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
    (design,) = [design for design in plan(documents, k) if design.kind == "segment"]
    assert stats_of(segment).keys == design.keys
    assert segment.bytes - 4 * documents == pytest.approx(design.bytes, rel=0.01)
    assert design.bytes < ours(documents, k).bytes


def test_the_smallest_design_that_fits_may_be_a_segment():
    """Where memory has no room for a table of all, a segment is recommended, if that fits."""
    designs = plan(10**9, 3, "14G")
    (best,) = [design for design in designs if design.recommended]
    assert best.kind == "segment"
    assert [design.kind for design in plan(2, 3)].count("segment") == 0  # compares with both


# ---------------------------------------------------------------------------------- section 3.1.2


def shortest_prefix(levels, k, bits=64):
    """The shortest prefix of a design, by trying every choice of blocks."""
    if not levels:
        return 0
    blocks = levels[0]
    widths = [bits // blocks + (i < bits % blocks) for i in range(blocks)]
    lengths = {sum(chosen) for chosen in itertools.combinations(widths, blocks - k)}
    return min(length + shortest_prefix(levels[1:], k, bits - length) for length in lengths)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_no_fewer_tables_have_so_long_a_prefix(k):
    """The paper's designs of a plan agree with a search through all of up to three levels, 40 tables."""
    designs = []
    for depth in (1, 2, 3):
        for levels in itertools.product(range(k + 1, 12), repeat=depth):
            tables = math.prod(math.comb(blocks, k) for blocks in levels)
            if tables <= 40:
                designs.append((tables, shortest_prefix(levels, k)))
    assert designs
    papers = [d for d in reversed(plan(2**63, k)) if d.kind == "paper"]  # the fewest tables first
    longest = min(max(prefix for _, prefix in designs), papers[-1].prefix_bits[0])
    for bits in range(1, longest + 1):
        least = min(tables for tables, prefix in designs if prefix >= bits)
        found = next(design for design in papers if design.prefix_bits[0] >= bits)
        assert found.tables <= least
        assert shortest_prefix(found.levels, k) >= bits
        if found.tables < least:  # only by blocks or levels that the search above does not try
            assert max(found.levels) >= 12 or len(found.levels) > 3


# --------------------------------------------------------------------------------- recommendations


def test_the_recommended_design_fits():
    """At most one is recommended; it fits, and nothing that fits is more than a fifth faster."""
    for documents, k in itertools.product((100, 10**6, 10**8, 2**34), (0, 1, 3, 6, 12)):
        for memory in ("1M", "4G", "900G", None):
            designs = plan(documents, k, memory)
            limit = math.inf if memory is None else memory_bytes(memory)
            fitting = [d for d in designs if d.bytes <= limit]
            chosen = [d for d in designs if d.recommended]
            assert len(chosen) == (1 if fitting else 0)
            for design in chosen:
                assert design.bytes <= limit
                assert design.latency_ns <= 1.2 * min(d.latency_ns for d in fitting)


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


def test_the_command_prints_example_3_1():
    """`dedup plan` shows our designs, and behind them the paper's four, one a line."""
    done = run("--documents", str(EXAMPLE), "--distance", "3")
    assert done.exit_code == 0
    lines = done.stdout.partition("Tables in memory:\n")[2].splitlines()
    assert lines[1].startswith("dedup.Table")
    assert lines[5].split()[:8] == ["6", "choose", "3", "20", "31", "to", "33", "8"]
    assert lines[8].split()[3:7] == ["4", "16", "256", "K"]
    assert sum("recommended" in line for line in lines) == 1


def test_the_command_answers_for_the_products_distance_and_a_store():
    """Without --distance the recipe's k is planned for; the first lines say what a store takes."""
    done = run("--documents", "200M")
    k = recipe_of(NEWEST).distance
    assert done.stdout == run("--documents", "200000000", "--distance", str(k)).stdout
    one = store_size(200_000_000, k)
    head, memory, disk, _ = done.stdout.splitlines()[:4]
    assert f"200,000,000 documents at distance {k}" in head
    assert size_text(one.working_bytes + one.index_bytes) in memory
    assert size_text(one.disk_bytes) in disk


def test_the_table_of_the_documentation_is_the_plans():
    """docs/use/capacity.md has one table of memory and disk, which is what the command computes."""
    page = (Path(__file__).parents[2] / "docs" / "use" / "capacity.md").read_text("utf-8")
    found = re.findall(
        r"^\| \**(\d+) ([MG])\** \| \**([\d.]+) GiB\** \| \**([\d.]+) GiB\** \| \**([\d.]+) GiB\** \|",
        page,
        re.MULTILINE,
    )
    assert len(found) == 5
    for number, unit, *said in found:
        documents = int(number) * {"M": 10**6, "G": 10**9}[unit]
        one = store_size(documents, recipe_of(NEWEST).distance)
        held = (one.working_bytes + one.index_bytes, one.index_bytes, one.disk_bytes)
        for text, size in zip(said, held, strict=True):
            digits = len(text.partition(".")[2])
            assert float(text) == pytest.approx(size / 2**30, abs=0.5 * 10**-digits + 1e-9), text


def test_the_command_says_when_nothing_fits():
    """Then nothing is recommended, and the smallest is named."""
    done = run("--documents", str(EXAMPLE), "--distance", "3", "--memory", "16G")
    assert "Nothing fits in 16 GiB: the smallest takes 157 GiB" in done.stdout
    assert "recommended" not in done.stdout
