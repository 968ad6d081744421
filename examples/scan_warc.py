"""Find the near-duplicates in WARC files: python examples/scan_warc.py [FILE.warc.gz ...]

Without a file it makes one, of pages that have copies under session ids.
"""

import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path


def record(url, html):
    """Return a page as crawlers archive it: a compressed WARC record."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + html
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:example:1>\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + http + b"\r\n\r\n")


def sample(path):
    """Write made-up pages, each with four copies: another address, and another time of day."""
    rng = random.Random(1)  # noqa: S311
    with path.open("wb") as file:
        for number in range(40):
            text = " ".join(f"word{rng.randrange(3000)}" for _ in range(200))
            for copy in range(5):
                html = f"<p>Seen at {10 + copy}:00.</p><article><p>{text}</p></article>"
                url = f"http://news.example.com/{number}" + f"?sid={copy}" * (copy > 0)
                file.write(record(url, html.encode()))


with tempfile.TemporaryDirectory() as folder:
    files = sys.argv[1:]
    if not files:
        files = [str(Path(folder) / "site.warc.gz")]
        sample(Path(files[0]))
    verdicts = Path(folder) / "verdicts.jsonl"
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "dedup", "scan", *files, "--output", verdicts], check=True
    )
    clusters = Counter()
    for line in verdicts.open():
        verdict = json.loads(line)
        clusters[verdict["cluster"]] += verdict["status"] == "near_duplicate"
    print("the pages with most near-duplicates:")
    for key, count in clusters.most_common(5):
        print(f"{count:6}  {key}")
