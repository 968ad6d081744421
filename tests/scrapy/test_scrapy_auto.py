"""DEDUP_SERVICE = "auto" in real crawls: a table service where there is one, the store otherwise."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import pytest
from crawling import PATIENT, TEXT, Case, Crawling, article, hub, run_case, serve
from services import Serving

import dedup

PAGES = {"/": hub("/a", "/b"), "/a": article(1), "/b": article(1, frame="b")}
TRUSTING = TEXT | {"DEDUP_SERVICE": "auto", "DEDUP_TIMEOUT_SECONDS": 60}
NO_CLIENT = "import sys; sys.modules['hiredis'] = None\n"


def crawl(folder, port: int, setup: str = PATIENT, pages=PAGES, **settings):
    """Crawl where the usual port of a service is this one."""
    case = Case(pages, settings=TRUSTING | settings)
    return run_case(folder, case, setup=setup if setup == NO_CLIENT else setup + at(port))


def at(port: int) -> str:
    return f"import dedup.scrapy.memory.service as local; local.PORT = {port}\n"


@contextmanager
def listening(answer: bytes | None):
    """Listen as something else does; None: never answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_one() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                if answer is not None:
                    connection.sendall(answer)
                connection.recv(100)

        threading.Thread(target=serve_one, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    "token",
    [pytest.param(None, marks=pytest.mark.long), "a /+@: long token of its own"],
)
def test_service_is_used_where_there_is_one(tmp_path, monkeypatch, token):
    """The pages are at the service, no store is made, and the log says which; the token is not told."""
    monkeypatch.setenv(
        "DEDUP_TOKEN", "a /+@: long token of its own"
    )  # a service without one is not shown it
    with Serving(tmp_path / "service", token=token) as service:
        crawled = crawl(tmp_path / "crawl", service.port)
    assert set(crawled.dropped) == {"/b"}
    assert crawled.faults == {}
    assert f"the table service at redis://127.0.0.1:{service.port} is used" in crawled.log
    assert f"2 documents at redis://127.0.0.1:{service.port}" in crawled.log
    assert "of its own" not in crawled.log
    assert not (tmp_path / "crawl" / "dedup").exists()
    with dedup.open(tmp_path / "service", namespace="only") as detector:
        assert len(detector) == 2


def assert_the_store_was_used(crawled, folder, why: str) -> None:
    assert set(crawled.dropped) == {"/b"}
    assert crawled.faults == {}
    assert why in crawled.log
    assert f"2 documents in {folder / 'dedup'}" in crawled.log
    assert crawled.errors == []


def test_store_is_used_without_a_service(tmp_path):
    """Nothing listens there: the store, without a warning."""
    crawled = crawl(tmp_path, 1)
    assert_the_store_was_used(crawled, tmp_path, "no table service listens at redis://127.0.0.1:1,")
    assert " WARNING: dedup" not in crawled.log


@pytest.mark.long
def test_store_is_used_without_the_extra(tmp_path):
    """A service is there, but not what speaks to it: the log says what to install."""
    crawled = crawl(tmp_path, 1, NO_CLIENT)
    assert_the_store_was_used(crawled, tmp_path, "pip install 'crawl-dedup[client]'")


def test_store_is_used_where_the_token_is_wrong(tmp_path, monkeypatch):
    """A service that refuses us is not used, and the log says where the token is read."""
    monkeypatch.delenv("DEDUP_TOKEN", raising=False)
    with Serving(tmp_path / "service", token="one that is not told") as service:
        crawled = crawl(tmp_path / "crawl", service.port)
    assert_the_store_was_used(crawled, tmp_path / "crawl", "environment, DEDUP_TOKEN")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"*2\r\n$6\r\nserver\r\n$5\r\nredis\r\n", "is not a table service"),
        pytest.param(
            b"-ERR unknown command 'HELLO'\r\n",
            "it answers ERR unknown command",
            marks=pytest.mark.long,
        ),
        pytest.param(
            b"HTTP/1.1 400 Bad Request\r\n\r\n", "its answer is not RESP", marks=pytest.mark.long
        ),
    ],
)
def test_store_is_used_where_something_else_listens(tmp_path, answer, why):
    """A Redis, an old one, a web server."""
    with listening(answer) as port:
        assert_the_store_was_used(crawl(tmp_path, port), tmp_path, why)


def test_what_never_answers_is_not_waited_for(tmp_path):
    """It is decided within DEDUP_TIMEOUT_SECONDS."""
    with listening(None) as port:
        crawled = crawl(tmp_path, port, DEDUP_TIMEOUT_SECONDS=0.2)
    assert_the_store_was_used(crawled, tmp_path, "within 0.2 s")


@pytest.mark.long
def test_two_processes_share_what_the_error_says(tmp_path):
    """Two crawls at once: one without the service finds the store held; as it says, both share it."""
    path = tmp_path / "dedup"
    settings = TRUSTING | {"DEDUP_PATH": str(path), "DEDUP_NAMESPACE": "shared"}
    with dedup.open(path, namespace="shared"):
        held = crawl(tmp_path / "held", 1, **settings)
    assert len(held.errors) == 1
    assert held.faults == {"store_locked": 3}
    assert f"\n[dedup] to share it between crawls run `dedup serve --path {path}`" in held.log
    first_is_through, second_is_through = threading.Event(), threading.Event()
    one = {
        "/": hub("/a", "/end"),
        "/a": article(1),
        "/end": article(2, before=lambda: (first_is_through.set(), second_is_through.wait(600))),
    }
    two = {"/": hub("/b"), "/b": article(1, frame="b")}
    with Serving(path) as service, serve(one) as at_one, serve(two) as at_two:
        setup = PATIENT + at(service.port)
        first = Crawling(tmp_path / "one", {"only": (at_one, Case(one, settings=settings))}, setup)
        assert first_is_through.wait(600)
        second = Crawling(
            tmp_path / "two", {"only": (at_two, Case(two, settings=settings))}, setup
        ).end()["only"]
        second_is_through.set()
        assert first.end()["only"].faults == {}
    assert set(second.dropped) == {"/b"}
    assert second.dropped["/b"]["of"] == f"{at_one.url}/a"
