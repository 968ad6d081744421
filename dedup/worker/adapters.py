"""The worker's options, and the adapters that parse the value of a record into a page.

    bytes -> JSON object -> the fields a format names -> RecordPage(key, url, content, ...)

Formats: scrapy-cluster's firehose, Nutch's indexer-kafka (every value an array of strings), and plain
JSON whose fields can be named.

Invariants: any bytes end in a RecordPage or in EventInvalid, in time and memory linear in their number. Nothing
here does I/O, and the bytes themselves are never changed. An invalid option is a UsageError that names the option, the
value and what is allowed, before anything connects.
"""

import base64
import binascii
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from dedup.model.addresses import HostPort
from dedup.model.errors import EventInvalid, UsageError
from dedup.model.json_records import UNSET, record_reader
from dedup.model.names import document_key
from dedup.model.policy import Options
from dedup.wire.kafka import KafkaConfig
from dedup.wire.kafka.login import check_topic

BodyEncoding = Literal["text", "base64"]

URL_BYTES = 1 << 16  # longer URLs name no page
FAILED_DUMP = b"json failed to parse"  # scrapy-cluster, in place of a page that it could not write
HTML_TYPES = ("text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml")


class Format(msgspec.Struct, frozen=True):
    """Which field of a JSON object holds what; None where the format has no such field.

    url            the URL that was requested: the document key comes from it
    final_url      the URL that answered, after redirects; without it, url
    body           the page as HTML; as text, or in base64
    text           its plain text, where there is no HTML
    body_encoding  how body is written
    encoding       the label of the encoding of a body in base64
    status         the HTTP status; other pages than 200 are not judged
    headers        the response headers, {name: value or [value, ...]}; what is not HTML is not judged
    """

    url: str = "url"
    final_url: str | None = None
    body: str | None = None
    text: str | None = None
    body_encoding: BodyEncoding = "text"
    encoding: str | None = None
    status: str | None = None
    headers: str | None = None


FORMATS = {
    "json": Format(body="html"),
    "nutch": Format(text="content"),
    "scrapy-cluster": Format(
        final_url="response_url",
        body="body",
        encoding="encoding",
        status="status_code",
        headers="response_headers",
    ),
}


class RecordPage(msgspec.Struct, frozen=True):
    """A page as a record carries it.

    key       the document key
    url       where the answer came from; a canonical URL is relative to it, and it gives the domain
    content   HTML, or plain text where is_text; bytes are in `encoding`, or as the page declares
    encoding  the label that came with bytes, or None
    exempt    the reason for which the page is not judged, or None
    """

    key: str
    url: str
    content: bytes | str
    is_text: bool = False
    encoding: str | None = None
    exempt: str | None = None


def format_of(
    name: str,
    *,
    url: str | None = None,
    body: str | None = None,
    text: str | None = None,
    body_encoding: str | None = None,
) -> Format:
    """Return a known format with some of its fields named otherwise.

    A body field given for a format of texts takes the place of its text field, and the other way
    round. Raises UsageError for an unknown name or body_encoding, an empty or a repeated field name.
    """
    if name not in FORMATS:
        raise UsageError(f"format {name!r} is not known; known are {', '.join(FORMATS)}")
    if body_encoding is not None and body_encoding not in get_args(BodyEncoding):
        raise UsageError(f"body encoding {body_encoding!r} is not allowed: text or base64")
    if body is not None and text is not None:
        raise UsageError(
            "a body field and a text field were given; a page is read from one of them"
        )
    given = {"url": url, "body": body, "text": text, "body_encoding": body_encoding}
    changes: dict[str, Any] = {field: name for field, name in given.items() if name is not None}
    for field, other in (("body", "text"), ("text", "body")):
        if given[field] is not None:
            changes[other] = None
    made = msgspec.structs.replace(FORMATS[name], **changes)
    _check(made)
    return made


def _check(form: Format) -> None:
    fields = [*_fields(form).values()]
    if "" in fields:
        raise UsageError("the name of a field is empty; give the name it has in the JSON object")
    if len(set(fields)) < len(fields):
        twice = next(field for field in fields if fields.count(field) > 1)
        raise UsageError(
            f"the field {twice!r} was named twice; give each part of a page its own field"
        )
    if form.body is None and form.body_encoding == "base64":
        raise UsageError(
            "body encoding base64 was given for a format without a body; name the body"
        )


def adapter(form: Format, *, max_bytes: int = 16 << 20) -> Callable[[bytes | None], RecordPage]:
    """Return the function that reads the values of a format.

    A page greater than max_bytes is exempt as too_large. The function raises EventInvalid for what
    is not a page: no value, a failed dump, other JSON than an object, fields missing or of other types.
    """
    decode = record_reader(_fields(form))

    def read(value: bytes | None) -> RecordPage:
        return _page(_object(value, decode), form, max_bytes)

    return read


def _fields(form: Format) -> dict[str, str]:
    """Return the field name of each thing a format has."""
    names = ("url", "final_url", "body", "text", "encoding", "status", "headers")
    return {name: field for name in names if (field := getattr(form, name)) is not None}


def _object(value: bytes | None, decode: Callable[[bytes], Any]) -> Any:
    """Return the named fields of a value as attributes."""
    if value is None:
        raise EventInvalid("the record has no value")
    try:
        return decode(value)
    except ValueError as error:
        if value.strip() == FAILED_DUMP:
            raise EventInvalid("the crawler could not write this page: a failed dump") from None
        raise EventInvalid(f"the value is {error}") from None


def _page(found: Any, form: Format, max_bytes: int) -> RecordPage:
    url = _text(found.url, form.url)
    if not url:
        raise EventInvalid(f"the field {form.url!r} is empty; a page needs its URL")
    key = _key(url, form.url)
    final = found.final_url if form.final_url is not None else None
    if isinstance(final, str) and 0 < len(final) <= URL_BYTES:
        url = final
    exempt = _exempt(form, found)
    if form.text is not None:
        content: bytes | str = _text(found.text, form.text)
    else:
        assert form.body is not None
        content = _text(found.body, form.body)
        if form.body_encoding == "base64":
            if len(content) > max_bytes // 3 * 4 + 4 and exempt is None:
                exempt = "too_large"
            content = b"" if exempt else _decoded(content, form.body)
    if exempt is None and len(content) > max_bytes:
        exempt = "too_large"
    encoding = found.encoding if form.encoding is not None else None
    if isinstance(content, str) or not isinstance(encoding, str):
        encoding = None
    if exempt is not None:
        content = b""
    return RecordPage(key, url, content, form.text is not None, encoding, exempt)


def _text(value: Any, field: str) -> str:
    """Return a text, or the first of an array of texts; null and an empty array are an empty one."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if value is UNSET:
        raise EventInvalid(f"the field {field!r} is missing; name the one that holds it")
    raise EventInvalid(f"the field {field!r} holds {type(value).__name__}, not a text")


def _key(url: str, field: str) -> str:
    if len(url) > URL_BYTES:
        raise EventInvalid(f"the field {field!r} is longer than {URL_BYTES} characters; no URL is")
    try:
        key = document_key(url)
        key.encode()
    except ValueError as error:  # lone surrogates, unbalanced brackets, and the like
        raise EventInvalid(f"the field {field!r} holds no URL: {str(error)[:200]}") from None
    return key


def _decoded(text: str, field: str) -> bytes:
    try:
        data = text.encode("ascii")
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            return base64.b64decode(b"".join(data.split()), validate=True)  # lines of 76
    except ValueError:
        raise EventInvalid(
            f"the field {field!r} is not base64; is its body encoding text?"
        ) from None


def _exempt(form: Format, found: Any) -> str | None:
    """Return why a page is not judged by its status or content type, as far as they are known."""
    if form.status is not None and isinstance(found.status, int) and found.status != 200:
        return "status"
    if form.headers is not None and isinstance(found.headers, dict):
        for name, value in found.headers.items():
            if isinstance(name, str) and name.lower() == "content-type":
                first = value[0] if isinstance(value, list) and value else value
                if isinstance(first, str) and not _is_html(first):
                    return "non_html"
    return None


def _is_html(content_type: str) -> bool:
    name = content_type.partition(";")[0].strip().lower()
    return not name or name in HTML_TYPES


class Topics(msgspec.Struct, frozen=True):
    """The names of the four topics."""

    input: str
    unique: str
    duplicates: str
    dead: str


class WorkerConfig(msgspec.Struct, frozen=True):
    """A worker's options.

    kafka                where the brokers are; its topic is the input
    instance             name of a static group member, or None
    path, service        the folder of an embedded store, or table services: for each shard its URLs (commas)
    detector             its namespace, distances, scope and secret
    identity             keep pages that are another page of their site by title or canonical URL
    wait_seconds         how long a page waits for a near-duplicate that another worker holds
    stop_seconds         how long the current batch may take once the worker is told to stop
    stall_seconds        a reader that gets no records for this long, while there are some, is replaced
    max_bytes            greater pages are not judged
    batch_records, batch_bytes   what is read at a time, at most
    until_end            stop when what the topic held at the start is done
    metrics              where to serve /metrics, or None
    """

    kafka: KafkaConfig
    topics: Topics
    format: Format
    group: str
    instance: str | None = None
    path: Path | None = None
    service: tuple[str, ...] = ()
    detector: Options = Options()
    identity: bool = False
    wait_seconds: float = 1.0
    stop_seconds: float = 20.0
    stall_seconds: float = 60.0
    session_seconds: float = 10.0
    max_bytes: int = 16 << 20
    batch_records: int = 500
    batch_bytes: int = 16 << 20
    until_end: bool = False
    metrics: HostPort | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if not self.group:
            raise UsageError("--group is empty; give the name that the workers of a crawl share")
        if (self.path is None) == (not self.service):
            raise UsageError(
                "give either --path FOLDER (a store of this worker's own) or --service URL (the "
                "table service that several workers share)"
            )


def topics_of(input: str, unique: str | None = None, duplicates: str | None = None) -> Topics:
    """Return the topics; outputs that are not named take the input's name with an ending.

    Raises UsageError for a name that Kafka does not take, and where one topic would be two.
    """
    made = Topics(
        input,
        unique or f"{input}.unique",
        duplicates or f"{input}.duplicates",
        f"{input}.dlq",
    )
    names = msgspec.structs.asdict(made)
    for name in names.values():
        check_topic(name)
    if len(set(names.values())) < len(names):
        raise UsageError(
            f"input, unique, duplicates and dead letters must be four topics, not {names}"
        )
    return made
