"""What is promised (docs/explain/architecture.md, docs/reference/protocol.md), looked at as things happen.

  - a page is dropped only when one within the distances was processed and its insert acknowledged;
  - of each group of near-duplicates that was fetched to an end, one was kept;
  - a key that an instance accepted is never dropped by it later, unless it was forgotten;
  - once the log is drained, all replicas hold the same, which is what the log comes to; a shard, what
    its partitions come to;
  - an acknowledged insert is in the log, and in every replica, or shard of its partition;
  - nothing stays in flight but what expires.

Of shards:

  - pages never wait for each other, be they two or more in a ring;
  - while a page is in flight or accepted, no near-duplicate of it is unique, unless who asked and
    who answered saw different shards, an instance was restarted, or it was accepted that very moment.
"""

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Any

from dedup.model.page import PageFingerprint, Verdict
from simulation.services import RESERVATION_SECONDS, Service

if TYPE_CHECKING:
    from simulation.world import Page, World


class Attempt:
    """One page, asked of all shards under one token.

    view        {partition: (service, its life)} as its spider saw it
    blocked_by  who were in flight where it was told to wait
    pinned      when its home counted it as accepted
    """

    def __init__(
        self, page: "Page", token: str, now: float, view: dict[int, tuple[Service, int]], home: int
    ) -> None:
        self.page, self.token, self.sent = page, token, now
        self.view, self.home = view, view[home][0] if home in view else None
        self.blocked_by: set[str] = set()
        self.verdict: Verdict | None = None
        self.answered: float | None = None
        self.everywhere = False  # every shard has it
        self.pinned: float | None = None
        self.over = False  # given back, or of a spider that crashed

    def stands(self) -> bool:
        """Whether the services are still those that it was asked of."""
        return all(service.up and service.life == life for service, life in self.view.values())

    def stood_all_the_while(self, since: float, now: float) -> bool:
        """Whether this page was in flight, or accepted, from then on until now."""
        if self.over or not self.everywhere or self.answered is None or self.answered > since:
            return False
        if self.pinned is None:
            return now < self.sent + RESERVATION_SECONDS
        return not since <= self.pinned <= now


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
        self.attempts: dict[str, Attempt] = {}  # by token

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
        """Look at a verdict as it is given. The service is the home of the page."""
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

    # ------------------------------------------------------------------------------- of shards

    def answered(self, attempt: Attempt, service: Service, verdict: Verdict) -> None:
        """Look at one shard's answer, as it is given."""
        if verdict.status == "near_duplicate":
            self.judge_drop(attempt.page, verdict)
            if self.world.log.home(verdict.of or "") not in service.share.partitions:
                self.wrong(f"{service.path.name} answers for {verdict.of}, which it gave up")
        if verdict.status == "pending":
            others = [each for each in service.in_flight() if each.document.key == verdict.of]
            counting = [each for each in others if self._counts(attempt, each, service)]
            if not counting:
                self.wrong(f"{attempt.page.key} is to wait where that is not decided")
            attempt.blocked_by |= {each.token for each in counting or others}

    def _counts(self, attempt: Attempt, held: Any, service: Service) -> bool:
        """Whether this service decides between a page and one in flight."""
        if held.expires == inf:  # accepted
            return True
        other = self.attempts[held.token]
        return (attempt if attempt.page.key < other.page.key else other).home is service

    def decided(self, attempt: Attempt, verdict: Verdict | None) -> None:
        """Look at the verdict that the answers came to."""
        world = self.world
        attempt.verdict, attempt.answered = verdict, world.now
        if verdict is None:
            return
        assert attempt.home is not None, "who was not asked has no say"
        self.judge(attempt.page, attempt.home, verdict)
        if verdict.status == "pending" and attempt in self._waited_for(attempt):
            self.wrong(f"{attempt.page.key} and others wait for each other")
        if verdict.status == "unique":
            others = [
                other
                for other in self.attempts.values()
                if other.page.group == attempt.page.group
                and other.page.key != attempt.page.key
                and other.page.key not in self.ever_forgotten
                and other.verdict is not None
                and other.verdict.token
                and not other.over
            ]
            world.counts["unique beside another"] += bool(others)
            for other in others:
                if (
                    attempt.stands()
                    and other.view == attempt.view
                    and other.stood_all_the_while(attempt.sent, world.now)
                ):
                    self.wrong(f"{attempt.page.key} is unique, beside {other.page.key}")

    def _waited_for(self, attempt: Attempt) -> Iterable[Attempt]:
        """All that a page waits for, and what these wait for."""
        found: set[Attempt] = set()
        todo = [attempt]
        while todo:
            for token in todo.pop().blocked_by:
                other = self.attempts.get(token)
                waits = other and other.verdict and other.verdict.status == "pending"
                if other is not None and waits and other not in found:
                    found.add(other)
                    todo.append(other)
        return found

    def kept_in_flight(self, attempt: Attempt) -> None:
        """Count why a page waited in vain, by who was last in its way."""
        for token in attempt.blocked_by:
            other = self.attempts[token]
            if other.verdict is None or other.over:
                why = "a fault, or given back late"
            elif other.verdict.token:
                why = "who was first went on"
            elif other.verdict.status == "pending":
                why = "who was first waited, too"
            else:
                why = "who was first was dropped"
            self.world.counts[f"kept in flight: {why}"] += 1
            return

    # -------------------------------------------------------------------------------- at the end

    def compare(self) -> None:
        world = self.world
        for group in self.tried - self.kept:
            self.wrong(f"of the group {group} no page was kept")
        for service in world.services:
            content, name = service.content(), service.path.name
            held = service.share.partitions if world.with_log else None
            expected = world.log.content(held)
            if world.with_log and content != expected:
                self.wrong(f"{name} holds {content}, the log {expected}")
            for key, page in self.acknowledged.items():
                ours = service.partitions is None or world.log.home(key) in service.partitions
                if ours and key not in self.forgotten and content.get(key) != page:
                    self.wrong(f"{key} was acknowledged and is not at {name}")
            for each in service.in_flight():
                if each.expires > world.now + RESERVATION_SECONDS:
                    self.wrong(f"{each.document.key} stays in flight at {name}")
