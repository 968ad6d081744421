"""DEDUP_SERVICE = "auto" in real crawls: a table service where there is one, the store otherwise."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import pytest
from crawling import PATIENT, TEXT, Case, article, hub, run_case
from services import Serving

import dedup

PAGES = {"/": hub("/a", "/b"), "/a": article(1), "/b": article(1, frame="b")}
TRUSTING = TEXT | {"DEDUP_SERVICE": "auto", "DEDUP_TIMEOUT_SECONDS": 60}


def crawl(folder, port: int, **settings):
    """Crawl where the usual port of a service is this one."""
    at = f"import dedup.wire.client.discovery as local; local.PORT = {port}\n"
    return run_case(folder, Case(PAGES, settings=TRUSTING | settings), setup=PATIENT + at)


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


def test_service_is_used_where_there_is_one(tmp_path, monkeypatch):
    """The pages are at the service, no store is made, and the log says which; the token is not told."""
    monkeypatch.setenv("DEDUP_TOKEN", token := "a /+@: long token of its own")
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


def test_store_is_used_where_the_token_is_wrong(tmp_path, monkeypatch):
    """A service that refuses us is not used, and the log says where the token is read."""
    monkeypatch.delenv("DEDUP_TOKEN", raising=False)
    with Serving(tmp_path / "service", token="one that is not told") as service:
        crawled = crawl(tmp_path / "crawl", service.port)
    assert_the_store_was_used(crawled, tmp_path / "crawl", "environment, DEDUP_TOKEN")


@pytest.mark.long
def test_store_is_used_without_the_extra(tmp_path):
    """What speaks to a service is not installed: the log says what to install."""
    setup = "import sys; sys.modules['hiredis'] = None"
    crawled = run_case(tmp_path, Case(PAGES, settings=TRUSTING), setup=setup)
    assert_the_store_was_used(crawled, tmp_path, "pip install '.[client]'")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"*2\r\n$6\r\nserver\r\n$5\r\nredis\r\n", "is not a table service"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "its answer is not RESP"),
    ],
    ids=["redis", "web server"],
)
def test_store_is_used_where_something_else_listens(tmp_path, answer, why):
    """A Redis, a web server."""
    with listening(answer) as port:
        assert_the_store_was_used(crawl(tmp_path, port), tmp_path, why)


def test_store_is_used_without_a_service(tmp_path):
    """Nothing listens there: the store, without a warning."""
    crawled = crawl(tmp_path, 1)
    assert_the_store_was_used(crawled, tmp_path, "no table service listens at redis://127.0.0.1:1,")
    assert " WARNING: dedup" not in crawled.log


def test_what_never_answers_is_not_waited_for(tmp_path):
    """It is decided within DEDUP_TIMEOUT_SECONDS."""
    with listening(None) as port:
        crawled = crawl(tmp_path, port, DEDUP_TIMEOUT_SECONDS=0.2)
    assert_the_store_was_used(crawled, tmp_path, "within 0.2 s")
