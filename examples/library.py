"""Deduplicate pages in a program of your own: python examples/library.py"""

import tempfile

import dedup

STORY = "<article><h1>Bridge reopens</h1><p>" + " ".join(
    "the old bridge over the river reopened on friday after two years of repairs engineers "
    "replaced the northern arch strengthened the piers and laid a new deck for trams cyclists "
    "and people on foot while shops on both banks hope for the return of their customers".split()
)
PAGES = {
    "https://example.org/bridge": f"{STORY}</article><footer>Seen 10 times</footer>",
    "https://example.org/bridge?sid=7f3a": f"{STORY}</article><footer>Seen 11 times</footer>",
    "https://example.org/tram": "<article><p>" + " ".join(f"tram{n} line{n}" for n in range(30)),
}

with tempfile.TemporaryDirectory() as folder, dedup.open(folder) as detector:
    for url, html in PAGES.items():
        page = detector.fingerprint(html, url=url)
        verdict = detector.decide(page, dedup.document_key(url))
        if verdict.status == "near_duplicate":
            print(f"drop  {url}: near-duplicate of {verdict.of}, distance {verdict.distance}")
            continue
        print(f"keep  {url}: {verdict.status}")
        # parse and store the page here; then make it last (or detector.release(verdict) on failure)
        detector.insert(verdict)
