"""The settings, one declaration each: the add-on's DEDUP_NAME, flags and environment are derived.

    Setting(name, type, default, help) -> key DEDUP_NAME, flag --name, read(value), allowed (in errors)

To add a setting, add it here, use it, and describe it in docs/settings.md.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from dedup.model.errors import UsageError
from dedup.model.names import NAMESPACE
from dedup.model.page import EXEMPTIONS, TRIES

Scope = Literal["global", "site"]
Preset = Literal["careful", "paper"]
Similarity = float | Preset
Mode = Literal["drop", "skip_links", "tag"]
Unchanged = Literal["keep", "drop"]
Urls = Literal["learn", "skip", "off"]
Proof = Literal["items", "text"]
ProofItems = Literal["withhold", "keep"]

RESERVATION_SECONDS = 600.0
TIMEOUT_SECONDS = 0.5

_Share = Annotated[float, Meta(ge=0.0, le=1.0)]
_Seconds = Annotated[float, Meta(ge=0.001, le=1e9)]
_AGE = "0*[1-9][0-9]{0,9}[smhd]?"


class Setting(msgspec.Struct, frozen=True):
    """A setting.

    name     "distance": the setting DEDUP_DISTANCE, the flag --distance
    type     what msgspec makes of a value, with its bounds; texts are converted
    default  None: as `help` says
    help     of the flag; it says what is so without it where the default is None
    unit     of a number
    words    what is allowed, where the type does not say it well
    """

    name: str
    type: Any
    default: Any
    help: str
    unit: str = ""
    words: str = ""

    @property
    def key(self) -> str:
        """The name among Scrapy's settings and in the environment."""
        return f"DEDUP_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The option of a command."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def form(self) -> Any:
        """The type, looked into: msgspec.inspect's IntType with its bounds, LiteralType and so on."""
        from msgspec.inspect import type_info  # not needed in a crawl

        return type_info(self.type)

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that are allowed; none if other values are, too."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        form = self.form
        if self.words:
            return self.words
        if self.choices:
            return " or ".join(self.choices)
        if (low := getattr(form, "ge", None)) is None:
            return "True or False"
        if isinstance(low, int):
            return f"a whole number from {low} to {form.le}"
        return f"a number of {self.unit} from {low:g} to {form.le:g}".replace("1e+09", "1e9")

    def read(self, value: object) -> Any:
        """Return a value converted and checked. Raises UsageError that says what is allowed."""
        try:
            return msgspec.convert(value, self.type, strict=False, dec_hook=_path)
        except msgspec.ValidationError:
            raise self.wrong(value) from None

    def wrong(self, value: object) -> UsageError:
        """Return the error for a wrong value."""
        return UsageError(f"setting {self.key} is {value!r}; allowed is {self.allowed}")


def _path(kind: type, value: object) -> Path:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError


_ALL = (
    Setting("enabled", bool, True, "Whether the add-on does anything."),
    Setting("mode", Mode, "drop", "What happens to a near-duplicate."),
    Setting("report", Path | None, None, "File of the crawl's report, HTML or JSON.", words="the path of a file"),
    Setting("dropped", Path | None, None, "File that lists every drop, a line of JSON each.", words="the path of a file"),
    Setting("proof", Proof, "items", "Whether the spider's items decide about near-duplicates, or the text."),
    Setting("proof_items", ProofItems, "withhold", "Whether pages parsed as evidence bring items equal to the original's."),
    Setting("control", Annotated[int, Meta(ge=0, le=100)], 3, "Number of control visits for each callback.", "visits"),
    Setting("item_ignore", tuple[str, ...], (), "Fields of items that are not compared.", words="a list of names of items' fields"),
    Setting(
        "similarity",
        _Share | Preset,
        None,
        "Least similarity of near-duplicates, 0 to 1. careful: the recipe's; paper: distance 3, "
        "without comparing texts. [default: careful]",
        words="a number from 0.0 to 1.0, careful or paper",
    ),
    Setting(
        "distance",
        Annotated[int, Meta(ge=0, le=15)],
        None,
        "Greatest distance of near-duplicates, in bits. [default: the recipe's]",
        "bits",
    ),
    Setting(
        "min_features",
        Annotated[int, Meta(ge=0, le=2**32 - 1)],
        None,
        "Keep pages with fewer distinct words unjudged. [default: the recipe's]",
        "features",
    ),
    Setting("scope", Scope, "global", "Compare all pages, or only pages of one registrable domain."),
    Setting("kinds", bool, True, "Whether only pages for the same callback are compared."),
    Setting("exempt", tuple[str, ...], None, "Reasons for which a page is kept. [default: all]", words=f"a list of {', '.join(EXEMPTIONS)}"),
    Setting(
        "tries",
        Annotated[int, Meta(ge=0, le=1000)],
        TRIES,
        "Number of similar pages without an item after which others like them are dropped.",
        "pages",
    ),
    Setting(
        "max_bytes",
        Annotated[int, Meta(ge=1, le=2**31)],
        16 << 20,
        "Keep larger pages unjudged.",
        "bytes",
    ),
    Setting(
        "memory",
        Annotated[str, Meta(pattern=rf"^(crawl|ever|{_AGE})\Z")],
        "crawl",
        "What the store keeps of earlier crawls.",
        words="crawl, ever, or an age such as 30d, 12h or 90m",
    ),
    Setting("unchanged", Unchanged, "keep", "Whether unchanged pages of earlier crawls bring items."),
    Setting("path", Path, Path(".scrapy/dedup"), "Folder of the stores.", words="the path of a folder"),
    Setting(
        "namespace",
        Annotated[str, Meta(pattern=rf"^{NAMESPACE}\Z")] | None,
        None,
        "Compare within this namespace.",
        words="1 to 64 of the characters A-Z a-z 0-9 . _ - and no dot first",
    ),
    Setting("urls", Urls, "learn", "Whether the crawl learns URL rules, and skips requests by them."),
    Setting("service", tuple[str, ...], (), "Table services, in order of preference."),
    Setting(
        "timeout_seconds", _Seconds, TIMEOUT_SECONDS, "How long to wait for a service.", "seconds"
    ),
    Setting("kafka", tuple[str, ...], (), "Kafka brokers to connect to first.", words="host:port, several with commas"),
    Setting("topic", str | None, None, "Topic of the insert events. [default: dedup.inserts]", words="a text"),
    Setting(
        "wait_seconds",
        Annotated[float, Meta(ge=0.0, le=1e9)],
        1.0,
        "How long a page waits for a near-duplicate in flight.",
        "seconds",
    ),
    Setting(
        "reservation_seconds",
        _Seconds,
        RESERVATION_SECONDS,
        "How long a page may be in flight before its reservation expires.",
        "seconds",
    ),
    Setting(
        "secret",
        str | None,
        None,
        "Secret key of the fingerprints; safer in the environment than on the command line.",
        words="a text",
    ),
)  # fmt: skip

SETTINGS = {setting.name: setting for setting in _ALL}
