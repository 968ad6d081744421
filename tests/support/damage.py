"""A store with single bytes damaged: what it answers, each time in a process that may die of it.

    folder = small_store(path)                   documents, removed ones, long keys, an index
    harms = [Harm("documents.mdb", 4096, 0x10)]  which byte of which file, and what is flipped in it
    outcomes(folder, harms)                      "refused", "harmless", or what went wrong, in order

"refused" is StoreDamaged with the path of the damaged file, when the store is opened or when the
bytes are read. "harmless" is a store that gives every answer it gave before, then takes inserts,
replacements and removals, and verifies. There is no third outcome that is right.
"""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from sketches import sketch

from dedup.model.errors import StoreDamaged
from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store, store
from dedup.store.documents import Documents
from dedup.store.verify import verify_store

NAMESPACE = "harmed"
DOCUMENTS = 50
DATABASE = "documents.mdb"


def files(folder: Path) -> list[str]:
    """Return the names of all files of a store: the database first, then its lock, then its index."""
    index = (path for name in ("keys", "values") for path in (folder / name).iterdir())
    return [DATABASE, "lock", *sorted(str(path.relative_to(folder)) for path in index)]


class Harm(NamedTuple):
    """A byte of a file, and the bits that are flipped in it."""

    file: str
    place: int
    bits: int


def document(number: int, version: int = 0) -> Document:
    key = f"http://example.com/{number}" + ("/long" * 900 if number % 40 == 3 else "")
    value = (number * 0x9E3779B97F4A7C15 + version * 0xC2B2AE3D27D4EB4F) % 2**64
    return Document(key, PageFingerprint(value, sketch(5), 6, 300, NEWEST), "example.com", 1.5e9)


def expected() -> dict[int, Document | None]:
    """Return what small_store() holds by number; None: it was removed."""
    held: dict[int, Document | None] = {n: document(n) for n in range(DOCUMENTS)}
    held |= {n: document(n, 1) for n in range(0, DOCUMENTS, 9)}
    return held | dict.fromkeys(range(5, DOCUMENTS, 17))


def small_store(path: Path) -> Path:
    """Make a store with everything a store can hold, and return its folder."""
    with Store.open(path, NAMESPACE) as made:
        for n in range(DOCUMENTS * 3 // 4):
            made.insert(document(n))
        for n in range(5, DOCUMENTS * 3 // 4, 17):
            made.forget(document(n).key)
        with patch.object(store, "TAIL_AT_CLOSE", 1):
            made.close()
    with Store.open(path, NAMESPACE) as made:  # the tail behind the index
        for n in range(DOCUMENTS * 3 // 4, DOCUMENTS):
            made.insert(document(n))
        for n in range(0, DOCUMENTS, 9):
            made.insert(document(n, 1))
        for n in range(5, DOCUMENTS, 17):
            made.forget(document(n).key)
    return path / NAMESPACE


def sampled(folder: Path, seed: int, count: int) -> list[Harm]:
    """Return count bytes of all files, chosen by the seed, a single bit or all bits of each."""
    chance = random.Random(seed)
    sizes = {name: (folder / name).stat().st_size for name in files(folder)}
    chosen = []
    for _ in range(count):
        (name,) = chance.choices([*sizes], [10, 1, *[1] * (len(sizes) - 2)])
        bits = 1 << chance.randrange(8) if chance.random() < 0.7 else chance.randrange(1, 256)
        chosen.append(Harm(name, chance.randrange(sizes[name]), bits))
    return chosen


def heads(folder: Path, bits: Sequence[int]) -> list[Harm]:
    """Return the bytes that steer: both meta pages, the head of every page, those of the index."""
    pages = (folder / "documents.mdb").stat().st_size // 4096
    places = [page * 4096 + i for page in range(pages) for i in range(160 if page < 2 else 16)]
    harms = [Harm("documents.mdb", place, bit) for place in places for bit in bits]
    index = [(name, (folder / name).stat().st_size) for name in files(folder)[2:]]
    return harms + [
        Harm(name, place, bit)
        for name, size in index
        for place in range(min(size, 64))
        for bit in bits
    ]


def outcomes(folder: Path, harms: Sequence[Harm]) -> list[str]:
    """Return what came of each harm: "refused", "harmless", or else a sentence about what is wrong.

    A process that dies of one is named with its exit code, and the next ones get a new process.
    """
    sound = {name: (folder / name).read_bytes() for name in files(folder)}
    found: list[str] = []
    while len(found) < len(harms):
        _restore(folder, sound)
        left = harms[len(found) :]
        done = subprocess.run(
            [sys.executable, "-m", "damage", str(folder)],
            input=json.dumps(left),
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        found += answers
        if done.returncode or len(answers) < len(left):
            found.append(f"the process ended with {done.returncode}: {done.stderr[-300:]}")
    _restore(folder, sound)
    return found[: len(harms)]


def wrong(harms: Sequence[Harm], found: Sequence[str]) -> list[tuple[Harm, str]]:
    """Return the harms that were neither refused nor harmless."""
    pairs = zip(harms, found, strict=True)
    return [(harm, what) for harm, what in pairs if what not in {"refused", "harmless"}]


def counted(found: Sequence[str]) -> dict[str, int]:
    """Return how often each outcome came."""
    return dict(Counter(what if what in {"refused", "harmless"} else "wrong" for what in found))


# ------------------------------------------------------------- in the process that may die of it


def main() -> None:
    folder = Path(sys.argv[1])
    sound = {name: (folder / name).read_bytes() for name in files(folder)}
    Documents.sync = lambda _self: None  # nobody cuts the power here
    for name, place, bits in json.load(sys.stdin):
        _restore(folder, sound)
        with (folder / name).open("r+b") as file:
            file.seek(place)
            file.write(bytes([sound[name][place] ^ bits]))
        print(json.dumps(_outcome(folder, folder / name)), flush=True)


def _restore(folder: Path, sound: dict[str, bytes]) -> None:
    """Make a folder what it was; emptying a file first, as write_bytes() does, is slow."""
    for name in ("keys", "values"):
        (folder / name).mkdir(exist_ok=True)
        for path in (folder / name).iterdir():
            if str(path.relative_to(folder)) not in sound:
                path.unlink()
    for name, data in sound.items():
        with (folder / name).open("r+b" if (folder / name).exists() else "wb") as file:
            file.write(data)
            file.truncate()


def _outcome(folder: Path, harmed: Path) -> str:
    try:
        wrongs = [*_wrongs(folder)]
    except StoreDamaged as error:
        return "refused" if str(harmed) in str(error) else f"refused without its name: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "; ".join(wrongs[:3]) or "harmless"


def _wrongs(folder: Path) -> Iterator[str]:
    """Yield in which ways a store is not what small_store() made, before and after writing to it."""
    held = expected()
    with Store.open(folder.parent, NAMESPACE) as opened:
        yield from _differences(opened, held)
        for n in range(DOCUMENTS, DOCUMENTS + 8):
            held[n] = document(n)
            opened.insert(document(n))
        for n in range(1, DOCUMENTS, 15):
            held[n] = document(n, 2)
            opened.insert(document(n, 2))
        for n in range(2, DOCUMENTS, 15):
            held[n] = None
            opened.forget(document(n).key)
    with Store.open(folder.parent, NAMESPACE) as opened:
        yield from _differences(opened, held)
    yield from verify_store(folder.parent, NAMESPACE).problems


def _differences(opened: Store, held: dict[int, Document | None]) -> Iterator[str]:
    there = {n: d for n, d in held.items() if d is not None}
    if len(opened) != len(there):
        yield f"{len(opened)} documents where {len(there)} belong"
    for n, stored in held.items():
        if opened.get(document(n).key) != stored:
            yield f"get() of document {n} is wrong"
    for n, stored in there.items():
        if (stored, 0) not in opened.near(stored.page.value, 3):
            yield f"near() does not find document {n}"
        if len(opened.near(stored.page.value ^ 0x0F0F0F0F00000000, 3)) > 1:
            yield f"near() finds too much around document {n}"


if __name__ == "__main__":
    main()
