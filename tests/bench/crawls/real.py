"""Real public spiders on their own saved pages, parse code unchanged: each page with variants and copies.

    a repository's spider and the page that its tests have -> a site: the page and VARIANTS of it (some words replaced, some
    rows left out), each also with a campaign's parameter, under a section, and as a print version -> a crawl

A hub leads to all of them, in an order by chance; <base> makes links mean the same everywhere. What is wanted are the
distinct items, but for their `source` and `url`, that the spider makes without the add-on.
"""

import random
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import lxml.html

from crawls.sites import BuiltSite, Page, clone_of

# OWNER/NAME, commit; spiders and pages lie where the template of these repositories has them.
REPOSITORIES = {
    "City-Bureau/city-scrapers": "292e3f20e2b0cf044e8571bd3acf9cd84249af30",
    "City-Bureau/city-scrapers-cle": "93e3e567cb5c6db7c39bb9eea1bebaca989763a8",
    "City-Bureau/city-scrapers-det": "708787f7fa18af34ea40b0089ec345260dcb9735",
}
PACKAGE, PAGES = "city_scrapers/spiders", "tests/files"
HOST = "real.example"
VARIANTS = 8
COPIES = ("?utm_source=mail", "/section", "/print")


@dataclass(frozen=True)
class RealSpider:
    """A spider, where its repository lies, and its saved page."""

    name: str
    module: str
    folder: Path
    page: Path


def public_spiders(cache: Path, clones: Path | None) -> Iterator[RealSpider]:
    """Yield the spiders that have a saved page. Raises OSError where a repository is not to be had."""
    for repository, commit in REPOSITORIES.items():
        folder = cache / "spiders" / f"{repository.replace('/', '+')}-{commit}"
        if not folder.is_dir():
            clone = clone_of(repository, cache, clones)
            packed = subprocess.run(
                ["git", f"--git-dir={clone}", "archive", commit], check=True, capture_output=True
            ).stdout
            with tarfile.open(fileobj=BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
        for file in sorted((folder / PACKAGE).glob("*.py")):
            page = folder / PAGES / f"{file.stem}.html"
            if page.exists():
                module = f"{PACKAGE.replace('/', '.')}.{file.stem}"
                yield RealSpider(file.stem, module, folder, page)


def real_site(spider: RealSpider) -> BuiltSite:
    """Return the site of a spider: a hub, the page, its variants, and copies of each."""
    html = spider.page.read_text("utf8", "replace")
    pages = {}
    for number, variant in enumerate((html, *(varied(html, n + 1) for n in range(VARIANTS)))):
        path = f"/page/{number}"
        based = f"<base href='http://{HOST}/page/'>" + variant
        pages[path] = based
        pages[path + COPIES[0]] = based
        pages[COPIES[1] + path] = f"<p>Home &gt; Section</p>{based}"
        printed = re.sub(r"<(nav|header|footer|aside)\b.*?</\1\s*>", "", based, flags=re.DOTALL)
        pages[COPIES[2] + path] = f"{printed}<p>Printed on 28 November 2026</p>"
    order = sorted(pages)
    random.Random(spider.name).shuffle(order)
    hub = "".join(f"<a href='{path}'>{path}</a> " for path in order)
    every = {"/": f"<html><body>{hub}</body></html>"} | pages
    return BuiltSite(spider.name, HOST, [f"http://{HOST}/"], [Page(HOST + path, body, "") for path, body in every.items()])  # fmt: skip


def varied(html: str, number: int) -> str:
    """Return a page in which one word of every tenth text is another, and some rows are missing."""
    chance = random.Random(number)
    tree = lxml.html.document_fromstring(html.encode("utf8", "replace"), lxml.html.HTMLParser(encoding="utf8"))  # fmt: skip
    rows = max((each.getchildren() for each in tree.iter()), key=len)
    for row in chance.sample(rows, len(rows) // 10):
        row.getparent().remove(row)
    for element in tree.iter():
        if isinstance(element.tag, str) and element.tag not in ("script", "style", "title"):
            words = (element.text or "").split(" ")
            long = [at for at, word in enumerate(words) if word.isalpha() and len(word) > 4]
            if long and chance.random() < 0.1:
                words[chance.choice(long)] = f"Other{number}"
                element.text = " ".join(words)
    return lxml.html.tostring(tree, encoding="unicode")
