"""What the worker's tests share: pages by the dozen, records of them, and a stream with known truth."""

from __future__ import annotations

import json
import random
from functools import cache

from dedup.worker.pipeline import InputRecord

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "st", "lm")]


@cache
def story(content: int) -> str:
    """Words of a content; two contents share them, but no run of three."""
    return " ".join(random.Random(content).choices(WORDS, k=120))


def html(content: int, copy: int = 0) -> str:
    """A page of a content. Copies differ in a counter and a session, as copies do."""
    return (
        f"<html><head><title>Story {content}</title></head><body><article><h1>Story {content}</h1>"
        f"<p>{story(content)}</p></article><footer>Seen {copy} times, session {copy:06x}</footer>"
        "</body></html>"
    )


def url(content: int, copy: int = 0) -> str:
    return f"http://example.com/{content}/{copy}"


def content_of(address: str) -> int:
    """Return which content a URL or document key has."""
    return int(address.split("/")[-2])


def value(content: int, copy: int = 0) -> bytes:
    """A record's value in the format json, written as its crawler happened to write it."""
    fields = {"url": url(content, copy), "html": html(content, copy), "extra": [copy, None]}
    return json.dumps(fields, indent=copy % 3 or None).encode()


def record(number: int, content: int, copy: int = 0, *, partition: int = 0) -> InputRecord:
    return InputRecord(
        "pages", partition, number, 1700000000000 + number, b"key %d" % number,
        value(content, copy), (("trace", b"\x00\xff%d" % number),),
    )  # fmt: skip


def stream(contents: int, copies: int, seed: int) -> list[tuple[int, int]]:
    """Return (content, copy) of every page, shuffled."""
    pages = [(content, copy) for content in range(contents) for copy in range(copies)]
    random.Random(seed).shuffle(pages)
    return pages
