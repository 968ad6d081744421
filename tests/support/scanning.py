"""What the tests of `dedup scan` share: pages, files that hold them, and a plain slow judge.

The judge keeps a list and compares with all of it; it uses neither tables nor stores nor the detector.
"""

import gzip
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import oracle
import pyarrow as pa
import zstandard
from pyarrow import parquet

from dedup import document_key, fingerprint
from dedup.model.names import registrable_domain
from dedup.scan import ScanJob, scan

WORDS = [f"w{i:03}" for i in range(600)]


class Page(NamedTuple):
    url: str
    html: str


def page(
    url: str, seed: object, changed: int = 0, menu: int = 0, words: int = 120, title: str = ""
) -> Page:
    """A page of so many words; of one seed they are alike but for the changed ones."""
    rng = random.Random(f"{seed}")
    text = rng.sample(WORDS, words)
    text[:changed] = [f"x{url}{i}" for i in range(changed)]
    head = f"<title>{title}</title>" * bool(title)
    around = f"<header>{' '.join(f'n{i}' for i in range(menu))}</header>" * bool(menu)
    return Page(url, f"<html>{head}<body>{around}<p>{' '.join(text)}</p></body></html>")


def mixed(count: int, seed: int = 1) -> list[Page]:
    """Pages of which about half are near-duplicates of an earlier one; some are recrawled, some short
    or of few words, some of menus in the main; of a topic not all bear one title."""
    rng = random.Random(seed)
    pages: list[Page] = []
    for i in range(count):
        chance = rng.random()
        url = f"http://site{rng.randrange(7)}.example.com/{i}.html"
        if pages and chance < 0.08:
            pages.append(rng.choice(pages))
        elif chance < 0.12:
            pages.append(Page(url, "<p>only four words here"))
        elif chance < 0.15:
            pages.append(page(url, "menu", words=30, menu=900))
        elif chance < 0.25:
            pages.append(page(url, rng.randrange(2), words=rng.choice((12, 15))))
        else:
            topic, changed = rng.randrange(count // 3 + 1), rng.choice((0, 0, 1, 2, 3, 5))
            pages.append(page(url, topic, changed, title=rng.choice(("", "One", "Two"))))
    return pages


def judged(
    pages: Iterable[Page],
    *,
    identity: bool = False,
    scope: str = "global",
    distance: int = 8,
    similarity: float | None = None,
    min_features: int = 8,
    accepted: dict[str, Any] | None = None,
) -> list[tuple]:
    """Return the columns FIELDS for each page."""
    accepted = {} if accepted is None else accepted
    rows = []
    for url, html in pages:
        key, p, domain = document_key(url), fingerprint(html, url=url), registrable_domain(url)
        near = []
        for other_key, (o, where) in accepted.items():
            bits, few = (p.value ^ o.value).bit_count(), min(p.features, o.features)
            same_site = where == domain if where and domain else None
            one_title = same_site and p.identity >> 32 == o.identity >> 32 != 0
            least = 0.75 if same_site is False else 0.85 if one_title and few >= 60 else 0.875
            least = least if similarity is None else similarity
            if few < max(20, min_features) and not (same_site and few >= min_features):
                least = 2
            alike = oracle.similarity(p.sketch, o.sketch)
            least = 0 if p.features < min_features else least
            if bits > distance or alike < least or (scope == "site" and not same_site):
                continue
            said = told(p.identity, o.identity) if same_site else "unknown"
            if p.features < min_features:
                if p == o:
                    near.append((-alike, bits, other_key, said))
                continue
            if said == "other" and (bits, alike) == (0, 1):
                said = "unknown"
            near.append((-alike, bits, other_key, said))
        status, reason, of = "unique", "", (None,) * 4
        counting = [one for one in near if not (identity and one[3] == "other")]
        if key in accepted:
            status = "refetch"
        elif counting:
            alike, bits, other_key, said = min(counting)
            status, of = "near_duplicate", (other_key, bits, -alike, said)
        elif near:
            status, reason = "exempt", "other_title"
        elif p.features < min_features:
            status, reason = "exempt", "unread" if p.unread else "short"
        if status != "near_duplicate":
            accepted[key] = p, domain
        rows.append((key, f"{p.value:016x}", status, reason, *of, of[0] or key))
    return rows


def told(a: int, b: int) -> str:
    """Return what two pages say of themselves, by the hashes of title and canonical URL."""
    halves = [divmod(identity, 2**32) for identity in (a, b)]
    both = [(x, y) for x, y in zip(*halves, strict=True) if x and y]  # 0: it says nothing
    if any(a != b for a, b in both):
        return "other"
    return "same" if both else "unknown"


FIELDS = (
    "key",
    "value",
    "status",
    "reason",
    "of",
    "distance",
    "similarity",
    "identity",
    "cluster",
)


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
    scan(ScanJob(inputs=tuple(map(str, inputs)), output=str(target), **options))
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
