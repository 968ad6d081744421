"""Pages of one text whose items are rare, far apart, or hidden among copies. Real crawls."""

import pytest
from crawling import Case, Page, article, hub, run_cases, words

PAGES, FREE = 60, 47  # rooms, and the only one with a free night
FIRST, LAST, GAP = 30, 120, range(30, 95)  # days: records lie on both sides of a gap
SHOP, DEEP = 60, 6

YIELDS = """
def parse(self, response):
    self.note("parsed", response)
    if "{at}" in response.url:
        {bring}
        return
    yield from self.links(response)
"""
ROOMS = YIELDS.replace("{at}", "/room/").replace(
    "{bring}",
    """
        for night in response.css("td.free::text").getall():
            self.note("item", response)
            yield {"room": response.url, "night": night}""",
)
EXHIBITS = YIELDS.replace("{at}", "/exhibit/").replace(
    "{bring}", 'self.note("item", response, shows=response.css("img::attr(src)").get())'
)
DAYS = f"""
def parse(self, response):
    yield response.follow("/day/0", self.parse_day, cb_kwargs={{"day": 0}})

def parse_day(self, response, day):
    self.note("parsed", response)
    record = response.css("b::text").get()
    if record:
        self.note("item", response)
        yield {{"day": day, "record": record}}
    if day < {LAST}:
        yield response.follow(f"/day/{{day + 1}}", self.parse_day, cb_kwargs={{"day": day + 1}})
"""
OFFERS = """
def parse(self, response):
    self.note("parsed", response)
    price = response.css("b::text").get()
    if price:
        self.note("item", response, price=price)
        yield {"name": response.css("title::text").get(), "price": price}
    yield from self.links(response)
"""
THINGS = """
def parse(self, response):
    self.note("item", response)
    yield {"name": response.css("title::text").get()}
    yield from self.links(response)
"""


def site(pages: dict[str, Page]) -> dict[str, Page]:
    return {"/": hub(*pages)} | pages


def rooms() -> dict[str, Page]:
    """Calendars of one text; a class says which night is free, and only one room has any."""
    return site(
        {
            f"/room/{n}": article(
                1,
                text=f"{words(1)}</p><table><tr><td class={'free' if n == FREE else 'no'}>7</td></tr></table><p>",
            )
            for n in range(PAGES)
        }
    )


def booked() -> dict[str, Page]:
    """The same; the first room has a free night, and many without any come before the next one."""
    free = {0: "free", FREE: "free late"}
    cell = "</p><table><tr><td class='{}'>7</td></tr></table><p>"
    return site(
        {
            f"/room/{n}": article(1, text=words(1) + cell.format(free.get(n, "no")))
            for n in range(PAGES)
        }
    )


def exhibits() -> dict[str, Page]:
    """Pages of one text, each with a picture of its own."""
    return site(
        {
            f"/exhibit/{n}": article(1, text=f"{words(1)}</p><img src='/{n}.jpg'><p>")
            for n in range(PAGES)
        }
    )


def days() -> dict[str, Page]:
    """A page for each day, without a link to another; for most of them it says that there is nothing."""
    pages = {
        f"/day/{n}": article(
            1,
            text=f"{words(1)}</p><p>{'no record' if n in GAP else f'<b>{words(n + 100, 3)}</b>'}</p><p>",
        )
        for n in range(LAST + 1)
    }
    return {"/": hub("/day/0")} | pages


def is_odd(n: int, k: int) -> bool:
    """Whether a page of a thing has another price."""
    return k == 2 and n % 12 == 7


def offers() -> dict[str, Page]:
    """Things under three addresses, each with a counter of visitors; few copies have another price."""
    pages = {}
    for k in range(3):
        for n in range(SHOP):
            price = f"<b>{5 + is_odd(n, k)}</b>"
            seen = 1000 + (n * 37 + k * 4001) % 8000
            text = f"{words(n, 110)} for {price} euro and seen by {seen} people"
            pages[f"/p/{n}" + (f"?ref=r{k}" if k else "")] = article(n, text=text)
    return site(pages)


def growing() -> dict[str, Page]:
    """Three pages with links that are relative to them: paths grow without end, and so far as they are served here."""
    names = ("first/one", "second/two", "third/three")
    paths = [""]
    pages: dict[str, Page] = {"/": article(0, *names)}
    for _ in range(DEEP):
        paths = [f"{path}/{name.split('/')[0]}" for path in paths for name in names]
        for path in paths:
            for n, name in enumerate(names, 1):
                pages[f"{path}/{name.split('/')[1]}"] = article(n, *names)
    return pages


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    one = {"CONCURRENT_REQUESTS": 1}
    cases = {
        "rooms": Case(rooms(), ROOMS),
        "booked": Case(booked(), ROOMS, one),
        "exhibits": Case(exhibits(), EXHIBITS),
        "days": Case(days(), DAYS),
        "offers": Case(offers(), OFFERS, one),
        "growing": Case(growing(), THINGS),
    }
    return run_cases(tmp_path_factory.mktemp("alike"), cases)


def test_no_fault(crawls):
    """None of these crawls meets a fault of ours."""
    assert not any(crawl.faults or crawl.errors for crawl in crawls.values())


def test_promise_1_a_rare_item_is_told_by_a_class(crawls):
    """Where pages brought nothing, one of the same text that differs in a class alone is parsed."""
    assert crawls["rooms"].paths("item") == [f"/room/{FREE}"]
    assert crawls["rooms"].stat("near_duplicate") > PAGES // 2  # which differ in nothing


def test_promise_1_pages_without_items_prove_no_copies_by_what_tells_the_items(crawls):
    """Room after room without a free night says nothing of the next one that has any."""
    assert crawls["booked"].paths("item") == ["/room/0", f"/room/{FREE}"]


def test_promise_1_what_a_spider_writes_itself_may_be_a_picture(crawls):
    """Pages that bring nothing are kept if their pictures are their own."""
    assert len({event["shows"] for event in crawls["exhibits"].of("item")}) == PAGES


def test_promise_1_what_is_behind_a_gap_that_the_spider_counts_over_is_wanted(crawls):
    """A chain of requests that the spider makes itself goes on for a year of pages without news."""
    found = {int(path.rsplit("/", 1)[1]) for path in crawls["days"].paths("item")}
    assert found == set(range(LAST + 1)) - set(GAP)


def test_promise_1_a_page_less_like_its_original_than_the_copies_is_checked(crawls):
    """Copies with a counter prove their class; those with another price, too, are not dropped with them."""
    found = {(event["path"], event["price"]) for event in crawls["offers"].of("item")}
    odd = {f"/p/{n}?ref=r2" for n in range(SHOP) if is_odd(n, 2)}
    assert {path for path, price in found if price == "6"} == odd
    assert crawls["offers"].stat("near_duplicate") > SHOP // 2


def test_paths_that_grow_without_end_are_one_difference(crawls):
    """Links that are relative to their page make ever longer paths; a budget and a proof for each word would not end."""
    assert len(crawls["growing"].requested) < 250  # of 3,000 that the site has
    assert len(growing()) > 3000
