"""The DEDUP_ settings, read once into a frozen value.

A setting with a wrong value stops the crawl at its start, with a message that names the setting, the
value and what is allowed. If a setting's libraries are missing, the add-on is disabled with a message.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.project import inside_project, project_data_dir
from scrapy.utils.reactor import is_asyncio_reactor_installed

from dedup.model.errors import UsageError
from dedup.model.page import EXEMPTIONS
from dedup.model.policy import (
    PAPER_DISTANCE,
    SETTINGS,
    Mode,
    Options,
    Proof,
    ProofItems,
    Unchanged,
    Urls,
    age_seconds,
)

Memory = Literal["crawl", "ever"] | int

_ITEM_PROCESSOR = "scrapy.pipelines.ItemPipelineManager"
_MAY_BE_EMPTY = {"dropped", "path", "report", "secret", "url_rules"}


GONE = {
    **dict.fromkeys(
        ("DEDUP_KAFKA", "DEDUP_TOPIC"),
        "the table service writes insert events to Kafka (dedup serve --kafka)",
    ),
    "DEDUP_EXPLORE": "checks by the spider's items replace it (DEDUP_PROOF)",
    "DEDUP_TRIES": "a page like others is compared with them, whatever they brought",
}
logger = logging.getLogger("dedup")


def unknown_settings(settings: BaseSettings) -> dict[str, str | None]:
    """Return the unknown DEDUP_ settings, each with the name that was probably meant."""
    known = [s.key for s in SETTINGS.values() if s.key not in GONE]
    unknown = [n for n in settings if str(n).startswith("DEDUP_") and n not in known]
    if not unknown:
        return {}
    from difflib import get_close_matches

    return {n: next(iter(get_close_matches(n, known, 1)), None) for n in unknown}


class Config(msgspec.Struct, frozen=True):
    """The settings in force; None stands for the recipe's own value.

    options       options of the detector, without its namespace
    namespace     None: the spider's name
    memory        what the store remembers of earlier crawls: nothing ("crawl"), everything ("ever"),
                  or documents that are not older than some seconds
    unchanged     whether unchanged pages of an earlier crawl bring their items
    path          folder of the store's namespaces
    service       URLs of table services in order of preference, or a list of them for each shard; none: the store at path
    auto          whether a table service on this machine replaces the store, if there is one
    wait_seconds  how long a page waits for a near-duplicate in flight
    exempt        reasons in force for which a page is not judged, or is kept
    max_bytes     larger pages are not judged
    kinds         whether only pages of one callback are compared
    proof         whether the spider's items decide about near-duplicates
    proof_items   whether pages parsed as evidence bring items that equal the original's
    risk          number of wanted pages that a class may be expected to drop between two looks
    control       number of control visits for each callback
    item_fields   fields that tell items apart, as they are; none: all of them, but for what does not count
    item_ignore   fields of items that are not compared
    report        where the crawl's report is written; None: nowhere
    dropped       where each drop is listed; None: nowhere
    urls          whether the crawl learns of its URLs, and skips requests for known pages
    url_rules     a file of URL rules that a person wants; None: none
    """

    mode: Mode
    options: Options
    namespace: str | None
    memory: Memory
    unchanged: Unchanged
    path: Path
    service: tuple[str | tuple[str, ...], ...]
    auto: bool
    wait_seconds: float
    exempt: frozenset[str]
    max_bytes: int
    kinds: bool
    proof: Proof
    proof_items: ProofItems
    risk: float
    control: int
    item_fields: frozenset[str]
    item_ignore: frozenset[str]
    report: Path | None
    dropped: Path | None
    urls: Urls
    url_rules: Path | None

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> "Config":
        """Read and check the settings; raise UsageError or NotConfigured."""
        read = _Reader(settings)
        if not read("enabled"):
            raise NotConfigured
        exempt, min_features, memory = _exempt(settings), read("min_features"), read("memory")
        return cls(
            mode=read("mode"),
            options=Options(
                distance=read("distance"),
                similarity=read("similarity"),
                # a page without a single word equals every other such page, and is never judged
                min_features=min_features if "short" in exempt else 1,
                scope=read("scope"),
                secret=read("secret"),
                reservation_seconds=read("reservation_seconds"),
                timeout_seconds=read("timeout_seconds"),
            ),
            namespace=read("namespace"),
            memory=memory if memory in {"crawl", "ever"} else age_seconds(memory) or 0,
            unchanged=_unchanged(settings, read),
            path=_beside_project(read("path")),
            service=() if _is_auto(settings) else _service(settings, read("scope")),
            auto=_is_auto(settings),
            wait_seconds=read("wait_seconds"),
            exempt=exempt,
            max_bytes=read("max_bytes"),
            kinds=read("kinds"),
            proof=read("proof"),
            proof_items=read("proof_items"),
            risk=read("risk"),
            control=read("control"),
            item_fields=_names(settings, "item_fields"),
            item_ignore=_names(settings, "item_ignore"),
            report=_beside_project(report) if (report := read("report")) else None,
            dropped=_beside_project(dropped) if (dropped := read("dropped")) else None,
            urls=read("urls"),
            url_rules=_beside_project(rules) if (rules := read("url_rules")) else None,
        )


class _Reader:
    """Reads settings by their names in the table; an empty text counts as not set where it can."""

    def __init__(self, settings: BaseSettings) -> None:
        self._settings = settings

    def __call__(self, name: str) -> Any:
        setting = SETTINGS[name]
        value = self._settings.get(setting.key)
        is_set = value is not None and not (value == "" and name in _MAY_BE_EMPTY)
        return setting.read(value) if is_set else setting.default


def has_asyncio() -> bool:
    """Whether the crawl runs on an asyncio loop, by the setting TWISTED_REACTOR."""
    try:
        from scrapy.utils.asyncio import is_asyncio_available
    except ImportError:  # Scrapy 2.13
        return is_asyncio_reactor_installed()
    return is_asyncio_available()


def has_pipelines(settings: BaseSettings) -> bool:
    """Whether something may drop an item after the spider middlewares."""
    own = settings.get("ITEM_PROCESSOR", _ITEM_PROCESSOR) != _ITEM_PROCESSOR
    return own or any(
        order is not None for order in settings.getwithbase("ITEM_PIPELINES").values()
    )


def _exempt(settings: BaseSettings) -> frozenset[str]:
    """Return the reasons in force: those listed, or all but those listed with a minus."""
    try:
        given = [each.strip() for each in settings.getlist("DEDUP_EXEMPT", list(EXEMPTIONS))]
    except (AttributeError, TypeError):  # not a list, or not of texts
        given = [""]
    listed = frozenset(filter(lambda each: not each.startswith("-"), given))
    without = frozenset(each[1:] for each in given if each.startswith("-"))
    if not listed | without <= set(EXEMPTIONS):
        raise SETTINGS["exempt"].wrong(settings.get("DEDUP_EXEMPT"))
    return (frozenset(EXEMPTIONS) if without and not listed else listed) - without


def check_settings(settings: BaseSettings) -> None:
    """Warn of settings that are unknown, or do nothing. Raises NotConfigured where the add-on cannot work."""
    if not has_asyncio():
        raise NotConfigured(
            "dedup waits for pages in flight on an asyncio loop; remove TWISTED_REACTOR, "
            'or set it to "twisted.internet.asyncioreactor.AsyncioSelectorReactor"'
        )
    for name, meant in unknown_settings(settings).items():
        if name in GONE:
            logger.warning("[dedup] the setting %s has no effect: %s", name, GONE[name])
        else:
            hint = f"; {meant} was meant?" if meant else ""
            logger.warning("[dedup] there is no setting %s%s", name, hint)
    config = Config.from_settings(settings)
    if config.url_rules is not None:
        from dedup.scrapy.urls.rules import read_rules

        read_rules(config.url_rules)  # a wrong one stops the crawl now, not at its first page
    for why in without_effect(config):
        logger.warning("[dedup] %s", why)


def without_effect(config: Config) -> Iterator[str]:
    """Yield what these settings do not do together, though each of them is allowed."""
    if config.urls == "skip" and config.mode != "drop":
        yield "DEDUP_URLS = 'skip' skips no request unless DEDUP_MODE is 'drop'"
    options = config.options
    if options.similarity == "paper" and (options.distance or 0) > PAPER_DISTANCE:
        yield (
            f"DEDUP_SIMILARITY = 'paper' compares no texts, and DEDUP_DISTANCE is {options.distance}: pages of "
            f"other content are dropped; leave it out, or set it to {PAPER_DISTANCE} or less"
        )


def _names(settings: BaseSettings, name: str) -> frozenset[str]:
    key = SETTINGS[name].key
    try:
        found = [each.strip() for each in settings.getlist(key)]
    except (AttributeError, TypeError):  # not a list, or not of texts
        raise SETTINGS[name].wrong(settings.get(key)) from None
    return frozenset(filter(None, found))


def _unchanged(settings: BaseSettings, read: _Reader) -> Unchanged:
    value: Unchanged = read("unchanged")
    if value == "drop" and read("memory") == "crawl" and not settings.get("DEDUP_SERVICE"):
        raise UsageError(
            "setting DEDUP_UNCHANGED is 'drop', and DEDUP_MEMORY 'crawl': with nothing remembered of "
            'earlier crawls no page is unchanged; set DEDUP_MEMORY = "ever", or an age such as "30d"'
        )
    return value


def _beside_project(path: Path) -> Path:
    """Return a path; a relative one starts beside the project's scrapy.cfg, if there is one."""
    path = path.expanduser()
    if not path.is_absolute() and inside_project():
        path = Path(project_data_dir()).parent / path
    return path


def _is_auto(settings: BaseSettings) -> bool:
    return settings.get("DEDUP_SERVICE") in ("auto", ["auto"], ("auto",))


def _service(settings: BaseSettings, scope: str) -> tuple[str | tuple[str, ...], ...]:
    """Return the URLs, or those of each shard, checked; errors show a URL without its token."""
    try:
        urls = tuple(settings.getlist("DEDUP_SERVICE"))
    except TypeError:
        urls = (settings.get("DEDUP_SERVICE"),)  # not a list
    urls = tuple(tuple(each) if isinstance(each, list) else each for each in urls)
    if urls:
        try:
            import hiredis  # noqa: F401

            from dedup.wire.client.services import shards_of
        except ModuleNotFoundError as error:
            raise NotConfigured(
                f"DEDUP_SERVICE needs more: pip install 'crawl-dedup[client]' ({error})"
            ) from error
        try:
            shards_of(urls, scope)
        except UsageError as error:
            raise UsageError(f"setting DEDUP_SERVICE: {error}") from None
    return urls
