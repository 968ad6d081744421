"""What the tests of `dedup scan` share: pages, files that hold them, and a plain slow judge.

The judge keeps a list and compares with all of it; it uses neither tables nor stores nor the detector.
"""

import gzip
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import zstandard
from pyarrow import parquet

from dedup import document_key, fingerprint
from dedup.model.names import registrable_domain
from dedup.scan import Job, scan

WORDS = [f"w{i:03}" for i in range(600)]


class Page(NamedTuple):
    url: str
    html: str


def page(url: str, seed: object, changed: int = 0, links: int = 0, words: int = 120) -> Page:
    """A page of so many words; of one seed they are alike but for the changed ones."""
    rng = random.Random(f"{seed}")
    text = rng.sample(WORDS, words)
    text[:changed] = [f"x{url}{i}" for i in range(changed)]
    anchors = "".join(
        f'<p>more of it <a href="/l/{url[-6:]}/{i}">n{i}</a></p>' for i in range(links)
    )
    return Page(url, f"<html><body><p>{' '.join(text)}</p>{anchors}</body></html>")


def mixed(count: int, seed: int = 1) -> list[Page]:
    """Pages of which about half are near-duplicates of an earlier one; some are recrawled, some short."""
    rng = random.Random(seed)
    pages: list[Page] = []
    for i in range(count):
        chance = rng.random()
        url = f"http://site{rng.randrange(7)}.example.com/{i}.html"
        if pages and chance < 0.08:
            pages.append(rng.choice(pages))
        elif chance < 0.12:
            pages.append(Page(url, "<p>only four words here"))
        else:
            topic, changed = rng.randrange(count // 3 + 1), rng.randrange(4)
            pages.append(page(url, topic, changed, links=rng.choice((0, 0, 12))))
    return pages


def judged(
    pages: Iterable[Page],
    *,
    guard: bool = True,
    scope: str = "global",
    distance: int = 7,
    total: int = 18,
    min_features: int = 20,
    accepted: dict[str, Any] | None = None,
) -> list[tuple]:
    """Return (key, value, status, reason, of, distance, check_distance, cluster) for each page."""
    accepted = {} if accepted is None else accepted
    rows = []
    for url, html in pages:
        key, p, domain = document_key(url), fingerprint(html, url=url), registrable_domain(url)
        near = sorted(
            ((p.value ^ o.value).bit_count(), (p.check ^ o.check).bit_count(), k, o)
            for k, (o, where) in accepted.items()
            if (p.value ^ o.value).bit_count() <= distance
            and (p.value ^ o.value).bit_count() + (p.check ^ o.check).bit_count() <= total
            and o.features >= min_features
            and (scope == "global" or where == domain != "")
        )
        new_links = (
            p.link_count >= 8
            and p.features <= 24 * p.link_count
            and all((p.links ^ o.links).bit_count() > 16 for *_, o in near)
        )
        status, reason, of = "unique", "", (None, None, None)
        if p.features < min_features:
            status, reason = "exempt", "short"
        elif key in accepted:
            status = "refetch"
        elif near and guard and new_links:
            status, reason = "exempt", "new_links"
        elif near:
            status, of = "near_duplicate", (near[0][2], near[0][0], near[0][1])
        if status != "near_duplicate" and reason != "short":
            accepted[key] = p, domain
        rows.append((key, f"{p.value:016x}", status, reason, *of, of[0] or key))
    return rows


FIELDS = ("key", "value", "status", "reason", "of", "distance", "check_distance", "cluster")


def verdicts(path: Path) -> list[tuple]:
    """Return what judged() does, of an output."""
    if path.suffix == ".parquet":
        rows = parquet.read_table(path).to_pylist()
    else:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [tuple(row[name] for name in FIELDS) for row in rows]


def scanned(
    tmp_path: Path, *inputs: object, output: str = "v.jsonl", **options: Any
) -> list[tuple]:
    """Scan in this process, and return the verdicts."""
    target = tmp_path / output
    scan(Job(inputs=tuple(map(str, inputs)), output=str(target), **options))
    return verdicts(target)


# ------------------------------------------------------------------------------------------ files


def response(
    url: str,
    html: bytes,
    *,
    kind: str = "response",
    status: str = "200 OK",
    headers: Sequence[str] = ("Content-Type: text/html; charset=utf-8",),
) -> bytes:
    """A WARC record as a crawler writes it."""
    http = "\r\n".join((f"HTTP/1.1 {status}", *headers, "", "")).encode() + html
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-01-01T00:00:00Z\r\n"
        "WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\n"
        f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return head.encode() + http + b"\r\n\r\n"


def records(pages: Iterable[Page]) -> list[bytes]:
    return [response(url, html.encode()) for url, html in pages]


def write_warc(path: Path, found: Sequence[bytes]) -> Path:
    """Write records: a member each in .gz and .zst, as crawlers do."""
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(b"".join(map(pack, found)))
    return path


def write_lines(path: Path, pages: Iterable[Page]) -> Path:
    data = b"".join(json.dumps(p._asdict()).encode() + b"\n" for p in pages)
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


def write_parquet(path: Path, pages: Sequence[Page], rows: int = 50) -> Path:
    columns = {"html": [p.html for p in pages], "url": [p.url for p in pages]}
    parquet.write_table(pa.table(columns), path, row_group_size=rows)
    return path
