"""The words of commands: texts, and the options of DEDUP.PROBE, MPROBE and RESERVE, which clients say again and again.

namespace, recipe, NAME value ... -> Plan (cached): options, detector; a page's token is its own
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from dedup.detector import EmbeddedDetector
from dedup.model.errors import UsageError
from dedup.model.forms import FIELD_BYTES, check_field
from dedup.model.recipes import NEVER
from dedup.service.core.command_table import (
    LEAST_SPAN,
    LONGEST_SPAN,
    MPROBE,
    PROBE,
    REASON,
    RESERVE,
    TOKEN,
    shown,
)
from dedup.service.core.namespaces import PolicyOverrides
from dedup.service.core.operations import Operations

PLANS = 4096  # combinations of namespace, recipe and options that are cached
NUMBER_LENGTH = 32  # of a number with a point; plans are cached by their spelling
COUNT = 2**32 - 1  # greatest number that a client may send


class CommandOptions(msgspec.Struct, frozen=True):
    """The options of a command; fields: whether the answer has the documents that are near, whole."""

    policy: PolicyOverrides = PolicyOverrides()
    exempt: str | None = None
    guard: bool = True
    seconds: float | None = None
    least: float = 0.0
    count: int | None = None
    fields: bool = False


def text(word: bytes, name: str) -> str:
    """Return a word that is text. Raises TooLong, too."""
    if len(word) > FIELD_BYTES[name]:
        check_field(name, word.decode("utf-8", "replace"))
    try:
        return word.decode()
    except UnicodeDecodeError as fault:
        raise UsageError(f"{name} is not UTF-8: {fault}") from fault


def _number(word: bytes, name: str, greatest: int = COUNT) -> int:
    if word.isdigit() and len(word) <= 10 and (found := int(word)) <= greatest:
        return found
    raise UsageError(f"{name} {word[:40]!r} is not allowed: a number in 0 .. {greatest}")


def _real(word: bytes, name: str, least: float, greatest: float, allowed: str) -> float:
    try:
        found = float(word) if len(word) <= NUMBER_LENGTH else -1.0
    except ValueError:
        found = -1.0
    if not least <= found <= greatest:
        raise UsageError(f"{name} {word[:40]!r} is not allowed: {allowed}")
    return found


def _one_of(word: bytes, name: str, *allowed: str) -> str:
    if (found := word.lower().decode("ascii", "replace")) not in allowed:
        raise UsageError(f"{name} {word[:40]!r} is not allowed: {' or '.join(allowed)}")
    return found


def _matching(word: bytes, name: str, form: re.Pattern[str], allowed: str) -> str:
    found = word.decode("ascii", "replace")
    if not form.fullmatch(found):
        raise UsageError(f"{name} {word[:80]!r} is not allowed: {allowed}")
    return found


# By name: the field of PolicyOverrides, or else of CommandOptions, and how its word is read.
_POLICY: dict[bytes, tuple[str, Callable[[bytes], Any]]] = {
    b"SCOPE": ("scope", lambda word: _one_of(word, "SCOPE", "site", "global")),
    b"DISTANCE": ("distance", lambda word: _number(word, "DISTANCE", 64)),
    b"SIMILARITY": (
        "similarity",
        lambda word: _real(word, "SIMILARITY", 0, 1, "a number from 0 to 1"),
    ),
    b"FEATURES": ("min_features", lambda word: _number(word, "FEATURES")),
}
_OTHERS: dict[bytes, tuple[str, Callable[[bytes], Any]]] = {
    b"COUNT": ("count", lambda word: max(_number(word, "COUNT"), 1)),
    b"FIELDS": ("fields", lambda word: _one_of(word, "FIELDS", "on", "off") == "on"),
    b"EXEMPT": ("exempt", lambda word: _matching(word, "EXEMPT", REASON, "[a-z_], up to 32")),
    b"GUARD": ("guard", lambda word: _one_of(word, "GUARD", "on", "off") == "on"),
    b"LEAST": ("least", lambda word: _real(word, "LEAST", 0, NEVER, "a number from 0 to 2")),
    b"SECONDS": (
        "seconds",
        lambda word: min(
            _real(word, "SECONDS", LEAST_SPAN, 1e300, f"a number from {LEAST_SPAN} on"),
            LONGEST_SPAN,
        ),
    ),
}
_ALLOWED = {
    PROBE: b"COUNT DISTANCE FEATURES FIELDS SCOPE SIMILARITY".split(),
    MPROBE: b"COUNT DISTANCE FEATURES SCOPE SIMILARITY".split(),
    RESERVE: b"DISTANCE EXEMPT FEATURES FIELDS GUARD LEAST SCOPE SECONDS SIMILARITY TOKEN".split(),
}


def options(command: bytes, words: Sequence[bytes]) -> CommandOptions:
    """Return the options of a command, each given once at most. Raises UsageError."""
    policy: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for at in range(0, len(words), 2):
        name = words[at].upper()
        given, known = (policy, _POLICY) if name in _POLICY else (others, _OTHERS)
        field, read = known.get(name, ("", None))
        if read is None or name not in _ALLOWED[command] or field in given:
            names = ", ".join(each.decode() for each in _ALLOWED[command])
            said = command.removeprefix(b"DEDUP.").decode()
            raise UsageError(
                f"unknown option {shown(words[at])}, or repeated; {said} takes: {names}"
            )
        if at + 1 == len(words):
            raise UsageError(f"{name.decode()} has too few arguments")
        given[field] = read(words[at + 1])
    return CommandOptions(PolicyOverrides(**policy), **others)


def split_token(words: list[bytes]) -> tuple[list[bytes], str | None]:
    """Return the options of a RESERVE that several pages may share, and the page's token."""
    at = 0 if words and words[0] == b"TOKEN" else -1
    if at < 0:
        found = [i for i in range(0, len(words) - 1, 2) if words[i].upper() == b"TOKEN"]
        if len(found) != 1:
            return words, None  # more of them: options() refuses the word
        at = found[0]
    if at + 1 == len(words):
        raise UsageError("TOKEN has too few arguments")
    token = words[at + 1].decode("ascii", "replace")
    if not TOKEN.fullmatch(token):
        raise UsageError(f"TOKEN {token[:80]!r} is not allowed: [A-Za-z0-9-], 16 to 64 of them")
    return words[:at] + words[at + 2 :], token


class Plan(NamedTuple):
    """The options of a command, parsed; detector: of its namespace, None: there is no such namespace."""

    namespace: str
    detector: EmbeddedDetector | None
    given: CommandOptions


class Plans:
    """A cache of plans, by the command and the words that said them."""

    def __init__(self, commands: Operations) -> None:
        self.commands = commands
        self._plans: dict[Any, Plan] = {}
        self._closed = 0

    def of(self, command: bytes, namespace: bytes, recipe: str, words: Sequence[bytes]) -> Plan:
        """Return the plan of a command with pages of a recipe. Raises Refused, RecipeMismatch and UsageError."""
        commands = self.commands
        if commands.not_ready is not None:
            commands.check_ready()
        if self._closed != commands.namespaces.closed:  # detectors may be closed
            self._closed = commands.namespaces.closed
            self._plans.clear()
        said = (command, namespace, recipe, *words)
        return self._plans.get(said) or self._made(said)

    def _made(self, said: Any) -> Plan:
        command, namespace, recipe, *words = said
        given, name = options(command, words), text(namespace, "namespace")
        plan = Plan(name, self.commands.detector(name, recipe, given.policy), given)
        if plan.detector is not None:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[said] = plan
        return plan
