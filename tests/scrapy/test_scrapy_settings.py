"""The DEDUP_ settings, the add-on's place among Scrapy's components, and Scrapy's own commands."""

from pathlib import Path

import pytest
from crawling import article, hub, scrapy_command, serve
from scrapy.exceptions import NotConfigured
from scrapy.settings import Settings
from scrapy.utils.conf import build_component_list

import dedup
from dedup.model.errors import UsageError
from dedup.model.page import EXEMPTIONS
from dedup.scrapy import Addon, CallbackMiddleware, DownloaderMiddleware, SpiderMiddleware
from dedup.scrapy.settings import Config


def config(**settings: object) -> Config:
    return Config.from_settings(Settings(settings))


WHOLE_15 = "a whole number from 0 to 15"
REASONS = f"a list of {', '.join(EXEMPTIONS)}; one with a minus takes it away"
RISK = "a number from 0.0 to below 1.0"
FIELDS = "a list of names of items' fields"
NAMESPACE = "1 to 64 of the characters A-Z a-z 0-9 . _ - and no dot first"
ALIKE = "a number from 0.0 to 1.0, careful or paper"
WRONG = [
    ("DEDUP_ENABLED", "perhaps", "True or False"),
    ("DEDUP_MODE", "delete", "drop or skip_links or tag"),
    ("DEDUP_MODE", ["drop"], "drop or skip_links or tag"),
    ("DEDUP_DISTANCE", 16, WHOLE_15),
    ("DEDUP_DISTANCE", float("inf"), WHOLE_15),
    ("DEDUP_SIMILARITY", "much", ALIKE),
    ("DEDUP_SIMILARITY", float("nan"), ALIKE),
    ("DEDUP_MIN_FEATURES", -1, "a whole number from 0 to 4294967295"),
    ("DEDUP_SCOPE", "domain", "global or site"),
    ("DEDUP_NAMESPACE", "../up", NAMESPACE),
    ("DEDUP_NAMESPACE", 7, NAMESPACE),
    ("DEDUP_PATH", 7, "the path of a folder"),
    ("DEDUP_WAIT_SECONDS", float("nan"), "a number of seconds from 0 to 1e9"),
    ("DEDUP_RESERVATION_SECONDS", 0, "a number of seconds from 0.001 to 1e9"),
    ("DEDUP_RESERVATION_SECONDS", 10**400, "a number of seconds from 0.001 to 1e9"),
    ("DEDUP_EXEMPT", ["start", "everything"], REASONS),
    ("DEDUP_MAX_BYTES", 0, "a whole number from 1 to 2147483648"),
    ("DEDUP_EXEMPT", "-start,-everything", REASONS),
    ("DEDUP_RISK", 1, RISK),
    ("DEDUP_ITEM_FIELDS", 5, FIELDS),
    ("DEDUP_ITEM_IGNORE", [5], FIELDS),
    ("DEDUP_REPORT", 1, "the path of a file"),
    ("DEDUP_UNCHANGED", "forget", "keep or drop"),
    ("DEDUP_SECRET", b"bytes", "a text"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_wrong_setting(name, value, allowed):
    """A wrong setting names itself, its value, and what is allowed."""
    with pytest.raises(UsageError) as raised:
        config(**{name: value})
    assert str(raised.value) == f"setting {name} is {value!r}; allowed is {allowed}"


def test_unchanged_needs_a_memory():
    """A crawl that begins empty cannot know what is unchanged; with an age or a service it can."""
    with pytest.raises(UsageError, match="DEDUP_MEMORY"):
        config(DEDUP_UNCHANGED="drop")
    assert config(DEDUP_UNCHANGED="drop", DEDUP_MEMORY="30d").unchanged == "drop"
    assert config(DEDUP_UNCHANGED="drop", DEDUP_SERVICE="redis://a").unchanged == "drop"


@pytest.mark.parametrize("value", ["http://a", "redis://:the-token@a:x", [7], 7])
def test_wrong_service(value):
    """A wrong URL of a service names itself and what is allowed, and keeps its token to itself."""
    with pytest.raises(
        UsageError, match=r"^setting DEDUP_SERVICE: service URL .* redis://\["
    ) as raised:
        config(DEDUP_SERVICE=value)
    assert "the-token" not in str(raised.value)


def test_shards_are_lists_of_urls_in_the_scope_of_a_site():
    """DEDUP_SERVICE as a list of lists; in another scope it is refused when the crawl begins."""
    shards = [["redis://a", "redis://b"], ["redis://c"]]
    assert config(DEDUP_SERVICE=shards, DEDUP_SCOPE="site").service == tuple(map(tuple, shards))
    with pytest.raises(UsageError, match="setting DEDUP_SERVICE: 2 shards.*'site'"):
        config(DEDUP_SERVICE=shards)


RIGHT = [
    ("DEDUP_DISTANCE", "3", "distance", 3),
    ("DEDUP_SIMILARITY", "0.9", "similarity", 0.9),
    ("DEDUP_SIMILARITY", "careful", "similarity", "careful"),
    ("DEDUP_PATH", Path("/var/lib/dedup"), "path", Path("/var/lib/dedup")),
    ("DEDUP_PATH", "~/dedup", "path", Path.home() / "dedup"),
    ("DEDUP_SERVICE", "redis://a, rediss://b:1", "service", ("redis://a", " rediss://b:1")),
    ("DEDUP_SERVICE", "", "service", ()),
    ("DEDUP_SERVICE", "auto", "auto", True),
    ("DEDUP_SERVICE", ["auto"], "auto", True),
    ("DEDUP_TIMEOUT_SECONDS", "0.1", "timeout_seconds", 0.1),
    ("DEDUP_EXEMPT", "start, short", "exempt", {"start", "short"}),
    ("DEDUP_EXEMPT", "", "exempt", set()),
    ("DEDUP_EXEMPT", "", "min_features", 1),  # empty pages are never judged
    ("DEDUP_EXEMPT", "-start, -short", "exempt", set(EXEMPTIONS) - {"start", "short"}),
    ("DEDUP_EXEMPT", ["start", "short", "-short"], "exempt", {"start"}),
    ("DEDUP_RISK", "0", "risk", 0.0),
    ("DEDUP_ITEM_FIELDS", "name, price", "item_fields", {"name", "price"}),
    ("DEDUP_DROPPED", "", "dropped", None),
    ("DEDUP_SECRET", "", "secret", None),
]


@pytest.mark.parametrize(("name", "value", "field", "read"), RIGHT)
def test_right_setting(name, value, field, read):
    """A setting means the same as text (-s on the command line) and as a Python value."""
    found = config(**{"DEDUP_EXEMPT": ["short"], name: value})
    assert getattr(found if hasattr(found, field) else found.options, field) == read


@pytest.mark.parametrize("off", [False, "False", "0", 0])
def test_disabled(off):
    """DEDUP_ENABLED = False disables the add-on without a word."""
    with pytest.raises(NotConfigured) as raised:
        config(DEDUP_ENABLED=off)
    assert raised.value.args == ()


def test_places_of_the_middlewares():
    """Next to retry, on the engine's far side, where pages are decoded and final; around all others of the spider."""
    settings = Settings()
    Addon().update_settings(settings)
    downloader = build_component_list(settings.getwithbase("DOWNLOADER_MIDDLEWARES"))
    names = [c.rpartition(".")[2] if isinstance(c, str) else c.__name__ for c in downloader]
    assert names[names.index("DownloaderMiddleware") + 1] == "RetryMiddleware"
    spider = build_component_list(settings.getwithbase("SPIDER_MIDDLEWARES"))
    assert (spider[0], spider[-1]) == (SpiderMiddleware, CallbackMiddleware)


def test_placed_by_name():
    """Middlewares that a project placed by name are not placed a second time."""
    settings = Settings({"DOWNLOADER_MIDDLEWARES": {"dedup.scrapy.DownloaderMiddleware": 300}})
    Addon().update_settings(settings)
    assert DownloaderMiddleware not in settings["DOWNLOADER_MIDDLEWARES"]


def test_check_leaves_the_addon_out(monkeypatch):
    """`scrapy check` runs contracts on pages it must see, so the add-on stands aside."""
    monkeypatch.setenv("SCRAPY_CHECK", "true")
    with pytest.raises(NotConfigured):
        Addon().update_settings(Settings())


# ------------------------------------------------------------------------ Scrapy's commands

SETTINGS = """
SPIDER_MODULES = ["spiders"]
ADDONS = {"dedup.scrapy.Addon": 500}
TELNETCONSOLE_ENABLED = REMOTE_CONTROL_ENABLED = False
"""
SPIDER = """
import scrapy

class Twins(scrapy.Spider):
    name = "twins"
    start_urls = ["{url}/"]

    def parse(self, response):
        yield {{"url": response.url}}
        yield from response.follow_all(css="a")
"""


def scrapy(project: Path, *arguments: str, folder: str = ".", code: int = 0) -> str:
    """Run a command of Scrapy's in a folder of a project and return what it printed."""
    env = {"PYTHONPATH": str(project), "SCRAPY_SETTINGS_MODULE": "project"}
    return scrapy_command(project / folder, *arguments, code=code, **env)


@pytest.fixture(scope="module")
def site():
    with serve({"/": hub("/a"), "/a": article(1)}) as site:
        yield site


@pytest.fixture(scope="module")
def project(site, tmp_path_factory):
    """A project whose store holds the text of /a under another key."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
    (folder / "project.py").write_text(SETTINGS)
    (folder / "spiders.py").write_text(SPIDER.format(url=site.url))
    with dedup.open(folder / ".scrapy" / "dedup", namespace="twins") as detector:
        page = detector.fingerprint(article(1).body)
        detector.insert(detector.reserve(page, "http://127.0.0.1/original"))
    return folder


def test_store_lies_beside_scrapy_cfg(project):
    """A crawl started in any folder of a project has its store in .scrapy/dedup of the project."""
    (project / "docs").mkdir()
    # the original that the library inserted has no items: by the text
    printed = scrapy(project, "crawl", "twins", "-s", "DEDUP_PROOF=text", folder="docs")
    assert "near-duplicate of http://127.0.0.1/original (100 % similar, distance 0)" in printed
    assert list((project / "docs").iterdir()) == []


def test_wrong_setting_stops_a_crawl_at_its_start(site, project):
    """A crawl with a wrong setting ends before its first request, naming the setting."""
    before = len(site.requested)
    printed = scrapy(project, "crawl", "twins", "-s", "DEDUP_MODE=delete", code=1)
    assert "setting DEDUP_MODE is 'delete'; allowed is drop or skip_links or tag" in printed
    assert len(site.requested) == before
