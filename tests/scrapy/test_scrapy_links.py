"""What leads on is kept, and what brings nothing comes to an end: real crawls of small sites."""

from pathlib import Path

import pytest
from crawling import Case, Crawl, Page, article, hub, run_case, run_cases, words

from dedup.model.reasons import EXEMPTIONS
from dedup.scrapy.credit import CREDIT, LEAST

# A spider whose items are what pages mark as such.
ITEMS = """
    def parse(self, response):
        self.note("parsed", response)
        for number in response.css("[data-item]::attr(data-item)").getall():
            self.note("item", item=number)
            yield {"item": number}
        yield from self.links(response)
"""
EVERY_REASON = list(EXEMPTIONS)


def page(title: str, body: str) -> Page:
    html = (
        f"<!doctype html><html><head><title>{title}</title></head><body><nav><a href='/'>home</a></nav>"
        f"<main>{body}</main></body></html>"
    )
    return Page(html.encode())


def album(photos: int) -> dict[str, Page]:
    """Photos one after the other, under one title; the picture alone differs."""
    pages = {"/": hub("/1")}
    for n in range(1, photos + 1):
        following = f'<a href="/{n + 1}">next photo</a>' if n < photos else ""
        before = f'<a href="/{n - 1}">photo before</a>' if n > 1 else ""
        pages[f"/{n}"] = page(
            "Our holidays",
            f'<img data-item="{n}" src="{n}.jpg"><p>{words(1)}</p><p>{before} {following}</p>',
        )
    return pages


def calendar(events: dict[int, int], months: int) -> dict[str, Page]:
    """Months one after the other; a month with events has a text of its own for each."""
    pages = {"/": hub("/month/1")}
    for n in range(1, months + 1):
        text = "".join(
            f'<h2 data-item="{n}-{k}">event</h2><p>{words(1000 + 10 * n + k)}</p>'
            for k in range(events.get(n, 0))
        )
        pages[f"/month/{n}"] = page(
            "Calendar",
            f"<h1>Month</h1><p>{words(2)}</p>{text}<p><a href='/month/{n + 1}'>month after</a></p>",
        )
    return pages


def facets(values: int) -> dict[str, Page]:
    """Products behind filters that can be combined without end, each combination another URL."""
    pages: dict[str, Page] = {}
    products = "".join(f'<li><a href="/item/{n}">thing {n}</a></li>' for n in range(5))
    for chosen in range(values):
        filters = "".join(f"<li><a href='/?f={2 * chosen + k}'>{k}</a></li>" for k in (1, 2))
        path = "/" if chosen == 0 else f"/?f={chosen}"
        pages[path] = page("Things", f"<p>{words(3)}</p><ul>{filters}{products}</ul>")
    for n in range(5):
        pages[f"/item/{n}"] = page(f"Thing {n}", f'<p data-item="{n}">{words(50 + n)}</p>')
    return pages


def variants(colours: int, items: bool) -> dict[str, Page]:
    """A product in many colours: one text, a title for each, and a link to the next colour."""
    pages = {"/": hub("/colour/1")}
    for n in range(1, colours + 1):
        item = f'<b data-item="{n}">buy</b>' if items else "<b>sold</b>"
        pages[f"/colour/{n}"] = page(
            f"Rope, colour {n}",
            f"<h1>Colour {n}</h1>{item}<p>{words(4)}</p><p><a href='/colour/{n + 1}'>next</a></p>",
        )
    return pages


LISTING = {
    "/": hub("/list?page=1"),
    "/list?page=1": page(
        "All",
        f"<p>{words(5)}</p><p><a href='/a'>a</a></p></main><nav><a href='?page=2'>2</a></nav>",
    ),
    "/list?page=2": page(
        "All",
        f"<p>{words(5)}</p><p><a href='/a'>a</a></p></main><nav><a href='?page=3'> 3 </a></nav>",
    ),
    "/list?page=3": page("All", f"<p>{words(5)}</p><p><a href='/a'>a</a></p></main><nav></nav>"),
    "/a": article(60),
}
# Copies of a page under other addresses: what is new about their links is a session, a campaign, their
# own address, the order of parameters.
COPIES = {
    "/": hub("/a", "/b", "/print/a", "/copy?sid=7"),
    "/a": article(1, "/b?x=1&y=2", "/login?next=/a", "/a#top"),
    "/print/a": article(1, "/b?y=2&x=1&utm_source=p", "/login?next=%2Fprint%2Fa", "/print/a#top"),
    "/copy?sid=7": article(1, "/b?x=1&sid=7&y=2", "/login?next=/copy%3Fsid%3D7"),
    "/b": article(2),
    "/b?x=1&y=2": article(3),
    "/login?next=/a": article(4),
}
MIRROR = {
    "/": hub(*(f"/{folder}/{n}.html" for folder in ("doc", "mirror") for n in range(1, 10)))
} | {
    f"/{folder}/{n}.html": article(
        20 + n, f"{n}/a.html", f"{n}/b.html", *(["/else"] if n == 9 and folder == "mirror" else [])
    )
    for folder in ("doc", "mirror")
    for n in range(1, 10)
}
FEW = {2: 1, 3: 2, 14: 1}  # months with events; a gap of ten between
UNTOLD = [reason for reason in EXEMPTIONS if reason != "new_links"]

CASES = {
    "album": Case(album(40), ITEMS),
    "album_off": Case(album(40), ITEMS, {"DEDUP_EXEMPT": UNTOLD, "DEDUP_PROOF": "text"}),
    "calendar": Case(calendar(dict.fromkeys(range(1, 60, 3), 1), 70), ITEMS),
    "endless": Case(calendar(FEW, 400), ITEMS),
    "facets": Case(facets(600), ITEMS),
    "variants": Case(variants(40, items=True), ITEMS),
    "maze": Case(variants(400, items=False), ITEMS),
    "listing": Case(LISTING, ITEMS),
    "copies": Case(COPIES),
    "mirror": Case(MIRROR),
}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    return run_cases(tmp_path_factory.mktemp("links"), CASES)


def items(crawl: Crawl) -> set[str]:
    assert not crawl.faults
    return {event["item"] for event in crawl.of("item")}


def test_an_album_goes_on_to_its_last_photo(crawls):
    """Photos with one text lead on, each to the next; the last one is looked at, too."""
    assert items(crawls["album"]) == {str(n) for n in range(1, 41)}
    kept = crawls["album"].stat("exempt/new_links") + crawls["album"].stat("exempt/items")
    assert kept >= 38
    assert crawls["album"].meta("/2")["of"] == f"{crawls['album'].url}/1"


def test_without_new_links_an_album_ends_at_once(crawls):
    """Without new_links in DEDUP_EXEMPT the texts alone decide."""
    assert items(crawls["album_off"]) == {"1"}
    assert crawls["album_off"].stat("exempt/new_links") == 0


def test_a_calendar_with_events_goes_on(crawls):
    """Months without events lead to months with events: the calendar goes on behind every gap."""
    assert items(crawls["calendar"]) == {f"{n}-0" for n in range(1, 60, 3)}


def test_an_endless_calendar_closes(crawls):
    """Months that bring nothing are kept ten times in a row, and then no more."""
    crawl = crawls["endless"]
    assert items(crawl) == {"2-0", "3-0", "3-1", "14-0"}
    assert len(crawl.requested) < 14 + 3 * CREDIT


def test_facets_close_and_every_product_was_seen(crawls):
    """Filters that lead only to filters come to an end."""
    assert items(crawls["facets"]) == {str(n) for n in range(5)}
    assert len(crawls["facets"].requested) < 200


def test_variants_with_items_go_on(crawls):
    """Pages that are others by their own word are kept while they bring items."""
    assert items(crawls["variants"]) == {str(n) for n in range(1, 41)}


def test_a_maze_of_titles_closes(crawls):
    """Pages that are others by their own word alone, and bring nothing, are dropped in the end."""
    crawl = crawls["maze"]
    assert LEAST <= crawl.stat("exempt/other_title") <= CREDIT
    assert len(crawl.requested) < 2 * CREDIT
    assert crawl.stat("near_duplicate") >= 1


def test_pagination_outside_the_content_leads_on(crawls):
    """The numbers of a list's pages count, though they stand in a nav."""
    assert {"/list?page=2", "/list?page=3"} <= crawls["listing"].parsed


def test_copies_lead_nowhere_new(crawls):
    """Sessions, campaigns, order, the page's own address: a copy's links are the original's."""
    assert set(crawls["copies"].dropped) == {"/print/a", "/copy?sid=7"}


def test_a_mirror_in_another_folder_leads_nowhere_new(crawls):
    """Its relative links are those of its originals; with a link of its own a page is kept."""
    crawl = crawls["mirror"]
    assert set(crawl.dropped) == {f"/mirror/{n}.html" for n in range(1, 9)}
    assert crawl.meta("/mirror/9.html")["reason"] == "new_links"


@pytest.mark.long
def test_links_are_known_when_a_crawl_resumes(tmp_path: Path):
    """With JOBDIR the links are saved at the end and known at the resume; damaged, they are new."""
    pages = {"/": hub("/a"), "/a": article(1, "/b"), "/b": article(2)}
    folder = tmp_path / "crawl"
    settings = {"JOBDIR": str(tmp_path / "job")}
    first = run_case(folder, Case(pages, ITEMS, settings))
    assert first.parsed == {"/", "/a", "/b"}
    saved = tmp_path / "job" / "dedup-links" / "only"
    assert saved.stat().st_size > 3 * 8

    # the pages bring no items, and are copies for all that
    settings["DEDUP_TRIES"] = 0
    copy = {"/": hub("/a"), "/copy": article(1, "/b?sid=1"), "/late": article(1, "/b?utm_id=2")}
    start = "\n    start_urls = property(lambda self: [self.base + path for path in PATHS], lambda *_: None)\n"
    body = ITEMS + start
    plain = {**settings, "DEDUP_EXEMPT": [reason for reason in EVERY_REASON if reason != "start"]}

    def resumed(path: str) -> Crawl:
        case = Case(copy, body.replace("PATHS", repr([path])), plain)
        return run_case(folder, case)

    assert resumed("/copy").stat("near_duplicate") == 1
    saved.write_bytes(saved.read_bytes()[:-3])
    damaged = resumed("/late")
    assert damaged.stat("exempt/new_links") == 1
    assert "links of this crawl until now are forgotten" in damaged.log
