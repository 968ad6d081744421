"""The sample site: a newspaper with a shop, half of whose URLs are copies; and what each page really is.

    stories -> plan (pages, links between them) -> HTML for a request -> server

Everything of its own is reached over pages that are no copies, so nothing is lost with the links of copies. Copies
form chains: an article links to the first page of a chain, and only the pages of the chain link to the rest of it.
A page's main content never changes; clock, counters, advertisements and tokens are drawn again for each request.

    python -m dedup.demo.site 500 1 [LOG]      the child of serve_in_child()
"""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from html import escape
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from dedup.demo.loopback import Answer, Pages, Server, child, serve_as_child, serving
from dedup.model.errors import UsageError

KINDS = {
    "list": "front page, sections and their archives",
    "article": "articles",
    "variant": "products that differ in a few words",
    "session": "copies of articles under a session id",
    "print": "copies of articles in a print version",
    "soft404": '"page not found", said with status 200',
}
COPIES = ("session", "print", "soft404")
FEWEST_PAGES = 100

# The share of each kind in all pages; lists come with the articles, and session copies fill up what is left.
_SHARES = {"article": 0.4, "variant": 0.06, "print": 0.15, "soft404": 0.08}
_CHAIN_LENGTHS = {"session": 8, "print": 3, "soft404": 4}
_LISTED = 10  # articles on a page of an archive
_SECTIONS = ("nation", "money", "science", "outdoors", "leisure")
_NAV = ("/", *(f"/{section}/" for section in (*_SECTIONS, "shop")))


class Truth(NamedTuple):
    """What a page really is. Pages of one group have the same main content; products of a family differ little."""

    path: str
    kind: str
    group: str
    family: str = ""


class Story(NamedTuple):
    """What a page has to say, before any markup."""

    title: str
    author: str
    paragraphs: tuple[str, ...]


class _Page(NamedTuple):
    truth: Truth
    story: Story
    nav: Sequence[str] = _NAV
    items: Sequence[str] = ()
    related: Sequence[str] = ()
    more: Sequence[str] = ()  # copies, pages that are gone, other pages of an archive


_WORDS = {
    "n": """harbour ferry bridge council school orchard library theatre market tunnel garden meadow quarry mill clinic museum
        stadium bakery lantern archive census budget treaty verdict festival harvest exhibition lecture telescope glacier comet
        enzyme molecule turbine battery satellite vaccine sensor mortgage tariff dividend currency pension invoice warehouse
        factory trail summit canyon estuary lighthouse heron salmon falcon orchestra novel sculpture ballad recipe regatta""",
    "v": """opened closed repaired measured praised doubted delayed financed painted counted moved discovered rejected welcomed
        printed compared borrowed translated restored questioned defended collected inspected abandoned celebrated sold
        protected described forgot postponed renamed copied planted watched followed crossed""",
    "a": """narrow ancient silent costly hidden bright frozen distant modest gentle rusty famous hollow crowded stubborn early
        northern wooden unusual patient fragile shallow curious public empty steep careful local noisy remote sudden brittle""",
    "ad": """sale offer today only free coffee shoes lamp travel cruise credit insurance broadband mattress jacket ticket save
        half price weekend club member gift watch phone chairs""",
    "colour": "amber crimson ivory charcoal olive",
    "name": "al bar cor den el fen gar hol in jor kel lum mar nor ol per quin ras sel tor ul ver wil yor",
}
_LISTS = {name: words.split() for name, words in _WORDS.items()}
_PATTERNS = (
    "the {a} {n} of {l} {v} a {a} {n}",
    "{p} {v} every {n} near the {a} {n}",
    "in {l} nobody {v} the {n} before the {n} of {p}",
    "{p} said that the {a} {n} {v} no {n}",
    "after the {n} a {a} {n} {v} {p} and the {n}",
    "neither {p} nor the {a} {n} {v} the {n} in {l}",
    "{l} {v} its {a} {n}, but not the {n}",
    "the {n} and the {n} {v} {p} for a {a} {n}",
)
_MISSING = Story(
    "This page cannot be found",
    "",
    (
        "The page that you asked for is not here any more. It may have been moved to our archive, or its address may "
        "have been mistyped. Please use the menu above, look for it in the section where you found the link, or write "
        "to our editors and tell them where you came from.",
    ),
)


def story(rng: Random, sentences: int) -> Story:
    """Write a story with a cast and a vocabulary of its own; it depends on the generator alone."""

    def name() -> str:
        return "".join(rng.sample(_LISTS["name"], rng.randint(2, 3))).capitalize()

    def sentence() -> str:
        text = re.sub(r"\{(\w)\}", lambda slot: rng.choice(words[slot[1]]), rng.choice(_PATTERNS))
        return re.sub(r"\ba (?=[aeiou])", "an ", text[0].upper() + text[1:])

    words = {slot: rng.sample(_LISTS[slot], many) for slot, many in (("n", 14), ("v", 9), ("a", 9))}
    words |= {"p": [f"{name()} {name()}" for _ in range(3)], "l": [name(), name()]}
    written = [f"{sentence()}." for _ in range(sentences)]
    paragraphs = tuple(" ".join(written[i : i + 4]) for i in range(0, sentences, 4))
    return Story(sentence(), words["p"][0], paragraphs)


def _plan(pages: int, seed: int) -> dict[str, _Page]:
    """Return that many pages by path, every one reachable from the front page."""
    if pages < FEWEST_PAGES:
        raise UsageError(f"pages must be at least {FEWEST_PAGES}, got {pages}")
    rng = Random(f"plan {seed}")
    quota = {kind: round(share * pages) for kind, share in _SHARES.items()}
    found: dict[str, _Page] = {}
    sections: defaultdict[str, list[str]] = defaultdict(list)
    for number in range(quota["article"]):
        section, text = _SECTIONS[number % len(_SECTIONS)], story(rng, rng.randint(16, 40))
        path = f"/{section}/{'-'.join(text.title.lower().split()[:5])}-{number}".replace(",", "")
        sections[section].append(path)
        found[path] = _Page(Truth(path, "article", path), text)
    articles = list(found)
    for path in articles:
        found[path] = found[path]._replace(related=rng.sample(articles, 4))
    newest = [path for paths in sections.values() for path in paths[:2]]
    found["/"] = _Page(Truth("/", "list", "/"), story(rng, 5), items=newest)
    for section, paths in sections.items():
        parts = [paths[i : i + _LISTED] for i in range(0, len(paths), _LISTED)]
        names = [f"/{section}/", *(f"/{section}/?page={n}" for n in range(2, len(parts) + 1))]
        text = story(rng, 5)
        for number, (path, items) in enumerate(zip(names, parts, strict=True)):
            beside = names[max(0, number - 1) : number + 2]
            titled = text._replace(title=f"{section.capitalize()}, page {number + 1}")
            found[path] = _Page(Truth(path, "list", path), titled, items=items, more=beside)
    products = _products(quota["variant"], rng)
    found["/shop/"] = _Page(Truth("/shop/", "list", "/shop/"), story(rng, 5), items=[*products])
    found |= products
    quota["session"] = pages - len(found) - quota["print"] - quota["soft404"]
    for kind in _CHAIN_LENGTHS:
        _add_copies(found, kind, rng.sample(articles, quota[kind]))
    return found


def _products(left: int, rng: Random) -> dict[str, _Page]:
    """Return families of products that differ in colour, size and number, each linked to the others."""
    found: dict[str, _Page] = {}
    while left > 0:
        base, name = story(rng, 8), rng.choice(_LISTS["n"])
        family, colours = f"/shop/{name}-{len(found)}", _LISTS["colour"][:left]
        paths = [f"{family}-{colour}" for colour in colours]
        for number, (path, colour) in enumerate(zip(paths, colours, strict=True)):
            facts = f"In {colour}, {20 + 5 * number} cm, article {rng.randint(10_000, 99_999)}."
            text = Story(f"{name}, {colour}", base.author, (facts, *base.paragraphs))
            found[path] = _Page(Truth(path, "variant", path, family), text, related=paths)
        left -= len(colours)
    return found


def _add_copies(found: dict[str, _Page], kind: str, originals: list[str]) -> None:
    """Add a copy of each article (or a page that is gone), in chains; an article links to the first of each."""
    length = _CHAIN_LENGTHS[kind]
    for first in range(0, len(originals), length):
        chain = originals[first : first + length]
        session = f"{Random(chain[0]).getrandbits(64):016x}"
        ends = {"session": f"?sid={session}", "print": "?print=1", "soft404": "/gallery"}
        paths = [f"{path}{ends[kind]}" for path in chain]
        host = found[chain[0]]
        found[chain[0]] = host._replace(more=[*host.more, paths[0]])
        for number, (path, original) in enumerate(zip(paths, chain, strict=True)):
            others = [*paths[number + 1 :], *paths[:number]][:3]
            if kind == "soft404":
                found[path] = _Page(Truth(path, kind, kind), _MISSING, more=others)
            else:
                found[path] = _Page(Truth(path, kind, original), found[original].story, nav=others)


_SHELL = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title} | The Lantern Herald</title>
<style>body{{font:16px/1.5 Georgia,serif;max-width:60em;margin:auto}} aside{{float:right;width:14em}} li{{margin:.2em}}</style>
<script>window.request = "{token}"; window.views = {views};</script></head>
<body>
<header><b>The Lantern Herald</b> <span class="clock">{clock}</span> <div class="ad">{banner}</div></header>
<nav><ul>{nav}</ul></nav>
<aside><h3>Read on</h3><ul>{related}</ul><div class="ad">{promotion}</div></aside>
<main><article><h1>{title}</h1>
{main}
</article></main>
<nav class="tools"><ul>{more}</ul></nav>
<footer><p>{views} readers today. Contact, imprint, terms of use, cookies.</p></footer>
</body>
</html>
"""
_PRINT = """\
<html><head><meta charset="utf-8"><title>{title} | The Lantern Herald</title></head>
<body bgcolor="white">
<table width="100%"><tr><td>The Lantern Herald, printed on {clock} as copy {views}</td></tr></table>
<div id="sheet"><article><h1>{title}</h1>
{main}
</article></div>
<hr><div class="pager">Print these, too: <ul>{nav}</ul></div>
<p class="small">Printing is free. {promotion}</p>
</body></html>
"""


class Site:
    """A generated site of `pages` URLs, all reachable from `start`; truth says what each page is, by path.

    Raises UsageError if pages is too small for every kind of page to occur.
    """

    start = "/"

    def __init__(self, pages: int = 500, seed: int = 1) -> None:
        self._pages, self._seed = _plan(pages, seed), seed
        self.truth: Mapping[str, Truth] = {path: page.truth for path, page in self._pages.items()}

    def render(self, path: str, tick: int) -> Answer:
        """Return status, content type and body of the tick-th request, made for that path."""
        page = self._pages.get(path)
        if page is None:
            return 404, "text/plain; charset=utf-8", b"There is no such page.\n"
        rng = Random(f"{self._seed} {path} {tick}")
        main = [f"<p>{escape(text)}</p>" for text in page.story.paragraphs]
        if page.story.author and page.truth.kind != "list":
            comments = f"{rng.randint(1, 400)} comments"
            main.insert(0, f'<p class="byline">By <b>{page.story.author}</b>, {comments}</p>')
        if page.items:
            main.append(f'<ul class="teasers">{self._links(page.items)}</ul>')
        html = (_PRINT if page.truth.kind == "print" else _SHELL).format(
            title=escape(page.story.title),
            clock=f"{rng.randint(1, 28)} November, {rng.randint(10, 23)}:{rng.randint(10, 59)}",
            views=rng.randint(100, 99_999),
            token=f"{rng.getrandbits(96):024x}",
            banner=" ".join(rng.sample(_LISTS["ad"], 12)),
            promotion=" ".join(rng.sample(_LISTS["ad"], 9)),
            nav=self._links(page.nav),
            main="\n".join(main),
            related=self._links(page.related),
            more=self._links(page.more),
        )
        return 200, "text/html; charset=utf-8", html.encode()

    def links(self, path: str) -> list[str]:
        """Return the paths that the page links to, each once."""
        page = self._pages[path]
        return list(dict.fromkeys((*page.nav, *page.items, *page.related, *page.more)))

    def _links(self, paths: Sequence[str]) -> str:
        titles = {path: escape(self._pages[path].story.title) for path in paths}
        return "".join(f'<li><a href="{p}">{title}</a></li>\n' for p, title in titles.items())


def _pages(site: Site) -> Pages:
    """Return a site's pages; each request for one is another tick of its clock."""
    ticks = count(1)

    return lambda path: site.render(path, next(ticks))


def serve(site: Site, log: str | Path | None = None) -> AbstractContextManager[str]:
    """Serve the site from a thread; give its base URL, without a slash at the end. See loopback.Server."""
    return serving(_pages(site), log=log)


def serve_forever(site: Site, port: int, ready: Callable[[str], object]) -> None:
    """Serve the site until Ctrl-C; `ready` is called with its base URL."""
    with Server(_pages(site), port) as server, suppress(KeyboardInterrupt):
        ready(server.url)
        server.serve_forever()


def serve_in_child(
    pages: int = 500, seed: int = 1, log: str | Path | None = None
) -> AbstractContextManager[str]:
    """Serve a site from a process of its own; give its base URL. Raises DedupError if it does not start."""
    return child("-m", __name__, str(pages), str(seed), *([] if log is None else [str(log)]))


if __name__ == "__main__":
    serve_as_child(_pages(Site(int(sys.argv[1]), int(sys.argv[2]))), log="".join(sys.argv[3:]))
