"""Requests and responses: the document key of a page, and whether it is judged.

The document key is the canonical form of the URL that was requested first, before any redirect. Users
copy meta from a response to new requests; that must not give a page another page's verdict, key, first
URL, or status of a start request.
"""

import re
from contextlib import suppress
from time import time
from types import FunctionType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scrapy import FormRequest, Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.spiders import CrawlSpider
from twisted.internet.defer import Deferred
from w3lib.url import canonicalize_url

from dedup.model.names import document_key
from dedup.scrapy.settings import Config

MOST_LINKED = 2000  # links of a page whose URLs are compared with those of requests
KIND_CHARACTERS = 32  # of a kind's name; a longer one is cut

# Whose meta it is: the URL and the dedup_key of the request that a response came for.
_OWNER = "_dedup_owner"
# The URL of a scheduled request; a request that is awaited in a callback has none.
_SCHEDULED = "_dedup_scheduled"
_NONE_WANTED: frozenset[str] = frozenset()
# When it was scheduled, as Unix time.
_SCHEDULED_AT = "_dedup_scheduled_at"
# A name in a path that has one spelling; and what stands for all others, as a relative link may have none at all.
_PLAIN_NAME = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9_.~-]+")
_ANY_END = ""
# Callbacks that are one object for all requests; and the one that stands for those of rules.
_LASTING = (FunctionType, type(None))
_OF_RULES = getattr(CrawlSpider, "_callback", CrawlSpider)
_HTML_TYPES = (b"text/html", b"application/xhtml+xml")
# In the meta of a copy that was kept for its links, and of everything reached through it: the rules of its
# URL that are in doubt because of that.
BEHIND = "_dedup_behind"
# In the meta of a request that was put off, since it may lead to a known page.
PUT_OFF = "_dedup_put_off"
# In the meta of a control visit: the document key of the page (proof.py).
CONTROL = "_dedup_control"
# In the meta of requests whose URL alone does not decide.
_OWN_WAYS = ("dont_dedup", "dedup_key", "redirect_urls", "retry_times", "splash", "cookiejar")
# In meta copied from another page: how many entries of redirect_urls are that page's.
_COPIED = "_dedup_copied_redirects"

# What belongs to one visit of a page: not taken along when it is fetched again.
_OF_ONE_VISIT = ("dedup", _SCHEDULED, _OWNER, "redirect_urls", "redirect_times", "redirect_reasons")


def again(request: Request) -> Request:
    """Return a request that fetches the page of another one once more, by way of its redirects."""
    meta = {name: value for name, value in request.meta.items() if name not in _OF_ONE_VISIT}
    if _COPIED in meta:
        meta[_COPIED] = 0
    url = request.url if _splash_arguments(request) is not None else first_url(request)
    return request.replace(url=url, dont_filter=True, meta=meta)


def send(crawler: Crawler, request: Request) -> None:
    """Schedule a request that no callback makes."""
    assert crawler.engine is not None
    crawler.engine.crawl(request)


def first_url(request: Request) -> str:
    """Return the URL that was requested first: before redirects, if there were any."""
    if "splash" in request.meta and (splash := _splash_arguments(request)) is not None:
        return str(splash.get("url", request.url))
    redirects = request.meta.get("redirect_urls")
    if not redirects:
        return request.url
    own = redirects[request.meta.get(_COPIED, 0) :]
    return str(own[0]) if own else request.url


def _method(request: Request) -> str:
    """Return the method with which a page is fetched."""
    splash = _splash_arguments(request)
    return request.method if splash is None else str(splash.get("http_method", "GET"))


def _splash_arguments(request: Request) -> dict[str, Any] | None:
    """Return the arguments that scrapy-splash sent to Splash (always by POST)."""
    splash = request.meta.get("splash")
    if not isinstance(splash, dict) or not request.meta.get("_splash_processed"):
        return None
    arguments = splash.get("args")
    return arguments if isinstance(arguments, dict) else None


def key_of(request: Request) -> str:
    """Return the document key: meta["dedup_key"], or the canonical form of the first URL."""
    given = request.meta.get("dedup_key")
    return str(given) if given else document_key(first_url(request))


def wanted_urls(request: Request, response: Response) -> frozenset[str]:
    """Return the requested URLs that were redirected elsewhere, such as to a login.

    A redirect that only normalises the URL (a slash, the scheme, the case) does not count.
    """
    redirects = request.meta.get("redirect_urls")
    if not redirects:
        return _NONE_WANTED
    own, here = redirects[request.meta.get(_COPIED, 0) :], _path(response.url)
    return frozenset(url for url in map(str, own) if _path(url) != here)


def _path(url: str) -> str:
    return urlsplit(url).path.rstrip("/").lower()


def asks(yielded: Request, wanted: frozenset[str]) -> bool:
    """Whether a callback that yields this asks for something, so that its page is no content.

    A form, or a method other than GET (a login); a request with dont_filter (a retry); a URL that was
    requested before and redirected.
    """
    return (
        yielded.dont_filter
        or yielded.method != "GET"
        or isinstance(yielded, FormRequest)
        or yielded.url in wanted
    )


class PageLinks:
    """The links of a page, navigation and footer included; of the first MOST_LINKED.

    Canonical URLs are compared, and only those of links that end as the URL in question does are made: a page has
    hundreds, and each takes 50 us.
    """

    def __init__(self, response: Response) -> None:
        """Gather them."""
        self._response = response
        self._by_end: dict[str, list[str]] = {}
        self._canonical: dict[str, frozenset[str]] = {}  # the same, made when they are asked for
        if isinstance(response, TextResponse):
            found = response.selector.root.xpath("//a/@href | //area/@href | //link/@href")
            for href in {href.strip().partition("#")[0] for href in found[:MOST_LINKED]}:
                self._by_end.setdefault(_end(href), []).append(href)

    def lead_to(self, url: str) -> bool:
        """Whether one of them leads to a URL."""
        wanted = canonicalize_url(url)
        return wanted in self._ending(_end(wanted)) or wanted in self._ending(_ANY_END)

    def _ending(self, end: str) -> frozenset[str]:
        if end not in self._canonical:
            found = set()
            for href in self._by_end.get(end, ()):
                with suppress(ValueError):  # no URL
                    found.add(canonicalize_url(self._response.urljoin(href)))
            self._canonical[end] = frozenset(found)
        return self._canonical[end]


def _end(url: str) -> str:
    """Return the last name in a URL's path, _ANY_END if its canonical form may have another."""
    path = url.partition("?")[0]  # there is no fragment
    before, _, name = path.rstrip("/").rpartition("/")
    is_host = before.endswith("/") and "/" not in before[:-1]  # http://example.com
    if is_host or not _PLAIN_NAME.fullmatch(name):
        return _ANY_END
    return name + "/" * path.endswith("/")


def mark_own(request: Request) -> None:
    """Note whose meta this is, so that forget_copied() recognises copies of it."""
    request.meta[_OWNER] = (request.url, request.meta.get("dedup_key"))


def mark_scheduled(request: Request) -> None:
    """Note that a request goes to the scheduler."""
    request.meta[_SCHEDULED] = request.url
    if not request.meta.get(PUT_OFF):
        request.meta[_SCHEDULED_AT] = time()


def asked_for_at(request: Request) -> float:
    """Return when a request went to the scheduler, as Unix time; infinity if it did not."""
    return float(request.meta.get(_SCHEDULED_AT, float("inf")))


def is_ordinary(request: Request) -> bool:
    """Whether only its URL decides which page a request leads to: it may be a known page.

    Not a start request, a form, one with dont_filter, or one that is awaited in a callback; not one that
    was sent before (redirected, retried), or has its own key, exemption or cookies.
    """
    meta = request.meta
    return (
        request.method == "GET"
        and not request.body
        and not request.cookies
        and (not request.dont_filter or bool(meta.get(PUT_OFF)))
        and meta.get(_SCHEDULED) == request.url
        and not is_start(request)
        and not any(meta.get(name) for name in _OWN_WAYS)
        and not _is_component(request.callback)
    )


def forget_copied(request: Request) -> None:
    """Remove another page's verdict and identity from a request's meta.

    A retry keeps its identity: it has the URL of that page. A key that was copied to another URL is
    removed; a key that the spider set itself stays.
    """
    meta = request.meta
    meta.pop("dedup", None)
    url, key = meta.pop(_OWNER, (request.url, None))
    if url == request.url:
        return
    meta[_COPIED] = len(meta.get("redirect_urls", ()))
    if key is not None and meta.get("dedup_key") == key:
        del meta["dedup_key"]


def is_start(request: Request) -> bool:
    """Whether the request came from the spider's start()."""
    return bool(request.meta.get("is_start_request")) and _COPIED not in request.meta


class Callback(NamedTuple):
    """What a page's callback says of it.

    name          of the method
    kind          what the page is compared within, unless its request says otherwise
    is_component  it is for a component (robots.txt, media), or for the shell, not for a spider
    """

    name: str
    kind: str
    is_component: bool


class Callbacks:
    """The callbacks of a crawl. Each is looked at once."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        """Know none."""
        self._crawler = crawler
        self._kinds = config.kinds
        self._known: dict[object, Callback] = {}

    def of(self, request: Request) -> Callback:
        """Return the callback of a request."""
        function = getattr(request.callback, "__func__", request.callback)
        known = self._known.get(function) if isinstance(function, _LASTING) else None
        if known is None:
            name = callback_name(request, self._crawler.spider)
            kind = name[:KIND_CHARACTERS] if self._kinds else ""
            known = Callback(name, kind, _is_component(request.callback))
            if isinstance(function, _LASTING) and function is not _OF_RULES:
                self._known[function] = known
        return known


def exemption(
    request: Request, response: Response, config: Config, callback: Callback, *, scheduling: bool
) -> str | None:
    """Return the reason for which a page is not judged, before its bytes are read.

    scheduling  whether the crawl has a scheduler, through which pages for callbacks come
    """
    if request.meta.get("dont_dedup"):
        return "dont_dedup"
    in_force = config.exempt
    if callback.is_component and "no_callback" in in_force:
        return "no_callback"
    if "inline" in in_force and scheduling and request.meta.get(_SCHEDULED) != request.url:
        return "inline"
    if "method" in in_force and request.method != "GET" and _method(request) != "GET":
        return "method"
    if "status" in in_force and response.status != 200:
        return "status"
    if not isinstance(response, HtmlResponse if "non_html" in in_force else TextResponse) and not (
        _is_html(response)
    ):
        return "non_html"
    if "too_large" in in_force and len(response.body) > config.max_bytes:
        return "too_large"
    return None


def callback_name(request: Request, spider: Any) -> str:
    """Return the name of a page's callback; for a rule of a CrawlSpider, the rule's callback."""
    callback = request.callback
    if callback is None:
        return "parse"
    callback = getattr(callback, "func", callback)  # functools.partial
    if getattr(callback, "__func__", None) is _OF_RULES:
        try:
            callback = spider.rules[request.meta["rule"]].callback
        except (AttributeError, IndexError, KeyError, TypeError):
            return "_callback"
    if callback is None:
        return "rule"
    return callback if isinstance(callback, str) else getattr(callback, "__name__", "")


def _is_html(response: Response) -> bool:
    """Whether a page is HTML by its type, since plugins have their own response classes."""
    kind = (response.headers.get("Content-Type") or b"").partition(b";")[0].strip().lower()
    return isinstance(response, TextResponse) and kind in _HTML_TYPES


def _is_component(callback: Any) -> bool:
    """Whether a page is for a component or for the shell, not for a spider."""
    return callback is NO_CALLBACK or isinstance(getattr(callback, "__self__", None), Deferred)
