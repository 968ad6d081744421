"""What a crawl remembers: a store of its own (embedded.py), or a table service (service.py).

state.py  what a job needs to resume, in its JOBDIR; queue.py: Scrapy's own queue there, after a kill

Invariant: an error while a page is judged keeps the page, also while a service is unavailable. A memory itself counts
the results of insert, release and forget, at once or later; none of its errors reaches the crawl.
"""

from shlex import quote
from typing import Protocol

from dedup.detector import AsyncDetector
from dedup.model.errors import StoreLocked
from dedup.model.page import Verdict
from dedup.scrapy.guard import Counts
from dedup.scrapy.memory.state import Evidence, Job
from dedup.scrapy.settings import Config


class NamespaceMemory(Protocol):
    """The pages of one namespace."""

    @property
    def detector(self) -> AsyncDetector:
        """The detector of the pages. Called with the meter running, which stops while this waits."""

    def insert(self, verdicts: list[Verdict]) -> None:
        """Insert pages whose callbacks succeeded."""

    def release(self, verdict: Verdict) -> None:
        """Release a page."""

    def forget(self, key: str) -> None:
        """Forget a page that may have been inserted."""


class Memory(Protocol):
    """The namespaces of one crawl."""

    def open(self, namespace: str) -> NamespaceMemory:
        """Return a namespace, at its first page. Raises the error that prevents it."""

    async def close(self) -> str:
        """Finish, close everything, and return what is remembered, and where."""


class Space(Evidence):
    """What a crawl knows within one namespace: its memory, and the evidence of its pages."""

    def __init__(self, memory: NamespaceMemory, known: Evidence) -> None:
        """Begin with what an earlier run of the job has found."""
        super().__init__(known.name, known.seen, known.patterns, known.budget)
        self.memory = memory
        # called with the meter running, which stops while this waits
        self.detector: AsyncDetector = memory.detector
        self.recipe = self.detector.recipe


def open_memory(config: Config, job: Job, counts: Counts) -> Memory:
    """Return the memory of a crawl, as its settings say."""
    if config.service:
        from dedup.scrapy.memory.service import ServiceMemory

        return ServiceMemory(config, counts)
    from dedup.scrapy.memory.embedded import EmbeddedMemory

    return EmbeddedMemory(config, job, counts)


def advice(error: Exception, config: Config) -> str:
    """Return what to do about a store that cannot be opened, as a line after the message."""
    if isinstance(error, OSError) and not config.service:
        return f"\n[dedup] DEDUP_PATH is {config.path.absolute()}: set it to a folder that can be written"
    if not isinstance(error, StoreLocked):
        return ""
    return (
        f"\n[dedup] to share it between crawls run `dedup serve --path {quote(str(config.path.absolute()))}` "
        'before they begin, and set DEDUP_SERVICE = "auto"'
    )
