"""Real public spiders on their own saved pages, parse code unchanged: each page with variants and copies.

    a repository's spider and the page that its tests have -> a site: the page and VARIANTS of it (a number or a word of some
    texts is another, some rows are left out), each also with a campaign's parameter, under a section, and as a print version -> a crawl

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

# OWNER/NAME, commit, and those of its spiders that make items of one saved page.
REPOSITORIES = {
    "City-Bureau/city-scrapers": (
        "292e3f20e2b0cf044e8571bd3acf9cd84249af30",
        "chi_board_elections chi_boardofethics chi_fire_benefit_fund chi_labor_retirement_fund "
        "chi_metro_pier_exposition chi_plan_commission chi_school_actions "
        "chi_school_community_action_council chi_ssa_1 chi_ssa_2 chi_ssa_21 chi_ssa_26 chi_ssa_4 "
        "chi_ssa_51 chi_ssa_73 chi_standards_tests chi_transit cook_pension cook_south_mosquito "
        "il_gaming_board",
    ),
    "City-Bureau/city-scrapers-cle": (
        "93e3e567cb5c6db7c39bb9eea1bebaca989763a8",
        "cle_design_review cle_landmarks cle_zoning_appeals cuya_convention "
        "cuya_mental_health_response cuya_northeast_ohio_regional_sewer "
        "cuya_personnel_review_commission cuya_planning",
    ),
    "City-Bureau/city-scrapers-det": (
        "708787f7fa18af34ea40b0089ec345260dcb9735",
        "det_regional_convention det_regional_transit_authority",
    ),
}
PACKAGE, PAGES = "city_scrapers.spiders", "tests/files"
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
    """Yield the spiders. Raises OSError where a repository is not to be had."""
    for repository, (commit, names) in REPOSITORIES.items():
        folder = cache / "spiders" / f"{repository.replace('/', '+')}-{commit}"
        if not folder.is_dir():
            archive = ["git", f"--git-dir={clone_of(repository, cache, clones)}", "archive", commit]
            packed = subprocess.run(archive, check=True, capture_output=True).stdout
            with tarfile.open(fileobj=BytesIO(packed)) as files:
                files.extractall(folder, filter="data")
        for name in names.split():
            yield RealSpider(name, f"{PACKAGE}.{name}", folder, folder / PAGES / f"{name}.html")


def real_site(spider: RealSpider) -> BuiltSite:
    """Return the site of a spider: a hub, the page, its variants, and copies of each."""
    html = spider.page.read_text("utf8", "replace")
    pages = {}
    for number, variant in enumerate((html, *(varied(html, n + 1) for n in range(VARIANTS)))):
        path = f"/page/{number}"
        base = f"<base href='http://{HOST}/page/'>"
        head = re.search(r"<head\b[^>]*>|$", variant, re.IGNORECASE).end()
        based = variant[:head] + base + variant[head:]
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
    """Return a page in which a number or a word of every tenth text is another, and some rows are missing."""
    chance = random.Random(number)
    tree = lxml.html.document_fromstring(html.encode("utf8", "replace"), lxml.html.HTMLParser(encoding="utf8"))  # fmt: skip
    rows = max((each.getchildren() for each in tree.iter()), key=len)
    for row in chance.sample(rows, len(rows) // 10):
        row.getparent().remove(row)
    for element in tree.iter():
        if (
            element.tag not in ("script", "style", "title")
            and element.text
            and chance.random() < 0.1
        ):
            changed = re.sub(
                r"\b(1?\d|2[0-4])\b(?!:)", lambda day: str(int(day[1]) + 1), element.text, count=1
            )
            if changed == element.text and element.text.count(" ") > 3:
                changed = re.sub(r"\b[a-z]{5,}\b", f"other{number}", element.text, count=1)
            element.text = changed
    return lxml.html.tostring(tree, encoding="unicode")
