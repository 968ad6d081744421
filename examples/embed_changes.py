"""Embed only what changed: python examples/embed_changes.py STORE URL [URL ...]

STORE is a folder; run it again on the same folder, every day, say. A page whose text another page has
is skipped, an unchanged one too, and of a changed one only the blocks that are new are embedded.
"""

import sqlite3
import sys
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import dedup


def embed(blocks):
    """Return a vector of each block of text. Yours calls a model; this one counts letters."""
    return [repr([block.count(letter) for letter in "aeiou"]) for block in blocks]


def update(vectors, key, html):
    """Make the vectors those of this page; return how many blocks were embedded, and of how many."""
    texts = [" ".join(block.tokens) for block in dedup.main_words(html)]
    blocks = {sha256(text.encode()).hexdigest(): text for text in texts}
    stored = {row[0] for row in vectors.execute("SELECT block FROM vectors WHERE key = ?", [key])}
    new = [name for name in blocks if name not in stored]
    made = embed([blocks[name] for name in new]) if new else []
    rows = [(key, name, vector) for name, vector in zip(new, made, strict=True)]
    with vectors:  # one transaction: the page's old vectors, or its new ones
        gone = [(key, name) for name in stored - blocks.keys()]
        vectors.executemany("DELETE FROM vectors WHERE key = ? AND block = ?", gone)
        vectors.executemany("INSERT INTO vectors VALUES (?, ?, ?)", rows)
    return len(new), len(blocks)


def visit(detector, vectors, url):
    """Fetch a page; return what was done with it."""
    key = dedup.document_key(url)
    try:
        with urlopen(url, timeout=30) as answer:  # noqa: S310
            html, encoding = answer.read(), answer.headers.get_content_charset()
    except HTTPError as error:
        if error.code not in {404, 410}:
            raise
        with vectors:
            vectors.execute("DELETE FROM vectors WHERE key = ?", [key])
        detector.forget(key)  # so that a copy may take its place
        return "gone"
    page = detector.fingerprint(html, encoding=encoding, url=url, links=True)
    verdict = detector.decide(page, key)
    if verdict.status == "near_duplicate":
        return f"near-duplicate of {verdict.of}"
    try:
        if verdict.reason == "unchanged":
            said = "unchanged"
        else:
            said = "{} of {} blocks embedded".format(*update(vectors, key, html))
    except Exception:
        detector.release(verdict)
        raise
    # After the vectors are stored: a crash between the two repeats the page.
    detector.insert(verdict)
    return said


if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
    sys.exit("usage: python examples/embed_changes.py STORE URL [URL ...]")
folder = Path(sys.argv[1])
with dedup.open(folder) as opened:
    database = sqlite3.connect(folder / "vectors.sqlite")
    database.execute("CREATE TABLE IF NOT EXISTS vectors (key, block, vector, UNIQUE (key, block))")
    for address in sys.argv[2:]:
        try:
            print(f"{address}: {visit(opened, database, address)}")
        except (OSError, dedup.DedupError) as fault:  # of this page: the others go on
            print(f"{address}: {fault}", file=sys.stderr)
    database.close()
