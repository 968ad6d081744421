"""What leads on is kept, and what brings nothing comes to an end: real crawls of small sites."""

from pathlib import Path

import pytest
from crawling import Case, Crawl, Page, article, hub, run_case, run_cases, words

from dedup.model.page import EXEMPTIONS
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
# One that goes on before it looks at what it found: of each page's links, pictures and months come last.
AHEAD = """
    def parse(self, response):
        for number in response.css("[data-item]::attr(data-item)").getall():
            self.note("item", item=number)
            yield {"item": number}
        for link in response.css("a"):
            last = link.css("img") or "after" in link.get()
            yield response.follow(link, self.parse, errback=self.failed, priority=-1 if last else 0)
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


def sparse(years: int, gap: int) -> dict[str, Page]:
    """A calendar whose months lead to the next one, and to the next year, which is followed first."""
    pages = {"/": hub("/0/0")}
    for number in range(12 * years):
        year, month = divmod(number, 12)
        event = number <= 24 and number % (gap + 1) == 0
        text = f'<b data-item="{number}">event</b><p>{words(3000 + number)}</p>' if event else ""
        after = f"/{(number + 1) // 12}/{(number + 1) % 12}"
        pages[f"/{year}/{month}"] = page(
            "Calendar",
            f"<h1>Month</h1><p>{words(7)}</p>{text}<p><a href='{after}'>month after</a> "
            f"<a href='/{year + 1}/{month}'>next year</a></p>",
        )
    return pages


def sorted_gallery(lists: int) -> dict[str, Page]:
    """Lists of pictures under one text, each in every order and size; the next list is followed first."""
    pages: dict[str, Page] = {"/": hub("/list?p=0")}
    choices: list[dict[str, int]] = [
        {name: value for name, value in zip("ab", (a, b), strict=True) if value}
        for a in range(4)
        for b in range(4)
    ]

    def address(choice: dict[str, int], number: int) -> str:
        return "/list?" + "&".join(f"{k}={v}" for k, v in [*choice.items(), ("p", number)])

    for choice in choices:
        for number in range(lists):
            pictures = "".join(f'<a href="/{number}-{n}"><img src="{n}.jpg"></a>' for n in range(6))
            others = "".join(
                f"<a href='{address(choice | {name: value}, number)}'>{value}</a>"
                for name in "ab"
                for value in range(1, 4)
            )
            following = f"<a href='{address(choice, number + 1)}'>next</a>"
            pages[address(choice, number)] = page(
                "Pictures", f"<p>{words(8)}</p><p>{pictures}{others}{following}</p>"
            )
    for number in range(lists):
        for n in range(6):
            pages[f"/{number}-{n}"] = page(
                f"Picture {number} {n}",
                f'<p data-item="{number}-{n}">{words(4000 + 6 * number + n)}</p>',
            )
    return pages


def missing_pages(roots: int) -> dict[str, Page]:
    """Articles with a link to a missing page, which answers 200, names itself, and leads to two more."""
    pages = {"/": hub(*(f"/{n}" for n in range(roots)))}
    for n in range(roots):
        pages[f"/{n}"] = page(
            f"Thing {n}", f"<p data-item='{n}'>{words(5000 + n)} <a href='/new?t={n}'>more</a></p>"
        )
        names = [str(n)]
        for _ in range(6):
            names, further = (
                [f"{kind}-of-{x}" for x in names for kind in ("talk", "history")],
                names,
            )
            for x in further:
                links = "".join(
                    f"<a href='/new?t={k}-of-{x}'>{k}</a> " for k in ("talk", "history")
                )
                pages[f"/new?t={x}"] = page(
                    f"Creating {x}",
                    f"<h1>Creating {x.replace('-', ' ')}</h1><p>{words(9, 40)}</p><p>{links}</p>",
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
    "sparse": Case(sparse(40, 4), AHEAD, {"CONCURRENT_REQUESTS": 8}),
    "missing": Case(missing_pages(20), ITEMS, {"CONCURRENT_REQUESTS": 8}),
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


def test_months_after_a_gap_are_seen_though_the_years_ahead_came_first(crawls):
    """What was fetched far from any event uses no credit of the months near to one."""
    crawl = crawls["sparse"]
    assert items(crawl) == {str(n) for n in range(0, 25, 5)}
    assert len(crawl.requested) < 12 * 40 / 2


@pytest.mark.long
def test_a_list_goes_on_behind_the_credit_that_its_orders_used_up(tmp_path: Path):
    """Dropped for want of credit, lists are fetched again once a picture has brought something."""
    crawl = run_case(tmp_path, Case(sorted_gallery(8), AHEAD, {"CONCURRENT_REQUESTS": 8}))
    assert items(crawl) == {f"{number}-{n}" for number in range(8) for n in range(6)}
    assert crawl.stat("credit/again") > 0


def test_missing_pages_pay_for_no_others(crawls):
    """A page without items whose text happens to be unique leaves the account as it is."""
    crawl = crawls["missing"]
    assert items(crawl) == {str(n) for n in range(20)}
    assert len(crawl.requested) < (20 * (1 + 2**6)) / 3


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
    assert "links that this crawl has seen so far are forgotten" in damaged.log
