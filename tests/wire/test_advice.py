"""What a client is told to do where its URL, its token or its release is not right: by real services."""

from __future__ import annotations

import pytest
from certificates import Authority
from commands import ONCE
from detecting import A, page
from services import Serving

import dedup
from dedup.model.errors import DedupError
from dedup.model.forms import encode_page
from dedup.model.page import Document
from dedup.model.recipes import NEWEST

READER, CRAWLER = "reader-of-sixteen-and-more", "crawler-of-sixteen-and-more"
NEVER = "redis://127.0.0.1:1"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The addresses of a service with tokens, of one with TLS, of one that asks for certificates, and of one without."""
    folder = tmp_path_factory.mktemp("advice")
    authority = Authority(folder)
    cert, key = authority.sign("service")
    tokens = folder / "tokens"
    tokens.write_text(f"read {READER}\ncrawl {CRAWLER}\n")
    tokens.chmod(0o600)
    tls = ("--tls-cert", cert, "--tls-key", key)
    with (
        Serving(folder / "asks", "--tokens", tokens) as asks,
        Serving(folder / "tls", *tls) as secure,
        Serving(folder / "certs", *tls, "--tls-client-ca", authority.file) as certs,
        Serving(folder / "open") as plain,
    ):
        yield {
            "asks": f"127.0.0.1:{asks.port}",
            "http": f"127.0.0.1:{asks.http_port}",
            "tls": f"127.0.0.1:{secure.port}",
            "https": f"127.0.0.1:{secure.http_port}",
            "certs": f"127.0.0.1:{certs.port}",
            "plain": f"127.0.0.1:{plain.port}",
            "ca": f"?ssl_ca_certs={authority.file}",
            "client": plain.client(decode_responses=True, **ONCE),
        }


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("redis://{asks}", "give the right one in the URL: redis://:TOKEN@host:port"),
        ("redis://:wrong@{asks}", "give the right one in the URL: redis://:TOKEN@host:port"),
        (f"redis://:{READER}@{{asks}}", "needs a token of the role crawl; this one's is read"),
        (f"redis://:{CRAWLER}@{{plain}}", "leave AUTH out, and the token out of the URL"),
        ("redis://{http}", "this is the HTTP port"),
        ("rediss://{https}{ca}", "this is the HTTP port"),
        ("rediss://{asks}{ca}", "the URL of a service without TLS begins with redis://"),
        ("redis://{tls}", "the URL of a service with TLS begins with rediss://"),
        ("rediss://{tls}", "name its authority in the URL: ?ssl_ca_certs=FILE"),
        (
            "rediss://{certs}{ca}",
            "show a certificate if it asks for one: ?ssl_certfile=FILE&ssl_keyfile=FILE",
        ),
        (NEVER, "see that `dedup serve` runs there"),
        ("unix:///no/such.sock", "see that `dedup serve` runs there"),
    ],
)
def test_a_client_is_told_what_to_do(places, url, advice):
    """The advice is of this mistake, and of no other one."""
    with (
        pytest.raises(DedupError) as told,
        dedup.open(url.format(**places), timeout_seconds=10) as detector,
    ):
        detector.reserve(page(), A)
    assert advice in str(told.value)
    assert ("dedup serve" in str(told.value)) == ("dedup serve" in advice)


@pytest.mark.parametrize("is_there", [False, True])
def test_an_old_client_is_told_to_upgrade(places, is_there):
    """In a namespace that is there, and in one that is not: another namespace would fail as well."""
    client = places["client"]
    if is_there:
        client.execute_command("DEDUP.RESERVE", "old", A, encode_page(Document(A, page())))
    old = encode_page(Document(A, page())).replace(NEWEST.encode(), b"words-0-5")
    with pytest.raises(Exception, match="upgrade the older of client and service"):
        client.execute_command("DEDUP.RESERVE", "old" if is_there else "none", A, old)


def test_a_namespace_with_a_typo_is_said_to_be_missing(places):
    """Not only to be empty."""
    client = places["client"]
    assert "missing:there is no namespace 'shopp'" in client.execute_command("DEDUP.INFO", "shopp")
