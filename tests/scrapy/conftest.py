"""What the add-on's tests share: a reactor, for those that make a crawler in this process."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def reactor() -> Iterator[None]:
    """Install what Scrapy asks for before it makes a crawler, and close its loop."""
    from scrapy.utils.reactor import install_reactor

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    yield
    loop.close()
