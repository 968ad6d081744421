"""Requests and responses as deduplication sees them: who a page is, and whether it is judged.

The document key is the canonical URL that was requested first, before any redirect. Users copy
meta from a response to new requests; what they copy must not give a page another page's key.
"""

from typing import Any

from scrapy import Request
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from twisted.internet.defer import Deferred

from dedup.names import document_key
from dedup.scrapy.config import Config

__all__ = ["clean_meta", "exemption", "first_url", "is_start", "key_of", "own_urls"]

# How many entries of redirect_urls a request already had when a callback yielded it.
_COPIED = "_dedup_copied_redirects"


def first_url(request: Request) -> str:
    """Return the URL that was requested first: before redirects, if there were any."""
    redirects = request.meta.get("redirect_urls", ())[request.meta.get(_COPIED, 0) :]
    return str(redirects[0]) if redirects else request.url


def key_of(request: Request) -> str:
    """Return the document key: meta["dedup_key"], or the canonical form of the first URL."""
    given = request.meta.get("dedup_key")
    return str(given) if given else document_key(first_url(request))


def own_urls(request: Request, response: Response) -> frozenset[str]:
    """Return the URLs under which a request means the page itself: a retry, not a link."""
    return frozenset((request.url, response.url, first_url(request)))


def clean_meta(yielded: Request) -> None:
    """Take out of a new request's meta what was copied from the response it came from."""
    if yielded.meta.pop("dedup", None) is not None and "redirect_urls" in yielded.meta:
        yielded.meta[_COPIED] = len(yielded.meta["redirect_urls"])


def is_start(request: Request) -> bool:
    """Whether the request came from the spider's start()."""
    return bool(request.meta.get("is_start_request"))


def exemption(request: Request, response: Response, config: Config) -> str | None:
    """Return the reason for which a page is not judged, before its bytes are looked at."""
    if request.meta.get("dont_dedup"):
        return "dont_dedup"
    in_force = config.exempt
    if "no_callback" in in_force and _nobody_parses(request.callback):
        return "no_callback"
    if "method" in in_force and request.method != "GET":
        return "method"
    if "status" in in_force and response.status != 200:
        return "status"
    if not isinstance(response, HtmlResponse if "non_html" in in_force else TextResponse):
        return "non_html"
    if "too_large" in in_force and len(response.body) > config.max_bytes:
        return "too_large"
    return None


def _nobody_parses(callback: Any) -> bool:
    """Whether a page is for a component (robots.txt, media) or for the shell, not for a spider."""
    return callback is NO_CALLBACK or isinstance(getattr(callback, "__self__", None), Deferred)
