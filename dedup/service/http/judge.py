"""`POST /v1/judge`: the page itself is sent, the service reads it, and answers with the verdict.

    body (text/html with a query, or JSON; gzip) -> pages -> fingerprint (large ones in a thread) -> reserve -> verdict

Invariants: a page has the verdict that it has when the client makes its fingerprint, key and domain. No page is read that is
longer than the limit, packed or not; of large ones READERS are read at a time, so that memory stays bounded.
"""

import asyncio
import json
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from dedup.core.fingerprint import fingerprint, fingerprint_text
from dedup.model.errors import UsageError
from dedup.model.forms import FIELD_BYTES, check_field
from dedup.model.names import document_key, registrable_domain
from dedup.model.page import PageFingerprint
from dedup.model.policy import Scope
from dedup.service.core.config import Limits
from dedup.service.core.namespaces import PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.core.refusal import Refused, code
from dedup.service.core.turns import in_slices
from dedup.service.http import bodies

PATH = "/v1/judge"
HTML_TYPES = ("text/html", "application/xhtml+xml")
LARGE_BYTES = 1 << 16  # of a page; larger ones are read in a thread
READERS = 2  # threads that read at a time
TEXT_BYTES = 1 << 13  # of a name in the query

_Url = Annotated[
    str, Meta(max_length=FIELD_BYTES["key"], description="The URL that was requested.")
]
_OF_PAGE: list[Any] = [
    ("key", bodies.Key | None, None),
    ("html", Annotated[str, Meta(description="The page.")] | None, None),
    ("text", Annotated[str, Meta(description="Plain text, in place of html.")] | None, None),
    *bodies.OPTIONS,
]
SentPage: Any = bodies.item(
    "SentPage", "A page to be judged; its key is that of its URL.", [("url", _Url), *_OF_PAGE]
)
JudgeRequest: Any = bodies.item(
    "JudgeRequest",
    "A page to be judged, or several in `pages`, of one namespace. The body may also be the page itself, as text/html: "
    "the other fields are then in the query.",
    [
        ("ns", bodies.Namespace),
        ("pages", Annotated[list[SentPage], Meta(max_length=bodies.ITEMS)] | None, None),
        ("url", _Url | None, None),
        *_OF_PAGE,
        ("distance", bodies.Bits | None, None),
        ("similarity", bodies.Share | None, None),
        ("features", bodies.Whole | None, None),
        ("scope", Scope, "global"),
        ("links", bool, False),
        ("fields", bodies.WithFields, False),
    ],
)
_decode = msgspec.json.Decoder(JudgeRequest).decode


class JudgedPage(bodies.Judged, frozen=True, omit_defaults=True):
    """A verdict, with the document key that insert and release are asked with; or an error."""

    key: str | None = None


class JudgeAnswer(JudgedPage, frozen=True, omit_defaults=True):
    """The verdict on a page; of several, the verdicts or errors in their order, in `results`."""

    results: list[JudgedPage] | None = None


class _Sent(NamedTuple):
    """A page that was sent: bytes in `encoding`, or text."""

    url: str
    key: str | None
    data: bytes | str
    is_text: bool
    encoding: str | None
    options: Any


class PageJudge:
    """Judges the pages of requests."""

    def __init__(self, commands: Operations) -> None:
        self._commands = commands
        self._readers = asyncio.Semaphore(READERS)

    async def answer(
        self, headers: Mapping[str, str], query: Mapping[str, str], body: bytes
    ) -> JudgeAnswer:
        """Answer a request. Raises Refused, UsageError, and what Operations.reserve() raises."""
        self._commands.check_ready()
        limits = self._commands.limits
        body = unpacked(body, headers.get("content-encoding", ""), limits)
        kind, _, parameters = headers.get("content-type", "").partition(";")
        if kind.strip().lower() in HTML_TYPES:
            asked, pages = _of_query(query, body, _charset(parameters))
        else:
            asked, pages = _of_json(body)
        results: list[JudgedPage] = []
        async for sent in in_slices(pages, self._commands.turns):
            try:
                results.append(await self._judged(asked, sent, limits))
            except Exception as error:
                if code(error) in {"RECIPE", "DISTANCE"} or len(pages) == 1:
                    raise
                results.append(JudgedPage(error=bodies.fault(error)))
        if asked.pages is not None:
            return JudgeAnswer(results=results)
        return JudgeAnswer(*msgspec.structs.astuple(results[0]))

    async def _judged(self, asked: Any, sent: _Sent, limits: Limits) -> JudgedPage:
        key = sent.key or _key_of(sent.url)
        for name, value in (("key", key), ("kind", sent.options.kind)):
            check_field(name, value)
        if len(sent.data) > limits.page_bytes:
            raise Refused("LIMIT", f"a page has up to {limits.page_bytes:,} bytes (--max-page)")
        read = partial(_read, sent, links=asked.links)
        if len(sent.data) > LARGE_BYTES:
            async with self._readers:
                page = await asyncio.to_thread(read)
        else:
            page = read()
        options = replace(sent.options, domain=registrable_domain(sent.url) or None)
        verdict = self._commands.reserve(
            asked.ns,
            key,
            page,
            PolicyOverrides(asked.distance, asked.similarity, asked.features, asked.scope),
            options,
        )
        found = bodies.judged(asked.ns, verdict, fields=asked.fields)
        return JudgedPage(**msgspec.structs.asdict(found), key=key)


def unpacked(body: bytes, encoding: str, limits: Limits) -> bytes:
    """Return a body without its gzip. Raises Refused for another encoding, or for what is too long."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name not in {"gzip", "x-gzip"}:
        raise Refused("ERR", f"Content-Encoding {encoding[:40]!r} is not read: gzip or none")
    most = limits.judge_bytes
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Refused("ERR", f"the body is no gzip ({error})") from None
    if len(data) > most:
        raise Refused("LIMIT", f"a body has up to {most:,} bytes, unpacked")
    if not unpacker.eof:
        raise Refused("ERR", "the body is cut short: its gzip does not end")
    return data


def _of_query(
    query: Mapping[str, str], body: bytes, charset: str | None
) -> tuple[Any, list[_Sent]]:
    """Return what a query asks for, and the page that is the body."""
    if wrong := set(query) - set(JudgeRequest.__struct_fields__) | {"html", "text", "pages"} & set(
        query
    ):
        raise Refused("ERR", f"the query has no {', '.join(sorted(wrong))[:TEXT_BYTES]}")
    try:
        asked = msgspec.convert(dict(query), JudgeRequest, strict=False)
    except msgspec.ValidationError as error:
        raise Refused("ERR", f"the query: {error}") from None
    if asked.url is None:
        raise Refused("ERR", "the query is ns=NAMESPACE and url=URL")
    return asked, [_Sent(asked.url, asked.key, body, False, charset, bodies.options_of(asked))]


def _of_json(body: bytes) -> tuple[Any, list[_Sent]]:
    try:
        asked = _decode(body)
    except (ValueError, RecursionError) as error:
        asked = _leniently(body, error)
    if asked.pages is None:
        if asked.url is None:
            raise Refused("ERR", "Object missing required field `url`, or `pages`")
        return asked, [_sent(asked)]
    return asked, [_sent(page) for page in asked.pages]


def _leniently(body: bytes, error: Exception) -> Any:
    """Return a request with half of a surrogate pair, as JSON.stringify writes a text that was cut."""
    try:
        return msgspec.convert(json.loads(body), JudgeRequest)
    except (ValueError, RecursionError):
        raise Refused("ERR", str(error)) from None


def _sent(page: Any) -> _Sent:
    if (page.html is None) == (page.text is None):
        raise Refused("ERR", "a page has either html or text")
    is_text = page.html is None
    data = page.text if is_text else page.html
    return _Sent(page.url, page.key, data, is_text, None, bodies.options_of(page))


def _read(sent: _Sent, *, links: bool) -> PageFingerprint:
    if sent.is_text:
        return fingerprint_text(sent.data)
    try:
        return fingerprint(sent.data, encoding=sent.encoding, url=sent.url, links=links)
    except UsageError:  # the header names an unknown encoding: what the page itself declares counts
        return fingerprint(sent.data, url=sent.url, links=links)


def _key_of(url: str) -> str:
    try:
        key = document_key(url)
        key.encode()
    except ValueError as error:
        raise Refused("ERR", f"the URL {url[:200]!r}: {error}") from None
    return key


def _charset(parameters: str) -> str | None:
    for each in parameters.split(";"):
        name, _, value = each.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'") or None
    return None
