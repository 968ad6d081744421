"""What is promised (docs/explain/architecture.md, docs/reference/protocol.md), looked at as things happen.

- a page is dropped only when one within the distances was processed and its insert acknowledged;
- of each group of near-duplicates that was fetched to an end, one was kept;
- a key that an instance accepted is never dropped by it later, unless it was forgotten;
- once the log is drained, all replicas hold the same, which is what the log comes to;
- an acknowledged insert is in the log, and in every replica;
- nothing stays in flight but what expires.

"""

from typing import TYPE_CHECKING

from dedup.model.page import PageFingerprint, Verdict
from simulation.services import RESERVATION_SECONDS, Service

if TYPE_CHECKING:
    from simulation.world import Page, World


class Promises:
    """What was done and said, and what was wrong with it."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.wrongs: list[str] = []
        self.processed: set[str] = set()  # keys whose callback ended well
        self.kept: set[int] = set()  # groups of which a page was processed
        self.tried: set[int] = set()  # groups of which a page's way came to an end
        self.acknowledged: dict[str, PageFingerprint] = {}
        self.forgotten: set[str] = set()
        self.ever_forgotten: set[str] = set()

    def wrong(self, text: str) -> None:
        self.wrongs.append(f"{self.world.now:.3f}: {text}")

    def process(self, page: "Page") -> None:
        """A page was kept, and its callback ended well."""
        if page.key not in self.processed and page.group in self.kept:
            self.world.counts["late duplicates"] += 1
        self.world.counts["processed"] += page.key not in self.processed
        self.processed.add(page.key)
        self.kept.add(page.group)
        self.tried.add(page.group)

    def accept(self, page: "Page", service: Service) -> None:
        """An insert was acknowledged by a service."""
        self.acknowledged[page.key] = page.page
        if not self.world.with_log or page.key in self.world.log.content():
            self.forgotten.discard(page.key)  # else this insert came before it was forgotten
            service.accepted.add(page.key)

    def forget(self, page: "Page") -> None:
        for each in self.world.services:
            each.accepted.discard(page.key)
        self.forgotten.add(page.key)
        self.ever_forgotten.add(page.key)

    def judge(self, page: "Page", service: Service, verdict: Verdict) -> None:
        """Look at a verdict as it is given."""
        if verdict.status == "near_duplicate":
            self.judge_drop(page, verdict)
        if verdict.status in {"near_duplicate", "pending"} and page.key in service.accepted:
            self.wrong(f"{page.key} is {verdict.status} at {service.path.name}, which accepted it")

    def judge_drop(self, page: "Page", verdict: Verdict) -> None:
        of = verdict.of or ""
        original = next(each for each in self.world.pages if each.key == of)
        if of == page.key:
            self.wrong(f"{page.key} was called a duplicate of itself")
        if original.group != page.group:
            self.wrong(f"{page.key} was dropped for {of}, which is another content")
        if of not in self.processed:
            self.wrong(f"{page.key} was dropped for {of}, which nobody has processed")
        if self.world.with_log and not self.world.log.ever_had(of):
            self.wrong(f"{page.key} was dropped for {of}, which is not in the log")

    # -------------------------------------------------------------------------------- at the end

    def compare(self) -> None:
        world = self.world
        for group in self.tried - self.kept:
            self.wrong(f"of the group {group} no page was kept")
        for service in world.services:
            content, name = service.content(), service.path.name
            expected = world.log.content()
            if world.with_log and content != expected:
                self.wrong(f"{name} holds {content}, the log {expected}")
            for key, page in self.acknowledged.items():
                if key not in self.forgotten and content.get(key) != page:
                    self.wrong(f"{key} was acknowledged and is not at {name}")
            for each in service.in_flight():
                if each.expires > world.now + RESERVATION_SECONDS:
                    self.wrong(f"{each.verdict.document.key} stays in flight at {name}")
