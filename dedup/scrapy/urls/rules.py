"""Rules about URLs: which differences between the URLs of a site mean nothing, and what a URL is without them.

    drop:NAME HOST/PATH   the parameter, which may be absent; drop:NAME=1|2: if it has one of these values
    value:NAME HOST/PATH  the value of the parameter; value:NAME=1|2: which of these it is
    part:TEXT HOST        a text in the path, in any case: "/print", "index.html"
    host:A=B              host A in place of B, of the same site
    scheme HOST, case HOST, slash HOST   http or https; capitals in the path; slashes at its end

A rule is a difference of evidence/difference.py, on one host. Parameters in the path (";jsessionid"), and ASP.NET's
sessions there ("(S)"), are read as if they stood in the query, with their place.

Invariant: URLs are mapped together only if they agree in everything that the rules do not name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_plus, unquote_plus

from dedup.model.errors import UsageError
from dedup.model.names import registrable_domain
from dedup.scrapy.evidence.difference import differences

LONGEST_URL = 1000  # longer ones are left alone
MOST_DIFFERENCES = 6  # parameters in which a pair may differ that still is evidence

KINDS = (
    "host",
    "scheme",
    "case",
    "part",
    "slash",
    "drop",
    "value",
)  # in the order in which they are applied
PARAMETERS = {"drop", "value"}

_URL = re.compile(r"(https?)://([^/?#]+)([^?#]*)(?:\?([^#]*))?\Z", re.DOTALL)
_IN_PATH = re.compile(r"(;[^;/=]+)(?:=([^;/]*))?|/\(([A-Z])\(([^/]*)\)\)(?=/|\Z)")
_TEXT = re.compile(r"([a-z]+)(?::(\S+))?(?: ([^\s/]+)(/\S*)?)?")
_NAME = re.compile(r"[^\s=]{1,64}")

Values = frozenset[str]  # of a parameter, for which a rule counts; none: for all


class Rule(NamedTuple):
    """A difference that means nothing, and the host, or the host and path, where it does."""

    kind: str
    name: str
    scope: str

    def text(self, values: Values = frozenset()) -> str:
        """Return the form in which people write it, and rule_of() reads it."""
        name = f"{self.name}={'|'.join(sorted(values))}" if values else self.name
        return f"{self.kind}{name and ':'}{name} {self.scope}".rstrip()

    @property
    def host(self) -> str:
        """The host that it leaves."""
        return self.scope.partition("/")[0] or self.name.partition("=")[2]


def rule_of(text: str) -> tuple[Rule, Values]:
    """Return the rule that a text names. Raises UsageError."""
    found = _TEXT.fullmatch(text)
    kind, name, host, path = ("", "", "", "") if found is None else found.groups(default="")
    values = ""
    if kind == "host":
        hosts = _longest_first(*{*name.lower().split("=")})
        sites = {registrable_domain(f"http://{each}/") for each in hosts}
        right = len(hosts) == 2 and len(sites) == 1 and "" not in hosts and not host
        name = "=".join(hosts)
    elif kind in PARAMETERS:
        name, _, values = name.partition("=")
        right = bool(host and _NAME.fullmatch(name))
    else:
        right = kind in KINDS and bool(host) and not path and bool(name) == (kind == "part")
    if not right:
        raise UsageError(
            f"{text[:100]!r} is not a rule: drop:NAME or value:NAME, a space, and a host or a host and a path; "
            "part:TEXT, scheme, case or slash, a space, and a host; or host:A=B"
        )
    scope = host.lower() + path.rstrip("/")
    return Rule(kind, name, scope), frozenset(filter(None, values.split("|")))


def read_rules(path: Path) -> tuple[dict[Rule, Values], frozenset[Rule]]:
    """Return the rules that a person's file pins, and those that it forbids (DEDUP_URL_RULES).

    A line is a rule, also behind "pin "; behind "-" or "forbid " it is forbidden. Raises UsageError with file and line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"setting DEDUP_URL_RULES: {path} cannot be read: {error}") from error
    pinned: dict[Rule, Values] = {}
    forbidden: set[Rule] = set()
    for number, line in enumerate(lines, 1):
        text = " ".join(line.split())
        word = re.match("(?:#|-|forbid |pin )? ?", text)
        if not text or text[0] == "#" or word is None:
            continue
        try:
            rule, values = rule_of(text[word.end() :])
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
        if word[0][:1] in {"-", "f"}:
            # what is learned counts for a whole host; and what may be absent has no value that means something
            kinds = {rule.kind, "drop"} if rule.kind == "value" else {rule.kind}
            forbidden |= {Rule(kind, rule.name, rule.scope and rule.host) for kind in kinds}
        else:
            pinned[rule] = values
    return pinned, frozenset(forbidden)


class _Url(NamedTuple):
    scheme: str
    host: str
    path: str
    query: tuple[str, ...]  # "name=value"

    def __str__(self) -> str:
        query = "&".join(self.query)
        return f"{self.scheme}://{self.host}{self.path}{query and '?'}{query}"


@lru_cache(64)  # a pair is looked at several times
def _parts(url: str) -> _Url | None:
    """Return a URL in its parts, the parameters of the path among those of the query."""
    found = _URL.match(url) if len(url) <= LONGEST_URL else None
    if found is None:
        return None
    scheme, host, path, text = found.groups(default="")
    query = text.split("&") if text else []
    if ";" in path or "/(" in path:
        for each in _IN_PATH.finditer(path):
            name, value = each[1] or f"({each[3]})", each[2] or each[4] or ""
            place = path.count("/", 0, each.start())
            query.append(
                "=".join(quote_plus(t, "/:", errors="replace") for t in (name, f"{place}:{value}"))
            )
        path = _IN_PATH.sub("", path)
    return _Url(scheme, host, path or "/", tuple(query))


def _applied(url: _Url, rule: Rule, values: Values) -> _Url:
    """Return a URL on the host of a rule as the rule leaves it."""
    kind, name, scope = rule
    path = url.path
    if kind in PARAMETERS:
        _, slash, folder = scope.partition("/")
        if not f"{path}/".startswith(f"{slash}{folder}/"):
            return url
        instead = [f"{name}=*"] if kind == "value" else []
        kept: list[str] = []
        for each in url.query:
            is_meant = _name(each) == name and (not values or each.partition("=")[2] in values)
            kept += instead if is_meant else [each]
        return url._replace(query=tuple(kept))
    if kind == "scheme":
        return url._replace(scheme="https")
    if kind == "case":
        path = path.lower()
    elif kind == "slash":
        path = path.rstrip("/")
    else:
        begin = "" if name[0] in "/.,_~-" else "(?<=/)"
        path = re.sub(rf"(?i){begin}{re.escape(name)}(?=[/.,_~-]|\Z)", "", path)
    return url._replace(path=path or "/")


def _needle(rule: Rule) -> str:
    """Return a text that every URL has which a rule changes, whatever its capitals: most have none."""
    if rule.kind in {"scheme", "case", "slash"}:
        return "http:" if rule.kind == "scheme" else ""
    return max(re.findall("[a-z0-9_]+", rule.name.partition("=")[0].lower()), key=len, default="")


def _name(parameter: str) -> str:
    name = parameter.partition("=")[0]
    return unquote_plus(name).replace(" ", "") if "%" in name or "+" in name else name


def _longest_first(*hosts: str) -> list[str]:
    return sorted(hosts, key=lambda host: (-len(host), host))


class RuleSet:
    """Some rules of one site, in force."""

    def __init__(self, rules: Mapping[Rule, Values]) -> None:
        """Take the rules."""
        self.rules = rules
        self._mirrors: dict[str, Rule] = {}
        self._hosts: dict[str, list[tuple[Rule, Values]]] = {}
        self._needles = {*map(_needle, rules)}
        # the longest first: of "/print/amp" and "/amp" the order would decide
        order = sorted(rules, key=lambda r: (KINDS.index(r.kind), -len(r.name), r))
        for rule in order:
            if rule.kind == "host":
                self._mirrors[rule.name.partition("=")[0]] = rule
            else:
                self._hosts.setdefault(rule.host, []).append((rule, rules[rule]))

    def normal(self, key: str) -> tuple[str, list[Rule]]:
        """Return what a URL is under the rules, and those that say so; itself, if none does."""
        used: list[Rule] = []
        lower = key.lower()
        url = _parts(key) if any(needle in lower for needle in self._needles) else None
        if url is None:
            return key, used
        while mirror := self._mirrors.get(url.host):  # to shorter or later ones: it ends
            url = url._replace(host=mirror.host)
            used.append(mirror)
        url = _under(url, self._hosts.get(url.host, ()), used)
        return (str(url), used) if used else (key, used)

    def mapping(self, a: str, b: str) -> frozenset[Rule] | None:
        """Return the rules by which two URLs are mapped together; None if they are not."""
        (one, used), (other, more) = self.normal(a), self.normal(b)
        return frozenset((*used, *more)) if one == other else None


def _under(url: _Url, rules: Sequence[tuple[Rule, Values]], used: list[Rule]) -> _Url:
    """Return a URL as rules of its host leave it, and add those that change it to used."""
    before = None
    while url != before:
        before = url
        for rule, values in rules:
            after = _applied(url, rule, values)
            if after != url:
                url = after
                used.append(rule)
    return url


# ---------------------------------------------------------------------- what two URLs may teach


def candidates(a: str, b: str) -> list[Rule]:
    """Return the rules that would map two URLs of one site together; none if no such rules are conceivable.

    One rule, or some about parameters: where the page is the same, none of these means anything.
    """
    one, other = _parts(a), _parts(b)
    if one is None or other is None:
        return []
    hosts = [one.host] if one.host == other.host else _longest_first(one.host, other.host)
    host = hosts[-1]
    found: set[Rule] = set()
    for each in differences(str(one), str(other)):
        if each[0] == "?" and _NAME.fullmatch(each[2:]):
            found.add(Rule("value" if each[1] == "~" else "drop", each[2:], host))
        elif len(hosts) > 1 and each[:4] == "host":
            found.add(Rule("host", "=".join(hosts), ""))
        elif one.scheme != other.scheme and each[:4] == "http":
            found.add(Rule("scheme", "", host))
        else:
            words = each.strip(">") if ">" in each[:1] + each[-1:] else ""
            found |= _of_path(one.path, other.path, words, host)
    many = len(found) > 1 and not {rule.kind for rule in found} <= PARAMETERS
    if many or len(found) > MOST_DIFFERENCES:
        return []
    rules = [(rule, Values()) for rule in found if rule.kind != "host"]
    left = {_under(url._replace(host=host), rules, []) for url in (one, other)}
    return [*found] if len(left) == 1 else []


def _of_path(a: str, b: str, words: str, host: str) -> set[Rule]:
    """Return the rule about the difference of two paths, if there is one; words: segments that only one has."""
    parts = [Rule("part", text, host) for text in (f"/{words}", words) if words]
    for rule in (Rule("slash", "", host), Rule("case", "", host), *parts):
        one, other = (_applied(_Url("", host, path, ()), rule, frozenset()) for path in (a, b))
        if one == other:
            return {rule}
    return set()


def values_of(key: str, name: str) -> Iterator[str]:
    """Yield the values of a parameter."""
    url = _parts(key)
    for each in () if url is None else url.query:
        if _name(each) == name:
            yield each.partition("=")[2]
