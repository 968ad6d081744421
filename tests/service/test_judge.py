"""`POST /v1/judge`: the service reads the page, and says what a client with the same page is told."""

import gzip
import http.client
import json
from contextlib import closing, suppress
from itertools import count

import pytest
from commands import ONCE
from hypothesis import given, settings
from hypothesis import strategies as st
from services import Serving
from sizes import examples
from starlette.datastructures import QueryParams

import dedup
from dedup.model.names import registrable_domain
from dedup.service.core.config import USUAL_LIMITS
from dedup.service.core.refusal import Refused
from dedup.service.http.judge import _of_json, _of_query, unpacked

WORDS = " ".join(f"word{i}" for i in range(120))
PAGE = f"<title>A</title><nav>Home</nav><article><p>{WORDS}</article>"
JSON = {"Content-Type": "application/json"}
HTML = {"Content-Type": "text/html; charset=utf-8"}
GZIP = HTML | {"Content-Encoding": "gzip"}
LIMITS = {"page_bytes": 1 << 20, "body_bytes": 1 << 20}
_names = (f"judge{n}" for n in count())


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("store"), limits=LIMITS) as service:
        yield service


@pytest.fixture
def ns():
    return next(_names)


def ask(serving, path, body, headers):
    """Return the status and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", serving.http_port, timeout=120)
    with closing(connection):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def judge(serving, **body):
    return ask(serving, "/v1/judge", body, JSON)


def insert(serving, ns, key, token):
    asked = {"ns": ns, "items": [{"key": key, "token": token}]}
    assert ask(serving, "/v1/insert", asked, JSON) == (200, {"results": [{"done": True}]})


def stored(serving, ns, key):
    """The document of a key."""
    return json.loads(serving.get(f"/v1/documents?ns={ns}&key={key}")[1])


def asked(way, ns, url, kind):
    """Return the path, body and headers of a request that judges PAGE in this way."""
    page = {"url": url, "kind": kind, "html": PAGE}
    path, body, headers = "/v1/judge", {"ns": ns, **page}, JSON
    if way == "several":
        body = {"ns": ns, "pages": [page]}
    elif "HTML" in way:
        path += f"?ns={ns}&kind={kind}&url={url.replace('&', '%26')}"
        body, headers = PAGE.encode(), HTML
    if "gzip" in way:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        body, headers = gzip.compress(data), headers | {"Content-Encoding": "gzip"}
    return path, body, headers


@pytest.mark.parametrize("way", ["HTML", "HTML in gzip", "JSON", "JSON in gzip", "several"])
@pytest.mark.parametrize(
    "url", ["http://a.example/2", "http://b.example/2?b=1&a=2", "http://a.example/1"]
)
@pytest.mark.parametrize("kind", ["", "list"])
def test_every_way_in_gives_the_verdict_of_a_client(serving, ns, way, url, kind):
    """What a client is told that makes fingerprint, key and domain itself is what judge says."""
    for name in (ns, f"{ns}-judged"):
        service = f"redis://127.0.0.1:{serving.port}"
        with dedup.open(service, namespace=name, timeout_seconds=60) as detector:
            original = detector.fingerprint(PAGE, url="http://a.example/1")
            detector.insert(detector.reserve(original, "http://a.example/1"))
            if name == ns:
                page = detector.fingerprint(PAGE, url=url)
                made = detector.reserve(page, dedup.document_key(url), url=url, kind=kind)
    _, answer = ask(serving, *asked(way, f"{ns}-judged", url, kind))
    if way == "several":
        (answer,) = answer["results"]
    for field in ("status", "of", "distance", "similarity"):
        assert answer.get(field) == getattr(made, field)


def test_the_stored_fingerprint_is_that_of_a_client(serving, ns):
    """Every field of it, in another encoding, too."""
    page = f"<meta charset=windows-1252><link rel=canonical href=/c><p>{WORDS} café".encode(
        "cp1252"
    )
    path = f"/v1/judge?ns={ns}&url=http://www.a.example/x"
    _, found = ask(serving, path, page, {"Content-Type": "text/html"})
    insert(serving, ns, "http://www.a.example/x", found["token"])
    held = stored(serving, ns, "http://www.a.example/x")
    made = dedup.fingerprint(page, url="http://www.a.example/x")
    assert (held["value"], held["sketch"]) == (f"{made.value:016x}", made.sketch.hex())
    assert (held["identity"], held["domain"]) == (
        f"{made.identity:016x}",
        registrable_domain("http://www.a.example/x"),
    )


def test_plain_text_and_half_of_a_surrogate_pair(serving, ns):
    """No markup is looked for in text; what JSON.stringify makes of a cut text is read."""
    body = b'{"ns": "%s", "url": "http://a.example/t", "text": "<title> %s \\ud83d"}' % (
        ns.encode(),
        WORDS.encode(),
    )
    status, found = ask(serving, "/v1/judge", body, JSON)
    assert (status, found["status"]) == (200, "unique")
    insert(serving, ns, "http://a.example/t", found["token"])
    made = dedup.fingerprint_text(f"<title> {WORDS} \ud83d")
    assert stored(serving, ns, "http://a.example/t")["value"] == f"{made.value:016x}"


def test_of_several_each_has_its_answer(serving, ns):
    """In their order; one that is wrong has its error, and the others their verdicts."""
    pages = [
        {"url": "http://a.example/1", "html": PAGE, "exempt": "start"},
        {"url": "http://a.example/2", "html": "x" * ((1 << 19) + 1)},
        {"url": "http://[", "html": PAGE},
        {"url": "http://a.example/1", "html": PAGE},
    ]
    status, found = judge(serving, ns=ns, pages=pages)
    assert status == 200
    assert [each.get("status") for each in found["results"]] == [
        "exempt",
        "exempt",
        None,
        "refetch",
    ]
    assert "http://[" in found["results"][2]["error"]["message"]


@pytest.mark.parametrize("url", ["", "/x", "abc", "//a.example/x", "http:", "http:///x"])
def test_a_url_is_whole(serving, ns, url):
    """What is relative would be one document for all sites."""
    status, found = judge(serving, ns=ns, url=url, html=PAGE)
    assert status == 400
    assert f"the URL {url!r}: it is not the whole URL" in found["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "named"),
    [
        ("?ns=a&url=http://a/&ns=b", b"<p>", HTML, 400, "has ns twice"),
        ("?ns=a&url=http://a/", gzip.compress(b"<p>", mtime=0) + b"<p>", GZIP, 400, "no gzip"),
        ("", b"{", JSON, 400, "truncated"),
        ("", {"ns": "a"}, JSON, 400, "url"),
        ("", {"ns": "a", "url": "http://a/", "html": "x", "text": "y"}, JSON, 400, "html or text"),
        ("", {"ns": "a", "url": "http://a/", "html": "x", "size": 1}, JSON, 400, "size"),
        ("", {"ns": "a/b", "url": "http://a/", "html": "x"}, JSON, 400, "ns"),
        ("", {"ns": "a", "url": "http://[", "html": "x"}, JSON, 400, "http://["),
        ("?ns=a", b"<p>", HTML, 400, "url=URL"),
        ("?ns=a&url=http://a/&size=1", b"<p>", HTML, 400, "size"),
        ("?ns=a&url=http://a/", b"<p>", {"Content-Type": "text/plain"}, 415, "text/html"),
        ("?ns=a&url=http://a/", b"<p>", HTML | {"Content-Encoding": "br"}, 400, "br"),
        ("?ns=a&url=http://a/", b"<p>", GZIP, 400, "no gzip"),
        ("?ns=a&url=http://a/", gzip.compress(b"<p>", mtime=0)[:-9], GZIP, 400, "cut short"),
        ("?ns=a&url=http://a/", gzip.compress(bytes(1 << 24), mtime=0), GZIP, 413, "unpacked"),
        ("?ns=a&url=http://a/", bytes((1 << 20) + 1), HTML, 413, "bytes"),
    ],
)
def test_bad_requests_are_named(serving, path, body, headers, status, named):
    """What is wrong, and nothing of it is read further."""
    got, answer = ask(serving, f"/v1/judge{path}", body, headers)
    assert (got, named in answer["error"]["message"]) == (status, True), answer


def test_another_recipe_is_refused(serving, ns):
    """A namespace whose fingerprints have a secret is judged by its clients only."""
    service = f"redis://127.0.0.1:{serving.port}"
    with dedup.open(service, namespace=ns, secret="hush", timeout_seconds=60) as detector:
        detector.insert(detector.reserve(detector.fingerprint(PAGE), "http://a.example/1"))
    status, answer = judge(serving, ns=ns, url="http://a.example/2", html=PAGE)
    assert (status, answer["error"]["code"]) == (409, "RECIPE")


def test_a_redis_client_ends_what_was_judged(serving, ns):
    """Insert and release take the token on either port."""
    _, found = judge(serving, ns=ns, url="http://a.example/1", html=PAGE)
    with serving.client(decode_responses=True, **ONCE) as client:
        assert (
            client.execute_command("DEDUP.INSERT", ns, "http://a.example/1", found["token"]) == "OK"
        )


@given(st.binary(max_size=200) | st.builds(gzip.compress, st.binary(max_size=200)))
@settings(max_examples=examples(200))
def test_any_bytes_end_in_pages_or_in_an_error(body):
    """As a gzip, as JSON and as a query nothing but Refused is raised."""
    for read in (
        lambda: unpacked(body, "gzip", USUAL_LIMITS),
        lambda: _of_json(body),
        lambda: _of_query(QueryParams([("ns", "a"), ("url", body.decode("latin-1"))]), body, None),
    ):
        with suppress(Refused):
            read()


def test_the_limit_of_a_page_is_an_option(tmp_path):
    """`--max-page` bounds one page, packed or not."""
    with Serving(tmp_path / "store", "--max-page", "2K") as service:
        path = "/v1/judge?ns=a&url=http://a.example/1"
        assert ask(service, path, b"x" * 2048, HTML)[0] == 200
        status, answer = ask(service, path, b"x" * 2049, HTML)
        assert (status, "--max-page" in answer["error"]["message"]) == (413, True)
