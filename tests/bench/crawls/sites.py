"""The sites: read from their sources, the pages that a crawl reaches first, and the content of each.

    sources (a Debian package, a git repository) -> pages by URL -> the first that links lead to -> content by XPath

A line of sites.tsv is a site, with these columns:

    name, kind    words of ours
    half          "open", or "held": by a coin, only looked at in the last measurement
    limit         so many pages, in the order in which links lead to them
    host          the name it is served under; other names of the same host after commas
    starts        paths that the crawl begins with
    content       XPath of the content, further ones after "else"; the first match that has text counts
    without       XPath of what is no part of it, beside scripts, navigation, header and footer
    sources       apt:PACKAGE@VERSION:FOLDER>PREFIX or git:OWNER/NAME@COMMIT:FOLDER>PREFIX; the part below the folder
                  is appended to the prefix; only=REGEX: of such paths alone; query=@ says that
                  NAME@QUERY.html is how NAME?QUERY was saved

What was built is kept in the user's cache folder. Another version of a package than the table's is refused.
"""

import csv
import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import lxml.etree
import lxml.html
import msgspec

FORM = 1  # of what is kept: raised when build() gives something else for the same line
TABLE = Path(__file__).with_name("sites.tsv")
MOST_BYTES = 1_000_000  # of a page; a larger one is left out
NO_CONTENT = ("script", "style", "noscript", "template", "nav", "header", "footer")

ANCHOR = re.compile(
    r"""(<(?:a|area)\b[^>]*?\s)href(\s*=\s*)("[^"]*"|'[^']*'|[^\s>"']+)""",
    re.IGNORECASE | re.DOTALL,
)
IS_PAGE = re.compile(r"<(html|head|body)\b", re.IGNORECASE)
MOVED = re.compile(r"<title>Page has moved</title>", re.IGNORECASE)  # HTTrack's note of a redirect
HTML_FILE = re.compile(r"\.html?(\.\w+)?$", re.IGNORECASE)
BASE = re.compile(r"""<base\b[^>]*\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A line of the table."""

    name: str
    kind: str
    half: str
    limit: int
    host: str
    starts: tuple[str, ...]
    content: str
    without: str
    sources: tuple[str, ...]


class Page(msgspec.Struct):
    """A page of a built site: its key (host and path), and the text of its content."""

    key: str
    html: str
    text: str


class BuiltSite(msgspec.Struct):
    """A site as it is kept."""

    name: str
    host: str
    starts: list[str]
    pages: list[Page]


def table() -> dict[str, Source]:
    """Return the sites by name."""
    found = {}
    with TABLE.open(newline="") as file:
        for line in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            split = {n: tuple(line[n].split()) for n in ("starts", "sources")}
            found[line["name"]] = Source(**{**line, **split, "limit": int(line["limit"])})
    return found


def built(source: Source, cache: Path, clones: Path | None) -> BuiltSite:
    """Return a site, from the cache if it is there. Raises OSError where a source is not to be had."""
    identity = hash_of(f"{FORM} {msgspec.json.encode(source).decode()}")
    kept = cache / f"{source.name}-{identity:016x}.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=BuiltSite)
    site = build(source, files(source, cache, clones))
    cache.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(msgspec.json.encode(site))
    return site


def build(source: Source, octets: dict[str, bytes]) -> BuiltSite:
    """Make a site of its files by path."""
    host, *others = source.host.split(",")
    mark = next((each for each in source.sources if each.startswith("query=")), "")
    pages = {}
    for path, body in octets.items():
        html = _decoded(body)
        if IS_PAGE.search(html[:3000]) and not MOVED.search(html[:3000]):
            names = "|".join(map(re.escape, (host, *others)))
            html = re.sub(rf"https?://(?:{names})(?=[/\"'?#])", f"http://{host}", html)
            if mark:
                html = ANCHOR.sub(partial(_relinked, mark[6:]), html)
            pages[host + path] = html
    starts = [f"http://{host}{path}" for path in source.starts]
    reached: dict[str, None] = {}
    queue = deque(key for url in starts if (key := lookup(pages, key_of(url))))
    while queue and len(reached) < source.limit:
        key = queue.popleft()
        if key not in reached:
            reached[key] = None
            queue += [k for _, k, _ in links(pages[key], f"http://{key}", {host}, pages) if k]
    if not reached:
        raise OSError(f"{source.name}: none of {', '.join(source.starts)} is a page of its sources")
    found = [Page(key, pages[key], content(pages[key], source)) for key in reached]
    return BuiltSite(source.name, host, starts, found)


# ------------------------------------------------------------------------------------ sources


def files(source: Source, cache: Path, clones: Path | None) -> dict[str, bytes]:
    """Return the HTML files of all sources, by the path that they are served under."""
    options = dict(e.split("=", 1) for e in source.sources if not e.startswith(("apt:", "git:")))
    found: dict[str, bytes] = {}
    for each in source.sources:
        if place := re.fullmatch(r"(apt|git):(\S+?)@([^\s:]*(?::\d[^:]*)?):(.*)>(.*)", each):
            kind, name, version, folder, prefix = place.groups()
            if kind == "apt":
                read = _in_folder(package_tree(name, version, cache) / folder)
            else:
                read = _in_repository(clone_of(name, cache, clones), version, folder.strip("/"))
            for path, body in read:
                served = f"{prefix}/{path}"
                if HTML_FILE.search(path) and re.search(options.get("only", ""), served):
                    found[_asked(served, options.get("query"))] = body()
    return {path: body for path, body in found.items() if 0 < len(body) <= MOST_BYTES}


def package_tree(name: str, version: str, cache: Path) -> Path:
    """Return where a Debian package is unpacked; it is downloaded where it is missing."""
    tree = cache / "packages" / f"{name}_{version.replace(':', '%3a')}"
    if not tree.is_dir():
        tree.parent.mkdir(parents=True, exist_ok=True)
        download = ["apt-get", "download", "-qq", f"{name}={version}"]
        subprocess.run(download, cwd=tree.parent, check=True)
        (archive,) = tree.parent.glob(f"{tree.name}_*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, tree], check=True)
    return tree


def clone_of(name: str, cache: Path, clones: Path | None) -> Path:
    """Return the git directory of a repository; it is cloned where it is missing."""
    clone = (clones or cache / "clones") / name
    if not clone.exists():
        clone.parent.mkdir(parents=True, exist_ok=True)
        address = f"https://github.com/{name}"
        subprocess.run(["git", "clone", "-q", "--mirror", address, clone], check=True)
    return clone


def _in_folder(folder: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink():
            yield str(file.relative_to(folder)), file.read_bytes


def _in_repository(
    clone: Path, commit: str, folder: str
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    git = ["git", f"--git-dir={clone}"]
    tree = [*git, "ls-tree", "-r", "-z", "--full-tree", commit, *([folder] if folder else [])]
    listed = subprocess.run(tree, check=True, capture_output=True).stdout.decode("utf8", "replace")
    with subprocess.Popen([*git, "cat-file", "--batch"], stdin=-1, stdout=-1) as reader:
        assert reader.stdin
        assert reader.stdout

        def body(blob: str) -> bytes:
            reader.stdin.write(f"{blob}\n".encode())
            reader.stdin.flush()
            head = reader.stdout.readline().split()
            # Of a clone that lacks the blob there is no size.
            return reader.stdout.read(int(head[2]) + 1)[:-1] if len(head) == 3 else b""

        for line in filter(None, listed.split("\0")):
            entry, path = line.split("\t", 1)
            yield path.removeprefix(folder).lstrip("/"), partial(body, entry.split()[2])


def _asked(saved: str, mark: str | None) -> str:
    """Return the path and query that were saved under a name: a link's, too."""
    if mark is None:
        return saved
    return re.sub(rf"{re.escape(mark)}(?=[\w-]+=)(.*?)\.html(?=#|$)", r"?\1", saved)


def _relinked(mark: str, link: re.Match[str]) -> str:
    value = unescape(link[3].strip("\"'")).replace("%3F", "?").replace("%3f", "?")
    return f'{link[1]}href{link[2]}"{escape(_asked(value, mark))}"'


def _decoded(body: bytes) -> str:
    declared = re.search(rb"charset=[\"']?([\w-]+)", body[:3000])
    for encoding in ("utf8", declared[1].decode() if declared else "utf8"):
        try:
            return body.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return body.decode("latin-1")


# --------------------------------------------------------------------------- addresses and links


def hash_of(text: str) -> int:
    """Return 64 bits that are the same in every process."""
    value = 0xCBF29CE484222325
    for octet in text.encode("utf8", "replace"):
        value = (value ^ octet) * 0x100000001B3 & (1 << 64) - 1
    return value ^ value >> 29


def key_of(url: str) -> str:
    """Return host, path and query of a URL."""
    parts = urlsplit(url)
    query = "?" + unquote(parts.query) if parts.query else ""
    return (parts.hostname or "") + unquote(parts.path or "/") + query


def lookup(pages: object, key: str) -> str | None:
    """Return the key of the page that a server would send for one, or None."""
    bare = key.split("?", 1)[0]
    folder = bare.rstrip("/")
    tried = (key, bare, f"{key}.html", f"{folder}/index.html", f"{folder}.html")
    return next((k for k in tried if k in pages), None)  # type: ignore[operator]


def links(
    html: str, url: str, hosts: set[str], pages: object
) -> Iterator[tuple[re.Match[str], str | None, str]]:
    """Yield the links of a page that stay on its site: the match, the key of the page or None, the URL."""
    declared = BASE.search(html[:5000])
    base = urljoin(url, declared[1]) if declared else url
    for match in ANCHOR.finditer(html):
        value = unescape(match[3].strip("\"'")).strip()
        if not value or value.startswith(("#", "javascript:", "mailto:", "data:", "tel:")):
            continue
        try:
            target = urljoin(base, value)
            host = urlsplit(target).hostname
        except ValueError:
            continue
        if target.startswith("http") and host in hosts:
            yield match, lookup(pages, key_of(target)), target


# ------------------------------------------------------------------------------------- content


def content(html: str, source: Source) -> str:
    """Return the text of a page's content, or of the whole page where its rule finds none."""
    parser = lxml.html.HTMLParser(encoding="utf8", huge_tree=True, remove_comments=True)
    try:
        tree = lxml.html.document_fromstring(html.encode("utf8", "replace"), parser=parser)
    except (lxml.etree.LxmlError, AssertionError):
        return ""
    for found in tree.xpath("|".join(f"//{tag}" for tag in NO_CONTENT)):
        found.drop_tree()
    for found in tree.xpath(source.without) if source.without else ():
        found.drop_tree()
    found = (each for rule in source.content.split(" else ") for each in tree.xpath(rule))
    texts = (" ".join(" ".join(each.itertext()).split()) for each in found)
    whole = tree.find("body")
    return next(filter(None, texts), "") or " ".join(
        " ".join((tree if whole is None else whole).itertext()).split()
    )
