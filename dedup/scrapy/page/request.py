"""Requests and responses: the document key of a page, its callback, and whether it is judged.

The document key is the canonical form of the URL that was requested first, before any redirect. Users
copy meta from a response to new requests; that must not give a page another page's verdict, key, first
URL, or status of a start request. So what is ours stands in one key of meta, and says whose it is.
"""

from typing import Any
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
from dedup.scrapy.evidence.link_budget import Budget
from dedup.scrapy.settings import Config

READ_SECONDS = 10  # that a page may take which is read again
KIND_CHARACTERS = 32  # of a kind's name; a longer one is cut

Budgets = tuple[Budget, ...]
_NONE_WANTED: frozenset[str] = frozenset()
_OF_RULES = getattr(CrawlSpider, "_callback", CrawlSpider)
_HTML_TYPES = (b"text/html", b"application/xhtml+xml")


class Mark(msgspec.Struct, frozen=True):
    """What the add-on notes in a request's meta.

    owner      URL and dedup_key of the request whose page was judged: it is copied meta if these are others
    scheduled  the URL with which the request went to the scheduler; one that is awaited in a callback has none
    copied     how many entries of redirect_urls are another page's, from whose meta this was copied
    paid_by    the budgets that paid for the request, and for those that led to its page
    """

    owner: tuple[str, str | None] | None = None
    scheduled: str = ""
    copied: int | None = None
    paid_by: Budgets = ()


MARK = "_dedup"
_NONE = Mark()
# What belongs to one fetch of a page: not taken along when it is fetched again.
_OF_ONE_FETCH = ("dedup", MARK, "redirect_urls", "redirect_times", "redirect_reasons")


def mark_of(request: Request) -> Mark:
    """Return what the add-on noted in a request."""
    found = request.meta.get(MARK)
    return found if isinstance(found, Mark) else _NONE


def mark(request: Request, **fields: Any) -> Mark:
    """Note something in a request; return all that is noted."""
    before = mark_of(request)
    noted = Mark(**fields) if before is _NONE else msgspec.structs.replace(before, **fields)
    request.meta[MARK] = noted
    return noted


def note_paid_by(request: Request, budgets: Budgets) -> None:
    """Note in a request which budgets paid for it, and for those that led to its page; else remove such a note."""
    if budgets or mark_of(request).paid_by:
        mark(request, paid_by=budgets)


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
    return mark(request, owner=None, copied=len(meta.get("redirect_urls", ())))


def again(request: Request, **fields: Any) -> Request:
    """Return a request that fetches the page of another one once more, by way of its redirects; fields of its mark."""
    meta = {name: value for name, value in request.meta.items() if name not in _OF_ONE_FETCH}
    found = mark_of(request)
    copied = None if found.copied is None else 0
    meta[MARK] = Mark(copied=copied, paid_by=found.paid_by, **fields)
    return request.replace(url=first_url(request), dont_filter=True, meta=meta)


async def fetch(crawler: Crawler, request: Request) -> Response | None:
    """Fetch the page of a request once more, for no callback; None if that fails."""
    other = again(request).replace(callback=NO_CALLBACK, errback=None, cb_kwargs={})
    other.meta["dont_dedup"], other.meta["download_timeout"] = True, READ_SECONDS
    engine: Any = crawler.engine
    try:
        if hasattr(engine, "download_async"):
            response = await engine.download_async(other)
        else:  # up to 2.13
            response = await maybe_deferred_to_future(engine.download(other))
    except Exception:  # noqa: BLE001 - any that a downloader or another middleware raises
        return None
    return response if response.status == 200 else None


def first_url(request: Request) -> str:
    """Return the URL that was requested first: before redirects, if there were any."""
    redirects = request.meta.get("redirect_urls")
    if not redirects:
        return request.url
    own = redirects[mark_of(request).copied or 0 :]
    return str(own[0]) if own else request.url


def key_of(request: Request) -> str:
    """Return the document key: meta["dedup_key"], or the canonical form of the first URL."""
    meta = request.meta
    if given := meta.get("dedup_key"):
        return str(given)
    return document_key(request.url if "redirect_urls" not in meta else first_url(request))


# ------------------------------------------------------------------ what a callback is given


# of meta: names of Scrapy's own, or how they begin (and names that begin with "_")
_SCRAPYS = {
    "depth", "rule", "link_text", "proxy", "cookiejar", "referrer_policy", "retry_times", "max_retry_times",
    "priority_adjust", "bindaddress", "dedup", "is_start_request", "verbatim_url", "give_up_log_level", "allow_offsite",
    "autothrottle_dont_adjust_delay",
}  # fmt: skip
_BEGIN = (
    "_", "dedup_", "download_", "dont_", "redirect_", "handle_httpstatus", "ftp_", "playwright", "splash", "zyte_",
)  # fmt: skip


def given_to(request: Request) -> dict[str, Any]:
    """Return what a callback is given beside the response: cb_kwargs, and a project's own meta."""
    meta = request.meta
    found = {n: meta[n] for n in meta if n not in _SCRAPYS and not str(n).startswith(_BEGIN)}
    return found | request.cb_kwargs


def has_to_be_closed(request: Request) -> bool:
    """Whether a page holds something that only its callback gives back, such as a browser's page."""
    return any(hasattr(each, "close") for each in request.meta.values())


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


def kind_of_page(request: Request, called: str, spider: Any, config: Config) -> str:
    """Return what a page is compared within, unless its request says otherwise: its callback's name; "": all pages."""
    if (given := request.meta.get("dedup_kind")) is not None:
        return str(given)[:KIND_CHARACTERS]
    if not config.kinds:
        return ""
    # with "text" a start page that gave no items would stand for the pages of the rules
    is_start = request.callback is None and config.proof != "text"
    return ((is_start and _rules_callback(spider)) or called)[:KIND_CHARACTERS]


def _rules_callback(spider: Any) -> str:
    """Return the one callback of a CrawlSpider's rules, if it has start pages parsed, too (parse_start_url); else ""."""
    default = CrawlSpider.parse_start_url
    if not isinstance(spider, CrawlSpider) or type(spider).parse_start_url is default:
        return ""
    every = (rule.callback for rule in spider.rules)
    names = {e if isinstance(e, str) else getattr(e, "__name__", "") for e in every if e}
    return names.pop() if len(names) == 1 else ""


def exemption(request: Request, response: Response, config: Config, *, inline: bool) -> str | None:
    """Return the reason for which a page is not judged, before its bytes are read.

    inline  whether it is awaited in a callback
    """
    if request.meta.get("dont_dedup"):
        return "dont_dedup"
    in_force = config.exempt
    # robots.txt and media have no callback, the shell has a Deferred's
    of_deferred = isinstance(getattr(request.callback, "__self__", None), Deferred)
    if (request.callback is NO_CALLBACK or of_deferred) and "no_callback" in in_force:
        return "no_callback"
    if inline and "inline" in in_force:
        return "inline"
    if "method" in in_force and request.method != "GET":
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
