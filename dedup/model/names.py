"""What documents, namespaces and sites are called, a number of them in a message, and tokens as text.

    URL -> document key (who a page is) -> registrable domain (whose it is)
    a spider's name -> namespace (the folder a store lies in)
    2000, "document" -> "2,000 documents"; tokens -> running text; an extra -> how it is installed

Pure functions of their arguments: no file and no network is touched, the public suffix list is the
one that publicsuffixlist brings along.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dedup.model.errors import UsageError

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

HOST_BYTES = 255  # the longest name that a resolver takes
NAMESPACE_LENGTH = 64
NAMESPACE = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}"

# The host of a URL where that is plain to see: no user, no capital, no bracket.
_PLAIN_HOST = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]*)?(?:[/?#]|\Z)")

# URLs that w3lib leaves as they are, whatever it does to others: most that a crawl meets. No user,
# no escape, no parameter, no segment that begins with a dot or is empty; a query needs its sorting
# looked at.
_PLAIN = re.compile(
    r"https?://[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,4}(?::[1-9][0-9]{0,3}|:[1-5][0-9]{4})?"
    r"/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*)?"
    r"(?:\?([A-Za-z0-9._~-]+=[A-Za-z0-9._~-]*(?:&[A-Za-z0-9._~-]+=[A-Za-z0-9._~-]*)*))?"
)

# And those whose folder stands where everybody sees it.
_FOLDER = re.compile(
    r"https?://[A-Za-z0-9.:-]+(/(?:[^?#\t\r\n]*/)?)[^/?#\t\r\n]*(?:[?#]|\Z)", re.ASCII
)


def install(extra: str) -> str:
    """Return how an extra is installed; the package is on no index yet."""
    return f"pip install '.[{extra}]' in the checkout of crawl-dedup"


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 document", "2,000 documents"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def running(words: Sequence[str]) -> str:
    """Return words as running text; the character pairs that Chinese comes in are joined again."""
    pieces: list[str] = []
    last = ""
    for word in words:
        if len(last) == len(word) == 2 and last[1] == word[0] and _in_pairs(word[0]):
            pieces.append(word[1])
        else:
            pieces.append(f" {word}")
        last = word
    return "".join(pieces)[1:]


def _in_pairs(character: str) -> bool:
    return character >= "\u2e80" or "\u0e00" <= character <= "\u0e7f"


def check_namespace(namespace: str) -> str:
    """Return the namespace as it came, or raise UsageError if it is not a valid one."""
    if not isinstance(namespace, str) or not re.fullmatch(NAMESPACE, namespace):
        raise UsageError(
            f"namespace {namespace!r} is not allowed: 1 to {NAMESPACE_LENGTH} of the characters "
            "A-Z a-z 0-9 . _ - and no dot first"
        )
    return namespace


def namespace_of(name: str) -> str:
    """Return the namespace that a spider's name stands for: other characters become "-".

    The result is cut to 64 characters. Raises UsageError for an empty name.
    """
    if not name:
        raise UsageError("an empty name gives no namespace")
    text = re.sub(r"[^A-Za-z0-9._-]", "-", name)[:NAMESPACE_LENGTH]
    return "-" + text[1:] if text.startswith(".") else text


def document_key(url: str) -> str:
    """Return the document key of a requested URL: its canonical form, without the fragment.

    That is w3lib.url.canonicalize_url(url), which takes its time even over plain URLs.
    """
    if (plain := _PLAIN.fullmatch(url)) and (plain[1] is None or _is_sorted(plain[1])):
        return url
    # w3lib and publicsuffixlist are imported where they are used: a process that only reads a store
    # needs neither.
    from w3lib.url import canonicalize_url

    return canonicalize_url(url)


def _is_sorted(query: str) -> bool:
    if "&" not in query:
        return True
    arguments = [argument.split("=") for argument in query.split("&")]
    return arguments == sorted(arguments)


def registrable_domain(url: str) -> str:
    """Return the registrable domain of a URL ("example.co.uk"), or "" if it names no host.

    A host without a public suffix (an IP address, localhost, an intranet name) stands for itself,
    without its port. A host of more than 255 bytes is no name.
    """
    if plain := _PLAIN_HOST.match(url):  # as most are; urlsplit takes several times as long
        return _domain_of_host(plain[1]) if len(plain[1]) <= HOST_BYTES else ""
    try:
        host = urlsplit(url).hostname
    except ValueError:  # unbalanced brackets, and the like
        return ""
    return _domain_of_host(host) if host and len(host) <= HOST_BYTES else ""


def site_of(key: str, url: str | None = None, domain: str | None = None) -> str:
    """Return the registrable domain of a document: the one that is given, else its URL's or its key's.

    It is "" where none of them has one. Raises UsageError for a key that is no text.
    """
    if not isinstance(key, str):
        raise UsageError(f"document key {key!r} is not allowed: a text, a URL by default")
    return domain or (registrable_domain(url) if url else "") or registrable_domain(key)


def folder_of(url: str) -> str:
    """Return the path of a URL up to its last slash; "/" for what cannot be taken apart."""
    if plain := _FOLDER.match(url):
        return plain[1]
    try:
        path = urlsplit(url).path
    except ValueError:
        path = ""
    return path.rpartition("/")[0] + "/"


@lru_cache(maxsize=16_384)
def _domain_of_host(host: str) -> str:
    host = host.rstrip(".")
    if "." not in host or ":" in host or host.rpartition(".")[2].isdigit():
        return host  # not a name under a public suffix: the list need not be loaded, which is slow
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:  # not a name that a resolver would take; it still is a name
            if len(host.encode("utf-8", "surrogatepass")) > HOST_BYTES:
                return ""
    # what stands before an empty label is no part of a name
    labels = host.rpartition("..")[2].lstrip(".")
    top = labels.rpartition(".")[2].lower()
    return _suffixes(_OTHER_SCRIPT if top.startswith("xn--") else top).privatesuffix(labels) or host


# Instead of a top-level domain: all that are not written in ASCII.
_OTHER_SCRIPT = ""


@cache
def _suffixes(top: str) -> "PublicSuffixList":
    """Return the public suffixes below a top-level domain: to take in all 7,000 would cost each crawl 30 ms."""
    from publicsuffixlist import PublicSuffixList

    last = re.escape(top) or r"[^\s.]*[^\x00-\x7f][^\s.]*"
    rules = re.findall(rf"^(?:[^\s/].*\.)?{last}[ \t]*$", _rules(), re.MULTILINE)
    return PublicSuffixList("\n".join(rules), accept_unknown=False)


@cache
def _rules() -> str:
    """Return the rules of the public suffix list, a line each, without private ones."""
    from publicsuffixlist import PSLFILE

    every = Path(PSLFILE).read_text("utf-8").partition("===BEGIN ICANN")[2]
    return every.partition("===END ICANN")[0].lower()
