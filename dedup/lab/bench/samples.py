"""What benchmarks report: samples as a median and a range, and the machine they were taken on."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median

import msgspec

__all__ = ["Machine", "Samples", "machine", "samples"]


class Samples(msgspec.Struct, frozen=True):
    """Some measurements of one thing, in one unit."""

    median: float
    lowest: float
    highest: float
    count: int

    def text(self, digits: int) -> str:
        """Return "8.21 (8.05 to 8.44)"."""
        lowest, highest = f"{self.lowest:,.{digits}f}", f"{self.highest:,.{digits}f}"
        return f"{self.median:,.{digits}f} ({lowest} to {highest})"


class Machine(msgspec.Struct, frozen=True):
    """Where figures were taken: cores this process may use, and versions by package."""

    cores: int
    architecture: str
    system: str
    python: str
    packages: dict[str, str]

    def text(self) -> str:
        """Return it in one line."""
        packages = ", ".join(f"{name} {number}" for name, number in self.packages.items())
        python = f"{self.cores} cores, {self.architecture}, {self.system}, Python {self.python}"
        return f"{python}, {packages}" if packages else python


def samples(measured: Sequence[float]) -> Samples:
    """Return what some measurements come to; at least one is needed."""
    return Samples(median(measured), min(measured), max(measured), len(measured))


def machine(*packages: str) -> Machine:
    """Return this machine, with the versions of those of the packages that are installed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(
        cores=cores or 1,
        architecture=platform.machine(),
        system=platform.system(),
        python=platform.python_version(),
        packages={name: found for name in packages if (found := _version(name))},
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
