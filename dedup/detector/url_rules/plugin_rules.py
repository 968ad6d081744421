"""Rules as the Scrapy plugin duplicate-url-discarder reads them: a file for DUD_LOAD_RULE_PATHS.

The plugin takes parameters away, a leading "www." and slashes at the end. So it can be told of parameters
that may be absent (drop:NAME), and of a "www." host and a slash that mean nothing both. Not of the others:
that the value of a parameter means nothing does not say that it may be absent.

The rule kept here: what the plugin would take for more than was learned is left out, and named. Its patterns
take a host with and without "www." for one.
"""

from collections.abc import Iterable
from typing import Any

from dedup.detector.url_rules.rule_set import Rule

__all__ = ["plugin_rules"]

_ORDER = 100


def plugin_rules(rules: Iterable[Rule]) -> tuple[list[dict[str, Any]], list[Rule]]:
    """Return the plugin's rules for those that hold, and those that it has no words for."""
    by_scope: dict[str, list[str]] = {}
    left_out: list[Rule] = []
    known = sorted(rules)
    slashes = {rule.scope: rule for rule in known if rule.atom.kind == "slash"}
    hosts = {rule.atom.name: rule for rule in known if rule.atom.kind == "host"}
    both = {host for host in slashes if f"www.{host}={host}" in hosts}
    for rule in known:
        if rule.atom.kind == "drop" and not rule.atom.name.startswith((";", "(")):
            by_scope.setdefault(rule.scope, []).append(rule.atom.name)
        elif (rule.atom.kind == "slash" and rule.scope in both) or (
            rule.atom.kind == "host" and rule.atom.name.partition("=")[2] in both
        ):
            pass
        else:
            left_out.append(rule)
    written = [_written(scope, "queryRemoval", names) for scope, names in by_scope.items()]
    return written + [_written(host, "normalizer", []) for host in sorted(both)], left_out


def _written(scope: str, processor: str, args: list[str]) -> dict[str, Any]:
    host, slash, path = scope.partition("/")
    ends = (f"/{path}|", f"/{path}/") if slash else ("/",)
    include = [f"{scheme}://{host}{end}" for scheme in ("http", "https") for end in ends]
    rule = {"order": _ORDER, "processor": processor, "urlPattern": {"include": include}}
    return rule | {"args": args} if args else rule
