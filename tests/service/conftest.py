"""A service for the tests of a file, and a client of it; files that need other bounds have their own."""

import contextlib
import http.client
import json

import pytest
from commands import ONCE
from services import Serving

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("store")) as service:
        yield service


@pytest.fixture
def client(serving):
    with serving.client(decode_responses=True, **ONCE) as made:
        yield made


@pytest.fixture(scope="session")
def ask():
    """Return a function that asks a service over HTTP: status, headers, and its JSON or its bytes."""

    def ask(serving, method, path, body=None, headers=JSON):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", serving.http_port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            raw = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, answer.headers, json.loads(raw) if is_json else raw

    return ask


@pytest.fixture(scope="module")
def chromium_of_file():
    from browsing import chromium  # only the tests of pages need Playwright

    with chromium() as started:
        yield started


@pytest.fixture
def browser(chromium_of_file):
    return chromium_of_file.browser()
