"""What a crawl left, lost and did not ask, beside the crawl of the same site by the same spider without the add-on.

    left      corpus builders (html, text): items whose content an earlier item had (J >= .9);
              metadata, link graph: items equal to an earlier one but for the url
    lost      contents that the crawl without had, and that are unlike all that were kept (J < .8); records likewise
    calendar  items of the endless calendar, which count as neither, nor as unlisted
    not asked URLs that the crawl without asked, and this one did not; unlisted: those whose URL and reason are not
              in DEDUP_DROPPED; missed: unlisted, and the page was asked or listed by no other URL (a mirror's) either

Contents are compared by the Jaccard similarity J of their 3-token shingles; a Chinese, Japanese, Korean or Thai
character is a token. Of pages that are lost and alike, one counts.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from crawls.served import Site

SAME, TWIN = 0.8, 0.9
SUMS = tuple("pages,requests,parsed,items,left,lost,calendar,not asked,unlisted,missed".split(","))
KINDS = {"requests": "requests|fetches", "items": "items?", "parses": "pages|copies|parses"}
ENDLESS = "calendar "  # a page of the calendar that the noise has
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\W{_UNSPACED}]+")


Counts = tuple[int, list[str], int]  # left, lost, of the calendar


class Contents:
    """The contents of a site, and which are alike."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        shingles = {key: _shingles(text) for key, text in texts.items()}
        times = Counter(each for one in shingles.values() for each in one)
        self.empty = {key for key, one in shingles.items() if not one}
        self.alike: dict[str, dict[str, float]] = {key: {} for key in texts}
        # Two contents of J >= SAME share one of their rarest shingles.
        holders: defaultdict[int, list[str]] = defaultdict(list)
        for key, one in shingles.items():
            rarest = sorted(one, key=lambda each: (times[each], each))
            rarest = rarest[: len(one) - math.ceil(SAME * len(one)) + 1] if one else []
            for other in {o for each in rarest for o in holders[each]}:
                both = len(one & shingles[other])
                similarity = both / (len(one) + len(shingles[other]) - both)
                if similarity >= SAME:
                    self.alike[key][other] = self.alike[other][key] = similarity
            for each in rarest:
                holders[each].append(key)

    def has(self, kept: set[str], key: str, least: float) -> bool:
        """Whether one of some pages has the content of a page."""
        near = self.alike.get(key, {})
        return key in kept or any(j >= least and other in kept for other, j in near.items())


def _shingles(text: str) -> set[int]:
    words = _TOKEN.findall(text.lower())
    if len(words) < 3:
        return {hash(tuple(words))} if words else set()
    return {hash(tuple(words[n : n + 3])) for n in range(len(words) - 2)}


def judged(site: Site, contents: Contents, crawl: Any, reference: Any) -> dict[str, Any]:
    """Return the figures of a crawl."""
    by_content = crawl["spider"] in ("html", "text")
    left, lost, calendar = (_contents if by_content else _records)(site, contents, crawl, reference)
    not_asked = sorted(set(reference["asked"]) - set(crawl["asked"]))
    page_of = {url: site.page_of(url) or "" for url in {*reference["asked"], *crawl["asked"]}}
    endless = {url for url, page in page_of.items() if page.startswith(ENDLESS)}
    unlisted = [url for url in not_asked if url not in crawl["listed"] and url not in endless]
    pages = (
        {page_of[url] for url in crawl["asked"]} | {""} | set(map(site.page_of, crawl["listed"]))
    )
    missed = {page_of[url]: url for url in unlisted if page_of[url] not in pages}
    ends = [e["stats"].get("finish_reason") for e in (crawl, reference)]
    return {
        "spider": crawl["spider"],
        "config": crawl["config"],
        "pages": len(site.texts),
        "requests": len(crawl["asked"]),
        "parsed": crawl["parsed"],
        "items": len(crawl["items"]),
        "left": left,
        "lost": len(lost),
        "calendar": calendar,
        "not asked": len(not_asked),
        "unlisted": len(unlisted),
        "missed": len(missed),
        "cpu": crawl["cpu_seconds"] / reference["cpu_seconds"],
        "cpu_seconds": crawl["cpu_seconds"],
        "peak_mb": crawl["peak_mb"],
        "saved": {
            **{
                n: len(reference[o]) - len(crawl[o])
                for n, o in (("requests", "asked"), ("items", "items"))
            },
            "parses": reference["parsed"] - crawl["parsed"],
        },
        "said": claims(crawl["summary"]),
        "summary": crawl["summary"],
        "lost pages": sorted(lost),
        "missed pages": sorted(missed.values()),
        "reasons": dict(Counter(crawl["listed"].get(url, "unlisted") for url in not_asked)),
        "errors": {n: v for n, v in crawl["stats"].items() if "error" in n},
        "ended": ends[0] == ends[1] == "finished",
    }


def summed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each variant, spider and configuration, of all sites that it crawled."""
    groups: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["variant"], row["spider"], row["config"]].append(row)
    found = []
    for (variant, spider, config), group in groups.items():
        names = {row["site"] for row in group}
        none = [row for row in groups[variant, spider, "none"] if row["site"] in names]
        seconds, alone = (sum(row["cpu_seconds"] for row in part) for part in (group, none))
        line = {"site": f"all {len(group)}", "variant": variant, "spider": spider, "config": config}
        line |= {n: sum(row[n] for row in group) for n in SUMS}
        for part in ("said", "saved"):
            line[part] = {kind: sum(row[part].get(kind, 0) for row in group) for kind in KINDS}
        found.append(line | {"cpu": seconds / alone, "peak_mb": max(r["peak_mb"] for r in group)})
    return found


def claims(summary: Iterable[str], saved: bool = False) -> dict[str, int]:
    """Return what the add-on says was withheld, dropped or saved (or only what it calls saved), by kind."""
    verbs = "saved" if saved else "saved|withheld|dropped|not sent|not asked"
    found: dict[str, int] = {}
    for line in summary:
        for kind, nouns in KINDS.items():
            # "saved 12 requests", "12 items and 7 requests were withheld"
            number = rf"([\d,]+) (?:{nouns})"
            said = re.findall(rf"(?:{verbs}) {number}", line)
            said += re.findall(rf"{number}\b(?: and [\d,]+ \w+)?(?: were)? (?:{verbs})", line)
            if said:
                found[kind] = found.get(kind, 0) + sum(int(each.replace(",", "")) for each in said)
    return found


def _contents(site: Site, contents: Contents, crawl: Any, reference: Any) -> Counts:
    got, wanted = (
        [page for url, _ in found["items"] if not (page := site.page_of(url) or "").startswith(ENDLESS)]
        for found in (crawl, reference)
    )  # fmt: skip
    kept: set[str] = set()
    left, lost = 0, []
    for page in got:
        left += contents.has(kept, page, TWIN)
        kept.add(page)
    for page in sorted({*wanted} - contents.empty - {""}):
        if not contents.has(kept, page, SAME) and not contents.has({*lost}, page, SAME):
            lost.append(page)
    return left, lost, len(crawl["items"]) - len(got)


def _records(site: Site, _: Contents, crawl: Any, reference: Any) -> Counts:
    def records(found: Any) -> Iterator[tuple[str, str]]:
        for url, item in found["items"]:
            if not (site.page_of(url) or "").startswith(ENDLESS):
                links = {site.page_of(link) or link for link in item.get("out_links", ())}
                yield json.dumps([item | {"out_links": sorted(links)}], sort_keys=True), url

    got, wanted = list(records(crawl)), dict(records(reference))
    kept = dict(got)
    lost = [url for record, url in wanted.items() if record not in kept]
    return len(got) - len(kept), lost, len(crawl["items"]) - len(got)
