"""A service for the tests of a file, and a client of it; files that need other bounds have their own."""

import pytest
from commands import ONCE
from services import Serving


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("store")) as service:
        yield service


@pytest.fixture
def client(serving):
    with serving.client(decode_responses=True, **ONCE) as made:
        yield made


@pytest.fixture(scope="module")
def chromium_of_file():
    from browsing import chromium  # only the tests of pages need Playwright

    with chromium() as started:
        yield started


@pytest.fixture
def browser(chromium_of_file):
    return chromium_of_file.browser()
