"""What is fetched from elsewhere, with patience: a mirror that does not answer is asked again.

Invariants: TRIES tries and no more, with growing pauses; the output of the last one is
returned. Processes of one user fetch one after the other: installers lock each other out.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import sleep

from dedup.core.faults import Backoff

__all__ = ["fetched"]

TRIES = 4
FIRST_PAUSE_SECONDS = 5.0  # before the second try; twice as long before each one after it
LONGEST_PAUSE_SECONDS = 45.0


def fetched(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command that downloads something, again until it works or was tried TRIES times.

    Returns the last run, with what it wrote; its returncode says whether it worked. Raises OSError
    if there is no such program.
    """
    backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    for left in reversed(range(TRIES)):
        with _alone():
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, cwd=cwd, env=env
            )
        if done.returncode == 0 or not left:
            return done
        sleep(backoff.next())
    raise AssertionError


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other process of this user fetches."""
    import fcntl

    with (Path(tempfile.gettempdir()) / f"crawl-dedup-fetch-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
