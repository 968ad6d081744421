"""Writes the seeds that fuzzing begins from: make_corpus FOLDER.

    FOLDER/<harness>/<digest>   one seed; harnesses are native/fuzz/fuzz_*.c and tests/support/fuzzing.py
    FOLDER/html.dict            the words of HTML, for mutators that take a dictionary

Everything is made from what the tests are made of, so nothing of it is kept in the repository.
What a fuzzer added to the folders stays.
"""

import hashlib
import itertools
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from html.entities import html5
from pathlib import Path

import fuzzing
import hostile
import numpy as np
import oracle
from segment_data import write_segment

from dedup.demo.site import Site
from dedup.model.page import SKETCH_BYTES, Document, PageFingerprint
from dedup.store import Store

ROOT = Path(__file__).parents[3]
DEMO_PAGES = 100
HOSTILE_BYTES = 700
LARGE_BYTES = 60_000  # of a few, so that long inputs are tried early

Seed = tuple[str, bytes]  # harness, input


def pages() -> Iterator[bytes]:
    """Yield the pages of the specification, of a demo site, and short ones of every hostile kind."""
    for path in sorted(oracle.GOLDEN.glob("*.html")):
        yield path.read_bytes()
    site = Site(DEMO_PAGES)
    kinds = {truth.kind: path for path, truth in site.truth.items()}
    for path in kinds.values():
        yield site.render(path, 0)[2]
    yield from hostile.PIECES
    for i, name in enumerate(hostile.FAMILIES):
        yield hostile.family(name, HOSTILE_BYTES if i % 8 else LARGE_BYTES)


def reader_seeds() -> Iterator[Seed]:
    """Yield seeds of the readers: flags and directory before a page."""
    for i, page in enumerate(pages()):
        flags = (0, 4, 2, 0, 6, 1)[i % 6] | i % 8 << 3
        directory = b"/a/" if i % 2 else b""
        yield "reader", bytes([flags, len(directory)]) + directory + page
        yield "page", bytes([i % 32]) + page[:3000]
        if len(page) < 1500:
            yield "hash", random.Random(i).randbytes(16) + page


def values(kind: str, count: int) -> list[int]:
    """Return fingerprints that are spread, in clusters, crowded into few bits, or the extremes."""
    rng = random.Random(count)
    if kind == "spread":
        return [rng.getrandbits(64) for _ in range(count)]
    if kind == "clusters":
        centers = [rng.getrandbits(64) for _ in range(count // 8 + 1)]
        return [rng.choice(centers) ^ 1 << rng.randrange(64) for _ in range(count)]
    if kind == "crowded":
        return [i << 52 for i in range(count)]
    return [(2**64 - 1) * (i % 2) ^ 1 << i % 64 for i in range(count)]


def table_seeds() -> Iterator[Seed]:
    """Yield segments of every design and kind, and operations on tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        sizes = (0, 1, 2, 9, 70, 700, 3000)
        for k, kind, count in itertools.product(
            (0, 3, 6, 15), ("spread", "clusters", "crowded", "extremes"), sizes
        ):
            numbers = values(kind, count)
            write_segment(path, numbers, [i % 50 if i % 5 else i for i in range(count)], k, count)
            yield "segment", bytes([k | 16 * (count % 2)]) + path.read_bytes()
    from compressed import compress  # builds the paper's library

    for codec, kind, count in itertools.product(
        ("huffman", "elias-fano"), ("spread", "clusters", "crowded", "extremes"), sizes
    ):
        numbers = np.sort(np.array(values(kind, count), dtype=np.uint64))
        yield "compressed", b"\0" + bytes(compress(numbers, codec).bytes)
        yield "compressed", b"\2" + numbers[:200].tobytes()
    rng = random.Random(3)
    for i in range(60):
        size = 4 << i % 9
        choices = bytes(256) if i % 4 else bytes([255, 254, 200])
        operations = bytearray(rng.randbytes(size))
        if choices[0]:
            operations[::4] = bytes(rng.choices(choices + bytes(range(0, 254, 9)), k=size // 4))
        yield "table", bytes([i % 3 == 0, i * 7 % 16]) + operations


def store_seeds() -> Iterator[Seed]:
    """Yield files of documents: few and many of them, with long keys, and some removed."""
    for count in (0, 1, 9, 30):
        with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
            for i in range(count):
                page = PageFingerprint(i << 40, bytes(SKETCH_BYTES), 0, 9, store.recipe)
                store.insert(Document(f"{i}" * (1 + i % 40 * (i % 9 == 0) * 90), page))
            for i in range(0, count, 3):
                store.forget(f"{i}")
            store.sync()
            yield "lmdb", (Path(folder) / "default" / "documents.mdb").read_bytes()


def command_seeds() -> Iterator[Seed]:
    """Yield what clients send, in pieces of many sizes."""
    for i, data in enumerate(fuzzing.fuzzing_resp.seeds()):
        yield "commands", bytes([i % 40]) + data


def regressions() -> Iterator[Seed]:
    """Yield what fuzzing found before."""
    for path in sorted((ROOT / "native" / "fuzz" / "findings").glob("*/*")):
        yield path.parent.name, path.read_bytes()


def dictionary() -> list[bytes]:
    """Return tag names, attributes and references, as they stand in pages."""
    tags = (ROOT / "native" / "src" / "reader" / "tag_table.h").read_text()
    names = re.findall(r"\}, /\* (\w+) \*/", tags)
    words = [f"<{name}>" for name in names] + [f"</{name}>" for name in names]
    words += ["hidden", "aria-hidden=true", "style='display:none'", "visibility:hidden", "href="]
    words += [f"class={word}" for word in "comment comments disqus reply respond".split()]
    words += [f"role={word}" for word in "navigation banner search form main article".split()]
    words += ["type=application/json", "application/ld+json", "+json", ";jsessionid=", "?utm_a=1"]
    words += ["<!--", "-->", "--!>", "<![CDATA[", "]]>", "<!doctype html>", "<?xml ?>", "/>", "&#x"]
    words += [f"&{name}" for name in random.Random(1).sample(sorted(html5), 150)]
    raw = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xe4\xb8\xad", b"\xcc\x81", b"\xc2\xad", b"\xed\xa0\x80"]
    return [word.encode() for word in words] + raw


def quoted(word: bytes) -> str:
    """Return a word as a line of a dictionary of libFuzzer and AFL++."""
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02X}" for b in word)
    return '"' + "".join(plain) + '"\n'


def main(folder: Path) -> None:
    """Write the seeds and the dictionary."""
    written: dict[str, int] = {}
    sources = (
        reader_seeds(),
        table_seeds(),
        store_seeds(),
        command_seeds(),
        regressions(),
        fuzzing.seeds(),
    )
    for harness, data in itertools.chain(*sources):
        path = folder / harness / hashlib.blake2b(data, digest_size=12).hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written[harness] = written.get(harness, 0) + 1
    (folder / "html.dict").write_text("".join(map(quoted, dictionary())))
    print(f"{folder}:", ", ".join(f"{count} seeds for {name}" for name, count in written.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
