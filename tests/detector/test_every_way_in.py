"""Embedded store, service client, raw RESP and HTTP give the same answers, for every field and option.

Built from the table of fields (dedup.model.forms): a new field is tested without a change here; a new
option needs a value in OPTION_VALUES.
"""

from __future__ import annotations

import json
import time
from itertools import count
from typing import Any

import msgspec
import pytest
import redis
from detecting import RECIPE, A, B, C, page, saying
from msgspec.structs import replace
from sketches import differing

import dedup
from dedup.model.events import decode_value
from dedup.model.forms import FIELDS, Field, encode_page
from dedup.model.page import Document, PageFingerprint, ReserveOptions
from dedup.model.recipes import NEVER
from dedup.store.transfer import decode_line

_names = (f"every{number}" for number in count())

TOKEN = "0123456789abcdef-{}"

# A value of each option, other than its default.
OPTION_VALUES: dict[str, Any] = {
    "url": "http://elsewhere.example/",
    "domain": "elsewhere.example",
    "exempt": "start",
    "guard": False,
    "kind": "list",
    "token": TOKEN.format("a"),
    "seconds": 0.05,
}


def sample(field: Field) -> Any:
    """A value that a field may have, other than its default."""
    form = field.form
    if form.codec == "word":
        return 2**form.most - 7
    if form.codec == "bytes":
        return bytes(range(form.most % 256 or 256))
    values = {"number": 300, "text": "tête", "flag": not field.default, "seconds": 0.0}
    return values[form.codec]


def full_page(**fields: Any) -> PageFingerprint:
    """A page with a value in each field."""
    values = {field.name: sample(field) for field in FIELDS if field.of_page}
    return PageFingerprint(**(values | {"recipe": RECIPE} | fields))


def given_at_insert() -> dict[str, Any]:
    return {f.name: sample(f) for f in FIELDS if f.name in {"paid", "items"}}


def timeless(document: Document) -> Document:
    return replace(document, inserted_seconds=0.0)


class Way:
    """A way to the same store; answers are (status, reason, of, distance, similarity, identity, match)."""

    def __init__(self) -> None:
        self.tokens: dict[str, str | None] = {}

    reserve: Any
    insert: Any

    def accept(self, fingerprint: PageFingerprint, key: str, given: dict[str, Any], **options: Any):
        self.reserve(fingerprint, key, **options)
        self.insert(key, given)

    def close(self) -> None:
        """Let go of what it holds."""


def rounded(similarity: float | None) -> float | None:
    return None if similarity is None else round(similarity, 4)


class Library(Way):
    """dedup.open(), of a folder or a service."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        options = {"timeout_seconds": 30} if isinstance(target, str) else {}
        self.detector = dedup.open(target, namespace=next(_names), **options)
        self.verdicts: dict[str, Any] = {}

    def reserve(self, fingerprint, key, **options):
        verdict = self.detector.reserve(fingerprint, key, **options)
        self.verdicts[key], self.tokens[key] = verdict, verdict.token
        match = None if verdict.match is None else timeless(verdict.match.document)
        near = (verdict.of, verdict.distance, rounded(verdict.similarity), verdict.identity)
        return (verdict.status, verdict.reason, *near, match)

    def insert(self, key, given):
        self.detector.insert(self.verdicts[key].brought(**given))

    def probe(self, fingerprint, domain):
        found = self.detector.probe(fingerprint, domain=domain)
        return [
            (n.key, n.distance, rounded(n.similarity), n.identity, timeless(n.document))
            for n in found
        ]

    def close(self):
        self.detector.close()


def document_of(event: bytes) -> Document:
    return timeless(decode_value(event)[1])


class Resp(Way):
    """Words of RESP, by docs/reference/protocol.md."""

    def __init__(self, service: Any) -> None:
        super().__init__()
        self.client = service.client(socket_timeout=60)
        self.namespace = next(_names)

    def reserve(self, fingerprint, key, **options):
        domain = options.pop("domain", None)
        if "url" in options:
            domain = domain or dedup.model.names.registrable_domain(options.pop("url"))
        asked = Document("", fingerprint, domain or "", kind=options.pop("kind", ""))
        words: list[Any] = [encode_page(asked), "FIELDS", "on"]
        for name, value in options.items():
            words += [
                name.upper(),
                {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value,
            ]
        reply = self.client.execute_command("DEDUP.RESERVE", self.namespace, key, *words)
        status, token, of, distance, similarity, reason, identity, match = reply
        self.tokens[key] = token and token.decode()
        return (
            status.decode(),
            (reason or b"").decode(),
            of and of.decode(),
            distance,
            None if similarity is None else float(similarity),
            identity and identity.decode(),
            None if match is None else document_of(match),
        )

    def insert(self, key, given):
        words: list[Any] = []
        for name, value in given.items():
            words += [name.upper(), value.hex() if isinstance(value, bytes) else int(value)]
        self.client.execute_command("DEDUP.INSERT", self.namespace, key, self.tokens[key], *words)

    def probe(self, fingerprint, domain):
        asked = encode_page(Document("", fingerprint, domain or ""))
        reply = self.client.execute_command("DEDUP.PROBE", self.namespace, asked, "FIELDS", "on")
        return [
            (
                key.decode(),
                distance,
                float(similarity),
                identity.decode(),
                document_of(document),
            )
            for key, distance, similarity, identity, document in reply
        ]

    def close(self):
        self.client.close()


@pytest.fixture
def ways(tmp_path, service):
    """The embedded store, which is the oracle, and every other way."""
    found = [
        Library(tmp_path),
        Library(f"redis://127.0.0.1:{service.port}"),
        Resp(service),
    ]
    yield found
    for way in found:
        way.close()


def same(answers: list[Any]) -> Any:
    """Assert that all ways gave the answer of the embedded store; return it."""
    for answer in answers[1:]:
        assert answer == answers[0]
    return answers[0]


def test_every_field_of_a_stored_page_is_in_every_answer(ways):
    """Whatever was stored comes back with a near-duplicate's verdict and with a probe."""
    given = given_at_insert()
    stored = Document(A, full_page(), "example.com", kind="item", **given)
    for way in ways:
        way.accept(stored.page, A, given, kind="item", domain="example.com")
    copy = same([way.reserve(stored.page, B, kind="item", domain="example.com") for way in ways])
    assert copy[0] in {"near_duplicate", "exempt"}
    assert copy[-1] == stored
    ((key, distance, similarity, _, found),) = same(
        [way.probe(stored.page, "example.com") for way in ways]
    )
    assert (key, distance, similarity, found) == (A, 0, 1.0, stored)


def test_every_field_of_a_page_in_flight_is_in_the_answer(ways):
    """The match of a pending page is the page that was reserved."""
    for way in ways:
        way.reserve(full_page(), A, kind="item", domain="example.com")
    answer = same([way.reserve(full_page(), B, kind="item", domain="example.com") for way in ways])
    assert answer[0] == "pending"
    assert answer[-1] == Document(A, full_page(), "example.com", kind="item")


def test_a_stored_page_is_read_with_every_field(ways, service):
    """GET /v1/documents and /v1/export have each field of the document."""
    resp = ways[-1]
    given = given_at_insert()
    stored = Document(A, full_page(), "example.com", kind="item", **given)
    resp.accept(stored.page, A, given, kind="item", domain="example.com")
    answer = service.get(f"/v1/documents?ns={resp.namespace}&key={A}")[1]
    assert json.loads(answer).keys() == {"v", "ns", *(field.event for field in FIELDS)}
    assert document_of(answer) == stored
    namespace, exported = decode_line(service.get(f"/v1/export?ns={resp.namespace}")[1].strip())
    assert (namespace, timeless(exported)) == (resp.namespace, stored)


@pytest.mark.parametrize("name", [field.name for field in msgspec.structs.fields(ReserveOptions)])
def test_every_option_of_reserve_does_the_same(ways, name):
    """With a stored page, one in flight and each option, every way gives the verdict of the library."""
    stored, other, third = page(), page(2**60 - 1, 2**37 - 1), page(2**63 + 5, 2**30 - 1)
    titled = replace(stored, identity=7 << 32)
    option = {name: OPTION_VALUES[name]}
    for way in ways:
        way.accept(replace(stored, identity=8 << 32), A, {}, kind="item")
        way.reserve(other, B, **({"seconds": option["seconds"]} if name == "seconds" else {}))
        if name == "seconds":
            time.sleep(0.1)  # then it has expired
    steps = [(titled, C, "item"), (other, C + "1", ""), (third, A, ""), (stored, C + "2", "")]
    verdicts = []
    for number, (fingerprint, key, kind) in enumerate(steps):
        given = {"kind": kind} | option
        if name == "token":
            given["token"] = TOKEN.format(number)
        verdicts.append(same([way.reserve(fingerprint, key, **given) for way in ways]))
        same([way.tokens[key] is None for way in ways])
        if name == "token" and ways[0].tokens[key] is not None:
            assert same([way.tokens[key] for way in ways]) == given["token"]
    if name == "exempt":
        assert [verdict[1] for verdict in verdicts] == ["start"] * 4


ALIKE = page(differing=differing(0.9))
TITLED = page(differing=differing(0.82), identity=saying(8))  # the stored page's title


@pytest.mark.parametrize(
    ("asked", "learned", "words", "expected"),
    [
        (page(), {}, {}, ("near_duplicate", "", A)),
        (page(), {"unread": True}, {"exempt": "unread"}, ("near_duplicate", "", A)),
        (ALIKE, {}, {}, ("near_duplicate", "", A)),
        (ALIKE, {"unread": True}, {"exempt": "unread"}, ("exempt", "unread", None)),
        (ALIKE, {"least": 0.89}, {"least": 0.89}, ("near_duplicate", "", A)),
        (ALIKE, {"least": 0.92}, {"least": 0.92}, ("unique", "", None)),
        (
            page(),
            {"unread": True, "least": NEVER},
            {"exempt": "unread", "least": NEVER},
            ("exempt", "unread", None),
        ),
        (
            TITLED,
            {"unread": True, "least": 0.8},
            {"exempt": "unread", "least": 0.8},
            ("near_duplicate", "", A),
        ),
        (
            TITLED,
            {"unread": True, "least": 0.9},
            {"exempt": "unread", "least": 0.9},
            ("exempt", "unread", None),
        ),
        (page(identity=saying(7)), {}, {}, ("near_duplicate", "", A)),
        (
            page(identity=saying(7)),
            {"partly": True},
            {"exempt": "partly"},
            ("exempt", "other_title", A),
        ),
    ],
)
def test_what_was_learned_of_a_site_counts_by_every_way(ways, asked, learned, words, expected):
    """It is in the page for the library; over RESP the client says it."""
    told = [{"fingerprint": replace(asked, **learned)}] * 2 + [{"fingerprint": asked} | words]
    for way in ways:
        way.accept(page(identity=saying(8)), A, {}, domain="example.com")
    answers = [
        way.reserve(key=B, **({"domain": "example.com"} | given))
        for way, given in zip(ways, told, strict=True)
    ]
    assert same(answers)[:3] == expected


def test_wrong_options_of_an_insert_leave_the_reservation(service):
    """A wrong option is refused, and the page can be inserted after it."""
    resp = Resp(service)
    resp.reserve(page(), A)
    for words in (["PAID", "0", "PAID", "1"], ["PAID", "2"], ["PAID"], ["MORE", "1"]):
        with pytest.raises(redis.ResponseError):
            resp.client.execute_command("DEDUP.INSERT", resp.namespace, A, resp.tokens[A], *words)
    resp.insert(A, {"paid": False})
