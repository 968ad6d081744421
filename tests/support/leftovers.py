"""Ends what a test run started, should the run itself be killed: a process that watches it.

    watch()     at the start of a run; its children carry a mark in their environment from then on

The watcher waits for the run's end, however it comes, and then kills with -9 every process that
carries the mark, children of children too. Linux only: elsewhere watch() does nothing.
"""

import os
import select
import sys
import time
from pathlib import Path

MARK = "DEDUP_TEST_RUN"
SECONDS = 10  # to look for what is left; a process may be starting another one


def watch() -> None:
    """Mark this process' children to come, and start the watcher. A run within a run is its part."""
    if sys.platform != "linux" or MARK in os.environ:
        return
    os.environ[MARK] = mark = f"{os.getpid()}-{time.time_ns()}"
    null = os.open(os.devnull, os.O_RDWR)
    os.posix_spawn(
        sys.executable,
        [sys.executable, __file__, str(os.getpid()), mark],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)],
        setsid=True,  # no Ctrl-C of the run's
    )
    os.close(null)


def marked(mark: str, name: str = MARK) -> list[int]:
    """Return the processes with this mark in their environment, but for this one."""
    wanted, found = f"{name}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # it has ended, or is not ours
            continue
    return [pid for pid in found if pid != os.getpid()]


def main(run: int, mark: str) -> None:
    try:
        end = os.pidfd_open(run)
    except ProcessLookupError:
        pass
    else:
        if os.getppid() == run:
            select.select([end], [], [])
    until = time.monotonic() + SECONDS
    while (left := marked(mark)) and time.monotonic() < until:
        for pid in left:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        time.sleep(0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
