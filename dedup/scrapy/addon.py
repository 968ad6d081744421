"""The add-on that a user enables: ADDONS = {"dedup.scrapy.Addon": 500}."""

import os

from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings

from dedup.scrapy.middlewares import (
    CallbackMiddleware,
    DownloaderMiddleware,
    SpiderMiddleware,
)
from dedup.scrapy.settings import Config

__all__ = ["Addon"]

REQUEST_FILTER = "dedup.scrapy.RequestFilter"  # as the setting names it


class Addon:
    """Enables the middlewares at their orders, unless the project already placed them."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Check the settings and put the middlewares in place (Scrapy's add-on interface)."""
        if "SCRAPY_CHECK" in os.environ:
            raise NotConfigured("scrapy check runs contracts on pages it must see")
        Config.from_settings(settings)
        # 540: after decompression, redirects, meta refresh and retries, so that it sees final,
        # decoded pages; 10: next to the engine, so that it sees all that a callback yields; 1000:
        # next to the spider, so that it sees what a callback raises
        place = settings.setdefault_in_component_priority_dict
        place("DOWNLOADER_MIDDLEWARES", DownloaderMiddleware, 540)
        place("SPIDER_MIDDLEWARES", SpiderMiddleware, 10)
        place("SPIDER_MIDDLEWARES", CallbackMiddleware, 1000)
        # requests are filtered through the service: the scheduler asks for many at once
        if settings.get("DEDUP_SERVICE") and settings.get("DUPEFILTER_CLASS") == REQUEST_FILTER:
            settings.set("SCHEDULER", "dedup.scrapy.Scheduler", "addon")
