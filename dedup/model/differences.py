"""How a near-duplicate differs from its original: the one grammar of URL differences, and the signals of the pages.

    (original, page) -> differences() -> ("?+utm_source", "host:www>m") -> difference(): joined by a space
    two fingerprints -> signals() -> "nf": numbers and the template differ

A difference of URLs never holds a value, so that pages of one pattern have one difference:

    ?+NAME ?-NAME ?~NAME   a parameter was added, removed, has another value
    /INDEX:A>B             another segment of the path; A and B are # (a number), x (with digits), w (a word)
    A>B                    segments that only one of the paths has, by their words: ">amp", "print>"
    longer, shorter        the same, more than two of them
    host:A>B, host         another host, by the labels that differ, or with nothing in common
    http:>https:           the scheme
    slash                  a slash at the end
    =                      none
"""

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dedup.model.page import PARTS, TEXT_HASH, PageFingerprint

CHARACTERS = 200
MOST_PARAMETERS = 100
MOST_WORDS = 2  # segments that one path has and the other has not, which a difference names

WORDS, TITLE, UNKNOWN, GIVEN = "w", "t", "?", "g"
NUMBERS, HEADING, BESIDE, TEMPLATE = "n", "h", "b", "f"
DATA, PICTURES, ATTRIBUTES = "j", "s", "d"  # inline data, pictures, data attributes
SIGNALS = {part.letter: part.name for part in PARTS} | {
    WORDS: "words",
    TITLE: "title",
    GIVEN: "what its callback was given",
}

_DIGITS = re.compile(r"[\d.,_-]*\d[\d.,_-]*")
_SEGMENT = re.compile("/[0-9]+:([#xw])>([#xw])")


def signals(one: PageFingerprint, other: PageFingerprint, *, other_title: bool) -> str:
    """Return which signals of two pages differ, a letter each; "?" if those of one are not known."""
    found = TITLE * other_title
    if one.sketch[TEXT_HASH:] != other.sketch[TEXT_HASH:]:
        found += WORDS
    if not one.parts or not other.parts:
        return found + UNKNOWN
    if one.parts == other.parts:
        return found
    return found + "".join(p.letter for p in PARTS if one.parts[p.place] != other.parts[p.place])


def differences(original: str, page: str) -> tuple[str, ...]:
    """Return how one URL differs from another, without the values; ("?",) for what is no URL."""
    try:
        a, b = urlsplit(original), urlsplit(page)
        one, two = a.hostname or "", b.hostname or ""
    except ValueError:  # unbalanced brackets, and the like
        return ("?",)
    found = []
    if a.scheme != b.scheme:
        found.append(f"{a.scheme}:>{b.scheme}:")
    if a.netloc != b.netloc:
        found.append(_host(one, two))
    if a.path != b.path:
        found += _path(a.path.strip("/").split("/"), b.path.strip("/").split("/"))
        if a.path.endswith("/") != b.path.endswith("/"):
            found.append("slash")
    if a.query != b.query:
        found += _query(a.query, b.query)
    return tuple(found)


def difference(original: str, page: str) -> str:
    """Return the differences as one text; "=" if there are none."""
    return " ".join(differences(original, page))[:CHARACTERS] or "="


def undirected(difference: str) -> str:
    """Return a difference whichever of the two pages came first."""
    return " ".join(map(_undirected, difference.split(" ")))


def parameter_of(difference: str) -> str:
    """Return the parameter of a query that is all the difference; "" if it is another one, or more."""
    is_one = difference[:2] in {"?+", "?-", "?~"} and " " not in difference
    return difference[2:] if is_one else ""


def _undirected(found: str) -> str:
    if found[:2] in {"?+", "?-", "?~"}:
        return f"?{found[2:]}"
    if found in {"longer", "shorter"}:
        return "longer"
    is_placed = found.startswith(("/", "host:"))
    begin, colon, rest = found.rpartition(":") if is_placed else ("", "", found)
    return begin + colon + ">".join(sorted(rest.split(">")))


def in_words(difference: str) -> str:
    """Return a difference for people: "parameter `sid` added, on host `m`"."""
    return ", ".join(dict.fromkeys(map(_in_words, difference.split(" "))))


def _in_words(found: str) -> str:
    kinds = {"+": "added", "-": "removed", "~": "changed"}
    if found[:1] == "?" and found[1:2] in kinds:
        return f"parameter `{found[2:]}` {kinds[found[1]]}"
    if found[:1] == "?" and found[1:]:  # of an undirected difference
        return f"parameter `{found[1:]}`"
    if segment := _SEGMENT.fullmatch(found):
        kind = {"##": "number", "ww": "word"}.get(segment[1] + segment[2], "part")
        return f"another {kind} in the path"
    if found.startswith("host"):
        name = found.rpartition(">")[2]
        return (
            f"on host `{name}`"
            if name
            else "on the bare host"
            if ">" in found
            else "on another host"
        )
    if found in {"=", "?", "slash", "longer", "shorter"}:
        said = {"=": "the same URL", "?": "another URL", "slash": "a slash at the end"}
        return said.get(found, f"a {found} path")
    gone, _, new = found.partition(">")
    if gone.endswith(":"):
        return f"by {new[:-1]}"
    if gone and new:
        return f"`/{new}` for `/{gone}`"
    return f"`/{new or gone}` {'added' if new else 'removed'}"


def _host(one: str, two: str) -> str:
    a, b = one.split("."), two.split(".")
    shared = 0
    while a and b and a[-1] == b[-1]:
        a.pop()
        b.pop()
        shared += 1
    return f"host:{'.'.join(a)}>{'.'.join(b)}" if shared > 1 else "host"


def _path(a: list[str], b: list[str]) -> list[str]:
    if len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return [f"/{i}:{_form(u)}>{_form(v)}" for i, (u, v) in pairs if u != v]
    start, end = 0, 0
    least = min(len(a), len(b))
    while start < least and a[start] == b[start]:
        start += 1
    while end < least - start and a[-1 - end] == b[-1 - end]:
        end += 1
    gone, new = a[start : len(a) - end], b[start : len(b) - end]
    if len(gone) > MOST_WORDS or len(new) > MOST_WORDS:
        return ["longer" if len(b) > len(a) else "shorter"]
    return [f"{'/'.join(map(_literal, gone))}>{'/'.join(map(_literal, new))}"]


def _form(segment: str) -> str:
    """Return what a segment of a path is: "#" a number, "x" with digits, "w" without, as in "%C3%A9"."""
    segment = unquote(segment)
    if _DIGITS.fullmatch(segment):
        return "#"
    return "x" if any(map(str.isdigit, segment)) else "w"


def _literal(segment: str) -> str:
    form = _form(segment)
    return segment.replace(" ", "") if form == "w" else form


def _query(a: str, b: str) -> list[str]:
    one, two = _values(a), _values(b)
    return [
        f"?{'+' if name not in one else '-' if name not in two else '~'}{name.replace(' ', '')}"
        for name in sorted(one.keys() | two.keys())
        if one.get(name) != two.get(name)
    ]


def _values(query: str) -> dict[str, list[str]]:
    found: dict[str, list[Any]] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return {"": [query]}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found
