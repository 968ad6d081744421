"""What a crawl knows within one namespace."""

from scrapy import Request

from dedup.detector import AsyncDetector
from dedup.scrapy.evidence.link_budget import LinkBudget
from dedup.scrapy.evidence.patterns import Patterns
from dedup.scrapy.evidence.seen import SeenInCrawl
from dedup.scrapy.memory import NamespaceMemory
from dedup.scrapy.memory.state import Evidence


class Space(Evidence):
    """What a crawl knows within one namespace: its memory, and the evidence of its pages."""

    def __init__(
        self,
        name: str,
        memory: NamespaceMemory,
        seen: SeenInCrawl,
        patterns: Patterns[Request],
        budget: LinkBudget[Request],
    ) -> None:
        """Begin with what an earlier run of the job has found."""
        super().__init__(name, seen, patterns, budget)
        self.memory = memory
        # called with the meter running, which stops while this waits
        self.detector: AsyncDetector = memory.detector
        self.recipe = self.detector.recipe
