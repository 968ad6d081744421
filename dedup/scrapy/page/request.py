"""Requests and responses: the document key of a page, its callback, and whether it is judged.

The document key is the canonical form of the URL that was requested first, before any redirect. Users
copy meta from a response to new requests; that must not give a page another page's verdict, key, first
URL, or status of a start request. So what is ours stands in one key of meta, and says whose it is.
"""

from types import FunctionType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from scrapy import FormRequest, Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.spiders import CrawlSpider
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from dedup.model.names import document_key
from dedup.scrapy.evidence.ledger import Account
from dedup.scrapy.settings import Config

READ_SECONDS = 10  # that a page may take which is read again
KIND_CHARACTERS = 32  # of a kind's name; a longer one is cut

_NONE_WANTED: frozenset[str] = frozenset()
# Callbacks that are one object for all requests; and the one that stands for those of rules.
_LASTING = (FunctionType, type(None))
_OF_RULES = getattr(CrawlSpider, "_callback", CrawlSpider)
_HTML_TYPES = (b"text/html", b"application/xhtml+xml")
# In the meta of requests whose URL alone does not decide.
_OWN_WAYS = ("dont_dedup", "dedup_key", "redirect_urls", "retry_times", "splash", "cookiejar")


class Mark(msgspec.Struct, frozen=True):
    """What the add-on notes in a request's meta.

    owner      URL and dedup_key of the request whose page was judged: it is copied meta if these are others
    scheduled  the URL with which the request went to the scheduler; one that is awaited in a callback has none
    copied     how many entries of redirect_urls are another page's, from whose meta this was copied
    lead       the accounts that paid for the request, and for those that led to its page
    control    document key of the page that is visited again
    """

    owner: tuple[str, str | None] | None = None
    scheduled: str = ""
    copied: int | None = None
    lead: tuple[Account, ...] = ()
    control: str = ""


MARK = "_dedup"
_NONE = Mark()
# What belongs to one visit of a page: not taken along when it is fetched again.
_OF_ONE_VISIT = ("dedup", MARK, "redirect_urls", "redirect_times", "redirect_reasons")


def mark_of(request: Request) -> Mark:
    """Return what the add-on noted in a request."""
    found = request.meta.get(MARK)
    return found if isinstance(found, Mark) else _NONE


def mark(request: Request, **fields: Any) -> Mark:
    """Note something in a request; return all that is noted."""
    noted = request.meta[MARK] = msgspec.structs.replace(mark_of(request), **fields)
    return noted


def note_lead(request: Request, lead: tuple[Account, ...]) -> None:
    """Note in a request which accounts paid for it, and for those that led to its page; else remove such a note."""
    if lead or mark_of(request).lead:
        mark(request, lead=lead)


def forget_copied(request: Request) -> Mark:
    """Remove another page's verdict and identity from a request's meta; return what is noted in it now.

    A retry keeps its identity: it has the URL of that page. A key that was copied to another URL is
    removed; a key that the spider set itself stays.
    """
    meta = request.meta
    meta.pop("dedup", None)
    found = mark_of(request)
    if found.owner is None:
        return found
    url, key = found.owner
    if url == request.url:
        return mark(request, owner=None)
    if key is not None and meta.get("dedup_key") == key:
        del meta["dedup_key"]
    return mark(request, owner=None, copied=len(meta.get("redirect_urls", ())), control="")


def again(request: Request, **fields: Any) -> Request:
    """Return a request that fetches the page of another one once more, by way of its redirects; fields of its mark."""
    meta = {name: value for name, value in request.meta.items() if name not in _OF_ONE_VISIT}
    found = mark_of(request)
    copied = None if found.copied is None else 0
    meta[MARK] = Mark(copied=copied, lead=found.lead, **fields)
    by_splash = "splash" in meta and _splash_arguments(request) is not None
    url = request.url if by_splash else first_url(request)
    return request.replace(url=url, dont_filter=True, meta=meta)


def send(crawler: Crawler, request: Request) -> None:
    """Schedule a request that no callback makes."""
    assert crawler.engine is not None
    crawler.engine.crawl(request)


async def fetch(crawler: Crawler, request: Request, key: str) -> Response | None:
    """Fetch another page as a request did, by its key, for no callback; None if that fails."""
    engine: Any = crawler.engine
    try:
        meta = {name: value for name, value in request.meta.items() if name not in _OF_ONE_VISIT}
        meta |= {MARK: Mark(control=key), "download_timeout": READ_SECONDS}
        fields: dict[str, Any] = {
            "url": key,
            "callback": NO_CALLBACK,
            "errback": None,
            "meta": meta,
        }
        other = request.replace(dont_filter=True, cb_kwargs={}, **fields)
        if hasattr(engine, "download_async"):
            response = await engine.download_async(other)
        else:  # up to 2.13
            response = await maybe_deferred_to_future(engine.download(other))
    except Exception:  # noqa: BLE001 - a key that is no URL, and any that a downloader or another middleware raises
        return None
    return response if response.status == 200 else None


def is_closing(crawler: Crawler) -> bool:
    """Whether a crawl sends no further requests: it is being stopped."""
    held = vars(crawler.engine)
    slot = held.get("_slot", held.get("slot"))  # up to 2.13
    return slot is not None and slot.closing is not None


def first_url(request: Request) -> str:
    """Return the URL that was requested first: before redirects, if there were any."""
    if "splash" in request.meta and (splash := _splash_arguments(request)) is not None:
        return str(splash.get("url", request.url))
    redirects = request.meta.get("redirect_urls")
    if not redirects:
        return request.url
    own = redirects[mark_of(request).copied or 0 :]
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
    meta = request.meta
    if given := meta.get("dedup_key"):
        return str(given)
    is_first = "redirect_urls" not in meta and "splash" not in meta
    return document_key(request.url if is_first else first_url(request))


# --------------------------------------------------------------------- what a callback asks for


def wanted_urls(request: Request, response: Response) -> frozenset[str]:
    """Return the requested URLs that were redirected elsewhere, such as to a login.

    A redirect that only normalises the URL (a slash, the scheme, the case) does not count.
    """
    redirects = request.meta.get("redirect_urls")
    if not redirects:
        return _NONE_WANTED
    own, here = redirects[mark_of(request).copied or 0 :], _path(response.url)
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


# -------------------------------------------------------------------------- whether it is judged


def is_ordinary(request: Request, noted: Mark) -> bool:
    """Whether only its URL decides which page a request leads to: it may be a known page.

    Not a start request, a form, one with dont_filter, or one that is awaited in a callback; not one that
    was sent before (redirected, retried), or has its own key, exemption or cookies.
    """
    return (
        request.method == "GET"
        and not request.body
        and not request.cookies
        and not request.dont_filter
        and noted.scheduled == request.url
        and not (noted.copied is None and request.meta.get("is_start_request"))
        and not any(request.meta.get(name) for name in _OWN_WAYS)
        and not _is_component(request.callback)
    )


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
    request: Request, response: Response, config: Config, callback: Callback, *, inline: bool
) -> str | None:
    """Return the reason for which a page is not judged, before its bytes are read.

    inline  whether it is awaited in a callback
    """
    if request.meta.get("dont_dedup"):
        return "dont_dedup"
    in_force = config.exempt
    if callback.is_component and "no_callback" in in_force:
        return "no_callback"
    if inline and "inline" in in_force:
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
