"""The service client where the service fails it: bounds, trials, the next URL, late answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from detecting import ONES, A, B, C, InLoop, page
from hypothesis import given
from hypothesis import strategies as st
from network import Proxy
from services import Serving

import dedup
from dedup.model.errors import RecipeMismatch, ServiceUnavailable, UsageError
from dedup.model.page import Document, Verdict
from dedup.wire.client.command_codec import error_of, verdict_of
from dedup.wire.client.services import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    Address,
    Endpoint,
    addresses_of,
)

NEVER = "redis://127.0.0.1:1"  # nobody listens there
TOKEN = "a token that nobody else has"


def url(service: Serving | Proxy) -> str:
    return f"redis://127.0.0.1:{service.port}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory):
    with Serving(tmp_path_factory.mktemp("service")) as serving:
        yield serving


def answers(call: Callable[[], Any]) -> Any:
    """Repeat a call until a service answers it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except ServiceUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# ------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("text", "host", "port", "token", "tls"),
    [
        ("redis://a", "a", 7700, None, False),
        ("redis://a:1/0", "a", 1, None, False),
        ("redis://:x%40y@[::1]:2", "::1", 2, "x@y", False),
        ("rediss://default:x@a/", "a", 7700, "x", True),
    ],
)
def test_addresses(text, host, port, token, tls):
    """A URL gives host, port, token and whether there is TLS."""
    (address,) = addresses_of(text)
    assert (address.host, address.port, address.token, address.tls) == (host, port, token, tls)


def test_an_address_shows_no_token():
    """Neither its text nor its repr has the token."""
    (address,) = addresses_of("redis://:secret-token@a:1")
    assert "secret" not in f"{address} {address!r}"
    assert str(address) == "redis://a:1"


def test_unix_sockets_and_certificates_are_spelled_as_redis_py_spells_them():
    """unix:// and redis+unix:// name a path; ssl_certfile and ssl_keyfile what the client shows."""
    for url in ("unix://:a%40b@/run/s", "redis+unix:///run/s?password=a%40b"):
        (address,) = addresses_of(url)
        assert (address.path, address.token, str(address)) == ("/run/s", "a@b", "unix:///run/s")
    (address,) = addresses_of("rediss://a?ssl_certfile=c&ssl_keyfile=k&ssl_ca_certs=a")
    assert (address.cert_file, address.key_file, address.ca_file) == ("c", "k", "a")


WRONG_URLS = """unix://host/run/s unix:// unix:///run/s?ssl_certfile=c redis://a?ssl_certfile=c
redis://a?password=secret rediss://a?ssl_keyfile=k rediss://a?password=secret"""


@pytest.mark.parametrize("url", WRONG_URLS.split())
def test_what_a_url_may_not_say_is_refused_without_its_secrets(url):
    """By name, without the options."""
    with pytest.raises(UsageError, match="is not allowed") as raised:
        addresses_of(url)
    assert "secret" not in str(raised.value)


# ---------------------------------------------------------------------------- one service


async def test_a_busy_loop_connects(service):
    """Each turn of the loop takes half of the timeout, as a spider's callbacks may: it takes some turns, and no fault."""
    address = addresses_of(url(service))[0]
    endpoint = Endpoint(address, 0.5, nullcontext())
    until = time.monotonic() + 10
    while endpoint.connection is None and time.monotonic() < until:
        time.sleep(0.25)  # noqa: ASYNC251  (the loop is busy)
        await asyncio.sleep(0)
    assert endpoint.connection is not None
    await endpoint.close()


async def test_a_service_that_refused_is_not_asked_for_a_while(monkeypatch):
    """Ever longer, however many were refused at once; an answer ends that."""
    loop, now = asyncio.get_running_loop(), 1.0
    endpoint = Endpoint(Address("127.0.0.1", 1), 1.0, nullcontext())
    endpoint.connection = object()
    monkeypatch.setattr(endpoint, "_loop", SimpleNamespace(time=lambda: now))
    pauses = [FIRST_PAUSE_SECONDS * 2**n for n in range(5)]
    for pause in (*pauses, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS):
        for _ in range(3):
            endpoint.refused("the disk is full")
        now += pause - 0.001
        assert not endpoint.stands
        now += 0.002
        assert endpoint.stands
    endpoint.refusals.reset()
    endpoint.refused("the disk is full")
    now += FIRST_PAUSE_SECONDS
    assert endpoint.stands
    endpoint.connection = None
    monkeypatch.setattr(endpoint, "_loop", loop)
    await endpoint.close()


# --------------------------------------------------------------------------------------- answers


@given(st.recursive(st.none() | st.binary() | st.integers(), st.lists))
def test_any_answer_gives_a_verdict_or_service_unavailable(reply):
    """What is not an answer of a table service is ServiceUnavailable, never another error."""
    try:
        verdict = verdict_of(reply, Document(A, page()))
    except ServiceUnavailable:
        return
    assert isinstance(verdict, Verdict)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("RECIPE other", RecipeMismatch),
        ("DISTANCE too great", UsageError),
        ("ERR what", UsageError),
        ("NOTREADY reading the log", ServiceUnavailable),
        ("NOAUTH show it", ServiceUnavailable),
        ("LIMIT too many", ServiceUnavailable),
        ("LIMIT key 'http://a/'... is too long: 8192 bytes are allowed", UsageError),
        ("STORE disk full", ServiceUnavailable),
        ("", ServiceUnavailable),
    ],
)
def test_errors_of_the_service(line, kind):
    """Each code of an error answer has its kind; what another service might answer is unavailable."""
    assert type(error_of(line)) is kind


# ------------------------------------------------------------------------------- nobody, or stalled


def test_nobody_listens(tmp_path):
    """Both kinds of open() say which URL did not answer, and what to do."""
    for opens in (dedup.open, InLoop):
        with pytest.raises(ServiceUnavailable, match=r"redis://127.0.0.1:1: .*dedup serve"):
            opens(NEVER)


def test_a_url_of_another_scheme_is_refused():
    """For a loop, too."""
    with pytest.raises(UsageError, match="neither a folder nor a service URL"):
        InLoop("http://127.0.0.1:1")


def test_the_next_url_is_asked(service):
    """The first URL that answers is asked, whatever is wrong with those before it."""
    with dedup.open(f"{NEVER},{url(service)}", namespace="next") as detector:
        detector.insert(detector.reserve(page(), A))

    with InLoop(f"{NEVER},{url(service)}", namespace="next", timeout_seconds=10) as other:
        assert other.reserve(page(), B).status == "near_duplicate"


def test_a_wrong_token_is_said_without_it(tmp_path, caplog):
    """ServiceUnavailable and the log say that the token is refused, and where it goes, and does not show it."""
    with Serving(tmp_path, token=TOKEN) as service:
        wrong = f"redis://:another-wrong-token@127.0.0.1:{service.port}"
        right = f"redis://:{TOKEN.replace(' ', '%20')}@127.0.0.1:{service.port}"
        for target in (wrong, url(service)):
            for opens in (dedup.open, InLoop):
                caplog.clear()
                with pytest.raises(ServiceUnavailable, match="redis://:TOKEN@host") as raised:
                    opens(target)
                assert "refuses the token" in caplog.text
                assert "dedup serve" not in caplog.text + str(raised.value)
                assert "another-wrong" not in caplog.text
                assert "another-wrong" not in str(raised.value)
        with dedup.open(right) as detector:
            assert detector.reserve(page(), A).status == "unique"


def test_while_stalled_each_call_ends_within_its_bound(service):
    """A stalled service costs ServiceUnavailable; afterwards it is not even asked for a while."""
    with (
        Proxy(service.port) as proxy,
        dedup.open(url(proxy), namespace="stalled", timeout_seconds=0.2) as detector,
    ):
        proxy.stall()
        with pytest.raises(ServiceUnavailable, match=r"no answer within 0.2 s"):
            detector.reserve(page(), A)
        connections = len(proxy._sockets)
        for _ in range(1000):  # known to be away: no call makes a connection
            with pytest.raises(ServiceUnavailable):
                detector.reserve(page(), A)
        assert len(proxy._sockets) < connections + 500  # some are of the background
        proxy.heal()
        assert answers(lambda: detector.reserve(page(), A)).key == A


async def test_who_is_cancelled_leaves_no_reservation(service):
    """A cancelled reserve() is given back by its late answer."""
    async with await dedup.open_async(
        url(service), namespace="cancelled", timeout_seconds=30
    ) as detector:
        asked = asyncio.ensure_future(detector.reserve(page(), A))
        await asyncio.sleep(0)  # written in this turn of the loop, answered in a later one
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert asked.cancelled()
        assert (await detector.reserve(page(ONES), B)).status == "unique"  # answered after it
        for _ in range(1000):  # the release is written a turn later
            if (await detector.info())["in_flight"] == 1:
                break
        assert (await detector.reserve(page(), C)).status == "unique"


def test_a_service_that_comes_back_is_asked_again(tmp_path: Path):
    """Killed and started again, it is found by the same detector, with what it acknowledged."""
    with Serving(tmp_path) as service, InLoop(url(service), timeout_seconds=30) as detector:
        detector.insert(detector.reserve(page(), A))
        open_one = detector.reserve(page(ONES), B)
        service.kill()
        with pytest.raises(ServiceUnavailable):
            detector.reserve(page(), C)
        service.start()
        verdict = answers(lambda: detector.reserve(page(), C))
        assert (verdict.status, verdict.of) == ("near_duplicate", A)
        detector.insert(open_one)  # its token is forgotten: it is reserved anew
        assert len(detector) == 2


async def test_a_page_that_could_not_be_judged_is_remembered(service):
    """The verdict of unjudged() is inserted like any other, and releases nothing."""
    async with await dedup.open_async(
        url(service), namespace="unjudged", timeout_seconds=30
    ) as detector:
        verdict = detector.unjudged(page(), A)
        assert (verdict.status, verdict.reason) == ("exempt", "fault")
        assert not await detector.release(verdict)
        await detector.insert(verdict)
        assert (await detector.reserve(page(), B)).of == A
