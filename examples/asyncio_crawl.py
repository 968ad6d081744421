"""Crawl a site with asyncio, and keep each text once: python examples/asyncio_crawl.py URL [STORE]

STORE is a folder (default: store), or a table service such as redis://localhost:7700.
"""

import asyncio
import re
import sys
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.request import urlopen

import dedup


def fetch(url):
    """Return a page's HTML, its encoding by the header, and its URL after redirects."""
    with urlopen(url, timeout=30) as answer:  # noqa: S310
        return answer.read(), answer.headers.get_content_charset(), answer.url


def parse(html, url):
    """Return the links of a page. Yours parses and stores the page here, with a real parser."""
    found = re.findall(rb"""<a\s[^>]*?href\s*=\s*["']?([^"'\s>]+)""", html, re.IGNORECASE)
    return {urldefrag(urljoin(url, unescape(link.decode("latin-1")))).url for link in found}


async def visit(detector, url):
    """Fetch a page; return its links, none of a near-duplicate."""
    html, encoding, at = await asyncio.to_thread(fetch, url)
    try:
        page = detector.fingerprint(html, encoding=encoding, url=at)
        verdict = await detector.decide(page, dedup.document_key(url), url=at)
    except dedup.DedupError as error:
        verdict = None
        print(f"not judged, kept: {url}: {error}", file=sys.stderr)
    if verdict and verdict.status == "near_duplicate":
        print(f"drop  {url}: near-duplicate of {verdict.of}")
        return ()
    try:
        links = parse(html, at)
    except Exception:
        if verdict:
            await detector.release(verdict)  # so that a copy may take its place
        raise
    if verdict and verdict.token:
        try:
            await detector.insert(verdict)
        except dedup.DedupError as error:
            print(f"kept, but not remembered: {url}: {error}", file=sys.stderr)
    print(f"keep  {url}: {verdict.status if verdict else 'not judged'}")
    return links


async def crawl(start, store="store"):
    """Follow every link of one site, eight pages at a time."""
    seen, turn, site = {start}, [start], urlsplit(start).netloc
    async with dedup.open_async(store) as detector:
        while turn:
            now, turn = turn[:8], turn[8:]
            done = await asyncio.gather(*(visit(detector, u) for u in now), return_exceptions=True)
            for url, links in zip(now, done, strict=True):
                if isinstance(links, Exception):
                    print(f"fail  {url}: {links}", file=sys.stderr)
                    continue
                turn += sorted({link for link in links if urlsplit(link).netloc == site} - seen)
                seen.update(turn)


if len(sys.argv) not in {2, 3} or sys.argv[1].startswith("-"):
    sys.exit("usage: python examples/asyncio_crawl.py URL [STORE]")
asyncio.run(crawl(*sys.argv[1:]))
