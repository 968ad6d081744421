"""The options of DEDUP.PROBE, MPROBE and RESERVE, and a cache of them: clients say the same again and again.

arguments -> what one page has of its own | what many share -> Plan: namespace, policy, detector
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.page import USUAL, ReserveOptions
from dedup.model.words import (
    OPTION_WORDS,
    PAGE_WORDS,
    PROBE_WORDS,
    REAL_LENGTH,
    Reader,
    number,
    switch,
    text,
)
from dedup.service.core.command_table import MPROBE, PROBE, RESERVE, shown, wrong_usage
from dedup.service.core.namespaces import PolicyOverrides
from dedup.service.core.operations import Operations

PLANS = 4096  # combinations of namespace and options that are cached


class CommandOptions(msgspec.Struct, frozen=True):
    """A command's options, which follow its fixed arguments.

    page    fields of the page that are given by name
    fields  whether the answer has the fields of documents
    """

    asked: PolicyOverrides = PolicyOverrides()
    reserve: ReserveOptions = USUAL
    page: dict[str, Any] = {}
    domain: str | None = None
    count: int | None = None
    fields: bool = False


def _similarity(argument: bytes) -> float:
    try:
        similarity = float(argument) if len(argument) <= REAL_LENGTH else -1.0
    except ValueError:
        similarity = -1.0
    if not 0 <= similarity <= 1:
        raise UsageError(f"SIMILARITY {argument[:40]!r} is not allowed: a number from 0 to 1")
    return similarity


def _scope(argument: bytes) -> str:
    if argument.lower() not in {b"site", b"global"}:
        raise UsageError(f"SCOPE {argument[:40]!r} is not allowed: site or global")
    return argument.lower().decode()


# By name: the part of CommandOptions, the field, how it is read.
Words = dict[bytes, tuple[str, str, Reader]]


def _words(part: str, words: Mapping[bytes, tuple[str, Reader]]) -> Words:
    return {name: (part, *each) for name, each in words.items()}


_WORDS = _words(
    "asked",
    {
        b"SCOPE": ("scope", _scope),
        b"DISTANCE": ("distance", lambda argument: number(argument, "DISTANCE", 64)),
        b"SIMILARITY": ("similarity", _similarity),
        b"FEATURES": ("min_features", lambda argument: number(argument, "FEATURES")),
    },
) | _words(
    "",
    {
        b"COUNT": ("count", lambda argument: max(number(argument, "COUNT"), 1)),
        b"FIELDS": ("fields", lambda argument: switch(argument, "FIELDS")),
        b"DOMAIN": ("domain", lambda argument: text(argument, "domain")),
    },
)


def _some(names: str) -> Words:
    return {name: _WORDS[name] for name in names.encode().split()}


_ALLOWED = {
    PROBE: _some("SCOPE DISTANCE SIMILARITY COUNT FIELDS DOMAIN") | _words("page", PROBE_WORDS),
    MPROBE: _some("DISTANCE SIMILARITY COUNT"),
    RESERVE: _some("SCOPE DISTANCE SIMILARITY FEATURES FIELDS")
    | _words("reserve", OPTION_WORDS)
    | _words("page", PAGE_WORDS),
}


# What no two pages of a RESERVE have in common.
_OWN = PAGE_WORDS | {b"TOKEN": OPTION_WORDS[b"TOKEN"]}


def split(words: Sequence[bytes]) -> tuple[list[bytes], dict[str, Any]]:
    """Split a RESERVE's options: those that several pages may share, and the page's own, by field."""
    shared: list[bytes] = []
    own: dict[str, Any] = {}
    try:
        for name, word in zip(words[::2], words[1::2], strict=True):
            known = _OWN.get(name) or _OWN.get(name.upper())
            if known is None:
                shared += (name, word)
            elif known[0] in own:
                raise UsageError("given twice")
            else:
                own[known[0]] = known[1](word)
    except ValueError:  # UsageError is one
        options(RESERVE, words)  # which names the first word that is wrong
        raise
    return shared, own


def options(command: bytes, words: Iterable[bytes]) -> CommandOptions:
    """Return the options of a command, each given once at most. Raises UsageError."""
    given: dict[str, dict[str, Any]] = {"asked": {}, "reserve": {}, "page": {}, "": {}}
    allowed, words = _ALLOWED[command], iter(words)
    for word in words:
        name = word.upper()
        part, field, read = allowed.get(name, ("", "", None))
        if read is None or field in given[part]:
            names = ", ".join(sorted(each.decode() for each in allowed))
            said = command.removeprefix(b"DEDUP.").decode()
            raise UsageError(f"unknown option {shown(word)}, or repeated; {said} takes: {names}")
        try:
            given[part][field] = read(next(words))
            if command == PROBE and field == "scope" and given["asked"]["scope"] == "site":
                given[""]["domain"] = text(next(words), "domain")
        except StopIteration:
            raise UsageError(f"{name.decode()} has too few arguments") from None
    return CommandOptions(
        PolicyOverrides(**given["asked"]),
        ReserveOptions(**given["reserve"]),
        given["page"],
        **given[""],
    )


class Plan(NamedTuple):
    """The namespace and the options of a PROBE or RESERVE, parsed; what is one page's own is left out of a RESERVE's.

    detector  None: there is no such namespace
    """

    namespace: str
    recipe: str
    detector: EmbeddedDetector | None
    given: CommandOptions


class Plans:
    """A cache of parsed options, by the words that said them: namespace, RECIPE, recipe, and the options."""

    def __init__(self, commands: Operations) -> None:
        self.commands = commands
        self._plans: dict[tuple[bytes, ...], Plan] = {}
        self._page_plans: dict[tuple[bytes, ...], Plan] = {}
        self._closed = 0

    def of(self, arguments: list[bytes]) -> Plan:
        """Return the plan of a DEDUP.PROBE."""
        self._check()
        said = (arguments[1], *arguments[4:])
        return self._plans.get(said) or self._made(self._plans, PROBE, said)

    def of_page(self, arguments: list[bytes]) -> tuple[Plan, dict[str, Any], str | None]:
        """Return the plan of a RESERVE, the page's fields that are given by name, and its token."""
        self._check()
        shared, own = split(arguments[10:]) if len(arguments) > 10 else ((), {})
        said = (arguments[1], *arguments[8:10], *shared)
        plan = self._page_plans.get(said) or self._made(self._page_plans, RESERVE, said)
        return plan, own, own.pop("token", None)

    def _check(self) -> None:
        """Raise Refused (NOTREADY), or forget plans whose detectors may be closed."""
        commands = self.commands
        if commands.not_ready is not None:
            commands.check_ready()
        if self._closed != commands.namespaces.closed:
            self._closed = commands.namespaces.closed
            self._plans.clear()
            self._page_plans.clear()

    def _made(
        self, plans: dict[tuple[bytes, ...], Plan], command: bytes, said: tuple[bytes, ...]
    ) -> Plan:
        if said[1].upper() != b"RECIPE":
            raise wrong_usage(command, "RECIPE is missing")
        given = options(command, said[3:])
        namespace, recipe = text(said[0], "namespace"), text(said[2], "recipe")
        plan = Plan(
            namespace, recipe, self.commands.detector(namespace, recipe, given.asked), given
        )
        # others are too different to cache
        if plan.detector is not None and given.domain is None and not given.page:
            if len(plans) >= PLANS:
                plans.clear()
            plans[said] = plan
        return plan
