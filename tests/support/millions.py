"""A store of millions of documents for tests: filled step by step, killed on the way, and known by heart.

    python -m millions PATH UNTIL   fills, and says the number of each step when it is acknowledged
    Filling(path, until)               that process

Each step is one transaction: 4,000 new documents, 40 that replace and 40 that are forgotten, of an earlier
step. So the number of steps alone says which documents there are, and a store of another number of
documents has half a transaction.
"""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sketches import sketch

from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store

NAMESPACE = "m"
NEW = 4000  # documents of a step
SKETCH = sketch(7)
WORD = 2**64 - 1


def value_of(number: int, version: int = 0) -> int:
    """Return a well-mixed value (SplitMix64): two of them are far from each other."""
    z = (number + 1 + (version << 40)) * 0x9E3779B97F4A7C15 & WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def key_of(number: int) -> str:
    return f"http://example.com/some/path/{number}"


def document(number: int, version: int = 0) -> Document:
    page = PageFingerprint(value_of(number, version), SKETCH, number, 300, NEWEST)
    return Document(key_of(number), page, "example.com", 1.7e9 + version)


def version_of(number: int, steps: int) -> int | None:
    """Return which version of a document is there after some steps; None: there is none."""
    block, place = divmod(number, NEW)
    if block >= steps:
        return None
    place %= 100
    if place < 2:  # forgotten by step 2 * block + 1, or by the one after it
        return None if 2 * block + 1 + place < steps else 0
    return 1 if place < 4 and 2 * block + place - 1 < steps else 0


def changes(step: int) -> list[tuple[str, Document | None]]:
    """Return what a step does."""
    new = range(step * NEW, (step + 1) * NEW)
    done: list[tuple[str, Document | None]] = [(key_of(n), document(n)) for n in new]
    if step:
        block, place = divmod(step - 1, 2)
        old = range(block * NEW + place, (block + 1) * NEW, 100)
        done += [(key_of(n), None) for n in old]
        done += [(key_of(n + 2), document(n + 2, 1)) for n in old]
    return done


def documents_after(steps: int) -> int:
    return steps * NEW - 40 * max(0, steps - 1)


def steps_of(documents: int) -> int:
    """Return after how many steps there are so many documents. Raises AssertionError after half a step."""
    steps = documents // (NEW - 40)
    assert documents == documents_after(steps), "half a transaction is there"
    return steps


Numbers = npt.NDArray[np.uint64]


def all_after(steps: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return number, version and id of every document that is there after some steps."""
    numbers = np.arange(steps * NEW, dtype=np.int64)
    block, place = numbers // NEW, numbers % 100
    changed = 2 * block + 1 + place % 2  # the step that replaced or forgot it, if place < 4
    gone = (place < 4) & (changed < steps)
    again = gone & (place > 1)
    at = changed[again]
    ids = numbers + 40 * np.maximum(0, block - 1)
    new_ids = at * (NEW + 40) - 40 + NEW + (numbers % NEW)[again] // 100
    return (
        np.concatenate([numbers[~gone], numbers[again]]).astype(np.uint64),
        np.repeat([0, 1], [np.count_nonzero(~gone), len(at)]).astype(np.uint64),
        np.concatenate([ids[~gone], new_ids]).astype(np.uint64),
    )


def values_of(numbers: Numbers, versions: Numbers) -> Numbers:
    """Return what value_of() does of many documents."""
    u = np.uint64
    z = (numbers + u(1) + (versions << u(40))) * u(0x9E3779B97F4A7C15)
    z = (z ^ z >> u(30)) * u(0xBF58476D1CE4E5B9)
    z = (z ^ z >> u(27)) * u(0x94D049BB133111EB)
    return z ^ z >> u(31)


class Filling:
    """A process that fills a store, from where it is."""

    def __init__(self, path: Path, until: int) -> None:
        command = [sys.executable, "-m", "millions", str(path), str(until)]
        here = Path(__file__).parent
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here)
        self.acknowledged = 0

    def read(self, steps: int) -> None:
        """Wait until so many steps are acknowledged, or the process has ended."""
        assert self.process.stdout is not None
        while self.acknowledged < steps and (line := self.process.stdout.readline()).endswith("\n"):
            self.acknowledged = int(line)

    def kill(self, after_seconds: float) -> None:
        timer = threading.Timer(after_seconds, self.process.kill)
        timer.start()
        self.read(1 << 60)
        timer.join()
        with self.process:
            pass

    def end(self) -> None:
        self.read(1 << 60)
        with self.process:
            pass
        assert self.process.returncode == 0


def main() -> None:
    with Store.open(sys.argv[1], NAMESPACE) as store:
        for step in range(steps_of(len(store)) if len(store) else 0, int(sys.argv[2])):
            store.apply(changes(step), {})
            print(step + 1, flush=True)


if __name__ == "__main__":
    main()
