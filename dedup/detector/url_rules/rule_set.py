"""A rule, and what a URL is under the rules that hold.

A rule is an atom, and the scope that it counts in: "example.com" is a whole host, and for a parameter
"example.com/view" what lies there and below. A mirror (host:A=B) has no scope. People write it as the atom
with the scope behind it: "drop:sid example.com", "value:id example.com/view".

Invariant: URLs are equal under rules if they agree in everything that the rules do not name. Without rules
only equal URLs are.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from dedup.detector.url_rules.taken_apart import KINDS, LONGEST_NAME, Atom, Kind, Parts, shortened
from dedup.model.errors import UsageError

__all__ = ["Normal", "Rule", "RuleSet", "rule_of", "scopes_of"]

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
