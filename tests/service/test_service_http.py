"""The service's HTTP port: what its description says, and whom it refuses."""

import contextlib
import re
import socket
import time

import jsonschema
import pytest
from services import RECIPE, Serving

TOKEN = "a token of sixteen bytes and more"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    limits = {"http_connections": 40, "body_bytes": 3_000_000}
    named = ["--host-name", "dedup.internal"]
    with Serving(tmp_path_factory.mktemp("store"), *named, limits=limits) as service:
        yield service


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A service that soon ends a request that is not whole."""
    limits = {"request_seconds": 2.0, "body_bytes": 3_000_000}
    with Serving(tmp_path_factory.mktemp("hasty"), limits=limits) as service:
        yield service


@pytest.fixture
def ns(request):
    """A namespace for each test."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[-60:]


@pytest.fixture(scope="module")
def description(serving, ask):
    return ask(serving, "GET", "/openapi.json")[2]


@pytest.fixture
def call(serving, description, ask):
    """Return a function that asks, and holds what comes back to the description."""

    def call(method, path, body=None, **headers):
        status, got, answer = ask(serving, method, path, body, JSON | headers)
        operation = description["paths"][path.partition("?")[0]][method.lower()]
        assert str(status) in operation["responses"], (status, answer)
        (kind, content) = next(iter(operation["responses"][str(status)]["content"].items()))
        assert got.get_content_type() == kind
        if kind == "application/json":
            validate(answer, content["schema"], description)
        if status == 200 and method == "POST":
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            validate(body, schema, description)
        return status, answer

    return call


def validate(value, schema, description) -> None:
    """Hold a value to a schema of the description, in which no other fields may be."""
    jsonschema.Draft202012Validator(
        {**schema, "components": _closed(description["components"])}
    ).validate(value)


def _closed(components):
    schemas = {
        name: {**schema, "additionalProperties": False}
        for name, schema in components["schemas"].items()
    }
    return {**components, "schemas": schemas}


def html(n=0):
    return "<p>" + " ".join(f"word{n}x{i}" for i in range(120))


def judge(call, ns, *urls, **more):
    """Judge pages, each with words of its own; return their verdicts."""
    pages = [{"url": url, "html": html(n)} | more for n, url in enumerate(urls)]
    status, answer = call("POST", "/v1/judge", {"ns": ns, "pages": pages})
    assert status == 200, answer
    return answer["results"]


def test_a_page_goes_its_way(call, ns):
    """Judge, insert, release, the document, forget: each answers as described."""
    (verdict,) = judge(call, ns, "http://a.example/1")
    assert verdict["status"] == "unique"
    held = {"key": "http://a.example/1", "token": verdict["token"]}
    status, answer = call("POST", "/v1/insert", {"ns": ns, "items": [held, held]})
    assert (status, answer) == (200, {"results": [{"done": True}, {"done": True}]})
    status, answer = call("POST", "/v1/release", {"ns": ns, "items": [held]})
    assert (status, answer) == (200, {"results": [{"done": False}]})
    status, answer = call("GET", f"/v1/documents?ns={ns}&key=http%3A%2F%2Fa.example%2F1")
    assert status == 200
    assert (answer["recipe"], answer["domain"]) == (RECIPE, "a.example")
    (duplicate,) = judge(call, ns, "http://a.example/2")
    of = {"of": "http://a.example/1", "distance": 0, "similarity": 1.0, "identity": "unknown"}
    assert duplicate == {"status": "near_duplicate", "key": "http://a.example/2"} | of
    forgotten = {"ns": ns, "keys": ["http://a.example/1", "http://a.example/1"]}
    status, answer = call("POST", "/v1/forget", forgotten)
    assert (status, answer) == (200, {"results": [{"done": True}, {"done": False}]})
    status, _ = call("GET", f"/v1/documents?ns={ns}&key=http%3A%2F%2Fa.example%2F1")
    assert status == 404


def test_inserts_of_one_request_are_one_commit_and_errors_their_own(call, ns):
    """Each with its own items; where one of them fails, the others are stored, in their places."""
    judged = judge(call, ns, *(f"http://a/{n}" for n in range(12)))
    tokens = [each["token"] for each in judged]
    items = [
        {"key": f"http://a/{n}", "token": token, "items": f"{n:02x}", "paid": bool(n % 2)}
        for n, token in enumerate(tokens)
    ]
    body = {"ns": ns, "items": [*items[:6], {"key": "http://a/x", "token": "unknown"}]}
    results = call("POST", "/v1/insert", body)[1]["results"]
    assert [each["done"] for each in results] == [True] * 6 + [False]
    assert results[6]["error"]["code"] == "NOTOKEN"
    body = {"ns": ns, "items": items[6:]}
    assert call("POST", "/v1/insert", body)[1]["results"] == [{"done": True}] * 6
    for n in (3, 9, 10):
        found = call("GET", f"/v1/documents?ns={ns}&key=http%3A%2F%2Fa%2F{n}")[1]
        assert (found["items"], found["paid"]) == (f"{n:02x}", bool(n % 2))


def test_options_are_those_of_resp(call, ns):
    """exempt, scope, features and kind change the verdict as stated."""
    (verdict,) = judge(call, ns, "http://a.example/1", exempt="start", kind="item")
    assert (verdict["status"], verdict["reason"]) == ("exempt", "start")
    held = {"key": "http://a.example/1", "token": verdict["token"]}
    call("POST", "/v1/insert", {"ns": ns, "items": [held]})

    def judged(url, **options):
        asked = {"ns": ns, "url": url, "html": html(), "kind": "item"} | options
        found = call("POST", "/v1/judge", asked)[1]
        if "token" in found:
            item = {"key": found["key"], "token": found["token"]}
            call("POST", "/v1/release", {"ns": ns, "items": [item]})
        return found["status"], found.get("reason", "")

    assert judged("http://a.example/2") == ("near_duplicate", "")
    assert judged("http://b.example/2", scope="site") == ("unique", "")
    assert judged("http://a.example/2", kind="list") == ("unique", "")
    assert judged("http://a.example/2", features=1000) == ("near_duplicate", "")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("insert", b"{", 400, "ERR"),
        ("insert", b"[" * 100_000, 400, "ERR"),
        ("insert", {"ns": "d"}, 400, "ERR"),
        ("insert", {"ns": "../x", "items": []}, 400, "ERR"),
        ("insert", {"ns": "d", "items": [], "more": 1}, 400, "ERR"),
        ("judge", {"ns": "d", "url": "http://a/", "html": "x", "distance": 40}, 409, "DISTANCE"),
        ("insert", b"x" * 3_000_001, 413, "LIMIT"),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_errors_are_described_and_name_their_code(call, path, body, status, code):
    """A wrong request has the status that the description gives, a code and a message."""
    got, answer = call("POST", f"/v1/{path}", body)
    assert (got, answer["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "field", "right", "wrong", "named"),
    [
        ("insert", "items", {"key": "k", "token": "t"}, {"error": {"code": "ERR"}}, "`error`"),
        ("insert", "items", {"key": "k", "token": "t"}, {"key": "k", "token": 1}, "$.token"),
        ("release", "items", {"key": "k", "token": "t"}, {"key": "k"}, "`token`"),
        ("forget", "keys", "k", "k" * 8193, "8192"),
        ("forget", "keys", "k", "", "1"),
        ("judge", "pages", {"url": "http://a/", "text": "x"}, {"error": {"code": "ERR"}}, "`error`"),
        ("judge", "pages", {"url": "http://a/", "text": "x"}, {"text": "x"}, "`url`"),
        ("judge", "pages", {"url": "http://a/", "text": "x"}, {"url": "http://a/2"}, "html or text"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("others", [0, 1])
def test_a_wrong_row_has_one_error_in_its_place(
    serving, ask, ns, path, field, right, wrong, named, others
):
    """The other rows are carried out; a request of this row alone is answered like one of several."""
    body = {"ns": ns, field: [right] * others + [wrong]}
    status, _, answer = ask(serving, "POST", f"/v1/{path}", body)
    assert status == 200
    *rest, last = answer["results"]
    assert last["error"]["code"] == "ERR"
    assert named in last["error"]["message"]
    assert len(rest) == others
    assert all(named not in str(each) for each in rest)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json", "/"])
def test_every_other_endpoint_answers_as_described(call, path):
    """Health, metrics, the description itself and the page for people."""
    assert call("GET", path)[0] == 200


def test_every_described_endpoint_is_there_and_no_other(serving, description, ask):
    """What the description names answers, other paths and methods do not."""
    for path, operations in description["paths"].items():
        assert {m for m in ("GET", "POST", "PUT", "DELETE") if ask(serving, m, path)[0] != 405} == {
            method.upper() for method in operations
        }


def test_what_is_not_there_is_told_as_other_errors_are(serving, ask):
    """A path or a method that there is not: JSON with a code, and where to look."""
    for path, status in (("/v1/nothing", 404), ("/v1/judge", 405)):
        got, headers, answer = ask(serving, "GET", path)
        assert (got, headers.get_content_type()) == (status, "application/json")
        assert answer["error"]["code"] == "ERR"
        assert "/openapi.json" in answer["error"]["message"]
        assert headers["Allow"] == ("POST" if status == 405 else None)


def test_a_namespace_that_there_is_not_is_said_to_be_none(call, ns):
    """By its name: it may be a typing error; so is a document of another."""
    judge(call, ns, "http://a/1")
    for name, said in ((f"{ns}x"[-64:], f"namespace '{f'{ns}x'[-64:]}'"), (ns, "document")):
        status, answer = call("GET", f"/v1/documents?ns={name}&key=http%3A%2F%2Fa%2Fnone")
        assert status == 404
        assert f"there is no such {said}" in answer["error"]["message"]


def test_metrics_are_prometheus_and_count(serving, call, ns, ask):
    """The figures parse, histogram included, and follow what was done."""
    judge(call, ns, "http://a/1")
    _, _, text = ask(serving, "GET", "/metrics")
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"\w+(\{[^}]*\})? [-+.e\dInfNa]+", line) for line in lines), lines
    figures = dict(line.rsplit(" ", 1) for line in lines)
    assert float(figures[f'dedup_in_flight{{namespace="{ns}"}}']) == 1
    assert float(figures['dedup_results_total{result="unique"}']) >= 1
    assert float(figures["dedup_ready"]) == 1
    assert 'dedup_command_seconds_bucket{le="+Inf"}' in figures


OTHERS = [
    "evil.example",
    "localhost.evil.example",
    "evil.example:80",
    "",
    "[::1",
    "x.internal",
    "[::1]evil.com",
]
OURS = ["localhost", "LOCALHOST:7780", "127.0.0.1", "[::1]:7780", "10.0.0.7", "dedup.internal:7780"]


@pytest.mark.parametrize("host", [*OURS, *OTHERS])
def test_another_host_is_refused_even_on_loopback(call, host):
    """A web page that has its own name lead to this port gets nothing; addresses, and names of --host-name, are ours."""
    assert call("GET", "/readyz", Host=host)[0] == (200 if host in OURS else 403)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_body_that_is_not_json_is_refused(call, ns, kind):
    """A form of a web page cannot be sent here."""
    body = {"ns": ns, "keys": ["k"]}
    status, answer = call("POST", "/v1/forget", body, **{"Content-Type": kind})
    assert (status, answer["error"]["code"]) == (415, "ERR")


def test_a_token_is_asked_for(tmp_path, ask):
    """With DEDUP_TOKEN, commands and metrics need it; health and the description do not."""
    with Serving(tmp_path, token=TOKEN) as service:
        body = {"ns": "d", "keys": ["k"]}
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Authorization": TOKEN}, 401),
            ({"Authorization": f"bearer {TOKEN}"}, 200),
            ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ):
            assert ask(service, "POST", "/v1/forget", body, JSON | headers)[0] == status
            assert ask(service, "GET", "/metrics", headers=headers)[0] == status
        for path in ("/livez", "/readyz", "/openapi.json", "/"):
            assert ask(service, "GET", path)[0] == 200
    assert TOKEN not in "".join(service.log)


# ------------------------------------------------------------------------------------- hostile


def sent(serving, data: bytes, pieces: int | None = None, pause: float = 0.0) -> bytes:
    """Send bytes, in pieces with pauses or whole, and return what comes until the end."""
    with socket.create_connection(("127.0.0.1", serving.http_port), timeout=120) as plain:
        got = b""
        with contextlib.suppress(ConnectionError):
            step = pieces or len(data)
            for at in range(0, len(data), step):
                plain.sendall(data[at : at + step])
                time.sleep(pause)
            while part := plain.recv(65536):
                got += part
        return got


@pytest.mark.parametrize(
    "garbage",
    [
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/insert HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/insert HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 600_000,
        b"\0" * 1000,
        b"\r\n" * 1000,
    ],
    ids=lambda garbage: repr(garbage[:30]),
)
def test_garbage_ends_its_connection(hasty, garbage):
    """What is not HTTP is refused with a 4xx, or its connection just ends; RESP is told the other port."""
    answer = sent(hasty, garbage)
    assert not answer or re.match(rb"HTTP/1.1 4\d\d |-ERR this is the HTTP port", answer), answer
    assert hasty.get("/livez")[0] == 200


BODY_TO_COME = b"""POST /v1/forget HTTP/1.1\r
Host: localhost\r
Content-Type: application/json\r
Content-Length: 900\r
\r
"""


@pytest.mark.parametrize(
    "head", [b"GET /livez HTTP/1.1\r\nX: ", BODY_TO_COME], ids=["headers", "body"]
)
def test_a_slow_request_ends(hasty, head):
    """Slow loris: a request that is not whole within its time ends the connection."""
    with (
        socket.create_connection(("127.0.0.1", hasty.http_port), timeout=120) as plain,
        pytest.raises(ConnectionError),
    ):
        plain.sendall(head)
        for _ in range(800):  # a whole one would take more than a minute
            plain.sendall(b"[")
            time.sleep(0.1)


def test_a_chunked_body_is_bounded_too(hasty):
    """Without a Content-Length the bytes are counted as they come."""
    head = (
        b"POST /v1/forget HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    answer = sent(hasty, head + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 50)
    assert answer.startswith(b"HTTP/1.1 413 ") or not answer
    assert hasty.get("/livez")[0] == 200
