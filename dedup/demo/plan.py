"""The plan of the demo site: which pages it has, what each of them is, and the links between them.

Invariant: what has content of its own can be reached over pages that are no copies (front, section and
listing pages name every original), so a crawler loses nothing by dropping copies with their links. Copies
form chains: an original links to the first page of a chain, and only the pages of the chain link to the
rest of it. Those are the links a deduplicating crawl never requests.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle, islice
from random import Random
from typing import Any, Literal, get_args

import msgspec

from dedup.demo.stories import (
    LANGUAGES,
    NOT_FOUND,
    Author,
    Story,
    write_event,
    write_product,
)
from dedup.model.errors import UsageError

Kind = Literal[
    "front",  # the start page
    "section",  # the start page of a section
    "listing",  # one page of a section's archive: text alike, links new
    "article",  # an original
    "event",  # a report of an event on which others report in other words
    "variant",  # a product page that differs from its family in a few words
    "session",  # a copy under a session id; all its links carry the id
    "print",  # a copy with other advertisements and a plainer look
    "stamp",  # a copy with another time and view counter
    "related",  # a copy with other related links
    "syndicated",  # a copy on a partner's site, in another shell
    "soft404",  # "page not found", said with HTTP status 200
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Truth(msgspec.Struct, frozen=True):
    """What a page really is. Pages of one group have the same main content."""

    path: str
    kind: Kind
    group: str
    language: str
    family: str = ""  # variants of one family are near-duplicates of each other


class PlannedPage(msgspec.Struct, frozen=True):
    """A page before it is dressed: what it says, in which look, and the links in their places."""

    truth: Truth
    look: str
    story: Story
    nav: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()  # inside the paragraphs
    items: tuple[str, ...] = ()  # the teasers of front, section and listing pages
    related: tuple[str, ...] = ()
    popular: tuple[str, ...] = ()
    more: tuple[str, ...] = ()  # copies of this page, broken links, pagination
    original: str = ""  # a copy's original

    @property
    def links(self) -> list[str]:
        """Every path this page links to, once."""
        places = (self.nav, self.inline, self.items, self.related, self.popular, self.more)
        return list(dict.fromkeys(path for place in places for path in place))


START = "/"
FEWEST_PAGES = 100

# The share of each kind in all pages; session copies fill up what is left.
_SHARES: dict[Kind, float] = {
    "article": 0.32,
    "event": 0.03,
    "variant": 0.06,
    "print": 0.09,
    "stamp": 0.09,
    "related": 0.07,
    "syndicated": 0.075,
    "soft404": 0.08,
}
# How many copies make one chain.
_CHAIN_LENGTHS: dict[Kind, int] = {
    "session": 8,
    "print": 3,
    "stamp": 3,
    "related": 2,
    "syndicated": 4,
    "soft404": 4,
}
_FEATURED_SHARE = 0.6  # the others are linked from their listing page alone
_FEWEST_LISTED = 10  # links on a listing page
_PARTNERS = ("harbour", "valley")


class _Section(msgspec.Struct, frozen=True):
    slug: str
    language: str
    title: str
    topics: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"/{self.slug}/"


_NEWS = (
    _Section("nation", "en", "Nation", ("politics", "justice")),
    _Section("money", "en", "Money", ("economy", "technology")),
    _Section("science", "en", "Science", ("research", "health")),
    _Section("outdoors", "en", "Outdoors", ("nature", "travel")),
    _Section("leisure", "en", "Leisure", ("sport", "culture")),
    _Section("zh", "zh", "中文", tuple(LANGUAGES["zh"].topics)),
    _Section("ar", "ar", "العربية", tuple(LANGUAGES["ar"].topics)),
)
_SHOP = _Section("shop", "en", "Shop", ("goods",))
_SECTIONS = (*_NEWS, _SHOP)
_NAV = (START, *(section.path for section in _SECTIONS))


def plan(pages: int, seed: int) -> dict[str, PlannedPage]:
    """Return that many pages by path, every one reachable from START.

    Raises UsageError if pages is below FEWEST_PAGES: then not every kind would occur.
    """
    if pages < FEWEST_PAGES:
        raise UsageError(f"pages must be at least {FEWEST_PAGES}, got {pages}")
    return _Planner(pages, seed).pages


class _Planner:
    """Makes the pages in order: originals, products, lists, copies, and originals' own links."""

    def __init__(self, pages: int, seed: int) -> None:
        self._rng = Random(f"plan {seed}")
        self._quota = {kind: round(share * pages) for kind, share in _SHARES.items()}
        self._originals: dict[str, list[PlannedPage]] = {section.slug: [] for section in _NEWS}
        self._more: defaultdict[str, list[str]] = defaultdict(list)
        self.pages: dict[str, PlannedPage] = {}

        self._write_articles()
        self._write_events()
        self._choose_featured()
        self._link_originals()
        self._add_products()
        self._add_lists()
        self._quota["session"] = 0
        self._quota["session"] = (
            pages - len(self.pages) - sum(self._quota[kind] for kind in _CHAIN_LENGTHS)
        )
        for kind in _CHAIN_LENGTHS:
            self._add_chains(kind)
        self._add_links_to_copies()

    def _add(self, page: PlannedPage) -> None:
        self.pages[page.truth.path] = page

    def _add_own(self, truth: Truth, story: Story, **places: Any) -> PlannedPage:
        """Add a page in the look of the site itself; places are those of its links."""
        page = PlannedPage(truth, "herald", story, nav=_NAV, **places)
        self._add(page)
        return page

    # Originals

    def _write_articles(self) -> None:
        for number, section in enumerate(islice(cycle(_NEWS), self._quota["article"])):
            language = LANGUAGES[section.language]
            topic = language.topics[self._rng.choice(section.topics)]
            story = Author(language, topic, self._rng).story(self._rng.randint(200, 600))
            self._add_original(section, "article", f"article {number}", story)

    def _write_events(self) -> None:
        written = 0
        for number, (section, reports) in enumerate(zip(cycle(_NEWS), cycle((3, 2, 4)))):
            if written >= self._quota["event"]:
                return
            language = LANGUAGES[section.language]
            topic = language.topics[self._rng.choice(section.topics)]
            stories = write_event(language, topic, reports, self._rng)
            for part, story in enumerate(stories):
                self._add_original(section, "event", f"event {number} report {part}", story)
            written += reports

    def _add_original(self, section: _Section, kind: Kind, group: str, story: Story) -> None:
        path = f"{section.path}{_slug(story.title)}{len(self.pages)}"
        page = self._add_own(Truth(path, kind, group, section.language), story)
        self._originals[section.slug].append(page)

    def _choose_featured(self) -> None:
        self._featured: dict[str, list[str]] = {}
        for slug, originals in self._originals.items():
            self._rng.shuffle(originals)
            few = originals[: max(1, int(len(originals) * _FEATURED_SHARE))]
            self._featured[slug] = [page.truth.path for page in few]
        self._popular = tuple(paths[0] for paths in self._featured.values())[:5]

    def _link_originals(self) -> None:
        """Let every original link to featured ones: two in its text, four related."""
        for slug, originals in self._originals.items():
            for page in originals:
                six = self._others(self._featured[slug], page.truth.path, 6)
                self._add(
                    msgspec.structs.replace(
                        page, inline=six[:2], related=six[2:], popular=self._popular
                    )
                )

    def _others(self, paths: Sequence[str], own: str, count: int) -> tuple[str, ...]:
        drawn = self._rng.sample(paths, min(count + 1, len(paths)))
        return tuple(path for path in drawn if path != own)[:count]

    # Products

    def _add_products(self) -> None:
        self._families: list[str] = []
        left = self._quota["variant"]
        while left > 0:
            number = len(self._families)
            stories = write_product(LANGUAGES["en"].topics["goods"], min(5, left), self._rng)
            paths = [f"{_SHOP.path}{_slug(s.title)}{number}-{i}" for i, s in enumerate(stories)]
            for variant, (path, story) in enumerate(zip(paths, stories, strict=True)):
                truth = Truth(
                    path, "variant", f"family {number} variant {variant}", "en", f"family {number}"
                )
                others = tuple(other for other in paths if other != path)
                self._add_own(truth, story, related=others, popular=self._popular)
            self._families.append(paths[0])
            left -= len(stories)

    # Front, sections, listings

    def _add_lists(self) -> None:
        news = [path for paths in self._featured.values() for path in paths[:2]]
        story = self._introduction(_NEWS[0], "The Lantern Herald")
        self._add_own(Truth(START, "front", "front", "en"), story, items=tuple(news))
        self._add_section(_SHOP, self._families, ())
        for section in _NEWS:
            archive = self._add_listings(section)
            self._add_section(section, self._featured[section.slug][:8], (archive,))

    def _add_section(self, section: _Section, items: Sequence[str], more: tuple[str, ...]) -> None:
        truth = Truth(section.path, "section", f"section {section.slug}", section.language)
        story = self._introduction(section, section.title)
        self._add_own(truth, story, items=tuple(items), more=more)

    def _add_listings(self, section: _Section) -> str:
        """Spread a section's originals over its archive; return the first page's path."""
        paths = [page.truth.path for page in self._originals[section.slug]]
        self._rng.shuffle(paths)
        count = max(1, len(paths) // _FEWEST_LISTED)
        title = f"{section.title}: {LANGUAGES[section.language].labels.archive}"
        story = self._introduction(section, title)
        listings = [f"{section.path}archive?page={number}" for number in range(1, count + 1)]
        for number, path in enumerate(listings):
            group = f"listing {section.slug} {number + 1}"
            beside = (*listings[max(0, number - 1) : number], *listings[number + 1 :][:1])
            truth = Truth(path, "listing", group, section.language)
            self._add_own(truth, story, items=tuple(paths[number::count]), more=beside)
        return listings[0]

    def _introduction(self, section: _Section, title: str) -> Story:
        language = LANGUAGES[section.language]
        topic = language.topics[self._rng.choice(section.topics)]
        story = Author(language, topic, self._rng).story(100)
        return msgspec.structs.replace(story, title=title, caption="")

    # Copies

    def _add_chains(self, kind: Kind) -> None:
        """Make a kind's copies, chain by chain, each linked from an original."""
        deck = [self.pages[p.truth.path] for pages in self._originals.values() for p in pages]
        self._rng.shuffle(deck)
        originals = cycle(deck)
        looks = cycle(NOT_FOUND)
        left, chains, copies = self._quota[kind], 0, 0
        while left > 0:
            length = min(_CHAIN_LENGTHS[kind], left)
            if kind == "soft404":
                look, language = next(looks)
                host = self._host(look, language)
                chain = [self._missing(look, language, copies + i) for i in range(length)]
            elif kind == "stamp":
                host = next(originals)
                chain = [self._copy(kind, host, chains, copies + i) for i in range(length)]
            else:
                members = enumerate(islice(originals, length), start=copies)
                chain = [self._copy(kind, page, chains, number) for number, page in members]
                host = self.pages[chain[0].original]
            self._add_chain(chain)
            self._more[host.truth.path].append(chain[0].truth.path)
            left, chains, copies = left - length, chains + 1, copies + length

    def _add_chain(self, chain: list[PlannedPage]) -> None:
        """Link each copy to the next three of its chain, where its kind shows such links."""
        paths = [page.truth.path for page in chain]
        for number, page in enumerate(chain):
            following = tuple((paths[number + 1 :] + paths[:number])[:3])
            if page.truth.kind == "session":
                linked = msgspec.structs.replace(page, nav=following, inline=following[:2])
            elif page.look != "herald":
                linked = msgspec.structs.replace(page, nav=following)
            else:
                linked = msgspec.structs.replace(page, more=following)
            self._add(linked)

    def _copy(self, kind: Kind, original: PlannedPage, chain: int, number: int) -> PlannedPage:
        """Return a copy: the same story under another path."""
        path = original.truth.path
        page = msgspec.structs.replace(original, original=path)
        if kind == "session":
            token = f"{Random(f'session {chain}').getrandbits(64):016x}"
            path = f"{path}?sid={token}"
            page = msgspec.structs.replace(page, nav=(), inline=(), related=(), popular=())
        elif kind == "syndicated":
            look = _PARTNERS[chain % len(_PARTNERS)]
            path = f"/partner/{look}/{path.strip('/').replace('/', '-')}-{number}"
            page = msgspec.structs.replace(
                page, look=look, nav=(), inline=(), related=(), popular=()
            )
        elif kind == "print":
            path = f"{path}?ad={2 + number}"
        elif kind == "stamp":
            path = f"{path}?t={1_760_000_000 + 60 * number}"
        else:
            path = f"{path}?from={number}"
            slug = original.truth.path.split("/")[1]
            related = self._others(self._featured[slug], original.truth.path, 4)
            page = msgspec.structs.replace(page, related=related)
        truth = Truth(path, kind, original.truth.group, original.truth.language)
        return msgspec.structs.replace(page, truth=truth)

    def _missing(self, look: str, language: str, number: int) -> PlannedPage:
        """Return a page that is not there, says so, and answers with status 200."""
        title, *paragraphs = NOT_FOUND[look, language]
        story = Story(language, title, "", paragraphs[0], "", (" ".join(paragraphs),))
        start = f"/{language}" if look == "herald" else f"/partner/{look}"
        path, group = f"{start}/gallery/{number}", f"soft404 {look} {language}"
        truth = Truth(path, "soft404", group, language)
        nav = _NAV if look == "herald" else ()
        return PlannedPage(truth, look, story, nav=nav)

    def _host(self, look: str, language: str) -> PlannedPage:
        """Return a page on which a link to a missing page may stand."""
        pages = [
            page
            for page in self.pages.values()
            if (page.look, page.truth.language) == (look, language)
            and page.truth.kind in ("article", "syndicated")
        ]
        if not pages:  # no copy of that partner in a small site
            pages = [page for page in self.pages.values() if page.truth.kind == "article"]
        return self._rng.choice(pages)

    def _add_links_to_copies(self) -> None:
        for path, links in self._more.items():
            page = self.pages[path]
            self._add(msgspec.structs.replace(page, more=(*page.more, *links)))


def _slug(title: str) -> str:
    found = re.findall("[a-z]+", title.lower())[:5]
    return "".join(f"{word}-" for word in found)
