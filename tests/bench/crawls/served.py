"""A built site as a web server would give it, clean or noisy, and the proxy on loopback that serves it.

The noise: a quarter of the pages is also linked with utm parameters, a quarter with a session id, a third by its slash
or index.html twin; a few links lead to a second host that has the same pages; three pages in ten have a print version;
every page links to a calendar without events, of ten years. It is the same in every crawl.

Invariants: links to pages that are not saved are made none (unless a site is served as it is); every answer takes
LATENCY_SECONDS; a URL has one page behind it, which page_of() says.
"""

import re
import time
from calendar import month_name
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

from crawls.sites import BuiltSite, hash_of, links, lookup

LATENCY_SECONDS = 0.015
CALENDAR_MONTHS = 60  # before this month, and after it
THIS_MONTH = 2026 * 12 + 10
NOISE = re.compile(r"(^|&)(utm_\w+|sid|print)=[^&]*")
FURNITURE = re.compile(
    r"<(nav|header|footer|aside|script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL
)


class Site:
    """The pages of a site, and what its URLs mean."""

    def __init__(
        self, site: BuiltSite, noisy: bool = False, most: int | None = None, as_is: bool = False
    ) -> None:
        self.name, self.noisy, self.host, self._as_is = site.name, noisy, site.host, as_is
        pages = site.pages[:most]
        self.texts = {page.key: page.text for page in pages}
        self.starts = [url for url in site.starts if lookup(self.texts, url[7:])]
        self.mirror = "www2." + self.host if noisy else self.host
        self._answers: dict[tuple[str, str], bytes] = {}
        self._pages = {page.key: page.html for page in pages}
        if not as_is:
            self._pages = {k: self._without_dead_links(k, html) for k, html in self._pages.items()}
        every = sum(len(list(self._links(key))) for key in self._pages)
        self._share = len(self._pages) / max(every, 1)

    def page_of(self, url: str) -> str | None:
        """Return what a URL shows: the key of a page, "calendar YYYY-MM", or None: also of other hosts."""
        parts = urlsplit(url)
        if parts.hostname not in (self.host, self.mirror) and not self._as_is:
            return None
        if self.noisy and (month := re.match(r"/calendar/(\d+)/(\d+)/?$", parts.path)):
            return f"calendar {month[1]}-{month[2]:0>2}"
        query = NOISE.sub("", parts.query).strip("&") if self.noisy else parts.query
        key = self.host + unquote(parts.path or "/") + ("?" + unquote(query) if query else "")
        return lookup(self._pages, key)

    def answer(self, url: str) -> tuple[int, str, bytes]:
        """Return status, location and body."""
        parts, key = urlsplit(url), self.page_of(url)
        if key is None:
            return 404, "", b"<html><title>404</title><body>Not Found</body></html>"
        if key.endswith("/index.html") and not parts.path.endswith(("/", ".html")):
            return 301, f"http://{parts.netloc}{parts.path}/" + "?" * bool(parts.query) + parts.query, b""  # fmt: skip
        if key.startswith("calendar"):
            return 200, "", self._calendar(key).encode()
        form = "mirror" if parts.hostname != self.host else "print" * ("print=" in parts.query)
        if (key, form) not in self._answers:
            html = self._noisy(key, form) if self.noisy else self._pages[key]
            self._answers[key, form] = html.encode("utf8", "replace")
        return 200, "", self._answers[key, form]

    def _links(self, key: str) -> Iterator[tuple[re.Match[str], str | None, str]]:
        return links(self._pages[key], f"http://{key}", {self.host}, self._pages)

    def _without_dead_links(self, key: str, html: str) -> str:
        dead = [
            m.end(1)
            for m, target, _ in links(html, f"http://{key}", {self.host}, self.texts)
            if target is None
        ]
        for at in reversed(dead):
            html = html[:at] + "data-gone-" + html[at:]
        return html

    def _noisy(self, key: str, form: str) -> str:
        html, made, end = self._pages[key], [], 0
        if form == "mirror":
            html = html.replace(f"http://{self.host}", f"http://{self.mirror}")
        else:
            for number, (match, target, url) in enumerate(self._links(key)):
                if target and (other := self._other(f"{key}|{number}", target, url.split("#")[0])):
                    made += [html[end : match.start(3)], f'"{escape(other)}"']
                    end = match.end(3)
            html = "".join([*made, html[end:]])
        foot = "" if form == "mirror" else "<p><a href='/calendar/2026/11'>Calendar</a></p>"
        if _chance("print" + key) < 0.3 and "?" not in key and form != "mirror":
            if form == "print":
                html = FURNITURE.sub("", html)
                foot += f"<p class='printed'>Printed on 28 November 2026 from http://{key}</p>"
            else:
                foot += "<p><a href='?print=1' rel='nofollow'>Print</a></p>"
        at = html.lower().rfind("</body>")
        return html + foot if at < 0 else html[:at] + foot + html[at:]

    def _other(self, name: str, target: str, url: str) -> str | None:
        """Return another URL of a link's page, or None: for most links."""
        chance, added = _chance(name) / self._share, "&" if "?" in url else "?"
        if chance < 0.25:
            campaign = ("newsletter", "twitter", "rss")[hash_of(name) % 3]
            return f"{url}{added}utm_source={campaign}&utm_medium=link"
        if chance < 0.5:
            return f"{url}{added}sid={hash_of('sid' + name):016x}"
        if chance < 0.85:
            if target.endswith("/index.html") and "?" not in url:
                return f"http://{target}" if url.endswith("/") else url.removesuffix("index.html")
            return url.removesuffix(".html") if url.endswith(".html") else None
        if chance < 0.87:
            return url.replace(f"http://{self.host}", f"http://{self.mirror}")
        return None

    def _calendar(self, key: str) -> str:
        year, month = map(int, key.split()[1].split("-"))
        number, title = year * 12 + month - 1, f"{month_name[month]} {year}"
        near = (
            (n, text)
            for n, text in ((number - 1, "Previous month"), (number + 1, "Next month"))
            if abs(n - THIS_MONTH) <= CALENDAR_MONTHS
        )
        days = "".join(f"<td>{day}</td>" + "</tr><tr>" * (day % 7 == 0) for day in range(1, 31))
        return (
            f"<html><head><title>Calendar: {title}</title></head><body><nav><a href='/'>Home</a></nav><main>"
            f"<h1>{title}</h1><p>There are no events in this month. Please try another month, or subscribe to our "
            f"newsletter to hear of new events.</p><table><tr>{days}</tr></table>"
            + "".join(f"<a href='/calendar/{n // 12}/{n % 12 + 1}'>{text}</a> " for n, text in near)
            + "</main></body></html>"
        )


def _chance(name: str) -> float:
    return hash_of(name) / 2**64


@contextmanager
def proxy(site: Site, any_host: bool = False) -> Iterator[str]:
    """Serve a site under its own host names, or under whatever name; the value is the URL of the proxy."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 20

        def do_GET(self) -> None:
            known = any_host or urlsplit(self.path).hostname in (site.host, site.mirror)
            status, location, body = site.answer(self.path) if known else (404, "", b"no such host")
            time.sleep(LATENCY_SECONDS)
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
