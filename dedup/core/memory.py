"""Amounts of memory: as people write them, and what is free."""

import re
from pathlib import Path

from dedup.core.numbers import number
from dedup.model.errors import UsageError

_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def memory_bytes(memory: int | str) -> int:
    """Return memory in bytes: a number of them, or text like "16G", "512M", "1.5T" (powers of 1024)."""
    if not isinstance(memory, str):
        size: float = number(memory, "memory")
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?\s*", memory, re.IGNORECASE)
        if found is None:
            raise UsageError(f"memory is {memory!r}; give bytes, or for example 512M or 16G")
        size = float(found[1]) * 1024.0 ** " KMGTP".index(found[2].upper() or " ")
    if not 1 <= size < 2**64:
        raise UsageError(f"memory is {memory!r}; it must be at least one byte, and below 16 EiB")
    return int(size)


def free_memory() -> int | None:
    """Return how many bytes this machine, or this process' cgroup, has left; None where neither is told."""
    free = []
    try:
        told = re.search(r"^MemAvailable: +(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE)
        free += [int(told[1]) * 1024] if told else []
        most, used = ((_CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        free += [] if most == "max\n" else [max(0, int(most) - int(used))]
    except (OSError, ValueError):
        pass  # not Linux, or another kind of cgroup
    return min(free, default=None)
