"""The DEDUP_ settings, read once into a frozen value.

A setting with a wrong value stops the crawl at its start, with a message that names the setting, the
value and what is allowed. If a setting's libraries are missing, the add-on is disabled with a message.
"""

import logging
from pathlib import Path
from typing import Any, Literal

import msgspec
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.project import inside_project, project_data_dir
from scrapy.utils.reactor import is_asyncio_reactor_installed

from dedup.model.errors import UsageError
from dedup.model.names import install
from dedup.model.page import EXEMPTIONS
from dedup.model.policy import (
    PAPER_DISTANCE,
    SETTINGS,
    Mode,
    Options,
    Proof,
    ProofItems,
    Setting,
    Unchanged,
    age_seconds,
)

Memory = Literal["crawl", "ever"] | int

_ITEM_PROCESSOR = "scrapy.pipelines.ItemPipelineManager"
_MAY_BE_EMPTY = {"dropped", "path", "report", "secret"}
_LISTS = {"exempt", "item_fields", "item_ignore"}
_OPTIONS = (
    "distance",
    "similarity",
    "min_features",
    "scope",
    "secret",
    "reservation_seconds",
    "timeout_seconds",
)


GONE = {
    **dict.fromkeys(
        ("DEDUP_KAFKA", "DEDUP_TOPIC"),
        "the table service writes insert events to Kafka (dedup serve --kafka)",
    ),
    **dict.fromkeys(
        ("DEDUP_URLS", "DEDUP_URL_RULES"),
        "`dedup urls REPORT` writes rules about URLs for duplicate-url-discarder",
    ),
    "DEDUP_OWN_WORDS": "pages are compared by their text alone",
    "DEDUP_EXPLORE": "checks by the spider's items replace it (DEDUP_PROOF)",
    "DEDUP_TRIES": "a near-duplicate is checked, whatever its original brought",
}
logger = logging.getLogger("dedup")


class Config(msgspec.Struct, frozen=True):
    """The settings in force, by their names in the table (model/policy.py); None stands for the recipe's own value.

    options  those of the detector, without its namespace; auto: whether a service on this machine replaces the store
    memory   "crawl", "ever", or seconds; exempt: reasons in force
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

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> "Config":
        """Read and check the settings; raise UsageError or NotConfigured."""
        known = {n: each for n, each in SETTINGS.items() if each.key not in GONE and n != "service"}
        read = {name: _read(settings, each) for name, each in known.items()}
        if not read["enabled"]:
            raise NotConfigured
        auto = settings.get("DEDUP_SERVICE") in ("auto", ["auto"], ("auto",))
        read["exempt"] = exempt = _exempt(settings)
        if "short" not in exempt:  # a page without a single word equals every other such page
            read["min_features"] = 1
        if (
            read["unchanged"] == "drop"
            and read["memory"] == "crawl"
            and not settings.get("DEDUP_SERVICE")
        ):
            raise UsageError(
                "setting DEDUP_UNCHANGED is 'drop', and DEDUP_MEMORY 'crawl': with nothing remembered of "
                'earlier crawls no page is unchanged; set DEDUP_MEMORY = "ever", or an age such as "30d"'
            )
        read["options"] = Options(**{n: read[n] for n in _OPTIONS})
        read["memory"] = age_seconds(read["memory"]) or read["memory"]
        read["item_fields"] = frozenset(read["item_fields"])
        read["item_ignore"] = frozenset(read["item_ignore"])
        read |= {n: _beside_project(read[n]) for n in ("path", "report", "dropped") if read[n]}
        read |= {"auto": auto, "service": () if auto else _service(settings, read["scope"])}
        return cls(**{name: read[name] for name in cls.__struct_fields__})


def _read(settings: BaseSettings, setting: Setting) -> Any:
    """Return a setting of the table; an empty text counts as not set where it can. Raises UsageError."""
    value = settings.get(setting.key)
    name = setting.key.removeprefix("DEDUP_").lower()
    if value is None or (value == "" and name in _MAY_BE_EMPTY):
        return setting.default
    if name in _LISTS:
        try:
            value = [each.strip() for each in settings.getlist(setting.key) if each.strip()]
        except (AttributeError, TypeError):  # not a list, or not of texts
            raise setting.wrong(value) from None
    return setting.read(value)


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
    given = _read(settings, SETTINGS["exempt"])
    given = EXEMPTIONS if given is None else given
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
    known = [each.key for each in SETTINGS.values() if each.key not in GONE]
    for name in settings:
        if name in GONE:
            logger.warning("[dedup] the setting %s has no effect: %s", name, GONE[name])
        elif str(name).startswith("DEDUP_") and name not in known:
            from difflib import get_close_matches

            hint = "".join(f"; {each} was meant?" for each in get_close_matches(name, known, 1))
            logger.warning("[dedup] there is no setting %s%s", name, hint)
    options = Config.from_settings(settings).options
    if options.similarity == "paper" and (options.distance or 0) > PAPER_DISTANCE:
        logger.warning(
            "[dedup] DEDUP_SIMILARITY = 'paper' compares no texts, and DEDUP_DISTANCE is %d: pages of other content "
            "are dropped; leave it out, or set it to %d or less",
            options.distance,
            PAPER_DISTANCE,
        )


def _beside_project(path: Path) -> Path:
    """Return a path; a relative one starts beside the project's scrapy.cfg, if there is one."""
    path = path.expanduser()
    if not path.is_absolute() and inside_project():
        path = Path(project_data_dir()).parent / path
    return path


def _service(settings: BaseSettings, scope: str) -> tuple[str | tuple[str, ...], ...]:
    """Return the URLs, or those of each shard, checked; errors show a URL without its token."""
    try:
        given = settings.getlist("DEDUP_SERVICE")
    except TypeError:
        given = [settings.get("DEDUP_SERVICE")]  # not a list
    urls = tuple(tuple(each) if isinstance(each, list) else each for each in given)
    if urls:
        try:
            import hiredis  # noqa: F401

            from dedup.wire.client.services import shards_of

            shards_of(urls, scope)
        except ModuleNotFoundError as error:
            hint = f"DEDUP_SERVICE needs more: {install('client')}"
            raise NotConfigured(f"{hint} ({error})") from error
        except UsageError as error:
            raise UsageError(f"setting DEDUP_SERVICE: {error}") from None
    return urls
