"""A URL in its parts, the rules about them, and what a URL is under the rules that hold.

    URL -> scheme, host, path, parameters -> the atoms by which two of them differ

An atom is the least that a rule can be about:

    drop:NAME    a parameter that one URL has and the other has not
    value:NAME   a parameter with another value
    part:TEXT    a text in the path that the other has not: "/print", ".amp", "index.html"
    host:A=B     host A in place of host B, which is shorter, or comes later
    scheme, case, slash   http for https, capitals, a slash at the end

Parameters stand in the query, in the path as ";name=value" (the name begins with ";"), or are a session
that ASP.NET puts into the path, "(S(...))" (the name is "(S)"). Their order means nothing here: document
keys are sorted.

A rule is an atom, and the scope that it counts in: "example.com" is a whole host, and for a parameter
"example.com/view" what lies there and below. A mirror (host:A=B) has no scope. People write it as the atom
with the scope behind it: "drop:sid example.com", "value:id example.com/view".

Invariants: two URLs have the same parts only if they are the same URL. URLs are equal under rules if they
agree in everything that the rules do not name; without rules only equal URLs are.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, cast, get_args

from dedup.model.errors import UsageError

# ----------------------------------------------------------------------------------- parts of a URL


Kind = Literal["drop", "value", "part", "host", "scheme", "case", "slash"]
KINDS = get_args(Kind)

LONGEST_URL = 2048  # longer ones are left alone
LONGEST_NAME = 64  # of a parameter, and of a part of a path, that a rule can be about
MOST_PARAMETERS = 64

_URL = re.compile(r"(https?)://([^/?#]+)([^?#]*)(?:\?([^#]*))?\Z", re.DOTALL)
_IN_PATH = re.compile(r";([^;/=]*)(?:=([^;/]*))?|(?<=/)\(([A-Z])\([^/]*\)\)(?:/|\Z)")
_BOUNDS = (
    "/.-_,~"  # a part of a path begins with one of these, or after a slash, and ends before one
)


class Atom(NamedTuple):
    """The least that a rule can be about; name is "" where there is but one of a kind."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        """Return the form in which people write it: "drop:sid", "slash"."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


class Parts(NamedTuple):
    """A URL taken apart: parameters sorted by name, those of the path with their place in it."""

    scheme: str
    host: str
    path: str
    parameters: tuple[tuple[str, str], ...]


def take_apart(url: str) -> Parts | None:
    """Return the parts of a URL; None if it is not of the web, too long, or has no host."""
    found = _URL.match(url) if len(url) <= LONGEST_URL else None
    if found is None:
        return None
    scheme, host, path, query = found.groups()
    parameters: list[tuple[str, str]] = []
    if ";" in path or "(" in path:
        path = _without_sessions(path, parameters)
    if query is not None:
        for parameter in query.split("&"):
            name, equals, value = parameter.partition("=")
            # "a" and "a=" are two texts: what has no "=" keeps a mark that no value can have
            parameters.append((name, value if equals else "#"))
    if len(parameters) > MOST_PARAMETERS:
        return None
    if len(parameters) > 1:
        parameters.sort(key=_name)  # values of one name keep their order
    return Parts(scheme, host, path or "/", tuple(parameters))


def _name(parameter: tuple[str, str]) -> str:
    return parameter[0]


def _without_sessions(path: str, parameters: list[tuple[str, str]]) -> str:
    """Return a path without its parameters, which are added, each with where it stood."""
    kept, at = [], 0
    for found in _IN_PATH.finditer(path):
        kept.append(path[at : found.start()])
        at = found.end()
        place = sum(piece.count("/") for piece in kept)
        name, value, kind = found.groups()
        if kind is None:
            parameters.append((f";{name}", f"{place}:{'#' if value is None else value}"))
        else:
            parameters.append((f"({kind})", f"{place}:{found[0]}"))
    return "".join((*kept, path[at:]))


def differences(a: Parts, b: Parts) -> frozenset[Atom] | None:
    """Return the atoms that explain the difference of two URLs of one site; None if none do."""
    atoms: set[Atom] = set()
    if a.host != b.host:
        hosts = sorted((a.host, b.host), key=lambda host: (-len(host), host))
        atoms.add(Atom("host", "=".join(hosts)))
    if a.scheme != b.scheme:
        atoms.add(Atom("scheme", ""))
    if a.path != b.path:
        atom = _path_difference(a.path, b.path)
        if atom is None:
            return None
        atoms.add(atom)
    if a.parameters != b.parameters:
        mine, theirs = _by_name(a), _by_name(b)
        for name in mine.keys() | theirs.keys():
            a_values, b_values = mine.get(name, []), theirs.get(name, [])
            if a_values == b_values:
                continue
            both = bool(a_values) and bool(b_values)
            if not 0 < len(name) <= LONGEST_NAME or (both and len(a_values) != len(b_values)):
                return None
            atoms.add(Atom("value" if both else "drop", name))
    return frozenset(atoms)


def _by_name(parts: Parts) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in parts.parameters:
        found.setdefault(name, []).append(value)
    return found


def _path_difference(a: str, b: str) -> Atom | None:
    if len(a) < len(b):
        a, b = b, a
    if a == b + "/":
        return Atom("slash", "")
    if a.lower() == b.lower():
        return Atom("case", "")
    part = _inserted(a, b)
    return None if part is None else Atom("part", part)


def _inserted(longer: str, shorter: str) -> str | None:
    """Return the text that, left out of the longer path, gives the shorter one."""
    size = len(longer) - len(shorter)
    if not 1 < size <= LONGEST_NAME:
        return None
    start = 0
    while start < len(shorter) and longer[start] == shorter[start]:
        start += 1
    # "/print" in "/a/print/b" may as well be "print/" one place on: the one with its slash first counts
    found = ""
    for at in range(start, max(start - size, 0) - 1, -1):
        part = longer[at : at + size]
        if longer[at + size :] == shorter[at:] and shortened(longer, part) == shorter:
            if part[0] == "/":
                return part
            found = found or part
    return found or None


def shortened(path: str, part: str) -> str:
    """Return a path without a part, wherever it stands between bounds; often as it was."""
    if part not in path:
        return path
    at = path.find(part)
    while at >= 0:
        end = at + len(part)
        begins = part[0] in _BOUNDS or path[at - 1 : at] == "/"
        if begins and (end == len(path) or path[end] in _BOUNDS):
            path = path[:at] + path[end:] or "/"
            at = path.find(part, max(at - len(part), 0))
        else:
            at = path.find(part, at + 1)
    return path


# -------------------------------------------------------------------------------------------- rules


DEEPEST = 3  # segments of a scope


class Rule(NamedTuple):
    """An atom, and where it counts."""

    atom: Atom
    scope: str

    def __str__(self) -> str:
        """Return the form in which people write it, and rule_of() reads it."""
        return f"{self.atom} {self.scope}" if self.scope else str(self.atom)


def rule_of(text: str) -> Rule:
    """Return the rule that a text names. Raises UsageError."""
    named, _, scope = text.partition(" ")
    kind, _, name = named.partition(":")
    wrong = kind not in KINDS or len(name) > (513 if kind == "host" else LONGEST_NAME)
    wrong = wrong or bool(name) == (kind in {"scheme", "case", "slash"})
    wrong = wrong or bool(scope) == (kind == "host")
    wrong = wrong or (kind == "host" and name.count("=") != 1)
    if wrong or ("/" in scope and kind not in {"drop", "value"}):
        raise UsageError(
            f"{text!r} is not a rule: drop:NAME or value:NAME, a space, and a host or a host and a path; "
            "part:TEXT, scheme, case or slash, a space, and a host; or host:A=B"
        )
    if kind == "host":
        name = "=".join(sorted(name.split("="), key=lambda host: (-len(host), host)))
    return Rule(Atom(cast("Kind", kind), name), scope)


def scopes_of(host: str, path: str = "") -> tuple[str, ...]:
    """Return the scopes that a path of a host lies in, the widest first."""
    found, at = [host], 0
    while len(found) <= DEEPEST and at < len(path):
        end = path.find("/", at + 1)
        at = len(path) if end < 0 else end
        found.append(host + path[:at])
    return tuple(found)


class Normal(NamedTuple):
    """A URL under rules: what it has in common with others, and the rules that were used."""

    form: tuple[object, ...]
    used: tuple[Rule, ...]


class _HostRules:
    """Those rules of a set that count on one host."""

    def __init__(self) -> None:
        self.parts: list[Rule] = []
        self.parameters: dict[str, dict[str, Rule]] = {}  # by name, then by scope
        self.others: dict[str, Rule] = {}  # by kind

    def add(self, rule: Rule) -> None:
        kind, name = rule.atom
        if kind == "part":
            # the longest first: of "/print/amp" and "/amp" the order would decide
            self.parts.append(rule)
            self.parts.sort(key=lambda rule: (-len(rule.atom.name), rule.atom.name))
        elif kind in {"drop", "value"}:
            scopes = self.parameters.setdefault(name, {})
            if rule.scope not in scopes or kind == "drop":  # which says more
                scopes[rule.scope] = rule
        else:
            self.others[kind] = rule

    def path(self, path: str, used: list[Rule]) -> str:
        if (rule := self.others.get("case")) is not None and (lower := path.lower()) != path:
            path = lower
            used.append(rule)
        for rule in self.parts:
            part = rule.atom.name.lower() if "case" in self.others else rule.atom.name
            if (shorter := shortened(path, part)) != path:
                path = shorter
                used.append(rule)
        last = self.others.get("slash")
        if last is not None and len(path) > 1 and path.endswith("/"):
            path = path.rstrip("/") or "/"
            used.append(last)
        return path

    def fewer(
        self, parameters: tuple[tuple[str, str], ...], scopes: tuple[str, ...], used: list[Rule]
    ) -> tuple[tuple[str, str], ...]:
        kept = []
        for name, value in parameters:
            rules = self.parameters.get(name)
            found = [rules[scope] for scope in scopes if scope in rules] if rules else []
            if not found:
                kept.append((name, value))
                continue
            rule = next((rule for rule in found if rule.atom.kind == "drop"), found[0])
            used.append(rule)
            if rule.atom.kind == "value":
                kept.append((name, "*#"))  # which no value is
        return tuple(kept)


class RuleSet:
    """Some rules of one site, ready to be used."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Take the rules."""
        self.rules = frozenset(rules)
        self._mirrors: dict[str, tuple[str, Rule]] = {}
        self._hosts: dict[str, _HostRules] = {}
        for rule in sorted(self.rules):
            if rule.atom.kind == "host":
                host, _, plain = rule.atom.name.partition("=")
                self._mirrors[host] = plain, rule
            else:
                host = rule.scope.partition("/")[0]
                self._hosts.setdefault(host, _HostRules()).add(rule)

    def scopes(self, a: Parts, b: Parts) -> tuple[str, ...]:
        """Return the scopes that two URLs lie in, the widest first: by the shorter one's path."""
        hosts = min((self._host(parts.host, []) for parts in (a, b)), key=lambda h: (len(h), h))
        rules = self._hosts.get(hosts)
        paths = [parts.path if rules is None else rules.path(parts.path, []) for parts in (a, b)]
        return scopes_of(hosts, min(paths, key=len))

    def normal(self, parts: Parts) -> Normal:
        """Return a URL under the rules."""
        used: list[Rule] = []
        scheme, host, path, parameters = parts
        if self._mirrors:
            host = self._host(host, used)
        rules = self._hosts.get(host)
        if rules is None:
            return Normal((scheme, host, path, *parameters), tuple(used))
        if scheme == "http" and "scheme" in rules.others:
            scheme = "https"
            used.append(rules.others["scheme"])
        path = rules.path(path, used)
        if parameters and rules.parameters:
            parameters = rules.fewer(parameters, scopes_of(host, path), used)
        return Normal((scheme, host, path, *parameters), tuple(used))

    def _host(self, host: str, used: list[Rule]) -> str:
        while (known := self._mirrors.get(host)) is not None:  # to shorter ones: it ends
            host, rule = known
            used.append(rule)
        return host
