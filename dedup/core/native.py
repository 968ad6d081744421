"""The binding to the native core, in one place: the library, and status codes turned into exceptions.

Calls release the GIL; the headers (native/include) state which may run at once.
"""

import os

from dedup import _native
from dedup._native import ffi, lib
from dedup.model.errors import DedupError, StoreDamaged, UsageError

__all__ = ["check", "cores", "ffi", "lib"]

INTERFACE = 2052619565  # of the headers; tests/house/test_house_native.py says when they changed


def _check_interface(held: int | None) -> None:
    """Raise ImportError if the native core was built from other headers than this code expects."""
    if held != INTERFACE:
        raise ImportError(
            f"{_native.__file__} was built from other sources than the Python code beside it (its interface is "
            f"{held or 'not stated'}, expected {INTERFACE}); build it again, in the checkout: "
            "pip install --force-reinstall --no-deps ."
        )


_check_interface(getattr(lib, "NDD_INTERFACE", None))

_ERRORS: dict[int, type[Exception]] = {
    lib.NDD_NO_MEMORY: MemoryError,
    lib.NDD_BAD_ARGUMENT: UsageError,
    lib.NDD_BAD_DISTANCE: UsageError,
    lib.NDD_TRUNCATED: StoreDamaged,
    lib.NDD_DAMAGED: StoreDamaged,
    lib.NDD_BAD_FORMAT: StoreDamaged,
    lib.NDD_BAD_VERSION: StoreDamaged,
}


def check(status: int, subject: str = "") -> None:
    """Raise the exception that stands for a status other than NDD_OK.

    subject says what was being done, or to what, and opens the message.
    """
    if status != lib.NDD_OK:
        words = ffi.string(lib.ndd_strerror(status)).decode()
        raise _ERRORS.get(status, DedupError)(f"{subject}: {words}" if subject else words)


def cores() -> int:
    """Return how many cores this process may use: so many threads, or processes, are worth starting."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
