"""How often pages in flight end as late duplicates, with one service and with several.

    PYTHONPATH=tests python -m simulation [schedules]

Prints, for each number of shards and each mean latency of a message: the pages fetched; those of them
that a race let through, unique beside another; and those that had waited as long as a spider waits:
for one that went on, or for one that waited, too.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import simulation


def main(schedules: int = 1000) -> None:
    print("shards  latency   pages  let through  waited in vain  for one that waited")
    for latency in (0.001, 0.02, 0.3):
        for shards in (1, 2, 4):
            counts: Counter[str] = Counter()
            with tempfile.TemporaryDirectory() as folder:
                for seed in range(schedules):
                    found = simulation.run(
                        seed, Path(folder), shards=shards, faults=False, latency_seconds=latency
                    )
                    assert not found.wrongs
                    counts += found.counts
            waited = sum(n for what, n in counts.items() if what.startswith("kept in flight"))
            chained = counts["kept in flight: who was first waited, too"]
            through = counts["unique beside another"]
            print(
                f"{shards:6}  {latency * 1000:4.0f} ms  {counts['pages']:6}  {through:11}  "
                f"{waited:14}  {chained:19}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
