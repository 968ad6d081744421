"""`dedup scan` on generated WARC files: pages a second, by the clock and by the CPU, and memory.

    generated pages -> gzip WARC files -> the command in a process of its own, in turns -> samples

Invariants: everything counts from the start of the command to its end, decompression and
the start of Python included; CPU time is that of all its processes, user and system; a fifth of the
pages are near-duplicates.
"""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from page_costs import find_pages, write_pages
from runner import Bench, Progress, Round, machine

from dedup.model.errors import DedupError

DISTINCT = 1000  # generated pages; beyond these, each one comes again in other words
_COPIES = 5  # every fifth page is a copy of the one before


@contextmanager
def open_case(pages: int, files: int, progress: Progress | None = None) -> Iterator[Bench]:
    """Measure a scan of generated pages in a number of files, with one process and with one a core."""
    del progress
    with TemporaryDirectory() as name:
        folder = Path(name)
        page_bytes = write_archives(folder, pages, files)
        packed = sum(path.stat().st_size for path in folder.glob("*.warc.gz"))
        facts = {
            "pages": pages,
            "page_bytes": round(page_bytes),
            "packed_bytes": round(packed / pages),
        }

        def measure() -> Round:
            rows = {}
            for number in sorted({1, machine().cores}):
                found = scan(folder / "*.warc.gz", folder / "verdicts.jsonl", number)
                facts["near_duplicates"] = json.loads(found.said)["near_duplicate"]
                rows[f"{number} processes" if number > 1 else "1 process"] = {
                    "pages/s": pages / found.seconds,
                    "pages/s of CPU": pages / found.cpu_seconds,
                    "MB": found.megabytes,
                }
            return rows

        yield Bench(facts, measure, packages=("fastwarc",))


def write_warc(path: Path, pages: Iterable[tuple[str, bytes]]) -> None:
    """Write pages as the responses of a crawl, a gzip member for each."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    with path.open("wb") as file:
        for url, html in pages:
            file.write(_record(url, "response", "application/http; msgtype=response", http + html))


def _record(url: str, kind: str, content: str, block: bytes) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-01-01T00:00:00Z\r\n"
        "WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\n"
        f"Content-Type: {content}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", 6)


def write_archives(folder: Path, pages: int, files: int) -> float:
    """Write WARC files of generated pages, a fifth of them copies; return the mean size of a page."""
    source = folder / "pages"
    source.mkdir()
    write_pages(source, min(pages, DISTINCT))
    originals = [path.read_bytes() for path in find_pages(source, pages)]
    size = 0

    def some(first: int) -> Iterator[tuple[str, bytes]]:
        nonlocal size
        for number in range(first, pages, files):
            html = originals[(number - (number % _COPIES == 0)) % len(originals)]
            turn = number // len(originals)
            if turn:  # other words: each vowel moves on, in the text and nowhere else
                html = _other_words(html, turn)
            size += len(html)
            yield f"http://site{number % 97}.example.com/{number}.html", html

    for first in range(files):
        write_warc(folder / f"{first:03}.warc.gz", some(first))
    return size / pages


def _other_words(html: bytes, turn: int) -> bytes:
    """Return a page whose words are others: a syllable is added to those of its article."""
    begin, end = html.find(b"<article"), html.find(b"</article>")
    syllable = b"%s " % bytes((97 + turn % 26, 97 + turn // 26 % 26))
    return html[:begin] + html[begin:end].replace(b" ", syllable) + html[end:]


# Runs a command and says what it took. A process of its own, as a child's peak begins at its parent's.
_MEASURE = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
if done.returncode:
    sys.exit(1)
seconds, used = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, done.stdout.decode()]))
"""


class Run(NamedTuple):
    """What a command took, from its start to its end, and what it wrote to stdout.

    cpu_seconds are those of all its processes, megabytes the peak of the greatest.
    """

    seconds: float
    cpu_seconds: float
    megabytes: float
    said: str


def scan(inputs: Path, output: Path, processes: int) -> Run:
    """Run `dedup scan` on the files of a glob. Raises DedupError if it fails; it has said why on stderr."""
    command = (sys.executable, "-m", "dedup", "scan", inputs, "--json", "--output", output)
    measured = [sys.executable, "-c", _MEASURE, *map(str, command), "--processes", str(processes)]
    done = subprocess.run(measured, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise DedupError("dedup scan failed; its error stands above")
    return Run(*json.loads(done.stdout))
