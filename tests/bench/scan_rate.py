"""`dedup scan` on generated WARC files: pages a second, by the clock and by the CPU.

    generated pages -> gzip WARC files -> the command in a process of its own, in turns

Invariants: everything counts from the start of the command to its end, decompression and the start of Python included;
CPU time is that of all its processes, user and system; a fifth of the pages are near-duplicates.
"""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from page_costs import load_pages
from runner import Bench, case, machine, number

from dedup.model.errors import DedupError

DISTINCT = 1000  # generated pages; beyond these, each one comes again in other words
COPIES = 5  # every fifth page is a copy of the one before
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


@case(
    "scan",
    number("pages", 10_000, "Number of pages in all."),
    number("files", 4, "Number of WARC files."),
    rounds=3,
    pages=500,
)
def command(pages, files):
    """Time `dedup scan` on generated WARC files, with one process and with one a core."""
    with TemporaryDirectory() as folder:
        originals = load_pages(None, min(pages, DISTINCT))
        for first in range(files):
            with Path(folder, f"{first:03}.warc.gz").open("wb") as file:
                for n in range(first, pages, files):
                    html = originals[(n - (n % COPIES == 0)) % len(originals)]
                    html = _other_words(html, n // len(originals))
                    file.write(_record(f"http://site{n % 97}.example.com/{n}.html", HTTP + html))
        packed = sum(path.stat().st_size for path in Path(folder).iterdir())
        facts = {"pages": pages, "packed_bytes": round(packed / pages)}

        def measure():
            rows = {}
            for processes in sorted({1, machine()["cores"]}):
                seconds, cpu, found = scan(folder, processes)
                facts["near_duplicates"] = found["near_duplicate"]
                rows[f"processes: {processes}"] = {
                    "pages/s": pages / seconds,
                    "pages/s of CPU": pages / cpu,
                }
            return rows

        yield Bench(facts, measure, ("fastwarc",))


def _record(url, block):
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-01-01T00:00:00Z\r\n"
        "WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n", 6)


def _other_words(html, turn):
    """Return a page whose words are others, but in turn 0: a syllable is added to those of its article."""
    begin, end = html.find(b"<article"), html.find(b"</article>")
    syllable = b"%s " % bytes((97 + turn % 26, 97 + turn // 26 % 26)) if turn else b" "
    return html[:begin] + html[begin:end].replace(b" ", syllable) + html[end:]


def scan(folder, processes):
    """Scan the files of a folder; return seconds, CPU seconds of all processes, and the summary."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "dedup", "scan", f"{folder}/*.warc.gz", "--json"]
    command += ["--output", f"{folder}/verdicts.jsonl", "--processes", str(processes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        summary = process.stdout.read()
        _, process.returncode, used = os.wait4(process.pid, 0)
    if process.returncode:
        raise DedupError("a scan failed; its error stands above")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, json.loads(summary)
