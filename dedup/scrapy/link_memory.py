"""The links of a crawl's accepted pages: a near-duplicate with a link that none of them had is kept.

Invariant: forgetting keeps pages. A forgotten link counts as new.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

from dedup.core.files import replace_file
from dedup.core.hash_set import HashSet

__all__ = ["CrawlLinks", "LinkMemory"]

# 10 to 12.5 bytes each, so at most 125 MB, a tenth of what Scrapy's own filter takes.
MOST_LINKS = 10_000_000

_MAGIC = b"dedup links 1\n"
_DIGEST_BYTES = 16


class LinkMemory:
    """The links of the accepted pages of one namespace; beyond MOST_LINKS the oldest are forgotten."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._seen = HashSet(MOST_LINKS)

    def leads_on(self, links: bytes) -> bool:
        """Whether one of these links (PageReading.links) is new."""
        return self._seen.missing(links) > 0

    def learn(self, links: bytes) -> None:
        """Remember links."""
        self._seen.add(links)

    def save(self, path: Path) -> None:
        """Write the links to a file, whole or not at all. Raises OSError."""
        hashes = self._seen.to_bytes()
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, _MAGIC + blake2b(hashes, digest_size=_DIGEST_BYTES).digest() + hashes)

    def load(self, path: Path) -> bool:
        """Load the links of a file; False if it is incomplete. Raises OSError."""
        if not path.exists():
            return True
        content, start = path.read_bytes(), len(_MAGIC) + _DIGEST_BYTES
        digest, hashes = content[len(_MAGIC) : start], content[start:]
        if not content.startswith(_MAGIC) or len(hashes) % 8:
            return False
        if blake2b(hashes, digest_size=_DIGEST_BYTES).digest() != digest:
            return False
        self.learn(hashes)
        return True


class CrawlLinks:
    """The links of a crawl, by namespace; with a JOBDIR they are restored when it resumes.

    folder  the JOBDIR, or None
    fault   is called with an error and what it means
    """

    def __init__(self, folder: str | None, fault: Callable[[Exception, str], None]) -> None:
        """Open nothing yet."""
        self._folder = None if folder is None else Path(folder) / "dedup-links"
        self._fault = fault
        self._memories: dict[object, tuple[str, LinkMemory]] = {}
        self._in_flight: dict[str, tuple[object, bytes]] = {}  # by token

    def open(self, namespace: object, name: str) -> None:
        """Begin to remember the links of a namespace. Without this no link of it counts as new."""
        memory = LinkMemory()
        if self._folder is not None:
            path = self._folder / name
            try:
                if not memory.load(path):
                    raise ValueError(f"{path} is damaged")
            except (OSError, ValueError) as error:
                self._fault(error, "the links that this crawl has seen so far are forgotten")
        self._memories[namespace] = name, memory

    def new(self, namespace: object, links: bytes) -> frozenset[bytes]:
        """Return those links that no accepted page had."""
        if namespace not in self._memories:
            return frozenset()
        memory = self._memories[namespace][1]
        if not memory.leads_on(links):
            return frozenset()
        return frozenset(link for link in _each(links) if memory.leads_on(link))

    def in_flight(self, namespace: object, links: frozenset[bytes]) -> bool:
        """Whether all of these are on pages whose callbacks still run."""
        missing = set(links)
        for theirs, held in self._in_flight.values():
            if theirs is namespace:
                missing.difference_update(_each(held))
        return not missing

    def learn(self, namespace: object, links: bytes, token: str | None) -> None:
        """Remember the links of a page: at once, or, if it has a token, once it is accepted."""
        if namespace not in self._memories:
            return
        if token is None:
            self._memories[namespace][1].learn(links)
        else:
            self._in_flight[token] = namespace, links

    def ended(self, token: str, *, accepted: bool) -> None:
        """Note that a page is no longer in flight."""
        namespace, links = self._in_flight.pop(token, (None, b""))
        if accepted:
            self.learn(namespace, links, None)

    def close(self) -> None:
        """Save the links for the next run of the crawl, and free them."""
        for name, memory in self._memories.values():
            if self._folder is None:
                break
            try:
                memory.save(self._folder / name)
            except OSError as error:
                self._fault(error, "the links of this crawl are forgotten when it resumes")
        self._memories.clear()


def _each(links: bytes) -> Iterator[bytes]:
    return (links[at : at + 8] for at in range(0, len(links), 8))
