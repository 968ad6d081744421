"""How long a big store takes: python tests/support store_million [DOCUMENTS, default 1,000,000].

Makes one in a temporary folder, and prints seconds and CPU seconds of each step, of opening three
times. Nothing is asserted: figures are for people (docs/reference/store-format.md has some).
"""

import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice, starmap
from pathlib import Path

from sketches import sketch

from dedup.model.page import Document, PageFingerprint
from dedup.model.recipes import NEWEST
from dedup.store import Store
from dedup.store.transfer import export_lines, import_lines, survey
from dedup.store.verify import verify_store


@contextlib.contextmanager
def timed(step: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    sys.stdout.write(f"{step:10} {wall:7.2f} s {cpu:7.2f} s CPU\n")
    sys.stdout.flush()


def document(i: int, value: int) -> Document:
    page = PageFingerprint(value, sketch(i), i, 300, NEWEST)
    return Document(f"http://example.com/some/path/{i}", page, "example.com", 1.7e9 + i)


def main(count: int) -> None:
    chance = random.Random(1)
    pairs = ((i, chance.getrandbits(64)) for i in range(count))
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary)
        with timed("insert"), Store.open(top / "a", "m") as store:
            while batch := list(starmap(document, islice(pairs, 4096))):
                store.insert_many(batch)
        for _ in range(3):
            with timed("open"):
                store = Store.open(top / "a", "m", create=False)
            store.close()
        with timed("verify"):
            assert not verify_store(top / "a", "m").problem_count
        lines = top / "lines"
        with timed("export"), lines.open("wb") as file:
            file.writelines(export_lines(top / "a" / "m", lambda *_: None))
        with timed("import"), lines.open("rb") as file:
            found = survey(file, lambda *_: None)
            file.seek(0)
            with Store.open(top / "b", "m") as store:
                import_lines(file, found, {"m": store})
        files = sorted((top / "a" / "m").rglob("*.*"))
        sys.stdout.write(", ".join(f"{f.name} {f.stat().st_size:,} bytes" for f in files) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
