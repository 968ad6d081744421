"""The DEDUP_ settings, read once into a frozen value.

A setting with a wrong value stops the crawl at its start, with a message that names the setting, the
value and what is allowed. If a setting's libraries are missing, the add-on is disabled with a message.
"""

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import msgspec
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.project import inside_project, project_data_dir
from scrapy.utils.reactor import is_asyncio_reactor_installed

from dedup.model.errors import UsageError
from dedup.model.names import check_namespace
from dedup.model.policy import (
    RESERVATION_SECONDS,
    TIMEOUT_SECONDS,
    Options,
    Preset,
    Scope,
    Similarity,
    age_seconds,
)
from dedup.model.values import TRIES

if TYPE_CHECKING:
    from dedup.wire.kafka import KafkaConfig

__all__ = ["EXEMPTIONS", "SETTINGS", "Config", "Mode", "has_asyncio", "unknown_settings"]

Memory = Literal["crawl", "ever"] | int
Mode = Literal["drop", "skip_links", "tag"]
Urls = Literal["learn", "skip", "off"]

EXEMPTIONS = (
    "start",
    "non_html",
    "status",
    "method",
    "short",
    "too_large",
    "data_page",
    "new_links",
    "other_title",
    "barren",
    "unread",
    "no_callback",
    "inline",
)

Unchanged = Literal["keep", "drop"]

SETTINGS = (
    *("DEDUP_ENABLED", "DEDUP_MODE", "DEDUP_DISTANCE", "DEDUP_SIMILARITY", "DEDUP_MIN_FEATURES"),
    *(
        "DEDUP_SCOPE",
        "DEDUP_NAMESPACE",
        "DEDUP_PATH",
        "DEDUP_MEMORY",
        "DEDUP_UNCHANGED",
        "DEDUP_SERVICE",
        "DEDUP_KAFKA",
    ),
    *("DEDUP_TOPIC", "DEDUP_TIMEOUT_SECONDS", "DEDUP_WAIT_SECONDS", "DEDUP_RESERVATION_SECONDS"),
    *("DEDUP_EXEMPT", "DEDUP_TRIES", "DEDUP_KINDS", "DEDUP_MAX_BYTES", "DEDUP_EXPLORE"),
    *("DEDUP_SECRET", "DEDUP_REPORT", "DEDUP_URLS"),
)


def unknown_settings(settings: BaseSettings) -> dict[str, str | None]:
    """Return the unknown DEDUP_ settings, each with the name that was probably meant."""
    unknown = (n for n in settings if str(n).startswith("DEDUP_") and n not in SETTINGS)
    return {n: next(iter(get_close_matches(n, SETTINGS, 1)), None) for n in unknown}


class Config(msgspec.Struct, frozen=True):
    """The settings in force; None stands for the recipe's own value.

    options       options of the detector, without its namespace
    namespace     None: the spider's name
    memory        what the store remembers of earlier crawls: nothing ("crawl"), everything ("ever"),
                  or documents that are not older than some seconds
    unchanged     whether unchanged pages of an earlier crawl bring their items
    path          folder of the store's namespaces
    service       URLs of table services in order of preference; none: the store at path
    auto          whether a table service on this machine replaces the store, if there is one
    kafka         where insert events go, besides the service; None: nowhere
    wait_seconds  how long a page waits for a near-duplicate in flight
    exempt        reasons in force for which a page is not judged, or is kept
    max_bytes     larger pages are not judged
    tries         number of similar pages without an item after which others like them are dropped
    kinds         whether only pages of one callback are compared
    explore       share of the near-duplicates, 0.0 to 1.0, that are kept all the same
    report        where the crawl's report is written; None: nowhere
    urls          whether the crawl learns of its URLs, and skips requests for known pages
    """

    mode: Mode
    options: Options
    namespace: str | None
    memory: Memory
    unchanged: Unchanged
    path: Path
    service: tuple[str, ...]
    auto: bool
    kafka: "KafkaConfig | None"
    wait_seconds: float
    exempt: frozenset[str]
    max_bytes: int
    tries: int
    kinds: bool
    explore: float
    report: Path | None
    urls: Urls

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> "Config":
        """Read and check the settings; raise UsageError or NotConfigured."""
        if not _switch(settings, "DEDUP_ENABLED"):
            raise NotConfigured
        exempt = _exempt(settings)
        return cls(
            mode=_choice(settings, "DEDUP_MODE", "drop", get_args(Mode)),
            options=_options(settings, exempt),
            namespace=_namespace(settings),
            memory=_memory(settings),
            unchanged=_unchanged(settings),
            path=_path(settings),
            service=() if _is_auto(settings) else _service(settings),
            auto=_is_auto(settings),
            kafka=_kafka(settings),
            wait_seconds=_seconds(settings, "DEDUP_WAIT_SECONDS", 1.0),
            exempt=exempt,
            max_bytes=_number(settings, "DEDUP_MAX_BYTES", 16 << 20, 1, 1 << 31) or 0,
            tries=(_number(settings, "DEDUP_TRIES", TRIES, 0, 1000) or 0) * ("barren" in exempt),
            kinds=_switch(settings, "DEDUP_KINDS"),
            explore=_share(settings, "DEDUP_EXPLORE"),
            report=_report(settings),
            urls=_choice(settings, "DEDUP_URLS", "learn", get_args(Urls)),
        )


def has_asyncio() -> bool:
    """Whether the crawl runs on an asyncio loop, by the setting TWISTED_REACTOR."""
    try:
        from scrapy.utils.asyncio import is_asyncio_available
    except ImportError:  # Scrapy 2.13
        return is_asyncio_reactor_installed()
    return is_asyncio_available()


def _options(settings: BaseSettings, exempt: frozenset[str]) -> Options:
    min_features = _number(settings, "DEDUP_MIN_FEATURES", None, 0, 2**32 - 1)
    return Options(
        distance=_number(settings, "DEDUP_DISTANCE", None, 0, 15),
        similarity=_similarity(settings),
        # a page without a single word equals every other such page, and is never judged
        min_features=min_features if "short" in exempt else 1,
        scope=_choice(settings, "DEDUP_SCOPE", "global", get_args(Scope)),
        secret=_text(settings, "DEDUP_SECRET"),
        reservation_seconds=_seconds(
            settings, "DEDUP_RESERVATION_SECONDS", RESERVATION_SECONDS, least=0.001
        ),
        timeout_seconds=_seconds(settings, "DEDUP_TIMEOUT_SECONDS", TIMEOUT_SECONDS, least=0.001),
    )


def _similarity(settings: BaseSettings) -> Similarity | None:
    value = settings.get("DEDUP_SIMILARITY")
    if value is None:
        return None
    if value in get_args(Preset):
        return cast("Similarity", value)
    try:
        share = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        share = -1.0
    if not 0 <= share <= 1:
        raise _wrong("DEDUP_SIMILARITY", value, "a number from 0.0 to 1.0, careful or paper")
    return share


def _wrong(name: str, value: object, allowed: str) -> UsageError:
    return UsageError(f"setting {name} is {value!r}; allowed is {allowed}")


def _switch(settings: BaseSettings, name: str) -> bool:
    """Return a setting that is True by default."""
    try:
        return settings.getbool(name, True)
    except ValueError:
        raise _wrong(name, settings.get(name), "True or False") from None


def _exempt(settings: BaseSettings) -> frozenset[str]:
    try:
        exempt = frozenset(map(str.strip, settings.getlist("DEDUP_EXEMPT", list(EXEMPTIONS))))
    except TypeError:  # not a list, or not of texts
        exempt = frozenset(("",))
    if not exempt <= set(EXEMPTIONS):
        allowed = f"a list of {', '.join(EXEMPTIONS)}"
        raise _wrong("DEDUP_EXEMPT", settings.get("DEDUP_EXEMPT"), allowed)
    return exempt


def _text(settings: BaseSettings, name: str) -> str | None:
    value = settings.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong(name, value, "a text")
    return value or None


def _namespace(settings: BaseSettings) -> str | None:
    value = settings.get("DEDUP_NAMESPACE")
    try:
        return None if value is None else check_namespace(value)
    except UsageError:
        allowed = "1 to 64 of the characters A-Z a-z 0-9 . _ - and no dot first"
        raise _wrong("DEDUP_NAMESPACE", value, allowed) from None


def _choice(settings: BaseSettings, name: str, default: str, allowed: tuple[str, ...]) -> Any:
    value = settings.get(name, default)
    if value not in allowed:
        raise _wrong(name, value, " or ".join(allowed))
    return value


def _number(
    settings: BaseSettings, name: str, default: int | None, low: int, high: int
) -> int | None:
    value = settings.get(name, default)
    if value is None:
        return None
    try:
        number = int(value)
        fits = not isinstance(value, bool) and number == float(value) and low <= number <= high
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise _wrong(name, value, f"a whole number from {low} to {high}")
    return number


def _memory(settings: BaseSettings) -> Memory:
    value = settings.get("DEDUP_MEMORY", "crawl")
    if value in {"crawl", "ever"}:
        return cast("Memory", value)
    age = age_seconds(value) if isinstance(value, str) else None
    if not age:
        raise _wrong("DEDUP_MEMORY", value, "crawl, ever, or an age such as 30d, 12h or 90m")
    return age


def _unchanged(settings: BaseSettings) -> Unchanged:
    value = cast("Unchanged", _choice(settings, "DEDUP_UNCHANGED", "keep", get_args(Unchanged)))
    if value == "drop" and _memory(settings) == "crawl" and not settings.get("DEDUP_SERVICE"):
        raise UsageError(
            "setting DEDUP_UNCHANGED is 'drop', and DEDUP_MEMORY 'crawl': with nothing remembered of "
            'earlier crawls no page is unchanged; set DEDUP_MEMORY = "ever", or an age such as "30d"'
        )
    return value


def _seconds(settings: BaseSettings, name: str, default: float, least: float = 0) -> float:
    value = settings.get(name, default)
    try:
        seconds = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not least <= seconds <= 1e9:
        raise _wrong(name, value, f"a number of seconds from {least} to 1e9")
    return seconds


def _share(settings: BaseSettings, name: str) -> float:
    value = settings.get(name, 0.0)
    try:
        share = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        share = -1.0
    if not 0 <= share <= 1:
        raise _wrong(name, value, "a number from 0.0 to 1.0")
    return share


def _is_auto(settings: BaseSettings) -> bool:
    return settings.get("DEDUP_SERVICE") in ("auto", ["auto"], ("auto",))


def _service(settings: BaseSettings) -> tuple[str, ...]:
    """Return the URLs, checked; errors show a URL without its token."""
    try:
        urls = tuple(settings.getlist("DEDUP_SERVICE"))
    except TypeError:
        urls = (settings.get("DEDUP_SERVICE"),)  # not a list
    if urls:
        try:
            import hiredis  # noqa: F401

            from dedup.wire.client.address import addresses_of
        except ModuleNotFoundError as error:
            raise NotConfigured(
                f"DEDUP_SERVICE needs more: pip install 'crawl-dedup[client]' ({error})"
            ) from error
        try:
            addresses_of(urls)
        except UsageError as error:
            raise UsageError(f"setting DEDUP_SERVICE: {error}") from None
    return urls


def _kafka(settings: BaseSettings) -> "KafkaConfig | None":
    try:
        bootstrap = ",".join(settings.getlist("DEDUP_KAFKA"))
    except TypeError:
        allowed = "host:port, several with commas"
        raise _wrong("DEDUP_KAFKA", settings.get("DEDUP_KAFKA"), allowed) from None
    topic = _text(settings, "DEDUP_TOPIC")
    if not bootstrap:
        return None
    if not settings.get("DEDUP_SERVICE") or _is_auto(settings):
        raise UsageError(
            "setting DEDUP_KAFKA needs the URLs in DEDUP_SERVICE of services that read the events"
        )
    try:
        import aiokafka  # noqa: F401
        import cramjam  # noqa: F401

        from dedup.wire.kafka import kafka_config
    except ModuleNotFoundError as error:
        raise NotConfigured(
            f"DEDUP_KAFKA needs more: pip install 'crawl-dedup[kafka]' ({error})"
        ) from error
    try:
        return kafka_config(bootstrap) if topic is None else kafka_config(bootstrap, topic)
    except UsageError as error:
        raise UsageError(f"setting DEDUP_KAFKA or DEDUP_TOPIC: {error}") from None


def _path(settings: BaseSettings) -> Path:
    """Return the folder; a relative path starts beside the project's scrapy.cfg, if there is one."""
    return _place("DEDUP_PATH", settings.get("DEDUP_PATH") or ".scrapy/dedup", "a folder")


def _report(settings: BaseSettings) -> Path | None:
    value = settings.get("DEDUP_REPORT")
    return _place("DEDUP_REPORT", value, "a file") if value else None


def _place(name: str, value: object, kind: str) -> Path:
    if not isinstance(value, str | Path):
        raise _wrong(name, value, f"the path of {kind}")
    path = Path(value).expanduser()
    if not path.is_absolute() and inside_project():
        path = Path(project_data_dir()).parent / path
    return path
