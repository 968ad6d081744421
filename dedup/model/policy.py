"""Settings and options, one declaration each; and what follows: when two pages are near-duplicates.

    Setting(name, type, default, help) -> key DEDUP_NAME, flag --name, read(value), allowed (in errors)
    OpenOptions (keywords, typed) -> Options (checked, frozen) -> Policy (with the recipe's defaults)

To add a setting, add it here, use it, and describe it in docs/reference/settings.md, or in rare-settings.md beside it.

Options are made once, at the edge where a person gives them (open(), settings, flags, a request), and
passed on as one value.

Invariant: the error for an option that is out of range names the option, its value and the range, before
anything is opened.
"""

import re
import time
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, get_args, get_origin

import msgspec
from msgspec import Meta

from dedup.model.errors import UsageError
from dedup.model.names import NAMESPACE, check_namespace
from dedup.model.page import EXEMPTIONS
from dedup.model.recipes import SIMILARITIES, Limits, Recipe, recipe_of

Scope = Literal["global", "site"]
Preset = Literal["careful", "paper"]
Similarity = float | Preset
Mode = Literal["drop", "skip_links", "tag"]
Unchanged = Literal["keep", "drop"]
Proof = Literal["items", "text", "exact"]
ProofItems = Literal["withhold", "keep"]

RESERVATION_SECONDS = 600.0
GREATEST_DISTANCE = 15  # that a store finds, in bits
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
    Setting("proof", Proof, "items", "What decides about near-duplicates: the spider's items, the text, or the whole page."),
    Setting("proof_items", ProofItems, "withhold", "Whether seen items of checked pages are withheld, or passed on."),
    Setting("control", Annotated[int, Meta(ge=0, le=100)], 3, "Pages of each callback that are fetched a second time, to find numbers that each fetch changes.", "pages"),
    Setting("risk", Annotated[float, Meta(ge=0.0, lt=1.0)], 0.5, "Expected number of wanted pages that a pattern drops between two spot checks.", words="a number from 0.0 to below 1.0"),
    Setting("item_fields", tuple[str, ...], (), "Fields that tell items apart; the others do not count.", words="a list of names of items' fields"),
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
        Annotated[int, Meta(ge=0, le=GREATEST_DISTANCE)],
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
    Setting("exempt", tuple[str, ...], None, "Reasons for which a page is kept. [default: all]", words=f"a list of {', '.join(EXEMPTIONS)}; one with a minus takes it away"),
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
    Setting("unchanged", Unchanged, "keep", "Whether unchanged pages of earlier crawls yield items."),
    Setting("path", Path, Path(".scrapy/dedup"), "Folder of the stores.", words="the path of a folder"),
    Setting(
        "namespace",
        Annotated[str, Meta(pattern=rf"^{NAMESPACE}\Z")] | None,
        None,
        "Namespace; only its pages are compared.",
        words="1 to 64 of the characters A-Z a-z 0-9 . _ - and no dot first",
    ),
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


# ------------------------------------------------------------------- what open() is told


PAPER_DISTANCE = 3  # of Manku, Jain and Das Sarma (WWW 2007)
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Policy(Limits, frozen=True, kw_only=True):
    """The limits in force, which pages are compared, and how long a page may be in flight."""

    scope: Scope
    reservation_seconds: float


class OpenOptions(TypedDict, total=False):
    """The keywords of dedup.open(), for type checkers; Options says what each one means."""

    namespace: str
    distance: int | None
    similarity: Similarity | None
    min_features: int | None
    scope: Scope
    secret: str | None
    recipe: Recipe | str | None
    reservation_seconds: float
    timeout_seconds: float
    clock: Callable[[], float]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a detector. Raises UsageError for what is not allowed.

    namespace            pages of one namespace are compared with each other
    distance             greatest Hamming distance of value, 0 to 15 bits; None: the recipe's
    similarity           least similarity of two texts, 0 to 1, of one site or of two; or "careful",
                         the recipe's, or "paper": k = 3, and the simhash alone decides
    min_features         pages with fewer features are exempt
    scope                "global", or "site": only pages of the same registrable domain match
    secret               keys the recipe
    recipe               None: an existing store keeps its own, a new one takes the newest
    reservation_seconds  how long a page may be in flight
    timeout_seconds      services only: how long to wait for one's answer
    clock                folders only: seconds that never go back
    """

    namespace: str = "default"
    distance: int | None = None
    similarity: Similarity | None = None
    min_features: int | None = None
    scope: Scope = "global"
    secret: str | None = None
    recipe: Recipe | str | None = None
    reservation_seconds: float = RESERVATION_SECONDS
    timeout_seconds: float = TIMEOUT_SECONDS
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Raise UsageError naming the option that is outside what is allowed."""
        check_namespace(self.namespace)
        _check_number("distance", self.distance)
        _check_similarity(self.similarity)
        _check_number("min_features", self.min_features)
        if self.scope not in get_args(Scope):
            raise UsageError(f"scope {self.scope!r} is not allowed: 'global' or 'site'")
        _check_seconds("reservation_seconds", self.reservation_seconds)
        _check_seconds("timeout_seconds", self.timeout_seconds)

    @property
    def recipe_id(self) -> str | None:
        """The id of the recipe that is asked for; None: whichever the store has."""
        return self.recipe.id if isinstance(self.recipe, Recipe) else self.recipe

    def known_recipe(self) -> Recipe:
        """Return the recipe that is asked for, by default the newest. Raises RecipeMismatch."""
        if isinstance(self.recipe, Recipe):
            return self.recipe
        return recipe_of(self.recipe, self.secret)

    def policy(self, recipe: Recipe) -> Policy:
        """Return the policy in force; what was left open is the recipe's."""
        limits = {name: getattr(recipe, name) for name in Limits.__struct_fields__}
        if self.similarity == "paper":
            limits |= {"distance": PAPER_DISTANCE, **dict.fromkeys(SIMILARITIES, 0.0)}
        elif self.similarity not in {None, "careful"}:
            limits |= dict.fromkeys(SIMILARITIES, float(self.similarity))
        if self.distance is not None:
            limits["distance"] = int(self.distance)
        if self.min_features is not None:
            limits["min_features"] = max(1, int(self.min_features))  # an unread page has 0
        limits["full_features"] = max(limits["min_features"], recipe.full_features)
        return Policy(
            **limits, scope=self.scope, reservation_seconds=float(self.reservation_seconds)
        )


def age_seconds(text: str) -> int | None:
    """Return the seconds of an age (30d, 12h, 90m, 20s, or seconds), None for another text."""
    match = re.fullmatch(r"([0-9]{1,10})([smhd]?)", text)
    return int(match[1]) * _UNIT_SECONDS[match[2]] if match else None


def _check_number(name: str, value: object) -> None:
    """Raise UsageError for a number that is not within the bounds of its setting."""
    if value is None:
        return
    if isinstance(value, Integral) and not isinstance(value, bool):
        try:
            msgspec.convert(int(value), SETTINGS[name].type)
        except msgspec.ValidationError:
            pass
        else:
            return
    setting = SETTINGS[name]
    raise UsageError(
        f"{name} {value!r} is not allowed: a whole number of {setting.unit}, "
        f"{setting.form.ge} to {setting.form.le}"
    )


def _check_similarity(value: object) -> None:
    if value is None or value in get_args(Preset):
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(
            f"similarity {value!r} is not allowed: a number from 0 to 1, 'careful' or 'paper'"
        )


def _check_seconds(name: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not (
        isinstance(seconds, int | float) and 0 < seconds < float("inf")
    ):
        raise UsageError(f"{name} {seconds!r} is not allowed: a number of seconds > 0")
