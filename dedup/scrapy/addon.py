"""ADDONS = {"dedup.scrapy.Addon": 500}: puts the middlewares in place."""

import os

from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings

from dedup.model.errors import UsageError
from dedup.scrapy.middlewares import CallbackMiddleware, DownloaderMiddleware, SpiderMiddleware
from dedup.scrapy.settings import Config

# After decompression, redirects, meta refresh and retries, so that it sees final, decoded pages; before page objects
# are built (scrapy-poet, 543, whose process_response comes later).
DOWNLOADER_ORDER = 545
SPIDER_ORDER = 10  # next to the engine, so that it sees all that a callback yields
CALLBACK_ORDER = 1000  # next to the spider, so that it sees what a callback raises


class Addon:
    """Enables the middlewares at their orders, unless the project already placed them."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Check the settings and put the middlewares in place (Scrapy's add-on interface)."""
        if "SCRAPY_CHECK" in os.environ:
            raise NotConfigured("scrapy check runs contracts on pages it must see")
        try:
            Config.from_settings(settings)
        except (UsageError, NotConfigured):
            raise
        except Exception:  # noqa: BLE001, S110 - a fault of ours, which the middlewares meet, count and log
            pass
        place = settings.setdefault_in_component_priority_dict
        place("DOWNLOADER_MIDDLEWARES", DownloaderMiddleware, DOWNLOADER_ORDER)
        place("SPIDER_MIDDLEWARES", SpiderMiddleware, SPIDER_ORDER)
        place("SPIDER_MIDDLEWARES", CallbackMiddleware, CALLBACK_ORDER)
