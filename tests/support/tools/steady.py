"""A service under millions of operations with a bounded number of documents: does its memory grow?

    python tests/support steady 600        seconds; prints a line each half minute, and the outcome

In each round of a client pages are reserved, nine of ten inserted and one released, each is probed twice;
a connection is made and left, a transaction is run, a command is refused, and as many documents as came
are forgotten. RssAnon is watched: the file of the documents, which is mapped, is not memory that grows.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

import redis
from commands import page, spread
from services import Serving

PAGES = 50  # of a round
STORED = 50_000  # documents that stay, of all connections
CONNECTIONS = 2
REPORT_SECONDS = 30.0


def main() -> None:
    """Run for so many seconds."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    with tempfile.TemporaryDirectory() as folder, Serving(Path(folder)) as serving:
        ended, counts = threading.Event(), [0] * CONNECTIONS
        clients = [
            threading.Thread(target=ask, args=(serving.port, i, ended, counts))
            for i in range(CONNECTIONS)
        ]
        for client in clients:
            client.start()
        began, seen = time.monotonic(), []
        while time.monotonic() - began < seconds and all(each.is_alive() for each in clients):
            time.sleep(min(REPORT_SECONDS, seconds / 8))
            seen.append((sum(counts), anonymous(serving.process.pid)))
            print(
                f"{seen[-1][0]:>12,} operations, RssAnon {seen[-1][1] / 1024:.1f} MiB", flush=True
            )
        ended.set()
        for client in clients:
            client.join()
    half = [kib for _, kib in seen[len(seen) // 2 :]]
    print(
        f"{sum(counts):,} operations in {time.monotonic() - began:.0f} s; RssAnon in the second half: "
        f"{min(half) / 1024:.1f} to {max(half) / 1024:.1f} MiB, at the end {half[-1] / 1024:.1f}"
    )


def ask(port: int, number: int, ended: threading.Event, counts: list[int]) -> None:
    """Ask until told to stop."""
    client = redis.Redis(port=port)
    stored: deque[str] = deque()
    i = number
    while not ended.is_set():
        with redis.Redis(port=port) as other:
            other.ping()
        numbers = range(i, i + PAGES * CONNECTIONS, CONNECTIONS)
        i = numbers[-1] + CONNECTIONS
        reserving = client.pipeline(transaction=False)
        for n in numbers:
            reserving.execute_command("DEDUP.RESERVE", "d", f"http://example.com/{n}",
                                      page(spread(n)))  # fmt: skip
        ending = client.pipeline(transaction=False)
        for n, answer in zip(numbers, reserving.execute(), strict=True):
            key, probed = f"http://example.com/{n}", ("d", page(spread(n)))
            what = "DEDUP.RELEASE" if n % 10 == 0 else "DEDUP.INSERT"
            ending.execute_command(what, "d", key, answer[1])
            for _ in range(2):
                ending.execute_command("DEDUP.PROBE", *probed)
            if what == "DEDUP.INSERT":
                stored.append(key)
        while len(stored) > STORED // CONNECTIONS:
            ending.execute_command("DEDUP.FORGET", "d", stored.popleft())
        ending.execute_command("DEDUP.PROBE", "d", "no value")
        answers = ending.execute(raise_on_error=False)
        assert sum(isinstance(each, Exception) for each in answers) == 1
        client.pipeline().execute_command("DEDUP.INFO", "d").execute()
        counts[number] += PAGES + len(answers) + 4


def anonymous(pid: int) -> int:
    """Return the anonymous memory of a process in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


if __name__ == "__main__":
    main()
