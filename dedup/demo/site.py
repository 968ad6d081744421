"""The demo site: what each page really is, its HTML in one of four looks, and its server on loopback.

Invariants: a site is the same everywhere and never changes, and `render` is a function of path and tick, so
a second request differs as on a living site, and any request can be repeated. The main content of a page
depends on its story alone; the clock, the counters, the advertisements and the tokens around it are drawn
from the generator of each request.

    python -m dedup.demo.site 500 1 [LOG]      the child of serve_in_child()
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from html import escape
from itertools import count
from pathlib import Path
from random import Random
from types import MappingProxyType

from dedup.demo.loopback import Answer, Pages, Server, child, serve_as_child, serving
from dedup.demo.plan import START, PlannedPage, Truth, plan
from dedup.demo.stories import LANGUAGES, Author, ShellLabels

_LOOKS = tomllib.loads(Path(__file__).with_name("looks.toml").read_text(encoding="utf-8"))
HEAD, SCRIPT = _LOOKS.pop("head"), _LOOKS.pop("script")

_LISTS = ("front", "section", "listing")
_SLOPPY_SHARE = 0.25
_WEATHER = ("fog", "drizzle", "a light breeze", "sunshine", "sleet", "a full gale")
_CLASSES = _LOOKS.pop("classes").split()


def style(look: str) -> str:
    """Return the style sheet of a look, about 4 KB."""
    prefix = _LOOKS[look]["prefix"]
    rules = [f"body{{margin:0;font:16px/1.5 Georgia,serif;color:#222;counter-reset:{prefix}}}"]
    for number, name in enumerate(_CLASSES):
        rules.append(
            f".{prefix}-{name}{{margin:{number % 7}px auto;padding:{number % 5}px 1em;"
            f"max-width:{40 + number}em;border-top:{number % 3}px solid #{number:02x}aa77}}"
        )
        rules.append(f".{prefix}-{name}>a:hover{{color:#c3{number:02x}11;text-decoration:none}}")
    rules.append("@media(max-width:40em){aside,nav{display:block;width:auto;float:none}}")
    return "\n".join(rules) + "\n"


_STYLES = {look: style(look) for look in _LOOKS}


class Site:
    """A generated news site of `pages` URLs, all reachable from `start`.

    truth  what each page is, by path
    Raises UsageError if pages is too small for every kind of page to occur.
    """

    start = START

    def __init__(self, pages: int = 500, seed: int = 1) -> None:
        self._pages = plan(pages, seed)
        self._seed = seed
        self.truth: Mapping[str, Truth] = MappingProxyType(
            {path: page.truth for path, page in self._pages.items()}
        )

    def render(self, path: str, tick: int) -> tuple[int, str, bytes]:
        """Return status, content type and body of the tick-th request, made for that path."""
        page = self._pages.get(path)
        if page is None:
            return 404, "text/plain; charset=utf-8", b"There is no such page.\n"
        rng = Random(f"{self._seed} {path} {tick}")
        return 200, "text/html; charset=utf-8", _html(page, self._pages, rng).encode()

    def links(self, path: str) -> list[str]:
        """Return the paths that the page links to, each once."""
        return self._pages[path].links

    def text(self, path: str) -> str:
        """Return the page's main content: title, paragraphs and caption, without any shell."""
        return self._pages[path].story.text


def _html(page: PlannedPage, pages: Mapping[str, PlannedPage], rng: Random) -> str:
    """Return the page's HTML; `rng` is the request's own generator."""
    fixed = Random(page.truth.path)  # for what differs from page to page but not by request
    sloppy = fixed.random() < _SLOPPY_SHARE
    related_after = fixed.random() < 0.5
    labels = LANGUAGES[page.truth.language].labels
    look = "plain" if page.truth.kind == "print" else page.look
    related = _related(page, pages, labels)
    clock = _clock(rng)
    body: str = _LOOKS[look]["body"].format(
        site=_LOOKS[look]["site"],
        clock=clock,
        milliseconds=rng.randint(3, 90),
        request=f"{rng.getrandbits(48):012x}",
        token=f"{rng.getrandbits(96):024x}",
        weather=rng.choice(_WEATHER),
        banner=_advertisement(labels, rng),
        promotion=_advertisement(labels, rng),
        nav=_list_of_links(page.nav, pages),
        popular=_list_of_links(page.popular, pages),
        place=labels.account if page.truth.kind == "session" else escape(page.story.title),
        content=_teasers(page, pages) if page.truth.kind in _LISTS else _article(page, labels, rng),
        after=(related if related_after else "") + _tools(page, pages, labels),
        side="" if related_after else related,
        comments=_comments(page, fixed),
        footer="".join(f"<p>{line}</p>\n" for line in labels.footer),
        home=labels.home,
        search=labels.search,
        advertisement=labels.advertisement,
        popular_title=labels.popular,
        comments_title=labels.comments,
        name=labels.name,
        send=labels.send,
        notice=labels.notice,
    )
    return _head(page, look, rng) + (_sloppy(body) if sloppy else body)


def _head(page: PlannedPage, look: str, rng: Random) -> str:
    story = page.story
    canonical = f'<link rel="canonical" href="{page.original}">\n' if page.original else ""
    data = {"@type": "NewsArticle", "headline": story.title, "author": story.author}
    # A partner keeps the title: on this one host another one would make it another page by its own word.
    named = "herald" if page.truth.kind == "syndicated" else look
    return str(HEAD).format(
        language=story.language,
        direction=LANGUAGES[story.language].direction,
        title=escape(story.title),
        site=_LOOKS[named]["site"],
        summary=escape(story.summary),
        canonical=canonical,
        style=_STYLES[look],
        data=json.dumps(data, ensure_ascii=False),
        script=SCRIPT.replace("REQUEST", f"{rng.getrandbits(64):016x}"),
    )


# Main content


def _article(page: PlannedPage, labels: ShellLabels, rng: Random) -> str:
    """Title, byline, counter, figure and paragraphs."""
    story = page.story
    paragraphs = [escape(text, quote=False) for text in story.paragraphs]
    for number, path in enumerate(page.inline):
        paragraphs[number] = _link_first_words(paragraphs[number], path, story.language)
    blocks = [f"<p>{text}</p>" for text in paragraphs]
    if story.caption:
        width, height = 400 + 40 * (len(story.title) % 7), 300
        blocks.insert(
            1,
            f'<figure class="picture"><img src="/static/picture.svg" alt="" width="{width}" '
            f'height="{height}"><figcaption>{escape(story.caption, quote=False)}</figcaption>'
            "</figure>",
        )
    heading = f'<h1 class="title">{escape(story.title, quote=False)}</h1>\n'
    if story.author:
        heading += (
            f'<p class="byline">{labels.by} {escape(story.author)}</p>\n'
            f'<p class="meta">{labels.updated} {_clock(rng)}, {rng.randint(100, 99_999):,} '
            f"{labels.views}</p>\n"
        )
    inner = heading + "\n".join(blocks) + "\n"
    return f"<article>\n{inner}</article>" if page.look == "herald" else inner


def _link_first_words(text: str, path: str, language: str) -> str:
    """Make a link of a paragraph's first three words (four characters in Chinese)."""
    space = LANGUAGES[language].space
    end = len(space.join(text.split(space)[:3])) if space else 4
    return f'<a href="{path}">{text[:end]}</a>{text[end:]}'


def _teasers(page: PlannedPage, pages: Mapping[str, PlannedPage]) -> str:
    """An introduction and a list: titles alone on listings, with summaries elsewhere."""
    story = page.story
    parts = [f'<h1 class="title">{escape(story.title, quote=False)}</h1>']
    parts += [f"<p>{escape(text, quote=False)}</p>" for text in story.paragraphs]
    if page.truth.kind == "listing":
        parts.append(f'<ul class="archive">\n{_list_of_links(page.items, pages)}</ul>')
        return "\n".join(parts)
    for path in page.items:
        target = pages[path].story
        parts.append(
            f'<div class="teaser"><h2><a href="{path}">{escape(target.title, quote=False)}</a></h2>'
            f"<p>{escape(target.summary, quote=False)}</p></div>"
        )
    return "\n".join(parts)


# Around it


def _list_of_links(paths: tuple[str, ...], pages: Mapping[str, PlannedPage]) -> str:
    return "".join(
        f'<li><a href="{path}">{escape(pages[path].story.title, quote=False)}</a></li>\n'
        for path in paths
    )


def _related(page: PlannedPage, pages: Mapping[str, PlannedPage], labels: ShellLabels) -> str:
    if not page.related:
        return ""
    links = _list_of_links(page.related, pages)
    return f'<div class="more-stories"><h3>{labels.related}</h3><ul>\n{links}</ul></div>\n'


def _tools(page: PlannedPage, pages: Mapping[str, PlannedPage], labels: ShellLabels) -> str:
    """Links to copies of this page, to galleries that are gone, to the archive's other pages."""
    if not page.more:
        return ""
    links = "".join(
        f'<li><a href="{path}">{_tool(page, pages[path], labels)}</a></li>\n' for path in page.more
    )
    return f'<nav class="tools" aria-label="{labels.more}"><ul>\n{links}</ul></nav>\n'


def _tool(page: PlannedPage, target: PlannedPage, labels: ShellLabels) -> str:
    if page.truth.kind != "listing":
        return labels.tools.get(target.truth.kind, labels.more)
    number, other = (int(path.rsplit("=")[1]) for path in (page.truth.path, target.truth.path))
    return labels.following if other > number else labels.previous


def _comments(page: PlannedPage, fixed: Random) -> str:
    """Three remarks of readers, about anything; none where there is nothing to remark on."""
    if page.truth.kind in (*_LISTS, "soft404"):
        return ""
    language = LANGUAGES[page.truth.language]
    writer = Author(language, fixed.choice(list(language.topics.values())), fixed)
    return "".join(
        f'<div class="comment"><b>{writer.fill("{person}")}</b> '
        f"<p>{escape(writer.paragraph(2), quote=False)}</p></div>\n"
        for _ in range(3)
    )


def _advertisement(labels: ShellLabels, rng: Random) -> str:
    return " ".join(rng.sample(labels.advertising, rng.randint(7, 14)))


def _clock(rng: Random) -> str:
    day, hour, minute = rng.randint(1, 28), rng.randint(0, 23), rng.randint(0, 59)
    return f"2025-11-{day:02} {hour:02}:{minute:02}"


# Markup as people write it

_CLOSED = re.compile(r"</(?:p|li)>")
_QUOTED = re.compile(r'\b(class|href|id|name|width)="([^\s"\'<>`]+)"')
_TAG = re.compile(r"<(/?(?:p|ul|li|div|h[1-3]|b)\b)")


def _sloppy(body: str) -> str:
    """Return the same page in worse markup: open paragraphs, bare attributes, upper-case tags."""
    body = _CLOSED.sub("", body)
    body = _QUOTED.sub(r"\1=\2", body)
    body = _TAG.sub(lambda tag: tag[0].upper(), body)
    return body.replace("’", "&rsquo;").replace(" &amp; ", " & ")


# The server

_ROBOTS = b"User-agent: *\nAllow: /\n"


def _pages(site: Site) -> Pages:
    """Return a site's pages; each request for one is another tick of its clock."""
    ticks = count(1)

    def answer(path: str) -> Answer:
        if path == "/robots.txt":
            return 200, "text/plain; charset=utf-8", _ROBOTS
        return site.render(path, next(ticks))

    return answer


def serve(site: Site, log: str | Path | None = None) -> AbstractContextManager[str]:
    """Serve the site from a thread; give its base URL, without a slash at the end. See loopback.Server."""
    return serving(_pages(site), log=log)


def serve_forever(site: Site, port: int = 0, ready: Callable[[str], object] = print) -> None:
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
