"""`POST /v1/judge`: the page itself is sent, the service reads it, and answers with the verdict.

    body (text/html with a query, or JSON; gzip) -> pages -> fingerprint -> reserve -> verdict
         large or packed: as there is room, in a thread       small: in slices

Invariants: a page has the verdict that it has when the client makes its fingerprint, key and domain. No page is read that is
longer than the limit, packed or not. Unpacking, decoding and reading are work: the event loop does a slice of it at a time,
and READERS threads the rest; what is unpacked is held room for before, so that memory stays bounded.
"""

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.datastructures import QueryParams

from dedup.core.fingerprint import fingerprint, fingerprint_text
from dedup.core.packed import gunzipped
from dedup.model.errors import UsageError
from dedup.model.forms import FIELD_BYTES, check_field
from dedup.model.names import document_key, registrable_domain
from dedup.model.page import PageFingerprint, ReserveOptions
from dedup.model.policy import Scope
from dedup.service.core.config import Limits
from dedup.service.core.namespaces import PolicyOverrides
from dedup.service.core.operations import Operations
from dedup.service.core.refusal import Refused, code
from dedup.service.core.turns import in_slices
from dedup.service.http import bodies

PATH = "/v1/judge"
HTML_TYPES = ("text/html", "application/xhtml+xml")
LARGE_BYTES = 1 << 16  # of a request; larger ones are read in a thread
READERS = 2  # threads that read at a time: each may hold a few times what its page has
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


def _request(page: Any) -> Any:
    """Return the type of a request; page is the type of one in `pages`."""
    return bodies.item(
        "JudgeRequest",
        "A page to be judged, or several in `pages`, of one namespace. The body may also be the page itself, as text/html: "
        "the other fields are then in the query.",
        [
            ("ns", bodies.Namespace),
            ("pages", Annotated[list[page], Meta(max_length=bodies.ITEMS)] | None, None),
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


JudgeRequest: Any = _request(SentPage)
_decode_request = msgspec.json.Decoder(_request(msgspec.Raw)).decode
_decode_page = msgspec.json.Decoder(SentPage).decode


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


class _Read(NamedTuple):
    """A page that was read."""

    key: str
    page: PageFingerprint
    options: ReserveOptions


class _HalfPair(Exception):
    """A request with half of a surrogate pair, as JSON.stringify writes a text that was cut."""


Hold = Callable[[int], Awaitable[None]]


class PageJudge:
    """Judges the pages of requests."""

    def __init__(self, commands: Operations, readers: Executor) -> None:
        self._commands = commands
        self._readers = readers

    async def answer(
        self, headers: Mapping[str, str], query: QueryParams, body: bytes, hold: Hold
    ) -> JudgeAnswer:
        """Answer a request; hold() waits until it may take so many bytes more.

        Raises Refused, UsageError, and what Operations.reserve() raises.
        """
        commands = self._commands
        commands.check_ready()
        pages: Sequence[_Sent | _Read | Exception]
        decode = partial(_decoded, headers, query, body, commands.limits)
        packing = headers.get("content-encoding", "").strip().lower()
        is_packed = packing not in {"", "identity"}
        if is_packed or len(body) > LARGE_BYTES:
            # what is unpacked, and its text
            await hold(2 * commands.limits.judge_bytes if is_packed else len(body))
            asked, pages = await self._in_thread(decode)
        else:
            await commands.turns.take()
            try:
                asked, pages = decode(mend=False)
            except _HalfPair:
                asked, pages = await self._in_thread(decode)
        results: list[JudgedPage] = []
        async for each in in_slices(pages, commands.turns):
            try:
                read = _read(each, asked, commands.limits) if isinstance(each, _Sent) else each
                results.append(self._judged(asked, read))
            except Exception as error:
                if code(error) in {"RECIPE", "DISTANCE"} or asked.pages is None:
                    raise
                results.append(JudgedPage(error=bodies.fault(error)))
        if asked.pages is not None:
            return JudgeAnswer(results=results)
        return JudgeAnswer(*msgspec.structs.astuple(results[0]))

    async def _in_thread(
        self, decode: Callable[..., tuple[Any, list[_Sent | Exception]]]
    ) -> tuple[Any, list[_Read | Exception]]:
        """Decode a request and read its pages in a thread."""
        limits = self._commands.limits

        def read() -> tuple[Any, list[_Read | Exception]]:
            asked, pages = decode(mend=True)
            return asked, [_tried(sent, asked, limits) for sent in pages]

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    def _judged(self, asked: Any, read: _Read | Exception) -> JudgedPage:
        if isinstance(read, Exception):
            raise read
        overrides = PolicyOverrides(asked.distance, asked.similarity, asked.features, asked.scope)
        verdict = self._commands.reserve(asked.ns, read.key, read.page, overrides, read.options)
        found = bodies.judged(asked.ns, verdict, fields=asked.fields)
        return JudgedPage(**msgspec.structs.asdict(found), key=read.key)


def unpacked(body: bytes, encoding: str, limits: Limits) -> bytes:
    """Return a body without its gzip. Raises Refused for another encoding, or for what is too long."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name not in {"gzip", "x-gzip"}:
        raise Refused("ERR", f"Content-Encoding {encoding[:40]!r} is not read: gzip or none")
    most = limits.judge_bytes
    try:
        data = gunzipped(body, most + 1)
    except zlib.error as error:
        raise Refused("ERR", f"the body is no gzip, or cut short ({error})") from None
    if len(data) > most:
        raise Refused("LIMIT", f"a body has up to {most:,} bytes, unpacked")
    return data


def _decoded(
    headers: Mapping[str, str], query: QueryParams, body: bytes, limits: Limits, *, mend: bool
) -> tuple[Any, list[_Sent | Exception]]:
    """Return what a request asks for, and its pages. Raises Refused, and _HalfPair unless that is mended."""
    body = unpacked(body, headers.get("content-encoding", ""), limits)
    kind, _, parameters = headers.get("content-type", "").partition(";")
    if kind.strip().lower() in HTML_TYPES:
        return _of_query(query, body, _charset(parameters))
    return _of_json(body, mend=mend)


def _of_query(
    query: QueryParams, body: bytes, charset: str | None
) -> tuple[Any, list[_Sent | Exception]]:
    """Return what a query asks for, and the page that is the body."""
    known = set(JudgeRequest.__struct_fields__) - {"html", "text", "pages"}
    given = once(query)
    if wrong := given.keys() - known:
        names = ", ".join(sorted(wrong))[:TEXT_BYTES]
        raise Refused("ERR", f"the query takes no {names}, but {', '.join(sorted(known))}")
    try:
        asked = msgspec.convert(given, JudgeRequest, strict=False)
    except msgspec.ValidationError as error:
        raise Refused("ERR", f"the query: {error}") from None
    if asked.url is None:
        raise Refused("ERR", "the query is ns=NAMESPACE and url=URL")
    return asked, [_Sent(asked.url, asked.key, body, False, charset, bodies.options_of(asked))]


def once(query: QueryParams) -> dict[str, str]:
    """Return the names of a query and their values. Raises Refused for one that is given twice."""
    found: dict[str, str] = {}
    for name, value in query.multi_items():
        if name in found:
            raise Refused("ERR", f"the query has {name[:TEXT_BYTES]} twice")
        found[name] = value
    return found


def _of_json(body: bytes, *, mend: bool = True) -> tuple[Any, list[_Sent | Exception]]:
    try:
        asked, pages = _decode(body)
    except (ValueError, RecursionError) as error:
        # a ValidationError is of what the JSON says
        is_json = isinstance(error, msgspec.ValidationError)
        if is_json or not _SURROGATE.search(body):
            raise Refused("ERR", str(error)) from None
        if not mend:
            raise _HalfPair from None
        try:
            asked, pages = _decode(_mended(body))
        except (ValueError, RecursionError):
            raise Refused("ERR", str(error)) from None
    if asked.pages is None:
        if asked.url is None:
            raise Refused("ERR", "Object missing required field `url`, or `pages`")
        pages = [_sent(asked)]
    return asked, pages


def _decode(body: bytes | bytearray) -> tuple[Any, list[_Sent | Exception]]:
    """Return a request, and its pages, or what is wrong with one of them. Raises ValueError, RecursionError."""
    asked = _decode_request(body)
    return asked, [_sent_in(raw) for raw in asked.pages or ()]


def _sent_in(raw: msgspec.Raw) -> _Sent | Exception:
    try:
        return _sent(_decode_page(raw))
    except (msgspec.ValidationError, Refused) as error:
        return Refused("ERR", str(error))


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Some of what stands before half of a pair, or that half: a call that takes long would hold up other threads.
_TO_HALF = re.compile(
    rb"((?:[^\\]{1,9999}+|\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB]..\\u[dD][c-fC-F]..)){1,99}+)|\\u....",
    re.DOTALL,
)


def _mended(body: bytes) -> bytearray:
    """Return JSON with the character that stands for none in place of half of a pair."""
    mended = bytearray(body)
    for part in _TO_HALF.finditer(body):
        if part[1] is None:
            mended[part.start() : part.end()] = b"\\ufffd"
    return mended


def _sent(page: Any) -> _Sent:
    if (page.html is None) == (page.text is None):
        raise Refused("ERR", "a page has either html or text")
    is_text = page.html is None
    data = page.text if is_text else page.html
    return _Sent(page.url, page.key, data, is_text, None, bodies.options_of(page))


def _tried(sent: _Sent | Exception, asked: Any, limits: Limits) -> _Read | Exception:
    """Return a page as it was read, or why it cannot be: the others of its request are judged."""
    if isinstance(sent, Exception):
        return sent
    try:
        return _read(sent, asked, limits)
    except Exception as error:  # noqa: BLE001 - becomes the answer, with its code
        return error


def _read(sent: _Sent, asked: Any, limits: Limits) -> _Read:
    """Read a page. Raises Refused and UsageError."""
    key = _key_of(sent.url, sent.key)
    for name, value in (("key", key), ("kind", sent.options.kind)):
        check_field(name, value)
    if len(sent.data) > limits.page_bytes:
        raise Refused("LIMIT", f"a page has up to {limits.page_bytes:,} bytes (--max-page)")
    options = replace(sent.options, domain=registrable_domain(sent.url) or None)
    return _Read(key, _fingerprint(sent, links=asked.links), options)


def _fingerprint(sent: _Sent, *, links: bool) -> PageFingerprint:
    if sent.is_text:
        return fingerprint_text(sent.data)
    try:
        return fingerprint(sent.data, encoding=sent.encoding, url=sent.url, links=links)
    except UsageError:  # the header names an unknown encoding: what the page itself declares counts
        return fingerprint(sent.data, url=sent.url, links=links)


def _key_of(url: str, given: str | None) -> str:
    try:
        parts = urlsplit(url)
        if not (parts.scheme and parts.netloc):
            raise ValueError(
                "it is not the whole URL that was requested, such as http://example.com/1"
            )
        key = given or document_key(url)
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
